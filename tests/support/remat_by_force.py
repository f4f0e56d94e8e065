"""The least cost of a schedule within a budget, by looking at every schedule: any tensor may be dropped at any
time, any operator that has run may run again, and with a link any tensor may go to the host and come back. Shares nothing with the searches but the problem itself."""

import heapq

from reference.schedules import Problem


def least_cost(p: Problem, budget: dict[str, int]) -> int | None:
    """None where no schedule fits."""
    steps = len(p.steps)
    place_of = {node: place for place, node in enumerate(p.order)}
    lasting = {t for t, keeps in enumerate(p.permanent) if keeps}

    def room(s: int, live: frozenset[int], at_step: bool) -> bool:
        for arena, limit in budget.items():
            total = sum(p.sizes[t] for t in live if p.arena[t] == arena)
            for own, size, first, last in p.gradients:
                lives = first <= s <= last if at_step else first < s <= last
                total += size if own == arena and lives else 0
            if total > limit:
                return False
        return True

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
