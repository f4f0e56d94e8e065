"""Batches on a device: with the host as the device they are what they are without; with the fake driver's device their
arrays say where they lie, wait for streams, and are given back when the last of them is gone."""

import ctypes
import gc
import os
import signal
import threading
import unittest
from typing import Any

import numpy
import weir
import weir.errors
from tests.python.support import TRAIN, ShopTest

FAKE = os.environ["WEIR_FAKE_CUDA"]


class Devices(ShopTest):
    def loader(self, **options: Any) -> weir.Loader:
        manifest = self.changed_manifest(global_batch_size=4)
        loader = weir.Loader(self.store, manifest, **{"dataset": TRAIN, "steps": 12, "with_digests": True, **options})
        self.addCleanup(loader.close)
        return loader

    def test_the_host_as_the_device(self) -> None:
        loader = self.loader(device="host", workers=2)
        for step, batch in enumerate(loader):
            expected = weir.batch(self.store, loader.manifest, TRAIN, step=step)
            self.assertEqual((batch.step, batch.digest, batch.device_index), (step, expected.digest, None))
            self.assertIsNone(batch.rows)
            for name, array in expected.items():
                self.assertTrue(numpy.array_equal(numpy.asarray(batch[name]), numpy.asarray(array)), name)
            self.assertEqual(batch.sample_index.tolist(), expected.sample_index.tolist())
            self.assertEqual(batch.epochs.tolist(), expected.epochs.tolist())
            copied = loader.metrics()
            self.assertGreater(copied["compact_bytes"], 1000 * (step + 1))
            self.assertEqual(copied["unpinned_bytes"], 0)
        self.assertEqual(step, 11)

    def test_torch(self) -> None:
        import torch

        loader = self.loader(device="host")
        for step, batch in enumerate(loader):
            expected = weir.batch(self.store, loader.manifest, TRAIN, step=step).torch()
            for name, tensor in batch.torch().items():
                self.assertTrue(torch.equal(tensor, expected[name]), name)
                tensor.fill_(1)  # in place, which no later batch may notice

    def test_arrays_on_a_gpu(self) -> None:
        batch = next(self.loader(device=FAKE))
        array = batch["numeric_values"]
        self.assertEqual(batch.device_index, 0)
        self.assertEqual(array.__dlpack_device__(), (2, 0))
        self.assertFalse(hasattr(array, "__array_interface__"))
        expected = weir.batch(self.store, self.changed_manifest(global_batch_size=4), TRAIN, step=0)
        self.assertEqual(batch.anchor_row.tolist(), expected.anchor_row.tolist())  # the host's
        asked = next(self.loader(device=FAKE, anchor_rows=True))
        self.assertEqual((asked.anchor_row.__dlpack_device__(), asked.anchor_row.shape), ((2, 0), (4,)))
        self.assertEqual(array[1:3].__dlpack_device__(), (2, 0))
        for use in (memoryview, lambda array: array.tolist(), numpy.asarray, lambda array: array[0, 0]):
            with self.assertRaises(BufferError):
                use(array)
        with self.assertRaisesRegex(ValueError, "clone"):
            batch.copy()
        for stream in (None, 1, 2, -1):
            self.assertIn("dltensor", repr(array.__dlpack__(stream=stream)))
        for stream in (0, -2):
            with self.assertRaisesRegex(ValueError, "stream"):
                array.__dlpack__(stream=stream)
        self.assertEqual(batch.epochs.tolist(), [0, 0, 0, 0])  # the host's

    def test_a_batch_is_held_by_what_was_made_of_it(self) -> None:
        loader = self.loader(device=FAKE, depth=2)
        first, second = next(loader), next(loader)
        with self.assertRaisesRegex(weir.errors.ContractViolation, "held on the device.*larger depth"):
            next(loader)
        capsule = first["column_ids"].__dlpack__()
        del first
        gc.collect()
        with self.assertRaises(weir.errors.ContractViolation):
            next(loader)
        del capsule
        self.assertEqual(next(loader).step, 2)
        self.assertEqual(second.step, 1)
        del second
        self.assertEqual([batch.step for batch in loader], list(range(3, 12)))

    def test_streams_that_used_a_batch_are_waited_for(self) -> None:
        """The device itself waits for one; where it may be several, who lets go of the batch waits for all."""
        calls = ctypes.CDLL(FAKE).fake_cuda_calls
        calls.restype = ctypes.c_uint64
        loader = self.loader(device=FAKE, depth=2)
        for streams, waits in (((), 0), ((1,), 0), ((2, 2), 0), ((1, 2), 1), ((-1,), 1), ((-1, 1), 1), ((2, 1, 2), 1)):
            batch = next(loader)
            for stream in streams:
                batch["numeric_values"].__dlpack__(stream=stream)
            before = calls(b"cuCtxSynchronize")
            del batch
            gc.collect()
            self.assertEqual(calls(b"cuCtxSynchronize") - before, waits, streams)

    def test_states_are_those_of_the_loop(self) -> None:
        for stop in (0, 1, 5):
            loader = self.loader(device=FAKE, workers=2, depth=4)
            for _ in range(stop):
                next(loader)
            self.assertEqual(loader.step, stop)
            state = loader.state_dict()
            loader.close()
            resumed = self.loader()
            resumed.load_state_dict(state)
            self.assertEqual([batch.step for batch in resumed], list(range(stop, 12)))

    def test_tables_lie_where_the_batches_are(self) -> None:
        store = weir.Store(self.store)
        for device in None, "host":
            loader = weir.Loader(store, self.changed_manifest(global_batch_size=4), dataset=TRAIN, device=device)
            tables = loader.tables()
            self.assertEqual(sorted(tables), ["categories", "columns"])
            for kind, table in loader.tables(store).items():
                self.assertEqual(table.dtype, "float16")
                self.assertTrue(numpy.array_equal(numpy.asarray(table), numpy.asarray(store.embeddings[kind])))
            batch = next(loader)
            self.assertIs(batch.store, store)
            loader.close()
            del loader, batch
            gc.collect()
            self.assertTrue(numpy.array_equal(numpy.asarray(tables["columns"]), numpy.asarray(store.embeddings["columns"])))
        there = self.loader(device=FAKE).tables()["columns"]
        self.assertEqual((there.shape, there.__dlpack_device__()), (store.embeddings["columns"].shape, (2, 0)))
        self.assertIn("dltensor", repr(there.__dlpack__(stream=1)))
        with self.assertRaisesRegex(ValueError, "not one of the loader's"):
            self.loader().tables(weir.Store(self.store))
        several = weir.Loader([store, weir.Store(self.store)], self.manifest)
        with self.assertRaisesRegex(ValueError, "2 stores; say which"):
            several.tables()

    def test_a_batch_knows_its_store(self) -> None:
        store = weir.Store(self.store)
        batch = weir.batch(store, self.manifest, TRAIN)
        self.assertIs(batch.store, store)
        self.assertIs(batch.copy().store, store)

    def test_the_plan_has_both_sides(self) -> None:
        arenas = self.loader(device="cuda").plan().arenas  # planning needs no GPU
        self.assertEqual(set(arenas), {"slots", "builders", "device"})

    def test_what_is_wrong_is_said(self) -> None:
        for options, error in (({"device": "gpu"}, ValueError), ({"device": "cuda:x"}, ValueError),
                               ({"device": "host", "copy": True}, ValueError),
                               ({"device": "/nowhere/libcuda.so"}, weir.errors.DeviceError)):
            with self.subTest(options), self.assertRaises(error):
                next(self.loader(**options))

    def test_what_needs_no_device_is_said_when_a_loader_is_made(self) -> None:
        for options in ({"device": "gpu"}, {"device": "cuda:x"}, {"device": "cuda", "depth": 65}):
            with self.subTest(options), self.assertRaises(ValueError):
                self.loader(**options)

    def test_ctrl_c(self) -> None:
        loader = self.loader(device="host", steps=None)
        timer = threading.Timer(0.05, lambda: signal.raise_signal(signal.SIGINT))
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            for _ in loader:
                pass
        timer.join()
        step = loader.step
        self.assertEqual(next(loader).step, step)


if __name__ == "__main__":
    unittest.main()
