"""weir.torch: plain loops, DataLoader, and loops that resume."""

import itertools
import json
import sqlite3
import unittest
from pathlib import Path
from typing import Any

import torch
import weir
import weir.torch
from tests.python.support import TRAIN, ShopTest, run_weir
from torch.utils.data import DataLoader


class Datasets(ShopTest):
    def dataset(self, **options: Any) -> weir.torch.Dataset:
        manifest = self.changed_manifest(global_batch_size=4)
        data = weir.torch.Dataset(self.store, manifest, **{"dataset": TRAIN, "steps": 6, **options})
        self.addCleanup(data.close)
        return data

    def test_a_plain_loop(self) -> None:
        data = self.dataset(hide_target=False)
        self.assertEqual(len(data), 6)
        for step, tensors in enumerate(data):
            expected = weir.batch(self.store, data.loader.manifest, TRAIN, step=step).torch()
            self.assertEqual(tensors.keys(), expected.keys())
            for name, tensor in tensors.items():
                self.assertTrue(torch.equal(tensor, expected[name]), name)
        self.assertEqual(step, 5)

    def test_the_target_is_hidden_unless_it_is_asked_for(self) -> None:
        tensors = next(iter(self.dataset()))
        batch = weir.batch(self.store, self.changed_manifest(global_batch_size=4), TRAIN, step=0)
        self.assertEqual(set(tensors) - set(batch), {"target", "target_is_null"})
        self.assertEqual(tensors["target"].tolist(), batch.target.values.tolist())
        self.assertTrue(bool(tensors["target"].any()), "of false alone nothing can be seen")
        self.assertFalse(bool(tensors["bool_values"][:, 0].any() or tensors["is_null"][:, 0].any()))

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
            "step", "task_index", "group_size", "category_start", "category_count", "sample_index", "position", "anchor_row",
            "observation_time", "num_cells", "num_rows", "group", "role", "anchor_key"})
        self.assertEqual(tensors["anchor_key"], weir.Store(self.store).keys("customers")[tensors["anchor_row"]])
        self.assertEqual(tensors["observation_time"].dtype, torch.int64)
        pair = next(iter(self.dataset(transform=lambda tensors, batch: (len(tensors), batch.task))))
        self.assertEqual(pair, (18, "churn"))
        tensors = next(iter(self.dataset(names=["target", "is_target"])))
        self.assertEqual({name: tensor.dtype for name, tensor in tensors.items()}, {"target": torch.bool, "is_target": torch.bool})

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
        data = self.dataset(device="host", steps=3, epochs=1)
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
        self.assertEqual(set(tables), {"columns", "categories"}, "the store's texts are for nobody to upload")
        self.assertEqual(tables["columns"].dtype, torch.float16)
        moved = weir.torch.embeddings(weir.Store(self.store), device="cpu")
        self.assertTrue(torch.equal(moved["categories"], tables["categories"]))

    def test_texts_are_those_of_weir_embed(self) -> None:
        """The embedding that the documented way finds for every text cell is that of the text in the database's row."""
        printed = json.loads(run_weir("embed", self.store, "--texts", "100000", "--json"))
        expected = {entry["index"]: entry["f16"] for entry in printed}
        store = weir.Store(self.store)
        columns = {column["column_idx"]: column for column in store.info["columns"]}
        tables = {name: (table, table.row_start) for name, table in store.tables.items()}
        numbers = {(t, c): table[c].tolist() for t, (table, _) in tables.items() for c in table}
        seen = 0
        for dataset in "shop/category/train", "shop/late/train":
            data = self.dataset(dataset=dataset, steps=4, epochs=1, transform=lambda tensors, batch: (tensors, batch))
            for tensors, batch in data:
                found = weir.torch.text_embeddings(tensors)
                rows, row_ids = batch.rows.tolist(), tensors["seq_row_ids"].long()
                is_text = (tensors["semantic_types"] == weir.SemanticType.TEXT) & ~tensors["is_null"]
                self.assertEqual(int(found[~is_text].count_nonzero()), 0)
                for b, s in is_text.nonzero().tolist():
                    column = columns[int(tensors["column_ids"][b, s])]
                    row = rows[b][int(row_ids[b, s])] - tables[column["table"]][1]
                    number = numbers[column["table"], column["name"]][row]
                    self.assertEqual(found[b, s].numpy().tobytes().hex(), expected[number])
                    seen += 1
        self.assertGreater(seen, 100)

    def test_texts_of_a_batch_without_any(self) -> None:
        tensors = next(iter(self.dataset()))
        tensors["text_batch_embeddings"] = tensors["text_batch_embeddings"][:0]
        self.assertEqual(int(weir.torch.text_embeddings(tensors).count_nonzero()), 0)

    def test_tensors_move(self) -> None:
        tensors = next(iter(self.dataset(fields=True)))
        moved = tensors.to("meta")
        self.assertEqual({value.device.type for value in moved.values() if torch.is_tensor(value)}, {"meta"})
        self.assertEqual((moved["step"], type(moved)), (0, weir.torch.Tensors))
        batch = weir.batch(self.store, self.manifest, TRAIN)
        self.assertEqual(batch.to("meta")["fk_adj"].device.type, "meta")
        self.assertEqual(batch.to("cpu")["fk_adj"].data_ptr(), batch["fk_adj"].address)

    def test_unsigned_types_are_themselves_if_torch_has_them(self) -> None:
        batch = weir.batch(self.store, self.manifest, TRAIN)
        tensors, has_them = batch.torch(), hasattr(torch, "uint16")
        self.assertEqual(tensors["seq_row_ids"].dtype, getattr(torch, "uint16" if has_them else "int16"))
        self.assertEqual(tensors["text_embed_ids"].dtype, getattr(torch, "uint32" if has_them else "int32"))
        self.assertEqual(batch.sample_index.torch().dtype, getattr(torch, "uint64" if has_them else "int64"))
        self.assertEqual(tensors["out_perm"].long().tolist(), batch["out_perm"].tolist())

    def test_a_data_loader_does_not_stack(self) -> None:
        for options in {}, {"batch_size": 4}, {"batch_size": 4, "num_workers": 1}:
            with self.subTest(options), self.assertRaisesRegex(TypeError, "batch_size=None"):
                next(iter(DataLoader(self.dataset(), **options)))

    def test_the_state_of_another_process_is_not_given(self) -> None:
        data = self.dataset(steps=None)
        iterator = iter(DataLoader(data, batch_size=None, num_workers=1))
        next(iterator)
        with self.assertRaisesRegex(RuntimeError, "num_workers=0.*StatefulDataLoader"):
            data.state_dict()
        del iterator
        next(iter(data))
        self.assertEqual(data.state_dict()["step"], 1)

    def test_a_data_loader_resumes(self) -> None:
        whole = [tensors["numeric_values"].clone() for tensors in self.dataset()]
        for workers in 0, 1:
            first, second = self.dataset(), self.dataset(copy=True)
            for _ in itertools.islice(DataLoader(first, batch_size=None), 2):
                pass
            second.load_state_dict(first.state_dict())
            rest = [tensors["numeric_values"] for tensors in DataLoader(second, batch_size=None, num_workers=workers)]
            self.assertTrue(all(torch.equal(a, b) for a, b in zip(rest, whole[2:], strict=True)))


