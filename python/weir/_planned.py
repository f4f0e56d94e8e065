"""weir.torch.planned_allocator: torch's GPU memory, one step planned, all later ones served from one block."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from weir import _weir


class PlannedAllocator(_weir.StepMemory):
    """What planned_allocator gives: mark the steps of the loop with step(), and look at stats()."""

    @contextmanager
    def step(self) -> Iterator[None]:
        """One step of the loop. Everything that is allocated in it is recorded, or served from the plan.

        The first `warmup` steps are left alone, the next two are recorded, and then the block is planned and taken. A
        step that raises has ended too."""
        self._begin()
        try:
            yield
        finally:
            self._end()

    def stats(self) -> dict[str, Any]:
        """Counts and bytes.

        steps: that ended. is_planned: the block is there. requests: of the recorded step; planned: those that have
        a place. block_bytes: the plan's peak; lower_bound: no plan of these requests needs less. used_bytes and
        peak_bytes: live in the block, now and at most. served, fell_through: requests in steps since the block is
        there. pool_bytes, pool_reserved: live outside the block (parameters, optimizer state), and kept for that by the
        driver."""
        return self._describe()

    def __repr__(self) -> str:
        info = self._describe()
        return f"<weir.torch.PlannedAllocator: {info['block_bytes']} bytes for {info['planned']} requests per step>"


def planned_allocator(*, device: int = 0, warmup: int = 1, effort: int = 5) -> PlannedAllocator:
    """Makes weir the allocator of torch's GPU memory, for a loop whose steps ask for the same memory.

        memory = weir.torch.planned_allocator()      # before anything is on the GPU
        model, optimizer = ...
        for batch in loader:
            with memory.step():
                optimizer.zero_grad()
                model(batch).backward()
                optimizer.step()
        memory.stats()

    One step is recorded, its lifetimes are packed (weir.pack, effort 0 to 9), and all later steps get their memory
    from one block of the packing's peak: no fragments, no growth, the same addresses in every step. A request that
    differs (another size, another stream, a place that is still in use) falls through to the driver: slower,
    never wrong. So do requests outside steps: parameters, optimizer state.

    It takes torch's allocator over for the whole process (torch.cuda.memory.CUDAPluggableAllocator), so torch.cuda's own
    memory statistics and CUDA graphs do not work with it, and a GPU that is out of memory ends the process with a message.
    (Inside a torch.cuda.MemPool torch asks a custom allocator for segments, not tensors: nothing could be planned there.)
    """
    memory = PlannedAllocator._open(f"cuda:{device}", warmup, effort)
    allocator = torch.cuda.memory.CUDAPluggableAllocator(_weir.__file__, "weir_torch_allocate", "weir_torch_free")
    torch.cuda.memory.change_current_allocator(allocator)  # raises if memory was taken already
    memory._install()
    set_share = getattr(allocator.allocator(), "set_record_stream_fn", None)
    if set_share is not None:
        share = ctypes.CDLL(_weir.__file__).weir_torch_share
        set_share(ctypes.cast(share, ctypes.c_void_p).value)
    return memory
