"""`weir ingest --html`: the page in a headless Chromium: what it says, that names cannot run, small windows, both themes."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.support import browser  # noqa: E402
from tests.support.cases import scratch_database  # noqa: E402

WEIR = os.environ["WEIR"]
HOSTILE = "h</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"


def make(folder):
    database = scratch_database(folder / "shop.sqlite")
    name = HOSTILE.replace('"', '""')
    database.executescript(f"""
        CREATE TABLE "{name}" (id INTEGER PRIMARY KEY, kind TEXT);
        CREATE TABLE orders (id INTEGER PRIMARY KEY, of INTEGER REFERENCES "{name}", at TEXT, label TEXT, copy TEXT, size REAL);""")
    for i in range(20):
        database.execute(f'INSERT INTO "{name}" VALUES (?, ?)', (i, HOSTILE))
    for i in range(400):
        word = HOSTILE if i % 3 else ""
        database.execute("INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?)",
                         (i, i % 25, f"2024-{i % 12 + 1:02}-{i % 28 + 1:02}", word, word.upper(), i * 0.5))
    database.commit()
    database.close()
    kept = {"stype": "categorical"}
    schema = {"name": "shop", "tables": {
        HOSTILE: {"primary_key": "id", "columns": {"id": {"stype": "identifier"}, "kind": kept}},
        "orders": {"primary_key": "id", "temporal_column": "at", "columns": {
            "id": {"stype": "identifier"}, "of": {"stype": "identifier", "foreign_key": [HOSTILE, "id"]},
            "at": {"stype": "timestamp"}, "label": kept, "copy": kept, "size": {"stype": "numerical"}}}},
        "tasks": {"label": {"anchor_table": "orders", "target_column": "label", "target_stype": "categorical"},
                  HOSTILE: {"anchor_table": "orders", "target_column": "size", "target_stype": "numerical"},
                  "later": {"query": "SELECT id, 1735689600 AS at, id * 7919 % 101 AS other FROM orders", "anchor_table": "orders",
                            "anchor_key": "id", "target_column": "other", "target_stype": "numerical",
                            "observation_time_column": "at"}}}
    (folder / "schema.json").write_text(json.dumps(schema))
    page = folder / "page.html"
    done = subprocess.run([WEIR, "ingest", folder / "shop.sqlite", "--schema", folder / "schema.json", "-o", folder / "shop.weir",
                           "--html", page, "--json"], capture_output=True, text=True, check=True)
    return page, json.loads(done.stdout)


@unittest.skipIf(browser.missing(), browser.missing())
class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.scratch.cleanup)
        cls.page, cls.report = make(Path(cls.scratch.name))

    def test_page(self):
        """Tasks are marked by warnings of both kinds: of what is read, and of what the store then says."""
        warned = {"later": "unit_not_given", "label": "leak_suspect"}
        self.assertEqual([(warning["task"], warning["code"]) for warning in self.report["warnings"]], list(warned.items()))
        with browser.Browser(width=1280, height=900) as seen:
            seen.open(self.page)
            seen.settle()
            self.assertEqual(seen.text("#title"), "shop.weir")
            self.assertEqual(seen.text("#warnings-title"), "2 warnings")
            codes = seen.run("return [...document.querySelectorAll('#warnings .code')].map((one) => one.textContent)")
            self.assertEqual(codes, [warning["code"] for warning in self.report["warnings"]])
            self.assertEqual(seen.run("return document.querySelectorAll('.card').length"), 3)
            self.assertEqual(seen.run("return document.querySelectorAll('#tables tbody tr').length"), 2)
            names = seen.run("return [...document.querySelectorAll('.card h3')].map((one) => one.textContent)")
            self.assertEqual(names, sorted(["label", "later", HOSTILE]))
            classes = seen.run("return [...document.querySelectorAll('.classes .class')].map((one) => one.textContent)")
            self.assertEqual(classes, [HOSTILE, "(empty)"])
            odd = seen.run("return [...document.querySelectorAll('.card.is-odd h3')].map((one) => one.textContent)")
            self.assertEqual(odd, sorted(warned))
            self.assertIn("copy (AUC 1.000)", seen.text(".card.is-odd .facts"))
            self.assertNotEqual(seen.run("return document.title"), "owned")
            theme = seen.run("return document.documentElement.dataset.theme")
            seen.click(*seen.centre_of("#theme"))
            self.assertNotEqual(seen.run("return document.documentElement.dataset.theme"), theme)
            seen.click(*seen.centre_of("#help-open"))
            self.assertTrue(seen.run("return document.getElementById('help').open"))
            self.assertEqual([entry for entry in seen.logs("browser") if entry["level"] == "SEVERE"], [])

    def test_small_window(self):
        with browser.Browser(width=500, height=900) as seen:
            seen.open(self.page)
            seen.settle()
            wide = seen.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
            self.assertLessEqual(wide, 0, "the page does not fit a small window")


if __name__ == "__main__":
    unittest.main()
