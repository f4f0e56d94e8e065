"""Examples that walks find, against the engine of the Relational Transformer on the same database: which rows are visited
how often is the same in distribution.

Its wheel gives the examples in the order of their visits, without the counts. So the k-th of its examples is given the
count that the k-th of weir's has, and these counts are correlated with weir's own for the same examples.

Environments: walks
"""

import datetime
import json
import os
import random
import re
import sqlite3
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import Any

from support import ROOT, require

require("pyarrow", "ml_dtypes", "numpy")

import pyarrow  # noqa: E402

from tests.support import peer_engine  # noqa: E402

PEOPLE, PRODUCTS, ORDERS, SEEDS, HELD_OUT = 120, 40, 1500, 260, 20
START = datetime.datetime(2024, 1, 1)
WALKS, LENGTH = 100_000, 20
WEIR = os.environ.get("WEIR", str(ROOT / "build/weir"))


def made(rng: random.Random) -> dict[str, list[tuple[Any, ...]]]:
    """Orders of some people and products more than of others; seeds at times of their own, each with a target of its own."""
    orders = [(i, int(PEOPLE * rng.random() ** 2), int(PRODUCTS * rng.random() ** 2), rng.random(), START + datetime.timedelta(minutes=i))
              for i in range(ORDERS)]  # fmt: skip
    seeds = [(rng.randrange(PEOPLE), START + datetime.timedelta(minutes=200 + 4 * i, seconds=30), float(i)) for i in range(SEEDS + HELD_OUT)]
    return {"orders": orders, "seeds": seeds}


def write_sqlite(path: Path, rows: dict[str, list[tuple[Any, ...]]]) -> None:
    database = sqlite3.connect(path)
    database.executescript("""
        CREATE TABLE people (id INTEGER PRIMARY KEY, age REAL);
        CREATE TABLE products (id INTEGER PRIMARY KEY, price REAL);
        CREATE TABLE orders (id INTEGER PRIMARY KEY, person INTEGER REFERENCES people, product INTEGER REFERENCES products,
                             amount REAL, at TEXT);
        CREATE TABLE seeds (person INTEGER, at TEXT, target REAL, part TEXT);""")
    database.executemany("INSERT INTO people VALUES (?, ?)", [(i, i % 70) for i in range(PEOPLE)])
    database.executemany("INSERT INTO products VALUES (?, ?)", [(i, i * 1.5) for i in range(PRODUCTS)])
    database.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?)", [(*row[:4], row[4].isoformat()) for row in rows["orders"]])
    parts = ["train"] * SEEDS + ["val"] * HELD_OUT
    database.executemany("INSERT INTO seeds VALUES (?, ?, ?, ?)",
                         [(person, at.isoformat(), target, part) for (person, at, target), part in zip(rows["seeds"], parts)])  # fmt: skip
    database.commit()
    database.close()


def peer_dataset(folder: Path, rows: dict[str, list[tuple[Any, ...]]]) -> peer_engine.Dataset:
    moment = pyarrow.timestamp("us")
    order = list(zip(*rows["orders"]))
    tables = {
        "people": (pyarrow.table({"id": range(PEOPLE), "age": [float(i % 70) for i in range(PEOPLE)]}), "id", {}, None),
        "products": (pyarrow.table({"id": range(PRODUCTS), "price": [i * 1.5 for i in range(PRODUCTS)]}), "id", {}, None),
        "orders": (pyarrow.table({"id": order[0], "person": order[1], "product": order[2], "amount": order[3], "at": pyarrow.array(order[4], moment)}),
                   "id", {"person": "people", "product": "products"}, "at"),
    }  # fmt: skip

    def split(seeds: list[tuple[Any, ...]]) -> Any:
        columns = list(zip(*seeds))
        return pyarrow.table({"at": pyarrow.array(columns[1], moment), "person": columns[0], "target": columns[2]})

    seeds = rows["seeds"]
    task = {"entity_table": "people", "entity_col": "person", "target_col": "target", "task_type": "regression"}
    return peer_engine.Dataset(folder, tables, task, {"train": split(seeds[:SEEDS]), "val": split(seeds[SEEDS:]), "test": split(seeds[-1:])})


