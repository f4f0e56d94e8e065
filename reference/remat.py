"""Rematerialisation: schedules in which operators run again so that what is live fits a budget.

Follows docs/spec/03d-remat.md line by line, 03j-paging.md if tensors may go to the host, and 03k-overlap.md if that
happens beside the computation. Costs are integers, ratios are compared by cross multiplication or as fractions:
nothing here is floating point.
"""

import heapq
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from . import overlap
from .schedules import (
    HOST,
    Execution,
    Problem,
    Step,
    added_cost,
    base_schedule,
    duration,
    fits,
    instances,
    loads,
    places,
)

NEVER = 2**60  # no such step; also a cost that cannot be paid
NODES_OF_EXACT = 30
BOUND_STEPS = 64
PARTS = 64  # of what must go: so much of it is paged, the rest made again
LOOKS = 4  # at successors, for each state of the limit, if tensors are paged
WEIGHT = 64  # what a tensor that crosses a segment's border is worth


# ---- The walk: run the base steps, evict where room is short ------------------------------------------------


@dataclass(frozen=True)
class Strategy:
    by_distance: bool = False  # a value counts less the later it is needed
    segments: int = 0  # tensors that cross a segment's border count more
    seed: int = 0  # noise
    pages: bool = False  # tensors may go to the host


class NoRoom(Exception):
    pass


def _noise(seed: int, tensor: int) -> int:
    """0 to 7."""
    x = (seed * 0x9E3779B97F4A7C15 + tensor * 0xBF58476D1CE4E5B9) & (2**64 - 1)
    x ^= x >> 31
    x = x * 0x94D049BB133111EB & (2**64 - 1)
    return x >> 61


