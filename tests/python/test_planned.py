"""weir.torch.planned_allocator's recording, planning and serving, with the host as the GPU."""

import os
import subprocess
import sys
import unittest

import weir
import weir.torch


class Loop:
    """A made-up training step over a memory: activations live until the backward pass, gradients into the next step."""

    def __init__(self, memory: weir.torch.PlannedAllocator) -> None:
        self.memory = memory
        self.gradients: list[int] = []

    def step(self, batch: int = 64) -> list[int]:
        addresses = []

        def take(nbytes: int) -> int:
            addresses.append(self.memory._allocate(nbytes, 0))
            return addresses[-1]

        with self.memory.step():
            while self.gradients:
                self.memory._free(self.gradients.pop(), 0)
            saved = []
            for layer in range(8):
                scratch = take(batch * 100)
                saved.append(take(batch * (layer + 1) * 32))
                self.memory._free(scratch, 0)
            for activation in reversed(saved):
                self.gradients.append(take(4096))
                self.memory._free(activation, 0)
        return addresses

    def close(self) -> None:
        while self.gradients:
            self.memory._free(self.gradients.pop(), 0)


class Planned(unittest.TestCase):
    def memory(self, device: str = "host", warmup: int = 1, effort: int = 5) -> weir.torch.PlannedAllocator:
        return weir.torch.PlannedAllocator._open(device, warmup, effort)

    def test_steps_are_served_at_one_place(self) -> None:
        for device in ("host", os.environ["WEIR_FAKE_CUDA"]):
            memory = self.memory(device)
            loop = Loop(memory)
            for _ in range(3):
                self.assertFalse(memory.stats()["is_planned"])
                loop.step()
            first = loop.step()
            for _ in range(10):
                self.assertEqual(loop.step(), first)
            stats = memory.stats()
            self.assertEqual((stats["steps"], stats["served"], stats["fell_through"]), (14, 11 * len(first), 0))
            self.assertEqual((stats["requests"], stats["planned"]), (len(first), len(first)))
            self.assertEqual(stats["block_bytes"], stats["lower_bound"])
            self.assertEqual(stats["peak_bytes"], stats["block_bytes"])
            self.assertIn(str(stats["block_bytes"]), repr(memory))
            loop.close()

    def test_a_step_that_differs_falls_through(self) -> None:
        loop = Loop(self.memory(warmup=0, effort=0))
        for _ in range(4):
            loop.step()
        before = loop.memory.stats()["fell_through"]
        loop.step(batch=65)
        stats = loop.memory.stats()
        self.assertGreater(stats["fell_through"], before)
        loop.step()
        self.assertEqual(loop.memory.stats()["fell_through"], stats["fell_through"])
        loop.close()

    def test_a_step_that_raises_has_ended(self) -> None:
        memory = self.memory()
        with self.assertRaises(ZeroDivisionError), memory.step():
            raise ZeroDivisionError
        with memory.step():
            pass
        self.assertEqual(memory.stats()["steps"], 2)
        with self.assertRaises(weir.ContractError):
            memory._end()

    def test_the_functions_that_torch_calls(self) -> None:
        program = """
import ctypes, weir.torch
from weir import _weir
memory = weir.torch.PlannedAllocator._open("host", 1, 5)
memory._install()
library = ctypes.CDLL(_weir.__file__)
library.weir_torch_allocate.restype = ctypes.c_void_p
library.weir_torch_allocate.argtypes = [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
library.weir_torch_free.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
library.weir_torch_share.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
data = library.weir_torch_allocate(1000, 0, None)
library.weir_torch_share(data, None)
assert memory.stats()["pool_bytes"] == 1024
library.weir_torch_free(data, 1000, 0, None)
assert memory.stats()["pool_bytes"] == 0
try:
    memory._install()
except RuntimeError as error:
    print(error, flush=True)
library.weir_torch_allocate(1000, 3, None)
"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        self.assertIn("already", done.stdout)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("another GPU", done.stderr)

    @unittest.skipIf(weir.torch.torch.cuda.is_available(), "there is a GPU")
    def test_without_a_gpu(self) -> None:
        with self.assertRaises(weir.DeviceError):
            weir.torch.planned_allocator()


if __name__ == "__main__":
    unittest.main()
