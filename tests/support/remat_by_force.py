"""The least cost of a schedule within a budget, by looking at every schedule: any tensor may be dropped at any
time, any operator that has run may run again, and with a link any tensor may go to the host and come back. Shares nothing with the searches but the problem itself."""

import heapq

from reference.schedules import Problem


Queue = tuple[tuple[int, int], ...]  # (tensor, what is left of its move), in the order in which a link moves them


def _fits(p: Problem, budget: dict[str, int], s: int, live: frozenset[int], at_step: bool) -> bool:
    """Whether tensors are within the budget at a base step, or across the border before it."""
    for arena, limit in budget.items():
        total = sum(p.sizes[t] for t in live if p.arena[t] == arena)
        for own, size, first, last in p.gradients:
            lives = first <= s <= last if at_step else first < s <= last
            total += size if own == arena and lives else 0
        if total > limit:
            return False
    return True


def least_cost(p: Problem, budget: dict[str, int]) -> int | None:
    """None where no schedule fits."""
    steps = len(p.steps)
    place_of = {node: place for place, node in enumerate(p.order)}
    lasting = {t for t, keeps in enumerate(p.permanent) if keeps}

    def room(s: int, live: frozenset[int], at_step: bool) -> bool:
        return _fits(p, budget, s, live, at_step)

    start = frozenset(t for t, node in enumerate(p.producer) if node is None)
    if not all(sum(p.sizes[t] for t in start if p.arena[t] == a) <= limit for a, limit in budget.items()):
        return None
    nothing: frozenset[int] = frozenset()
    found = {(0, start, nothing): 0}
    heap = [(0, 0, 0, start, nothing)]
    count = 0
    while heap:
        cost, _, s, live, host = heapq.heappop(heap)
        if s == steps:
            return cost
        if found[s, live, host] < cost:
            continue
        moves = [(0, s, live - {t}, host) for t in live - lasting]
        if p.link:
            moves += [(p.moves[t], s, live, host | {t}) for t in live - lasting - host if p.moves[t]]
            moves += [(p.moves[t], s, live | {t}, host) for t in host - live if room(s, live | {t}, False)]
        step = p.steps[s]
        if live.issuperset(step.needs):
            after = live | set(step.makes)
            after -= set() if step.kills is None else {step.kills}
            if room(s, after, True):
                moves.append((0, s + 1, after, host))
        for node, place in place_of.items():
            if place < s and live.issuperset(p.inputs[node]) and not live.issuperset(p.outputs[node]):
                after = live | set(p.outputs[node])
                after -= set() if p.kills[node] is None else {p.kills[node]}
                if room(s, after, False):
                    moves.append((p.costs[node], s, after, host))
        for price, to, after, copies in moves:
            if cost + price < found.get((to, after, copies), cost + price + 1):
                found[to, after, copies] = cost + price
                count += 1
                heapq.heappush(heap, (cost + price, count, to, after, copies))
    return None


def _later(queue: Queue, time: int) -> tuple[Queue, set[int]]:
    """What is under way after some time, and what is complete then."""
    left, done = list(queue), set()
    while left and left[0][1] <= time:
        tensor, rest = left.pop(0)
        time -= rest
        done.add(tensor)
    if left:
        left[0] = (left[0][0], left[0][1] - time)
    return tuple(left), done


def least_overlapped(p: Problem, budget: dict[str, int]) -> int | None:
    """The same if transfers run beside the computation: a state also has what both links have still to move, and the
    cost is how much later it is than the base steps alone would make it. None where no schedule fits."""
    place_of = {node: place for place, node in enumerate(p.order)}
    lasting = {t for t, keeps in enumerate(p.permanent) if keeps}

    def room(s: int, live: frozenset[int], at_step: bool) -> bool:
        return _fits(p, budget, s, live, at_step)

    start = frozenset(t for t, node in enumerate(p.producer) if node is None)
    if not all(sum(p.sizes[t] for t in start if p.arena[t] == a) <= limit for a, limit in budget.items()):
        return None
    State = tuple[int, frozenset[int], frozenset[int], Queue, Queue]
    first: State = (0, start, frozenset(), (), ())
    found: dict[State, int] = {first: 0}
    heap = [(0, 0, first)]
    count = 0
    while heap:
        cost, _, state = heapq.heappop(heap)
        s, live, host, outs, ins = state
        if s == len(p.steps):
            return cost
        if found[state] < cost:
            continue
        leaving, coming = {t for t, _ in outs}, {t for t, _ in ins}
        there = live - coming
        moves: list[tuple[int, State]] = []

        def go(price: int, takes: int, step: int, after: frozenset[int]) -> None:
            out, copied = _later(outs, takes)
            moves.append((price, (step, after, host | copied, out, _later(ins, takes)[0])))

        moves += [(0, (s, live - {t}, host, outs, ins)) for t in there - lasting - leaving]
        for t in there - lasting - host - leaving:
            if p.moves[t]:
                moves.append((0, (s, live, host, (*outs, (t, p.moves[t])), ins)))
        for t in host - live:
            if room(s, live | {t}, False):
                moves.append((0, (s, live | {t}, host, outs, (*ins, (t, p.moves[t])))))
        for queue in (outs, ins):
            if queue:
                go(queue[0][1], queue[0][1], s, live)
        step = p.steps[s]
        takes = p.costs[step.node] * (2 if step.kind == "back" else 1)
        if there.issuperset(step.needs) and step.kills not in leaving and not leaving & set(step.makes):
            after = live | set(step.makes)
            after -= set() if step.kills is None else {step.kills}
            if room(s, after, True):
                go(0, takes, s + 1, after)
        for node, place in place_of.items():
            if place >= s or not there.issuperset(p.inputs[node]) or live.issuperset(p.outputs[node]):
                continue
            if p.kills[node] in leaving or (leaving | coming) & set(p.outputs[node]):
                continue
            after = live | set(p.outputs[node])
            after -= set() if p.kills[node] is None else {p.kills[node]}
            if room(s, after, False):
                go(p.costs[node], p.costs[node], s, after)
        for price, to in moves:
            if cost + price < found.get(to, cost + price + 1):
                found[to] = cost + price
                count += 1
                heapq.heappush(heap, (cost + price, count, to))
    return None