class Walk:
    def __init__(self, p: Problem, budget: dict[str, int], strategy: Strategy, work: int = 2**62) -> None:
        self.p, self.budget, self.strategy = p, budget, strategy
        self.work = work  # what is left of it
        self.step_of = {node: place for place, node in enumerate(p.order)}
        self.resident = [node is None for node in p.producer]
        self.load = {arena: 0 for arena in budget}
        for tensor, node in enumerate(p.producer):
            if node is None and p.arena[tensor] in budget:
                self.load[p.arena[tensor]] += p.sizes[tensor]
        self.schedule: list[Execution] = []
        self.step = 0  # the base step that is run, or made ready
        self.pins = [0] * len(p.names)
        self.on_host = [False] * len(p.names)
        self.copied = 0  # bytes of all copies
        self.crosses = self._crossing()

    def _crossing(self) -> list[bool]:
        """Whether a tensor is made in one segment of the order and read by a node of a later one."""
        p, k = self.p, self.strategy.segments
        if k == 0:
            return [False] * len(p.names)
        length = -(-len(p.order) // k)
        crosses = []
        for tensor, node in enumerate(p.producer):
            made = 0 if node is None else self.step_of[node] // length
            crosses.append(any(p.steps[s].kind == "run" and s // length != made for s in p.needs[tensor]))
        return crosses

    def next_need(self, tensor: int) -> int:
        return next((s for s in self.p.needs[tensor] if s >= self.step), NEVER)

    def fixed(self, arena: str, between: bool) -> int:
        """Gradients that live at the step, or just before it."""
        s = self.step
        return sum(
            size
            for own, size, first, last in self.p.gradients
            if own == arena and (first < s <= last if between else first <= s <= last)
        )

    def values(self) -> tuple[list[int], list[bool]]:
        """For every tensor what making it again costs now, and whether anybody will want it."""
        p = self.p
        price = [NEVER if node is None else 0 for node in p.producer]
        done = [node for node in p.order if self.step_of[node] < self.step]
        for node in done:
            missing = [x for x in p.inputs[node] if not self.resident[x]]
            cost = p.costs[node] + sum(p.moves[x] if self.on_host[x] else price[x] for x in missing)
            for tensor in p.outputs[node]:
                price[tensor] = min(cost, NEVER)
        wanted = [self.next_need(tensor) < NEVER for tensor in range(len(p.names))]
        for node in reversed(done):
            gone = [t for t in p.outputs[node] if not self.resident[t] and not self.on_host[t]]
            if any(wanted[tensor] for tensor in gone):
                for tensor in p.inputs[node]:
                    wanted[tensor] = True
        return price, wanted

    def evict(self, arena: str, spared: list[int]) -> None:
        p = self.p
        self.work -= len(p.names) + sum(map(len, p.inputs))
        if self.work < 0:
            raise NoRoom
        price, wanted = self.values()
        best: tuple[int, int, int, int] | None = None
        for tensor in range(len(p.names)):
            if (
                not self.resident[tensor] or p.arena[tensor] != arena or p.sizes[tensor] == 0
                or p.permanent[tensor] or self.pins[tensor] > 0 or tensor in spared
            ):  # fmt: skip
                continue
            value = self.value(tensor, price[tensor]) if wanted[tensor] else 0
            if value >= NEVER:
                continue
            need = self.next_need(tensor)
            if self.strategy.by_distance and need < NEVER:
                value >>= (need - self.step + 1).bit_length() - 1
            if self.crosses[tensor]:
                value = min(value * WEIGHT, NEVER - 1)
            if self.strategy.seed:
                value = min(value * (8 + _noise(self.strategy.seed, tensor)) // 8, NEVER - 1)
            if best is None or self._precedes((value, p.sizes[tensor], need, tensor), best):
                best = (value, p.sizes[tensor], need, tensor)
        if best is None:
            raise NoRoom
        gone = best[3]
        if wanted[gone] and not self.on_host[gone] and self.value(gone, price[gone]) < price[gone]:
            self.schedule.append(("out", gone))
            self.on_host[gone] = True
            self.copied += p.copies[gone]
        self.resident[gone] = False
        self.load[arena] -= best[1]

    def value(self, tensor: int, price: int) -> int:
        """What having it back costs: made again, or moved out and in."""
        p = self.p
        if self.on_host[tensor]:
            return p.moves[tensor]
        if not self.strategy.pages or not p.moves[tensor]:
            return price
        has_room = HOST not in self.budget or self.copied + p.copies[tensor] <= self.budget[HOST]
        return min(price, 2 * p.moves[tensor]) if has_room else price

    @staticmethod
    def _precedes(a: tuple[int, int, int, int], b: tuple[int, int, int, int]) -> bool:
        left, right = a[0] * b[1], b[0] * a[1]
        return (left, -a[2], a[3]) < (right, -b[2], b[3])

    def execute(self, step: Step, between: bool) -> None:
        """Makes room for what the step makes, then runs it. Its inputs are resident and pinned."""
        p = self.p
        if len(self.schedule) >= 16 * len(p.steps) + 64:
            raise NoRoom
        for arena in sorted(self.budget.keys() - {HOST} if p.link else self.budget):
            more = sum(p.sizes[t] for t in step.makes if p.arena[t] == arena and not self.resident[t])
            if step.kills is not None and p.arena[step.kills] == arena:
                more -= p.sizes[step.kills]
            while self.load[arena] + self.fixed(arena, between) + more > self.budget[arena]:
                self.evict(arena, step.makes)
            self.load[arena] += more
        for tensor in step.makes:
            self.resident[tensor] = True
        if step.kills is not None:
            self.resident[step.kills] = False
        self.schedule.append((step.kind, step.node))

    def remake(self, tensor: int) -> None:
        """Runs the producer again, and before it those of what it reads."""
        node = self.p.producer[tensor]
        if node is None:
            raise NoRoom
        self.gather(self.p.inputs[node])
        if not all(self.resident[x] for x in self.p.inputs[node]):
            raise NoRoom
        self.execute(Step("run", node, self.p.inputs[node], self.p.outputs[node], self.p.kills[node]), True)
        self.release(self.p.inputs[node])

    def gather(self, tensors: list[int]) -> None:
        for tensor in tensors:
            self.pins[tensor] += 1
        for tensor in tensors:
            if self.resident[tensor]:
                continue
            if self.on_host[tensor]:
                self.execute(Step("in", tensor, [], [tensor], None), True)
            else:
                self.remake(tensor)

    def release(self, tensors: list[int]) -> None:
        for tensor in tensors:
            self.pins[tensor] -= 1

    def run(self) -> list[Execution]:
        if any(self.load[arena] > self.budget[arena] for arena in self.budget):
            raise NoRoom
        for self.step, step in enumerate(self.p.steps):
            self.gather(step.needs)
            if not all(self.resident[tensor] for tensor in step.needs):
                raise NoRoom
            self.execute(step, False)
            self.release(step.needs)
        return self.schedule


# ---- Leaving out what is not needed ------------------------------------------------------------------------


def _without(p: Problem, schedule: list[Execution], place: int) -> list[Execution] | None:
    """The schedule without that execution and without what only it needed; None where a read has nothing."""
    kept = drop_useless(p, schedule[:place] + schedule[place + 1 :])
    try:
        instances(p, kept)
    except AssertionError:
        return None
    return kept


def drop_useless(p: Problem, schedule: list[Execution]) -> list[Execution]:
    """Without executions beyond the base steps whose outputs nobody reads, from the last to the first."""
    base = {place - 1 for place in places(p, schedule)}
    back = {step.node: step.needs for step in p.steps if step.kind == "back"}
    keep = []
    wanted = [False] * len(p.names)  # a later execution reads it before it is made again
    copy_wanted = [False] * len(p.names)
    for at in range(len(schedule) - 1, -1, -1):
        kind, node = schedule[at]
        if kind == "out":
            if copy_wanted[node]:
                keep.append(schedule[at])
                wanted[node] = True
            continue
        if kind == "in":
            if wanted[node]:
                keep.append(schedule[at])
                wanted[node] = False
                copy_wanted[node] = True
            continue
        if at not in base and not any(wanted[tensor] for tensor in p.outputs[node]):
            continue
        keep.append(schedule[at])
        if kind == "run":
            for tensor in p.outputs[node]:
                wanted[tensor] = False
        for tensor in p.inputs[node] if kind == "run" else back[node]:
            wanted[tensor] = True
    return keep[::-1]


def _cost_of(p: Problem, execution: Execution) -> int:
    return (p.costs if execution[0] == "run" else p.moves)[execution[1]]


def prune(p: Problem, schedule: list[Execution], budget: dict[str, int]) -> list[Execution]:
    """Leaves out executions, the dearest first, as long as the rest fits; twice over."""
    schedule = drop_useless(p, schedule)
    base = set(places(p, schedule))
    extra = [at for at in range(len(schedule)) if at + 1 not in base]
    extra.sort(key=lambda at: (-_cost_of(p, schedule[at]), at))
    marks = [[*execution, at] for at, execution in enumerate(schedule)]
    for at in extra[: PRUNING_WORK // (len(schedule) + len(p.names))]:
        place = next((i for i, mark in enumerate(marks) if mark[2] == at), None)
        if place is None:
            continue
        current = [(kind, node) for kind, node, _ in marks]
        shorter = _without(p, current, place)
        if shorter is not None and fits(p, shorter, budget):
            marks = _follow(marks, place, shorter)
    return [(kind, node) for kind, node, _ in marks]


def _follow(marks: list[list[Any]], place: int, shorter: list[Execution]) -> list[list[Any]]:
    """The marks of what is left, found from the end, as executions were left out."""
    rest = marks[:place] + marks[place + 1 :]
    found, at = [], len(rest) - 1
    for execution in reversed(shorter):
        while (rest[at][0], rest[at][1]) != execution:
            at -= 1
        found.append(rest[at])
        at -= 1
    return found[::-1]


# ---- What no schedule can beat -----------------------------------------------------------------------------


def cost_bound(p: Problem, budget: dict[str, int]) -> int | None:
    """A cost that every schedule within the budget adds; None where there is no such schedule."""
    bound = 0
    base = loads(p, base_schedule(p))
    for arena, limit in budget.items():
        if arena not in base:
            continue
        if base[arena][0] > limit or any(_kept(p, s, arena) > limit for s in range(len(p.steps))):
            return None
        fullest = sorted(range(len(p.steps)), key=lambda s: (-base[arena][s + 1], s))[:BOUND_STEPS]
        for s in fullest:
            groups: dict[int, int] = {}  # by node; what has no producer comes after all nodes
            step = p.steps[s]
            for tensor, node in enumerate(p.producer):
                there = p.link is not None if node is None else p.first_step(node) < s
                crosses = there and any(need > s for need in p.needs[tensor])
                at_hand = tensor in step.needs or tensor in step.makes
                if crosses and p.arena[tensor] == arena and not p.permanent[tensor] and not at_hand:
                    group = len(p.order) + tensor if node is None else node
                    groups[group] = groups.get(group, 0) + p.sizes[tensor]
            excess = _kept(p, s, arena) + sum(groups.values()) - limit
            least = _least_overlapped(p, groups, excess, s) if p.link and p.link.overlaps else _least_cost(p, groups, excess)
            bound = max(bound, least)
    return bound


def _kept(p: Problem, s: int, arena: str) -> int:
    """What lives at a base step in every schedule."""
    step = p.steps[s]
    kept = sum(size for own, size, first, last in p.gradients if own == arena and first <= s <= last)
    for tensor, node in enumerate(p.producer):
        if p.arena[tensor] != arena:
            continue
        made = node is None or p.first_step(node) < s
        cannot_go = p.permanent[tensor] or (node is None and p.link is None)
        lasts = made and cannot_go and (p.permanent[tensor] or any(need > s for need in p.needs[tensor]))
        if lasts or tensor in step.needs or tensor in step.makes:
            kept += p.sizes[tensor]
    if step.kills is not None and p.arena[step.kills] == arena:
        kept -= p.sizes[step.kills]
    return kept


def _least_cost(p: Problem, groups: dict[int, int], excess: int) -> int:
    """The least cost of dropping that many bytes, where the last group may be dropped in part."""
    cost = 0
    ranked = _by_ratio([(_group_price(p, node, size), size, node) for node, size in groups.items() if size > 0])
    for price, size, _ in ranked:
        if excess <= 0:
            break
        cost += price if size <= excess else -(-price * excess // size)
        excess -= size
    return min(cost, NEVER)


def _least_overlapped(p: Problem, groups: dict[int, int], excess: int, s: int) -> int:
    """The least cost if what is paged goes out before the step and comes back after it, beside the base steps."""
    if excess <= 0:
        return 0
    assert p.link
    before = sum(duration(p, (step.kind, step.node)) for step in p.steps[:s])
    after = sum(duration(p, (step.kind, step.node)) for step in p.steps[s + 1 :])
    items = [(p.costs[node] if node < len(p.order) else NEVER, size, node) for node, size in groups.items() if size]
    ranked = _by_ratio(items)
    found = NEVER
    for k in range(PARTS):
        remade, paged = excess * k // PARTS, excess - -(-excess * (k + 1) // PARTS)
        cost = 0
        for price, size, _ in ranked:
            cost += price if size <= remade else -(-price * remade // size)
            remade -= min(size, remade)
        moved = paged * p.link.speed // p.link.link
        found = min(found, max(0, moved - before) + max(cost, moved - after))
    return found


def _group_price(p: Problem, node: int, size: int) -> int:
    made_again = p.costs[node] if node < len(p.order) else NEVER
    return made_again if p.link is None else min(made_again, 2 * size * p.link.speed // p.link.link)


def _by_ratio(items: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    return sorted(items, key=lambda item: (Fraction(item[0], item[1]), item[2]))


# ---- Small graphs: the least cost, proven ------------------------------------------------------------------


class Exact:
    """A* over (base step, resident tensors). Tensors are dropped only where room is short, and no more of
    them than that takes: whatever else is dropped can be dropped later."""

    def __init__(self, p: Problem, budget: dict[str, int], states: int) -> None:
        self.p, self.budget, self.states = p, budget, states
        self.step_of = {node: place for place, node in enumerate(p.order)}
        self.free = [t for t in range(len(p.names)) if not p.permanent[t]]
        self.bit = {t: 1 << i for i, t in enumerate(self.free)}
        self.needed = [self._mask(step.needs) for step in p.steps]
        self.reads = [self._mask(inputs) for inputs in p.inputs]
        self.makes = [self._mask(outputs) for outputs in p.outputs]
        steps = range(len(p.steps) + 1)
        self.future = [self._mask(t for t in self.free if any(need >= s for need in p.needs[t])) for s in steps]
        self.useful = [self._useful(s) for s in steps]
        self.pageable = self._mask(t for t in self.free if p.link and p.moves[t])
        self.base_load = {arena: [self._always(arena, s) for s in range(len(p.steps))] for arena in budget}

    def _mask(self, tensors: Any) -> int:
        return sum(self.bit[t] for t in dict.fromkeys(tensors) if t in self.bit)

    def _useful(self, s: int) -> int:
        found = self.future[s]
        for node in reversed(self.p.order[:s]):
            if self.makes[node] & found:
                found |= self.reads[node]
        return found

    def _always(self, arena: str, s: int) -> tuple[int, int]:
        """Permanent tensors and gradients before the step, and at it."""
        p = self.p
        before = sum(
            p.sizes[t] for t, node in enumerate(p.producer)
            if p.permanent[t] and p.arena[t] == arena and (node is None or self.step_of[node] < s)
        )  # fmt: skip
        at = before + sum(p.sizes[t] for t in p.steps[s].makes if p.permanent[t] and p.arena[t] == arena)
        for own, size, first, last in p.gradients:
            before += size if own == arena and first < s <= last else 0
            at += size if own == arena and first <= s <= last else 0
        return before, at

    def _size(self, mask: int, arena: str) -> int:
        return sum(self.p.sizes[t] for t in self.free if self.p.arena[t] == arena and mask & self.bit[t])

    def _moving(self, mask: int) -> int:
        return sum(self.p.moves[t] for t in self.free if mask & self.bit[t])

    def owed(self, s: int, live: int, host: int) -> int:
        """What will be paid at least: what is missing is made once more, or comes in."""
        p = self.p
        missing = self.future[s] & ~live
        owed = 0
        for node in p.order[:s]:
            own = self.makes[node] & missing
            if own:
                owed += p.costs[node] if own & ~host else min(p.costs[node], self._moving(own))
        if p.link:
            given = missing & self._mask(t for t in self.free if p.producer[t] is None)
            owed += NEVER if given & ~host else self._moving(given)
        return owed

    def moves(self, s: int, live: int, host: int) -> Any:
        """(cost, what is executed, next step, live, host) in a fixed order."""
        p, m = self.p, len(self.p.steps)
        if not self.needed[s] & ~live:
            step = p.steps[s]
            yield from self._run(s, live, host, step, self.needed[s], True, s + 1, 0)
        for node in p.order[: min(s, m)]:
            if self.makes[node] & self.useful[s] & ~live and not self.reads[node] & ~live:
                step = Step("run", node, p.inputs[node], p.outputs[node], p.kills[node])
                yield from self._run(s, live, host, step, self.reads[node], False, s, p.costs[node])
        for tensor in self.free:
            if self.bit[tensor] & host & self.useful[s] & ~live:
                step = Step("in", tensor, [], [tensor], None)
                yield from self._run(s, live, host, step, 0, False, s, p.moves[tensor])

    def _run(self, s: int, live: int, host: int, step: Step, pins: int, at: bool, after: int, cost: int) -> Any:
        made = self._mask(step.makes)
        killed = 0 if step.kills is None else self.bit[step.kills]
        excess = []
        for arena in sorted(self.budget):
            load = self.base_load[arena][s][at] + self._size((live | made) & ~killed, arena)
            excess.append((arena, load - self.budget[arena]))
        for dropped in self._drops(live & ~pins & ~made, excess):
            left = ((live & ~dropped) | made) & ~killed & self.useful[after]
            savable = (dropped | killed) & self.pageable & ~host & self.useful[after]
            for saved in _submasks(savable):
                out = [("out", t) for t in self.free if saved & self.bit[t]]
                executed = [*out, (step.kind, step.node)]
                yield cost + self._moving(saved), executed, after, left, (host | saved) & self.useful[after]

    def _drops(self, mask: int, excess: list[tuple[str, int]]) -> Any:
        if not excess:
            yield 0
            return
        (arena, bytes_), rest = excess[0], excess[1:]
        own = [t for t in self.free if mask & self.bit[t] and self.p.arena[t] == arena and self.p.sizes[t] > 0]
        for dropped in self._subsets(own, bytes_):
            for more in self._drops(mask, rest):
                yield dropped | more

    def _subsets(self, tensors: list[int], bytes_: int) -> Any:
        """The minimal sets of at least that many bytes, as masks, in the order of their members."""
        sizes = [self.p.sizes[t] for t in tensors]
        rest = [sum(sizes[i:]) for i in range(len(tensors) + 1)]

        def go(at: int, mask: int, total: int, least: int) -> Any:
            if total >= bytes_:
                if total - least < bytes_ or mask == 0:
                    yield mask
                return
            if total + rest[at] < bytes_:
                return
            yield from go(at + 1, mask | self.bit[tensors[at]], total + sizes[at], min(least, sizes[at]))
            yield from go(at + 1, mask, total, least)

        yield from go(0, 0, 0, NEVER)

    def search(self, below: int) -> tuple[list[Execution] | None, bool]:
        """A schedule that adds less than `below`, or None, and whether the search came to its end."""
        p, m = self.p, len(self.p.steps)
        start = self._mask(t for t in self.free if p.producer[t] is None)
        for arena, limit in self.budget.items():
            given = [t for t, node in enumerate(p.producer) if node is None and p.permanent[t]]
            always = sum(p.sizes[t] for t in given if p.arena[t] == arena)
            if self._size(start, arena) + always > limit:
                return None, True
        start &= self.useful[0]
        best = {(0, start, 0): 0}
        trail: list[tuple[int, list[Execution]]] = [(-1, [])]  # the state before, what was executed
        heap = [(self.owed(0, start, 0), 0, 0, 0, start, 0)]
        looks = 0
        while heap:
            bound, minus, entry, cost, live, host = heapq.heappop(heap)
            s = -minus
            if bound >= below:
                break
            if best[s, live, host] < cost:
                continue
            if s == m:
                return self._path(trail, entry), True
            for price, executed, after, left, copies in self.moves(s, live, host):
                looks += p.link is not None
                if looks > LOOKS * self.states:
                    return None, False
                total = cost + price
                if best.get((after, left, copies), NEVER) <= total:
                    continue
                estimate = total + self.owed(after, left, copies)
                if estimate >= below:
                    continue
                if len(trail) >= self.states:
                    return None, False
                best[after, left, copies] = total
                trail.append((entry, executed))
                heapq.heappush(heap, (estimate, -after, len(trail) - 1, total, left, copies))
        return None, True

    def _path(self, trail: list[tuple[int, list[Execution]]], entry: int) -> list[Execution]:
        taken = []
        while entry > 0:
            entry, executed = trail[entry]
            taken.append(executed)
        return [execution for executed in reversed(taken) for execution in executed]


def _submasks(mask: int) -> Any:
    """All subsets, by ascending number."""
    sub = 0
    while True:
        yield sub
        sub = (sub - mask) & mask
        if sub == 0:
            return


# ---- All of it ---------------------------------------------------------------------------------------------


@dataclass
class Solution:
    schedule: list[Execution]
    added_cost: int
    bound: int
    optimal: bool


def strategies(p: Problem, effort: int) -> list[Strategy]:
    found = [Strategy()]
    if effort >= 1:
        found.append(Strategy(by_distance=True))
    if effort >= 2:
        found += [Strategy(segments=k) for k in (2, 4, 8, 16, 32, 64) if 2 * k <= len(p.order)]
    if effort >= 3:
        found += [Strategy(by_distance=seed % 2 == 0, seed=seed) for seed in range(1, 2 ** (effort - 1) + 1)]
    return found


WALK_WORK_MAX = 2**31
PRUNING_WORK = 2**26


def work_limit(effort: int) -> int:
    """After so much of it no further strategy begins."""
    return 2 ** (26 + effort // 2)


def _walks(
    p: Problem, budget: dict[str, int], effort: int, bound: int, pages: bool, best: list[Execution] | None
) -> list[Execution] | None:
    """The best of `best` and of what all strategies find."""
    work = 0
    for sixteenths in range(16, 7, -1):  # what fits less fits: a walk may succeed where one with more room failed
        tighter = {arena: bytes_ // 16 * sixteenths if sixteenths < 16 else bytes_ for arena, bytes_ in budget.items()}
        is_found = False
        for strategy in strategies(p, effort):
            if work > work_limit(effort):
                continue
            try:
                walk = Walk(p, tighter, replace(strategy, pages=pages), WALK_WORK_MAX - work)
                found = walk.run()
            except NoRoom:
                work = WALK_WORK_MAX - walk.work
                continue
            work = WALK_WORK_MAX - walk.work
            is_found = True
            found = prune(p, found, budget) if effort >= 1 else drop_useless(p, found)
            if best is None or overlap.cost(p, found, budget) < overlap.cost(p, best, budget):
                best = found
            if overlap.cost(p, best, budget) == bound:
                break
        if is_found:
            break
    return best


def solve(p: Problem, budget: dict[str, int], effort: int = 5) -> Solution | None:
    """The cheapest schedule found whose live bytes stay within the budget; None where none was found."""
    base = base_schedule(p)
    if fits(p, base, budget):
        return Solution(base, 0, 0, True)
    bound = cost_bound(p, budget)
    if bound is None:
        return None
    best: list[Execution] | None = None
    for pages in (False, True) if p.link else (False,):
        if best is None or overlap.cost(p, best, budget) > bound:
            best = _walks(p, budget, effort, bound, pages, best)
    ended = False
    is_small = len(p.order) <= NODES_OF_EXACT and p.permanent.count(False) <= 64
    if effort >= 4 and is_small and not (p.link and HOST in budget):
        below = NEVER if best is None else overlap.cost(p, best, budget)
        if below > bound:
            better, ended = Exact(p, budget, 2 ** (12 + effort)).search(below)
            best = better or best
    if best is None:
        return None
    if p.link and p.link.overlaps:
        ended = False
        best = overlap.swap(p, best, budget, drop_useless) if effort >= 1 else best
        best = overlap.hidden(p, best, budget)
    cost = added_cost(p, best)
    return Solution(best, cost, cost if ended else bound, ended or cost == bound)
