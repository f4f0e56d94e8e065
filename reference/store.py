"""The store: everything that ingesting a database gives, short of the file that it is written to.

Follows the specification's part "Store". `Store.ingest` reads a SQLite database with a schema, or with the
draft of one; what it holds is a function of the data alone. `info` is what `weir info --json` says of it. The
parts have modules of their own: `values`, `timestamps`, `moments` and `embed` for single values, `schema` and
`draft` for what columns mean, `rows` for numbering, `tasks` for seeds; here they come together, with edges,
categories and texts, which concern several tables at once.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import cbor, embed
from .csv_files import CsvDatabase
from .database import Database
from .draft import draft_schema
from .errors import WeirError
from .links import Destinations
from .moments import statistics_of
from .rows import Column, Table, read_table, sort_rows
from .schema import SPLITS, ForeignKeySchema, Path as TimePath, Schema, TaskSchema, check_against, read_schema
from .tasks import Task, make_task, tasks_nobody_wrote
from .timestamps import ALWAYS, NEVER


MOST_NUMBERS = 2**32 - 2  # of rows: 2^32 - 1 is none


@dataclass
class EdgeType:
    """A foreign key, and the edges that it gives."""

    table: Table
    key: ForeignKeySchema
    parent_table: Table
    parents: dict[int, int] = field(default_factory=dict)  # child -> parent
    children: dict[int, list[tuple[int, int]]] = field(default_factory=dict)  # parent -> sorted (time, child)
    dangling: int = 0

    @property
    def name(self) -> str:
        return self.key.name


class Store:
    """An ingested database. Tables, edge types and tasks are in the order that numbers them."""

    def __init__(self, schema: Schema, database: Database, like: "Store | None" = None, format: int = 0) -> None:
        check_against(schema, database)
        self.name = schema.name or database.name
        self.embedding_dim = schema.embedding_dim
        self.tables: list[Table] = [
            read_table(name, schema.tables[name], schema.targets(name), database)
            for name in in_bytewise_order(schema.tables)
        ]
        self._table_by_name = {table.name: table for table in self.tables}
        if like is not None:
            take_order(self.tables, like)
        self._number_rows_and_columns()
        self.texts = self._texts_by_first_appearance()
        self.edges = [self._match(table, key) for table in self.tables for key in edge_order(table)]
        self._edge_by_name = {(edge.table.name, edge.name): edge for edge in self.edges}
        for table in self.tables:
            for path in {path for paths in stored_times(table) for path in paths if len(path) > 1}:
                rows = range(table.row_start, table.row_start + len(table.rows))
                table.times[path] = [self._time_through_keys(table, row, path) for row in rows]
        for edge_type in self.edges:
            self._list_children(edge_type)
        task_schemas = tasks_nobody_wrote(self.tables) if schema.tasks is None else schema.tasks
        self.tasks: list[Task] = []
        for name in in_bytewise_order(task_schemas):
            anchor = self._table_by_name[task_schemas[name].anchor_table]
            earlier = None if like is None else next(task for task in like.tasks if task.name == name)
            destinations = self._destinations(task_schemas[name]) if task_schemas[name].is_link else None
            self.tasks.append(make_task(name, task_schemas[name], anchor, database, earlier, destinations))
        self._choose_format(format)
        self._number_derived_tasks()
        self.statistics_until = self._end_of_statistics(schema.statistics_until)
        self.statistics = {
            column.column_idx: statistics_of(self._values_in_statistics(table, column))
            for table, column in self.all_columns("numerical")
        }
        self.timestamps = statistics_of(
            *(self._values_in_statistics(table, column) for table, column in self.all_columns("timestamp"))
        )
        if like is not None:
            self.statistics_until, self.timestamps = like.statistics_until, like.timestamps
            self.statistics = like.statistics
        self.categories = self._number_categories(like)

    @classmethod
    def ingest(
        cls, path: str | Path, schema_text: bytes | str | None = None, like: "Store | None" = None, format: int = 0
    ) -> "Store":
        """The store of a SQLite file, or of CSV files, by a schema or by the draft of one, and with the numbers of an
        earlier store where there is one. (Schemas that do not fit it are not simulated.)"""
        schema = None if schema_text is None else read_schema(schema_text)
        database = _open(Path(path), schema)
        try:
            return cls(schema or read_schema(json.dumps(draft_schema(database))), database, like, format)
        finally:
            database.close()

    def all_columns(self, stype: str | None = None) -> list[tuple[Table, Column]]:
        """The columns of all tables by ColumnIdx, or those of one semantic type."""
        found = [(table, column) for table in self.tables for column in table.columns]
        return [(table, column) for table, column in found if stype in (None, column.stype)]

    @property
    def row_count(self) -> int:
        return sum(len(table.rows) for table in self.tables)

    # ---- Numbering -----------------------------------------------------------------------------------------

    def _number_rows_and_columns(self) -> None:
        row_start = 0
        for table in self.tables:
            table.row_start = row_start
            row_start += len(table.rows)
        for column_idx, (_, column) in enumerate(self.all_columns()):
            column.column_idx = column_idx

    def _choose_format(self, wanted: int) -> None:
        """Format 1 if its numbers, which are RowIdx in 32 bits, suffice, unless 2 is wanted."""
        task_rows = [len(task.seeds) + (self.row_count if task.schema.has_label_times else 0) for task in self.tasks]
        fits = max([self.row_count, *task_rows]) <= MOST_NUMBERS
        self.format = 1 if fits and wanted != 2 else 2
        for table in self.tables:
            table.first_number = table.row_start if self.format == 1 else 0

    def _number_derived_tasks(self) -> None:
        next_idx = len(self.all_columns())
        for task in self.tasks:
            if task.column is not None:
                task.column_idx = task.column.column_idx
            else:
                task.column_idx = next_idx
                next_idx += 1
        for task in self.tasks:
            if task.schema.has_label_times:
                task.observed_idx = next_idx
                next_idx += 1
        self.column_count = next_idx

    def _number_categories(self, like: "Store | None") -> list[tuple[str, str]]:
        """All categories as (column, value): a block a column, then a block a derived task."""
        categories: list[tuple[str, str]] = []
        earlier = {} if like is None else {c.column_idx: c.categories for _, c in like.all_columns("categorical")}
        for table, column in self.all_columns("categorical"):
            present = {row.cells[column.name] for row in table.rows} - {None}
            column.categories = earlier[column.column_idx] if like is not None else in_bytewise_order(present)
            column.category_start = len(categories)
            categories += [(column.name, value) for value in column.categories]
        for task in self.tasks:
            if task.categories is not None:
                task.category_start = len(categories)
                categories += [(task.schema.target_column, value) for value in task.categories]
        return categories

    def _texts_by_first_appearance(self) -> list[str]:
        texts: dict[str, None] = {}
        for table in self.tables:
            for row in table.rows:
                for column in table.columns:
                    if column.stype == "text" and row.cells[column.name] is not None:
                        texts.setdefault(row.cells[column.name])
        return list(texts)

    # ---- Statistics ----------------------------------------------------------------------------------------

    def _end_of_statistics(self, until: int | str | None) -> int | None:
        """The last time that counts; "train" stands for the earliest end of a task's train split."""
        if not isinstance(until, str):
            return until
        ends = [task.end_of_train() for task in self.tasks]
        known = [end for end in ends if end is not None]
        if not known:
            raise WeirError("SCHEMA_INVALID", "no task has a train split that ends", path="$.statistics_until")
        return min(known)

    def _values_in_statistics(self, table: Table, column: Column) -> list[float | None]:
        """A column's values as f64, without those of rows that are later than statistics_until."""
        counted: list[float | None] = []
        for row in range(table.row_start, table.row_start + len(table.rows)):
            value = table.cell(row, column.name)
            is_late = self.statistics_until is not None and table.row_time(row) > self.statistics_until
            counted.append(None if value is None or is_late else float(value))
        return counted

    # ---- Edges ---------------------------------------------------------------------------------------------

    def _match(self, table: Table, key: ForeignKeySchema) -> EdgeType:
        """The parents; a row with a null among its values has none and does not dangle."""
        edge_type = EdgeType(table, key, self._table_by_name[key.table])
        parent_by_key = edge_type.parent_table.rows_by(key.to)
        for row in range(table.row_start, table.row_start + len(table.rows)):
            values = table.key_of(row, key.columns)
            if values is None:
                continue
            if values in parent_by_key:
                edge_type.parents[row] = parent_by_key[values]
            else:
                edge_type.dangling += 1
        return edge_type

    def _list_children(self, edge_type: EdgeType) -> None:
        for child, parent in edge_type.parents.items():
            time = known_time(edge_type.table, child, edge_type.key.known_at)
            edge_type.children.setdefault(parent, []).append((time, child))
        for children in edge_type.children.values():
            children.sort()

    def _time_through_keys(self, table: Table, row: int, path: TimePath) -> int | None:
        """What a path leads to from a row; None where a key on it has no match, or the value is null."""
        *keys, column = path
        for key in keys:
            edge_type = self._edge_by_name[table.name, key]
            if row not in edge_type.parents:
                return None
            table, row = edge_type.parent_table, edge_type.parents[row]
        return table.cell(row, column)

    def _destinations(self, task: TaskSchema) -> Destinations:
        edge = None if task.popularity is None else self._edge_by_name[task.popularity]
        return Destinations(self._table_by_name[task.destination_table], edge)

    # ---- What is embedded ----------------------------------------------------------------------------------

    def column_texts(self) -> list[str]:
        """What is embedded for each ColumnIdx."""
        texts = []
        for table, column in self.all_columns():
            description = f": {column.schema.description}" if column.schema.description else ""
            texts.append(f"{column.name} of {table.name}{description}")
        derived_tasks = [task for task in self.tasks if not task.is_cell]
        texts += [f"{task.schema.target_column} of {task.name}" for task in derived_tasks]
        return texts + [f"{task.observed_name} of {task.name}" for task in self.tasks if task.schema.has_label_times]

    def category_texts(self) -> list[str]:
        return [f"{column} is {value}" for column, value in self.categories]

    def embeddings(self, texts: list[str]) -> list[bytes]:
        return [embed.hash_v1(text, self.embedding_dim) for text in texts]

    # ---- Info ----------------------------------------------------------------------------------------------

    def info(self) -> dict[str, Any]:
        """What `weir info --json` says, as far as the specification goes."""
        return {
            "name": self.name,
            "format_version": self.format,
            "rows": self.row_count,
            "tables": [self._table_info(table) for table in self.tables],
            "columns": [self._column_info(table, column) for table, column in self.all_columns()],
            "num_columns": self.column_count,
            "statistics_until": self.statistics_until,
            "timestamps": self.timestamps.as_json_value(),
            "edges": [self._edge_info(edge_type) for edge_type in self.edges],
            "tasks": [self._task_info(number, task) for number, task in enumerate(self.tasks)],
            "datasets": {
                f"{self.name}/{task.name}/{split}": len(task.seeds_of(split))
                for task in self.tasks
                for split in SPLITS
            },
            "num_categories": len(self.categories),
            "num_texts": len(self.texts),
            "embedding": {"provider": "hash_v1", "dim": self.embedding_dim},
        }

    def time_text(self, table: Table, paths: list[TimePath]) -> str:
        """When something is known, for people: "order_id -> orders.ordered_at"."""

        def one(path: TimePath) -> str:
            text, at = path[0], table
            for key, name in zip(path, path[1:]):
                at = self._table_by_name[at.foreign_keys[key].table]
                text += f" -> {at.name}.{name}"
            return text

        texts = ", ".join(one(path) for path in paths)
        return texts if len(paths) == 1 else f"the latest of {texts}"

    def _known_info(self, table: Table, paths: list[TimePath]) -> dict[str, Any]:
        """`known_at` names a column of the table; any other time is `known_time`, in words."""
        if not paths or (len(paths) == 1 and len(paths[0]) == 1):
            return {"known_at": paths[0][0] if paths else None}
        return {"known_at": None, "known_time": self.time_text(table, paths)}

    def _table_info(self, table: Table) -> dict[str, Any]:
        info: dict[str, Any] = {
            "name": table.name,
            "row_start": table.row_start,
            "rows": len(table.rows),
            "primary_key": table.primary_key,
            "temporal_column": table.temporal_column,
        }
        keys = kept_keys(table)
        if keys is not None:
            info["keys"] = keys["form"]
        if table.temporal is not None and len(table.temporal) > 1:
            info["time"] = self.time_text(table, [table.temporal])
        return info

    def _edge_info(self, edge_type: EdgeType) -> dict[str, Any]:
        return {
            "table": edge_type.table.name,
            "column": edge_type.name,
            "parent_table": edge_type.parent_table.name,
            **self._known_info(edge_type.table, edge_type.key.known_at),
            "edges": len(edge_type.parents),
            "dangling": edge_type.dangling,
        }

    def _column_info(self, table: Table, column: Column) -> dict[str, Any]:
        info: dict[str, Any] = {
            "column_idx": column.column_idx,
            "table": table.name,
            "name": column.name,
            "stype": column.stype,
            **self._known_info(table, [column.schema.known_at] if column.schema.known_at else []),
            "nulls": sum(row.cells[column.name] is None for row in table.rows),
        }
        if column.stype == "numerical":
            info["not_finite"] = column.not_finite
            info.update(self.statistics[column.column_idx].as_json_value())
        if column.categories is not None:
            info.update(cat_emb_start=column.category_start, cat_emb_count=len(column.categories))
        return info

    def _task_info(self, number: int, task: Task) -> dict[str, Any]:
        info: dict[str, Any] = {
            "task_idx": number,
            "name": task.name,
            "kind": "link" if task.schema.is_link else "cell" if task.is_cell else "derived",
            "stype": task.schema.target_stype,
            "column_idx": task.column_idx,
            "anchor_table": task.anchor.name,
            "seeds": len(task.seeds),
            "dropped": task.dropped,
            "splits": {split: len(task.seeds_of(split)) for split in SPLITS},
            "drop_columns": task.drop_names(self.tables),
        }
        if task.schema.weight_column is not None:
            info["weight_column"] = task.schema.weight_column
        if task.schema.horizon is not None:
            info["horizon"] = task.schema.horizon
        if task.schema.label_known_column is not None:
            info["label_known_column"] = task.schema.label_known_column
        if task.schema.has_label_times:
            info["observed_column_idx"] = task.observed_idx
            info["labels"] = sum(seed.known != NEVER for seed in task.seeds)
        if task.schema.before_anchor != "keep":
            info.update(before_anchor=task.schema.before_anchor, early=task.early)
        if task.destinations is not None:
            info["destination_table"] = task.destinations.table.name
            info["lists"] = len({(seed.row, seed.time) for seed in task.seeds})
            info.update(late=task.destinations.late, repeated=task.destinations.repeated)
            if task.schema.popularity is not None:
                info["popularity"] = list(task.schema.popularity)
        if task.statistics is not None:
            info.update(task.statistics.as_json_value())
        if task.categories is not None:
            info.update(cat_emb_start=task.category_start, cat_emb_count=len(task.categories))
        return info


