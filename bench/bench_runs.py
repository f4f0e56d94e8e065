"""Runs of rows: what it costs to write a shop's tables as runs and to assemble them, beside ingest of the same rows from
SQLite; docs/scale.md computes with these. In processor time of one thread, bytes per row, and peak memory per byte of the
store. pyarrow is not Debian's: without it nothing is measured."""

import importlib.util
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "build/python"))
PROGRAM = os.path.join(ROOT, "build/weir")
SCALE = 1_000_000
TYPES = {"TEXT": "string", "INTEGER": "int64", "REAL": "float64", "DATE": "string", "TIMESTAMP": "string", "BOOLEAN": "int64"}


def report(name, value, unit, limit, limit_value):
    print(json.dumps({"name": name, "value": value, "unit": unit, "limit": limit, "limit_value": limit_value,
                      "ratio": value / limit_value}), flush=True)  # fmt: skip


def run(*arguments):
    """The processor time in seconds and the peak memory in bytes of the program."""
    process = subprocess.Popen([PROGRAM, *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"weir {' '.join(arguments)} failed")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def write_runs(schema):
    """Rows, bytes, and seconds of processor time for the tables; the queries' results are written too. In a process of its
    own: the peak of a program counts what its parent held when it was started."""
    import pyarrow
    import weir.row_runs

    database = sqlite3.connect("shop.sqlite")
    pieces, rows, seconds = [], 0, 0.0
    for name, table in schema["tables"].items():
        key = table["primary_key"] if isinstance(table["primary_key"], list) else [table["primary_key"]]
        declared = database.execute(f"PRAGMA table_info({name})").fetchall()
        found = database.execute(f"SELECT * FROM {name} ORDER BY {', '.join(key)}").fetchall()
        columns = {column[1]: pyarrow.array([row[c] for row in found], TYPES[column[2]]) for c, column in enumerate(declared)}
        begin = time.process_time()
        pieces.append(weir.row_runs.write(pyarrow.table(columns), "shop.runs", name, key=key))
        seconds += time.process_time() - begin
        rows += len(found)
    size = sum(file["size"] for piece in pieces for file in piece["files"])
    for name, task in schema["tasks"].items():
        cursor = database.execute(task["query"])
        found = cursor.fetchall()
        columns = {column[0]: pyarrow.array([row[c] for row in found]) for c, column in enumerate(cursor.description)}
        pieces.append(weir.row_runs.write(pyarrow.table(columns), "shop.runs", name, sql=task["query"]))
    weir.row_runs.commit("shop.runs", pieces, name="shop", schema=schema)
    return rows, size, seconds


def main():
    if importlib.util.find_spec("pyarrow") is None:
        print("skipped: pyarrow is not installed", file=sys.stderr)
        return
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        run("demo", "--scale", str(SCALE), "--dir", ".", "--no-run")
        with open("shop.schema.json", encoding="utf-8") as file, ProcessPoolExecutor(1) as other:
            rows, size, writing = other.submit(write_runs, json.load(file)).result()
        direct, direct_peak = run("ingest", "shop.sqlite", "--schema", "shop.schema.json", "-o", "direct.weir", "--threads", "1")
        merged, merged_peak = run("assemble", "shop.runs", "-o", "merged.weir", "--threads", "1")
        store = os.path.getsize("merged.weir")
        if open("merged.weir", "rb").read() != open("direct.weir", "rb").read():
            sys.exit("the stores differ")
        os.chdir(ROOT)
    report("runs_write", 1e6 * writing / rows, "us a row", "ingest from SQLite", 1e6 * direct / rows)
    report("runs_assemble", 1e6 * merged / rows, "us a row", "ingest from SQLite", 1e6 * direct / rows)
    report("runs_size", size / rows, "bytes a row", "the store", store / rows)
    report("runs_assemble_peak", merged_peak / rows, "bytes a row", "the store", store / rows)
    report("ingest_peak", direct_peak / rows, "bytes a row", "the store", store / rows)


if __name__ == "__main__":
    main()
