"""The batch: the sequences of one rank's step as tensors, and their digests.

Follows the sections "Tensors", "Digests" and "Command line" of the batch specification. `BatchBuilder` joins a
store with a manifest: the sampler says which seeds a step has, `sequence` what each of them sees, and here the
cells become the bytes of the tensors. A sequence depends on its seed, its epoch and its position, not on who
builds it, nor on what stands beside it; only text numbers are counted anew in every batch, and so a sample's
digest takes the global ones.
"""

import math
import struct
from collections.abc import Callable, Sequence as Items
from dataclasses import dataclass, replace
from typing import Any

from . import row_order
from .errors import WeirError
from .links import group_of
from .manifest import BatchConfig, Manifest, sha256_of
from .population import population_of
from .sampler import Cursor, Sampler
from .schema import SPLITS, STYPES
from .sequence import TIMESTAMP_FLOATS, Cell, Sequence, SequenceMaker, nothing_but_padding
from .store import Store
from .tasks import Seed, Task
from .walk import WalkDraws
from .xxh3 import xxh3_64, xxh3_128

PADDING = Cell(0, 0, 0, is_null=False)

# The tensors of one value a cell: name, type, how struct writes it, and where in a cell it is. The text numbers
# stand apart, because they are numbered by batch.
CELL_TENSORS: list[tuple[str, str, str, Callable[[Cell], Any]]] = [
    ("semantic_types", "int8", "b", lambda cell: cell.stype),
    ("column_ids", "int32", "i", lambda cell: cell.column_idx),
    ("seq_row_ids", "uint16", "H", lambda cell: cell.row),
    ("is_null", "uint8", "B", lambda cell: cell.is_null),
    ("numeric_values", "float32", "f", lambda cell: cell.numeric),
    ("timestamp_values", "float32", f"{4 * TIMESTAMP_FLOATS}s", lambda cell: cell.timestamp),
    ("bool_values", "uint8", "B", lambda cell: cell.boolean),
    ("categorical_embed_ids", "uint32", "I", lambda cell: cell.category),
    ("text_embed_ids", "uint32", "I", lambda cell: cell.text or 0),
    ("is_target", "uint8", "B", lambda cell: cell.is_target),
    ("is_padding", "uint8", "B", lambda cell: cell is PADDING),
]
# Those that a manifest asks for, after all others.
OPTIONAL_TENSORS: list[tuple[str, str, str, Callable[[Cell], Any]]] = [
    ("example_ids", "uint16", "H", lambda cell: cell.example),
    ("hops", "int8", "b", lambda cell: cell.hop),
    ("ages", "float32", "f", lambda cell: cell.age),
    ("is_masked", "uint8", "B", lambda cell: cell.is_masked),
]


def optional_tensors(config: BatchConfig) -> list[tuple[str, str, str, Callable[[Cell], Any]]]:
    """Those of a manifest."""
    asked = {*config.tensors, *(["is_masked"] if config.mask_permille > 0 else [])}
    return [tensor for tensor in OPTIONAL_TENSORS if tensor[0] in asked]


@dataclass
class Tensor:
    dtype: str
    shape: list[int]
    data: bytes

    def as_json_value(self) -> dict[str, Any]:
        return {"dtype": self.dtype, "shape": self.shape, "data": self.data.hex()}


