"""The planner, all but the packing: order, liveness, logical slots, virtual addresses, and the two hashes.

Follows the specification's text line by line and is written to be read, not to be fast. A graph is the
dictionary that a weir-graph/1 file holds, and is taken to be valid: telling what is wrong with one is the
program's business. What is checked here is what follows from the rules themselves, such as that slots are as
few as possible.
"""

import hashlib
from dataclasses import dataclass
from typing import Any

from . import blake3, cbor

Graph = dict[str, Any]

BITS = {
    "f64": 64, "f32": 32, "f16": 16, "bf16": 16, "f8e4m3": 8, "f8e5m2": 8,
    "i64": 64, "i32": 32, "i16": 16, "i8": 8, "u64": 64, "u32": 32, "u16": 16, "u8": 8,
    "bool": 8, "i4": 4, "u4": 4,
}  # fmt: skip
FLOATING = {"f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2"}
ARENA_OF_ROLE = {
    "input": "activations",
    "activation": "activations",
    "parameter": "parameters",
    "state": "parameters",
    "gradient": "gradients",
}
MODE_OF_PRESET = {"train_full": "backward", "inference": "inference"}
DEFAULT_ALIGNMENT = 128

# Operator: may it overwrite an input, and what does its backward step need.
OPERATORS = {
    **dict.fromkeys(["add", "sub", "neg", "scale", "bias_add"], (True, "none")),
    **dict.fromkeys(["cast", "reshape", "transpose", "concat", "slice"], (False, "none")),
    **dict.fromkeys(["relu", "tanh", "sigmoid", "exp", "sqrt"], (True, "output")),
    "softmax": (False, "output"),
    **dict.fromkeys(["mul", "div", "gelu", "silu"], (True, "inputs")),
    **dict.fromkeys(["layernorm", "rmsnorm", "matmul", "conv"], (False, "inputs")),
    **dict.fromkeys(["attention", "embedding", "cross_entropy"], (False, "inputs")),
}
UNKNOWN_OPERATOR = (False, "both")


# ---- The graph with its defaults filled in -----------------------------------------------------------------


