"""weir.plan: a model graph becomes a memory plan. weir.pack: lifetimes and sizes alone become offsets."""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from weir import _weir

Path = str | os.PathLike[str]


class Plan(_weir.Plan):
    """Where the tensors of a model graph live: arenas, slots, addresses and offsets (docs/planner.md). Immutable."""

    @classmethod
    def load(cls, path: Path) -> Plan:
        """A plan that was saved. It is checked: one that is accepted has no two live tensors on one byte. (A file of
        `weir plan --cbor` does not say shapes, dtypes and roles.)"""
        with open(path, "rb") as file:
            return cls._restore(file.read(), os.fspath(path))

    @classmethod
    def from_bytes(cls, data: bytes) -> Plan:
        """The plan that to_bytes wrote."""
        return cls._restore(data, "the plan")

    @property
    def peak_bytes(self) -> int:
        """The memory of all arenas together."""
        return sum(arena["peak_bytes"] for arena in self.arenas.values())

    def __reduce__(self) -> Any:
        return type(self).from_bytes, (self.to_bytes(),)

    def __repr__(self) -> str:
        return f"<weir.Plan {self.hashes['plan'][:12]} ({self.mode}): {self.peak_bytes} bytes>"


def plan(
    graph: Any,
    *,
    inputs: tuple[Any, ...] | Mapping[str, Any] | None = None,
    mode: str | None = None,
    preset: str | None = None,
    token: bytes | None = None,
    arenas: Mapping[str, Any] | None = None,
    order: Sequence[str] | None = None,
    effort: int = 5,
    threads: int = 1,
    reorder: bool = False,
    optimizer: str | None = None,
    step: str | None = None,
    link: int = 0,
    speed: int = 0,
    overlap: bool = True,
) -> Plan:
    """Plans the memory of a model graph.

    graph: a file (weir-graph/1 as JSON or CBOR, or an .onnx model), the same thing as a dict, a torch.export program, a
    torch.fx GraphModule with shapes, or a torch module together with example `inputs`: a tuple, or a dict of keyword
    arguments. Weights that are tied count once; what the model returns, a cache of keys and values too, is kept.
    mode: "inference", "forward" or "backward"; or preset: "train_full", "inference", or "remat_enabled", which
    recomputes tensors so that the capacities in `arenas` are kept, at the least cost that is found
    (`{"activations": {"capacity_bytes": 8 << 30}}`; the plan's `schedule` and `remat` say what runs again).
    reorder: look for an order of the operators that needs less memory.
    optimizer: what training holds too, in mode "backward": "sgd", "momentum" or "adam"; with a dtype, as in "adam:f32",
    that of its state and of a copy of the parameters that have another one.
    step: "end", or "backward" to update each parameter as soon as its gradient is complete.
    link, speed: with preset "remat_enabled", tensors may also go to the arena "host" and come back, over a link that moves
    `link` bytes per second, while operators do `speed` units of cost (flops without costs) per second. The schedule
    then has ("out", tensor), which copies it to "id.host", and ("in", tensor), which copies that to the tensor's next
    instance, "id.again1" and so on; `paging` says what that costs.
    overlap: transfers run beside the computation: one is complete after ("wait", tensor), and what is waited is its cost.
    False: nothing runs while a tensor is moved.

        >>> graph = {
        ...     "format": "weir-graph/1",
        ...     "name": "tiny",
        ...     "tensors": [{"id": "x", "shape": [8], "dtype": "f32", "role": "input"},
        ...                 {"id": "y", "shape": [8], "dtype": "f32"}],
        ...     "nodes": [{"id": "n", "op": "relu", "inputs": ["x"], "outputs": ["y"]}],
        ...     "outputs": ["y"],
        ... }
        >>> plan(graph, mode="inference").tensors["y"]["size"]
        32
    """
    data, name, is_onnx = _graph_bytes(graph, inputs)
    documents = [None if given is None else json.dumps(given).encode() for given in (arenas, order)]
    return Plan._make(data, name, is_onnx, mode, preset, token, documents[0], documents[1], effort, threads, reorder,
                      optimizer, step, link, speed, overlap)  # fmt: skip


class Packing(NamedTuple):
    """What weir.pack found."""

    offsets: list[int]  # one per buffer, in the order given
    peak_bytes: int  # the largest end of a buffer
    lower_bound: int  # the largest sum of sizes that are live at once: no packing has a lower peak
    optimal: bool  # whether no packing can have a lower peak


def pack(
    buffers: Iterable[Sequence[int]],
    *,
    alignment: int = 1,
    capacity: int | None = None,
    effort: int = 5,
    threads: int = 1,
) -> Packing:
    """Places buffers so that no two that are live together share a byte, with as low a peak as it finds.

    buffers: (lower, upper, size) of each, live in [lower, upper), as in the CSV of `weir plan --csv`. Sizes are rounded up
    to `alignment`, and every offset is a multiple of it. With a capacity the search ends at the first packing that
    fits, and weir.errors.ArenaTooSmall is raised if it finds none. The same arguments give the same offsets,
    whatever `threads` is.

        >>> pack([(0, 2, 100), (1, 3, 50), (2, 4, 100)])
        Packing(offsets=[0, 100, 0], peak_bytes=150, lower_bound=150, optimal=True)
    """
    flat = array("Q")
    for lower, upper, size in buffers:
        flat.extend((lower, upper, size))
    offsets = array("Q")
    data, peak_bytes, lower_bound, optimal = _weir._pack(flat.tobytes(), alignment, capacity, effort, threads)
    offsets.frombytes(data)
    return Packing(offsets.tolist(), peak_bytes, lower_bound, optimal)


def _graph_bytes(graph: Any, inputs: Any) -> tuple[bytes, str, bool]:
    if isinstance(graph, (str, os.PathLike)):
        name = os.fspath(graph)
        with open(name, "rb") as file:
            return file.read(), str(name), str(name).endswith(".onnx")
    if not isinstance(graph, Mapping):
        from weir import torch_graph

        graph = torch_graph.graph_of_any(graph, inputs)
    return json.dumps(graph).encode(), "the graph", False
