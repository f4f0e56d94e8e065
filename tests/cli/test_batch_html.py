"""`weir batch --html`: the data that goes into the page, and the page itself in a headless Chromium."""

import json
import os
import re
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.support import browser  # noqa: E402
from tests.support.batches import PROGRAM, run  # noqa: E402
from tests.support.cases import scratch_database  # noqa: E402

HOSTILE = "h</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
SHOWN, NULL, LATE, DROPPED, LABEL, CUT, TARGET, MASKED = range(8)
EDGE_SHOWN, EDGE_LATE, EDGE_HIDDEN, EDGE_TO_LATER_ROW = range(4)

# Order 2 is the anchor of the tests below: seen on 2024-03-02, when its parcel was not sent yet, and when its note
# was. Order 4 came later, order 3 is held out, customer 7 signed up after order 1.
SQL = f"""
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, "{HOSTILE.replace('"', '""')}" TEXT, since TEXT, city TEXT);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, follows INTEGER, at TEXT, price REAL, gift BOOLEAN,
                     sent_at TEXT, courier TEXT, note TEXT, hint INTEGER);
CREATE TABLE couriers (name TEXT PRIMARY KEY, rate REAL);
INSERT INTO customers VALUES (6, 'Ada', 'x', '2024-01-01', 'Oslo'), (7, '{HOSTILE.replace("'", "''")}', NULL, '2024-03-01', 'Lima');
INSERT INTO couriers VALUES ('fast', 2.5);
INSERT INTO orders VALUES
  (1, 7, NULL, '2024-02-20', 10.25, 1, '2024-02-21', 'fast', 'first', 1),
  (2, 6, 1, '2024-03-02', 99.5, 0, '2024-03-05', 'fast', '\u202egnp.exe', 2),
  (3, 6, 2, '2024-03-01', NULL, 1, NULL, NULL, 'third', 3),
  (4, 6, 4, '2024-03-09', 5.0, 1, NULL, NULL, 'late', 4);
"""
SCHEMA = {
    "name": "shop",
    "keys": True,
    "tables": {
        "customers": {"primary_key": "id", "keys": False, "temporal_column": "since", "columns": {
            "id": {"stype": "identifier"}, "name": {"stype": "text"}, HOSTILE: {"stype": "categorical"},
            "since": {"stype": "timestamp"}, "city": {"stype": "categorical", "description": "<b>where</b>"}}},
        "couriers": {"primary_key": "name", "columns": {"name": {"stype": "identifier"}, "rate": {"stype": "numerical"}}},
        "orders": {"primary_key": "id", "temporal_column": "at", "columns": {
            "id": {"stype": "identifier"},
            "customer": {"stype": "identifier", "foreign_key": "customers.id"},
            "follows": {"stype": "identifier", "foreign_key": "orders.id"},
            "at": {"stype": "timestamp"}, "price": {"stype": "numerical"}, "gift": {"stype": "boolean"},
            "sent_at": {"stype": "timestamp"},
            "courier": {"stype": "identifier", "foreign_key": "couriers.name", "known_at": "sent_at"},
            "note": {"stype": "text"}, "hint": {"stype": "numerical"}}},
    },
    "tasks": {
        "gift": {"query": "SELECT id, gift, CASE WHEN id = 3 THEN 'val' ELSE 'train' END AS part FROM orders",
                 "anchor_table": "orders", "anchor_key": "id", "target_column": "gift", "target_stype": "boolean",
                 "split": {"method": "column", "column": "part"}, "drop_columns": ["orders.hint"]},
        "spend": {"query": "SELECT id, 12.5 AS total, '2024-03-04' AS seen, 'train' AS part FROM customers",
                  "anchor_table": "customers", "anchor_key": "id", "target_column": "total", "target_stype": "numerical",
                  "observation_time_column": "seen", "split": {"method": "column", "column": "part"}},
        "again": {"query": "SELECT id, id = 6 AS again, at AS seen, 'train' AS part FROM customers, (SELECT '2024-03-02'"
                           " AS at UNION ALL SELECT '2024-03-06' UNION ALL SELECT '2024-03-12')",
                  "anchor_table": "customers", "anchor_key": "id", "target_column": "again", "target_stype": "boolean",
                  "observation_time_column": "seen", "horizon": "4d", "split": {"method": "column", "column": "part"}},
    },
    "embedding": {"dim": 8},
}  # fmt: skip

Json = Any


def embedded(page: Path) -> Json:
    """The batch as the page carries it."""
    found = re.findall(r'<script type="application/json" id="batch-data">(.*?)</script>', page.read_text("utf-8"), re.S)
    assert len(found) == 1
    data = json.loads(found[0])
    return {**data, "sequences": [sequence for step in data["steps"] for sequence in step["sequences"]]}


