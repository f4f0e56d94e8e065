"""weir.Arenas: a plan becomes memory. weir.Backing: memory that several arenas share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from weir import _weir
from weir._plan import Plan

if TYPE_CHECKING:
    import torch

# A plan's dtypes as arrays have them. What numpy has no type for is shown as its bits.
_DTYPES = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "bf16": "uint16",
    "f8e4m3": "uint8",
    "f8e5m2": "uint8",
    "i64": "int64",
    "i32": "int32",
    "i16": "int16",
    "i8": "int8",
    "u64": "uint64",
    "u32": "uint32",
    "u16": "uint16",
    "u8": "uint8",
    "bool": "bool",
}
_TORCH = {"bf16": "bfloat16", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2"}

_NEW, _BACKING, _NOTHING = range(3)


class Backing(_weir.Backing):
    """Memory of `nbytes` without addresses: Arenas.remap gives it some, in as many arenas as you like.

    `handle` is the system's own name of it: a file's number on the host, the driver's allocation on a GPU.
    """

    def __new__(cls, nbytes: int, *, device: str | None = None) -> Backing:
        return cls._open(nbytes, _device_name(device))


class Commit(NamedTuple):
    """What Arenas.seal sealed for a batch (docs/spec/03g-commit.md)."""

    state: bytes  # weir-commit/1, canonical CBOR
    state_hash: str  # of the plan and the batch number, in hex
    visibility_hash: str  # of the state


class Arenas(_weir.Arenas, Mapping[str, _weir.Array]):
    """The memory of a plan: an array for every tensor, in its place, without a copy.

        >>> import numpy, weir
        >>> plan = weir.plan({
        ...     "format": "weir-graph/1",
        ...     "tensors": [{"id": "x", "shape": [4], "dtype": "f32", "role": "input"},
        ...                 {"id": "y", "shape": [4], "dtype": "f32"}],
        ...     "nodes": [{"id": "n", "op": "relu", "inputs": ["x"], "outputs": ["y"]}],
        ...     "outputs": ["y"],
        ... }, mode="inference")
        >>> arenas = weir.Arenas(plan)
        >>> x, y = (arenas[name].numpy() for name in ("x", "y"))
        >>> x[:] = [-1, 2, -3, 4]
        >>> numpy.maximum(x, 0, out=y).tolist()
        [0.0, 2.0, 0.0, 4.0]
        >>> x.tolist()  # relu may overwrite its input, so the plan gave both one place
        [0.0, 2.0, 0.0, 4.0]

    device: None or "host": the host's memory; "cuda", "cuda:1" …: a GPU's, whose arrays torch and JAX take by DLPack.
    empty: reserve addresses only; remap() brings the memory.
    reserve_capacity: an arena's range has its capacity, not just its peak, so that it can grow.

    Each arena is a range of addresses of its own. Its memory can be given back, replaced, moved and shared by
    remap(), and every tensor keeps its address. What is made of an array (numpy's, torch's) keeps the memory.
    """

    plan: Plan
    _tensors: dict[str, dict[str, Any]]

    def __new__(
        cls, plan: Plan, *, device: str | None = None, empty: bool = False, reserve_capacity: bool = False
    ) -> Arenas:
        self = cls._open(plan, _device_name(device), empty, reserve_capacity)
        self.plan = plan
        self._tensors = plan.tensors
        return self

    def __getitem__(self, id: str) -> _weir.Array:
        return self.tensor(id)

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def tensor(self, id: str, position: int | None = None) -> _weir.Array:
        """A tensor as an array of its shape. With a position of the schedule it must be live there, or
        weir.ContractError is raised.

        bf16 and 8-bit floats are shown as their bits (uint16, uint8; torch() has their types). 4-bit numbers, and tensors
        of a plan file that does not say their shapes, are shown as bytes.
        """
        known = self._tensors.get(id)
        if known is None:
            raise KeyError(id)
        dtype = _DTYPES.get(known["dtype"])
        if dtype is None or known["shape"] is None:
            return self._view(id, position, "uint8", (known["size"],))
        return self._view(id, position, dtype, known["shape"])

    def torch(self, id: str, position: int | None = None) -> torch.Tensor:
        """A tensor as torch's, in its place, of its own type (or its bits, if this torch lacks the type)."""
        import torch

        array = self.tensor(id, position).torch()
        dtype = getattr(torch, _TORCH.get(self._tensors[id]["dtype"], ""), None)
        return array if dtype is None or self._tensors[id]["shape"] is None else array.view(dtype)

    def instance(self, id: str, position: int) -> str:
        """The id under which a tensor is there at a position of the schedule: its own, or "id.again1" and so on where it
        was made again or came back from the host. KeyError if it is nowhere then."""
        found, number = id, 0
        while found in self._tensors:
            if self._tensors[found]["birth"] <= position < self._tensors[found]["death"]:
                return found
            number += 1
            found = f"{id}.again{number}"
        raise KeyError(f"{id} at position {position}")

    def page(self, position: int) -> None:
        """Copies what the schedule pages at a position: a tensor to its copy on the host, or the copy to the tensor's new
        instance. At all other positions nothing happens. In a plan with waits, this may be done at any time until the
        ("wait", tensor) that comes next, by another thread too; at the wait itself nothing is left to do."""
        kind, id = (self.plan.schedule or [])[position - 1]
        if kind not in ("out", "in"):
            return
        places = [self.tensor(self.instance(id, position), position), self.tensor(f"{id}.host", position)]
        source, target = places if kind == "out" else reversed(places)
        target.torch().copy_(source.torch())

    def resolve(self, address: int, position: int, arena: str | None = None) -> _weir.Array:
        """The bytes that an address means at a position: those of the slot's tensor that is live then. The arena is
        needed only if two have the address."""
        return self._resolve(address, position, arena)

    def arena(self, name: str) -> _weir.Array:
        """All bytes of an arena."""
        if name not in self.plan.arenas:
            raise KeyError(name)
        return self._base(name)

    def pages(self, arena: str) -> dict[str, int]:
        """`page_size`, what remap counts in (0: it cannot be remapped), `range_bytes` that are reserved, and
        `backed_bytes` that have memory."""
        if arena not in self.plan.arenas:
            raise KeyError(arena)
        return self._pages(arena)

    def seal(self, batch: int, position: int, *, contents: bool = False) -> Commit:
        """Commits a batch at a position of the schedule and seals what is visible after it: for each arena what is live
        where, the bytes written (zero(), prepare(), written()), and with `contents` a hash of the live bytes. The
        same batch again gives the same state; another batch another one."""
        return Commit(*self._seal(batch, position, contents))

    def remap(
        self,
        arena: str,
        to: Backing | None = None,
        *,
        offset: int = 0,
        nbytes: int | None = None,
        backing_offset: int = 0,
        keep: bool = True,
    ) -> None:
        """Puts other memory at the addresses of an arena, or of a part of it: a Backing's, or (None) new memory of
        its own. keep: copy what is there; otherwise new memory is zeroed, and a Backing shows what it has. Arrays stay
        valid. Offsets and sizes are multiples of the arena's page size (pages())."""
        if nbytes == 0:  # which the engine takes for "up to the end"
            return
        if to is None:
            self._remap(arena, _NEW, offset, nbytes or 0, None, 0, keep)
        else:
            size = nbytes if nbytes is not None else min(to.nbytes - backing_offset, self.pages(arena)["range_bytes"] - offset)
            self._remap(arena, _BACKING, offset, size, to, backing_offset, keep)

    def give_back(self, arena: str, *, offset: int = 0, nbytes: int | None = None) -> None:
        """Gives the memory of an arena, or of a part of it, back to the system; the addresses stay reserved. BufferError
        while arrays of these arenas are in use."""
        if nbytes == 0:
            return
        self._remap(arena, _NOTHING, offset, nbytes or 0, None, 0, False)

    def __repr__(self) -> str:
        return f"<weir.Arenas of {self.plan!r}>"


def _device_name(device: Any) -> str | None:
    return None if device is None else str(device)
