"""A reader of store files, written from docs/format.md alone.

It shares no code with the C library, so that what it finds in a file shows that the document describes the
file. It reads everything into Python values, and is meant for small stores.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reference import blake3, cbor

MAGIC = bytes.fromhex("89574549520d0a1a")
PAGE = 4096
HEADER_SIZE, ENTRY_SIZE = 64, 64
TABLE_ALIGNMENT, TASK_BITS_ALIGNMENT = 64, 8
BLOCK_SIZE = 65536
KEY_ALIGNMENT, KEYS_A_BLOCK = 8, 64
LABEL_ALIGNMENT = 8
NULL_TIME, NO_ROW = -(2**63), 2**32 - 1
SEES_EVERYTHING = 2**63 - 1
SECTIONS = (
    "metadata", "rows", "child_starts", "child_rows", "child_times", "seed_rows", "seed_times",
    "seed_targets", "seed_bits", "category_offsets", "category_bytes", "text_offsets", "text_bytes",
    "column_embeddings", "category_embeddings", "text_embeddings", "keys", "labels",
)  # fmt: skip
IDENTIFIER, NUMERICAL, TIMESTAMP, BOOLEAN, CATEGORICAL, TEXT = range(6)
SPLITS = ("train", "val", "test")


class Broken(Exception):
    """The file is not what the document says."""


def require(holds: bool, what: str) -> None:
    if not holds:
        raise Broken(what)


def rounded_up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


class Part:
    """A section that is taken piece by piece, in order; at the end nothing may be left."""

    def __init__(self, name: str, data: bytes) -> None:
        self.name, self.data, self.at = name, data, 0

    def take(self, size: int) -> bytes:
        require(self.at + size <= len(self.data), f"{self.name} is too short")
        piece = self.data[self.at : self.at + size]
        self.at += size
        return piece

    def numbers(self, count: int, code: str) -> list[int]:
        return list(struct.unpack(f"<{count}{code}", self.take(count * struct.calcsize(f"<{code}"))))

    def align(self, multiple: int) -> None:
        padding = self.take(rounded_up(self.at, multiple) - self.at)
        require(not any(padding), f"{self.name} has padding that is not 0")

    def finish(self) -> None:
        require(self.at == len(self.data), f"{self.name} has {len(self.data) - self.at} bytes too many")


def bit(data: bytes, number: int) -> bool:
    return bool(data[number // 8] >> (number % 8) & 1)


def _is_whole(data: bytes) -> bool:
    """Whether bytes are one CBOR item; an item is no beginning of another."""
    try:
        cbor.decode(data)
    except Exception:  # whatever is missing
        return False
    return True


class StoreFile:
    """A store file in memory: its metadata, and each part as Python values."""

    def __init__(self, path: str | Path) -> None:
        self.bytes = Path(path).read_bytes()
        self.sections = self._read_frame()
        self.metadata: dict[str, Any] = cbor.decode(self.sections["metadata"])
        self._number_tables()
        self.rows, self.parents, self.stored_times = self._read_rows()
        self.children = self._read_children()
        self.seeds, self.held_out = self._read_seeds()
        self.categories = self._read_texts("category", self.metadata["categories"])
        self.texts = self._read_texts("text", self.metadata["texts"])
        self.keys = self._read_keys()
        self.labels = self._read_labels()

    # ---- The frame -----------------------------------------------------------------------------------------

    def _read_frame(self) -> dict[str, bytes]:
        magic, version, count, size, zero = struct.unpack_from("<8sIIQQ", self.bytes)
        require((magic, zero) == (MAGIC, 0) and version in (1, 2), "the header is wrong")
        self.format = version
        require(count in (16, 17, 18), "the number of sections is wrong")
        end_of_table = HEADER_SIZE + count * ENTRY_SIZE
        self.store_hash = self.bytes[32:64]
        hashed = self.bytes[:32] + bytes(32) + self.bytes[64:end_of_table]
        require(blake3.plain_hash(hashed) == self.store_hash, "the root hash is wrong")
        require(not any(self.bytes[end_of_table:PAGE]), "the first page has bytes after the table")
        sections, expected_offset, values = {}, PAGE, []
        for number, name in enumerate(SECTIONS[:count]):
            entry = self.bytes[HEADER_SIZE + number * ENTRY_SIZE :][:ENTRY_SIZE]
            kind, zero_1, offset, section_size, section_hash, zero_2 = struct.unpack("<IIQQ32sQ", entry)
            require((kind, zero_1, zero_2) == (number + 1, 0, 0), f"the entry of {name} is wrong")
            require(offset == expected_offset, f"{name} is not where it should be")
            sections[name] = self.bytes[offset : offset + section_size]
            if section_size > BLOCK_SIZE:
                values += blake3.block_values(sections[name])
                found = blake3.hash_of_blocks(values[-rounded_up(section_size, BLOCK_SIZE) // BLOCK_SIZE :])
            else:
                found = blake3.plain_hash(sections[name])
            require(found == section_hash, f"the hash of {name} is wrong")
            expected_offset = rounded_up(offset + section_size, PAGE)
            require(not any(self.bytes[offset + section_size : expected_offset]), f"bytes follow {name}")
        require(expected_offset == size, "the file size is wrong")
        tail = struct.pack("<8sIIQ40x", b"WEIRBLK\n", 1, BLOCK_SIZE, len(values)) + b"".join(values) if values else b""
        require(self.bytes[size:] == tail.ljust(rounded_up(len(tail), PAGE), b"\0"), "the tail is wrong")
        return sections

    def _part(self, name: str) -> Part:
        return Part(name, self.sections[name])

    def _number_tables(self) -> None:
        """Where tables' rows and columns begin, which the file leaves to be counted."""
        row_start = column_start = 0
        for table in self.metadata["tables"]:
            table["row_start"], table["column_start"] = row_start, column_start
            table["first_number"] = row_start if self.format == 1 else 0
            row_start += table["rows"]
            column_start += table["columns"]
        require(row_start == self.metadata["rows"], "the tables' rows do not add up")
        require(column_start == len(self.metadata["columns"]), "the tables' columns do not add up")

    def _row_of(self, table: int, number: int) -> int:
        """The RowIdx of a row, by its number in the file."""
        described = self.metadata["tables"][table]
        place = number - described["first_number"]
        require(place in range(described["rows"]), f"{described['name']} has no row with the number {number}")
        return described["row_start"] + place

    # ---- Rows ----------------------------------------------------------------------------------------------

    def _columns_of(self, table: dict[str, Any]) -> list[dict[str, Any]]:
        return self.metadata["columns"][table["column_start"] :][: table["columns"]]

    def _read_rows(self) -> tuple[list[list[Any]], list[dict[int, int]], list[list[int | None]]]:
        """Every row's cells by RowIdx (True for an identifier, None where null), each edge type's parents by
        child, and every row's stored times."""
        part = self._part("rows")
        rows: list[list[Any]] = []
        stored_times: list[list[int | None]] = []
        parents: list[dict[int, int]] = [{} for _ in self.metadata["edges"]]
        for number, table in enumerate(self.metadata["tables"]):
            part.align(TABLE_ALIGNMENT)
            edges = [e for e, edge in enumerate(self.metadata["edges"]) if edge["table"] == number]
            for _ in range(table["rows"]):
                time_count = len(table.get("times", []))
                cells, found_parents, times = self._read_record(
                    part, self._columns_of(table), len(edges), time_count
                )
                stored_times.append([None if time == NULL_TIME else time for time in times])
                for edge, parent in zip(edges, found_parents):
                    if parent != NO_ROW:
                        parents[edge][len(rows)] = self._row_of(self.metadata["edges"][edge]["parent_table"], parent)
                rows.append(cells)
        part.finish()
        return rows, parents, stored_times

    @staticmethod
    def _read_record(
        part: Part, columns: list[dict[str, Any]], edge_count: int, time_count: int
    ) -> tuple[list[Any], list[int], list[int]]:
        start = part.at
        stypes = [column["stype"] for column in columns]
        values: dict[int, Any] = {c: True for c, stype in enumerate(stypes) if stype == IDENTIFIER}
        for c, stype in enumerate(stypes):
            if stype == TIMESTAMP:
                (values[c],) = part.numbers(1, "q")
        times = part.numbers(time_count, "q")
        for c, stype in enumerate(stypes):
            if stype in (NUMERICAL, CATEGORICAL, TEXT):
                (values[c],) = part.numbers(1, "f" if stype == NUMERICAL else "I")
        parents = part.numbers(edge_count, "I")
        booleans = [c for c, stype in enumerate(stypes) if stype == BOOLEAN]
        bits = part.take(rounded_up(len(columns) + len(booleans), 8) // 8)
        for place, c in enumerate(booleans):
            values[c] = bit(bits, len(columns) + place)
        for c, stype in enumerate(stypes):
            if bit(bits, c):
                expected = {IDENTIFIER: True, TIMESTAMP: NULL_TIME}.get(stype, 0)
                require(values[c] == expected, "a null cell has a value")
                values[c] = None
        has_8_bytes = TIMESTAMP in stypes or time_count > 0
        has_4_bytes = edge_count > 0 or any(stype in (NUMERICAL, CATEGORICAL, TEXT) for stype in stypes)
        alignment = 8 if has_8_bytes else 4 if has_4_bytes else 1
        padding = part.take(rounded_up(part.at - start, alignment) - (part.at - start))
        require(not any(padding), "a record's padding is not 0")
        return [values[c] for c in range(len(columns))], parents, times

    def row_time(self, row: int) -> int:
        table = next(t for t in self.metadata["tables"] if t["row_start"] <= row < t["row_start"] + t["rows"])
        if "time" in table:
            time = self.stored_times[row][table["time"]]
            return NULL_TIME if time is None else time
        if table["temporal_column"] is None:
            return NULL_TIME
        time = self.rows[row][table["temporal_column"] - table["column_start"]]
        return NULL_TIME if time is None else time

    # ---- Edges ---------------------------------------------------------------------------------------------

    def _read_children(self) -> list[dict[int, list[tuple[int, int]]]]:
        """Of each edge type the parents that have children, each with (edge time, child) in stored order."""
        starts, rows, times = self._part("child_starts"), self._part("child_rows"), self._part("child_times")
        all_children = []
        for edge in self.metadata["edges"]:
            parent_table = self.metadata["tables"][edge["parent_table"]]
            places = starts.numbers(parent_table["rows"] + 1, "I")
            require(places[0] == 0 and places[-1] == edge["edges"], "child_starts do not span the edges")
            found_rows = [self._row_of(edge["table"], number) for number in rows.numbers(edge["edges"], "I")]
            found_times = [NULL_TIME] * edge["edges"]
            if edge["has_times"]:
                found_times = times.numbers(edge["edges"], "q")
                require(set(found_times) != {NULL_TIME}, "times are kept that say nothing")
            pairs = list(zip(found_times, found_rows))
            all_children.append(
                {
                    parent_table["row_start"] + i: pairs[places[i] : places[i + 1]]
                    for i in range(parent_table["rows"])
                    if places[i] < places[i + 1]
                }
            )
        for part in (starts, rows, times):
            part.finish()
        return all_children

    # ---- Seeds ---------------------------------------------------------------------------------------------

    def _read_seeds(self) -> tuple[list[list[tuple[int, int, Any, str]]], list[set[int]]]:
        """Of each task the seeds (row, time, target, split) as stored, and a cell task's held-out rows."""
        parts = {name: self._part(name) for name in ("seed_rows", "seed_times", "seed_targets", "seed_bits")}
        all_seeds, all_held_out = [], []
        for task in self.metadata["tasks"]:
            count = sum(task["splits"])
            rows = [self._row_of(task["anchor_table"], number) for number in parts["seed_rows"].numbers(count, "I")]
            times = parts["seed_times"].numbers(count, "q") if task["has_times"] else None
            raw_targets = [] if task["is_cell"] else [parts["seed_targets"].take(8) for _ in range(count)]
            task["weights"] = parts["seed_targets"].numbers(count, "d") if "weight_column" in task else None
            anchor = self.metadata["tables"][task["anchor_table"]]
            bit_count = anchor["rows"] if task["is_cell"] else count
            bits = parts["seed_bits"].take(rounded_up(bit_count, 8 * TASK_BITS_ALIGNMENT) // 8)
            splits = [name for name, size in zip(SPLITS, task["splits"]) for _ in range(size)]
            seeds = []
            for i, row in enumerate(rows):
                if task["is_cell"]:
                    target = self.rows[row][task["column"] - anchor["column_start"]]
                else:
                    target = None if bit(bits, i) else self._target(raw_targets[i], task["stype"])
                    require(not bit(bits, i) or not any(raw_targets[i]), "a null target has a value")
                seeds.append((row, times[i] if times else self._time_of_anchor(row), target, splits[i]))
            all_seeds.append(seeds)
            held_out = [i for i in range(anchor["rows"]) if task["is_cell"] and bit(bits, i)]
            all_held_out.append({anchor["row_start"] + i for i in held_out})
        for part in parts.values():
            part.finish()
        return all_seeds, all_held_out

    def _time_of_anchor(self, row: int) -> int:
        time = self.row_time(row)
        return SEES_EVERYTHING if time == NULL_TIME else time

    @staticmethod
    def _target(raw: bytes, stype: int) -> Any:
        if stype == NUMERICAL:
            require(not any(raw[4:]), "a target has bytes beyond its float")
            return struct.unpack_from("<f", raw)[0]
        (number,) = struct.unpack("<q", raw)
        return bool(number) if stype == BOOLEAN else number

    # ---- Keys ----------------------------------------------------------------------------------------------

    def _read_keys(self) -> dict[str, list[Any]]:
        """The rows' keys by table, of the tables that keep them."""
        found: dict[str, list[Any]] = {}
        kept = [table for table in self.metadata["tables"] if "keys" in table]
        if "labels" not in self.sections or kept:
            require(bool(kept) == ("keys" in self.sections), "the section of keys is there for nothing, or missing")
        part = Part("keys", self.sections.get("keys", b""))
        for table in kept:
            part.align(KEY_ALIGNMENT)
            form, rows = table["keys"], table["rows"]
            if form["form"] == "range":
                found[table["name"]] = list(range(form["first"], form["first"] + rows))
            elif form["form"] == "packed":
                code = {1: "B", 2: "H", 4: "I", 8: "Q"}[form["width"]]
                found[table["name"]] = [form["first"] + more for more in part.numbers(rows, code)]
            else:
                found[table["name"]] = self._read_key_items(part, form["size"], rows)
        part.finish()
        return found

    @staticmethod
    def _read_key_items(part: Part, size: int, rows: int) -> list[Any]:
        offsets = part.numbers(-(-rows // KEYS_A_BLOCK) + 1, "Q")
        data, keys, at = part.take(size), [], 0
        for row in range(rows):
            require(row % KEYS_A_BLOCK != 0 or offsets[row // KEYS_A_BLOCK] == at, "a key is not where it should be")
            end = next(end for end in range(at + 1, size + 1) if _is_whole(data[at:end]))
            keys.append(cbor.decode(data[at:end]))
            at = end
        require(at == size and offsets[-1] == size, "bytes follow the last key")
        return keys

    # ---- Labels --------------------------------------------------------------------------------------------

    def _read_labels(self) -> list[list[list[tuple[int, int, int]]]]:
        """Of each task whose labels have a time, two lists (of all splits, of train) of (anchor row, when the label
        is known, task row); of any other, none."""
        found: list[list[list[tuple[int, int, int]]]] = []
        has_labels = any("labels" in task for task in self.metadata["tasks"])
        require(has_labels == ("labels" in self.sections), "the section of labels is there for nothing, or missing")
        part = Part("labels", self.sections.get("labels", b""))
        for task in self.metadata["tasks"]:
            anchor = self.metadata["tables"][task["anchor_table"]]
            found.append([])
            for count in task.get("labels", []):
                part.align(LABEL_ALIGNMENT)
                times = part.numbers(count, "q")
                starts = part.numbers(anchor["rows"] + 1, "I")
                moved = 0 if self.format == 1 else self.metadata["rows"]  # from a task row's number to its RowIdx
                rows = [number + moved for number in part.numbers(count, "I")]
                require(starts[0] == 0 and starts[-1] == count, "the labels' starts do not span them")
                anchors = [a for a in range(anchor["rows"]) for _ in range(starts[a], starts[a + 1])]
                found[-1].append([(anchor["row_start"] + a, t, r) for a, t, r in zip(anchors, times, rows)])
        part.finish()
        return found

    # ---- Texts and embeddings ------------------------------------------------------------------------------

    def _read_texts(self, kind: str, count: int) -> list[str]:
        offsets_part = self._part(f"{kind}_offsets")
        offsets = offsets_part.numbers(count + 1, "Q")
        offsets_part.finish()
        data = self.sections[f"{kind}_bytes"]
        require(offsets[0] == 0 and offsets[-1] == len(data), f"{kind}_offsets do not span the bytes")
        return [data[start:end].decode("utf-8") for start, end in zip(offsets, offsets[1:])]

    def embeddings(self, kind: str) -> Iterator[bytes]:
        """The float16 vectors of "column", "category" or "text", one after the other."""
        data, size = self.sections[f"{kind}_embeddings"], 2 * self.metadata["embedding"]["dim"]
        return (data[start : start + size] for start in range(0, len(data), size or 1))
