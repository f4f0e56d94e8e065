"""The documentation: it builds as a site without a broken link, its lists are the program's, and its examples run."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import Any

from tests.support import mariadb, postgres
from tests.support.cases import scratch_database

ROOT = Path(__file__).resolve().parents[2]
WEIR = os.environ["WEIR"]
DOCS = ROOT / "docs"
HAS_SPHINX = subprocess.run(["/usr/bin/python3", "-c", "import sphinx, myst_parser, furo"], capture_output=True).returncode == 0


def run(*command: object, **options: object) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.stdout}{done.stderr}")
    return done.stdout


def table_rows(text: str) -> list[list[str]]:
    """The cells of every line of a table."""
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines() if line.startswith("|")]


class Site(unittest.TestCase):
    def setUp(self) -> None:
        if not HAS_SPHINX:
            self.skipTest("Sphinx with MyST and Furo is not installed (tools/bootstrap docs)")

    def build(self, tree: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run([tree / "tools/docs", tree / "site"], capture_output=True, text=True)

    def test_it_builds_and_finds_what_is_broken(self) -> None:
        with tempfile.TemporaryDirectory() as holder:
            tree = Path(holder)
            for part in ("docs", "include", "python", "tools"):
                shutil.copytree(ROOT / part, tree / part, ignore=shutil.ignore_patterns("__pycache__"))
            done = self.build(tree)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            html = tree / "site/html"
            self.assertIn("weir_batch_build", (html / "reference/c-batch.html").read_text())
            self.assertIn("state_dict", (html / "reference/python-weir.html").read_text())
            self.assertTrue((html / "searchindex.js").exists())
            # The same program and settings, and of the pages only two, one with a link to nowhere.
            for page in [*(tree / "docs").rglob("*.md"), *(tree / "include").rglob("*.h")]:
                page.unlink()
            (tree / "docs/index.md").write_text("# Start\n\n```{toctree}\npage\nreference/index\n```\n")
            (tree / "docs/page.md").write_text("# Page\n\n[nowhere](no-such-page.md)\n")
            done = self.build(tree)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("no-such-page.md", done.stderr)


class Layout(unittest.TestCase):
    def test_prose_wraps_at_100(self) -> None:
        """Tables and code are as wide as they must be, and so is a line whose last word would be markup at the start of one."""
        pages = [*DOCS.rglob("*.md"), *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"))]
        too_long = []
        for page in pages:
            is_code = False
            for number, line in enumerate(page.read_text().splitlines(), 1):
                if re.match(r"\s*(```|:::)", line):
                    is_code = not is_code
                elif not is_code and len(line) > 100 and not re.match(r" *[|#]|    ", line):
                    if not re.search(r" ([-+*]|\d+\.)$", line):
                        too_long.append(f"{page.relative_to(ROOT)}:{number}")
        self.assertEqual(too_long, [])


class Lists(unittest.TestCase):
    def test_all_tensors(self) -> None:
        """In the order of the buffer."""
        lists = dict(re.findall(r"#define (WEIR_\w+\(X\)) *\\\n(.*?)\n\n", (ROOT / "include/weir/tensors.h").read_text(), re.S))
        whole = re.sub(r"WEIR_\w+\(X\)", lambda found: lists[found[0]], lists["WEIR_BATCH_TENSORS(X)"])
        declared = [(name, f"[{axes}]".replace("T", "15"), dtype)
                    for name, dtype, axes in re.findall(r"X\([A-Z_]+, (\w+), (\w+), \d+, ([A-Z, ]+)\)", whole)]  # fmt: skip
        self.assertEqual(len(declared), 20)
        rows = table_rows((DOCS / "tensors.md").read_text())
        documented = [(row[0].strip("`"), row[1], row[2]) for row in rows if len(row) == 5 and row[0].startswith("`")]
        self.assertEqual(documented, declared)
        rows = table_rows((DOCS / "python.md").read_text())
        listed = [(name, row[1]) for row in rows if row[1].startswith("[") for name in re.findall(r"`(\w+)`", row[0])]
        self.assertEqual(listed, [(name, f"{shape} {'0 or 1' if dtype == 'uint8' else dtype}") for name, shape, dtype in declared])

    def test_all_fuzz_targets(self) -> None:
        targets = {path.stem.removeprefix("fuzz_") for path in (ROOT / "tests/fuzz/targets").glob("*.c")}
        section = (ROOT / "CONTRIBUTING.md").read_text().split("### Fuzz targets")[1].split("\n## ")[0]
        listed = [row[0].strip("`") for row in table_rows(section) if row[0].startswith("`")]
        self.assertEqual(sorted(listed), sorted(targets))
        self.assertEqual({path.name for path in (ROOT / "tests/fuzz/corpus").iterdir()}, targets)

    def test_all_modules_of_the_reference(self) -> None:
        listed = re.findall(r"`(\w+\.py)`", " ".join(row[0] for row in table_rows((ROOT / "reference" / "README.md").read_text())))
        self.assertEqual(sorted(listed), sorted(path.name for path in (ROOT / "reference").glob("[!_]*.py")))

    def test_a_manifest_with_every_key(self) -> None:
        text = (DOCS / "manifest.md").read_text()
        example = re.search(r"## A manifest with every key.*?```json\n(.*?)```.*?^## What a sequence holds(.*?)^## ", text, re.M | re.S)
        with tempfile.TemporaryDirectory() as holder:
            path = Path(holder) / "every.manifest.json"
            path.write_text(example[1])
            run(WEIR, "manifest", path)
            self.check_defaults(json.loads(example[1]), path)
        manifest = json.loads(example[1])
        explained = [row[0].strip("`") for row in table_rows(example[2]) if row[0].startswith("`")]
        self.assertEqual(explained, list(manifest["batch"]))
        keys = {*manifest, *(f"data.{key}" for key in manifest["data"])} - {"data"}
        listed = {row[0].strip("`") for row in table_rows(text[: text.index("## A manifest")]) if row[0].startswith("`")}
        self.assertEqual(listed - {"data.preset"}, keys)

    def check_defaults(self, every: dict[str, Any], path: Path) -> None:
        """The manifest is the same without the keys that have defaults. (A block order that is given is in the hash.)"""
        del every["data"]["block_order"]
        shown = {key: every["batch"][key] for key in ("labels", "retrieval")}
        without = {**every, "data": {"sampling": every["data"]["sampling"]}, "batch": shown}
        said = []
        for manifest in every, without:
            path.write_text(json.dumps(manifest))
            said.append(json.loads(run(WEIR, "manifest", path, "--json")))
        self.assertEqual(said[0], said[1])

    def test_all_keys_of_a_schema(self) -> None:
        schema = json.loads(run(WEIR, "schema", "--json-schema"))
        text = (DOCS / "schema.md").read_text()
        sections = {title: body for title, body in re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", text, re.M | re.S)}
        table, entry = sections["A table"].split("An entry of")
        definitions = schema["$defs"]
        expected = {
            "the file": (sections["The file"], schema["properties"]),
            "a table": (table, definitions["table"]["properties"]),
            "a foreign key": (entry, definitions["foreign_key"]["properties"]),
            "a column": (sections["A column"], definitions["column"]["properties"]),
            "a task": (sections["A task"], definitions["task"]["properties"]),
            "embedding": (sections["Embeddings"], schema["properties"]["embedding"]["properties"]),
        }
        for what, (section, keys) in expected.items():
            with self.subTest(what):
                named = {row[0].strip("`") for row in table_rows(section) if row[0].startswith("`")}
                self.assertEqual(named, set(keys))
        for form in definitions["split"]["oneOf"]:
            for key in form["properties"]:
                self.assertIn(f"`{key}`", sections["A task"])


CUSTOMERS = [(key, ["Oslo", "Rome", "Kyiv"][key % 3], f"2023-{1 + key % 12:02d}-03 10:00:00") for key in range(40)]
ORDERS = [(key, key * 7 % 40, key * 13 % 100 + 0.5, f"2024-{1 + key * 5 % 12:02d}-{1 + key % 28:02d} 12:00:00")
          for key in range(160)]  # fmt: skip


class Tasks(unittest.TestCase):
    """The task of docs/tasks.md from each source: one store."""

    @classmethod
    def setUpClass(cls) -> None:
        text = (DOCS / "tasks.md").read_text()
        cls.schema = json.loads(re.search(r"```json\n(\{.*?)```", text, re.S)[1])
        cls.queries = dict(re.findall(r"^### (\w+).*?```sql\n(.*?)```", text, re.M | re.S))
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.folder = Path(holder.name)
        with scratch_database(cls.folder / "sales.sqlite") as database:
            database.execute("CREATE TABLE customers (customer_id INTEGER PRIMARY KEY, city TEXT, joined_at TEXT)")
            columns = "order_id INTEGER PRIMARY KEY, customer_id INTEGER, total REAL, ordered_at TEXT"
            database.execute(f"CREATE TABLE orders ({columns})")
            database.executemany("INSERT INTO customers VALUES (?, ?, ?)", CUSTOMERS)
            database.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", ORDERS)

    def ingest(self, kind: str, location: object) -> dict:
        self.schema["tasks"]["again"]["query"] = self.queries[kind]
        path = self.folder / f"{kind}.schema.json"
        path.write_text(json.dumps(self.schema))
        return json.loads(run(WEIR, "ingest", location, "--schema", path, "-o", self.folder / f"{kind}.weir", "--json"))

    def expect_same(self, report: dict) -> None:
        self.assertEqual(report["store_hash"], self.ingest("SQLite", self.folder / "sales.sqlite")["store_hash"])

    def test_sqlite(self) -> None:
        self.ingest("SQLite", self.folder / "sales.sqlite")
        self.assertEqual(sorted(json.loads((self.folder / "SQLite.manifest.json").read_text())["datasets"]),
                         ["sales/again/test", "sales/again/train", "sales/again/val"])  # fmt: skip

    def test_links(self) -> None:
        """The link task of the page, of the demo shop."""
        section = (DOCS / "tasks.md").read_text().split("## Links")[1].split("\n## ")[0]
        task = json.loads("{" + re.search(r"```json\n(.*?)```", section, re.S)[1] + "}")["buys"]
        task["query"] = re.search(r"```sql\n(.*?)```", section, re.S)[1]
        run(WEIR, "demo", "--scale", "3000", "--no-run", "--dir", self.folder / "shop")
        schema = json.loads((self.folder / "shop" / "shop.schema.json").read_text()) | {"tasks": {"buys": task}}
        path = self.folder / "buys.schema.json"
        path.write_text(json.dumps(schema))
        run(WEIR, "ingest", self.folder / "shop" / "shop.sqlite", "--schema", path, "-o", self.folder / "buys.weir")
        [told] = json.loads(run(WEIR, "info", self.folder / "buys.weir", "--json"))["tasks"]
        self.assertEqual((told["kind"], told["destination_table"]), ("link", "products"))
        self.assertTrue(all(told["splits"].values()), told)

    def test_postgres(self) -> None:
        binaries = postgres.find_binaries()
        if not binaries:
            self.skipTest("PostgreSQL's server is not installed")
        statements = ["CREATE TABLE customers (customer_id int PRIMARY KEY, city text, joined_at timestamp)",
                      "CREATE TABLE orders (order_id int PRIMARY KEY, customer_id int, total float8, ordered_at timestamp)"]  # fmt: skip
        for table, rows in (("customers", CUSTOMERS), ("orders", ORDERS)):
            statements.append(f"INSERT INTO {table} VALUES {', '.join(map(str, rows))}")
        with postgres.Server(binaries) as server:
            server.run(";\n".join(statements))
            self.expect_same(self.ingest("PostgreSQL", server.url()))

    def test_mysql(self) -> None:
        programs = mariadb.find_programs()
        if not programs:
            self.skipTest("MariaDB's server is not installed")
        statements = ["CREATE TABLE customers (customer_id int PRIMARY KEY, city text, joined_at datetime)",
                      "CREATE TABLE orders (order_id int PRIMARY KEY, customer_id int, total double, ordered_at datetime)"]  # fmt: skip
        for table, rows in (("customers", CUSTOMERS), ("orders", ORDERS)):
            statements.append(f"INSERT INTO {table} VALUES {', '.join(map(str, rows))}")
        with mariadb.Server(programs) as server:
            server.run("CREATE DATABASE sales")
            server.run(";\n".join(statements), "sales")
            self.expect_same(self.ingest("MySQL", server.url("sales")))

    def test_duckdb(self) -> None:
        try:
            import duckdb
        except ImportError:
            self.skipTest("the Python package duckdb is not installed; make check-ecosystem has it")
        path = self.folder / "sales.duckdb"
        with duckdb.connect(str(path)) as database:
            database.execute("CREATE TABLE customers (customer_id INTEGER PRIMARY KEY, city TEXT, joined_at TIMESTAMP)")
            columns = "order_id INTEGER PRIMARY KEY, customer_id INTEGER, total DOUBLE, ordered_at TIMESTAMP"
            database.execute(f"CREATE TABLE orders ({columns})")
            database.executemany("INSERT INTO customers VALUES (?, ?, ?)", CUSTOMERS)
            database.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", ORDERS)
        self.expect_same(self.ingest("DuckDB", path))


if __name__ == "__main__":
    unittest.main()
