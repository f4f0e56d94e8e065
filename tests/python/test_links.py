"""Link tasks in Python: groups and roles, in a Loader, in weir.torch, on a device and on demand."""

import json
import unittest
import warnings
from pathlib import Path

import numpy
import torch

import weir
import weir.torch
from support import ShopTest

TASK = {
    "kind": "link",
    "query": "SELECT o.customer_id, i.product_id, t.at FROM (SELECT '2024-01-01 00:00:00' AS at, '2024-03-31 00:00:00' AS until"
             " UNION ALL SELECT '2024-04-01 00:00:00', '2024-06-30 00:00:00') t"
             " JOIN orders o ON o.ordered_at > t.at AND o.ordered_at <= t.until JOIN order_items i USING (order_id)",
    "anchor_table": "customers", "anchor_key": "customer_id",
    "destination_table": "products", "destination_key": "product_id",
    "observation_time_column": "at", "popularity": "order_items.product_id",
    "split": {"method": "temporal", "val": "2024-04-01", "test": "2025-01-01"},
}  # fmt: skip


class Links(ShopTest):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        schema = json.loads(Path("shop.schema.json").read_text()) | {"tasks": {"buys": TASK}}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", weir.IngestWarning)
            weir.ingest("shop.sqlite", "buys.weir", schema=schema)
        cls.store = weir.Store("buys.weir")
        cls.manifest = weir.Manifest("buys.manifest.json", global_batch_size=8, batch={
            "sequence_length": 64, "child_policy": "latest", "links": {"negatives": 3, "candidates": 5, "by": "popularity"}})

    def test_groups_and_roles(self) -> None:
        batch = weir.batch(self.store, self.manifest, "shop/buys/train")
        self.assertEqual((batch.group_size, batch.sequence_count, batch.valid_count), (5, 40, 40))
        self.assertEqual(batch.group.numpy().tolist(), [i // 5 for i in range(40)])
        self.assertEqual(batch.role.numpy().tolist(), [1, 2, 3, 3, 3] * 8)
        values, is_null = batch.target.numpy()
        self.assertEqual(values.tolist(), [False, True, False, False, False] * 8)
        self.assertEqual(is_null.tolist(), [True, False, False, False, False] * 8)
        first = numpy.asarray(batch.sample_index).reshape(8, 5)
        self.assertTrue((first == first[:, :1]).all())
        other = weir.batch(self.store, self.manifest, "shop/buys/val", stage="eval")
        self.assertEqual(other.group_size, 7)
        copied = batch.copy()
        self.assertEqual(copied.role.tolist(), batch.role.tolist())

    def test_a_batch_of_another_task_has_groups_of_one(self) -> None:
        batch = weir.batch("shop.weir", "shop.manifest.json", "shop/churn/train")
        self.assertEqual((batch.group_size, set(batch.role.tolist())), (1, {int(weir.Role.SAMPLE)}))
        self.assertEqual(batch.group.tolist(), list(range(batch.sequence_count)))

    def test_what_is_padding_has_no_label(self) -> None:
        many = weir.Manifest(self.manifest, batch={"sequence_length": 16, "links": {"negatives": 1000}})
        batch = weir.batch(self.store, many, "shop/buys/train")
        cells, (_, is_null) = batch.num_cells.numpy(), batch.target.numpy()
        self.assertTrue((cells == 0).any())
        self.assertTrue(is_null[cells == 0].all())
        self.assertFalse(is_null[(cells > 0) & (batch.role.numpy() != 1)].any())
        # Keys are those of sources and destinations, and padding has none, though its row is 0.
        self.assertEqual([key is None for key in batch.anchor_key], (cells == 0).tolist())
        customers, products = batch.store.keys("customers"), batch.store.keys("products")
        rows, keys = batch.anchor_row.tolist(), batch.anchor_key
        self.assertEqual(keys[:2], [customers[rows[0]], products[rows[1]]])

    def test_a_loader_a_dataset_and_a_device_agree(self) -> None:
        with weir.Loader(self.store, self.manifest, dataset="shop/buys/train", steps=3, workers=2, copy=True, with_digests=True) as loader:
            expected = list(loader)
        data = weir.torch.Dataset(self.store, self.manifest, dataset="shop/buys/train", steps=3, fields=True, copy=True)
        for batch, tensors in zip(expected, data):
            self.assertEqual(tensors["group_size"], 5)
            self.assertEqual(tensors["role"].tolist(), batch.role.tolist())
            self.assertEqual(tensors["group"].dtype, torch.int64)
            self.assertTrue(torch.equal(tensors["target"], batch.target.torch()[0]))
        there = weir.torch.Dataset(self.store, self.manifest, dataset="shop/buys/train", steps=3, fields=True, device="host")
        for batch, tensors in zip(expected, there):
            self.assertEqual(tensors["anchor_row"].tolist(), batch.anchor_row.tolist())
            self.assertEqual(tensors["anchor_key"], batch.anchor_key)
            self.assertEqual(tensors["role"].tolist(), batch.role.tolist())

    def test_towers_are_served(self) -> None:
        batch = weir.batch(self.store, self.manifest, "shop/buys/val", stage="eval")
        source, destination = batch.anchor_row.tolist()[:2]
        time = batch.observation_time.tolist()[0]
        contexts = weir.Contexts(self.store, "buys", self.manifest, with_digests=True)
        asked = contexts(row=[source], time=time), contexts(row=[destination], time=time, destination=True)
        # The label alone differs from what a batch has: nothing is drawn.
        for at, answer in enumerate(asked):
            self.assertTrue(answer.target.is_null.tolist()[0])
            for name in ("column_ids", "numeric_values", "timestamp_values", "out_perm"):
                self.assertEqual(answer[name].numpy()[0].tolist(), batch[name].numpy()[at].tolist(), name)
        self.assertEqual(asked[0].sample_digests.tolist(), batch.sample_digests.tolist()[:1])
        with self.assertRaises(weir.errors.KeyNotFound):
            contexts(row=source, destination=True)
        with self.assertRaisesRegex(weir.Error, "not a link task"):
            weir.Store("shop.weir").context("churn", 5, destination=True)


if __name__ == "__main__":
    unittest.main()
