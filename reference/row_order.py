"""Row order: reverse Cuthill-McKee, which brings rows that are joined by foreign keys close together.

Follows "Permutations" in the section "Tensors" of the batch specification. The graph is that of the foreign
keys between the rows of one sequence, made symmetric, without loops. The two orders differ in the key by which
rows are preferred: the degree in that graph, or the number of children.
"""

from collections import deque
from collections.abc import Iterable

Edge = tuple[int, int]  # a child and its parent, both by their number in the sequence


def out_order(row_count: int, foreign_keys: Iterable[Edge]) -> list[int]:
    """The rows in the order of `out_perm`."""
    neighbours = _neighbours(row_count, foreign_keys)
    return _reverse_cuthill_mckee(neighbours, [len(near) for near in neighbours])


def in_order(row_count: int, foreign_keys: Iterable[Edge]) -> list[int]:
    """The rows in the order of `in_perm`. A row that refers to itself is its own child."""
    child_count = [0] * row_count
    for _, parent in set(foreign_keys):
        child_count[parent] += 1
    return _reverse_cuthill_mckee(_neighbours(row_count, foreign_keys), child_count)


def _neighbours(row_count: int, foreign_keys: Iterable[Edge]) -> list[set[int]]:
    neighbours: list[set[int]] = [set() for _ in range(row_count)]
    for child, parent in foreign_keys:
        if child != parent:
            neighbours[child].add(parent)
            neighbours[parent].add(child)
    return neighbours


def _reverse_cuthill_mckee(neighbours: list[set[int]], key: list[int]) -> list[int]:
    by_preference = sorted(range(len(neighbours)), key=lambda row: (key[row], row))
    seen = [False] * len(neighbours)
    order: list[int] = []
    for start in by_preference:
        if seen[start]:
            continue
        seen[start] = True
        queue = deque([start])
        while queue:
            row = queue.popleft()
            order.append(row)
            for near in sorted(neighbours[row], key=lambda other: (key[other], other)):
                if not seen[near]:
                    seen[near] = True
                    queue.append(near)
    return order[::-1]
