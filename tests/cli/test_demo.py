"""weir demo from the outside: the shop that it makes, the store that comes of it, and what it says.

The hash below is of the whole store file. It changes when the shop, the schema or the file format changes,
and must not change otherwise, on any machine.
"""

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

PROJECT_ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(PROJECT_ROOT), str(PROJECT_ROOT / "tests")]

from reference.store import Store  # noqa: E402
from support.store_compare import differences  # noqa: E402
from support.store_file import StoreFile  # noqa: E402

PROGRAM = os.environ.get("WEIR", str(PROJECT_ROOT / "build" / "weir"))
SCALE = 5000
STORE_HASH = "c55a89bfce19b30e12466a6761225fbbe756018e9124e99b15235a4b157921e9"
ROWS = {
    "categories": 36, "stores": 2, "employees": 11, "customers": 375, "products": 66,
    "orders": 1250, "order_items": 2745, "reviews": 656,
}  # fmt: skip
FILES = ["shop.manifest.json", "shop.schema.json", "shop.sqlite", "shop.weir"]


def run(*arguments: Any) -> subprocess.CompletedProcess[str]:
    command = [PROGRAM, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def demo(folder: Path, *more: Any) -> dict[str, Any]:
    done = run("demo", "--scale", SCALE, "--dir", folder, "--json", *more)
    if done.returncode != 0:
        raise AssertionError(f"exit status {done.returncode}: {done.stdout}{done.stderr}")
    return json.loads(done.stdout)


class Demo(unittest.TestCase):
    def setUp(self) -> None:
        self.holder = tempfile.TemporaryDirectory()
        self.folder = Path(self.holder.name) / "shop"

    def tearDown(self) -> None:
        self.holder.cleanup()

    def test_the_same_store_every_time(self) -> None:
        first = demo(self.folder)
        bytes_of_first = (self.folder / "shop.weir").read_bytes()
        second = demo(self.folder)
        self.assertEqual(first["rows"], ROWS)
        self.assertEqual(first["store_hash"], STORE_HASH)
        self.assertEqual(second["store_hash"], STORE_HASH)
        self.assertEqual((self.folder / "shop.weir").read_bytes(), bytes_of_first)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), FILES)

    def test_the_store_is_what_the_reference_says(self) -> None:
        demo(self.folder, "--no-run")
        store = Store.ingest(self.folder / "shop.sqlite", (self.folder / "shop.schema.json").read_bytes())
        self.assertEqual(differences(StoreFile(self.folder / "shop.weir"), store), [])

    def test_the_shop_has_what_real_ones_have(self) -> None:
        demo(self.folder)
        connection = sqlite3.connect(self.folder / "shop.sqlite")

        def number(sql: str) -> Any:
            return connection.execute(sql).fetchone()[0]

        for what, sql in {
            "nulls": "SELECT count(*) FROM customers WHERE birth_year IS NULL",
            "dangling keys": "SELECT count(*) FROM reviews"
            " WHERE product_id NOT IN (SELECT product_id FROM products)",
            "late parcels": "SELECT count(*) FROM orders WHERE delivered_at > promised_at",
            "orders under way": "SELECT count(*) FROM orders WHERE status = 'open' AND delivered_at IS NULL",
            "returns": "SELECT count(*) FROM order_items WHERE returned",
            "references of customers to customers": "SELECT count(referred_by) FROM customers",
        }.items():
            with self.subTest(what=what):
                self.assertGreater(number(sql), 0)
        most_sold = number("SELECT max(n) FROM (SELECT count(*) AS n FROM order_items GROUP BY product_id)")
        mean_sold = number("SELECT count(*) / count(DISTINCT product_id) FROM order_items")
        self.assertGreater(most_sold, 2 * mean_sold)
        for what, sql in {
            "orders before their customers": "SELECT count(*) FROM orders JOIN customers USING (customer_id)"
            " WHERE ordered_at < signup_at",
            "lines before their products": "SELECT count(*) FROM order_items JOIN products USING (product_id)"
            " WHERE added_at < introduced_at",
            "deliveries before their orders": "SELECT count(*) FROM orders WHERE delivered_at < ordered_at",
            "dates that are none": "SELECT count(*) FROM orders WHERE datetime(ordered_at) IS NOT ordered_at",
        }.items():
            with self.subTest(what=what):
                self.assertEqual(number(sql), 0)
        connection.close()

    def test_what_it_says(self) -> None:
        done = run("demo", "--scale", SCALE, "--dir", self.folder)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        store = str(self.folder / "shop.weir")
        for expected in (STORE_HASH, "order_items", "churn", "step 0: shop/", "steps 100 to 200:",
                         "every field and every digest is equal", "weir info", store):  # fmt: skip
            self.assertIn(expected, done.stdout)
        written = [*FILES, "shop.checkpoint", "shop.trace"]
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), sorted(written))
        self.assertNotIn("step 0", run("demo", "--scale", SCALE, "--dir", self.folder, "--no-run").stdout)

    def test_the_commands_it_names_work(self) -> None:
        printed = run("demo", "--scale", SCALE, "--dir", self.folder).stdout
        lines = [line for line in printed.split("Next:")[1].splitlines() if "weir " in line]
        commands = [line[line.index("weir ") :] for line in lines]
        self.assertTrue(any(command.startswith("weir batch --store") for command in commands))
        self.assertGreaterEqual(len(commands), 4)
        for command in commands:
            with self.subTest(command=command):
                self.assertEqual(run(*command.split()[1:]).returncode, 0)

    def test_a_database_of_somebody_else_is_kept(self) -> None:
        self.folder.mkdir()
        theirs = self.folder / "shop.sqlite"
        theirs.write_bytes(b"not a demo shop")
        done = run("demo", "--scale", SCALE, "--dir", self.folder, "--json")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(json.loads(done.stdout)["error"]["code_id"], "IO_ERROR")
        self.assertEqual(theirs.read_bytes(), b"not a demo shop")
        self.assertEqual([path.name for path in self.folder.iterdir()], ["shop.sqlite"])

    def test_other_files_of_somebody_else_are_kept(self) -> None:
        for name in ("shop.schema.json", "shop.manifest.json", "shop.weir"):
            with self.subTest(name=name), tempfile.TemporaryDirectory() as folder:
                theirs = Path(folder) / name
                theirs.write_bytes(b"{}")
                done = run("demo", "--scale", SCALE, "--dir", folder, "--json")
                self.assertEqual(done.returncode, 1)
                self.assertIn(name, json.loads(done.stdout)["error"]["message"])
                self.assertEqual(theirs.read_bytes(), b"{}")
                self.assertEqual([path.name for path in Path(folder).iterdir()], [name])

    def test_a_link_is_replaced_and_not_followed(self) -> None:
        demo(self.folder)
        elsewhere = Path(self.holder.name) / "elsewhere.json"
        elsewhere.write_text("mine")
        (self.folder / "shop.schema.json").unlink()
        (self.folder / "shop.schema.json").symlink_to(elsewhere)
        demo(self.folder)
        self.assertEqual(elsewhere.read_text(), "mine")
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), FILES)

    def test_bad_scales(self) -> None:
        for scale in ("0", "999", "1000000001", "many", "-5"):
            with self.subTest(scale=scale):
                self.assertEqual(run("demo", "--scale", scale, "--dir", self.folder).returncode, 2)
        self.assertFalse(self.folder.exists())


if __name__ == "__main__":
    unittest.main()
