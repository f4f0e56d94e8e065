"""Transfers beside the computation: where they begin, where they are awaited, and what is paged instead of made again.

Follows docs/spec/03k-overlap.md.
"""

from fractions import Fraction
from typing import Callable

from .schedules import (
    HOST,
    TRANSFERS,
    Execution,
    Problem,
    added_cost,
    duration,
    fits,
    instances,
    loads,
    places,
)

SWAPPING_WORK = 2**24


def hide(p: Problem, schedule: list[Execution], budget: dict[str, int]) -> list[Execution]:
    """The schedule in which transfers begin early and are awaited late."""
    return Hiding(p, schedule, budget).run()


class Hiding:
    def __init__(self, p: Problem, schedule: list[Execution], budget: dict[str, int]) -> None:
        self.p, self.schedule, self.budget = p, schedule, budget
        self.load = loads(p, schedule)
        self.back = {step.node: step.needs for step in p.steps if step.kind == "back"}
        self.time = [0, 0]  # time[p]: before place p
        for execution in schedule:
            self.time.append(self.time[-1] + duration(p, execution))

    def can_be(self, arena: str, size: int, position: int) -> bool:
        load = self.load.setdefault(arena, [0] * (len(self.schedule) + 3))
        if arena in self.budget and load[position] + size > self.budget[arena]:
            return False
        load[position] += size
        return True

    def makes(self, place: int) -> list[int]:
        kind, index = self.schedule[place - 1]
        return self.p.outputs[index] if kind == "run" else [index] if kind == "in" else []

    def reads(self, place: int) -> list[int]:
        kind, index = self.schedule[place - 1]
        return {"run": lambda: self.p.inputs[index], "back": lambda: self.back[index], "out": lambda: [index]}.get(
            kind, list
        )()

    def changes(self, place: int, tensor: int) -> bool:
        """Whether the tensor is made or overwritten there."""
        kind, index = self.schedule[place - 1]
        return tensor in self.makes(place) or (kind == "run" and self.p.kills[index] == tensor)

    def latest(self) -> dict[int, int]:
        """Of every `in`, when it should begin."""
        found, following = {}, self.time[-1]
        for place in range(len(self.schedule), 0, -1):
            kind, tensor = self.schedule[place - 1]
            if kind == "in":
                following = max(min(self.time[place], following) - self.p.moves[tensor], 0)
                found[place] = following
        return found

    def as_early(self, arena: str, size: int, first: int, place: int) -> int:
        after = place - 1
        while after > first and self.can_be(arena, size, after):
            after -= 1
        return after

    def run(self) -> list[Execution]:
        p, end = self.p, len(self.schedule) + 1
        latest = self.latest()
        issues: dict[int, list[Execution]] = {}
        waits: dict[int, list[Execution]] = {}
        awaited: dict[int, int] = {}  # after which place the wait of an out stands
        free = previous = 0
        for place, (kind, tensor) in enumerate(self.schedule, 1):
            wait = place
            if kind == "out":
                made = max((q for q in range(1, place) if tensor in self.makes(q)), default=0)
                after = self.as_early(HOST, p.copies[tensor], made, place)
                free = max(free, self.time[after + 1]) + p.moves[tensor]
                until = next((q for q in range(place + 1, end) if self.changes(q, tensor)), end)
                while wait + 1 < until and self.time[wait + 1] < free:
                    if not self.can_be(p.arena[tensor], p.sizes[tensor], wait + 1):
                        break
                    wait += 1
                awaited[tensor] = wait
            elif kind == "in":
                had = (q for q in range(1, place) if tensor in self.makes(q) or tensor in self.reads(q))
                after = max(max(had, default=0), awaited[tensor], previous)
                while after + 1 < place and self.time[after + 2] <= latest[place]:
                    after += 1
                after = self.as_early(p.arena[tensor], p.sizes[tensor], after, place)
                previous = after
            else:
                continue
            issues.setdefault(after, []).append((kind, tensor))
            waits.setdefault(wait, []).append(("wait", tensor))
        found = []
        for place in range(end):
            if place and self.schedule[place - 1][0] not in TRANSFERS:
                found.append(self.schedule[place - 1])
            found += waits.get(place, []) + issues.get(place, [])
        return found


