"""Another order of the operators, and what no order can beat.

Follows docs/spec/03d-remat.md line by line.
"""

from dataclasses import dataclass
from typing import Any

from . import plan
from .schedules import Graph, Problem, Step, base_schedule, loads, peaks, problem

FOREVER = 2**62
BOUND_STEPS = 64
BOUND_DEPTH = 2
Alignments = dict[str, int] | None
Relations = list[tuple[int, int]]


def _with_gradient(graph: Graph, p: Problem) -> list[int]:
    """The tensors that have a gradient, in the order of p.gradients."""
    if not p.gradients:
        return []
    index = {name: i for i, name in enumerate(p.names)}
    live = plan.analyze_liveness(graph, "backward", [graph["nodes"][node]["id"] for node in p.order]).tensors
    return [index[name[: -len(".grad")]] for name in live if name not in index]


def order_peak(graph: Graph, mode: str, order: list[str], alignments: Alignments = None) -> int:
    """The largest live bytes of every arena, added up."""
    p = problem(graph, mode, order, alignments)
    return sum(peaks(p, base_schedule(p)).values())


class Reorder:
    """Orders of the nodes of a graph; in the terms of a problem whose order is the given one."""

    def __init__(self, graph: Graph, p: Problem) -> None:
        self.p = p
        self.nodes = plan.nodes_of(graph)
        self.place = {node: place for place, node in enumerate(p.order)}
        self.users: list[set[int]] = [set() for _ in p.names]
        for node, inputs in enumerate(p.inputs):
            for tensor in inputs:
                self.users[tensor].add(node)
        saved = {tensor for step in p.steps if step.kind == "back" for tensor in step.needs}
        self.stays = [p.permanent[t] or t in saved for t in range(len(p.names))]
        self.waits = [{p.producer[t] for t in inputs} - {None} for inputs in p.inputs]
        self.output = [name in graph["outputs"] for name in p.names]
        self.gradient = dict(zip(_with_gradient(graph, p), (size for _, size, _, _ in p.gradients)))

    def greedy(self) -> list[int]:
        """Always the ready node that adds least, of equal ones the first of the given order."""
        p = self.p
        left = [len(users) for users in self.users]
        done: set[int] = set()
        order: list[int] = []
        while len(order) < len(p.order):
            ready = [node for node in p.order if node not in done and self.waits[node] <= done]

            def adds(node: int) -> int:
                freed = sum(p.sizes[t] for t in p.inputs[node] if left[t] == 1 and not self.stays[t])
                return sum(p.sizes[t] for t in p.outputs[node] if left[t] > 0 or self.stays[t]) - freed

            best = min(ready, key=lambda node: (adds(node), self.place[node]))
            for tensor in p.inputs[best]:
                left[tensor] -= 1
            done.add(best)
            order.append(best)
        return order

    def held(self, done: set[int], node: int, tensors: Any) -> int:
        """Bytes of the tensors while the node runs, after the nodes that are done."""
        p, total = self.p, 0
        for t in tensors:
            running = t in p.inputs[node] or t in p.outputs[node]
            made = p.producer[t] is None or p.producer[t] in done
            if running or (made and (self.stays[t] or self.users[t] - done)):
                total += p.sizes[t]
        return total

    def held_back(self, done: set[int], node: int, tensors: Any) -> int:
        """Bytes of their gradients in the node's backward step, before those of the nodes that are done."""
        p, total = self.p, 0
        for t in tensors:
            if t not in self.gradient:
                continue
            born = self.output[t] or not self.users[t] or self.users[t] - done
            if born and (p.producer[t] is None or p.producer[t] in done or p.producer[t] == node):
                total += self.gradient[t]
        return total

    def window(self, order: list[int], start: int, width: int, full: tuple[int, int]) -> list[int]:
        """The window's nodes in the order whose fullest moment is least full, if that is less than now. A
        moment counts by how much it is above (or below) the fullest of the whole order."""
        p = self.p
        nodes = order[start : start + width]
        before = set(order[:start])
        count = len(nodes)
        touched = sorted({t for node in nodes for t in p.inputs[node] + p.outputs[node]})
        rest_of = [t for t in range(len(p.names)) if t not in touched]
        others = self.held(before, nodes[0], rest_of)
        others_back = self.held_back(before, nodes[0], rest_of)

        def done_of(mask: int) -> set[int]:
            return before | {nodes[i] for i in range(count) if mask >> i & 1}

        def height(mask: int, i: int) -> int:
            done = done_of(mask)
            forward = others + self.held(done, nodes[i], touched) - full[0]
            if not self.gradient:
                return forward
            return max(forward, others_back + self.held_back(done, nodes[i], touched) - full[1])

        least: list[tuple[int, int] | None] = [None] * (1 << count)  # the height, the last node
        least[0] = (-FOREVER, -1)
        for mask in range(1, 1 << count):
            for i in range(count):
                rest = mask & ~(1 << i)
                if not mask >> i & 1 or least[rest] is None or not self.waits[nodes[i]] <= done_of(rest):
                    continue
                top = max(least[rest][0], height(rest, i))
                if least[mask] is None or top < least[mask][0]:
                    least[mask] = (top, i)
        now = max(height((1 << i) - 1, i) for i in range(count))
        mask = (1 << count) - 1
        if least[mask][0] >= now:
            return nodes
        found = []
        while mask:
            found.append(nodes[least[mask][1]])
            mask &= ~(1 << least[mask][1])
        return found[::-1]

    def fullest(self, order: list[int]) -> tuple[int, int]:
        every, done = range(len(self.p.names)), set()
        forward = back = 0
        for node in order:
            forward = max(forward, self.held(done, node, every))
            back = max(back, self.held_back(done, node, every))
            done.add(node)
        return forward, back

    def improve(self, order: list[int], effort: int) -> list[int]:
        width = 6 + effort // 2
        for _ in range(effort):
            before = list(order)
            full = self.fullest(order)
            for start in range(0, max(len(order) - 1, 0), width // 2):
                order[start : start + width] = self.window(order, start, width, full)
            if order == before:
                break
        return order


class Flow:
    """The largest flow, by shortest paths."""

    def __init__(self, nodes: int) -> None:
        self.edges: list[list[list[int]]] = [[] for _ in range(nodes)]  # [to, room, place of the reverse]

    def add(self, a: int, b: int, capacity: int) -> None:
        self.edges[a].append([b, capacity, len(self.edges[b])])
        self.edges[b].append([a, 0, len(self.edges[a]) - 1])

    def largest(self, source: int, sink: int) -> int:
        total = 0
        while True:
            came: dict[int, tuple[int, int]] = {source: (-1, -1)}
            queue = [source]
            for node in queue:
                for i, (to, room, _) in enumerate(self.edges[node]):
                    if room > 0 and to not in came:
                        came[to] = (node, i)
                        queue.append(to)
            if sink not in came:
                return total
            path, node = [], sink
            while node != source:
                path.append(came[node])
                node = came[node][0]
            pushed = min(self.edges[node][i][1] for node, i in path)
            for node, i in path:
                edge = self.edges[node][i]
                edge[1] -= pushed
                self.edges[edge[0]][edge[2]][1] += pushed
            total += pushed

    def side(self, source: int) -> set[int]:
        """What the source still reaches, after `largest`: the smallest of the least cuts."""
        seen, queue = {source}, [source]
        for node in queue:
            for to, room, _ in self.edges[node]:
                if room > 0 and to not in seen:
                    seen.add(to)
                    queue.append(to)
        return seen


@dataclass
class Item:
    """Bytes that are live where the maker has run and a user has not."""

    size: int
    maker: int | None  # None: always
    users: set[int] | None  # None: always


def least_at(p: Problem, node: int, items: list[Item], relations: list[tuple[int, int]]) -> tuple[int, set[int]]:
    """The fewest bytes of the items that any order has live while the node runs (forward or backward): the
    least cut between what runs before it and what runs after it. Also the nodes that it has before. A relation
    (a, b) says that a comes before b."""
    n = len(p.order)
    flow = Flow(n + len(items) + 2)
    source, sink = n + len(items), n + len(items) + 1
    total = 0
    for v, inputs in enumerate(p.inputs):
        for maker in dict.fromkeys(p.producer[t] for t in inputs):
            if maker is not None:
                flow.add(v, maker, FOREVER)
                if v == node:
                    flow.add(source, maker, FOREVER)
    for a, b in relations:
        flow.add(b, a, FOREVER)
        if b == node:
            flow.add(source, a, FOREVER)
    flow.add(node, sink, FOREVER)
    for i, item in enumerate(items):
        maker = None if item.maker == node else item.maker
        users = None if item.users is None or node in item.users else item.users
        if maker is None and users is None:
            total += item.size
        elif users is None:
            flow.add(maker, sink, item.size)
        else:
            flow.add(source if maker is None else maker, n + i, item.size)
            for user in users:
                flow.add(n + i, user, FOREVER)
    total += flow.largest(source, sink)
    return total, {v for v in flow.side(source) if v < n}


class Bound:
    """For every arena what must be live at the steps where this order needs most, whatever the order is."""

    def __init__(self, graph: Graph, mode: str, order: list[str], alignments: Alignments = None) -> None:
        self.p = p = problem(graph, mode, order, alignments)
        self.mode = mode
        self.nodes = plan.nodes_of(graph)
        self.users: list[set[int]] = [set() for _ in p.names]
        self.savers: list[set[int]] = [set() for _ in p.names]
        for node, inputs in enumerate(p.inputs):
            for t in inputs:
                self.users[t].add(node)
        for step in p.steps:
            for t in step.needs if step.kind == "back" else []:
                self.savers[t].add(step.node)
        self.grads = _with_gradient(graph, p)
        self.shared = {tensor.owner for tensor in plan.tensors_of(graph).values()}
        self.outputs = {i for i, name in enumerate(p.names) if name in graph["outputs"]}
        self.place_of = {node: place for place, node in enumerate(p.order)}
        self.steps = {(step.kind, step.node): step for step in p.steps}

    def items_at(self, step: Step, arena: str) -> list[Item]:
        p, items = self.p, []
        for t in range(len(p.names)):
            if p.arena[t] != arena:
                continue
            if step.kind == "run":
                lasts = p.permanent[t] or self.savers[t]
                here = t in step.makes
                if lasts or self.users[t] or here:
                    items.append(Item(p.sizes[t], p.producer[t], None if lasts or here else self.users[t]))
            elif p.permanent[t] or step.node in self.savers[t]:
                items.append(Item(p.sizes[t], None, None))
            elif self.savers[t]:  # one of them is enough: the bound is a bound
                items.append(Item(p.sizes[t], min(self.savers[t]), None))
        for i, t in enumerate(self.grads):
            if step.kind == "back" and p.gradients[i][0] == arena and p.names[t] not in self.shared:
                always = t in self.outputs or not self.users[t]
                items.append(Item(p.gradients[i][1], p.producer[t], None if always else self.users[t]))
        return items

    def least_of(self, kind: str, node: int, arena: str, relations: Relations) -> tuple[int, set[int]]:
        p, step = self.p, self.steps[kind, node]
        least, before = least_at(p, node, self.items_at(step, arena), relations)
        if self.mode == "inference" and self.nodes[node].inplace and len(step.makes) == 1:
            made = step.makes[0]
            may = [t for t in step.needs if p.arena[t] == arena == p.arena[made] and p.sizes[t] == p.sizes[made]]
            least -= p.sizes[made] if may else 0  # some order may overwrite it
        return least, before

    def at_node(self, kind: str, node: int, arena: str, relations: Relations, aim: int, depth: int) -> int:
        """A bound at one step; where it misses the aim, a node that the cut moved is before it or after it."""
        place_of = self.place_of
        least, before = self.least_of(kind, node, arena, relations)
        moved = [y for y in self.p.order if y != node and (y in before) != (place_of[y] < place_of[node])]
        if least >= aim or depth == 0 or not moved:
            return least
        other = min(moved, key=lambda y: (abs(place_of[y] - place_of[node]), place_of[y]))
        sides = []
        for relation in ((other, node), (node, other)):
            more = [*relations, relation]
            here = self.at_node(kind, node, arena, more, aim, depth - 1)
            sides.append(max(here, self.least_of(kind, other, arena, more)[0]))
        return max(least, min(sides))

    def of_arena(self, arena: str, load: list[int]) -> int:
        if not self.p.order:
            return max(load)
        best = load[0]  # what is there at the start is there in every order
        ranked = sorted(range(1, len(self.p.steps) + 1), key=lambda place: (-load[place], place))
        size = len(self.p.order) + len(self.p.names)
        depth = BOUND_DEPTH if size <= 2**14 else 0
        for place in ranked[: min(BOUND_STEPS, 2**20 // size)]:
            if load[place] <= best:
                break
            step = self.p.steps[place - 1]
            best = max(best, self.at_node(step.kind, step.node, arena, [], load[place], depth))
        return best

    def of_all(self) -> int:
        every = loads(self.p, base_schedule(self.p))
        return sum(self.of_arena(arena, load) for arena, load in every.items())


def order_bound(graph: Graph, mode: str, order: list[str], alignments: Alignments = None) -> int:
    return Bound(graph, mode, order, alignments).of_all()


def reorder(graph: Graph, mode: str, order: list[str] | None, effort: int, alignments: Alignments = None) -> list[str]:
    """An order whose peak is less than the given one's, or the given one."""
    p = problem(graph, mode, order, alignments)
    ids = [node["id"] for node in graph["nodes"]]
    search = Reorder(graph, p)
    best = list(p.order)
    least = order_peak(graph, mode, [ids[node] for node in best], alignments)
    bound = order_bound(graph, mode, [ids[node] for node in best], alignments)
    for start in ([list(p.order)] if effort else []) + [search.greedy()]:
        for candidate in (start, search.improve(list(start), effort)):
            if least == bound:
                break
            named = [ids[node] for node in candidate]
            if plan.analyze_liveness(graph, mode, named).too_early is not None:
                continue  # it would overwrite a place too early
            peak = order_peak(graph, mode, named, alignments)
            if peak < least:
                best, least = candidate, peak
    return [ids[node] for node in best]