def in_bytewise_order(names: Any) -> list[str]:
    return sorted(names, key=lambda name: name.encode("utf-8"))


def take_order(tables: list[Table], like: Store) -> None:
    """Columns and foreign keys as an earlier store has them; categories that it does not have are null."""
    for table, was in zip(tables, like.tables):
        table.key_order = [edge.name for edge in like.edges if edge.table is was]
        names = [column.name for column in was.columns]
        if names != [column.name for column in table.columns]:
            table.columns.sort(key=lambda column: names.index(column.name))
            table.declared_columns.sort(key=lambda name: names.index(name) if name in names else len(names))
            sort_rows(table)
        for column in was.columns:
            for row in table.rows if column.categories is not None else []:
                if row.cells[column.name] not in column.categories:
                    row.cells[column.name] = None


def edge_order(table: Table) -> list[ForeignKeySchema]:
    """The foreign keys of a table as its edge types are numbered."""

    if table.key_order is not None:
        return [table.foreign_keys[name] for name in table.key_order]

    def place(key: ForeignKeySchema) -> tuple[int, int, bytes]:
        return table.declared_columns.index(key.columns[0]), len(key.columns), key.name.encode("utf-8")

    return sorted(table.foreign_keys.values(), key=place)


def stored_times(table: Table) -> list[list[TimePath]]:
    """The times of a table's rows, cells and edges that are no columns of its own, each the latest of some paths,
    in the order in which they are first needed."""
    times = [[table.temporal]] if table.temporal is not None else []
    times += [[column.schema.known_at] for column in table.columns if column.schema.known_at is not None]
    times += [key.known_at for key in edge_order(table) if key.known_at]
    found: list[list[TimePath]] = []
    for paths in times:
        is_own_column = len(paths) == 1 and len(paths[0]) == 1
        if not is_own_column and paths not in found:
            found.append(paths)
    return found