def hidden(p: Problem, schedule: list[Execution], budget: dict[str, int]) -> list[Execution]:
    """What the plan has: with transfers hidden if that is cheaper."""
    if not p.link or not p.link.overlaps or not any(kind in TRANSFERS for kind, _ in schedule):
        return schedule
    other = hide(p, schedule, budget)
    return other if added_cost(p, other) < added_cost(p, schedule) else schedule


def cost(p: Problem, schedule: list[Execution], budget: dict[str, int]) -> int:
    return added_cost(p, hidden(p, schedule, budget))


def swap(
    p: Problem,
    schedule: list[Execution],
    budget: dict[str, int],
    drop_useless: Callable[[Problem, list[Execution]], list[Execution]],
) -> list[Execution]:
    """Pages instead of making again, as long as that is cheaper."""
    base = set(places(p, schedule))
    size = {node: sum(p.sizes[t] for t in p.outputs[node]) for node in p.order}
    runs = [q for q in range(1, len(schedule) + 1) if q not in base and schedule[q - 1][0] == "run"]
    runs = [q for q in runs if size[schedule[q - 1][1]]]
    runs.sort(key=lambda q: (-Fraction(p.costs[schedule[q - 1][1]], size[schedule[q - 1][1]]), q))
    tries = SWAPPING_WORK // (len(schedule) + len(p.names))
    best = cost(p, schedule, budget)
    marks: list[int | None] = list(range(1, len(schedule) + 1))  # where an execution stood at first
    for number in runs[:tries]:
        if number not in marks:
            continue
        other, other_marks = _replaced(p, schedule, marks, marks.index(number))
        if other is None:
            continue
        kept = drop_useless(p, other)
        try:
            instances(p, kept)
        except AssertionError:
            continue
        if not fits(p, kept, budget):
            continue
        price = cost(p, kept, budget)
        if price < best:
            marks = _marks_of(kept, other, other_marks)
            schedule, best = kept, price
    return schedule


def _replaced(
    p: Problem, schedule: list[Execution], marks: list[int | None], at: int
) -> tuple[list[Execution] | None, list[int | None]]:
    """With transfers instead of the run; None if that cannot be."""
    back = {step.node: step.needs for step in p.steps if step.kind == "back"}

    def reads(execution: Execution, tensor: int) -> bool:
        kind, index = execution
        return tensor in (p.inputs[index] if kind == "run" else back[index] if kind == "back" else [index] * (kind == "out"))

    def makes(execution: Execution, tensor: int) -> bool:
        kind, index = execution
        return tensor in (p.outputs[index] if kind == "run" else [index] * (kind == "in"))

    def is_read(tensor: int) -> bool:
        for execution in schedule[at + 1 :]:
            if reads(execution, tensor):
                return True
            if makes(execution, tensor):
                return False
        return False

    wanted = [t for t in p.outputs[schedule[at][1]] if is_read(t)]
    outs: dict[int, list[int]] = {}
    for tensor in wanted:
        if not p.moves[tensor]:
            return None, []
        if ("out", tensor) in schedule:
            if schedule.index(("out", tensor)) > at:
                return None, []
            continue
        had = [q for q in range(at) if reads(schedule[q], tensor) or makes(schedule[q], tensor)]
        outs.setdefault(had[-1], []).append(tensor)
    found: list[Execution] = []
    kept: list[int | None] = []
    for q, execution in enumerate(schedule):
        new = [execution] if q != at else [("in", t) for t in wanted]
        kept += [marks[q]] if q != at else [None] * len(new)
        copied = [("out", t) for t in outs.get(q, [])]
        found += new + copied
        kept += [None] * len(copied)
    return found, kept


def _marks_of(shorter: list[Execution], longer: list[Execution], marks: list[int | None]) -> list[int | None]:
    """Marks of what is left, found from the end, as executions were left out."""
    found, at = [], len(longer) - 1
    for execution in reversed(shorter):
        while longer[at] != execution:
            at -= 1
        found.append(marks[at])
        at -= 1
    return found[::-1]
