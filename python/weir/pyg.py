"""weir for PyTorch Geometric: a batch as HeteroData, rows as nodes and foreign keys as edges.

    from torch_geometric.nn import HeteroConv, SAGEConv

    store = weir.Store("shop.weir")
    data = weir.torch.Dataset(store, "shop.manifest.json", dataset="shop/churn/train", transform=weir.pyg.Hetero(store), epochs=3)
    for graph in data:
        out = model(graph.x_dict, graph.edge_index_dict)["customers"][: graph["customers"].batch_size]
        loss = binary_cross_entropy_with_logits(out, graph["customers"].y.float())
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch_geometric.data import HeteroData

from weir._batch import Batch
from weir._store import CARRIERS, Store

__all__ = ["Hetero", "hetero"]

_TIMESTAMP_FLOATS = 15


class _Table(NamedTuple):
    """Where the cells of a table's columns go: the columns of each tensor that carries values, by ColumnIdx."""

    name: str
    row_start: int
    row_end: int
    columns: dict[str, list[int]]

    @property
    def value_columns(self) -> list[int]:
        return sorted(sum(self.columns.values(), []))


def _no_columns() -> dict[str, list[int]]:
    return {carrier: [] for carrier in CARRIERS.values() if carrier != "none"}


def _tables(store: Store) -> list[_Table]:
    tables = []
    for table in store.info["tables"]:
        columns = _no_columns()
        for column in store.info["columns"]:
            carrier = CARRIERS[column["stype"]]
            if column["table"] == table["name"] and carrier in columns:
                columns[carrier].append(column["column_idx"])
        tables.append(_Table(table["name"], table["row_start"], table["row_start"] + table["rows"], columns))
    return tables


def _seeds(store: Store, task: dict[str, Any]) -> _Table:
    """Seeds that are rows: their labels and observation times."""
    columns = _no_columns()
    columns[CARRIERS[task["stype"]]].append(task["column_idx"])
    columns["timestamp_values"].append(task["observed_column_idx"])
    first = store.info["rows"]
    return _Table(task["name"], first, first + task["seeds"] + 1, columns)


def hetero(batch: Batch, store: Store) -> HeteroData:
    """A batch as HeteroData. Each sequence is a graph of its own; all of them are in one, disjoint.

    Of every table T of the store, in the order of its columns: data[T].x, float32: numbers (normalised), booleans as 0 and 1,
    fifteen floats per timestamp, and then for each column that has values whether it is null; data[T].categories, int64 [n,
    columns], numbers for weir.torch.embeddings(store)["categories"], -1 for null; data[T].texts, float16 [n, columns, D];
    data[T].row, the store's row; data[T].batch, the sequence. A column that the task does not show, or that did not fit
    into the sequence, is null, and so is the target.

    Edges are data[child, column, parent].edge_index, one type per foreign key, from the child to the parent (torch_geometric's
    ToUndirected adds the way back). Tables and edge types are the same in every batch, also if some are empty.

    The rows to predict come first in their table A: data[A].batch_size of them, with data[A].y and data[A].y_is_null. In a
    link task these are the sources in their table and the destinations in theirs; data[A].batch has each one's sequence.

    With "labels": true in the manifest, the seeds of a task that says when its labels are known are nodes of a type named
    like the task, with their labels and observation times, and an edge (task, "anchor", table) to what they are about.
    A is then this type: each sequence begins with its own seed, whose label is y.
    """
    if batch.store_hash != store.hash:
        raise ValueError(f"the batch is of the store {batch.store_hash[:12]}, not of {store!r}")
    tables, tensors = _tables(store), batch.torch(hide_target=True)
    task = store.info["tasks"][batch.task_index]
    rows, counts = batch.rows.torch().long(), batch.num_rows.torch().long()
    has_seeds = bool((counts > 0).any()) and int(rows[counts > 0][0, 0]) >= store.info["rows"]
    if has_seeds:
        if any(table.name == task["name"] for table in tables):
            raise ValueError(f"the task {task['name']!r} and a table have one name, and both have nodes; give the task another")
        tables.append(_seeds(store, task))
    sequence, local = torch.nonzero(torch.arange(rows.shape[1]) < counts[:, None], as_tuple=True)
    row = rows[sequence, local]
    order = torch.argsort((local > 0).long(), stable=True)  # the rows to predict first
    sequence, local, row = sequence[order], local[order], row[order]
    node = torch.full(rows.shape, -1)  # of each sequence's rows: the number in its table
    data = HeteroData()
    for table in tables:
        mine = (row >= table.row_start) & (row < table.row_end)
        node[sequence[mine], local[mine]] = torch.arange(int(mine.sum()))
        data[table.name].row, data[table.name].batch = row[mine], sequence[mine]
    cells = _cells(tensors, node)
    for table in tables:
        _add_features(data[table.name], table, cells, tensors)
    _add_edges(data, batch, store, node)
    if has_seeds:
        index = torch.nonzero(tensors["fk_adj"].bool() & (rows[:, : tensors["fk_adj"].shape[1], None] >= store.info["rows"]))
        edges = torch.stack([node[index[:, 0], index[:, 1]], node[index[:, 0], index[:, 2]]])
        data[task["name"], "anchor", task["anchor_table"]].edge_index = edges
    predicted = task["name"] if has_seeds else task["anchor_table"]
    y, y_is_null = batch.target.torch()
    for name in dict.fromkeys((predicted, task.get("destination_table", predicted))):
        of_table = next(table for table in tables if table.name == name)
        first = rows[:, 0] if rows.shape[1] else rows.new_zeros(len(rows))
        mine = (counts > 0) & (first >= of_table.row_start) & (first < of_table.row_end)
        if batch.group_size == 1:
            mine[:] = True
        data[name].batch_size = int(mine.sum())
        data[name].y, data[name].y_is_null = y[mine], y_is_null[mine]
    return data


