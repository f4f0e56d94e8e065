"""Runs every benchmark, prints one table and writes build/bench.json.

A row is a value and, if there is one, the limit or the peer that it is held against in the same run; the ratio is what counts, because machines are
noisy. Benchmarks are the programs build/bench/bench_* and the scripts bench/bench_*.py; each prints one JSON object a line.
"""

import glob
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def commands():
    for path in sorted(glob.glob(os.path.join(ROOT, "build/bench/bench_*"))):
        if os.access(path, os.X_OK) and os.path.isfile(path):
            yield [path]
    for path in sorted(glob.glob(os.path.join(ROOT, "bench/bench_*.py"))):
        yield [sys.executable, "-B", path]


def run(command):
    """The rows of one benchmark, printed as they come."""
    rows = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        for line in process.stdout:
            if line.startswith("{"):
                rows.append(json.loads(line))
                print(describe(rows[-1]), flush=True)
    if process.returncode != 0:
        sys.exit(f"{' '.join(command)} failed with {process.returncode}")
    return rows


def describe(row):
    text = f"  {row['name']:<52} {row['value']:>12.4g} {row['unit']:<10}"
    if "ratio" in row:
        text += f" {row['ratio']:>8.3g} x {row['limit']} ({row['limit_value']:.4g})"
    if "bar" in row:
        text += f"   bar: {row['bar']}"
    return text


def main():
    wanted = sys.argv[1:]
    result = {}
    for command in commands():
        name = os.path.basename(command[-1]).removesuffix(".py").removeprefix("bench_")
        if wanted and name not in wanted:
            continue
        print(name)
        result[name] = run(command)
    path = os.path.join(ROOT, "build/bench.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)
    print(f"written to {os.path.relpath(path, ROOT)}")


main()
