"""What a store file holds against what the reference says it must hold.

`differences` looks at everything but the frame, which StoreFile checks itself: metadata, every cell, parents,
children with their times, seeds with targets and splits, held-out rows, categories, texts and embeddings. A
difference is a text that names the place and both values; no differences is an empty list.
"""

import struct
from typing import Any

from reference.labels import TaskRows
from reference.moments import normalise
from reference.rows import Table
from reference.schema import SPLITS, STYPES
from reference.store import Store, kept_keys, stored_times
from reference.tasks import Task

from .store_file import StoreFile

MOST_DIFFERENCES = 20


def differences(file: StoreFile, store: Store) -> list[str]:
    found: list[str] = []
    for place, in_file, expected in _pairs(file, store):
        if not _same(in_file, expected):
            found.append(f"{place}: the file has {in_file!r}, the reference {expected!r}")
        if len(found) == MOST_DIFFERENCES:
            break
    return found


def _same(left: Any, right: Any) -> bool:
    """Equal, floats bit for bit."""
    if isinstance(left, float) and isinstance(right, float):
        return struct.pack("<d", left) == struct.pack("<d", right)
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(_same(a, b) for a, b in zip(left, right))
    return type(left) is type(right) and left == right


def _pairs(file: StoreFile, store: Store):
    """(place, what is in the file, what must be there)."""
    yield from _metadata_pairs(file, store)
    yield from _row_pairs(file, store)
    for number, edge_type in enumerate(store.edges):
        name = f"edge {edge_type.table.name}.{edge_type.name}"
        yield f"{name}: parents", sorted(file.parents[number].items()), sorted(edge_type.parents.items())
        yield f"{name}: children", sorted(file.children[number].items()), sorted(edge_type.children.items())
    for number, task in enumerate(store.tasks):
        yield from _seed_pairs(file, store, number, task)
    yield "categories", file.categories, [value for _, value in store.categories]
    yield "texts", file.texts, store.texts
    for kind, texts in (
        ("column", store.column_texts()),
        ("category", store.category_texts()),
        ("text", store.texts),
    ):
        yield f"{kind} embeddings", list(file.embeddings(kind)), store.embeddings(texts)


# ---- Metadata ----------------------------------------------------------------------------------------------


def _metadata_pairs(file: StoreFile, store: Store):
    metadata = file.metadata
    info = store.info()
    for key in ("name", "rows", "statistics_until"):
        yield f"metadata {key}", metadata[key], info[key]
    yield "metadata timestamps", sorted(metadata["timestamps"].items()), sorted(info["timestamps"].items())
    yield "metadata embedding", sorted(metadata["embedding"].items()), sorted(info["embedding"].items())
    columns = {(table.name, column.name): column.column_idx for table, column in store.all_columns()}
    for in_file, table in zip(metadata["tables"], store.tables, strict=True):
        place = f"table {table.name}"
        yield place, (in_file["name"], in_file["primary_key"]), (table.name, table.primary_key)
        temporal_column = columns.get((table.name, table.temporal_column))
        yield f"{place} temporal", in_file["temporal_column"], temporal_column
        yield f"{place} keys", in_file.get("keys"), kept_keys(table)
        if table.keeps_keys:
            expected_keys = [table.split_key(table.row_start + i) for i in range(len(table.rows))]
            yield f"{place} key values", file.keys[table.name], expected_keys
        yield from _time_pairs(file, in_file, table)
    for in_file, column, (table, reference) in zip(
        metadata["columns"], info["columns"], store.all_columns(), strict=True
    ):
        place = f"column {table.name}.{reference.name}"
        yield f"{place} name", in_file["name"], reference.name
        yield f"{place} stype", in_file["stype"], STYPES.index(reference.stype)
        yield f"{place} description", in_file["description"], reference.schema.description
        yield f"{place} known_at", in_file["known_at"], columns.get((table.name, column["known_at"]))
        known_at = [reference.schema.known_at] if reference.schema.known_at is not None else []
        yield f"{place} known_time", in_file.get("known_time"), _stored_time(table, known_at)
        yield f"{place} nulls", in_file["nulls"], column["nulls"]
        for key in ("mean", "std", "count", "not_finite"):
            if key in column:
                yield f"{place} {key}", in_file[key], column[key]
        if reference.categories is not None:
            block = (in_file["category_start"], in_file["category_count"])
            yield f"{place} categories", block, (reference.category_start, len(reference.categories))
    table_numbers = {table.name: number for number, table in enumerate(store.tables)}
    for in_file, edge_type, edge in zip(metadata["edges"], store.edges, info["edges"], strict=True):
        place, key = f"edge {edge_type.table.name}.{edge_type.name}", edge_type.key
        expected = {
            "name": edge_type.name,
            "table": table_numbers[edge_type.table.name],
            "parent_table": table_numbers[edge_type.parent_table.name],
            "column": columns.get((edge_type.table.name, key.columns[0])) if len(key.columns) == 1 else None,
            "known_at": columns.get((edge_type.table.name, edge["known_at"])),
            "edges": len(edge_type.parents),
            "dangling": edge_type.dangling,
        }
        for name, value in expected.items():
            yield f"{place} {name}", in_file[name], value
        yield f"{place} columns", in_file.get("columns", [in_file["name"]]), key.columns
        yield f"{place} known_time", in_file.get("known_time"), _stored_time(edge_type.table, key.known_at)
    yield "number of tasks", len(metadata["tasks"]), len(store.tasks)


