"""weir.Sampler: which samples a rank takes, as random access, as steps, and as torch's samplers."""

from __future__ import annotations

import hashlib
import operator
import os
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Any

from weir import _weir, _wrappers
from weir._environment import rank_and_world_size
from weir._manifest import Manifest, as_manifest, only_dataset
from weir._options import answer_unknown
from weir.errors import CheckpointMismatch

Cursor = tuple[int, int]


class Sampler(_weir.Sampler):
    """The order of a dataset's samples, for one rank: a pure function of the manifest, at O(1) for every position.

    Iterating gives this rank's samples of one epoch, then of the next: what torch's DataLoader takes as `sampler=`
    (with `batch_size=sampler.batch_size`). `batches()` gives lists of samples, one per step: its `batch_sampler=`. No
    epoch is ever shuffled as a whole, so memory and start-up do not grow with the dataset.

        >>> sampler = Sampler("shop.manifest.json", "shop/churn/train", rank=1, world_size=4)
        >>> sampler.batch_size
        8
        >>> first = next(iter(sampler.batches()))
        >>> first == sampler.step(0, 0)["indices"].tolist()
        True
        >>> 0 <= sampler.index_at(epoch=7, position=11) < sampler.cardinality
        True

    rank and world_size are those of torchrun, MPI or Slurm if they are not given.
    """

    dataset: str
    rank: int
    world_size: int
    stage: str
    manifest: Manifest
    _is_stream: bool
    _drops_last: bool
    _starts: list[int]  # where each size of batch begins in a round of all of them, and where that ends
    _cursor: Cursor  # where the next loop begins …
    _given: int  # … and what is left out there, since it was given before
    _now: _Step | None  # the step that a loop is in
    _token: bytes
    _reader: _wrappers.Reader | None  # who reads ahead of the loop

    @answer_unknown
    def __new__(
        cls,
        manifest: Manifest | str | os.PathLike[str] | Mapping[str, Any],
        dataset: str | None = None,
        *,
        rank: int | None = None,
        world_size: int | None = None,
        stage: str = "train",
        token: bytes | None = None,
    ) -> Sampler:
        opened = as_manifest(manifest)
        key = only_dataset(opened, dataset)
        rank, world_size = rank_and_world_size(rank, world_size)
        self = cls._open(opened, key, stage, rank, world_size, token)
        self.manifest, self.dataset, self.stage, self.rank, self.world_size = opened, key, stage, rank, world_size
        data = opened.document["data"]
        self._is_stream = stage == "train" and data.get("epoch_boundary") == "stream"
        self._drops_last = stage == "train" and bool(data.get("drop_last"))
        self._starts = _batch_starts(opened, stage)
        self._cursor, self._given = self._epoch_start(0), 0
        self._now, self._reader = None, None
        self._token = opened.token if token is None else token
        return self

    # ---- Steps ----

    @property
    def batch_size(self) -> int:
        """Samples of this rank in a full step; of the longest sequences, if steps have several lengths."""
        return self.manifest.global_batch_size // self.world_size

    def step(self, epoch: int, position: int) -> dict[str, Any]:
        """All about the step at a cursor: indices (an array), valid_count, cursor_next, hashes."""
        return self._step(epoch, position)

    def first_step_of(self, epoch: int) -> int:
        """The first step that begins in an epoch, of a run over this dataset alone that begins at epoch 0."""
        if self._is_stream:
            return self._batches_up_to(epoch * self.cardinality)
        return epoch * self._batches_up_to(self.cardinality, self._drops_last)

    def steps_in(self, epoch: int) -> int:
        """The number of steps that begin in an epoch."""
        return self.first_step_of(epoch + 1) - self.first_step_of(epoch)

    def cursor_of(self, step: int) -> Cursor:
        """(epoch, position) of a step of a run over this dataset alone, counted from the first of epoch 0."""
        if self._is_stream:
            return divmod(self._start_of(step), self.cardinality)
        epoch, step_in_epoch = divmod(step, self.steps_in(0))
        return epoch, self._start_of(step_in_epoch)

    def _start_of(self, batch: int) -> int:
        """The positions that the batches before one take."""
        rounds, turn = divmod(batch, len(self._starts) - 1)
        return rounds * self._starts[-1] + self._starts[turn]

    def _batches_up_to(self, end: int, drops_last: bool = False) -> int:
        """The batches that begin before a position, the last one left out if it is to be dropped and goes beyond it."""
        rounds, rest = divmod(end, self._starts[-1])
        batches = rounds * (len(self._starts) - 1) + bisect_left(self._starts, rest)
        return batches - (drops_last and self._start_of(batches) > end)

    def _epoch_start(self, epoch: int) -> Cursor:
        """Where the first step of an epoch begins: after the batch that the epoch before ends in."""
        return epoch, self._start_of(self.first_step_of(epoch)) - epoch * self.cardinality if self._is_stream else 0

    # ---- As torch's samplers ----

    @property
    def epoch(self) -> int:
        """The epoch that a loop is in, or that the next one gives."""
        return self._now.cursor[0] if self._now else self._cursor[0]

    def set_epoch(self, epoch: int) -> None:
        """The epoch that the next loop gives. Not needed: each loop is the next epoch by itself. If load_state_dict
        has set a place in that epoch, the place stays."""
        if self._now or self._cursor[0] != epoch:
            self._now, self._cursor, self._given = None, self._epoch_start(epoch), 0

    def batches(self) -> BatchSampler:
        """The same as lists of samples, one per step."""
        return BatchSampler(self)

    def __len__(self) -> int:
        """Samples of this rank in the epoch."""
        if self.steps_in(self.epoch) == 0:
            return 0
        first = self._epoch_start(self.epoch)[1]
        last = self._last_step()
        return int((last["position"] - first) // self.world_size + last["valid_count"])

    def _last_step(self) -> dict[str, Any]:
        """The last step that begins in the epoch, which must have one, and its position."""
        batch = self.first_step_of(self.epoch + 1) - 1
        epoch, position = self.cursor_of(batch)
        return {**self.step(epoch, position), "position": position}

    def __iter__(self) -> Iterator[int]:
        for step in self._steps():
            yield from step.rest

    def _steps(self) -> Iterator[_Step]:
        """What is left of the epoch. A loop that was left in the middle is begun again, as torch's samplers do."""
        self._reader = _wrappers.check_samples(self.world_size)
        if self._now:
            self.set_epoch(self._now.cursor[0])
        cursor, given = self._cursor, self._given
        epoch = cursor[0]
        if self.steps_in(epoch) == 0:
            self._cursor = self._epoch_start(epoch + 1)
            return
        while cursor[0] == epoch:
            indices, next_epoch, next_position = self._take(*cursor)
            self._now = step = _Step(cursor, (next_epoch, next_position), indices, given)
            yield step
            cursor, given = step.cursor_next, 0
        self._now, self._cursor, self._given = None, cursor, 0

    def state_dict(self) -> dict[str, Any]:
        """Where a loop stands: integers and text, for any file format. `epoch` and `position` are of the next step, over
        all ranks; `given` is how many of its samples this rank has already given."""
        if self._reader and (self._now or self._reader.wrapper()):
            raise RuntimeError(
                f"{self._reader.name} reads ahead of the loop, so this state would count samples that the loop has not seen; use "
                "torchdata's StatefulDataLoader, which keeps the state that belongs to each batch, or num_workers=0"
            )
        cursor, given = (self._cursor, self._given) if self._now is None else self._now.place()
        return {**self._identity(), "world_size": self.world_size, "epoch": cursor[0], "position": cursor[1], "given": given}

    def _identity(self) -> dict[str, Any]:
        """What must be the same for a state to be resumed."""
        return {
            "version": 2,
            "manifest_hash": self.manifest.hash,
            "token_hash": hashlib.sha256(self._token).hexdigest(),
            "dataset": self.dataset,
            "stage": self.stage,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes the next loop resume there. Another world size resumes exactly between two steps: every sample of the epoch
        comes once. A state of another manifest, dataset, stage or token, or one inside a step for another world size, is
        weir.errors.CheckpointMismatch, which says what differs, and changes nothing."""
        found = state if isinstance(state, Mapping) else {}
        if found.get("version") != 2:
            raise ValueError(f"this is not the state_dict() of a weir.Sampler: its version is {found.get('version')!r}, not 2")
        for name, own in self._identity().items():
            if found.get(name) != own:
                raise _mismatch(name, found.get(name), own, "make the sampler as it was when the state was saved")
        epoch, position, given, world_size = (
            _number(found, name) for name in ("epoch", "position", "given", "world_size")
        )
        if given and world_size != self.world_size:
            way_out = f"the state lies inside a step ({given} samples of it were given on each rank), which only the same " \
                "world size can finish; save between steps, as batches() always does"
            raise _mismatch("world_size", world_size, self.world_size, way_out)
        self._check_place(epoch, position, given)
        self._now, self._cursor, self._given, self._reader = None, (epoch, position), given, None

    def _check_place(self, epoch: int, position: int, given: int) -> None:
        """Refuses a place that no loop of this sampler comes to."""
        start = position + epoch * self.cardinality if self._is_stream else position
        turn = bisect_left(self._starts, start % self._starts[-1])
        size = self._starts[turn + 1] - self._starts[turn] if start % self._starts[-1] == self._starts[turn] else -1
        if position >= self.cardinality or given * self.world_size > size:
            raise ValueError(f"the state is damaged: no step begins at position {position} of epoch {epoch}")

    def __repr__(self) -> str:
        return f"<weir.Sampler {self.dataset} ({self.stage}), rank {self.rank} of {self.world_size}>"


def _batch_starts(manifest: Manifest, stage: str) -> list[int]:
    """The sums of the batch sizes that steps have in turn: one, but in a training of several lengths."""
    size = manifest.global_batch_size
    lengths = manifest.batch_config["sequence_length"]
    if stage != "train" or isinstance(lengths, int):
        return [0, size]
    return list(accumulate((size * max(lengths) // length for length in lengths), initial=0))


def _mismatch(name: str, saved: object, own: object, way_out: str) -> CheckpointMismatch:
    return CheckpointMismatch(
        {
            "code_id": "CHECKPOINT_MISMATCH",
            "numeric_code": 2008,
            "subsystem": "pipeline",
            "failure_operator": "weir.Sampler.load_state_dict",
            "message": f"the state's {name} is {saved}, and this sampler's is {own}; {way_out}",
            "diagnostics": {"field": name, "saved": str(saved), "own": str(own)},
        }
    )


def _number(state: Mapping[str, Any], name: str) -> int:
    number = state.get(name)
    if type(number) is not int or not 0 <= number < 2**64:
        raise ValueError(f"the state is damaged: its {name} is {number!r}")
    return number


class _Step:
    """A step that a loop is in. What was given of it is what its iterator no longer has: nothing is counted per sample."""

    __slots__ = ("cursor", "cursor_next", "rest", "size")

    def __init__(self, cursor: Cursor, cursor_next: Cursor, indices: list[int], given: int) -> None:
        self.cursor, self.cursor_next, self.size = cursor, cursor_next, len(indices)
        self.rest = iter(indices[given:] if given else indices)

    def place(self) -> tuple[Cursor, int]:
        """The cursor that resuming begins at, and the samples to leave out there."""
        left = operator.length_hint(self.rest)
        return (self.cursor, self.size - left) if left else (self.cursor_next, 0)


class BatchSampler:
    """The steps of a sampler as lists of samples: torch's `batch_sampler=`. It shares the sampler's state.

    The last step of an epoch may be partial, and may have no samples for this rank; then this rank has a step less.
    Where ranks must take steps together, as in DDP, let the manifest say `drop_last` or `"epoch_boundary": "stream"`.
    """

    def __init__(self, sampler: Sampler) -> None:
        self.sampler = sampler
        self.batch_size = sampler.batch_size
        self.drop_last = sampler._drops_last

    def __len__(self) -> int:
        """Steps in the epoch that have samples for this rank."""
        steps = self.sampler.steps_in(self.sampler.epoch)
        return steps - (steps > 0 and self.sampler._last_step()["valid_count"] == 0)

    def __iter__(self) -> Iterator[list[int]]:
        for step in self.sampler._steps():
            if step.size:
                yield list(step.rest)

    def set_epoch(self, epoch: int) -> None:
        """As the sampler's."""
        self.sampler.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """As the sampler's."""
        return self.sampler.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """As the sampler's."""
        self.sampler.load_state_dict(state)