def kept_keys(table: Table) -> dict[str, Any] | None:
    """How the file keeps a table's primary keys, as its metadata says it: integers without gaps as their first
    one, others as what is added to it, anything else as CBOR items."""
    if not table.keeps_keys:
        return None
    keys = [table.split_key(table.row_start + i) for i in range(len(table.rows))]
    if len(table.primary_key) == 1 and all(isinstance(key, int) for key in keys):
        first = keys[0] if keys else 0
        if keys == list(range(first, first + len(keys))):
            return {"form": "range", "first": first}
        width = next(width for width in (1, 2, 4, 8) if keys[-1] - first < 256**width)
        return {"form": "packed", "first": first, "width": width}
    return {"form": "cbor", "size": sum(len(cbor.encode(key)) for key in keys)}


def known_time(table: Table, row: int, known_at: list[TimePath], was_always_there: bool = False) -> int:
    """When a cell, or the edge that a key makes, is known: with its row, or as late as other columns say."""
    times = [table.time_at(row, path) for path in known_at]
    since = ALWAYS if was_always_there else table.row_time(row)
    return NEVER if None in times else max([since, *times])


def time_in_words(time: int) -> int | str:
    return {ALWAYS: "always", NEVER: "never"}.get(time, time)


def _open(path: Path, schema: Schema | None) -> Database | CsvDatabase:
    with_csv = path.is_dir() or path.name.lower().endswith((".csv", ".tsv", ".tab", ".gz"))
    if not with_csv:
        return Database(path)
    if schema is None:
        return CsvDatabase(path)
    of_tables = {name: table.csv for name, table in schema.tables.items() if table.csv is not None}
    return CsvDatabase(path, None, schema.csv, of_tables, has_schema=True)
