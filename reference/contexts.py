"""Contexts on demand: the sequences of requests that may be no seeds of any split.

Follows the specification of contexts. A request names an anchor row, by its key or its number, and perhaps a time
and a seed. It is looked up among the task's seeds: one that is found has that seed's label and draws, any other has
no label and draws by its own seed. From there on it is a sample as in any batch.
"""

from dataclasses import dataclass
from typing import Any

from . import values
from .batch import BatchBuilder, TrainingBatch
from .errors import WeirError
from .sampler import Cursor
from .schema import SPLITS
from .sequence import SequenceMaker
from .tasks import Seed, Task
from .timestamps import ALWAYS, SEES_EVERYTHING
from .walk import WalkDraws

NO_SAMPLE = 2**64 - 1


@dataclass
class Request:
    key: list[Any] | None = None  # one value for each column of the primary key
    row: int | None = None
    time: int | None = None
    seed: int | None = None
    is_destination: bool = False  # of a link task


def build_contexts(builder: BatchBuilder, task_name: str, requests: list[Request]) -> TrainingBatch:
    """One batch of all requests, in their order."""
    task = next((task for task in builder.store.tasks if task.name == task_name), None)
    if task is None:
        raise WeirError("INVALID_DATASET_KEY", f"the store has no task {task_name!r}")
    maker = SequenceMaker(builder.store, task, builder.manifest.batch)
    sequences = []
    for request in requests:
        if request.is_destination and task.destinations is None:
            raise WeirError("CONTRACT_VIOLATION", f"task {task.name} has no destinations")
        row = _row_of(task, request)
        time = _time_of(task, row, request)
        sample, seed = _stored_seed(task, row, time)
        if task.destinations is not None:
            sample = NO_SAMPLE if request.is_destination else sample
            seed = Seed(row, time, None, seed.split)
        is_as_stored = sample != NO_SAMPLE and request.seed is None
        position = sample if is_as_stored else request.seed or 0
        dataset = f"{builder.store.name}/{task.name}/{seed.split if is_as_stored else 'context'}"
        group_size = builder._group_size(task, "eval") if is_as_stored else 1
        draws = WalkDraws(builder.walk_seed(dataset, 0), position * group_size)
        if sample == NO_SAMPLE and maker.task_rows is not None:
            maker.task_rows.admit(seed)
        sequences.append(maker.make(seed, draws, sample, 0, position))
    return builder._collated(maker.config, "", task, sequences, Cursor(0, 0))


def _row_of(task: Task, request: Request) -> int:
    anchor = task.destinations.table if request.is_destination and task.destinations else task.anchor
    if request.key is None:
        if request.row is None:
            raise WeirError("CONTRACT_VIOLATION", "a request needs a key or a row")
        if request.row - anchor.first_number not in range(len(anchor.rows)):
            raise WeirError("KEY_NOT_FOUND", f"row {request.row} is not one of {anchor.name}")
        return anchor.row_start + request.row - anchor.first_number
    if not anchor.keeps_keys:
        raise WeirError("CONTRACT_VIOLATION", f"the store keeps no keys of {anchor.name}")
    if len(request.key) != len(anchor.primary_key):
        raise WeirError("CONTRACT_VIOLATION", f"the key of {anchor.name} has {len(anchor.primary_key)} columns")
    key = tuple(values.key_order(value) for value in request.key)
    found = anchor.rows_by(anchor.primary_key)
    if key not in found:
        raise WeirError("KEY_NOT_FOUND", f"{anchor.name} has no row with the key {request.key!r}")
    return found[key]


def _time_of(task: Task, row: int, request: Request) -> int:
    given = request.time
    table = task.destinations.table if request.is_destination and task.destinations else task.anchor
    since = table.row_time(row)
    if given is None:
        return SEES_EVERYTHING if since == ALWAYS else since
    if given == ALWAYS:
        raise WeirError("CONTRACT_VIOLATION", "a time of -2^63")
    moves = task.schema.before_anchor == "move" and not request.is_destination
    return max(given, since) if moves else given


def _stored_seed(task: Task, row: int, time: int) -> tuple[int, Seed]:
    """The first seed that the request is, and its sample's index; or a seed for a request that is none."""
    for split in SPLITS:
        for sample, seed in enumerate(task.seeds_of(split)):
            if (seed.row, seed.time) == (row, time):
                return sample, seed
    target = None if task.column is None else task.anchor.cell(row, task.column.name)
    return NO_SAMPLE, Seed(row, time, target, "")