@dataclass
class TrainingBatch:
    dataset: str
    task: Task
    task_idx: int
    category_start: int
    category_count: int
    dims: dict[str, int]
    sequences: list[Sequence]
    tensors: dict[str, Tensor]
    sample_digests: list[int]
    cursor_next: Cursor
    group_size: int = 1  # sequences of a sample

    @property
    def group_digests(self) -> list[int]:
        """What a trace has of each sample."""
        size, digests = self.group_size, self.sample_digests
        if size == 1:
            return digests
        return [xxh3_64(struct.pack(f"<{size}Q", *digests[i : i + size])) for i in range(0, len(digests), size)]

    @property
    def batch_digest(self) -> int:
        return xxh3_128(b"".join(tensor.data for tensor in self.tensors.values()))

    def as_json_value(self, with_tensors: bool = False) -> dict[str, Any]:
        """What `weir batch --json` prints."""
        printed: dict[str, Any] = {
            "dataset": self.dataset,
            "task": self.task.name,
            "task_idx": self.task_idx,
            "target_stype": STYPES.index(self.task.schema.target_stype),
            "cat_emb_start": self.category_start,
            "cat_emb_count": self.category_count,
            **({} if self.group_size == 1 else {"group_size": self.group_size}),
            "dims": self.dims,
            "shapes": {name: tensor.shape for name, tensor in self.tensors.items()},
            "batch_digest": f"{self.batch_digest:032x}",
            "sequences": [
                printed_sequence(self.task, *pair, self.group_size > 1) for pair in zip(self.sequences, self.sample_digests)
            ],
            "cursor_next": {"epoch": self.cursor_next.epoch, "global_index": self.cursor_next.global_index},
        }
        if with_tensors:
            printed["tensors"] = {name: tensor.as_json_value() for name, tensor in self.tensors.items()}
        return printed


def _printed_key(task: Task, sequence: Sequence) -> dict[str, Any]:
    """The anchor's key, where the store keeps keys of its table."""

    def printed(value: Any) -> Any:
        if isinstance(value, list):
            return [printed(part) for part in value]
        if isinstance(value, bytes):
            return {"bytes": value.hex()}
        return None if isinstance(value, float) and not math.isfinite(value) else value

    tables = [task.anchor] if task.destinations is None else [task.anchor, task.destinations.table]
    if not any(table.keeps_keys for table in tables):
        return {}
    [key] = [
        table.split_key(sequence.anchor_row) if table.keeps_keys else None
        for table in tables
        if table.row_start <= sequence.anchor_row < table.row_start + len(table.rows)
    ][:1] or [None]
    return {"anchor_key": printed(key) if sequence.rows else None}


def _anchor_number(task: Task, sequence: Sequence) -> int:
    tables = [task.anchor] if task.destinations is None else [task.anchor, task.destinations.table]
    numbers = [t.number_of(sequence.anchor_row) for t in tables if sequence.anchor_row - t.row_start in range(len(t.rows))]
    return numbers[0] if sequence.rows else sequence.anchor_row


def printed_sequence(task: Task, sequence: Sequence, sample_digest: int, has_role: bool) -> dict[str, Any]:
    return {
        "sample_index": sequence.sample_index,
        "epoch": sequence.epoch,
        "position": sequence.position,
        **({"role": sequence.role} if has_role else {}),
        "anchor_row": _anchor_number(task, sequence),
        **_printed_key(task, sequence),
        "observation_time": sequence.observation_time,
        "num_cells": len(sequence.cells),
        "num_rows": len(sequence.rows),
        "sample_digest": f"{sample_digest:016x}",
    }


# ---- Building ----------------------------------------------------------------------------------------------