@dataclass
class Tensor:
    id: str
    shape: list[int]
    dtype: str
    role: str
    arena: str
    saved_for_backward: bool | None
    alias_of: str | None = None
    alias_offset: int = 0
    owner: str | None = None  # of an alias: in whose place it lies
    owner_offset: int = 0
    birth: int = 0
    death: int = 0
    slot: int = 0
    address: int = 0

    @property
    def size(self) -> int:
        elements = 1
        for dimension in self.shape:
            elements *= dimension
        return -(-elements * BITS[self.dtype] // 8)


@dataclass
class Node:
    id: str
    op: str
    inputs: list[str]
    outputs: list[str]
    inplace: bool
    saves: str
    overwrites: str | None = None  # the owner that it overwrites, in a graph of `with_versions`
    position: int = 0

    @property
    def saves_inputs(self) -> bool:
        return self.saves in ("inputs", "both")

    @property
    def saves_output(self) -> bool:
        return self.saves in ("output", "both")


def tensors_of(graph: Graph) -> dict[str, Tensor]:
    tensors = {}
    for given in graph["tensors"]:
        role = given.get("role", "activation")
        tensors[given["id"]] = Tensor(
            id=given["id"],
            shape=[int(dimension) for dimension in given["shape"]],
            dtype=given["dtype"],
            role=role,
            arena=given.get("arena", ARENA_OF_ROLE[role]),
            saved_for_backward=given.get("saved_for_backward"),
            alias_of=given.get("alias_of"),
            alias_offset=int(given.get("alias_offset", 0)),
        )
    for tensor in tensors.values():
        original = tensor
        while original.alias_of is not None:
            tensor.owner_offset += original.alias_offset
            original = tensors[original.alias_of]
        if original is not tensor:
            tensor.owner, tensor.arena = original.id, original.arena
    return tensors


def without_aliases(graph: Graph) -> Graph:
    """Every alias as a tensor of its own."""
    arenas = {tensor.id: tensor.arena for tensor in tensors_of(graph).values()}
    names = ("alias_of", "alias_offset")
    bare = [{k: v for k, v in given.items() if k not in names} for given in graph["tensors"]]
    return {**graph, "tensors": [{**given, "arena": arenas[given["id"]]} for given in bare]}


def with_versions(graph: Graph, mode: str, order: list[str] | None = None) -> Graph:
    """What recomputing sees if nodes write places: what a write makes is an owner from there on, and overwrites the one
    before it."""
    tensors, given = tensors_of(graph), {tensor["id"]: dict(tensor) for tensor in graph["tensors"]}
    nodes = execution_order(graph, nodes_of(graph), order)
    writes = [node for node in nodes if node.inplace and any(tensors[name].owner for name in node.outputs)]
    if not writes:
        return graph
    stays = {_place(tensor) for tensor in tensors.values() if tensor.role in ("parameter", "state")}
    current = {name: name for name in tensors}
    before: dict[str, str] = {}
    is_whole = analyze_liveness(graph, mode, order).too_early is None
    for node in nodes:
        for made in (tensors[name] for name in node.outputs):
            if made.owner is None:
                continue
            given[made.id] |= {"alias_of": current[made.owner], "alias_offset": made.owner_offset}
            if node in writes:
                size = made.size if made.owner_offset == 0 and len(node.outputs) == 1 else -1
                is_whole &= size == tensors[made.owner].size and made.owner not in stays
                before[node.id] = current[made.owner]
                del given[made.id]["alias_of"], given[made.id]["alias_offset"]
                given[made.id]["arena"] = made.arena
                current[made.owner] = made.id
    if not is_whole:
        return without_aliases(graph)
    named = [{**node, "overwrites": before.get(node["id"])} for node in graph["nodes"]]
    return {**graph, "tensors": list(given.values()), "nodes": named}


def nodes_of(graph: Graph) -> list[Node]:
    nodes = []
    for given in graph["nodes"]:
        inplace, saves = OPERATORS.get(given["op"], UNKNOWN_OPERATOR)
        nodes.append(
            Node(
                id=given["id"],
                op=given["op"],
                inputs=given["inputs"],
                outputs=given["outputs"],
                inplace=given.get("inplace", inplace),
                saves=given.get("saves", saves),
                overwrites=given.get("overwrites"),
            )
        )
    return nodes


def graph_hash(graph: Graph) -> bytes:
    tensors = []
    for tensor in tensors_of(graph).values():
        entry: dict[str, Any] = {
            "id": tensor.id,
            "shape": tensor.shape,
            "dtype": tensor.dtype,
            "role": tensor.role,
            "arena": tensor.arena,
        }
        if tensor.saved_for_backward is not None:
            entry["saved_for_backward"] = tensor.saved_for_backward
        if tensor.alias_of is not None:
            entry["alias_of"] = tensor.alias_of
            if tensor.alias_offset:
                entry["alias_offset"] = tensor.alias_offset
        tensors.append(entry)
    nodes = [
        {
            "id": node.id,
            "op": node.op,
            "inputs": node.inputs,
            "outputs": node.outputs,
            "inplace": node.inplace,
            "saves": node.saves,
            **({"cost": int(given["cost"])} if "cost" in given else {}),
        }
        for given, node in zip(graph["nodes"], nodes_of(graph))
    ]
    whole = {
        **({"step": "backward"} if graph.get("step") == "backward" else {}),
        "format": graph["format"],
        "name": graph.get("name", ""),
        "tensors": tensors,
        "nodes": nodes,
        "outputs": graph["outputs"],
    }
    return hashlib.sha256(cbor.encode(whole)).digest()


STATES = {"sgd": [], "momentum": ["momentum"], "adam": ["exp_avg", "exp_avg_sq"]}


def with_optimizer(graph: Graph, optimizer: str | None = None, step: str | None = None) -> Graph:
    """The graph with what an optimizer holds (docs/spec/03i-optimizer.md)."""
    added = []
    name, _, given = (optimizer or "sgd").partition(":")
    for tensor in tensors_of(graph).values():
        if tensor.role == "parameter" and tensor.alias_of is None and tensor.dtype in FLOATING:
            dtype = given or tensor.dtype
            kinds = (["master"] if dtype != tensor.dtype else []) + STATES[name]
            for kind in kinds:
                added.append({"id": f"{tensor.id}.{kind}", "shape": tensor.shape, "dtype": dtype, "role": "state"})
    return {**graph, "tensors": graph["tensors"] + added, **({"step": step} if step else {})}


def default_token(graph: Graph) -> bytes:
    return hashlib.sha512(cbor.encode(["replay_token_v1", graph_hash(graph), 0])).digest()


# ---- Order -------------------------------------------------------------------------------------------------


def execution_order(graph: Graph, nodes: list[Node], given: list[str] | None) -> list[Node]:
    """The given order, else the graph's own, else Kahn's with the ready node that is declared first."""
    by_id = {node.id: node for node in nodes}
    chosen = given if given is not None else graph.get("order")
    order = [by_id[name] for name in chosen] if chosen is not None else _kahn(nodes)
    for place, node in enumerate(order):
        node.position = 1 + place
    return order


def _kahn(nodes: list[Node]) -> list[Node]:
    missing = {output for node in nodes for output in node.outputs}
    waiting = list(nodes)
    order = []
    while waiting:
        ready = next(node for node in waiting if not missing.intersection(node.inputs))
        order.append(ready)
        waiting.remove(ready)
        missing.difference_update(ready.outputs)
    return order


# ---- Liveness ----------------------------------------------------------------------------------------------


@dataclass
class Liveness:
    tensors: dict[str, Tensor]  # gradients included
    overwritten: dict[str, str]  # output -> what its producer overwrites, in inference mode an input
    too_early: tuple[str, str, str] | None = None  # a write that the rules refuse


def analyze_liveness(graph: Graph, mode: str, order: list[str] | None = None) -> Liveness:
    tensors = tensors_of(graph)
    nodes = execution_order(graph, nodes_of(graph), order)
    n = len(nodes)
    end = 2 * n + 1 if mode == "backward" else n + 1
    users: dict[str, list[Node]] = {name: [] for name in tensors}
    producer: dict[str, Node] = {}
    for node in nodes:
        for name in dict.fromkeys(node.inputs):
            users[name].append(node)
        for name in node.outputs:
            producer[name] = node

    overwritten = _overwritten(graph, tensors, nodes, users) if mode == "inference" else {}
    ends = {node.overwrites: node.position for node in nodes if node.overwrites is not None}
    overwritten |= {node.outputs[0]: node.overwrites for node in nodes if node.overwrites is not None}
    for tensor in tensors.values():
        tensor.birth = producer[tensor.id].position if tensor.id in producer else 0
        last_use = max((user.position for user in users[tensor.id]), default=None)
        tensor.death = tensor.birth + 1 if last_use is None else last_use + 1
        if tensor.id in overwritten.values() and tensor.id not in ends:
            tensor.death = last_use
        if tensor.role in ("parameter", "state") or tensor.id in graph["outputs"]:
            tensor.death = end
        if mode == "forward" and tensor.saved_for_backward:
            tensor.death = end
        if mode == "backward":
            savers = _savers(tensor, users[tensor.id], producer.get(tensor.id))
            tensor.death = max([tensor.death, *(_backward_step(node, n) + 1 for node in savers)])
        tensor.death = max(tensor.death, tensor.birth + 1)
        tensor.death = min(tensor.death, ends.get(_place(tensor), tensor.death))
    too_early = _overwritten_too_early(graph, mode, tensors, nodes, users, producer)
    for tensor in tensors.values():
        if tensor.owner is not None:
            owner = tensors[tensor.owner]
            owner.death = max(owner.death, tensor.death)
    if mode == "backward":
        tensors.update(_gradients(graph, tensors, nodes, users, producer))
    return Liveness(tensors, overwritten, too_early)


def _place(tensor: Tensor) -> str:
    return tensor.owner or tensor.id


def _overwritten_too_early(
    graph: Graph,
    mode: str,
    tensors: dict[str, Tensor],
    nodes: list[Node],
    users: dict[str, list[Node]],
    producer: dict[str, Node],
) -> tuple[str, str, str] | None:
    """The first write into a place that loses a value: (node, what it writes, what is lost)."""
    for node in nodes:
        for written in (tensors[name] for name in node.outputs if node.inplace and tensors[name].owner):
            for tensor in tensors.values():
                born = producer[tensor.id].position if tensor.id in producer else 0
                if tensor is written or _place(tensor) != written.owner or born > node.position:
                    continue
                needed = any(user.position > node.position for user in users[tensor.id])
                needed |= tensor.id in graph["outputs"] or (mode == "forward" and bool(tensor.saved_for_backward))
                needed |= mode == "backward" and bool(_savers(tensor, users[tensor.id], producer.get(tensor.id)))
                if needed:
                    return node.id, written.id, tensor.id
    return None


def _backward_step(node: Node, n: int) -> int:
    return 2 * n + 1 - node.position


def _savers(tensor: Tensor, users: list[Node], producer: Node | None) -> list[Node]:
    if tensor.saved_for_backward is False:
        return []
    forced = tensor.saved_for_backward is True
    savers = [user for user in users if forced or user.saves_inputs]
    if producer is not None and (forced or producer.saves_output):
        savers.append(producer)
    return savers


def _overwritten(
    graph: Graph, tensors: dict[str, Tensor], nodes: list[Node], users: dict[str, list[Node]]
) -> dict[str, str]:
    found = {}
    for node in nodes:
        if not node.inplace or len(node.outputs) != 1 or node.overwrites is not None:
            continue
        output = tensors[node.outputs[0]]
        if output.owner is not None:
            continue
        for name in node.inputs:
            tensor = tensors[name]
            place = [other for other in tensors.values() if _place(other) == _place(tensor)]
            qualifies = (
                max(user.position for other in place for user in users[other.id]) == node.position
                and [_place(tensors[other]) for other in node.inputs].count(_place(tensor)) == 1
                and (tensor.size, tensor.dtype, tensor.arena) == (output.size, output.dtype, output.arena)
                and tensors[_place(tensor)].size == output.size
                and all(other.role not in ("parameter", "state") for other in place)
                and all(other.id not in graph["outputs"] for other in place)
            )
            if qualifies:
                found[output.id] = name
                break
    return found


def _gradients(
    graph: Graph,
    tensors: dict[str, Tensor],
    nodes: list[Node],
    users: dict[str, list[Node]],
    producer: dict[str, Node],
) -> dict[str, Tensor]:
    n = len(nodes)
    parameters = (tensor for tensor in tensors.values() if tensor.role == "parameter")
    need = {tensor.id for tensor in parameters if tensor.dtype in FLOATING}
    for node in nodes:
        if need.intersection(node.inputs):
            need.update(name for name in node.outputs if tensors[name].dtype in FLOATING)
    gradients = {}
    for name in (name for name in tensors if name in need):
        tensor = tensors[name]
        births = [_backward_step(user, n) for user in users[name]]
        if name in graph["outputs"] or not births:
            births.append(n + 1)
        birth = min(births)
        death = _backward_step(producer[name], n) + 1 if name in producer else 2 * n + 1
        if tensor.role == "parameter" and graph.get("step") == "backward":
            place = [other for other in tensors.values() if _place(other) == _place(tensor)]
            users_of_place = [user for other in place if other.role == "parameter" for user in users[other.id]]
            death = max((_backward_step(user, n) + 1 for user in users_of_place), default=0)
        gradient = Tensor(name + ".grad", tensor.shape, tensor.dtype, "gradient", "gradients", None)
        gradient.birth, gradient.death = birth, max(death, birth + 1)
        gradients[gradient.id] = gradient
    return gradients


# ---- Slots and addresses -----------------------------------------------------------------------------------


def rounded(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment


def assign_slots(tensors: list[Tensor], arena: str) -> None:
    if arena == "parameters":
        for slot, tensor in enumerate(tensors):
            tensor.slot = slot
        return
    free_from: list[int] = []  # a slot: the death of its last tensor
    for tensor in sorted(tensors, key=lambda tensor: (tensor.birth, -tensor.size, tensor.id.encode())):
        free = (slot for slot, death in enumerate(free_from) if death <= tensor.birth)
        tensor.slot = next(free, len(free_from))
        if tensor.slot == len(free_from):
            free_from.append(0)
        free_from[tensor.slot] = tensor.death
    assert len(free_from) == max_live(tensors)


def max_live(tensors: list[Tensor]) -> int:
    """The most tensors live at one position; it is enough to look where one is born."""
    births = {tensor.birth for tensor in tensors}
    return max(sum(tensor.birth <= birth < tensor.death for tensor in tensors) for birth in births)


def lower_bound(tensors: list[Tensor], alignment: int) -> int:
    births = {tensor.birth for tensor in tensors}
    return max(
        sum(rounded(tensor.size, alignment) for tensor in tensors if tensor.birth <= birth < tensor.death)
        for birth in births
    )


def virtual_address(token: bytes, arena: str, slot: int, alignment: int) -> int:
    digest = blake3.plain_hash(token + b"tmmu_va" + arena.encode() + slot.to_bytes(8, "little"))
    return int.from_bytes(digest[:8], "little") & ~(alignment - 1)


# ---- The whole ---------------------------------------------------------------------------------------------


@dataclass
class Assignment:
    tensors: dict[str, Tensor]
    arenas: dict[str, dict[str, int]]
    graph_hash: bytes
    assignment_hash: bytes


def assign(
    graph: Graph,
    mode: str,
    token: bytes | None = None,
    order: list[str] | None = None,
    arenas: dict[str, dict[str, int]] | None = None,
    tensors: dict[str, Tensor] | None = None,
) -> Assignment:
    """Everything about a plan that any conforming implementation must reproduce. `tensors`: with lives that are
    not those of the order, but of a schedule (reference/remat.py)."""
    token = default_token(graph) if token is None else token
    tensors = analyze_liveness(graph, mode, order).tensors if tensors is None else tensors
    members: dict[str, list[Tensor]] = {}
    for tensor in tensors.values():
        if tensor.owner is None:
            members.setdefault(tensor.arena, []).append(tensor)
    summary = {}
    for arena, own in members.items():
        setting = (arenas or {}).get(arena, {})
        alignment = int(setting.get("alignment_bytes", DEFAULT_ALIGNMENT))
        assign_slots(own, arena)
        sizes: dict[int, int] = {}
        for tensor in own:
            tensor.address = virtual_address(token, arena, tensor.slot, alignment)
            sizes[tensor.slot] = max(sizes.get(tensor.slot, 0), rounded(tensor.size, alignment))
        summary[arena] = {
            "alignment": alignment,
            "slots": len(sizes),
            "slot_bytes": sum(sizes.values()),
            "max_live": max_live(own),
            "lower_bound": lower_bound(own, alignment),
        }
        if "capacity_bytes" in setting:
            summary[arena]["capacity"] = int(setting["capacity_bytes"])
    for tensor in tensors.values():
        if tensor.owner is not None:
            tensor.slot, tensor.address = tensors[tensor.owner].slot, tensors[tensor.owner].address
    identity = graph_hash(graph)
    rows = {t.id: [t.arena, t.slot, t.address, t.size, t.birth, t.death] for t in tensors.values()}
    encoded = cbor.encode(["tmmu_assignment_v1", identity, mode, rows])
    return Assignment(tensors, summary, identity, hashlib.sha256(encoded).digest())
