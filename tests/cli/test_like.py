"""weir ingest --like: a store of new data with the numbers of an earlier one; what is left out, told and refused."""

import copy
import csv
import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from reference import blake3  # noqa: E402
from tests.support.cases import scratch_database  # noqa: E402

PROGRAM = os.environ["WEIR"]

SCHEMA = {
    "name": "shop",
    "keys": True,
    "tables": {
        "customers": {
            "primary_key": "id",
            "columns": {
                "id": {"stype": "identifier"},
                "city": {"stype": "categorical", "description": "where they live"},
                "age": {"stype": "numerical"},
            },
        },
        "orders": {
            "primary_key": "id",
            "temporal_column": "at",
            "columns": {
                "id": {"stype": "identifier"},
                "customer": {"stype": "identifier", "foreign_key": "customers.id"},
                "at": {"stype": "timestamp"},
                "total": {"stype": "numerical"},
                "paid_at": {"stype": "timestamp"},
            },
        },
    },
    "tasks": {
        "kind": {
            "query": "SELECT id, CASE WHEN total > 150 THEN 'huge' WHEN total > 50 THEN 'large' ELSE 'small' END AS kind, at FROM orders",
            "anchor_table": "orders",
            "anchor_key": "id",
            "target_column": "kind",
            "target_stype": "categorical",
            "observation_time_column": "at",
            "split": {"method": "temporal", "val": "2024-01-21", "test": "2024-01-26"},
        }
    },
    "embedding": {"provider": "hash_v1", "dim": 8},
}


def fill(path: Path, customers: int, orders: int, city: str = "Ulm") -> None:
    database = scratch_database(path)
    database.executescript(
        "CREATE TABLE customers (id INTEGER PRIMARY KEY, city TEXT, age REAL, shoe INTEGER);"
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, at TEXT, total REAL, paid_at TEXT);"
        "CREATE TABLE extras (id INTEGER PRIMARY KEY, customer INTEGER, x REAL);"
    )
    rows = [(i, ["Bonn", "Oslo", city][i % 3], 20 + i % 50, 40 + i % 5) for i in range(1, customers + 1)]
    database.executemany("INSERT INTO customers VALUES (?, ?, ?, ?)", rows)
    made = [(i, 1 + i % 20, f"2024-01-{1 + i % 30:02d}", float(i % 100), f"2024-02-{1 + i % 28:02d}") for i in range(1, orders + 1)]
    database.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?)", made)
    database.executemany("INSERT INTO extras VALUES (?, ?, ?)", [(1, 1, 0.5), (2, 3, 1.5)])
    database.commit()
    database.close()


