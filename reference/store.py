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

from . import embed, values
from .database import Database
from .draft import draft_schema
from .moments import statistics_of
from .rows import Column, Table, read_table
from .schema import SPLITS, Schema, check_against, read_schema
from .tasks import Task, make_task, tasks_nobody_wrote
from .timestamps import ALWAYS, NEVER


@dataclass
class EdgeType:
    """A foreign key column, and the edges that it gives."""

    table: Table
    column: str
    parent_table: Table
    known_at: str | None
    parents: dict[int, int] = field(default_factory=dict)  # child -> parent
    children: dict[int, list[tuple[int, int]]] = field(default_factory=dict)  # parent -> sorted (time, child)
    dangling: int = 0


class Store:
    """An ingested database. Tables, edge types and tasks are in the order that numbers them."""

    def __init__(self, schema: Schema, database: Database) -> None:
        check_against(schema, database)
        self.name = schema.name or database.name
        self.statistics_until = schema.statistics_until
        self.embedding_dim = schema.embedding_dim
        targets = {
            column.foreign_key
            for table in schema.tables.values()
            for column in table.columns.values()
            if column.foreign_key is not None
        }
        self.tables: list[Table] = []
        for name in in_bytewise_order(schema.tables):
            targets_here = {column for table, column in targets if table == name}
            self.tables.append(read_table(name, schema.tables[name], targets_here, database))
        self._table_by_name = {table.name: table for table in self.tables}
        self._number_rows_and_columns()
        self.statistics = {
            column.column_idx: statistics_of(self._values_in_statistics(table, column))
            for table, column in self.all_columns("numerical")
        }
        self.timestamps = statistics_of(
            *(self._values_in_statistics(table, column) for table, column in self.all_columns("timestamp"))
        )
        self.texts = self._texts_by_first_appearance()
        self.edges = [
            self._make_edges(table, name)
            for table in self.tables
            for name, column_schema in table.schema.items()
            if column_schema.foreign_key
        ]
        task_schemas = tasks_nobody_wrote(self.tables, targets) if schema.tasks is None else schema.tasks
        self.tasks: list[Task] = []
        for name in in_bytewise_order(task_schemas):
            anchor = self._table_by_name[task_schemas[name].anchor_table]
            self.tasks.append(make_task(name, task_schemas[name], anchor, database))
        self._number_derived_tasks()
        self.categories = self._number_categories()

    @classmethod
    def ingest(cls, path: str | Path, schema_text: bytes | str | None = None) -> "Store":
        """The store of a SQLite file, by a schema or by the draft of one."""
        database = Database(path)
        try:
            if schema_text is None:
                schema_text = json.dumps(draft_schema(database))
            return cls(read_schema(schema_text), database)
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

    def _number_derived_tasks(self) -> None:
        next_idx = len(self.all_columns())
        for task in self.tasks:
            if task.column is not None:
                task.column_idx = task.column.column_idx
            else:
                task.column_idx = next_idx
                next_idx += 1
        self.column_count = next_idx

    def _number_categories(self) -> list[tuple[str, str]]:
        """All categories as (column, value): a block a column, then a block a derived task."""
        categories: list[tuple[str, str]] = []
        for table, column in self.all_columns("categorical"):
            present = {row.cells[column.name] for row in table.rows} - {None}
            column.categories = in_bytewise_order(present)
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

    def _values_in_statistics(self, table: Table, column: Column) -> list[float | None]:
        """A column's values as f64, without those of rows that are later than statistics_until."""
        counted: list[float | None] = []
        for row in range(table.row_start, table.row_start + len(table.rows)):
            value = table.cell(row, column.name)
            is_late = self.statistics_until is not None and table.row_time(row) > self.statistics_until
            counted.append(None if value is None or is_late else float(value))
        return counted

    # ---- Edges ---------------------------------------------------------------------------------------------

    def _make_edges(self, table: Table, column: str) -> EdgeType:
        column_schema = table.schema[column]
        assert column_schema.foreign_key is not None
        parent_name, parent_column = column_schema.foreign_key
        parent_table = self._table_by_name[parent_name]
        edge_type = EdgeType(table, column, parent_table, column_schema.known_at)
        parent_by_key = parent_table.rows_by(parent_column)
        for number, row in enumerate(table.rows, table.row_start):
            if row.stored[column] is None:
                continue
            parent = parent_by_key.get(values.key_order(row.stored[column]))
            if parent is None:
                edge_type.dangling += 1
                continue
            edge_type.parents[number] = parent
            time = known_time(table, number, column_schema.known_at)
            edge_type.children.setdefault(parent, []).append((time, number))
        for children in edge_type.children.values():
            children.sort()
        return edge_type

    # ---- What is embedded ----------------------------------------------------------------------------------

    def column_texts(self) -> list[str]:
        """What is embedded for each ColumnIdx."""
        texts = []
        for table, column in self.all_columns():
            description = f": {column.schema.description}" if column.schema.description else ""
            texts.append(f"{column.name} of {table.name}{description}")
        derived_tasks = [task for task in self.tasks if not task.is_cell]
        return texts + [f"{task.schema.target_column} of {task.name}" for task in derived_tasks]

    def category_texts(self) -> list[str]:
        return [f"{column} is {value}" for column, value in self.categories]

    def embeddings(self, texts: list[str]) -> list[bytes]:
        return [embed.hash_v1(text, self.embedding_dim) for text in texts]

    # ---- Info ----------------------------------------------------------------------------------------------

    def info(self) -> dict[str, Any]:
        """What `weir info --json` says, as far as the specification goes."""
        return {
            "name": self.name,
            "rows": self.row_count,
            "tables": [_table_info(table) for table in self.tables],
            "columns": [self._column_info(table, column) for table, column in self.all_columns()],
            "num_columns": self.column_count,
            "statistics_until": self.statistics_until,
            "timestamps": self.timestamps.as_json_value(),
            "edges": [_edge_info(edge_type) for edge_type in self.edges],
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

    def _column_info(self, table: Table, column: Column) -> dict[str, Any]:
        info: dict[str, Any] = {
            "column_idx": column.column_idx,
            "table": table.name,
            "name": column.name,
            "stype": column.stype,
            "known_at": column.schema.known_at,
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
            "kind": "cell" if task.is_cell else "derived",
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
        if task.statistics is not None:
            info.update(task.statistics.as_json_value())
        if task.categories is not None:
            info.update(cat_emb_start=task.category_start, cat_emb_count=len(task.categories))
        return info


def in_bytewise_order(names: Any) -> list[str]:
    return sorted(names, key=lambda name: name.encode("utf-8"))


def known_time(table: Table, row: int, known_at: str | None) -> int:
    """When a cell, or the edge that it makes, is known: with its row, or as late as another column says."""
    if known_at is None:
        return table.row_time(row)
    value = table.cell(row, known_at)
    return NEVER if value is None else max(table.row_time(row), value)


def time_in_words(time: int) -> int | str:
    return {ALWAYS: "always", NEVER: "never"}.get(time, time)


def _table_info(table: Table) -> dict[str, Any]:
    return {
        "name": table.name,
        "row_start": table.row_start,
        "rows": len(table.rows),
        "primary_key": table.primary_key,
        "temporal_column": table.temporal_column,
    }


def _edge_info(edge_type: EdgeType) -> dict[str, Any]:
    return {
        "table": edge_type.table.name,
        "column": edge_type.column,
        "parent_table": edge_type.parent_table.name,
        "known_at": edge_type.known_at,
        "edges": len(edge_type.parents),
        "dangling": edge_type.dangling,
    }
