"""weir.Array and weir.Batch: memory that is shown, not copied, and kept while anyone looks at it."""

import contextlib
import ctypes
import gc
import sys
import threading
import types
import unittest
import weakref
from unittest import mock

import numpy as np
import torch
import weir
from hypothesis import given
from hypothesis import strategies as st
from tests.python.support import TRAIN, ShopTest

MASKS = {"is_null", "bool_values", "is_target", "is_padding", "fk_adj"}
# What torch shows of unsigned types: themselves from 2.3 on.
SIGNED = {} if hasattr(torch, "uint16") else {"uint16": "int16", "uint32": "int32", "uint64": "int64"}


class Arrays(ShopTest):
    def setUp(self) -> None:
        self.batch = weir.batch(self.store, self.manifest, TRAIN)

    def test_everyone_sees_the_same_address(self) -> None:
        arrays, tensors = self.batch.numpy(), self.batch.torch()
        self.assertEqual(list(arrays), list(self.batch))
        for name, array in self.batch.items():
            with self.subTest(name):
                self.assertEqual(arrays[name].ctypes.data, array.address)
                self.assertEqual(tensors[name].data_ptr(), array.address)
                self.assertEqual(array.__array_interface__["data"], (array.address, True))
                self.assertEqual(arrays[name].shape, array.shape)
                self.assertEqual(tuple(tensors[name].shape), array.shape)
                self.assertEqual(arrays[name].dtype.name, array.dtype)
                expected = "bool" if name in MASKS else SIGNED.get(array.dtype, array.dtype)
                self.assertEqual(str(tensors[name].dtype), "torch." + expected)
                self.assertTrue((tensors[name].numpy() == arrays[name].view(tensors[name].numpy().dtype)).all())

    def test_values_are_those_of_numpy(self) -> None:
        for array in [*self.batch.values(), self.batch.sample_index, self.batch.observation_time]:
            np.testing.assert_array_equal(np.array(array.tolist(), dtype=array.dtype).reshape(array.shape), array.numpy())

    def test_half_floats_read_as_numpy_reads_them(self) -> None:
        array = self.batch.copy()["text_batch_embeddings"]
        bits = [0, 1, 0x8001, 0x3FF, 0x400, 0x3C00, 0xBC00, 0x7BFF, 0x7C00, 0xFC00, 0x7E00]
        array.view("uint16").numpy().flat[: len(bits)] = bits
        np.testing.assert_array_equal(np.array(array.tolist()), array.numpy().astype(np.float64))

    def test_nobody_may_write(self) -> None:
        array = self.batch["column_ids"]
        self.assertFalse(array.numpy().flags.writeable)
        self.assertTrue(array.readonly)
        with self.assertRaises(TypeError):
            (ctypes.c_char * array.nbytes).from_buffer(array)
        with self.assertRaises(ValueError):
            array.numpy()[0, 0] = 1

    def test_a_copy_is_the_callers_own(self) -> None:
        copy = self.batch.copy()
        self.assertNotEqual(copy["column_ids"].address, self.batch["column_ids"].address)
        for name in self.batch:
            np.testing.assert_array_equal(copy[name].numpy(), self.batch[name].numpy())
        for name in ("epochs", "rows", "sample_digests", "sample_index"):
            np.testing.assert_array_equal(getattr(copy, name).numpy(), getattr(self.batch, name).numpy())
        self.assertEqual((copy.digest, copy.task, copy.cursor), (self.batch.digest, self.batch.task, self.batch.cursor))
        copy["numeric_values"].numpy()[:] = 7
        self.assertFalse((self.batch["numeric_values"].numpy() == 7).all())

    def test_what_was_written_to_a_copy_is_not_believed(self) -> None:
        for number in 2**31, 2**32 - 1:
            copy = weir.batch(self.store, self.changed_manifest(), TRAIN).copy()
            copy.num_rows.numpy()[1] = number
            with self.assertRaisesRegex(ValueError, r"num_rows\[1\] is \d+, but the batch has \d+ rows"):
                copy._edges()

    def test_arrays_outlive_batch_store_and_manifest(self) -> None:
        address, expected = self.batch["column_ids"].address, self.batch["column_ids"].numpy().copy()
        kept = [self.batch["column_ids"], self.batch.numpy()["column_ids"], self.batch.torch()["column_ids"]]
        gone = weakref.ref(self.batch)
        del self.batch
        gc.collect()
        self.assertIsNone(gone())
        while kept:  # in turn: each alone is enough
            seen = np.asarray(kept[0])
            self.assertEqual(seen.ctypes.data, address)
            np.testing.assert_array_equal(seen, expected)
            del seen
            kept.pop(0)

    def test_a_tensor_may_end_in_any_thread(self) -> None:
        tensors = [list(self.batch.torch().values()) for _ in range(8)]
        threads = [threading.Thread(target=tensors[i].clear) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(self.batch["column_ids"].shape, (32, 1024))

    def test_a_consumer_may_name_the_device(self) -> None:
        array = self.batch["column_ids"]
        for device in None, array.__dlpack_device__():
            self.assertIn("dltensor", repr(array.__dlpack__(dl_device=device)))
        with self.assertRaises(BufferError):
            array.__dlpack__(dl_device=(2, 0))
        with self.assertRaises(TypeError):
            array.__dlpack__(dl_device="cpu")

    def test_capsules_that_nobody_takes_are_freed(self) -> None:
        for version in (None, (1, 0), (0, 8)):
            self.assertEqual(type(self.batch["fk_adj"].__dlpack__(max_version=version)).__name__, "PyCapsule")
        self.assertIn("dltensor_versioned", repr(self.batch["fk_adj"].__dlpack__(max_version=(1, 1))))
        self.assertEqual(self.batch["fk_adj"].__dlpack_device__(), (1, 0))
        np.testing.assert_array_equal(np.from_dlpack(self.batch["fk_adj"]), self.batch["fk_adj"].numpy())
        self.assertEqual(torch.from_dlpack(self.batch["fk_adj"]).data_ptr(), self.batch["fk_adj"].address)
        with self.assertRaises(BufferError):
            self.batch["fk_adj"].__dlpack__(copy=True)
        with self.assertRaises(TypeError):
            self.batch["fk_adj"].__dlpack__(max_version=3)

    def test_views_keep_the_size(self) -> None:
        array = self.batch["seq_row_ids"]
        self.assertEqual(array.view("int16").numpy().ctypes.data, array.address)
        for wrong in ("int32", "complex64", ""):
            with self.assertRaises(ValueError):
                array.view(wrong)
        with self.assertRaises(TypeError):
            array.view(3)

    @given(st.data())
    def test_indexing_is_numpys(self, data: st.DataObject) -> None:
        batch = weir.batch(self.store, self.changed_manifest(global_batch_size=3), TRAIN)
        array = data.draw(st.sampled_from([batch["timestamp_values"], batch["column_ids"], batch.sample_index]))
        bound = st.none() | st.integers(-80, 80)
        key = data.draw(st.integers(-80, 80) | st.slices(9) | st.builds(slice, bound, bound, st.sampled_from([None, 1, -1, 2, -3]))
                        | st.lists(st.integers(-4, 4) | st.slices(4), max_size=4).map(tuple))
        try:
            expected = array.numpy()[key]
        except IndexError:
            with self.assertRaises(IndexError):
                array[key]
            return
        found = array[key]
        if isinstance(found, weir.Array):
            np.testing.assert_array_equal(found.numpy(), expected)
            self.assertEqual(found.numpy().flags["C_CONTIGUOUS"], expected.flags["C_CONTIGUOUS"])
            self.assertEqual(found.tolist(), expected.tolist())
        else:
            self.assertEqual(found, expected)

    def test_iterating_and_wrong_keys(self) -> None:
        self.assertEqual([int(index) for index in self.batch.sample_index], self.batch.sample_index.tolist())
        self.assertEqual([row.shape for row in self.batch["fk_adj"]][0], self.batch["fk_adj"].shape[1:])
        for wrong in (1.5, "0", None, ..., (0, "1")):
            with self.assertRaises(TypeError):
                self.batch["fk_adj"][wrong]
        with self.assertRaises(ValueError):
            self.batch["fk_adj"][::0]
        with self.assertRaises(BufferError):
            self.batch["fk_adj"][::-1].__dlpack__()
        self.assertEqual(self.batch["fk_adj"][1:, 2].torch().tolist(), self.batch["fk_adj"].numpy()[1:, 2].tolist())

    def test_a_step_of_any_size(self) -> None:
        array = self.batch["column_ids"]
        for step in (2**62, -(2**62), sys.maxsize, 1024):
            with self.subTest(step):
                self.assertEqual((array[::step, ::step].shape, array[::step, ::step].strides), ((1, 1), array.strides))
                self.assertEqual(array[0, ::step].tolist(), array.numpy()[0, ::step].tolist())

    def test_buffers_of_all_kinds(self) -> None:
        array = self.batch["fk_adj"]
        self.assertEqual(bytes(array), array.numpy().tobytes())
        self.assertEqual(memoryview(array).shape, array.shape)
        self.assertEqual(len(array), array.shape[0])
        self.assertEqual(memoryview(self.batch["numeric_values"]).format, "f")
        with self.assertRaises(TypeError):
            weir.Array()

    def test_order_is_promised_where_it_is_asked_for(self) -> None:
        view = (ctypes.c_char * 256)()  # more than a Py_buffer
        get, release = ctypes.pythonapi.PyObject_GetBuffer, ctypes.pythonapi.PyBuffer_Release
        row = self.batch["column_ids"][0]
        for name, order in (("C", 0x38), ("Fortran", 0x58), ("any", 0x98)):  # PyBUF_C_CONTIGUOUS and so on
            self.assertEqual(get(ctypes.py_object(row), view, order), 0, name)
            release(view)
            with self.assertRaises(BufferError, msg=name):
                get(ctypes.py_object(row[::2]), view, order)
        whole, own = self.batch["column_ids"], self.batch.copy()["column_ids"]
        for array, flags, fits in ((whole, 0, True), (whole, 8, True), (whole[:, ::2], 0x18, True), (own, 1, True), (whole, 1, False),
                                   (whole, 0x58, False), (whole[:, ::2], 0, False), (whole[:, ::2], 8, False)):  # fmt: skip
            with self.subTest(flags=flags, fits=fits), contextlib.nullcontext() if fits else self.assertRaises(BufferError):
                get(ctypes.py_object(array), view, flags)  # PyBUF_SIMPLE, PyBUF_ND, PyBUF_STRIDES, PyBUF_WRITABLE
                release(view)

    def test_torch_gets_memory_of_a_gpu_for_its_current_stream(self) -> None:
        from weir._convert import to_torch

        array = mock.Mock(dtype="float32", __dlpack_device__=lambda: (2, 1), __dlpack__=mock.Mock())
        with (
            mock.patch("torch.utils.dlpack.from_dlpack"),
            mock.patch("torch.cuda.current_stream", return_value=types.SimpleNamespace(cuda_stream=0)) as current,
        ):
            for stream, named in ((0, 1), (77, 77)):
                current.return_value.cuda_stream = stream
                to_torch(array)
                current.assert_called_with(1)
                array.__dlpack__.assert_called_with(stream=named)

    def test_a_refused_call_keeps_no_argument(self) -> None:
        token = bytes(range(40))
        before = sys.getrefcount(token)
        with self.assertRaises(OverflowError):
            weir.batch(self.store, self.manifest, TRAIN, cursor=(-1, 0), token=token)
        self.assertEqual(sys.getrefcount(token), before)

    def test_a_batch_is_a_mapping(self) -> None:
        self.assertEqual(len(self.batch), 16)
        self.assertIn("fk_adj", self.batch)
        self.assertNotIn("sample_index", self.batch)
        for wrong in ("nothing", 3, None, "\ud800"):
            with self.assertRaises((KeyError, UnicodeError)):
                self.batch[wrong]
        with self.assertRaises(TypeError):
            weir.Batch()

    def test_jax_gets_the_arrays_themselves(self) -> None:
        """JAX is stood in for by numpy, which takes DLPack the same way."""
        fake = types.ModuleType("jax")
        fake.dlpack = types.ModuleType("jax.dlpack")
        fake.dlpack.from_dlpack = np.from_dlpack
        with mock.patch.dict(sys.modules, {"jax": fake, "jax.dlpack": fake.dlpack}):
            arrays = self.batch.jax()
        self.assertEqual(list(arrays), list(self.batch))
        self.assertEqual(arrays["text_embed_ids"].ctypes.data, self.batch["text_embed_ids"].address)

    def test_long_sequences_keep_their_permutations(self) -> None:
        manifest = self.changed_manifest(global_batch_size=1, batch={"sequence_length": 40000})
        batch = weir.batch(self.store, manifest, TRAIN)
        tensor = batch.torch()["col_perm"]
        np.testing.assert_array_equal(tensor.numpy(), batch["col_perm"].numpy())
        self.assertEqual(int(tensor.long().max()), 39999)


if __name__ == "__main__":
    unittest.main()