class Like(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        fill(self.folder / "first.sqlite", 40, 300)
        self.ingest("first.sqlite", "first")

    def ingest(self, source: str, name: str, *options: str, schema: dict | None = None, ok: bool = True) -> dict:
        (self.folder / f"{name}.json").write_text(json.dumps(schema or SCHEMA))
        command = [PROGRAM, "ingest", source, "--schema", f"{name}.json", "-o", f"{name}.weir", *options, "--json"]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0 if ok else 1, done.stdout + done.stderr)
        return json.loads(done.stdout)

    def info(self, name: str) -> dict:
        done = subprocess.run([PROGRAM, "info", f"{name}.weir", "--json"], cwd=self.folder, capture_output=True, check=True)
        return json.loads(done.stdout)

    def bytes_of(self, name: str) -> bytes:
        return (self.folder / f"{name}.weir").read_bytes()

    def codes(self, report: dict) -> list[str]:
        return [warning["code"] for warning in report["warnings"] if warning["code"].startswith("like")]

    def test_the_same_data_give_the_same_store(self) -> None:
        report = self.ingest("first.sqlite", "again", "--like", "first.weir")
        self.assertEqual(self.codes(report), [])
        self.assertEqual(self.bytes_of("again"), self.bytes_of("first"))

    def test_edges_stay_where_they_are(self) -> None:
        """Columns of foreign keys that are ignored have no place in the earlier store, their edges have."""
        identifier = {"stype": "identifier", "foreign_key": "people.id"}
        schema = {
            "name": "letters",
            "tables": {
                "people": {"primary_key": "id", "columns": {"age": {"stype": "numerical"}}},
                "letters": {"primary_key": "id", "columns": {"sender": {**identifier, "stype": "ignored"}, "reader": identifier}},
            },
            "embedding": {"provider": "hash_v1", "dim": 8},
        }
        people = [(i, 20 + i) for i in range(9)]
        letters = [(i, i % 9, i * 7 % 9) for i in range(40)]
        for name, order in (("straight", "id, sender, reader"), ("turned", "reader, id, sender")):
            with scratch_database(self.folder / f"{name}.sqlite") as database:
                database.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, age REAL)")
                database.executemany("INSERT INTO people VALUES (?, ?)", people)
                database.execute(f"CREATE TABLE letters ({order.replace('id,', 'id INTEGER PRIMARY KEY,')})")
                database.executemany("INSERT INTO letters (id, sender, reader) VALUES (?, ?, ?)", letters)
        self.ingest("straight.sqlite", "straight", schema=schema)
        self.ingest("turned.sqlite", "other", schema=schema)
        self.ingest("turned.sqlite", "turned", "--like", "straight.weir", schema=schema)
        self.assertNotEqual(self.bytes_of("other"), self.bytes_of("straight"))
        self.assertEqual(self.bytes_of("turned"), self.bytes_of("straight"))

    def test_the_same_from_csv_files(self) -> None:
        os.mkdir(self.folder / "csv")
        database = scratch_database(self.folder / "first.sqlite")
        for table, columns in (("customers", "shoe, age, id, city"), ("orders", "*"), ("extras", "*")):
            found = database.execute(f"SELECT {columns} FROM {table}")
            with open(self.folder / "csv" / f"{table}.csv", "w", newline="") as file:
                writer = csv.writer(file)
                writer.writerow([name for name, *_ in found.description])
                writer.writerows(found)
        database.close()
        self.ingest("csv", "files", "--like", "first.weir")
        self.assertEqual(self.bytes_of("files"), self.bytes_of("first"))  # though the columns stand in another order

    def test_new_data_keep_what_numbers_mean(self) -> None:
        fill(self.folder / "second.sqlite", 90, 700, city="Lima")
        report = self.ingest("second.sqlite", "second", "--like", "first.weir")
        plain = self.ingest("second.sqlite", "plain")
        self.assertEqual(self.codes(report), ["like_new_categories"])
        self.assertEqual(self.codes(plain), [])
        before, after, without = self.info("first"), self.info("second"), self.info("plain")
        for name in ("statistics_until", "timestamps", "num_columns", "num_categories"):
            self.assertEqual(after[name], before[name], name)
        kept = ("column_idx", "table", "name", "stype", "known_at", "mean", "std", "count", "cat_emb_start", "cat_emb_count")
        for was, now in zip(before["columns"], after["columns"], strict=True):
            self.assertEqual({key: now[key] for key in kept if key in now}, {key: was[key] for key in kept if key in was})
        self.assertNotEqual(without["timestamps"], before["timestamps"])
        city = next(column for column in after["columns"] if column["name"] == "city")
        self.assertEqual((city["nulls"], city["cat_emb_count"]), (30, 3))  # those of Lima; Ulm has its number still

    def test_a_target_that_is_new_is_null(self) -> None:
        fill(self.folder / "second.sqlite", 40, 300)
        with scratch_database(self.folder / "second.sqlite") as database:
            database.execute("UPDATE orders SET total = 200 WHERE id <= 5")
        report = self.ingest("second.sqlite", "second", "--like", "first.weir")
        [warning] = [warning for warning in report["warnings"] if warning["code"] == "like_new_categories"]
        self.assertEqual(warning["task"], "kind")
        self.assertIn("5 targets of task kind", warning["message"])

    def test_a_seed_keeps_its_split(self) -> None:
        schema = copy.deepcopy(SCHEMA)
        schema["tasks"]["kind"]["split"].update(val="2024-01-05", test="2024-01-06")
        self.ingest("first.sqlite", "moved", schema=schema)
        self.assertNotEqual(self.info("moved")["tasks"][0]["splits"], self.info("first")["tasks"][0]["splits"])
        self.ingest("first.sqlite", "kept", "--like", "first.weir", schema=schema)
        self.assertEqual(self.bytes_of("kept"), self.bytes_of("first"))
        fill(self.folder / "second.sqlite", 40, 330)
        self.ingest("second.sqlite", "more", "--like", "first.weir", schema=schema)
        splits = self.info("more")["tasks"][0]["splits"]
        before = self.info("first")["tasks"][0]["splits"]
        # 30 new orders, one a day: 4 before the fifth, one on it, 25 after.
        self.assertEqual(splits, {"train": before["train"] + 4, "val": before["val"] + 1, "test": before["test"] + 25})

    def test_seeds_of_one_row_and_time_in_two_splits_keep_theirs(self) -> None:
        schema = copy.deepcopy(SCHEMA)
        query = "SELECT id, at, 'large' AS kind, 'train' AS part FROM orders UNION ALL SELECT id, at, 'small', 'val' FROM orders"
        schema["tasks"]["kind"].update(query=query, split={"method": "column", "column": "part"})
        self.ingest("first.sqlite", "twice", schema=schema)
        self.ingest("first.sqlite", "again", "--like", "twice.weir", schema=schema)
        self.assertEqual(self.info("again")["tasks"][0]["splits"], {"train": 300, "val": 300, "test": 0})
        self.assertEqual(self.bytes_of("again"), self.bytes_of("twice"))

    def test_without_keys_the_schema_splits(self) -> None:
        schema = copy.deepcopy(SCHEMA)
        schema["keys"] = False
        self.ingest("first.sqlite", "bare", schema=schema)
        report = self.ingest("first.sqlite", "again", "--like", "bare.weir", schema=schema)
        self.assertEqual(self.bytes_of("again"), self.bytes_of("bare"))
        self.assertIn("keeps no keys", json.dumps(report))

    def test_what_is_more_is_left_out(self) -> None:
        schema = copy.deepcopy(SCHEMA)
        schema["tables"]["extras"] = {
            "primary_key": "id",
            "columns": {"x": {"stype": "numerical"}, "customer": {"stype": "identifier", "foreign_key": "customers.id"}},
        }
        schema["tables"]["customers"]["columns"]["shoe"] = {"stype": "numerical"}
        schema["tables"]["orders"]["foreign_keys"] = [{"columns": "total", "table": "customers", "name": "odd"}]
        schema["tasks"]["other"] = {**schema["tasks"]["kind"], "drop_columns": ["extras.x"]}
        schema["tasks"]["kind"]["drop_columns"] = ["extras.x"]
        report = self.ingest("first.sqlite", "again", "--like", "first.weir", schema=schema)
        self.assertEqual(self.codes(report), ["like_left_out"] * 4)
        said = " ".join(warning["message"] for warning in report["warnings"])
        for what in ("table extras", "column customers.shoe", "foreign key orders.odd", "task other"):
            self.assertIn(f"{what} is not in first.weir", said)
        self.assertEqual(self.bytes_of("again"), self.bytes_of("first"))
        refused = self.ingest("first.sqlite", "strict", "--like", "first.weir", "--strict", schema=schema, ok=False)
        self.assertIn("like_left_out", refused["error"]["message"])
        self.assertFalse((self.folder / "strict.weir").exists())

    def test_shifted_values_are_told(self) -> None:
        with scratch_database(self.folder / "first.sqlite") as database:
            database.execute("UPDATE customers SET age = age * 100")
        report = self.ingest("first.sqlite", "again", "--like", "first.weir")
        [warning] = [warning for warning in report["warnings"] if warning["code"] == "like_shifted"]
        self.assertEqual((warning["table"], warning["column"]), ("customers", "age"))

    def refuse(self, message: str, change, code: str = "SCHEMA_INVALID", options: tuple[str, ...] = ()) -> None:
        schema = copy.deepcopy(SCHEMA)
        change(schema)
        refused = self.ingest("first.sqlite", "bad", "--like", "first.weir", *options, schema=schema, ok=False)["error"]
        self.assertEqual(refused["code_id"], code)
        self.assertIn(message, refused["message"])
        self.assertFalse((self.folder / "bad.weir").exists())

    def test_what_does_not_fit_is_refused(self) -> None:
        orders = ("tables", "orders")

        def at(schema, *path):
            for name in path:
                schema = schema[name]
            return schema

        self.refuse("column orders.total is missing", lambda s: at(s, *orders, "columns").pop("total"))
        self.refuse("column customers.age is categorical, but was numerical",
                    lambda s: at(s, "tables", "customers", "columns", "age").update(stype="categorical"))  # fmt: skip
        self.refuse("table customers is missing",
                    lambda s: (at(s, "tables").pop("customers"), at(s, *orders, "columns", "customer").pop("foreign_key")))  # fmt: skip
        self.refuse("foreign key orders.customer is missing", lambda s: at(s, *orders, "columns", "customer").pop("foreign_key"))
        self.refuse("the cells of column orders.total are known from another time on",
                    lambda s: at(s, *orders, "columns", "total").update(known_at="paid_at"))  # fmt: skip
        self.refuse("have another time", lambda s: (at(s, *orders).update(temporal_column=None), at(s, *orders, "columns", "at").update(known_at=None)))
        self.refuse("task kind is missing", lambda s: s.update(tasks={}))
        self.refuse("task kind drops other columns", lambda s: at(s, "tasks", "kind").update(drop_columns=["orders.total"]))
        self.refuse("task kind has another before_anchor", lambda s: at(s, "tasks", "kind").update(before_anchor="move"))
        self.refuse("embeddings are hash_v1 of 16 dimensions, but were hash_v1 of 8", lambda s: s["embedding"].update(dim=16))
        self.refuse("embeddings are none of 0 dimensions", lambda s: None, options=("--no-embeddings",))

    def test_labels_that_do_not_fit_are_refused(self) -> None:
        fill(self.folder / "labels.sqlite", 20, 30)

        def labelled(schema: dict, **keys) -> dict:
            schema["tasks"]["kind"].update(query="SELECT id, at, at AS seen, paid_at, at AS later, 'x' AS kind FROM orders", **keys)
            return schema

        for first, second, message in (
            ({"horizon": "1d"}, {"horizon": "2d"}, "the labels of task kind are known at another time"),
            ({"horizon": "1d"}, {"label_known_column": "paid_at"}, "the labels of task kind are known at another time"),
            ({"label_known_column": "paid_at"}, {"label_known_column": "later"}, "the labels of task kind are known at another time"),
            ({"horizon": "1d"}, {"horizon": "1d", "observation_time_column": "seen"}, "another observation_time_column"),
        ):
            self.ingest("labels.sqlite", "said", schema=labelled(copy.deepcopy(SCHEMA), **first))
            changed = labelled(copy.deepcopy(SCHEMA), **second)
            refused = self.ingest("labels.sqlite", "bad", "--like", "said.weir", schema=changed, ok=False)["error"]
            self.assertEqual(refused["code_id"], "SCHEMA_INVALID")
            self.assertIn(message, refused["message"])

    def test_a_time_through_what_is_left_out_is_refused(self) -> None:
        def change(schema):
            schema["tables"]["extras"] = {"primary_key": "id", "columns": {"x": {"stype": "timestamp", "unit": "s"}}}
            schema["tables"]["customers"]["columns"]["age"]["known_at"] = ["to_extras", "x"]
            schema["tables"]["customers"]["foreign_keys"] = [{"columns": "id", "table": "extras", "name": "to_extras"}]

        self.refuse("is a time through something that the store of --like does not have", change)

    def test_the_earlier_store_is_safe(self) -> None:
        before = self.bytes_of("first")
        for name, options in (("first", []), ("again", ["--manifest", "first.weir"])):
            refused = self.ingest("first.sqlite", name, "--like", "first.weir", *options, ok=False)["error"]
            self.assertEqual(refused["code_id"], "CONTRACT_VIOLATION")
            self.assertIn("is the store of --like", refused["message"])
        (self.folder / "cut.weir").write_bytes(before[:5000])
        self.assertEqual(self.ingest("first.sqlite", "again", "--like", "cut.weir", ok=False)["error"]["code_id"], "STORE_CORRUPT")
        self.assertEqual(self.ingest("first.sqlite", "again", "--like", "none.weir", ok=False)["error"]["code_id"], "IO_ERROR")
        self.assertEqual(self.bytes_of("first"), before)

    def test_a_store_with_one_column_many_times_is_refused(self) -> None:
        """No ingest writes such a store, but its hashes can be made right."""
        with scratch_database(self.folder / "wide.sqlite") as database:
            database.execute("CREATE TABLE wide (id INTEGER PRIMARY KEY, c1 REAL, c2 REAL, c3 REAL, c4 REAL)")
            database.execute("INSERT INTO wide VALUES (1, 1, 2, 3, 4), (2, 5, 6, 7, 8)")
        columns = {"id": {"stype": "identifier"}, **{name: {"stype": "numerical"} for name in ("c1", "c2", "c3", "c4")}}
        schema = {"name": "w", "tables": {"wide": {"primary_key": "id", "columns": columns}}}
        self.ingest("wide.sqlite", "wide", "--no-embeddings", schema=schema)
        store = bytearray(self.bytes_of("wide"))
        offset, size = struct.unpack_from("<QQ", store, 64 + 8)
        metadata = store[offset : offset + size]
        for name in (b"\x62c2", b"\x62c3", b"\x62c4"):
            metadata = metadata.replace(name, b"\x62c1")
        store[offset : offset + size] = metadata
        store[64 + 24 : 64 + 56] = blake3.plain_hash(bytes(metadata))
        frame_size = 64 + 64 * struct.unpack_from("<I", store, 12)[0]
        store[32:64] = bytes(32)
        store[32:64] = blake3.plain_hash(bytes(store[:frame_size]))
        (self.folder / "odd.weir").write_bytes(store)
        self.assertEqual([column["name"] for column in self.info("odd")["columns"]].count("c1"), 4)
        with scratch_database(self.folder / "turned.sqlite") as database:
            database.execute("CREATE TABLE wide (c1 REAL, id INTEGER PRIMARY KEY, d1 REAL, d2 REAL, d3 REAL, d4 REAL)")
        del columns["c2"], columns["c3"], columns["c4"]
        refused = self.ingest("turned.sqlite", "bad", "--like", "odd.weir", "--no-embeddings", schema=schema, ok=False)["error"]
        self.assertEqual(refused["code_id"], "SCHEMA_INVALID")
        self.assertIn("column wide.c1 is missing", refused["message"])


if __name__ == "__main__":
    unittest.main()
