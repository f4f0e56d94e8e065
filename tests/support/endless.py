"""An ingest that is told to stop while its source works on a query that does not end."""
import json
import os
import pty
import select
import signal
import subprocess
import unittest

from tests.support.processes import start
from tests.support.scan import WEIR


def read_until(terminal, word):
    """Waits until the progress line on a terminal has had a word in it."""
    shown = b""
    while word not in shown:
        if not select.select([terminal], [], [], 60)[0]:
            raise AssertionError(f"{word} did not come: {shown}")
        shown += os.read(terminal, 4096)


def check_signals(test, source, folder, query):
    """`query` has no end and gives columns id, at and y for the table t of the source."""
    schema = {"name": "endless", "tables": {"t": {"primary_key": "id", "columns": {"w": {"stype": "numerical"}}}},
              "tasks": {"y": {"query": query, "anchor_table": "t", "anchor_key": "id", "target_column": "y",
                              "target_stype": "numerical", "observation_time_column": "at",
                              "split": {"method": "hash", "permille": [600, 200, 200], "seed": 3}}}}
    path, store = os.path.join(folder, "endless.json"), os.path.join(folder, "endless.weir")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(schema, file)
    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            terminal, end = pty.openpty()
        except OSError as reason:  # a bare container without /dev/pts
            raise unittest.SkipTest(f"no terminal to be had: {reason}") from reason
        with start([WEIR, "ingest", source, "--schema", path, "-o", store, "--json"], stdout=subprocess.PIPE,
                   stderr=end) as process:
            read_until(terminal, b"tasks")
            process.send_signal(number)
            output = process.communicate(timeout=100)[0]
        test.assertEqual(json.loads(output)["error"]["code_id"], "CANCELLED", output)
        test.assertEqual(process.returncode, 128 + number)
        test.assertFalse([name for name in os.listdir(folder) if name.startswith("endless.weir")])
        os.close(terminal)
        os.close(end)
