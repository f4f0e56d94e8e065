"""Spark: how fast two executors scan a Parquet table and write it as runs, beside one. Each is a process with one core, and
has nothing to do but this. In time of the clock, which says something if the machine has a core for each and one for the
driver, and in processor time: rows per second of the executor that worked longest, which is what a machine with free cores
would show. The best of three, after one that warms up. pyspark is not Debian's: without it nothing is measured."""

import json
import os
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "build/python"))
ROWS = 3_000_000
FILES = 12  # each is a task
TICKS = os.sysconf("SC_CLK_TCK")


def report(name, value, unit, limit, limit_value):
    print(json.dumps({"name": name, "value": value, "unit": unit, "limit": limit, "limit_value": limit_value,
                      "ratio": value / limit_value}), flush=True)  # fmt: skip


def put_table(folder):
    import numpy
    import pyarrow
    import pyarrow.parquet

    rng = numpy.random.default_rng(0)
    words = pyarrow.array(["red", "green", "blue", "a longer word", "äpfel"])
    os.mkdir(folder)
    count = ROWS // FILES
    for i in range(FILES):
        table = pyarrow.table({
            "id": numpy.arange(i * count, (i + 1) * count), "x": rng.random(count), "y": rng.integers(0, 1000, count, dtype="int32"),
            "at": pyarrow.array(numpy.arange(count) * 1_000_000, pyarrow.timestamp("us", "UTC")), "ok": rng.random(count) < 0.5,
            "word": words.take(pyarrow.array(rng.integers(0, len(words), count))),
        })  # fmt: skip
        pyarrow.parquet.write_table(table, f"{folder}/{i}.parquet")


def processes():
    """Of each process: its parent, and the ticks that it and those of its children that ended have used."""
    found = {}
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                fields = file.read().rsplit(")", 1)[1].split()
            found[int(name)] = int(fields[1]), sum(int(field) for field in fields[11:15])
        except (OSError, ValueError):
            continue
    return found


def executors():
    """The seconds of processor time of each executor of this process, with what it started."""
    found = processes()
    seconds = {}
    for pid in found:
        at, above = pid, None
        while at in found and at != os.getpid():
            if is_executor(at):
                above = at
            at = found[at][0]
        if above is not None and at == os.getpid():
            seconds[above] = seconds.get(above, 0) + found[pid][1] / TICKS
    return seconds


def is_executor(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return b"CoarseGrainedExecutorBackend" in file.read()
    except OSError:
        return False


def measure(count):
    """Rows per second of the clock, and per second of processor time of the executor that worked longest; and the seconds of all."""
    import shutil

    import weir.spark
    from pyspark.sql import SparkSession

    settings = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.ui.enabled": "false",
                "spark.ui.showConsoleProgress": "false", "spark.sql.files.openCostInBytes": "128m",
                "spark.local.dir": os.getcwd(), "spark.executorEnv.PYTHONPATH": os.path.join(ROOT, "build/python")}  # fmt: skip
    builder = SparkSession.builder.master(f"local-cluster[{count},1,1024]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    runs = []
    for _ in range(4):
        began, before = time.monotonic(), executors()
        weir.spark.write(spark, {"t": spark.read.parquet("t")}, "t.runs")
        clock = time.monotonic() - began
        used = [seconds - before.get(pid, 0) for pid, seconds in executors().items()]
        runs.append((clock, max(used), sum(used)))
        shutil.rmtree("t.runs")
    spark.stop()
    return [min(run[i] for run in runs[1:]) for i in range(3)]


def main():
    try:
        import pyspark  # noqa: F401
    except ImportError:
        print("skipped: pyspark is not installed", file=sys.stderr)
        return
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        put_table("t")
        one, two = measure(1), measure(2)
        os.chdir(ROOT)
    report("spark_two_executors", ROWS / two[0], "rows/s", "one executor", ROWS / one[0])
    report("spark_two_executors_processor_time", ROWS / two[1], "rows/s", "one executor", ROWS / one[1])
    report("spark_work_of_two_executors", two[2], "s of processor", "one executor", one[2])


if __name__ == "__main__":
    main()