class Hetero:
    """hetero as the `transform` of a weir.torch.Dataset."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def __call__(self, tensors: Any, batch: Batch) -> HeteroData:
        return hetero(batch, self.store)


class _Cells(NamedTuple):
    """Every cell that has a value: where it stands in the batch, its column, and its row's node."""

    place: tuple[torch.Tensor, torch.Tensor]
    column: torch.Tensor
    node: torch.Tensor


def _cells(tensors: dict[str, torch.Tensor], node: torch.Tensor) -> _Cells:
    has_value = ~tensors["is_padding"] & ~tensors["is_null"] & ~tensors["is_target"]
    place = torch.nonzero(has_value, as_tuple=True)
    row = tensors["seq_row_ids"].long()[place]
    return _Cells(place, tensors["column_ids"][place].long(), node[place[0], row])


def _add_features(part: Any, table: _Table, cells: _Cells, tensors: dict[str, torch.Tensor]) -> None:
    count = len(part.row)

    def filled(columns: list[int], values: torch.Tensor | None, empty: torch.Tensor) -> torch.Tensor:
        """[n, columns, …]: the values at their cells, `empty` elsewhere."""
        out = empty.expand(count, len(columns), *empty.shape).clone()
        if not columns:
            return out
        number = torch.full((max(columns) + 1,), -1)
        number[torch.tensor(columns)] = torch.arange(len(columns))
        mine = (cells.column <= max(columns)).nonzero()[:, 0]
        mine = mine[number[cells.column[mine]] >= 0]
        first, second = cells.place[0][mine], cells.place[1][mine]
        out[cells.node[mine], number[cells.column[mine]]] = True if values is None else values[first, second].to(out.dtype)
        return out

    of = table.columns
    zero = torch.zeros(())
    numbers = filled(of["numeric_values"], tensors["numeric_values"], zero)
    booleans = filled(of["bool_values"], tensors["bool_values"], zero)
    times = filled(of["timestamp_values"], tensors["timestamp_values"], torch.zeros(_TIMESTAMP_FLOATS))
    is_null = ~filled(table.value_columns, None, torch.tensor(False))
    part.x = torch.cat([numbers, booleans, times.flatten(1), is_null.float()], dim=1)
    part.categories = filled(of["categorical_embed_ids"], tensors["categorical_embed_ids"].long(), torch.tensor(-1))
    table_of_texts = tensors["text_batch_embeddings"]
    texts = filled(of["text_embed_ids"], tensors["text_embed_ids"].long(), torch.tensor(-1))
    nothing = table_of_texts.new_zeros(1, table_of_texts.shape[1])
    part.texts = torch.cat([table_of_texts, nothing])[texts]  # -1 is the last: zeros
    part.num_nodes = count


def _add_edges(data: HeteroData, batch: Batch, store: Store, node: torch.Tensor) -> None:
    edges = batch._edges().torch().long()
    for number, edge in enumerate(store.info["edges"]):
        _, sequence, child, parent = edges[edges[:, 0] == number].T
        index = torch.stack([node[sequence, child], node[sequence, parent]])
        data[edge["table"], edge["column"], edge["parent_table"]].edge_index = index