def column_of(data: Json, row: Json, index: int) -> int:
    table = data["tables"][row["table"]]
    return table["columns"][index] if "columns" in table else table["column_start"] + index


class PageCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        connection = scratch_database(cls.folder / "shop.sqlite")
        connection.executescript(SQL)
        connection.close()
        (cls.folder / "schema.json").write_text(json.dumps(SCHEMA), "utf-8")
        cls.store = cls.folder / "shop.weir"
        ingested = run("ingest", cls.folder / "shop.sqlite", "--schema", cls.folder / "schema.json", "-o", cls.store)
        assert "error" not in ingested, ingested
        cls.datasets = json.loads((cls.folder / "shop.manifest.json").read_text("utf-8"))["datasets"]

    def write(self, dataset: str, *arguments: str, **config: Any) -> tuple[Path, Json]:
        """The page, and the same batch as --json gives it."""
        manifest, page = self.folder / "m.json", self.folder / "page.html"
        document = {"global_batch_size": 6, "datasets": self.datasets, "batch": {"sequence_length": 64, **config}}
        manifest.write_text(json.dumps(document))
        command = ["batch", "--store", self.store, "--manifest", manifest, "--dataset", dataset, "--html", page]
        batch = run(*command, "--tensors", *arguments)
        assert "error" not in batch, batch
        return page, batch

    def sequence_of(self, data: Json, table: str, number: int) -> int:
        """Which sequence of the page has this row for its anchor."""
        index = [t["name"] for t in data["tables"]].index(table)
        row = data["tables"][index]["row_start"] + number
        return next(i for i, s in enumerate(data["sequences"]) if s["rows"] and s["rows"][0]["row"] == row)

    def cells(self, data: Json, row: Json) -> dict[str, Json]:
        return {data["columns"][column_of(data, row, i)]["name"]: cell for i, cell in enumerate(row["cells"])}


# Columns that a float32 of (x - mean) / std does not give back as they were: zeros, many digits, a mean far away.
NUMBERS = {
    "minutes": [0, 1, -5, 12, 1301, 0, 0, 7],
    "millimetres": [0, 0.25, 0.01, 1.21, 0, 0, 0.1, 0.3],
    "milliseconds": [5514067, 5514068, 5440000, 6123456, 5999999, 5514067, 7000001, 5000000],
    "tiny": [1e-9, 2.5e-9, 3e-9, 4e-9, 5e-9, 6e-9, 7e-9, 1.25e-9],
    "far": [1e9 + 0.5, 1e9 + 0.25, 1e9, 1e9 + 1, 1e9 + 2, 1e9 + 3, 1e9 + 4, 1e9 + 5.75],
    "equal": [42, 42, 42, 42, 42, 42, 42, 42],
    "price": [19.99, 0.07, 1234.56, 100, 3.5, 12.34, 0.01, 99999.99],
    "wide": [1e12, 0, 3, 7e11, 5, 6, 7, 8],
}


