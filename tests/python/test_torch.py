"""weir.torch: plain loops, DataLoader, and loops that resume."""

import itertools
import json
import unittest
from typing import Any

import torch
import weir
import weir.torch
from tests.python.support import TRAIN, ShopTest
from torch.utils.data import DataLoader


class Datasets(ShopTest):
    def dataset(self, **options: Any) -> weir.torch.Dataset:
        manifest = self.changed_manifest(global_batch_size=4)
        data = weir.torch.Dataset(self.store, manifest, **{"dataset": TRAIN, "steps": 6, **options})
        self.addCleanup(data.close)
        return data

    def test_a_plain_loop(self) -> None:
        data = self.dataset()
        self.assertEqual(len(data), 6)
        for step, tensors in enumerate(data):
            expected = weir.batch(self.store, data.loader.manifest, TRAIN, step=step).torch()
            self.assertEqual(tensors.keys(), expected.keys())
            for name, tensor in tensors.items():
                self.assertTrue(torch.equal(tensor, expected[name]), name)
        self.assertEqual(step, 5)

    def test_a_data_loader(self) -> None:
        expected = [tensors["column_ids"].clone() for tensors in self.dataset()]
        for workers in (0, 1):
            data = self.dataset(copy=True)
            found = [tensors["column_ids"] for tensors in DataLoader(data, batch_size=None, num_workers=workers)]
            self.assertEqual(len(found), 6)
            self.assertTrue(all(torch.equal(a, b) for a, b in zip(found, expected)))
        with self.assertRaisesRegex(RuntimeError, "num_workers=0"):
            next(iter(DataLoader(self.dataset(), batch_size=None, num_workers=2)))

    def test_names_fields_and_transform(self) -> None:
        tensors = next(iter(self.dataset(names=["column_ids"], fields=True)))
        self.assertEqual(set(tensors) - {"column_ids"}, {
            "step", "task_index", "category_start", "category_count", "sample_index", "position", "anchor_row",
            "observation_time", "num_cells", "num_rows"})
        self.assertEqual(tensors["sample_index"].dtype, torch.int64)
        pair = next(iter(self.dataset(transform=lambda tensors, batch: (len(tensors), batch.task))))
        self.assertEqual(pair, (16, "churn"))

    def test_names_are_checked_when_it_is_made(self) -> None:
        for names in ["column_ids", "colum_ids"], "column_ids", [3]:
            with self.subTest(names), self.assertRaisesRegex(ValueError, "names is a list of some of semantic_types"):
                self.dataset(names=names)

    def test_the_length_does_not_begin_a_run(self) -> None:
        """A data loader's length is asked for before its worker is forked."""
        for options, length in ({"steps": 3}, 3), ({"stage": "eval", "dataset": "shop/churn/val", "steps": 2}, 2):
            loader = torch.utils.data.DataLoader(self.dataset(**options), batch_size=None, num_workers=1)
            self.assertEqual(len(loader), length)
            self.assertEqual(sum(1 for _ in loader), length)

    def test_the_host_as_the_device(self) -> None:
        data = self.dataset(device="host", steps=3)
        self.assertEqual([tensors["column_ids"].device.type for tensors in data], ["cpu"] * 3)
        self.assertEqual(data.loader.metrics()["consumed"], 3)

    def test_on_a_device_tensors_are_copies(self) -> None:
        data = self.dataset(device="cpu")
        kept = list(data)
        self.assertEqual(len(kept), 6)
        self.assertEqual(data.loader.metrics()["held"], 0)
        meta = next(iter(self.dataset(device="meta", fields=True)))
        self.assertEqual(meta["fk_adj"].device.type, "meta")
        self.assertEqual(meta["step"], 0)

    def test_state(self) -> None:
        whole = [tensors["numeric_values"].clone() for tensors in self.dataset()]
        first = self.dataset()
        for _ in itertools.islice(first, 2):
            pass
        second = self.dataset(workers=2)
        second.load_state_dict(json.loads(json.dumps(first.state_dict())))
        rest = [tensors["numeric_values"].clone() for tensors in second]
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(rest, whole[2:], strict=True)))

    def test_gradients_flow_past_batches(self) -> None:
        """A training loop: what autograd keeps of a batch is let go of with the graph."""
        weight = torch.zeros(64, requires_grad=True)
        for tensors in self.dataset():
            loss = (tensors["numeric_values"] @ weight - 1).square().mean()
            loss.backward()
        self.assertGreater(float(weight.grad.abs().sum()), 0)

    def test_embeddings(self) -> None:
        tables = weir.torch.embeddings(self.store)
        self.assertEqual(tables["columns"].dtype, torch.float16)
        moved = weir.torch.embeddings(weir.Store(self.store), device="cpu")
        self.assertTrue(torch.equal(moved["texts"], tables["texts"]))


if __name__ == "__main__":
    unittest.main()
