"""Stores of format 2 that are as large as one likes and take no room: written from docs/format.md and
docs/spec/04e-format-2.md, with holes where everything is 0. Of the hashes only those that opening checks are
right: read such a store with `--verify none`."""

import struct
from pathlib import Path
from typing import Any

from reference import blake3, cbor

PAGE, HEADER_SIZE, ENTRY_SIZE = 4096, 64, 64
TABLE_ALIGNMENT = 64
FEW = 1000  # rows of the table of children
LINKED = 7  # of the parents' last rows have children
STATISTICS = {"count": 0, "mean": 0.0, "std": 1.0}
NO_CATEGORIES = {"category_count": 0, "category_start": 0}

Pieces = list[tuple[int, bytes]]  # what is not 0 of a section, by its place


def _column(name: str, stype: int) -> dict[str, Any]:
    return {"name": name, "description": "", "known_at": None, "nulls": 0, "not_finite": 0, "stype": stype,
            **STATISTICS, **NO_CATEGORIES}  # fmt: skip


def _task(name: str, splits: list[int], is_cell: bool) -> dict[str, Any]:
    return {
        "name": name, "anchor_table": 2, "column": 2 if is_cell else 3, "target_column": "y", "stype": 1 if is_cell else 3,
        "is_cell": is_cell, "splits": splits, "has_times": False, "dropped": 0, "drop_columns": [], "drop_names": [],
        "hidden_edges": [], **STATISTICS, **NO_CATEGORIES,
    }  # fmt: skip


def _metadata(rows: int, splits: list[int], more: dict[str, Any]) -> dict[str, Any]:
    """Tables `a` and `b` of `rows` rows, whose children are in `c`; a derived task `seen` and a cell task `y` of c."""
    tables = [{"name": name, "rows": count, "columns": 1, "primary_key": [], "temporal_column": None}
              for name, count in (("a", rows), ("b", rows), ("c", FEW))]  # fmt: skip
    edges = [{"name": name, "table": 2, "parent_table": parent, "column": None, "edges": FEW, "dangling": 0,
              "known_at": None, "has_times": False} for name, parent in (("a_id", 0), ("b_id", 1))]  # fmt: skip
    return {
        "name": "sparse", "rows": 2 * rows + FEW, "texts": 0, "categories": 0, "statistics_until": None,
        "embedding": {"dim": 0, "provider": "none"}, "timestamps": STATISTICS, "tables": tables, "edges": edges,
        "columns": [_column("x", 3), _column("x", 3), _column("y", 1)],
        "tasks": [{**_task("seen", splits, False), **more}, _task("y", [FEW, 0, 0], True)],
    }  # fmt: skip


def _parent(rows: int, child: int, edge: int) -> int:
    return rows - 1 - (child * (edge + 2) + child // 10) % LINKED


def _up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


def write(path: Path, rows: int, splits: list[int], version: int = 2, more: dict[str, Any] | None = None) -> None:
    """A store of 2 * rows + FEW rows and a task of sum(splits) seeds. The last seeds of each split are about one row
    of c after the other, all before them about row 0. With another version, or if the metadata say more of the task,
    it is not a sound one."""
    seeds = sum(splits)
    records = b"".join(struct.pack("<fIIB3x", child / 8, *(_parent(rows, child, edge) for edge in (0, 1)), 0)
                       for child in range(FEW))  # fmt: skip
    first_of_c = _up(_up(rows, TABLE_ALIGNMENT) + rows, TABLE_ALIGNMENT)
    starts: Pieces = []
    children = []
    for edge in (0, 1):
        by_parent = [[child for child in range(FEW) if _parent(rows, child, edge) == rows - LINKED + i] for i in range(LINKED)]
        ends = [sum(map(len, by_parent[: i + 1])) for i in range(LINKED)]
        starts.append((4 * (edge * (rows + 1) + rows - LINKED + 1), struct.pack(f"<{LINKED}I", *ends)))
        children += [child for found in by_parent for child in found]
    seed_rows: Pieces = []
    for split in range(3):
        last, end = min(FEW, splits[split]), sum(splits[: split + 1])
        seed_rows.append((4 * (end - last), struct.pack(f"<{last}I", *range(FEW - last, FEW))))
    seed_rows.append((4 * seeds, struct.pack(f"<{FEW}I", *range(FEW))))
    targets: Pieces = [(8 * (seeds - 8), struct.pack("<8Q", *[0, 1] * 4))]
    bits = _up(seeds, 64) // 8
    sections: list[tuple[int, Pieces]] = [
        (0, [(0, cbor.encode(_metadata(rows, splits, more or {})))]),
        (first_of_c + len(records), [(first_of_c, records)]),
        (8 * (rows + 1), starts),
        (0, [(0, struct.pack(f"<{2 * FEW}I", *children))]),
        (0, []),
        (0, seed_rows),
        (0, []),
        (8 * seeds, targets),
        (bits + _up(FEW, 64) // 8, []),
        (8, []), (0, []), (8, []), (0, []), (0, []), (0, []), (0, []),
    ]  # fmt: skip
    _write_file(path, sections, version)


def _write_file(path: Path, sections: list[tuple[int, Pieces]], version: int) -> None:
    entries, offset = b"", PAGE
    with path.open("wb") as file:
        for kind, (least, pieces) in enumerate(sections, 1):
            size = max([least, *(place + len(piece) for place, piece in pieces)])
            for place, piece in pieces:
                file.seek(offset + place)
                file.write(piece)
            checked = blake3.plain_hash(pieces[0][1]) if kind == 1 else bytes(32)
            entries += struct.pack("<IIQQ32sQ", kind, 0, offset, size, checked, 0)
            offset = _up(offset + size, PAGE)
        file.truncate(offset)
        header = struct.pack("<8sIIQQ", bytes.fromhex("89574549520d0a1a"), version, len(sections), offset, 0)
        root = blake3.plain_hash(header + bytes(32) + entries)
        file.seek(0)
        file.write(header + root + entries)