class Numbers(unittest.TestCase):
    """Numbers on the page are those of the database."""

    def test_numbers_are_those_of_the_database(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            connection = scratch_database(folder / "n.sqlite")
            columns = ", ".join(f"{column} REAL" for column in NUMBERS)
            connection.execute(f"CREATE TABLE t (id INTEGER PRIMARY KEY, {columns})")
            for row in zip(range(8), *NUMBERS.values()):
                connection.execute(f"INSERT INTO t VALUES ({', '.join('?' * len(row))})", row)
            connection.commit()
            connection.close()
            schema = {
                "name": "n",
                "tables": {"t": {"primary_key": "id", "columns": {"id": {"stype": "identifier"}} | {
                    column: {"stype": "numerical"} for column in NUMBERS}}},
                "tasks": {"x": {"query": "SELECT id, minutes, 'train' AS part FROM t", "anchor_table": "t", "anchor_key": "id",
                                "target_column": "minutes", "target_stype": "numerical",
                                "split": {"method": "column", "column": "part"}}},
                "embedding": {"dim": 8},
            }  # fmt: skip
            (folder / "schema.json").write_text(json.dumps(schema))
            command = ("ingest", folder / "n.sqlite", "--schema", folder / "schema.json", "-o", folder / "n.weir")
            self.assertNotIn("error", run(*command))
            command = ("batch", "--store", folder / "n.weir", "--manifest", folder / "n.manifest.json", "--dataset", "n/x/train")
            self.assertNotIn("error", run(*command, "--html", folder / "page.html"))
            data = embedded(folder / "page.html")
            found = {}
            for sequence in data["sequences"]:
                row = sequence["rows"][0]
                found[row["row"]] = {data["columns"][i]["name"]: cell[2] for i, cell in enumerate(row["cells"])}
                self.assertEqual(sequence["target"], found[row["row"]]["minutes"])
            self.assertEqual(len(found), 8)
            for row, values in found.items():
                for column in NUMBERS.keys() - {"wide"}:
                    self.assertEqual(values[column], f"{NUMBERS[column][row]:.15g}", (column, row))
                self.assertEqual(values["id"], "", "the store keeps no keys")
            self.assertEqual([found[row]["wide"] for row in (0, 3)], ["\u2248 1000000000000", "\u2248 700000000000"])


class EmbeddedBatch(PageCase):
    """Without a browser: what is in the file."""

    def order_2(self, **config: Any) -> tuple[Json, Json]:
        page, _ = self.write("shop/gift/train", **config)
        data = embedded(page)
        return data, data["sequences"][self.sequence_of(data, "orders", 1)]

    def test_rows_have_their_keys_where_the_store_keeps_them(self) -> None:
        data, sequence = self.order_2()
        keys = {(data["tables"][row["table"]]["name"], row.get("key")) for row in sequence["rows"]}
        self.assertEqual(keys, {("orders", "1"), ("orders", "2"), ("orders", "3"), ("customers", None), ("couriers", "'fast'")})
        cells = self.cells(data, sequence["rows"][0])
        self.assertEqual([cells[name][2] for name in ("id", "follows", "courier", "customer")],
                         ["2", "\u2192 orders 1", "\u2192 couriers 'fast'", "\u2192 customers row 0"])

    def test_every_position_is_the_cell_that_the_tensors_say(self) -> None:
        labels = {"labels": True, "retrieval": {"walks": 20, "length": 5, "local_cells": 9}}
        cases = [("shop/gift/train", {}), ("shop/gift/val", {}), ("shop/spend/train", {}), ("shop/again/train", {})]
        for dataset, config in [*cases, ("shop/again/train", {"labels": True}), ("shop/again/train", labels)]:
            page, batch = self.write(dataset, "--pad", **config)
            data = embedded(page)
            length = batch["dims"]["S"]
            columns = struct.unpack(f"<{6 * length}i", bytes.fromhex(batch["tensors"]["column_ids"]["data"]))
            rows = struct.unpack(f"<{6 * length}H", bytes.fromhex(batch["tensors"]["seq_row_ids"]["data"]))
            nulls = bytes.fromhex(batch["tensors"]["is_null"]["data"])
            for number, sequence in enumerate(data["sequences"]):
                fields = batch["sequences"][number]
                self.assertEqual(len(sequence["rows"]), fields["num_rows"])
                self.assertEqual(sequence["digest"], fields["sample_digest"])
                found = {}
                for local, row in enumerate(sequence["rows"]):
                    for i, cell in enumerate(row["cells"]):
                        if cell[1] >= 0:
                            found[cell[1]] = (column_of(data, row, i), local, cell[0] in (NULL, LATE))
                first = number * length
                expected = {
                    p: (columns[first + p], rows[first + p], bool(nulls[first + p])) for p in range(fields["num_cells"])
                }
                if not data["task"]["is_cell"] and not config:
                    expected.pop(0, None)
                self.assertEqual(found, expected)

    def test_task_rows_say_when_their_label_was_known(self) -> None:
        page, batch = self.write("shop/again/train", labels=True, label_visibility="all")
        data = embedded(page)
        self.assertEqual([table["name"] for table in data["tables"] if table.get("is_task")], ["again"])
        shown = []
        for sequence in data["sequences"]:
            own, *others = [row for row in sequence["rows"] if data["tables"][row["table"]].get("is_task")]
            self.assertEqual(self.cells(data, own)["again"][:2], [TARGET, 0])
            for row in others:
                self.assertLessEqual(row["known"][1], sequence["seen"][1])
                self.assertEqual(row["parents"][0][2], EDGE_SHOWN)
                shown.append((sequence["seen"][0][:10], row["known"][0][:10]))
        self.assertEqual(set(shown), {("2024-03-06", "2024-03-06"), ("2024-03-12", "2024-03-06"), ("2024-03-12", "2024-03-10")})
        self.assertEqual(sum(s["num_rows"] for s in batch["sequences"]), sum(len(s["rows"]) for s in data["sequences"]))

    def test_a_request_is_a_task_row_of_its_own(self) -> None:
        """With labels, a context begins with its request: at its time, about its anchor, without a split unless it is a seed."""
        self.write("shop/again/train", labels=True, label_visibility="all")
        row = next(t["row_start"] for t in run("info", self.store)["tables"] if t["name"] == "customers")
        for day, split, target in (("2024-03-07", None, None), ("2024-03-12", "train", "true")):
            page = self.folder / "context.html"
            asked = run("context", "--store", self.store, "--manifest", self.folder / "m.json", "--task", "again", "--row", str(row),
                        "--time", day, "--html", page)  # fmt: skip
            data = embedded(page)
            [sequence] = data["sequences"]
            own, anchor = sequence["rows"][:2]
            self.assertEqual((anchor["row"], own["parents"][0][1]), (row, 1))
            self.assertEqual(own["time"][0][:10], day)
            self.assertEqual((own.get("split"), asked["sequences"][0]["split"]), (split, split))
            self.assertEqual("known" in own, split is not None)
            self.assertEqual(self.cells(data, own)["again"][2], target)
            self.assertEqual(sequence["target"], target)

    def test_masked_cells_are_marked(self) -> None:
        page, batch = self.write("shop/again/train", mask_permille=1000)
        tensor = bytes.fromhex(batch["tensors"]["is_masked"]["data"])
        for number, sequence in enumerate(embedded(page)["sequences"]):
            masked = {cell[1] for row in sequence["rows"] for cell in row["cells"] if cell[0] == MASKED}
            first = number * batch["dims"]["S"]
            self.assertEqual(masked, {i for i in range(batch["dims"]["S"]) if tensor[first + i]})
            self.assertTrue(masked)

    def test_examples_say_how_they_were_found(self) -> None:
        retrieval = {"walks": 40, "length": 6, "local_cells": 4, "width": 0}
        page, _ = self.write("shop/again/train", labels=True, retrieval=retrieval)
        for sequence in embedded(page)["sequences"]:
            self.assertEqual(sequence["parts"][0], [0, 0])
            visits = [visits for _, visits in sequence["parts"][1:]]
            self.assertEqual(visits, sorted(visits, reverse=True))
            self.assertEqual(bool(visits), sequence["seen"][0] >= "2024-03-06")

    def test_several_batches_are_those_that_follow_each_other(self) -> None:
        page, first = self.write("shop/gift/train", "--steps", "3")
        steps = embedded(page)["steps"]
        self.assertEqual(len(steps), 3)
        self.assertEqual(steps[0]["digest"], first["batch_digest"])
        for before, step in zip(steps, steps[1:]):
            at = ("--epoch", before["next_epoch"], "--position", before["next_position"])
            self.assertEqual((step["epoch"], step["position"]), (before["next_epoch"], before["next_position"]))
            _, alone = self.write("shop/gift/train", *at)
            self.assertEqual(step["digest"], alone["batch_digest"])
        page, _ = self.write("shop/gift/val", "--steps", "3", "--stage", "eval")
        self.assertEqual(len(embedded(page)["steps"]), 1, "the split ends after one batch")

    def test_steps_without_a_page_or_too_many(self) -> None:
        command = [PROGRAM, "batch", "--store", "s", "--manifest", "m", "--dataset", "d"]
        for arguments, what in ((["--steps", "2"], b"--steps belongs to --html"), (["--html", "x", "--steps", "0"], b"from 1 to 100"),
                                (["--html", "x", "--steps", "101"], b"from 1 to 100")):
            done = subprocess.run([*command, *arguments], capture_output=True)
            self.assertEqual(done.returncode, 2)
            self.assertIn(what, done.stderr)

    def test_the_label_distribution_is_that_of_the_dataset(self) -> None:
        page, _ = self.write("shop/gift/train")
        data = embedded(page)
        self.assertEqual(data["labels"], {"count": 3, "nulls": 0, "others": 0, "items": [["true", 2], ["false", 1]]})
        for sequence in data["sequences"]:
            self.assertEqual(data["labels"]["items"][sequence["label"]][0], sequence["target"])
        page, _ = self.write("shop/spend/train")
        self.assertEqual(embedded(page)["labels"]["items"], [["12.5", 2]])

    def test_the_command_tells_keys_from_row_numbers(self) -> None:
        manifest = self.folder / "shop.manifest.json"
        for dataset, what in (("shop/gift/train", r"orders 2 \(row \d+ of the store\)"),
                              ("shop/spend/train", r"customers row 1 \(row \d+ of the store\)")):
            command = [PROGRAM, "batch", "--store", self.store, "--manifest", manifest, "--dataset", dataset]
            self.assertRegex(subprocess.run(command, capture_output=True, text=True).stdout, what)

    def test_cells_say_why_they_are_hidden(self) -> None:
        data, sequence = self.order_2()
        anchor = self.cells(data, sequence["rows"][0])
        self.assertEqual(anchor["gift"], [TARGET, 0, "false"])
        self.assertEqual(anchor["price"][0], SHOWN)
        self.assertEqual(anchor["price"][2], "99.5")
        self.assertEqual(anchor["at"][2][:10], "2024-03-02")
        self.assertEqual(anchor["hint"][:2], [DROPPED, -1])
        self.assertEqual(anchor["sent_at"][0], LATE)
        self.assertEqual(anchor["sent_at"][3][0][:10], "2024-03-05")
        self.assertEqual(anchor["courier"][0], LATE)
        self.assertEqual(anchor["note"][2], "\u202egnp.exe")
        by_note = {self.cells(data, row)["note"][2]: self.cells(data, row) for row in sequence["rows"] if len(row["cells"]) > 6}
        self.assertNotIn("late", by_note)
        self.assertEqual(by_note["third"]["gift"][0], LABEL)
        self.assertEqual(by_note["third"]["price"][0], NULL)
        self.assertEqual(by_note["third"]["courier"][0], NULL)
        self.assertEqual(by_note["first"]["gift"][0], SHOWN)
        _, hidden = self.order_2(label_visibility="none")
        self.assertNotIn(SHOWN, [self.cells(data, row)["gift"][0] for row in hidden["rows"][1:] if len(row["cells"]) > 6])
        _, short = self.order_2(sequence_length=4)
        self.assertEqual([cell[0] for cell in short["rows"][0]["cells"]].count(CUT), 5)

    def test_foreign_keys_say_why_they_are_hidden(self) -> None:
        data, sequence = self.order_2()
        anchor = sequence["rows"][0]
        states = {data["edges"][edge]["name"]: (parent, state) for edge, parent, state, _ in anchor["parents"]}
        self.assertEqual(states["courier"][1], EDGE_LATE)
        self.assertEqual(states["follows"][1], EDGE_SHOWN)
        self.assertGreater(states["customer"][0], 0)
        first = data["sequences"][self.sequence_of(data, "orders", 0)]["rows"][0]
        states = {data["edges"][edge]["name"]: (parent, state) for edge, parent, state, _ in first["parents"]}
        self.assertEqual(states["customer"], (-1, EDGE_TO_LATER_ROW))

    def test_shown_foreign_keys_are_those_of_the_tensor(self) -> None:
        page, batch = self.write("shop/gift/train")
        rows = batch["dims"]["R"]
        adjacency = bytes.fromhex(batch["tensors"]["fk_adj"]["data"])
        for number, sequence in enumerate(embedded(page)["sequences"]):
            shown = {
                (child, edge[1])
                for child, row in enumerate(sequence["rows"])
                for edge in row["parents"]
                if edge[2] == EDGE_SHOWN and edge[1] >= 0
            }
            part = adjacency[number * rows * rows : (number + 1) * rows * rows]
            self.assertEqual(shown, {divmod(i, rows) for i, bit in enumerate(part) if bit})

    def test_texts_cannot_leave_the_data(self) -> None:
        page, _ = self.write("shop/gift/train")
        text = page.read_text("utf-8")
        self.assertEqual(len(re.findall("(?i)<script", text)), 2)
        self.assertNotIn("owned", text.replace(re.search(r'id="batch-data">(.*?)</script>', text, re.S).group(1), ""))
        self.assertIn(HOSTILE, [column["name"] for column in embedded(page)["columns"]])

    def test_asks_nothing_of_the_network(self) -> None:
        page, _ = self.write("shop/gift/train")
        text = page.read_text("utf-8")
        self.assertIn("default-src 'none'", text)
        self.assertEqual(re.findall(r"https?://(?!www\.w3\.org/2000/svg)[^\s\"']*", text), [])

    def test_a_page_that_cannot_be_written(self) -> None:
        manifest = self.folder / "shop.manifest.json"
        command = ["batch", "--store", self.store, "--manifest", manifest, "--dataset", "shop/gift/train"]
        refused = run(*command, "--html", self.folder / "no" / "such" / "folder.html")
        self.assertEqual(refused["error"]["code_id"], "IO_ERROR")

    def test_an_output_that_fails_or_names_an_input_harms_nothing(self) -> None:
        manifest = self.folder / "shop.manifest.json"
        command = [PROGRAM, "batch", "--store", self.store, "--manifest", manifest, "--dataset", "shop/gift/train"]
        link, empty = self.folder / "link", self.folder / "empty"
        link.symlink_to(self.store)
        empty.mkdir()
        before = {path: path.read_bytes() for path in (self.store, manifest)}
        for option in ("--npz", "--html"):
            for target, code in ((self.store, 2), (manifest, 2), (link, 2), (empty, 1), (self.folder / "no" / "x", 1)):
                with self.subTest(option, target=target):
                    self.assertEqual(subprocess.run([*command, option, target], capture_output=True).returncode, code)
                    self.assertEqual({path: path.read_bytes() for path in before}, before)
                    self.assertTrue(empty.is_dir())
        both = subprocess.run([*command, "--npz", "one", "--html", "one"], capture_output=True, cwd=self.folder)
        self.assertEqual(both.returncode, 2)
        self.assertFalse((self.folder / "one").exists())
        self.assertEqual([path.name for path in self.folder.iterdir() if ".tmp" in path.name], [])

    def test_a_full_disk_keeps_the_file_that_was_there(self) -> None:
        manifest, kept = self.folder / "shop.manifest.json", self.folder / "kept.npz"
        command = [PROGRAM, "batch", "--store", self.store, "--manifest", manifest, "--dataset", "shop/gift/train"]
        kept.write_text("kept")

        def limit_file_size() -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

        # If branches are counted, their counts are files that would be cut short too: elsewhere, and without a word.
        aside = {**os.environ, "GCOV_PREFIX": str(self.folder / "counts"), "GCOV_ERROR_FILE": os.devnull}
        done = subprocess.run([*command, "--npz", kept], capture_output=True, preexec_fn=limit_file_size, env=aside)
        self.assertEqual(done.stderr, f"weir: IO_ERROR: cannot write {kept}: File too large\n".encode())
        self.assertEqual(kept.read_text(), "kept")
        self.assertEqual([path.name for path in self.folder.iterdir() if ".tmp" in path.name], [])


@unittest.skipIf(browser.missing(), browser.missing())
class Page(PageCase):
    """In the browser, with a person's clicks and keys."""

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.browser = browser.Browser()
        cls.browser.__enter__()
        cls.addClassCleanup(cls.browser.__exit__)

    def open(self, dataset: str, *arguments: str, **config: Any) -> Json:
        page, _ = self.write(dataset, *arguments, **config)
        self.browser.open(page)
        self.browser.wait_until("return document.documentElement.dataset.ready")
        self.browser.settle()
        return embedded(page)

    def open_order_2(self, **config: Any) -> Json:
        data = self.open("shop/gift/train", **config)
        for _ in range(self.sequence_of(data, "orders", 1)):
            self.click("#next")
        return data["sequences"][self.sequence_of(data, "orders", 1)]

    def tearDown(self) -> None:
        self.assertEqual(self.browser.complaints(), [])
        self.assertNotIn("owned", self.browser.run("return document.title"))
        self.assertEqual(self.browser.foreign_requests(), [])

    def click(self, selector: str) -> None:
        self.browser.click(*self.browser.centre_of(selector))

    def cell(self, row: int, column: str) -> str:
        """The selector of a cell by its column's name."""
        index = self.browser.run(
            "return Array.from(document.querySelectorAll(`.card[data-row='${arguments[0]}'] .cell`))"
            ".find(c => c.querySelector('.column').textContent === arguments[1])?.dataset.cell",
            row,
            column,
        )
        self.assertIsNotNone(index, column)
        return f".card[data-row='{row}'] .cell[data-cell='{index}']"

    def test_a_card_for_every_row_and_an_arrow_for_every_key(self) -> None:
        sequence = self.open_order_2()
        self.assertEqual(
            self.browser.run("return document.querySelectorAll('.card').length"), len(sequence["rows"])
        )
        arrows = self.browser.run(
            "return Array.from(document.querySelectorAll('#arrows path[data-child]'))"
            ".map(p => [+p.dataset.child, +p.dataset.parent, +p.dataset.state])"
        )
        expected = [
            [child, edge[1], edge[2]]
            for child, row in enumerate(sequence["rows"])
            for edge in row["parents"]
            if edge[1] >= 0
        ]
        self.assertEqual(sorted(arrows), sorted(expected))
        self.assertEqual(self.browser.text(".card.is-anchor .cell.is-target .value"), "false")
        self.assertIn("observed 2024-03-02", self.browser.text("#times"))

    def test_a_label_says_why_it_is_there(self) -> None:
        retrieval = {"walks": 40, "length": 6, "local_cells": 4, "width": 0}
        data = self.open("shop/again/train", labels=True, retrieval=retrieval)
        number = max(range(6), key=lambda i: data["sequences"][i]["seen"][1])
        for _ in range(number):
            self.click("#next")
        sequence = data["sequences"][number]
        self.assertEqual(self.browser.run("return document.querySelectorAll('.card').length"), len(sequence["rows"]))
        self.assertIn("examples", self.browser.text("#stats"))
        label = next(r for r, row in enumerate(sequence["rows"]) if r > 0 and "known" in row)
        self.click(self.cell(label, "again"))
        text = self.browser.text("#selected")
        self.assertIn("shown because it was known on 2024-03-", text)
        self.assertIn("Example 1: found by walks", text)

    def test_the_labels_of_others_are_counted_with_a_reason(self) -> None:
        for labels, note, why in ((True, "known by then", "label_visibility (all)"), (False, "not asked for", '"labels": true')):
            data = self.open("shop/again/train", labels=labels, label_visibility="all")
            shown = sum(1 for row in data["sequences"][0]["rows"][1:] if data["tables"][row["table"]].get("is_task"))
            self.assertIn(f"labels of others{shown}{note}", self.browser.text("#stats"))
            title = "return [...document.querySelectorAll('#stats .stat')].at(-1).title"
            self.assertIn(why, self.browser.run(title))

    def test_hover_says_why_a_cell_is_hidden(self) -> None:
        self.open_order_2()
        self.browser.move(*self.browser.centre_of(self.cell(0, "sent_at")))
        text = self.browser.wait_until(
            "const t = document.getElementById('tooltip'); return t.checkVisibility() && t.textContent"
        )
        for part in ("2024-03-05", "Not known yet", "3 days after the observation time", "The model gets null"):
            self.assertIn(part, text)
        self.browser.move(5, 5)
        self.assertFalse(self.browser.is_shown("#tooltip"))

    def test_click_shows_a_cell_and_its_row(self) -> None:
        self.open_order_2()
        self.click(self.cell(0, "gift"))
        text = self.browser.text("#selected")
        for part in ("gift", "boolean", "position0", "anchor row", "orders 2", "Named by"):
            self.assertIn(part, text)
        self.click(self.cell(0, "hint"))
        self.assertIn("the task drops this column", self.browser.text("#selected"))
        link = self.browser.run("return document.querySelector('#selected [data-select]').textContent")
        self.click("#selected [data-select]")
        self.assertIn(link, self.browser.text("#selected h2"))
        self.assertTrue(self.browser.is_shown(".card.is-selected"))

    def test_without_what_is_hidden_the_rows_are_what_the_model_sees(self) -> None:
        self.open_order_2()
        self.assertEqual(self.browser.text(self.cell(0, "sent_at") + " .value"), "2024-03-05")
        self.click("#show-hidden")
        self.assertEqual(self.browser.text(self.cell(0, "sent_at") + " .value"), "null")
        self.assertEqual(self.browser.run("return document.querySelectorAll('.is-late.cell, .is-out.cell').length"), 0)
        self.assertEqual(self.browser.run("return document.querySelectorAll('#arrows .is-late, #arrows .is-out').length"), 0)

    def test_choosing_a_sequence(self) -> None:
        data = self.open("shop/gift/train", "--pad")
        names = []
        for number in range(len(data["sequences"])):
            self.assertEqual(self.browser.run("return document.getElementById('sequence').selectedIndex"), number)
            self.assertIn(data["sequences"][number]["digest"], self.browser.text("#hashes"))
            names.append(self.browser.run("return document.querySelector('.card.is-anchor .head')?.textContent ?? ''"))
            self.browser.press("n")
        self.assertEqual(names.count(""), 3, "three sequences are padding")
        self.assertTrue(self.browser.is_shown("#empty"))
        self.browser.press("p")
        self.assertEqual(self.browser.run("return document.getElementById('sequence').selectedIndex"), 4)

    def test_going_from_batch_to_batch(self) -> None:
        data = self.open("shop/gift/train", "--steps", "3")
        index = "return document.getElementById('sequence').selectedIndex"
        size = len(data["steps"][0]["sequences"])
        for step in data["steps"]:
            self.assertIn(step["digest"], self.browser.text("#hashes"))
            self.assertIn(f"epoch {step['epoch']}, position {step['position']}", self.browser.text("#subtitle"))
            self.browser.press("N")
        self.assertEqual(self.browser.run(index), 2 * size)
        self.browser.press("p")
        self.assertEqual(self.browser.run(index), 2 * size - 1)
        self.assertEqual(self.browser.run("return document.querySelectorAll('#sequence optgroup').length"), 3)
        self.open("shop/gift/train")
        self.assertFalse(self.browser.is_shown("#next-step"))

    def test_search_goes_to_a_cell_of_any_sequence(self) -> None:
        self.open("shop/gift/train", "--steps", "2")
        self.browser.press("/")
        self.browser.press(*"99.5")
        self.assertIn("price: 99.5", self.browser.text("#matches"))
        self.browser.press("Enter")
        self.assertEqual(self.browser.text(".cell.is-picked .value"), "99.5")
        self.assertIn("orders 2", self.browser.text("#selected"))
        self.browser.press("Escape")
        self.browser.press("/", *"no such thing")
        self.assertEqual(self.browser.text("#match-count"), "0 found")
        self.assertFalse(self.browser.is_shown("#matches"))

    def test_labels(self) -> None:
        self.open("shop/gift/train", "--steps", "2")
        self.browser.press("l")
        text = self.browser.text("#labels-view")
        for part in ("gift", "this batch", "all 2 batches", "the dataset: 3 samples", "66.7 %", "33.3 %"):
            self.assertIn(part, text)
        self.assertEqual(self.browser.run("return document.querySelectorAll('.labels .is-current').length"), 1)

    def test_what_lies_beyond_the_axis_is_counted_not_drawn(self) -> None:
        # Order 1 has nothing before it, so its axis is an hour and a half; its parcel left a day later.
        data = self.open("shop/gift/train")
        inside = (
            "const box = document.getElementById('times').getBoundingClientRect();"
            "return Array.from(document.querySelectorAll('#times text')).every(t => {"
            " const b = t.getBoundingClientRect(); return b.left >= box.left && b.right <= box.right; })"
        )
        for order, drawn, beyond in ((0, 0, "2 cells"), (1, 2, "")):
            self.browser.run("const s = document.getElementById('sequence'); s.value = arguments[0];"
                             "s.dispatchEvent(new Event('change'))", self.sequence_of(data, "orders", order))
            late = [cell for row in data["sequences"][self.sequence_of(data, "orders", order)]["rows"]
                    for cell in row["cells"] if cell[0] == LATE]
            self.assertEqual(len(late), 2)
            self.assertEqual(self.browser.run("return document.querySelectorAll('#times .late-mark').length"), drawn)
            text = self.browser.run("return document.querySelector('#times .beyond')?.textContent ?? ''")
            self.assertEqual(text, beyond)
            self.assertTrue(self.browser.run(inside), "no label is cut")

    def test_masks_before_and_after(self) -> None:
        self.open_order_2()
        self.click("#views label:nth-of-type(2)")
        drawn = self.browser.run(
            "return Array.from(document.querySelectorAll('#masks-view canvas')).map(c => {"
            " const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; let n = 0;"
            " for (let i = 3; i < d.length; i += 4) n += d[i] > 60; return [c.dataset.mask, c.dataset.after, n]; })"
        )
        self.assertEqual([mask for mask, _, _ in drawn], ["col_perm"] * 2 + ["out_perm"] * 2 + ["in_perm"] * 2)
        counts = {(mask, after): n for mask, after, n in drawn}
        for mask in ("col_perm", "out_perm", "in_perm"):
            self.assertGreater(counts[mask, "false"], 0)
            self.assertEqual(counts[mask, "false"], counts[mask, "true"], "a permutation moves cells, it makes none")
        self.browser.move(*self.browser.centre_of("canvas[data-mask='out_perm'][data-after='false']"))
        text = self.browser.wait_until(
            "const t = document.getElementById('tooltip'); return t.checkVisibility() && t.textContent"
        )
        self.assertIn("attend", text)

    def test_zoom(self) -> None:
        self.open_order_2()
        width = "return document.querySelector('.card').getBoundingClientRect().width"
        self.click("#zoom-one")
        full = self.browser.run(width)
        self.click("#zoom-out")
        self.assertLess(self.browser.run(width), full)
        self.click("#zoom-fit")
        inside = self.browser.run(
            "const s = document.getElementById('stage').getBoundingClientRect();"
            "return Array.from(document.querySelectorAll('.card')).every(c => {"
            " const b = c.getBoundingClientRect(); return b.right <= s.right + 1 && b.bottom <= s.bottom + 1; })"
        )
        self.assertTrue(inside)

    def test_hostile_names_are_only_text(self) -> None:
        data = self.open("shop/spend/train")
        for _ in range(self.sequence_of(data, "customers", 1)):
            self.click("#next")
        self.assertEqual(self.browser.text(self.cell(0, "name") + " .value"), HOSTILE)
        self.click(self.cell(0, HOSTILE))
        self.assertIn(HOSTILE, self.browser.text("#selected"))
        self.assertEqual(self.browser.run("return document.querySelectorAll('img, b:not(figcaption b)').length"), 0)
        self.assertEqual(self.browser.text(".card.is-anchor .cell.is-target .value"), "12.5")

    def test_a_rank_without_a_sequence(self) -> None:
        self.open("shop/gift/val", "--world-size", "6", "--rank", "5")
        self.assertTrue(self.browser.is_shown("#empty"))


if __name__ == "__main__":
    unittest.main()
