"""NextBatch_v2: which samples a rank reads in a step, for any epoch, position and number of ranks.

Follows the section "NextBatch_v2" of the specification. An epoch of training is a permutation of the samples
0 to N-1, never stored: the samples lie in blocks of `sampler_block_size`; the order of the whole blocks is a
seeded Fisher-Yates shuffle, the short block at the end stays at the end, and inside its block every sample is
placed by a seeded bijection, affine or Feistel. So the sample at any position is found without its
neighbours. The positions of a step are cut into contiguous slices, one a rank; what a sample is does not
depend on how many ranks there are. Evaluation reads the samples in their own order, or, seeded, in one order
that never changes (docs/spec/02b-eval-order.md). Training steps may have several lengths and sizes, in turn
(docs/spec/02c-lengths.md). `next_batch` is pure: it takes a cursor and returns the next one.
"""

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Any

from . import philox
from .errors import WeirError
from .feistel import feistel_hash, sides
from .manifest import LARGEST_UINT64, DataConfig, Dataset, Manifest, sha256_of
from .population import Classes, Population, seeded_place

STAGES = ("train", "eval", "infer", "eval_seeded")


# ---- The order of the blocks -------------------------------------------------------------------------------


def shuffled_entries(count: int, seed: bytes, domain: int) -> Iterator[int]:
    """The entries of a shuffle of 0 .. count-1, in order. The i-th swap is the last that touches entry i, so
    the entries can be handed out while the shuffle goes on."""
    entries = list(range(count))
    for i in range(count):
        if i < count - 1:
            j = i + philox.bounded(seed, domain, i, count - i)
            entries[i], entries[j] = entries[j], entries[i]
        yield entries[i]


def seeded_block_permute(num_blocks: int, seed: bytes) -> list[int]:
    """SeededBlockPermute_v1."""
    if num_blocks == 0:
        raise WeirError("CONTRACT_VIOLATION", "there is no permutation of 0 blocks")
    return list(shuffled_entries(num_blocks, seed, philox.DOMAIN_BLOCK_PERMUTATION))


class StatelessBlockOrder:
    """A permutation of which any entry is found by itself."""

    def __init__(self, num_blocks: int, seed: bytes) -> None:
        self.num_blocks = num_blocks
        self.seed = seed

    def __getitem__(self, place: int) -> int:
        return seeded_place(self.seed, philox.DOMAIN_BLOCKS, 0, 0, self.num_blocks, place)


class BlockOrder:
    """SeededBlockPermute_v1, made only as far as someone has looked."""

    def __init__(self, num_blocks: int, seed: bytes) -> None:
        self._still_to_come = shuffled_entries(num_blocks, seed, philox.DOMAIN_BLOCK_PERMUTATION)
        self._known: list[int] = []

    def __getitem__(self, place: int) -> int:
        while place >= len(self._known):
            self._known.append(next(self._still_to_come))
        return self._known[place]


# ---- The order inside a block ------------------------------------------------------------------------------


def affine_offset(block_id: int, local_position: int, m: int, seed: bytes) -> int:
    """SeededIntraBlockMap_v1 in a block of m samples: multiply by a number coprime to m, add, reduce."""
    factor, shift = _affine_coefficients(block_id, m, seed)
    return (factor * local_position + shift) % m


@lru_cache(maxsize=256)
def _affine_coefficients(block_id: int, m: int, seed: bytes) -> tuple[int, int]:
    if m == 1:
        return 0, 0
    k0, k1 = philox.draw_pair(seed, philox.DOMAIN_INTRA_BLOCK_AFFINE, block_id)
    first_candidate = 1 + k0 % (m - 1)
    for i in range(m - 1):
        candidate = 1 + (first_candidate - 1 + i) % (m - 1)
        if math.gcd(candidate, m) == 1:
            return candidate, k1 % m
    raise WeirError("CONTRACT_VIOLATION", "no factor is coprime to the block's size, which cannot be")