def _stored_time(table: Table, known_at: list[tuple[str, ...]]) -> int | None:
    """The number of a time that is not a column of the table."""
    times = stored_times(table)
    return times.index(known_at) if known_at in times else None


def _time_pairs(file: StoreFile, in_file: Any, table: Table):
    place, times = f"table {table.name}", stored_times(table)
    found = in_file.get("times")
    yield f"{place} times", found and [time["of"] for time in found], [[list(p) for p in t] for t in times] or None
    yield f"{place} time", in_file.get("time"), _stored_time(table, [table.temporal] if table.temporal else [])
    rows = range(table.row_start, table.row_start + len(table.rows))
    expected = [[_latest([table.time_at(row, path) for path in paths]) for paths in times] for row in rows]
    yield f"{place} stored times", [file.stored_times[row] for row in rows], expected
    nulls = [sum(of_row[i] is None for of_row in expected) for i in range(len(times))]
    yield f"{place} nulls of times", [time["nulls"] for time in found or []], nulls


def _latest(times: list[int | None]) -> int | None:
    return None if None in times else max(times)


# ---- Rows --------------------------------------------------------------------------------------------------


def _as_filed(value: Any, stype: str, statistics: Any, categories: list[str] | None, start: int) -> Any:
    """A converted value as the file has it: numbers normalised, categories by number."""
    if value is None:
        return None
    if stype == "numerical":
        return normalise(value, statistics)
    if stype == "categorical":
        return start + categories.index(value)
    return value


def _row_pairs(file: StoreFile, store: Store):
    text_numbers = {text: number for number, text in enumerate(store.texts)}
    for table in store.tables:
        for number, row in enumerate(table.rows, table.row_start):
            expected: list[Any] = []
            for column in table.columns:
                value = row.cells[column.name]
                if column.stype == "identifier":
                    expected.append(None if value is None else True)
                elif column.stype == "text":
                    expected.append(None if value is None else text_numbers[value])
                else:
                    statistics = store.statistics.get(column.column_idx)
                    expected.append(
                        _as_filed(value, column.stype, statistics, column.categories, column.category_start)
                    )
            yield f"row {number} of {table.name}", file.rows[number], expected


# ---- Seeds -------------------------------------------------------------------------------------------------


def _seed_pairs(file: StoreFile, store: Store, number: int, task: Task):
    in_file = file.metadata["tasks"][number]
    place = f"task {task.name}"
    tables = [table.name for table in store.tables]
    yield f"{place} name", in_file["name"], task.name
    yield f"{place} is_cell", in_file["is_cell"], task.is_cell
    yield f"{place} anchor", in_file["anchor_table"], tables.index(task.anchor.name)
    yield f"{place} column", in_file["column"], task.column_idx
    yield f"{place} stype", in_file["stype"], STYPES.index(task.schema.target_stype)
    yield f"{place} target_column", in_file["target_column"], task.schema.target_column
    yield f"{place} dropped", in_file["dropped"], task.dropped
    rule = task.schema.before_anchor if task.schema.before_anchor != "keep" else None
    yield f"{place} before_anchor", in_file.get("before_anchor"), rule
    yield f"{place} early", in_file.get("early"), task.early if rule else None
    statistics_of = task.schema.target_statistics if task.schema.target_statistics != "all" else None
    yield f"{place} target_statistics", in_file.get("target_statistics"), statistics_of
    for key in ("horizon", "label_known_column"):
        yield f"{place} {key}", in_file.get(key), getattr(task.schema, key)
    if task.schema.has_label_times:
        yield f"{place} observed", in_file["observed"], task.observed_name
        lists = [TaskRows(store, task, splits).list for splits in (SPLITS, SPLITS[:1])]
        yield f"{place} labels", file.labels[number], lists
    yield f"{place} drop_names", in_file["drop_names"], task.drop_names(store.tables)
    yield f"{place} hidden_edges", in_file["hidden_edges"], _hidden_edges(store, task)
    column = task.column
    if column is None:
        statistics, categories, start = task.statistics, task.categories, task.category_start
        if task.schema.target_stype == "timestamp":
            statistics = store.timestamps
    else:
        statistics = store.statistics.get(column.column_idx)
        categories, start = column.categories, column.category_start
    expected = []
    for split in SPLITS:
        for seed in task.seeds_of(split):
            target = _as_filed(seed.target, task.schema.target_stype, statistics, categories, start)
            expected.append((seed.row, seed.time, target, split))
    yield f"{place} seeds", file.seeds[number], expected
    weights = [seed.weight for split in SPLITS for seed in task.seeds_of(split)]
    has_weights = task.schema.weight_column is not None
    yield f"{place} weight_column", in_file.get("weight_column"), task.schema.weight_column
    yield f"{place} weights", in_file["weights"], weights if has_weights else None
    held_out = {seed.row for seed in task.seeds if seed.split != "train"} if task.is_cell else set()
    yield f"{place} held out", sorted(file.held_out[number]), sorted(held_out)


def _hidden_edges(store: Store, task: Task) -> list[int]:
    """Edge types of dropped columns, and of a foreign key that is the target itself."""
    hidden = set(task.schema.drop_columns)
    if task.column is not None:
        hidden.add((task.anchor.name, task.column.name))
    return [
        number
        for number, edge in enumerate(store.edges)
        if hidden & {(edge.table.name, column) for column in edge.key.columns}
    ]
