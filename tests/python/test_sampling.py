"""Class-balanced batches through a Loader: every batch has as many of one class as of the other, on any number of ranks."""

import unittest

import weir

from support import TRAIN, ShopTest


class Balanced(ShopTest):
    def setUp(self) -> None:
        data = {"sampling": {"mode": "class_balanced", "datasets": [TRAIN]}, "epoch_boundary": "stream"}
        self.described = self.changed_manifest(global_batch_size=8, data=data)

    def targets(self, **options: int) -> list[list[bool]]:
        """The target is the first cell of a sequence."""
        with weir.Loader(self.store, self.described, dataset=TRAIN, steps=30, **options) as loader:
            return [[bool(truth) for truth in batch["bool_values"].numpy()[:, 0]] for batch in loader]

    def test_every_batch_is_balanced(self) -> None:
        whole = self.targets(workers=2)
        for batch in whole:
            self.assertEqual(sum(batch), len(batch) // 2)
        ranks = [self.targets(rank=rank, world_size=2) for rank in range(2)]
        self.assertEqual([left + right for left, right in zip(*ranks)], whole)

    def test_a_sampler_without_a_store_says_so(self) -> None:
        with self.assertRaisesRegex(weir.errors.ContractViolation, "needs its store"):
            weir.Sampler(self.described, TRAIN)


if __name__ == "__main__":
    unittest.main()