def feistel_offset(block_id: int, local_position: int, m: int, seed: bytes) -> int:
    """The map feistel_v1 in a block of m samples: six rounds on a rectangle of a x b cells that holds m of
    them. A walk that leaves the first m cells goes on until it is back, which keeps the map a bijection."""
    if m == 1:
        return 0
    keys = _feistel_keys(block_id, seed)
    a, b = sides(m)
    x = _six_feistel_rounds(local_position, a, b, keys)
    while x >= m:
        x = _six_feistel_rounds(x, a, b, keys)
    return x


@lru_cache(maxsize=256)
def _feistel_keys(block_id: int, seed: bytes) -> tuple[int, ...]:
    return philox.draw_words(seed, philox.DOMAIN_INTRA_BLOCK_FEISTEL, 2 * block_id) + philox.draw_words(
        seed, philox.DOMAIN_INTRA_BLOCK_FEISTEL, 2 * block_id + 1
    )


def _six_feistel_rounds(x: int, a: int, b: int, keys: tuple[int, ...]) -> int:
    right, left = divmod(x, a)
    for i in range(6):
        if i % 2 == 0:
            left = (left + ((feistel_hash(right, keys[i]) * a) >> 32)) % a
        else:
            right = (right + ((feistel_hash(left, keys[i]) * b) >> 32)) % b
    return right * a + left


INTRA_BLOCK_OFFSETS = {"affine_v1": affine_offset, "feistel_v1": feistel_offset}


def index_inside_block(
    kind: str, block_id: int, local_position: int, block_size: int, seed: bytes, n: int
) -> int:
    """The original index of the sample at a local position of a block, under either map."""
    block_start = block_id * block_size
    m = min(block_size, n - block_start)
    return block_start + INTRA_BLOCK_OFFSETS[kind](block_id, local_position, m, seed)


# ---- The order of an epoch ---------------------------------------------------------------------------------


class EpochOrder:
    """The virtual sequence of one training epoch over n samples: from a position to a sample."""

    def __init__(self, seed: bytes, n: int, data: DataConfig) -> None:
        self.seed = seed
        self.n = n
        self.block_size = data.sampler_block_size
        self.intra_block = data.intra_block
        self.num_full_blocks = n // self.block_size
        self.rotation = philox.bounded(seed, philox.DOMAIN_ROTATION, 0, n) if data.rotate else 0
        is_stateless = data.block_order == "stateless_v1"
        self._block_order = (StatelessBlockOrder if is_stateless else BlockOrder)(self.num_full_blocks, seed)

    def sample_at(self, position: int) -> tuple[int, int]:
        """The block from which the sample at a position comes, and its original index."""
        place_of_block, local_position = divmod((position + self.rotation) % self.n, self.block_size)
        is_tail = place_of_block == self.num_full_blocks
        block_id = place_of_block if is_tail else self._block_order[place_of_block]
        index = index_inside_block(
            self.intra_block, block_id, local_position, self.block_size, self.seed, self.n
        )
        return block_id, index


# ---- The step ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cursor:
    epoch: int = 0
    global_index: int = 0


@dataclass(frozen=True)
class Batch:
    """What a step gives a rank. Hashes in the metadata are bytes."""

    indices: list[int]
    valid_count: int
    cursor_next: Cursor
    metadata: dict[str, Any]

    def as_json_value(self) -> dict[str, Any]:
        """The object that the command line prints for a step."""
        printed = {name: v.hex() if isinstance(v, bytes) else v for name, v in self.metadata.items()}
        return {
            "indices": self.indices,
            "valid_count": self.valid_count,
            "cursor_next": {"epoch": self.cursor_next.epoch, "global_index": self.cursor_next.global_index},
            "metadata": printed,
        }


