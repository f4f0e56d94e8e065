"""Link tasks: which destinations a source will be linked to, and what else it might have been.

Follows the specification of links. `Destinations` are the rows of the destination table in the order in which they
came to be; `make_link_task` makes the pairs of a query; `Group` is what a sample becomes in a batch: the rows of
its source, its destination and its negatives, which are drawn without state.
"""

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .manifest import Links
from .population import seeded_place
from .rows import Table

if TYPE_CHECKING:
    from .store import EdgeType
    from .tasks import Seed, Task

DOMAIN_LINK = 0x6C696E6B
DOMAIN_POPULARITY = 0x706F7075
SOURCE, DESTINATION, NEGATIVE = "source", "destination", "negative"


@dataclass
class Destinations:
    """Places, and the references to them; with what was left out of the pairs."""

    table: Table
    edge: "EdgeType | None"
    late: int = 0
    repeated: int = 0
    rows: list[int] = field(default_factory=list)  # by place
    times: list[int] = field(default_factory=list)
    places: dict[int, int] = field(default_factory=dict)
    references: list[tuple[int, int, int]] = field(default_factory=list)  # (time, row that refers, place)

    def __post_init__(self) -> None:
        rows = range(self.table.row_start, self.table.row_start + len(self.table.rows))
        order = sorted((self.table.row_time(row), row) for row in rows)
        self.times = [time for time, _ in order]
        self.rows = [row for _, row in order]
        self.places = {row: place for place, row in enumerate(self.rows)}
        if self.edge is not None:
            self.references = sorted(
                (time, child, self.places[parent])
                for parent, children in self.edge.children.items()
                for time, child in children
            )

    def existing(self, time: int) -> int:
        """How many there were by then."""
        return bisect_right(self.times, time)

    def known_references(self, time: int) -> list[int]:
        return [place for known, _, place in self.references if known <= time]


def pairs_once(destinations: Destinations, seeds: "list[Seed]") -> "list[Seed]":
    """Pairs in order, each once, those left out whose destination was not there yet."""
    there = [seed for seed in seeds if destinations.times[seed.place] <= seed.time]
    destinations.late = len(seeds) - len(there)
    once = {(seed.row, seed.time, seed.place): seed for seed in there}
    destinations.repeated = len(there) - len(once)
    return [once[key] for key in sorted(once)]


@dataclass
class Member:
    """A sequence of a group: a role, and the anchor row, None where there is nothing to draw."""

    role: str
    row: int | None
    target: bool | None


def group_of(
    task: "Task", seeds: "list[Seed]", sample_index: int, links: Links, is_train: bool, walk_seed: bytes, position: int
) -> list[Member]:
    """The members of a sample's group, in order. `seeds` are those of its split."""
    destinations = task.destinations
    assert destinations is not None
    seed = seeds[sample_index]
    of_list = [i for i, other in enumerate(seeds) if (other.row, other.time) == (seed.row, seed.time)]
    positives = {seeds[i].place for i in of_list}
    candidates = [place for place in range(destinations.existing(seed.time)) if place not in positives]
    wanted = links.negatives if is_train else links.candidates
    number = position if is_train else of_list[0]
    taken: list[int] = []
    if links.by == "popularity":
        known = destinations.known_references(seed.time)
        for f in range(min(len(known), 16 * wanted + 64)):
            if len(taken) == wanted:
                break
            place = known[seeded_place(walk_seed, DOMAIN_POPULARITY, number, 0, len(known), f)]
            if place in candidates and place not in taken:
                taken.append(place)
    for k in range(len(candidates)):
        if len(taken) == wanted:
            break
        place = candidates[seeded_place(walk_seed, DOMAIN_LINK, number, 0, len(candidates), k)]
        if place not in taken:
            taken.append(place)
    negatives: list[int | None] = [destinations.rows[place] for place in taken]
    negatives += [None] * (wanted - len(taken))
    members = [Member(SOURCE, seed.row, None), Member(DESTINATION, destinations.rows[seed.place], True)]
    return members + [Member(NEGATIVE, row, False) for row in negatives]
