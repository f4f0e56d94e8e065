"""Mixed batches in Python: what a Loader gives, what torch takes, tables of all stores, copies and cells."""

import json
import subprocess
import sys
import unittest
import warnings
from pathlib import Path

import numpy
import torch

import weir
import weir.torch
from support import ShopTest


class Mixed(ShopTest):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        schema = json.loads(Path("shop.schema.json").read_text())
        del schema["tables"]["reviews"], schema["tasks"]["rating"]  # another schema, and other numbers
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", weir.IngestWarning)
            weir.ingest("shop.sqlite", "corner.weir", schema=schema | {"name": "corner"})
        cls.stores = [weir.Store("shop.weir"), weir.Store("corner.weir")]
        shop, corner = (json.loads(Path(f"{name}.manifest.json").read_text()) for name in ("shop", "corner"))
        cls.document = {
            "global_batch_size": 12, "datasets": {**shop["datasets"], **corner["datasets"]},
            "data": {"epoch_boundary": "stream", "intra_block": "feistel_v1"},
            "mix": {"corner/category/train": 1, "corner/late/train": 1, "shop/churn/train": 1, "shop/rating/train": 1},
            "batch": {"mixed": True, "sequence_length": 48},
        }  # fmt: skip
        cls.mixed = weir.Manifest(cls.document)

    def loader(self, **options: object) -> weir.Loader:
        return weir.Loader(self.stores, self.mixed, steps=4, epochs=1, **options)

    def test_sources(self) -> None:
        batch = weir.batch(self.stores, self.mixed)
        self.assertEqual((batch.dataset, batch.target_stype), ("*", "mixed"))
        self.assertEqual([source.dataset for source in batch.sources], sorted(self.document["mix"]))
        self.assertEqual([source.target_stype for source in batch.sources], ["categorical", "boolean", "boolean", "numerical"])
        self.assertEqual([source.store for source in batch.sources], [self.stores[1]] * 2 + [self.stores[0]] * 2)
        self.assertEqual([source.first_column for source in batch.sources], [0, 0] + [self.stores[1].info["num_columns"]] * 2)
        self.assertEqual(sorted(set(batch.dataset_ids.tolist())), [0, 1, 2, 3])
        alone = weir.batch(self.stores, self.mixed, "shop/churn/train", cursor=(0, 0))
        self.assertEqual((alone.sources, alone.dataset_ids, alone.task), ((), None, "churn"))

    def test_what_is_each_sequences_own_says_where_it_is(self) -> None:
        batch = weir.batch(self.stores, self.mixed)
        for name in ("task", "store", "store_hash", "task_index", "category_start", "category_count"):
            with self.assertRaisesRegex(ValueError, "batch.sources and batch.dataset_ids"):
                getattr(batch, name)

    def test_tables_are_those_of_all_stores(self) -> None:
        for device in (None, "host"):
            with self.loader(device=device) as loader:
                tables = loader.tables()
                for name in ("columns", "categories"):
                    apart = [numpy.asarray(loader.tables(store)[name]) for store in (self.stores[1], self.stores[0])]
                    self.assertTrue((numpy.asarray(tables[name]) == numpy.concatenate(apart)).all(), (device, name))
        with weir.Loader(self.stores, weir.Manifest(self.mixed, batch={"mixed": False})) as plain:
            with self.assertRaisesRegex(ValueError, "say which"):
                plain.tables()

    def test_columns_lead_to_their_names(self) -> None:
        batch = weir.batch(self.stores, self.mixed)
        embeddings = numpy.concatenate([weir.torch.embeddings(store)["columns"].numpy() for store in self.stores[::-1]])
        for i, number in enumerate(batch.dataset_ids.tolist()):
            source = batch.sources[number]
            own = weir.torch.embeddings(source.store)["columns"].numpy()
            for column in set(numpy.asarray(batch["column_ids"])[i, : batch.num_cells.tolist()[i]].tolist()):
                self.assertTrue((embeddings[column] == own[column - source.first_column]).all())

    def test_targets(self) -> None:
        batch = weir.batch(self.stores, self.mixed)
        values, is_null = batch.target.numpy()
        self.assertEqual((values.dtype, values.shape), (numpy.float32, (12,)))
        for i, number in enumerate(batch.dataset_ids.tolist()):
            source, epoch, position = batch.sources[number], batch.epochs.tolist()[i], batch.position.tolist()[i]
            alone = weir.batch(self.stores, self.mixed, source.dataset, cursor=(epoch, position))
            self.assertEqual(values[i], numpy.float32(alone.target.numpy()[0][0]), source.dataset)
            self.assertEqual(is_null[i], alone.target.numpy()[1][0])
            self.assertEqual(batch.anchor_key[i], alone.anchor_key[0])
            self.assertEqual((source.mean, source.std), (alone.target.mean, alone.target.std))
        on_device, nulls = batch.target._mixed(batch.torch())  # as it is computed on a GPU
        self.assertEqual((on_device.tolist(), nulls.tolist()), (values.tolist(), is_null.tolist()))

    def test_numbers_that_were_written_to_a_copy_are_not_believed(self) -> None:
        copy = weir.batch(self.stores, self.mixed).copy()
        copy.dataset_ids.numpy()[2] = 2**32 - 1
        with self.assertRaisesRegex(ValueError, r"dataset_ids\[2\] is 4294967295, but the batch has 4 sources"):
            copy.target.values

    def test_torch_takes_them_with_targets_hidden(self) -> None:
        dataset = weir.torch.Dataset(self.stores, self.mixed, steps=2, epochs=1, fields=True)
        for tensors in dataset:
            self.assertEqual(tensors["dataset_ids"].shape, (12,))
            self.assertEqual(tensors["target"].dtype, torch.float32)
            for name in ("numeric_values", "bool_values", "categorical_embed_ids", "is_null"):
                self.assertEqual(tensors[name][:, 0].long().abs().sum().item(), 0)
            self.assertNotIn("task_index", tensors)

    def test_ranks_workers_states_and_copies(self) -> None:
        def digests(**options: object) -> list[list[int]]:
            return [batch.sample_digests.tolist() for batch in self.loader(with_digests=True, **options)]

        whole = digests()
        self.assertEqual(digests(workers=3), whole)
        self.assertEqual(digests(device="host"), whole)
        self.assertEqual([a + b for a, b in zip(digests(rank=0, world_size=2), digests(rank=1, world_size=2))], whole)
        first = self.loader(with_digests=True)
        kept = [next(first), next(first)]
        copies = [batch.copy() for batch in kept]
        resumed = self.loader(with_digests=True)
        resumed.load_state_dict(first.state_dict())
        self.assertEqual([batch.sample_digests.tolist() for batch in resumed], whole[2:])
        del kept, first
        self.assertEqual([copy.sample_digests.tolist() for copy in copies], whole[:2])
        self.assertEqual(copies[1].sources[0].dataset, "corner/category/train")
        self.assertEqual(copies[1].target.values.shape, (12,))

    def test_cells_are_those_of_one_store(self) -> None:
        batch = weir.batch(self.stores, self.mixed)
        found = {store.name: list(batch.cells(store)) for store in self.stores}
        ids = batch.dataset_ids.tolist()
        for store in self.stores:
            own = [i for i, number in enumerate(ids) if batch.sources[number].store is store]
            self.assertEqual(sorted({cell.sequence for cell in found[store.name]}), own)
        for i, number in enumerate(ids):
            source = batch.sources[number]
            alone = weir.batch(self.stores, self.mixed, source.dataset, cursor=(batch.epochs.tolist()[i], batch.position.tolist()[i]))
            expected = [cell[1:] for cell in alone.cells(source.store) if cell.sequence == 0]
            self.assertEqual([cell[1:] for cell in found[source.store.name] if cell.sequence == i], expected)

    def test_a_mix_has_no_passes(self) -> None:
        with self.assertRaisesRegex(ValueError, "no passes"):
            weir.Loader(self.stores, self.mixed, epochs=1)

    def test_one_model_learns_two_databases(self) -> None:
        example = Path(__file__).resolve().parents[2] / "examples" / "mixed.py"
        done = subprocess.run([sys.executable, "-B", example], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("one model learnt both databases", done.stdout)


if __name__ == "__main__":
    unittest.main()