class Sampler:
    """A manifest under a token: steps by cursor, and samples by position."""

    def __init__(
        self,
        manifest: Manifest,
        token: bytes | None = None,
        stores: dict[str, int] | None = None,
        populations: dict[str, Population] | None = None,
    ) -> None:
        """`token` is the manifest's own where it is None. `stores` gives the cardinality that the store
        behind a dataset really has, where there is one; `populations` the classes or weights of the datasets
        that are drawn from by them."""
        self.manifest = manifest
        self.token = manifest.replay_token if token is None else token
        self.stores = stores or {}
        self.populations = populations or {}
        self._epoch_order = lru_cache(maxsize=4)(self._make_epoch_order)

    # -- Randomness --

    def epoch_seed(self, dataset_key: str, epoch: int) -> bytes:
        return sha256_of(
            ["nextbatch_epoch_seed_v2", self.token, self.manifest.manifest_hash, dataset_key, epoch]
        )[:16]

    def _make_epoch_order(self, dataset_key: str, epoch: int) -> EpochOrder:
        n = self.manifest.all_datasets[dataset_key].cardinality
        return EpochOrder(self.epoch_seed(dataset_key, epoch), n, self.manifest.data)

    def sampling_seed(self, dataset_key: str) -> bytes:
        return sha256_of(["sampling_seed_v1", self.token, self.manifest.manifest_hash, dataset_key])[:16]

    def _sample_at(self, dataset_key: str, epoch: int, position: int) -> tuple[int | None, int]:
        """The sample at a position of a training epoch, and its block where it comes from one."""
        if not self.manifest.draws_by_population(dataset_key):
            return self._epoch_order(dataset_key, epoch).sample_at(position)
        seed, used = self.sampling_seed(dataset_key), self._epoch_limit(dataset_key, "train")
        return None, self.populations[dataset_key].sample_at(seed, used, epoch, position)

    # -- Random access --

    def index_at(self, dataset_key: str, epoch: int, position: int) -> int:
        """The sample at a position of a training epoch, without a cursor."""
        return self.index_range(dataset_key, epoch, position, 1)[0]

    def index_range(self, dataset_key: str, epoch: int, position: int, count: int) -> list[int]:
        """The samples at `count` positions of a training epoch."""
        n = self._dataset(dataset_key).cardinality
        self._check_block_size()
        if position + count > n:
            _refuse_position(max(position, n), n)
        self._check_population(dataset_key, "train")
        self._check_period(dataset_key, epoch, position + count - 1)
        return [self._sample_at(dataset_key, epoch, position + i)[1] for i in range(count)]

    # -- NextBatch_v2 --

    def next_batch(self, dataset_key: str, world_size: int, rank: int, stage: str, cursor: Cursor) -> Batch:
        self._check(dataset_key, world_size, rank, stage, cursor)
        if stage == "train":
            samples = self._train_samples(dataset_key, world_size, rank, cursor)
            indices = [index for _, _, index in samples]
            valid_count = len(indices)
            blocks = {(epoch, block) for epoch, block, _ in samples if block is not None}
        else:
            indices, valid_count = self._evaluated_samples(dataset_key, world_size, rank, stage, cursor)
            blocks = set()  # no block of an epoch is materialised
        return Batch(
            indices,
            valid_count,
            self._advanced(dataset_key, stage, cursor),
            self._metadata(dataset_key, world_size, rank, stage, cursor, len(blocks)),
        )

    def _train_samples(
        self, dataset_key: str, world_size: int, rank: int, cursor: Cursor
    ) -> list[tuple[int, int | None, int]]:
        """This rank's share of a training step, each as (epoch, block, original index)."""
        n = self.manifest.all_datasets[dataset_key].cardinality
        limit = None if self.manifest.data.is_stream else self._epoch_limit(dataset_key, "train")
        samples = []
        for position in self.positions_of_rank(dataset_key, world_size, rank, "train", cursor):
            if limit is not None and position >= limit:
                break
            epochs_ahead, position = divmod(position, n) if limit is None else (0, position)
            epoch = cursor.epoch + epochs_ahead
            block, index = self._sample_at(dataset_key, epoch, position)
            samples.append((epoch, block, index))
        return samples

    def blocks_of_epoch(self, dataset_key: str, world_size: int, rank: int, cursor: Cursor) -> int:
        """blocks_materialized_this_epoch: the distinct blocks that this rank's samples of the cursor's epoch
        come from, in all its steps up to the one at the cursor. In stream mode the first of them may have
        begun in the epoch before."""
        if self.manifest.draws_by_population(dataset_key):
            return 0
        sizes = self.manifest.batch_sizes
        order = self._epoch_order(dataset_key, cursor.epoch)
        turn, start, blocks = self._turn(dataset_key, cursor), cursor.global_index, set()
        least = -max(sizes) if self.manifest.data.is_stream else 0
        while start >= least:
            share = sizes[turn] // world_size
            for position in range(start + rank * share, start + (rank + 1) * share):
                if 0 <= position < self._epoch_limit(dataset_key, "train"):
                    blocks.add(order.sample_at(position)[0])
            turn = (turn - 1) % len(sizes)
            start -= sizes[turn]
        return len(blocks)

    def _evaluated_samples(
        self, dataset_key: str, world_size: int, rank: int, stage: str, cursor: Cursor
    ) -> tuple[list[int], int]:
        """This rank's share of an evaluation step: always of full length, wrapped, with the count of those
        that lie before the end."""
        n = self.manifest.all_datasets[dataset_key].cardinality
        positions = self.positions_of_rank(dataset_key, world_size, rank, stage, cursor)
        indices = [position % n for position in positions]
        if stage == "eval_seeded":
            seed = self.epoch_seed(dataset_key, 0)
            indices = [feistel_offset(0, position, n, seed) for position in indices]
        return indices, sum(position < n for position in positions)

    # -- Steps of several lengths --

    def _turn(self, dataset_key: str, cursor: Cursor) -> int:
        """Which of the lengths the training step at a cursor has."""
        sizes, starts = self.manifest.batch_sizes, list(accumulate(self.manifest.batch_sizes, initial=0))
        if len(sizes) == 1:
            return 0
        is_stream, n = self.manifest.data.is_stream, self.manifest.all_datasets[dataset_key].cardinality
        place = (cursor.global_index + (cursor.epoch * n if is_stream else 0)) % starts[-1]
        if place not in starts:
            raise WeirError("CONTRACT_VIOLATION", f"no batch of {dataset_key!r} begins at {cursor}")
        return starts.index(place)

    def batch_size(self, dataset_key: str, stage: str, cursor: Cursor) -> int:
        """B of the step at a cursor."""
        if stage != "train":
            return self.manifest.global_batch_size
        return self.manifest.batch_sizes[self._turn(dataset_key, cursor)]

    def sequence_length(self, dataset_key: str, stage: str, cursor: Cursor) -> int:
        """S of the step at a cursor."""
        batch = self.manifest.batch
        return batch.lengths[self._turn(dataset_key, cursor)] if stage == "train" else batch.sequence_length

    def positions_of_rank(self, dataset_key: str, world_size: int, rank: int, stage: str, cursor: Cursor) -> range:
        micro_batch_size = self.batch_size(dataset_key, stage, cursor) // world_size
        first = cursor.global_index + rank * micro_batch_size
        return range(first, first + micro_batch_size)

    def _epoch_limit(self, dataset_key: str, stage: str) -> int:
        """Where an epoch ends: at N, or, where training drops the last partial batch, before it."""
        n = self.manifest.all_datasets[dataset_key].cardinality
        if stage == "train" and self.manifest.data.drop_last and not self.manifest.data.is_stream:
            sizes = self.manifest.batch_sizes
            rounds = n // sum(sizes) * sum(sizes)
            return rounds + max(start for start in accumulate(sizes, initial=0) if rounds + start <= n)
        return n

    def _produced_count(self, dataset_key: str, stage: str, cursor: Cursor) -> int:
        """The global positions that a step consumes: a whole batch, or what is left of the epoch."""
        if stage == "train" and self.manifest.data.is_stream:
            return self.batch_size(dataset_key, stage, cursor)
        remaining = max(0, self._epoch_limit(dataset_key, stage) - cursor.global_index)
        return min(self.batch_size(dataset_key, stage, cursor), remaining)

    def _advanced(self, dataset_key: str, stage: str, cursor: Cursor) -> Cursor:
        """The cursor after a step; its epoch may be one too large for 64 bits, which `_check` refuses."""
        after = cursor.global_index + self._produced_count(dataset_key, stage, cursor)
        if stage == "train" and self.manifest.data.is_stream:
            n = self.manifest.all_datasets[dataset_key].cardinality
            return Cursor(cursor.epoch + after // n, after % n)
        if after >= self._epoch_limit(dataset_key, stage):
            return Cursor(cursor.epoch + 1, 0)
        return Cursor(cursor.epoch, after)

    # -- Checks --

    def _check(self, dataset_key: str, world_size: int, rank: int, stage: str, cursor: Cursor) -> None:
        """The nine checks, in the order of the specification: the first that fails is the error."""
        sizes = [self.manifest.global_batch_size] + (self.manifest.batch_sizes if stage == "train" else [])
        is_strict_train = stage == "train" and not self.manifest.data.is_stream
        if stage not in STAGES:
            raise WeirError("INVALID_STAGE_TYPE", f"the stage {stage!r} is not one of {', '.join(STAGES)}")
        if stage == "train" and self.manifest.stage != "train":
            raise WeirError("INVALID_STAGE_TYPE", "the manifest's preset is eval_sequential")
        n = self._dataset(dataset_key).cardinality
        if dataset_key not in self.manifest.datasets and stage != "train":
            raise WeirError("CONTRACT_VIOLATION", "mixed batches are for training")
        for batch_size in sizes:
            if world_size == 0 or batch_size == 0 or batch_size % world_size != 0:
                raise WeirError(
                    "BATCH_SIZE_INCONSISTENT",
                    f"a batch of {batch_size} is not a positive multiple of world_size {world_size}",
                    global_batch_size=batch_size,
                    world_size=world_size,
                )
        if rank >= world_size:
            raise WeirError("CONTRACT_VIOLATION", f"rank {rank} is not below world_size {world_size}")
        self._check_block_size()
        if is_strict_train and self.manifest.data.drop_last and self.manifest.batch_sizes[0] > n:
            raise WeirError("BATCH_SIZE_INCONSISTENT", "with drop_last no epoch has a batch", cardinality=n)
        self._check_accountant(dataset_key, stage)
        self._check_population(dataset_key, stage)
        if cursor.global_index >= n:
            _refuse_position(cursor.global_index, n)
        batch_size = self.batch_size(dataset_key, stage, cursor)
        if not is_strict_train and cursor.global_index + batch_size > LARGEST_UINT64:
            raise WeirError("COUNTER_OVERFLOW", "the position would pass 2^64-1")
        if self._advanced(dataset_key, stage, cursor).epoch > LARGEST_UINT64:
            raise WeirError("COUNTER_OVERFLOW", "the epoch would pass 2^64-1")
        if stage == "train":
            self._check_period(dataset_key, cursor.epoch, cursor.global_index + batch_size - 1)

    def _dataset(self, dataset_key: str) -> Dataset:
        if dataset_key not in self.manifest.all_datasets:
            raise WeirError("INVALID_DATASET_KEY", f"the manifest has no dataset {dataset_key!r}")
        dataset = self.manifest.all_datasets[dataset_key]
        cardinality_of_store = self.stores.get(dataset_key, dataset.cardinality)
        if dataset.cardinality == 0 or dataset.cardinality != cardinality_of_store:
            raise WeirError("CARDINALITY_MISMATCH", f"dataset {dataset_key!r} is empty or not the store's")
        return dataset

    def _check_block_size(self) -> None:
        if self.manifest.data.sampler_block_size == 0:
            raise WeirError("BATCH_SIZE_INCONSISTENT", "sampler_block_size is 0")

    def _check_accountant(self, dataset_key: str, stage: str) -> None:
        """What a privacy accountant takes for granted must be what the sampler does."""
        accountant = self.manifest.accountant
        if stage != "train" or accountant is None:
            return
        subsampling_mode, _ = self.modes(stage, dataset_key)
        if accountant.subsampling_mode not in (None, subsampling_mode):
            raise WeirError("CONTRACT_VIOLATION", f"the run's subsampling_mode is {subsampling_mode}")
        for batch_size in self.manifest.batch_sizes:
            effective_q = self._effective_q(dataset_key, batch_size)
            if accountant.effective_q not in (None, effective_q):
                raise WeirError("CONTRACT_VIOLATION", f"the run's effective_q is {effective_q!r}")

    def _check_population(self, dataset_key: str, stage: str) -> None:
        if stage == "train" and self.manifest.draws_by_population(dataset_key):
            if dataset_key not in self.populations:
                raise WeirError("CONTRACT_VIOLATION", "data.sampling needs the store of the dataset")

    def _check_period(self, dataset_key: str, epoch: int, position: int) -> None:
        population = self.populations.get(dataset_key)
        if isinstance(population, Classes) and self.manifest.draws_by_population(dataset_key):
            if population.is_beyond(self._epoch_limit(dataset_key, "train"), epoch, position):
                raise WeirError("COUNTER_OVERFLOW", "the number of the period would pass 2^64-1")

    # -- Metadata --

    def _effective_q(self, dataset_key: str, batch_size: int) -> float:
        return float(batch_size) / float(self.manifest.all_datasets[dataset_key].cardinality)

    def _metadata(
        self, dataset_key: str, world_size: int, rank: int, stage: str, cursor: Cursor, block_count: int
    ) -> dict[str, Any]:
        subsampling_mode, sampling_mode = self.modes(stage, dataset_key)
        has_list = len(self.manifest.batch.lengths) > 1
        return {
            **({"sequence_length": self.sequence_length(dataset_key, stage, cursor)} if has_list else {}),
            "epoch": cursor.epoch,
            "global_position": cursor.global_index,
            "is_shuffled": stage in ("train", "eval_seeded"),
            "effective_batch_size": self._produced_count(dataset_key, stage, cursor),
            "blocks_materialized": block_count,
            "subsampling_mode": subsampling_mode,
            "sampling_mode": sampling_mode,
            "effective_q": self._effective_q(dataset_key, self.batch_size(dataset_key, stage, cursor)),
            "sampler_block_size": self.manifest.data.sampler_block_size,
            "sampler_config_hash": self.sampler_config_hash(stage, dataset_key),
            "epoch_seed_hash": hashlib.sha256(self.epoch_seed(dataset_key, cursor.epoch)).digest(),
            "data_replay_t": sha256_of(
                ["nextbatch_v2", self.token, dataset_key, cursor.epoch, cursor.global_index, world_size, rank]
            ),
        }

    def modes(self, stage: str, dataset_key: str) -> tuple[str, str]:
        """The subsampling mode, which a privacy accountant reads, and the sampling mode."""
        if stage != "train":
            return "NONE", "SHUFFLE_EVAL_FEISTEL_V1" if stage == "eval_seeded" else "SEQUENTIAL_V1"
        data = self.manifest.data
        if self.manifest.draws_by_population(dataset_key):
            subsampling_mode = "WEIGHTED" if data.sampling.mode == "weighted" else "CLASS_BALANCED"
            return subsampling_mode, f"{subsampling_mode}_STREAMING_V1" if data.is_stream else f"{subsampling_mode}_V1"
        subsampling_mode = "SHUFFLE_STREAMING" if data.is_stream else "SHUFFLE_WITHOUT_REPLACEMENT"
        block_order = "STATELESS_BLOCK" if data.block_order == "stateless_v1" else "BLOCK"
        block_map = "FEISTEL_V1" if data.intra_block == "feistel_v1" else "AFFINE_V1"
        return subsampling_mode, f"{subsampling_mode}_{block_order}_{block_map}"

    def sampler_config_hash(self, stage: str, dataset_key: str) -> bytes:
        data = self.manifest.data
        is_feistel = data.intra_block == "feistel_v1"
        return sha256_of(
            [
                self.modes(stage, dataset_key)[1],
                data.sampler_block_size,
                data.drop_last,
                "epoch_seed_rule_v2+rotate_v1" if data.rotate else "epoch_seed_rule_v2",
                "intra_block_feistel_v1" if is_feistel else "intra_block_affine_coprime_v1",
                "rank_contiguous_shard_v1",
            ]
        )


def _refuse_position(position: int, n: int) -> None:
    raise WeirError(
        "GLOBAL_POSITION_EXCEEDS_CARDINALITY",
        f"position {position} is not below the cardinality {n}",
        global_index=position,
        cardinality=n,
    )
