"""Row order: brings rows that are joined by foreign keys close together.

Follows "Permutations" in the section "Tensors" of the batch specification: reverse Cuthill-McKee over the graph
of the foreign keys between the rows of one sequence, made symmetric, without loops. The two orders differ in the
key by which rows are preferred: the degree in that graph, or the number of children.

`best_orders` follows docs/spec/05-row-order.md: of four orders, the one that uses the fewest tiles.
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


# ---- The best of four orders -------------------------------------------------------------------------------

TILE = 64
HUB_CHILDREN = 5


def best_orders(sizes: list[int], foreign_keys: Iterable[Edge]) -> tuple[list[int], list[int]]:
    """The rows in the order of `out_perm` and of `in_perm` with `row_order` "best"; a row's size is the number
    of its cells."""
    edges = sorted(set(foreign_keys))
    rows = range(len(sizes))
    out_pairs = [(row, row) for row in rows] + edges
    in_pairs = [(parent, child) for child, parent in edges]
    plain = [list(rows), _groups(len(sizes), edges), _parents_first(len(sizes), edges)]
    chosen = []
    for rcm, pairs in ((out_order(len(sizes), edges), out_pairs), (in_order(len(sizes), edges), in_pairs)):
        orders = [plain[0], rcm, plain[1], plain[2]]
        chosen.append(min(orders, key=lambda order: tiles_in_use(sizes, order, pairs)))
    return chosen[0], chosen[1]


def tiles_in_use(sizes: list[int], order: list[int], pairs: Iterable[Edge]) -> int:
    """How many tiles have a cell of some pair's first row against a cell of its second row."""
    tiles_of: list[range] = [range(0)] * len(sizes)
    place = 0
    for row in order:
        if sizes[row] > 0:
            tiles_of[row] = range(place // TILE, (place + sizes[row] - 1) // TILE + 1)
        place += sizes[row]
    return len({(s, t) for first, second in pairs for s in tiles_of[first] for t in tiles_of[second]})


def _children(row_count: int, edges: list[Edge]) -> list[int]:
    children = [0] * row_count
    for _, parent in edges:
        children[parent] += 1
    return children


def _groups(row_count: int, edges: list[Edge]) -> list[int]:
    children = _children(row_count, edges)
    hubs = [row for row in range(row_count) if children[row] >= HUB_CHILDREN]
    queue = deque(sorted(hubs, key=lambda row: (-children[row], row)))
    neighbours = _neighbours(row_count, edges)
    order: list[int] = []
    seen = [children[row] >= HUB_CHILDREN for row in range(row_count)]
    while len(order) < row_count:
        if not queue:
            start = seen.index(False)
            seen[start] = True
            queue.append(start)
        row = queue.popleft()
        order.append(row)
        for near in sorted(neighbours[row]):
            if not seen[near]:
                seen[near] = True
                queue.append(near)
    return order


def _parents_first(row_count: int, edges: list[Edge]) -> list[int]:
    children = _children(row_count, edges)
    parents = sorted((row for row in range(row_count) if children[row]), key=lambda row: (-children[row], row))
    place = {row: number for number, row in enumerate(parents)}
    last = [-1] * row_count
    for child, parent in edges:
        last[child] = max(last[child], place[parent])
    leaves = [row for row in range(row_count) if not children[row]]
    return parents + sorted(leaves, key=lambda row: (last[row] if last[row] >= 0 else row_count, row))
