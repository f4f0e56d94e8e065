"""Mixing tasks: from the number of a training step to the dataset that it reads and where.

Follows the section "Mixing tasks: a step is enough" of the specification. Steps come in periods of W, the sum
of the weights; in each period every dataset has as many steps as its weight says, in a seeded order. So how
often a dataset had its turn before a step, and with that its cursor, follows from the step alone: the whole
data state of a run is one integer.
"""

from functools import lru_cache

from . import philox
from .errors import WeirError
from .manifest import LARGEST_UINT64, MIX_KEY, Manifest, sha256_of
from .sampler import Cursor, shuffled_entries


class Mixer:
    """The endless sequence of steps of a manifest under a token."""

    def __init__(self, manifest: Manifest, token: bytes | None = None) -> None:
        self.manifest = manifest
        self.token = manifest.replay_token if token is None else token
        self.schedule = lru_cache(maxsize=16)(self._make_schedule)

    def _make_schedule(self, period: int) -> list[str]:
        """The dataset keys of the steps of one period."""
        mix = self.manifest.mix
        if mix is None:
            return [self._the_only_dataset()]
        seed = sha256_of(["mix_seed_v1", self.token, self.manifest.manifest_hash, mix, period])[:16]
        in_bytewise_order = sorted(mix, key=lambda key: key.encode("utf-8"))
        unshuffled = [key for key in in_bytewise_order for _ in range(mix[key])]
        entries = shuffled_entries(len(unshuffled), seed, philox.DOMAIN_TASK_MIXING)
        return [unshuffled[entry] for entry in entries]

    def _the_only_dataset(self) -> str:
        if len(self.manifest.datasets) != 1:
            raise WeirError("MANIFEST_INVALID", "several datasets need a mix, or a step has no meaning")
        (key,) = self.manifest.datasets
        return key

    def locate(self, step: int) -> tuple[str, Cursor]:
        """The dataset that a global step reads, and the cursor at which it does."""
        if self.manifest.batch.mixed:  # docs/spec/05g-mixed.md
            return MIX_KEY, self.cursor_of_batch(MIX_KEY, step)
        weights = self.manifest.mix or {self._the_only_dataset(): 1}
        period, place = divmod(step, sum(weights.values()))
        schedule = self.schedule(period)
        key = schedule[place]
        own_batch_number = period * weights[key] + schedule[:place].count(key)
        return key, self.cursor_of_batch(key, own_batch_number)

    def cursor_of_batch(self, key: str, batch_number: int) -> Cursor:
        n = self.manifest.all_datasets[key].cardinality
        if n == 0:
            raise WeirError("CARDINALITY_MISMATCH", f"the dataset {key!r} is empty")
        if self.manifest.global_batch_size == 0:
            raise WeirError("BATCH_SIZE_INCONSISTENT", "global_batch_size is 0")
        if self.manifest.data.is_stream:
            epoch, global_index = divmod(self._start_of_batch(batch_number), n)
        else:
            epoch, batch_in_epoch = divmod(batch_number, self._batches_in_an_epoch(n))
            global_index = self._start_of_batch(batch_in_epoch)
        if epoch > LARGEST_UINT64:
            raise WeirError("COUNTER_OVERFLOW", "the epoch would pass 2^64-1")
        return Cursor(epoch, global_index)

    def _start_of_batch(self, number: int) -> int:
        """How many positions the batches before one take; their sizes come in turn (docs/spec/02c-lengths.md)."""
        sizes = self.manifest.batch_sizes
        rounds, turn = divmod(number, len(sizes))
        return rounds * sum(sizes) + sum(sizes[:turn])

    def _batches_in_an_epoch(self, n: int) -> int:
        sizes = self.manifest.batch_sizes
        rounds, rest = divmod(n, sum(sizes))
        batches = rounds * len(sizes)
        for size in sizes:
            if rest >= size or (rest > 0 and not self.manifest.data.drop_last):
                batches += 1
            else:
                break
            rest = max(rest - size, 0)
        if batches == 0:
            raise WeirError("BATCH_SIZE_INCONSISTENT", "with drop_last no epoch has a batch", cardinality=n)
        return batches