class BatchBuilder:
    """Batches of a store under a manifest. Whether the dataset's hash is that of the store's file is not asked:
    the reference writes no file."""

    def __init__(self, store: Store, manifest: Manifest, token: bytes | None = None) -> None:
        self.store = store
        self.manifest = manifest
        self.tasks = {
            f"{store.name}/{task.name}/{split}": (task, split) for task in store.tasks for split in SPLITS
        }
        cardinalities = {key: len(task.seeds_of(split)) for key, (task, split) in self.tasks.items()}
        self.sampler = Sampler(manifest, token, cardinalities)
        self._text_embeddings: dict[int, bytes] = {}

    def build(
        self, dataset: str, stage: str, cursor: Cursor, world_size: int = 1, rank: int = 0, pad: bool = False
    ) -> TrainingBatch:
        if dataset in self.manifest.datasets and dataset not in self.tasks:
            raise WeirError("INVALID_DATASET_KEY", f"the store has no dataset {dataset!r}")
        if stage == "train" and dataset in self.tasks:
            self.read_population(dataset)
        step = self.sampler.next_batch(dataset, world_size, rank, stage, cursor)
        task, split = self.tasks[dataset]
        seeds = task.seeds_of(split)
        length = self.sampler.sequence_length(dataset, stage, cursor)
        maker = SequenceMaker(self.store, task, replace(self.manifest.batch, lengths=(length,)))
        sequences = []
        positions = self.sampler.positions_of_rank(dataset, world_size, rank, stage, cursor)
        for sample_index, place in list(zip(step.indices, positions))[: step.valid_count]:
            epoch, position = self._carried(dataset, stage, cursor.epoch, place)
            walk_seed = self.walk_seed(dataset, epoch if stage == "train" else 0)
            place = sample_index if stage == "eval_seeded" else position
            if task.destinations is None:
                draws = WalkDraws(walk_seed, place)
                sequences.append(maker.make(seeds[sample_index], draws, sample_index, epoch, position, stage == "train"))
                continue
            links = self.manifest.batch.links
            group = group_of(task, seeds, sample_index, links, stage == "train", walk_seed, position)
            for number, member in enumerate(group):
                if member.row is None:
                    sequences.append(nothing_but_padding())
                    sequences[-1].epoch = epoch
                    continue
                draws = WalkDraws(walk_seed, place * len(group) + number)
                seed = Seed(member.row, seeds[sample_index].time, member.target, "")
                sequences.append(maker.make(seed, draws, sample_index, epoch, position, stage == "train"))
                sequences[-1].role = member.role
        group_size = self._group_size(task, stage)
        if pad:
            sequences += [nothing_but_padding() for _ in range(group_size * len(positions) - len(sequences))]
        return self._collated(maker.config, dataset, task, sequences, step.cursor_next, group_size)

    def read_population(self, dataset: str) -> None:
        """Of a dataset that training draws from by class or weight."""
        if self.manifest.draws_by_population(dataset) and dataset not in self.sampler.populations:
            population = population_of(*self.tasks[dataset], self.manifest.data.sampling)
            self.sampler.populations[dataset] = population

    def _group_size(self, task: Task, stage: str) -> int:
        """How many sequences a sample has."""
        links = self.manifest.batch.links
        if task.destinations is None:
            return 1
        if links.by == "popularity" and task.schema.popularity is None:
            raise WeirError("CONTRACT_VIOLATION", f"task {task.name} does not say what counts popularity")
        return 2 + (links.negatives if stage == "train" else links.candidates)

    def _carried(self, dataset: str, stage: str, epoch: int, place: int) -> tuple[int, int]:
        """The epoch and the position in it, where a step in stream mode goes beyond the end of an epoch."""
        if stage == "train" and self.manifest.data.is_stream:
            epochs_ahead, place = divmod(place, self.manifest.datasets[dataset].cardinality)
            epoch += epochs_ahead
        return epoch, place

    def walk_seed(self, dataset: str, epoch: int) -> bytes:
        parts = ["walk_seed_v1", self.sampler.token, self.manifest.manifest_hash, dataset, epoch]
        context_seed = self.manifest.batch.context_seed
        return sha256_of([*parts, context_seed] if context_seed else parts)[:16]

    def _collated(
        self,
        config: BatchConfig,
        dataset: str,
        task: Task,
        sequences: list[Sequence],
        cursor_next: Cursor,
        group_size: int = 1,
    ) -> TrainingBatch:
        collated = collate(config, sequences, self.store.embedding_dim, self.text_embedding)
        category_start, category_count = categories_of(task)
        return TrainingBatch(
            dataset=dataset,
            task=task,
            task_idx=self.store.tasks.index(task),
            category_start=category_start,
            category_count=category_count,
            dims=collated.dims,
            sequences=sequences,
            tensors=collated.tensors,
            sample_digests=collated.sample_digests,
            cursor_next=cursor_next,
            group_size=group_size,
        )

    def text_embedding(self, text: int) -> bytes:
        if text not in self._text_embeddings:
            [self._text_embeddings[text]] = self.store.embeddings([self.store.texts[text]])
        return self._text_embeddings[text]


@dataclass
class Collated:
    dims: dict[str, int]
    tensors: dict[str, Tensor]
    sample_digests: list[int]