class Targets(ShopTest):
    """The label of each sequence, apart from inputs that do not say it."""

    def test_every_type_of_target(self) -> None:
        for task, stype, dtype in (("churn", "boolean", torch.bool), ("rating", "numerical", torch.float32),
                                   ("category", "categorical", torch.int64), ("spend", "numerical", torch.float32)):
            batch = weir.batch(self.store, self.manifest, f"shop/{task}/train")
            raw, hidden = batch.torch(), batch.torch(hide_target=True)
            values, is_null = batch.target.torch()
            self.assertEqual((batch.target.stype, values.dtype, len(values)), (stype, dtype, batch.sequence_count))
            self.assertEqual(batch.target.numpy()[0].tolist(), values.tolist())
            self.assertEqual(batch.target.values.tolist(), values.tolist())
            name = {"boolean": "bool_values", "numerical": "numeric_values", "categorical": "categorical_embed_ids"}[stype]
            expected = raw[name][:, 0].long() - batch.category_start if stype == "categorical" else raw[name][:, 0]
            self.assertEqual(values.tolist(), expected.tolist())
            self.assertTrue(torch.equal(is_null, raw["is_null"][:, 0]))
            self.assertTrue(bool(raw["is_target"][:, 0].all()) and not bool(raw["is_target"][:, 1:].any()))
            for other, tensor in hidden.items():
                first, rest = (tensor[:, :1], tensor[:, 1:]) if other in (name, "is_null") else (tensor[:0], tensor)
                self.assertEqual(int(first.long().count_nonzero()), 0, other)
                self.assertEqual(rest.tolist(), (raw[other][:, 1:] if other in (name, "is_null") else raw[other]).tolist())
            arrays = batch.numpy(hide_target=True)
            self.assertEqual(arrays[name].tolist(), hidden[name].tolist())

    def test_what_a_manifest_asks_for(self) -> None:
        """Optional tensors are there; what is masked is hidden with the target, in training alone."""
        manifest = json.loads(Path(self.manifest).read_text())
        manifest["batch"] = {"sequence_length": 200, "tensors": ["ages", "hops", "example_ids"], "mask_permille": 300}
        batch = weir.batch(self.store, manifest, "shop/churn/train")
        self.assertEqual(list(batch)[16:], ["example_ids", "hops", "ages", "is_masked"])
        self.assertEqual((len(batch), "hops" in batch), (20, True))
        raw, hidden = batch.torch(), batch.torch(hide_target=True)
        masked = raw["is_masked"]
        self.assertEqual((masked.dtype, raw["hops"].dtype, raw["ages"].dtype), (torch.bool, torch.int8, torch.float32))
        share = masked.sum().item() / (~raw["is_padding"] & ~raw["is_null"] & (raw["semantic_types"] > 0)).sum().item()
        self.assertTrue(0.25 < share < 0.35, share)
        self.assertFalse(bool((masked & (raw["is_null"] | raw["is_padding"] | raw["is_target"])).any()))
        arrays = batch.numpy(hide_target=True)
        for name in ("numeric_values", "bool_values", "categorical_embed_ids", "text_embed_ids", "timestamp_values"):
            self.assertTrue(bool(raw[name].long()[masked].any()), name)
            self.assertFalse(bool(hidden[name].long()[masked].any()), name)
            seen = ~masked & ~raw["is_target"]
            self.assertEqual(hidden[name][seen].tolist(), raw[name][seen].tolist(), name)
            self.assertEqual(arrays[name].tolist(), hidden[name].tolist(), name)
        self.assertEqual(raw["hops"][:, 0].tolist(), [0] * batch.sequence_count)
        self.assertGreater(raw["hops"].max().item(), 1)
        self.assertGreater(raw["ages"].max().item(), 1)
        evaluated = weir.batch(self.store, manifest, "shop/churn/train", stage="eval").torch()
        self.assertFalse(bool(evaluated["is_masked"].any()))
        plain = weir.batch(self.store, {**manifest, "batch": {"sequence_length": 200}}, "shop/churn/train")
        self.assertEqual((len(plain), "hops" in plain), (16, False))
        with self.assertRaises(KeyError):
            plain["hops"]
        data = weir.torch.Dataset(self.store, manifest, dataset="shop/churn/train", steps=1, names=["hops", "target"])
        self.addCleanup(data.close)
        self.assertEqual(set(next(iter(data))), {"hops", "target"})

    def test_the_database_has_these_values(self) -> None:
        """Ratings as the reviews have them, categories by their names."""
        store, database = weir.Store(self.store), sqlite3.connect("shop.sqlite")
        stars = {rating for (rating,) in database.execute("SELECT DISTINCT rating FROM reviews WHERE rating NOT NULL")}
        target = weir.batch(self.store, self.manifest, "shop/rating/train").target
        self.assertLessEqual({round(value * target.std + target.mean, 3) for value in target.values.tolist()}, stars)
        batch = weir.batch(self.store, self.manifest, "shop/category/train")
        names = [store.category(batch.category_start + value) for value in batch.target.values.tolist()]
        known = {name for (name,) in database.execute("SELECT DISTINCT category FROM products")}
        self.assertLessEqual(set(names), known)
        self.assertGreater(len(set(names)), 3)
        self.assertEqual(batch.target.class_count, batch.category_count)

    def test_nulls(self) -> None:
        schema = json.loads(Path("shop.schema.json").read_text())
        task = {"query": "SELECT review_id, NULL AS label FROM reviews", "anchor_table": "reviews", "anchor_key": "review_id",
                "target_column": "label", "kind": "derived", "split": {"method": "hash", "permille": [900, 50, 50]}}
        for stype in "boolean", "numerical", "categorical", "timestamp":
            schema["tasks"] = {"t": {**task, "target_stype": stype}}
            weir.ingest("shop.sqlite", "null.weir", schema=schema, manifest="null.json")
            batch = weir.batch("null.weir", "null.json", "shop/t/train")
            self.assertEqual((set(batch.target.is_null.tolist()), set(batch.target.values.tolist())), ({True}, {0}))

    def test_labels_keep_no_batch(self) -> None:
        data = weir.torch.Dataset(self.store, self.manifest, dataset=TRAIN, names=["target"], queue_size=2)
        self.addCleanup(data.close)
        kept = [tensors["target"] for tensors in itertools.islice(data, 6)]
        loader = weir.Loader(self.store, self.manifest, dataset=TRAIN, queue_size=2)
        self.addCleanup(loader.close)
        self.assertEqual([batch.target.values.tolist() for batch in loader.take(6)], [values.tolist() for values in kept])


if __name__ == "__main__":
    unittest.main()