def weir_counts(folder: Path) -> dict[float, dict[float, int]]:
    """Visits of each example, by its target, in the context of each held-out seed, by its target."""
    columns = lambda **of: {name: {"stype": stype} for name, stype in of.items()}  # noqa: E731
    schema = {
        "name": "db", "embedding": {"provider": "hash_v1", "dim": 4},
        "tables": {
            "people": {"primary_key": "id", "columns": columns(id="identifier", age="numerical")},
            "products": {"primary_key": "id", "columns": columns(id="identifier", price="numerical")},
            "orders": {"primary_key": "id", "temporal_column": "at", "columns": {
                **columns(id="identifier", amount="numerical", at="timestamp"),
                "person": {"stype": "identifier", "foreign_key": "people.id"},
                "product": {"stype": "identifier", "foreign_key": "products.id"},
            }},
        },
        "tasks": {"target": {
            "query": "SELECT * FROM seeds", "anchor_table": "people", "anchor_key": "person", "target_column": "target",
            "target_stype": "numerical", "observation_time_column": "at", "horizon": "0s", "split": {"method": "column", "column": "part"},
        }},
    }  # fmt: skip
    (folder / "schema.json").write_text(json.dumps(schema))

    def run(*arguments: object) -> None:
        done = subprocess.run([WEIR, *map(str, arguments)], capture_output=True, text=True)
        if done.returncode != 0:
            raise AssertionError(done.stderr)

    run("ingest", folder / "db.sqlite", "--schema", folder / "schema.json", "-o", folder / "db.weir")
    manifest = json.loads((folder / "db.manifest.json").read_text())
    manifest["global_batch_size"] = HELD_OUT
    manifest["batch"] = {"sequence_length": 8192, "max_rows": 4096, "max_hops": 1, "labels": True, "label_visibility": "all",
                         "retrieval": {"walks": WALKS, "length": LENGTH, "local_cells": 1, "width": 0, "fill": False}}  # fmt: skip
    (folder / "walks.json").write_text(json.dumps(manifest))
    run("batch", "--store", folder / "db.weir", "--manifest", folder / "walks.json", "--dataset", "db/target/val", "--stage", "eval", "--html", folder / "page.html")
    page = json.loads(re.search(r'id="batch-data">(.*?)</script>', (folder / "page.html").read_text(), re.S)[1])
    found = {}
    for sequence in page["steps"][0]["sequences"]:
        rows = sequence["rows"]
        label = lambda number: float(rows[number]["cells"][0][2])  # noqa: E731
        found[label(0)] = {label(number): visits for number, visits in sequence["parts"][1:]}
    return found


def correlation(a: list[float], b: list[float]) -> float:
    import numpy

    return float(numpy.corrcoef(a, b)[0, 1])


@unittest.skipIf(peer_engine.engine() is None, "not installed: relational-transformer (pip install --no-deps relational-transformer)")
class Walks(unittest.TestCase):
    def test_visits_correlate(self) -> None:
        with tempfile.TemporaryDirectory() as holder:
            folder = Path(holder)
            rows = made(random.Random(5))
            write_sqlite(folder / "db.sqlite", rows)
            counts = weir_counts(folder)
            dataset = peer_dataset(folder / "peer", rows)
            sampler = dataset.sampler("val", WALKS, LENGTH, local_cells=4, width=1)
            compared = []
            for item in range(HELD_OUT):
                (split, row), *examples = dataset.examples(sampler, item, 4096)
                own = counts[float(row + SEEDS * (split == "val"))]
                theirs = [float(row + SEEDS * (split == "val")) for split, row in examples]
                theirs = [target for target in theirs if target in own]
                self.assertGreater(len(theirs), 0.6 * len(own), "the others are in the neighbourhoods of these")
                given = sorted((own[target] for target in theirs), reverse=True)
                common = [(own[target], given[k]) for k, target in enumerate(theirs)]
                compared.append(correlation([a for a, _ in common], [b for _, b in common]))
                mixed = random.Random(item).sample(given, len(given))
                self.assertLess(abs(correlation([a for a, _ in common], mixed)), 0.5, "any order would do")
            self.assertGreater(min(compared), 0.99, compared)


if __name__ == "__main__":
    unittest.main()
