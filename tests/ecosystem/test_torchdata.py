"""torchdata's StatefulDataLoader: the state that belongs to each batch, also with a worker."""

import itertools
import json
import unittest
from typing import Any

from tests.ecosystem.support import require

require("torchdata", "torch")

import weir
import weir.torch
from tests.python.support import TRAIN, ShopTest
from torchdata.stateful_dataloader import StatefulDataLoader


class Batches(ShopTest):
    def loader(self, workers: int, **options: Any) -> StatefulDataLoader:
        options = {"dataset": TRAIN, "fields": True, "steps": 7, "copy": True, **options}
        data = weir.torch.Dataset(self.store, self.changed_manifest(global_batch_size=4), **options)
        return StatefulDataLoader(data, batch_size=None, num_workers=workers)

    def test_every_split_resumes(self) -> None:
        for workers in 0, 1:
            for split in 1, 3, 6:
                with self.subTest(workers=workers, split=split):
                    first, second = self.loader(workers), self.loader(workers)
                    taken = [tensors["step"] for tensors in itertools.islice(first, split)]
                    second.load_state_dict(first.state_dict())
                    self.assertEqual(taken + [tensors["step"] for tensors in second], list(range(7)))

    def test_several_workers_are_refused(self) -> None:
        with self.assertRaisesRegex(RuntimeError, "num_workers=0"):
            next(iter(self.loader(2)))


class Samples(unittest.TestCase):
    def loader(self, workers: int, by_batch: bool) -> StatefulDataLoader:
        dataset = {"id": "d", "version": "1", "hash": "00" * 32, "cardinality": 100}
        sampler = weir.Sampler({"seed": 5, "global_batch_size": 8, "datasets": {"a": dataset}}, rank=1, world_size=2)
        if by_batch:
            return StatefulDataLoader(range(100), batch_sampler=sampler.batches(), num_workers=workers)
        return StatefulDataLoader(range(100), sampler=sampler, batch_size=sampler.batch_size, num_workers=workers)

    def test_a_sampler_resumes(self) -> None:
        for workers, by_batch, split in itertools.product((0, 2), (True, False), (1, 5)):
            with self.subTest(workers=workers, by_batch=by_batch, split=split):
                whole = [batch.tolist() for batch in self.loader(workers, by_batch)]
                first, second = self.loader(workers, by_batch), self.loader(workers, by_batch)
                taken = [batch.tolist() for batch in itertools.islice(first, split)]
                second.load_state_dict(json.loads(json.dumps(first.state_dict(), default=str)) if workers == 0 else first.state_dict())
                self.assertEqual(taken + [batch.tolist() for batch in second], whole)


if __name__ == "__main__":
    unittest.main()
