"""weir.executorch: ExecuTorch programs with weir's memory plan.

    from executorch.exir import ExecutorchBackendConfig, to_edge
    from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite
    from executorch.exir.passes import MemoryPlanningPass

    suite = MemoryPlanningAlgorithmSuite([weir.executorch.plan])
    config = ExecutorchBackendConfig(memory_planning_pass=MemoryPlanningPass(suite))
    program = to_edge(torch.export.export(model, inputs)).to_executorch(config)

functools.partial(weir.executorch.plan, effort=9) searches longer. The program runs as before; only the offsets of its
tensors, and the sizes of its arenas, are others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from executorch.exir.memory_planning import MemoryAlgoResult, SpecAllocResult

from weir._plan import pack

_DEFAULT_ARENA = 1  # where ExecuTorch puts a tensor that no pass has given a mem_id


def plan(
    alignment: int,
    specs: Iterable[Any],
    graph_module: Any,
    graph_signature: Any,
    extra_padding: int = 0,
    *,
    effort: int = 5,
    threads: int = 1,
) -> MemoryAlgoResult:
    """A memory planning algorithm as ExecuTorch calls it: every arena (mem_id) is packed by weir.pack.

    A spec with a `storage_base` lies in its base, which ExecuTorch has made live long enough. What submodules of control
    flow need (`input_mem_buffer_sizes`) stays below what is placed here, as ExecuTorch asks.
    """
    arenas: dict[int, list[Any]] = defaultdict(list)
    inside: list[Any] = []
    result = MemoryAlgoResult({}, [0, 0])
    for spec in specs:
        spec.realign(alignment)
        if getattr(spec, "storage_base", None) is not None:
            inside.append(spec)
        else:
            arenas[_DEFAULT_ARENA if spec.mem_id is None else spec.mem_id].append(spec)
    reserved: Sequence[int] = getattr(graph_module, "input_mem_buffer_sizes", None) or ()
    if arenas:
        result.bufsizes = [0] * (max(arenas) + 1)
    for mem_id, members in arenas.items():
        start = reserved[mem_id] if mem_id < len(reserved) else 0
        start += -start % alignment
        buffers = [(spec.lifetime[0], spec.lifetime[1] + 1, spec.allocated_memory) for spec in members]
        packing = pack(buffers, alignment=alignment, effort=effort, threads=threads)
        for spec, offset in zip(members, packing.offsets):
            result.spec_dict[spec] = SpecAllocResult(mem_id, 0, start + offset)
        result.bufsizes[mem_id] = start + packing.peak_bytes + extra_padding
        _number_objects(result, members)
    for spec in inside:
        result.spec_dict[spec] = _place_inside(result, spec)
    return result


def _number_objects(result: MemoryAlgoResult, specs: list[Any]) -> None:
    """Specs that share bytes have one mem_obj_id, which ExecuTorch's verifier asks for."""
    end = number = 0
    for place, spec in sorted(((result.spec_dict[spec], spec) for spec in specs), key=lambda pair: int(pair[0].mem_offset)):
        if place.mem_offset >= end:
            number += 1
        place.mem_obj_id = number - 1
        end = max(end, place.mem_offset + spec.allocated_memory)


def _place_inside(result: MemoryAlgoResult, spec: Any) -> SpecAllocResult:
    """The place of a spec that lies in another one's storage, through any number of them."""
    base, offset, passed = spec, 0, {spec}
    while getattr(base, "storage_base", None) is not None:
        offset += base.storage_base_offset
        if offset < 0 or offset + spec.allocated_memory > base.storage_base.allocated_memory:
            raise ValueError(f"{spec} does not fit the storage that it shares")
        base = base.storage_base
        if base in passed:
            raise ValueError(f"{spec} lies in its own storage")
        passed.add(base)
    if base not in result.spec_dict:
        raise ValueError(f"{spec} shares the storage of a tensor that is not planned")
    place = result.spec_dict[base]
    return SpecAllocResult(place.mem_id, place.mem_obj_id, place.mem_offset + offset)