def collate(
    config: BatchConfig, sequences: list[Sequence], dim: int, embedding_of: Callable[[int], bytes]
) -> Collated:
    """The tensors of a batch's sequences, and their digests."""
    length = config.sequence_length
    row_count = max((len(sequence.rows) for sequence in sequences), default=0)
    if config.pad_rows and sequences:
        row_count = config.max_rows
    texts = sorted({cell.text for s in sequences for cell in s.cells if cell.text is not None})

    parts = [_tensors_of(sequence, config) for sequence in sequences]
    local_text = {text: number for number, text in enumerate(texts)}
    tensors = {name: Tensor(dtype, [len(sequences), length], b"") for name, dtype, _, _ in CELL_TENSORS}
    tensors["timestamp_values"].shape.append(TIMESTAMP_FLOATS)
    tensors["fk_adj"] = Tensor("uint8", [len(sequences), row_count, row_count], b"")
    for name in ("col_perm", "out_perm", "in_perm"):
        tensors[name] = Tensor("uint16", [len(sequences), length], b"")
    for name, tensor in tensors.items():
        if name == "fk_adj":
            tensor.data = b"".join(_adjacency(sequence.foreign_keys, row_count) for sequence in sequences)
        elif name == "text_embed_ids":
            tensor.data = b"".join(_text_numbers(s.cells, length, local_text) for s in sequences)
        else:
            tensor.data = b"".join(part[name] for part in parts)
    embeddings = b"".join(embedding_of(text) for text in texts)
    tensors["text_batch_embeddings"] = Tensor("float16", [len(texts), dim], embeddings)
    for name, dtype, _, _ in optional_tensors(config):
        tensors[name] = Tensor(dtype, [len(sequences), length], b"".join(part[name] for part in parts))
    return Collated(
        {"B": len(sequences), "S": length, "R": row_count, "U": len(texts), "D_t": dim},
        tensors,
        [xxh3_64(b"".join(part.values())) for part in parts],
    )


def categories_of(task: Task) -> tuple[int, int]:
    """The block of categories that a categorical target is one of."""
    holder = task if task.column is None else task.column
    return (0, 0) if holder.categories is None else (holder.category_start, len(holder.categories))


# ---- One sequence's part of the tensors --------------------------------------------------------------------


def _tensors_of(sequence: Sequence, config: BatchConfig) -> dict[str, bytes]:
    """What a sample's digest is over: one sequence's tensors in order, with the global text numbers, and with
    as many rows as it has."""
    length = config.sequence_length
    cells = sequence.cells + [PADDING] * (length - len(sequence.cells))
    parts = {
        name: struct.pack("<" + length * form, *map(value_of, cells)) for name, _, form, value_of in CELL_TENSORS
    }
    row_count = len(sequence.rows)
    parts["fk_adj"] = _adjacency(sequence.foreign_keys, row_count)
    parts["col_perm"] = _permutation(sequence, length, [cell.column_idx for cell in sequence.cells])
    if config.row_order == "best":
        sizes = [0] * row_count
        for cell in sequence.cells:
            sizes[cell.row] += 1
        orders = row_order.best_orders(sizes, sequence.foreign_keys)
    else:
        orders = (
            row_order.out_order(row_count, sequence.foreign_keys),
            row_order.in_order(row_count, sequence.foreign_keys),
        )
    for name, rows in zip(("out_perm", "in_perm"), orders):
        rank_of_row = {row: rank for rank, row in enumerate(rows)}
        parts[name] = _permutation(sequence, length, [rank_of_row[cell.row] for cell in sequence.cells])
    for name, _, form, value_of in optional_tensors(config):
        parts[name] = struct.pack("<" + length * form, *map(value_of, cells))
    return parts


def _adjacency(foreign_keys: Items[tuple[int, int]], row_count: int) -> bytes:
    adjacency = bytearray(row_count * row_count)
    for child, parent in foreign_keys:
        adjacency[child * row_count + parent] = 1
    return bytes(adjacency)


def _text_numbers(cells: list[Cell], length: int, local_text: dict[int, int]) -> bytes:
    numbers = [0 if cell.text is None else local_text[cell.text] for cell in cells]
    return struct.pack(f"<{length}I", *numbers, *[0] * (length - len(cells)))


def _permutation(sequence: Sequence, length: int, key: list[int]) -> bytes:
    """The positions by their key, then by themselves; padding last."""
    positions = sorted(range(len(sequence.cells)), key=lambda position: (key[position], position))
    return struct.pack(f"<{length}H", *positions, *range(len(sequence.cells), length))
