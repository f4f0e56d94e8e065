"""Schedules of base steps: what runs when, and how long every instance of a tensor lives then.

Follows docs/spec/03d-remat.md and 03j-paging.md line by line. How long instances live follows from a schedule alone
(`instances`), which is the one truth that the searches of remat.py and reorder.py and the tests share.
"""

from dataclasses import dataclass, field, replace
from typing import Any

from . import plan

Graph = dict[str, Any]
Execution = tuple[str, int]  # ("run" | "back", node) or ("out" | "in" | "wait", tensor)
TRANSFERS = ("out", "in", "wait")

COST_MAX = 2**56 - 1
HOST = "host"


# ---- What an operator costs --------------------------------------------------------------------------------


def _elements(shape: list[int]) -> int:
    product = 1
    for dimension in shape:
        product *= dimension
    return product


def cost_of(given: dict[str, Any], node: plan.Node, tensors: dict[str, plan.Tensor]) -> int:
    """The node's `cost`, else its floating point operations."""
    if "cost" in given:
        return min(int(given["cost"]), COST_MAX)
    shapes = [tensors[name].shape for name in node.inputs]
    made = sum(_elements(tensors[name].shape) for name in node.outputs)
    cost = made
    if node.op == "matmul" and shapes and shapes[0]:
        cost = 2 * made * shapes[0][-1]
    if node.op in ("conv", "conv_transpose") and len(shapes) > 1 and shapes[1] and shapes[1][0]:
        across = made if node.op == "conv" else _elements(shapes[0])
        cost = 2 * across * (_elements(shapes[1]) // shapes[1][0])
    if node.op == "attention" and len(shapes) > 1 and len(shapes[1]) > 1:
        cost = 4 * made * shapes[1][-2]
    return min(max(cost, 1), COST_MAX)


# ---- The problem: base steps over tensors ------------------------------------------------------------------


@dataclass
class Step:
    kind: str
    node: int
    needs: list[int]  # tensors, each once
    makes: list[int]
    kills: int | None  # the input that is overwritten


@dataclass(frozen=True)
class Link:
    """Bytes and units of cost per second."""

    link: int
    speed: int
    overlaps: bool = False  # transfers run beside the computation: 03k-overlap.md

    def move(self, size: int) -> int:
        return min(max(-(-size * self.speed // self.link), 1), COST_MAX)


@dataclass
class Problem:
    """Tensors, nodes and arenas are numbers in the order of declaration; steps are base steps."""

    names: list[str]
    sizes: list[int]  # rounded to the arena's alignment
    arena: list[str]
    producer: list[int | None]
    permanent: list[bool]
    costs: list[int]
    inputs: list[list[int]]  # of a node, each once
    outputs: list[list[int]]
    kills: list[int | None]
    steps: list[Step]
    order: list[int]  # the nodes in their base order
    gradients: list[tuple[str, int, int, int]]  # arena, size, first and last base step at which it lives
    needs: list[list[int]] = field(default_factory=list)  # of a tensor: base steps
    link: "Link | None" = None
    moves: list[int] = field(default_factory=list)  # of a tensor: what moving it costs; 0 if it cannot be paged
    copies: list[int] = field(default_factory=list)  # of a tensor: what its copy takes of the host

    def first_step(self, node: int) -> int:
        return self.order.index(node)


def problem(
    graph: Graph,
    mode: str,
    order: list[str] | None = None,
    alignments: dict[str, int] | None = None,
    link: Link | None = None,
) -> Problem:
    nodes = plan.nodes_of(graph)
    number = {node.id: i for i, node in enumerate(nodes)}
    live = plan.analyze_liveness(graph, mode, order)
    executed = [number[node.id] for node in plan.execution_order(graph, nodes, order)]
    tensors = plan.tensors_of(graph)
    names = list(tensors)
    index = {name: i for i, name in enumerate(names)}
    alignment = {tensor.arena: plan.DEFAULT_ALIGNMENT for tensor in live.tensors.values()} | (alignments or {})

    def size_of(tensor: plan.Tensor) -> int:
        return plan.rounded(tensor.size if tensor.owner is None else 0, alignment[tensor.arena])

    def place(name: str) -> str:
        return tensors[name].owner or name

    producer: list[int | None] = [None] * len(names)
    for i, node in enumerate(nodes):
        for name in node.outputs:
            producer[index[name]] = i
    permanent = [
        tensor.role in ("parameter", "state")
        or tensor.id in graph["outputs"]
        or (mode == "forward" and tensor.saved_for_backward is True)
        for tensor in tensors.values()
    ]
    for tensor in tensors.values():
        permanent[index[place(tensor.id)]] |= permanent[index[tensor.id]]
    read = [[x for name in node.inputs for x in (name, place(name))] for node in nodes]  # an alias, and its owner
    inputs = [[index[name] for name in dict.fromkeys(own)] for own in read]
    outputs = [[index[name] for name in node.outputs] for node in nodes]
    kills: list[int | None] = [None] * len(nodes)
    for i, node in enumerate(nodes):
        if len(node.outputs) == 1 and node.outputs[0] in live.overwritten:
            kills[i] = index[place(live.overwritten[node.outputs[0]])]
    steps = [Step("run", i, inputs[i], outputs[i], kills[i]) for i in executed]
    gradients = []
    if mode == "backward":
        for i in reversed(executed):
            steps.append(Step("back", i, _saved_by(nodes[i], tensors, index), [], None))
        for tensor in live.tensors.values():
            if tensor.id not in tensors:
                gradients.append((tensor.arena, size_of(tensor), tensor.birth - 1, tensor.death - 2))
    made = Problem(
        names, [size_of(tensor) for tensor in tensors.values()], [tensor.arena for tensor in tensors.values()],
        producer, permanent, [cost_of(given, node, tensors) for given, node in zip(graph["nodes"], nodes)],
        inputs, outputs, kills, steps, executed, gradients,
    )  # fmt: skip
    made.needs = [[] for _ in names]
    for s, step in enumerate(steps):
        for tensor in step.needs:
            made.needs[tensor].append(s)
    if link:
        made.link = link
        made.moves = [link.move(size) if size and not keeps else 0 for size, keeps in zip(made.sizes, permanent)]
        on_host = (alignments or {}).get(HOST, plan.DEFAULT_ALIGNMENT)
        made.copies = [plan.rounded(tensor.size, on_host) for tensor in tensors.values()]
    return made


def _saved_by(node: plan.Node, tensors: dict[str, plan.Tensor], index: dict[str, int]) -> list[int]:
    saved = []
    touched = [(name, node.saves_inputs) for name in node.inputs] + [(name, node.saves_output) for name in node.outputs]
    for name, saves in touched:
        choice = tensors[name].saved_for_backward
        if choice is True or (saves and choice is not False):
            saved += [index[name], index[tensors[name].owner or name]]
    return list(dict.fromkeys(saved))


# ---- The truth about a schedule ----------------------------------------------------------------------------


@dataclass
class Instance:
    tensor: int
    number: int  # 0 is the first
    birth: int
    death: int
    overwrites: "Instance | None" = None
    is_copy: bool = False  # on the host


def base_schedule(p: Problem) -> list[Execution]:
    return [(step.kind, step.node) for step in p.steps]


def places(p: Problem, schedule: list[Execution]) -> list[int]:
    """The place (from 1) of every base step; AssertionError where they are not all there in their order."""
    found, at = [], 0
    for place, (kind, node) in enumerate(schedule, 1):
        if at < len(p.steps) and (kind, node) == (p.steps[at].kind, p.steps[at].node):
            found.append(place)
            at += 1
        elif kind not in TRANSFERS:
            assert kind == "run" and p.first_step(node) < at, "runs before its place in the order"
    assert at == len(p.steps)
    return found


def instances(p: Problem, schedule: list[Execution]) -> list[Instance]:
    """Every instance with its life, in the order (tensor, number), then copies. AssertionError for a read of
    nothing."""
    end = len(schedule) + 1
    places(p, schedule)
    back = {p.steps[s].node: p.steps[s] for s in range(len(p.steps)) if p.steps[s].kind == "back"}
    current: list[Instance | None] = [None] * len(p.names)
    every: list[list[Instance]] = [[] for _ in p.names]
    copies: dict[int, Instance] = {}

    def make(tensor: int, place: int) -> Instance:
        instance = Instance(tensor, len(every[tensor]), place, place + 1)
        every[tensor].append(instance)
        current[tensor] = instance
        return instance

    for tensor, node in enumerate(p.producer):
        if node is None:
            make(tensor, 0)
    for place, (kind, node) in enumerate(schedule, 1):
        if kind == "in":
            assert node in copies, f"{p.names[node]} comes in and was never out"
            copies[node].death = place + 1
            make(node, place)
            continue
        if kind == "wait":
            copies[node].death = max(copies[node].death, place + 1)
        for tensor in [node] if kind in ("out", "wait") else p.inputs[node] if kind == "run" else back[node].needs:
            instance = current[tensor]
            assert instance is not None, f"{p.names[tensor]} is read while it is nowhere"
            instance.death = max(instance.death, place + 1)
        if kind == "out":
            assert p.moves[node] and node not in copies
            copies[node] = Instance(node, 0, place, place + 1, is_copy=True)
        if kind == "run":
            killed = p.kills[node]
            old = None
            if killed is not None:
                old = current[killed]
                assert old is not None
                old.death = place
                current[killed] = None
            for tensor in p.outputs[node]:
                make(tensor, place).overwrites = old
    for tensor, keeps in enumerate(p.permanent):
        if keeps and every[tensor]:
            every[tensor][-1].death = end
    return [instance for own in every for instance in own] + [copies[tensor] for tensor in sorted(copies)]


def gradient_lives(p: Problem, schedule: list[Execution]) -> list[tuple[str, int, int, int]]:
    """(arena, size, birth, death) of the gradients that backward mode makes."""
    place = [*places(p, schedule), len(schedule) + 1]  # a graph without nodes has gradients behind its end
    return [(arena, size, place[first], place[last] + 1) for arena, size, first, last in p.gradients]


def loads(p: Problem, schedule: list[Execution]) -> dict[str, list[int]]:
    """For each arena the bytes live at every position, from 0 to the end."""
    end = len(schedule) + 1
    found = {arena: [0] * (end + 2) for arena in [*p.arena, *(g[0] for g in p.gradients), *([HOST] if p.link else [])]}
    lives = [
        (HOST, p.copies[i.tensor], i.birth, i.death)
        if i.is_copy
        else (p.arena[i.tensor], p.sizes[i.tensor], i.birth, i.death)
        for i in instances(p, schedule)
    ]
    for arena, size, birth, death in lives + gradient_lives(p, schedule):
        found[arena][birth] += size
        found[arena][death] -= size
    for arena, changes in found.items():
        for place in range(1, end + 2):
            changes[place] += changes[place - 1]
    return found


def peaks(p: Problem, schedule: list[Execution]) -> dict[str, int]:
    return {arena: max(load) for arena, load in loads(p, schedule).items()}


def fits(p: Problem, schedule: list[Execution], budget: dict[str, int]) -> bool:
    found = peaks(p, schedule)
    return all(found.get(arena, 0) <= bytes_ for arena, bytes_ in budget.items())


def added_cost(p: Problem, schedule: list[Execution]) -> int:
    again = sum(p.costs[node] for kind, node in schedule if kind == "run") - sum(p.costs)
    return again + waited(p, schedule)


def duration(p: Problem, execution: Execution) -> int:
    """What a run or backward step takes."""
    kind, node = execution
    return {"run": 1, "back": 2}.get(kind, 0) * p.costs[node] if kind not in TRANSFERS else 0


def waited(p: Problem, schedule: list[Execution]) -> int:
    """How long the computation waits for transfers; without any `wait`, what they take."""
    if not any(kind == "wait" for kind, _ in schedule):
        return sum(p.moves[tensor] for kind, tensor in schedule if kind in TRANSFERS)
    now = total = 0
    free = {"out": 0, "in": 0}
    complete: dict[int, int] = {}
    for kind, index in schedule:
        if kind in free:
            assert index not in complete, f"{p.names[index]} is under way"
            free[kind] = complete[index] = max(now, free[kind]) + p.moves[index]
        elif kind == "wait":
            late = max(complete.pop(index) - now, 0)
            now, total = now + late, total + late
        else:
            now += duration(p, (kind, index))
    assert not complete
    return total


def lives(graph: Graph, mode: str, p: Problem, schedule: list[Execution]) -> dict[str, plan.Tensor]:
    """The rows of a plan of the schedule: tensors, gradients, then what is made again, then copies on the host."""
    tensors = plan.analyze_liveness(graph, mode, [graph["nodes"][node]["id"] for node in p.order]).tensors
    gradients = [tensor for name, tensor in tensors.items() if name not in p.names]
    for tensor, (_, _, birth, death) in zip(gradients, gradient_lives(p, schedule)):
        tensor.birth, tensor.death = birth, death
    aliases = {i for i, name in enumerate(p.names) if tensors[name].owner is not None}
    for instance in instances(p, schedule):
        if instance.tensor in aliases:
            continue
        tensor = tensors[p.names[instance.tensor]]
        if instance.is_copy:
            name = f"{tensor.id}.host"
            assert name not in tensors
            tensor = replace(tensor, id=name, arena=HOST)
            tensors[name] = tensor
        elif instance.number > 0:
            name = f"{tensor.id}.again{instance.number}"
            assert name not in tensors
            tensor = replace(tensor, id=name)
            tensors[name] = tensor
        tensor.birth, tensor.death = instance.birth, instance.death
    return _with_aliases(p, schedule, tensors, aliases)


def _with_aliases(
    p: Problem, schedule: list[Execution], tensors: dict[str, plan.Tensor], aliases: set[int]
) -> dict[str, plan.Tensor]:
    """An alias has a row for every instance of its owner in which it is made or read, from the first time to the
    last; one that stays to the end stays in the last instance. An instance that is overwritten ends there, and its
    aliases with it: one that is first read there has the place before."""
    if not aliases:
        return tensors
    index = {name: i for i, name in enumerate(p.names)}
    back = {step.node: step.needs for step in p.steps if step.kind == "back"}
    number = [0 if node is None else -1 for node in p.producer]  # of a tensor's current instance
    rows: dict[int, list[tuple[int, int, int]]] = {
        alias: [(number[index[tensors[p.names[alias]].owner]], 0, 1)] if p.producer[alias] is None else []
        for alias in sorted(aliases)
    }
    for place, (kind, node) in enumerate(schedule, 1):
        if kind in ("out", "wait"):
            continue
        made = [node] if kind == "in" else p.outputs[node] if kind == "run" else []
        for tensor in made:
            number[tensor] += 1
        lasting = [t for t in rows if p.permanent[t] and rows[t] and index[tensors[p.names[t]].owner] in made]
        read = [] if kind == "in" else p.inputs[node] if kind == "run" else back[node]
        for alias in [t for t in dict.fromkeys([*read, *made, *lasting]) if t in aliases]:
            current = number[index[tensors[p.names[alias]].owner]]
            if rows[alias] and rows[alias][-1][0] == current:
                rows[alias][-1] = (current, rows[alias][-1][1], place + 1)
            else:
                rows[alias].append((current, place, place + 1))
    again = []
    for alias, own in rows.items():
        first = tensors[p.names[alias]]
        owner = first.owner
        if p.permanent[alias]:
            own[-1] = (*own[-1][:2], len(schedule) + 1)
        for k, (current, birth, death) in enumerate(own):
            row = first if k == 0 else replace(first, id=f"{first.id}.again{k}")
            row.owner = owner if current == 0 else f"{owner}.again{current}"
            row.death = min(death, tensors[row.owner].death)
            row.birth = min(birth, row.death - 1)
            again += [(alias, k, row)] if k else []
    host = {name: tensor for name, tensor in tensors.items() if tensor.arena == HOST}
    rest = {name: tensor for name, tensor in tensors.items() if tensor.arena != HOST}
    for _, _, row in again:
        assert row.id not in rest
        rest[row.id] = row
    return rest | host
