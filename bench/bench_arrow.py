"""Arrow in: a table of a Parquet file through Arrow's C stream interface, beside pyarrow alone, which reads the same
columns and drops them. In processor time of one thread each, the best of several; the read phase is what passes until the
next one begins. The limit above pyarrow's own: of each row 38 bytes are written (a key and its presence, three
numbers, a boolean, the number of a word), 76 MB in all, in memory that the system must clear first; in huge pages both
are a tenth of what pyarrow needs, if the system has such pages free. On a machine whose memory is full of cached files it
must make them, which took 2 to 20 times as long; so a second row compares with pyarrow that keeps what it reads, as ingest
does. pyarrow is not Debian's: without it nothing is measured."""

import json
import os
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "build/python"))
ROWS = 2_000_000
SCHEMA = {"tables": {"t": {"primary_key": "id", "columns": {
    "x": {"stype": "numerical"}, "y": {"stype": "numerical"}, "at": {"stype": "timestamp"}, "ok": {"stype": "boolean"},
    "word": {"stype": "categorical"}}}}}  # fmt: skip


def report(name, value, unit, limit, limit_value):
    print(json.dumps({"name": name, "value": value, "unit": unit, "limit": limit, "limit_value": limit_value,
                      "ratio": value / limit_value}), flush=True)  # fmt: skip


def timed(work):
    begin = time.process_time()
    work()
    return time.process_time() - begin


def main():
    try:
        import numpy
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        print("skipped: pyarrow is not installed", file=sys.stderr)
        return
    import weir

    pyarrow.set_cpu_count(1)
    pyarrow.set_io_thread_count(1)
    rng = numpy.random.default_rng(0)
    words = pyarrow.array(["red", "green", "blue", "a longer word that is no inline view", "äpfel"])
    table = pyarrow.table({
        "id": numpy.arange(ROWS), "x": rng.random(ROWS), "y": rng.integers(0, 1000, ROWS, dtype="int32"),
        "at": pyarrow.array(numpy.arange(ROWS) * 1_000_000, pyarrow.timestamp("us")), "ok": rng.random(ROWS) < 0.5,
        "word": words.take(pyarrow.array(rng.integers(0, len(words), ROWS))),
    })  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        pyarrow.parquet.write_table(table, "t.parquet")
        del table

        def reader():
            file = pyarrow.parquet.ParquetFile("t.parquet")
            return pyarrow.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches(65536, use_threads=False))

        def drop_all():
            for _ in reader():
                pass

        def keep_all():
            reader().read_all()

        def scan():
            weir.ingest({"t": reader}, "t.weir", schema=SCHEMA, threads=1, embeddings=False)

        def scan_reading():
            """The seconds until the rows are read."""
            begin, end = time.process_time(), []

            def ends_after_reading(progress):
                if progress.phase != "read":
                    end.append(time.process_time())
                return not end

            try:
                weir.ingest({"t": reader}, "t.weir", schema=SCHEMA, threads=1, embeddings=False, progress=ends_after_reading)
            except weir.Error:  # it was ended
                pass
            return end[0] - begin

        whole = min(timed(scan) for _ in range(3))
        # in turns, so that a machine that is busy for a while slows both
        alone, kept, parts = (min(each) for each in zip(*((timed(drop_all), timed(keep_all), scan_reading()) for _ in range(15))))
        report("arrow_read_phase", ROWS / parts, "rows/s", "pyarrow alone, the same columns", ROWS / alone)
        report("arrow_read_phase_kept", ROWS / parts, "rows/s", "pyarrow alone, the same columns as a table", ROWS / kept)
        report("arrow_whole_ingest", ROWS / whole, "rows/s", "pyarrow alone, the same columns", ROWS / alone)


if __name__ == "__main__":
    main()
