"""PyTorch Geometric: a batch as HeteroData is the database's rows and foreign keys, and trains."""

import json
import sqlite3
import unittest
import warnings
from pathlib import Path
from typing import Any

from tests.ecosystem.support import require

require("torch_geometric", "torch")

warnings.filterwarnings("ignore", category=FutureWarning)

import torch
import weir
import weir.pyg
import weir.torch
from tests.python.support import ShopTest
from torch_geometric.nn import HeteroConv, Linear, SAGEConv
from torch_geometric.transforms import ToUndirected


class Graphs(ShopTest):
    def setUp(self) -> None:
        self.opened = weir.Store(self.store)

    def batch(self, task: str, **options: Any) -> weir.Batch:
        return weir.batch(self.opened, self.manifest, f"shop/{task}/train", **options)

    def test_every_row_is_a_node(self) -> None:
        for task in "churn", "rating", "category":
            batch = self.batch(task)
            data = batch.hetero(self.opened)
            self.assertTrue(data.validate())
            expected = sorted((b, row) for b, (rows, count) in enumerate(zip(batch.rows.tolist(), batch.num_rows.tolist()))
                              for row in rows[:count])
            found = [(b, row) for part in data.node_stores for b, row in zip(part.batch.tolist(), part.row.tolist())]
            self.assertEqual(sorted(found), expected)
            for name, table in self.opened.tables.items():
                rows = data[name].row
                self.assertTrue(bool(((rows >= table.row_start) & (rows < table.row_start + table.row_count)).all()))

    def test_what_is_to_be_predicted_comes_first(self) -> None:
        for task, table in ("churn", "customers"), ("rating", "reviews"), ("category", "products"):
            batch = self.batch(task)
            part = batch.hetero(self.opened)[table]
            self.assertEqual(part.batch_size, batch.sequence_count)
            self.assertEqual(part.row[: part.batch_size].tolist(), batch.anchor_row.tolist())
            self.assertEqual(part.batch[: part.batch_size].tolist(), list(range(part.batch_size)))
            self.assertEqual(part.y.tolist(), batch.target.values.tolist())
            self.assertEqual(part.y_is_null.tolist(), batch.target.is_null.tolist())

    def test_features_are_the_cells(self) -> None:
        """Every cell of the batch, found again at its node; everything else is null."""
        batch = self.batch("rating")
        data, tensors = batch.hetero(self.opened), batch.torch(hide_target=True)
        nodes = {(name, int(b), int(row)): n for name in self.opened.tables
                 for n, (b, row) in enumerate(zip(data[name].batch, data[name].row))}
        columns = {column["column_idx"]: column for column in self.opened.info["columns"]}
        kinds = {name: {kind: [c["column_idx"] for c in columns.values() if (c["table"], c["stype"]) == (name, kind)]
                        for kind in ("numerical", "boolean", "timestamp", "categorical", "text")} for name in self.opened.tables}
        texts = weir.torch.text_embeddings(tensors)
        has_value = ~tensors["is_padding"] & ~tensors["is_null"] & ~tensors["is_target"]
        seen, rows = 0, batch.rows.tolist()
        for b, s in has_value.nonzero().tolist():
            column = columns[int(tensors["column_ids"][b, s])]
            name, kind = column["table"], column["stype"]
            if kind == "identifier":
                continue
            part, of = data[name], kinds[name]
            node = nodes[name, b, rows[b][int(tensors["seq_row_ids"][b, s])]]
            place = of[kind].index(column["column_idx"])
            numbers, booleans = len(of["numerical"]), len(of["boolean"])
            if kind == "numerical":
                self.assertEqual(part.x[node, place], tensors["numeric_values"][b, s])
            elif kind == "boolean":
                self.assertEqual(bool(part.x[node, numbers + place]), bool(tensors["bool_values"][b, s]))
            elif kind == "timestamp":
                start = numbers + booleans + 15 * place
                self.assertTrue(torch.equal(part.x[node, start : start + 15], tensors["timestamp_values"][b, s]))
            elif kind == "categorical":
                self.assertEqual(int(part.categories[node, place]), int(tensors["categorical_embed_ids"][b, s]))
            else:
                self.assertTrue(torch.equal(part.texts[node, place], texts[b, s]))
            seen += 1
        nulls = sum(float(data[name].x[:, data[name].x.shape[1] - sum(map(len, kinds[name].values())) :].sum())
                    for name in self.opened.tables)
        total = sum(data[name].num_nodes * sum(map(len, kinds[name].values())) for name in self.opened.tables)
        self.assertEqual(total - nulls, seen)

    def test_the_answer_is_not_in_it(self) -> None:
        """In a cell task the target is a column of the nodes that are to be predicted: null there."""
        batch = self.batch("category")
        part = batch.hetero(self.opened)["products"]
        self.assertEqual(part.categories[: part.batch_size].unique().tolist(), [-1])
        self.assertGreater(len(part.y.unique()), 1)

    def test_edges_are_the_databases(self) -> None:
        """All of fk_adj and nothing else, each edge between the tables that it says."""
        batch = self.batch("late")
        data = batch.hetero(self.opened)
        adjacent, rows, pairs = batch["fk_adj"].numpy(), batch.rows.tolist(), set()
        for edge in self.opened.info["edges"]:
            child, column, parent = edge["table"], edge["column"], edge["parent_table"]
            index = data[child, column, parent].edge_index
            self.assertEqual(data[child].batch[index[0]].tolist(), data[parent].batch[index[1]].tolist())
            for a, b in index.T.tolist():
                pairs.add((int(data[child].batch[a]), int(data[child].row[a]), int(data[parent].row[b])))
        self.assertEqual(pairs, {(b, rows[b][r1], rows[b][r2]) for b, r1, r2 in zip(*adjacent.nonzero())})
        metadata = self.batch("churn", step=3).hetero(self.opened).metadata()
        self.assertEqual(metadata, data.metadata(), "the same types in every batch")

    def test_two_foreign_keys_to_one_table(self) -> None:
        """Each edge is that of its own column, also if both lead to one row, and only if it is known by then."""
        with sqlite3.connect("trades.sqlite") as database:
            database.executescript("""
                CREATE TABLE people (id INTEGER PRIMARY KEY, age REAL);
                CREATE TABLE trades (id INTEGER PRIMARY KEY, buyer INTEGER REFERENCES people, seller INTEGER REFERENCES people,
                                     at TIMESTAMP, told_at TIMESTAMP, price REAL);""")
            database.executemany("INSERT INTO people VALUES (?, ?)", [(i, 20.0 + i) for i in range(5)])
            trades = [(i, i % 5, i * 3 % 5, "2024-01-01", "2024-01-01" if i % 2 else "2025-01-01", float(i)) for i in range(20)]
            database.executemany("INSERT INTO trades VALUES (?, ?, ?, ?, ?, ?)", trades)
        identifier = {"stype": "identifier"}
        schema = {"name": "t", "tables": {
            "people": {"primary_key": ["id"], "columns": {"id": identifier, "age": {"stype": "numerical"}}},
            "trades": {"primary_key": ["id"], "temporal_column": "at", "columns": {
                "id": identifier, "buyer": {**identifier, "foreign_key": "people.id"},
                "seller": {**identifier, "foreign_key": "people.id", "known_at": "told_at"}, "at": {"stype": "timestamp"},
                "told_at": {"stype": "timestamp"}, "price": {"stype": "numerical"}}}},
            "tasks": {"t": {"query": "SELECT id, '2024-06-01' AS at, 1 AS y FROM trades", "anchor_table": "trades",
                            "anchor_key": "id", "target_column": "y", "target_stype": "boolean", "observation_time_column": "at",
                            "split": {"method": "hash", "permille": [1000, 0, 0]}}}}
        weir.ingest("trades.sqlite", "trades.weir", schema=schema, manifest="trades.json", batch_size=20)
        store = weir.Store("trades.weir")
        data = weir.batch(store, weir.Manifest("trades.json", batch={"max_hops": 1}), "t/t/train").hetero(store)
        part, found = data["trades"], {}
        price = {row: value for row, value in enumerate(store.tables["trades"]["price"].tolist(), store.tables["trades"].row_start)}
        age = {row: value for row, value in enumerate(store.tables["people"]["age"].tolist(), store.tables["people"].row_start)}
        by_price, by_age = sorted(price.values()), sorted(age.values())
        for column in "buyer", "seller":
            index = data["trades", column, "people"].edge_index
            found[column] = {(by_price.index(price[int(part.row[a])]), by_age.index(age[int(data["people"].row[b])]))
                             for a, b in index.T.tolist()}
        self.assertEqual(found["buyer"], {(i, i % 5) for i in range(20)})
        self.assertEqual(found["seller"], {(i, i * 3 % 5) for i in range(20) if i % 2})

    def test_seeds_are_nodes_if_they_show_their_labels(self) -> None:
        schema = json.loads(Path("shop.schema.json").read_text())
        schema["tasks"] = {"churn": {**schema["tasks"]["churn"], "horizon": "1d"}}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", weir.IngestWarning)
            weir.ingest("shop.sqlite", "labels.weir", schema=schema)
        store = weir.Store("labels.weir")
        batch = weir.batch(store, "labels.manifest.json", "shop/churn/train")
        data = batch.hetero(store)
        part, edges = data["churn"], data["churn", "anchor", "customers"].edge_index
        self.assertTrue(data.validate())
        self.assertEqual((part.batch_size, "batch_size" in data["customers"]), (batch.sequence_count, False))
        self.assertEqual(part.y.tolist(), batch.target.values.tolist())
        self.assertGreater(len(part.row), part.batch_size)
        self.assertEqual(edges.shape[1], len(part.row))
        # The first are the sequences' own, which lead to their anchors and do not show their labels; the others show theirs.
        own = {int(a): int(data["customers"].row[b]) for a, b in edges.T if a < part.batch_size}
        self.assertEqual([own[i] for i in range(part.batch_size)], batch.anchor_row.tolist())
        is_null = part.x[:, -2]
        self.assertEqual((set(is_null[: part.batch_size].tolist()), set(is_null[part.batch_size :].tolist())), ({1.0}, {0.0}))

    def test_a_batch_of_another_store_is_refused(self) -> None:
        batch = self.batch("churn")

        class Other:
            hash = "0" * 64

        with self.assertRaisesRegex(ValueError, "the batch is of the store"):
            batch.hetero(Other())

    def test_a_model_learns(self) -> None:
        torch.manual_seed(0)
        data = weir.torch.Dataset(self.opened, self.changed_manifest(global_batch_size=16), dataset="shop/late/train", steps=40,
                                  transform=weir.pyg.Hetero(self.opened), copy=True)
        self.addCleanup(data.close)
        model, losses = None, []
        for graph in data:
            graph = ToUndirected()(graph)
            if model is None:
                model = Model(graph.metadata())
                with torch.no_grad():
                    model(graph)
                optimizer = torch.optim.Adam(model.parameters(), 0.01)
            loss = torch.nn.functional.binary_cross_entropy_with_logits(model(graph), graph["orders"].y.float())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        self.assertLess(sum(losses[-10:]), sum(losses[:10]))


class Model(torch.nn.Module):
    def __init__(self, metadata: Any) -> None:
        super().__init__()
        self.first = torch.nn.ModuleDict({name: Linear(-1, 16) for name in metadata[0]})
        self.convolution = HeteroConv({kind: SAGEConv((-1, -1), 16) for kind in metadata[1]})
        self.head = torch.nn.Linear(16, 1)

    def forward(self, graph: Any) -> torch.Tensor:
        nodes = {name: self.first[name](x).relu() for name, x in graph.x_dict.items()}
        nodes = self.convolution(nodes, graph.edge_index_dict)
        return self.head(nodes["orders"][: graph["orders"].batch_size].relu())[:, 0]


if __name__ == "__main__":
    unittest.main()
