"""weir demo from the outside: the shop that it makes, the store that comes of it, and what it says.

The hash below is of the whole store file. It changes when the shop, the schema or the file format changes,
and must not change otherwise, on any machine.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

PROJECT_ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(PROJECT_ROOT), str(PROJECT_ROOT / "tests")]

from reference.store import Store  # noqa: E402
from support.cases import scratch_database  # noqa: E402
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
    @classmethod
    def setUpClass(cls) -> None:
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.made = Path(holder.name) / "shop"  # once: tests that begin with a shop copy it, and those that change none read it
        demo(cls.made, "--no-run")

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

    def test_a_full_disk_is_said_once(self) -> None:
        for options in ([], ["--no-run"], ["--json"]):
            with self.subTest(options=options), open("/dev/full", "w") as full:
                command = [PROGRAM, "demo", "--scale", "1000", "--dir", str(self.folder), *options]
                done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
                self.assertEqual(done.returncode, 1)
                self.assertEqual(done.stderr, "weir: IO_ERROR: cannot write the output: No space left on device\n")

    def test_the_store_is_what_the_reference_says(self) -> None:
        store = Store.ingest(self.made / "shop.sqlite", (self.made / "shop.schema.json").read_bytes())
        self.assertEqual(differences(StoreFile(self.made / "shop.weir"), store), [])

    def test_the_shop_has_what_real_ones_have(self) -> None:
        connection = scratch_database(self.made / "shop.sqlite")

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
        shop, own = printed.split("Next, with the shop:\n")[1].split("\nThen, with your own database")
        commands = [line.split("    (")[0].split() for line in shop.splitlines()]
        self.assertEqual([command[:2] for command in commands],
                         [["weir", name] for name in ("info", "batch", "run", "ingest")])  # fmt: skip
        for command in commands:
            with self.subTest(command=command):
                self.assertEqual(run(*command[1:]).returncode, 0)
        self.assertIn(b"<!doctype html", (self.folder / "batch.html").read_bytes()[:100])
        with contextlib.chdir(self.folder):  # the shop stands in for one's own
            Path("mine.sqlite").write_bytes(Path("shop.sqlite").read_bytes())
            for line in own.splitlines()[2:]:
                command = line.split("     ")[0].replace("DATASET", "shop/churn/train")
                if command.startswith("  weir init"):  # nobody is there to be asked
                    command += " --yes"
                if command.startswith("  weir batch"):  # a draft has other tasks
                    dataset = next(iter(json.loads(Path("mine.manifest.json").read_text())["datasets"]))
                    command = command.replace("shop/churn/train", dataset)
                with self.subTest(command=command):
                    done = subprocess.run(["sh", "-c", command.replace("weir ", PROGRAM + " ", 1)], capture_output=True, text=True)
                    self.assertEqual(done.returncode, 0, done.stderr)

    def test_an_edited_schema_is_kept_and_used(self) -> None:
        shutil.copytree(self.made, self.folder)
        path = self.folder / "shop.schema.json"
        schema = json.loads(path.read_text())
        del schema["tasks"]["spend"]
        edited = json.dumps(schema)
        path.write_text(edited)
        done = run("demo", "--scale", SCALE, "--dir", self.folder)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn(f"{path} was edited: it is kept", done.stdout)
        self.assertEqual(path.read_text(), edited)
        self.assertNotIn("spend", done.stdout)
        path.unlink()
        self.assertEqual(demo(self.folder, "--no-run")["store_hash"], STORE_HASH)

    def test_an_edited_manifest_is_kept_and_used(self) -> None:
        shutil.copytree(self.made, self.folder)
        path = self.folder / "shop.manifest.json"
        manifest = json.loads(path.read_text())
        manifest["global_batch_size"] = 16
        edited = json.dumps(manifest, indent=1)
        path.write_text(edited)
        done = run("demo", "--scale", SCALE, "--dir", self.folder)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn(f"{path} was edited: it is kept", done.stdout)
        self.assertIn("samples fewer than in 100 full batches: the last batch of an epoch", done.stdout)
        self.assertEqual(path.read_text(), edited)
        written = [*FILES, "shop.checkpoint", "shop.trace"]
        self.assertEqual(sorted(found.name for found in self.folder.iterdir()), sorted(written))

    def test_an_edited_manifest_of_another_store_is_kept_aside(self) -> None:
        shutil.copytree(self.made, self.folder)
        path, fresh = self.folder / "shop.manifest.json", self.folder / "shop.manifest.new.json"
        edited = path.read_text().replace('"seed": 0', '"seed": 7')
        path.write_text(edited)
        done = run("demo", "--scale", 2 * SCALE, "--dir", self.folder)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn(f"of another store than this one, whose manifest is\n{fresh}.", done.stdout)
        self.assertEqual(path.read_text(), edited)
        self.assertTrue(fresh.exists())

    def test_another_scale_makes_the_manifest_anew(self) -> None:
        shutil.copytree(self.made, self.folder)
        path = self.folder / "shop.manifest.json"
        before = path.read_text()
        done = run("demo", "--scale", 2 * SCALE, "--dir", self.folder)
        self.assertNotIn("edited", done.stdout)
        self.assertNotEqual(path.read_text(), before)
        self.assertEqual(list(self.folder.glob("*.new*")), [])

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
        shutil.copytree(self.made, self.folder)
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
