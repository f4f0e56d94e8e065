"""Mixed batches: sequences of all datasets of a mix in one batch (docs/spec/05g-mixed.md).

The mix is a dataset of W entries that the sampler orders as any other; an entry of a period is the next sample of
one of the mix's datasets. What that sample's sequence shows is what it shows in a batch of its own dataset; only
the numbers of columns, categories and texts are moved, so that the stores of the mix have one numbering.
"""

from dataclasses import dataclass, replace
from typing import Any

from .batch import BatchBuilder, Tensor, categories_of, collate, printed_sequence
from .errors import WeirError
from .manifest import LARGEST_UINT64, MIX_KEY, Manifest
from .sampler import Cursor, Sampler
from .schema import STYPES
from .sequence import Sequence, SequenceMaker
from .store import Store
from .tasks import Task
from .walk import WalkDraws
from .xxh3 import xxh3_128


@dataclass
class Origin:
    """A store of the mix, and where its numbers begin."""

    builder: BatchBuilder
    first_column: int
    first_category: int
    first_text: int


@dataclass
class Member:
    """A dataset of the mix."""

    key: str
    origin: Origin
    task: Task
    split: str
    weight: int

    def as_json_value(self) -> dict[str, Any]:
        start, count = categories_of(self.task)
        is_categorical = self.task.schema.target_stype == "categorical"
        return {
            "dataset": self.key,
            "task": self.task.name,
            "task_idx": self.origin.builder.store.tasks.index(self.task),
            "target_stype": STYPES.index(self.task.schema.target_stype),
            "cat_emb_start": start + self.origin.first_category if is_categorical else 0,
            "cat_emb_count": count,
            "first_column": self.origin.first_column,
            "first_category": self.origin.first_category,
        }


@dataclass
class MixedBatch:
    members: list[Member]
    numbers: list[int]  # dataset_ids
    sequences: list[Sequence]
    dims: dict[str, int]
    tensors: dict[str, Tensor]
    sample_digests: list[int]
    cursor_next: Cursor

    def as_json_value(self) -> dict[str, Any]:
        """What `weir batch --json --tensors` prints."""
        digest = xxh3_128(b"".join(tensor.data for tensor in self.tensors.values()))
        printed = [
            {"dataset": member.key, **printed_sequence(member.task, sequence, sample_digest, has_role=False)}
            for member, sequence, sample_digest in zip(
                (self.members[number] for number in self.numbers), self.sequences, self.sample_digests
            )
        ]
        return {
            "dataset": MIX_KEY,
            "datasets": [member.as_json_value() for member in self.members],
            "dims": self.dims,
            "shapes": {name: tensor.shape for name, tensor in self.tensors.items()},
            "batch_digest": f"{digest:032x}",
            "sequences": printed,
            "cursor_next": {"epoch": self.cursor_next.epoch, "global_index": self.cursor_next.global_index},
            "tensors": {name: tensor.as_json_value() for name, tensor in self.tensors.items()},
        }


class MixedBuilder:
    """Mixed batches of stores under a manifest that asks for them."""

    def __init__(self, stores: list[Store], manifest: Manifest, token: bytes | None = None) -> None:
        self.manifest = manifest
        self.sampler = Sampler(manifest, token)
        self._builders = [BatchBuilder(store, manifest, token) for store in stores]
        self.members: list[Member] = []
        self.origins: list[Origin] = []

    def build(self, cursor: Cursor, world_size: int = 1, rank: int = 0) -> MixedBatch:
        step = self.sampler.next_batch(MIX_KEY, world_size, rank, "train", cursor)
        self._open(world_size, rank)
        length = self.sampler.sequence_length(MIX_KEY, "train", cursor)
        config = replace(self.manifest.batch, lengths=(length,))
        total = self.manifest.all_datasets[MIX_KEY].cardinality
        numbers, sequences = [], []
        positions = self.sampler.positions_of_rank(MIX_KEY, world_size, rank, "train", cursor)
        for entry, position in zip(step.indices, positions):
            number, sequence = self._sequence(config, cursor.epoch + position // total, entry)
            numbers.append(number)
            sequences.append(sequence)
        dim = self.origins[0].builder.store.embedding_dim
        collated = collate(config, sequences, dim, self._text_embedding)
        return MixedBatch(
            self.members, numbers, sequences, collated.dims, collated.tensors, collated.sample_digests, step.cursor_next
        )

    def _open(self, world_size: int, rank: int) -> None:
        """The datasets of the mix in bytewise order, and the stores in the order of their first ones."""
        self.members, self.origins = [], []
        mix = self.manifest.mix or {}
        for key in sorted(mix, key=lambda name: name.encode("utf-8")):
            builder = next((builder for builder in self._builders if key in builder.tasks), None)
            if builder is None:
                raise WeirError("INVALID_DATASET_KEY", f"no store has the dataset {key!r}")
            origin = self._origin(builder)
            builder.read_population(key)
            builder.sampler._check(key, world_size, rank, "train", Cursor(0, 0))
            task, split = builder.tasks[key]
            if task.destinations is not None:
                raise WeirError("CONTRACT_VIOLATION", f"{key!r} is of a link task, which cannot be mixed")
            self.members.append(Member(key, origin, task, split, mix[key]))

    def _origin(self, builder: BatchBuilder) -> Origin:
        for origin in self.origins:
            if origin.builder is builder:
                return origin
        stores = [origin.builder.store for origin in self.origins]
        if any(store.embedding_dim != builder.store.embedding_dim for store in stores):
            raise WeirError("CONTRACT_VIOLATION", "the stores' embeddings differ in width")
        self.origins.append(
            Origin(
                builder,
                sum(store.column_count for store in stores),
                sum(len(store.categories) for store in stores),
                sum(len(store.texts) for store in stores),
            )
        )
        return self.origins[-1]

    def _sequence(self, config: Any, period: int, entry: int) -> tuple[int, Sequence]:
        """What an entry of a period stands for."""
        number = 0
        while entry >= self.members[number].weight:
            entry -= self.members[number].weight
            number += 1
        member = self.members[number]
        builder = member.origin.builder
        sample_number = period * member.weight + entry
        epoch, position = divmod(sample_number, self.manifest.datasets[member.key].cardinality)
        if epoch > LARGEST_UINT64:
            raise WeirError("COUNTER_OVERFLOW", f"{member.key!r} goes beyond epoch 2^64-1")
        sample_index = builder.sampler.index_at(member.key, epoch, position)
        maker = SequenceMaker(builder.store, member.task, config)
        draws = WalkDraws(builder.walk_seed(member.key, epoch), position)
        seed = member.task.seeds_of(member.split)[sample_index]
        sequence = maker.make(seed, draws, sample_index, epoch, position, True)
        for cell in sequence.cells:
            cell.column_idx += member.origin.first_column
            if STYPES[cell.stype] == "categorical" and not cell.is_null:
                cell.category += member.origin.first_category
            if cell.text is not None:
                cell.text += member.origin.first_text
        return number, sequence

    def _text_embedding(self, text: int) -> bytes:
        origin = next(origin for origin in reversed(self.origins) if origin.first_text <= text)
        return origin.builder.text_embedding(text - origin.first_text)
