"""Contexts of 8,192 cells with 10,000 walks of 20 steps, by the engine of the Relational Transformer (the wheel
`relational-transformer`) and by weir, of one database in one run: milliseconds of processor time per context. Without the
wheel, pyarrow and ml-dtypes there is nothing to compare with, and it says so.

    pip install --no-deps relational-transformer && pip install numpy pyarrow ml-dtypes
"""

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.support import peer_engine  # noqa: E402

CELLS, WALKS, LENGTH, LOCAL_CELLS, WIDTH, CONTEXTS, ROUNDS = 8192, 10_000, 20, 256, 32, 12, 3
SHOP = ROOT / "build/bench/stores/shop_1000000"


def weir_ms() -> float:
    """Makes the shop too, if it is not there."""
    done = subprocess.run([ROOT / "build/bench/bench_labels"], capture_output=True, text=True, check=True)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return next(row["value"] for row in rows if row["name"].startswith("10,000 walks of 20 steps, 10^6 rows"))


def columns_of(database: sqlite3.Connection, query: str, times: dict[str, str]):
    """A query as an Arrow table; its times are texts, or counted in the units that are given."""
    import pyarrow
    import pyarrow.compute

    cursor = database.execute(query)
    names = [described[0] for described in cursor.description]
    columns = {name: pyarrow.array(values) for name, values in zip(names, zip(*cursor))}
    for name, unit in times.items():
        if pyarrow.types.is_string(columns[name].type):
            columns[name] = pyarrow.compute.utf8_slice_codeunits(columns[name], 0, 19)
            unit = "us"
        columns[name] = columns[name].cast(pyarrow.timestamp(unit)).cast(pyarrow.timestamp("us"))
    return pyarrow.table(columns)


def dataset(folder: Path) -> peer_engine.Dataset:
    import pyarrow

    schema = json.loads((SHOP / "labels.schema.json").read_text())
    database = sqlite3.connect(SHOP / "shop.sqlite")
    numbers = {}  # of rows by their keys: the engine takes keys that are numbers of rows alone
    for name, table in schema["tables"].items():
        key = table["primary_key"]
        rows = database.execute(f'SELECT "{key}" FROM "{name}"') if isinstance(key, str) else []
        numbers[name] = {value: number for number, (value,) in enumerate(rows)}

    def numbered(table, column: str, of: str):
        values = pyarrow.array([numbers[of].get(value) for value in table[column].to_pylist()], pyarrow.int64())
        return table.set_column(table.column_names.index(column), column, values)

    tables = {}
    for name, table in schema["tables"].items():
        columns = table["columns"]
        key = table["primary_key"] if isinstance(table["primary_key"], str) else None
        foreign_keys = {column: of["foreign_key"].split(".")[0] for column, of in columns.items() if isinstance(of.get("foreign_key"), str)}
        times = {column: of.get("unit", "s") for column, of in columns.items() if of["stype"] == "timestamp"}
        listed = ", ".join(f'"{column}"' for column in columns)
        read = columns_of(database, f'SELECT {listed} FROM "{name}"', times)
        for column, of in [*foreign_keys.items(), *([(key, name)] if key else [])]:
            read = numbered(read, column, of)
        tables[name] = (read, key, foreign_keys, table.get("temporal_column"))
    task = schema["tasks"]["churn"]
    seeds = columns_of(database, task["query"], {task["observation_time_column"]: "us"})
    seeds = numbered(seeds, task["anchor_key"], task["anchor_table"])
    seeds = seeds.rename_columns(["at" if name == task["observation_time_column"] else name for name in seeds.column_names])
    import pyarrow.compute

    seeds = seeds.sort_by("at")
    at = seeds["at"].combine_chunks()
    moments = sorted(set(at.to_pylist()))
    split = lambda lo, hi: seeds.filter(pyarrow.compute.and_(pyarrow.compute.greater_equal(at, lo), pyarrow.compute.less_equal(at, hi)))  # noqa: E731
    splits = {"train": split(moments[0], moments[-3]), "val": split(moments[-2], moments[-2]), "test": split(moments[-1], moments[-1])}
    described = {"entity_table": task["anchor_table"], "entity_col": task["anchor_key"], "target_col": task["target_column"],
                 "task_type": "binary_classification"}  # fmt: skip
    return peer_engine.Dataset(folder, tables, described, splits)


def peer_ms() -> float:
    """The engine makes a context with as many threads as it likes: processor time counts them all."""
    with tempfile.TemporaryDirectory() as holder:
        output = os.dup(1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # it prints what it reads
        try:
            sampler = dataset(Path(holder)).sampler("val", WALKS, LENGTH, LOCAL_CELLS, WIDTH)
        finally:
            os.dup2(output, 1)
        rounds = []
        for _ in range(ROUNDS + 1):  # the first warms it up
            begin = time.process_time()
            for item in range(CONTEXTS):
                sampler.batch_py(item, 1, CELLS)
            rounds.append(time.process_time() - begin)
        return min(rounds[1:]) / CONTEXTS * 1e3


def main() -> None:
    if peer_engine.engine() is None:
        print("skipped: relational-transformer, pyarrow or ml-dtypes is not installed", file=sys.stderr)
        return
    ours, theirs = weir_ms(), peer_ms()
    print(json.dumps({"name": "10,000 walks of 20 steps, 8,192 cells, 10^6 rows", "value": ours, "unit": "ms",
                      "limit": "relational-transformer", "limit_value": theirs, "ratio": ours / theirs, "bar": "at most 0.1"}))  # fmt: skip


if __name__ == "__main__":
    main()
