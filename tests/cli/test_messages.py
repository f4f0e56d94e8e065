"""Messages of mistakes that every newcomer makes: each says what is wrong, where, and what to do."""

import contextlib
import json
import os
import subprocess
import tempfile
import unittest
import zipfile
from pathlib import Path

from tests.support.cases import scratch_database

WEIR = os.path.abspath(os.environ["WEIR"])


class Messages(unittest.TestCase):
    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)

    def run_weir(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([WEIR, *arguments], cwd=self.folder, capture_output=True, text=True, check=False)

    def refuse(self, arguments: tuple[str, ...], *parts: str) -> None:
        done = self.run_weir(*arguments)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        for part in parts:
            self.assertIn(part, done.stderr)

    # ---- Sources

    def test_a_source_that_weir_does_not_read(self) -> None:
        for command in (("schema",), ("ingest", "-o", "x.weir")):
            self.refuse((*command, "oracle://root@localhost/chinook"), "is a URL that weir does not know; weir reads SQLite files")
            self.refuse((*command, "chinook.sqlite"), "chinook.sqlite cannot be opened: No such file or directory; check the path",
                        "weir reads SQLite files")  # fmt: skip

    def test_a_table_that_the_source_does_not_have(self) -> None:
        connection = scratch_database(self.folder / "a.sqlite")
        connection.executescript("CREATE TABLE orders (id INTEGER PRIMARY KEY); CREATE VIEW lines AS SELECT * FROM orders")
        connection.close()
        columns = {"primary_key": "id", "columns": {"id": {"stype": "identifier"}}}
        for table in ("order", "lines"):
            (self.folder / "s.json").write_text(json.dumps({"name": "s", "tables": {table: columns}, "tasks": {}}))
            arguments = ("ingest", "a.sqlite", "--schema", "s.json", "-o", "x.weir")
            if table == "lines":
                self.assertEqual(self.run_weir(*arguments).returncode, 0, "a view is read as a table is")
            else:
                self.refuse(arguments, "$.tables.order is not a table or view of the source, which has lines, orders")

    def test_a_column_that_a_table_does_not_have(self) -> None:
        (self.folder / "t.csv").write_text("id;x\n1;2\n")
        columns = {"id": {"stype": "identifier"}, "x": {"stype": "numerical"}}
        schema = {"name": "s", "csv": {"delimiter": ","}, "tables": {"t": {"primary_key": "id", "columns": columns}}, "tasks": {}}
        (self.folder / "s.json").write_text(json.dumps(schema))
        self.refuse(("ingest", "t.csv", "--schema", "s.json", "-o", "x.weir"),
                    "$.tables.t.columns.x names a column that the source's table does not have; it has id;x\n")  # fmt: skip

    def test_a_table_with_a_key_that_is_null_and_times_with_decimals(self) -> None:
        with contextlib.closing(scratch_database(self.folder / "a.sqlite")) as connection:
            connection.execute("CREATE TABLE t (id INT PRIMARY KEY, at REAL)")
            connection.executemany("INSERT INTO t VALUES (?, ?)", ((1, 1700000000), (2, 1700000000.25), (None, 0)))
            connection.commit()
        columns = {"id": {"stype": "identifier"}, "at": {"stype": "timestamp", "unit": "s"}}
        schema = {"name": "s", "tables": {"t": {"primary_key": "id", "columns": columns}}, "tasks": {}}
        (self.folder / "s.json").write_text(json.dumps(schema))
        arguments = ("ingest", "a.sqlite", "--schema", "s.json", "-o", "x.weir")
        self.refuse(arguments, 'null is no primary key; leave such rows out with a "query", or choose another primary_key')
        with contextlib.closing(scratch_database(self.folder / "a.sqlite")) as connection:
            connection.execute("DELETE FROM t WHERE id IS NULL")
            connection.commit()
        self.refuse(arguments, "table t, column at, key 2: 1700000000.25 is not a time", 'an integer of the column\'s "unit"', "CAST(")

    def test_a_key_that_is_a_real_number(self) -> None:
        with contextlib.closing(scratch_database(self.folder / "a.sqlite")) as connection:
            connection.execute("CREATE TABLE t (id REAL PRIMARY KEY, x TEXT)")
            connection.executemany("INSERT INTO t VALUES (?, 'x')", ((1.5,), (2.5,)))
            connection.commit()
        columns = {"id": {"stype": "identifier"}, "x": {"stype": "text"}}
        schema = {"name": "s", "keys": True, "tables": {"t": {"primary_key": "id", "columns": columns}}, "tasks": {}}
        (self.folder / "s.json").write_text(json.dumps(schema))
        self.assertEqual(self.run_weir("ingest", "a.sqlite", "--schema", "s.json", "-o", "x.weir").returncode, 0)
        found = self.run_weir("info", "x.weir", "--key", "t", "1.5")
        self.assertEqual(found.returncode, 0, found.stderr)
        self.assertEqual(found.stdout, self.run_weir("info", "x.weir", "--key", "t", "[1.5]").stdout)
        self.refuse(("info", "x.weir", "--key", "t", "1.25"), "table t has no row with the key 1.25")
        self.refuse(("info", "x.weir", "--key", "t", "1.5x"), "table t has no row with the key 1.5x")

    def test_many_tables_are_not_all_listed(self) -> None:
        connection = scratch_database(self.folder / "a.sqlite")
        for i in range(60):
            connection.execute(f"CREATE TABLE table_number_{i:02d} (id INTEGER PRIMARY KEY)")
        connection.close()
        columns = {"primary_key": "id", "columns": {"id": {"stype": "identifier"}}}
        (self.folder / "s.json").write_text(json.dumps({"name": "s", "tables": {"t": columns}, "tasks": {}}))
        arguments = ("ingest", "a.sqlite", "--schema", "s.json", "-o", "x.weir")
        self.refuse(arguments, "which has table_number_00, table_number_01,", " more")

    def test_values_that_do_not_fit_their_type(self) -> None:
        time = "is not a time that is read here: that is 2013-01-31"
        for value, stype, parts in (
            ("NA", "numerical", ("'NA' is not a number; if it stands for null, say so with --null", '"query"')),
            ("maybe", "boolean", ("'maybe' is not a boolean: that is true or false", "categorical")),
            ("01/02/2013", "timestamp", ("'01/02/2013' " + time, '"format", such as "%d/%m/%Y"')),
            ("2013-01-02T03:05:06.123456789Z", "timestamp", (time, "(up to 6 decimals)", '"format"')),
        ):
            with self.subTest(value):
                (self.folder / "t.csv").write_text(f"id,x\n7,{value}\n")
                columns = {"id": {"stype": "identifier"}, "x": {"stype": stype}}
                schema = {"name": "s", "csv": {"null": "-"}, "tables": {"t": {"primary_key": "id", "columns": columns}}, "tasks": {}}
                (self.folder / "s.json").write_text(json.dumps(schema))
                self.refuse(("ingest", "t.csv", "--schema", "s.json", "-o", "x.weir"), "table t, column x, key 7: ", *parts)

    def test_values_that_do_not_fit_their_format(self) -> None:
        with contextlib.closing(scratch_database(self.folder / "a.sqlite")) as connection:
            connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, x TEXT)")
            connection.execute("INSERT INTO t VALUES (7, '')")
            connection.commit()
        columns = {"id": {"stype": "identifier"}, "x": {"stype": "timestamp", "format": "%Y"}}
        (self.folder / "s.json").write_text(json.dumps({"name": "s", "tables": {"t": {"primary_key": "id", "columns": columns}}, "tasks": {}}))
        self.refuse(("ingest", "a.sqlite", "--schema", "s.json", "-o", "x.weir"),
                    "column x, key 7: '' is not of the form %Y, the column's \"format\"; if it stands for null", '"query"')  # fmt: skip

    def test_types_of_targets(self) -> None:
        with contextlib.closing(scratch_database(self.folder / "a.sqlite")) as connection:
            connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, x REAL)")
        tables = {"t": {"primary_key": "id", "columns": {"id": {"stype": "identifier"}, "x": {"stype": "numerical"}}}}
        for stype, code in (("bool", "SCHEMA_INVALID"), (1, "SCHEMA_INVALID"), ("text", "TASK_INVALID"), ("ignored", "TASK_INVALID")):
            task = {"query": "SELECT id, x FROM t", "anchor_table": "t", "anchor_key": "id", "target_column": "x", "target_stype": stype}
            (self.folder / "s.json").write_text(json.dumps({"name": "s", "tables": tables, "tasks": {"a": task}}))
            self.refuse(("ingest", "a.sqlite", "--schema", "s.json", "-o", "x.weir"), f"weir: {code}: ",
                        "$.tasks.a.target_stype must be one of numerical, timestamp, boolean, categorical\n")  # fmt: skip

    def test_a_target_that_is_not_of_its_type(self) -> None:
        with contextlib.closing(scratch_database(self.folder / "a.sqlite")) as connection:
            connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)")
            connection.execute("INSERT INTO t VALUES (7)")
            connection.commit()
        tables = {"t": {"primary_key": "id", "columns": {"id": {"stype": "identifier"}}}}
        task = {"query": "SELECT id, '7,5' AS y FROM t", "anchor_table": "t", "anchor_key": "id", "target_column": "y", "target_stype": "numerical"}
        (self.folder / "s.json").write_text(json.dumps({"name": "s", "tables": tables, "tasks": {"a": task}}))
        self.refuse(("ingest", "a.sqlite", "--schema", "s.json", "-o", "x.weir"),
                    "task a: column y: '7,5' is not numerical, the target_stype; let the query make it so, or NULL")  # fmt: skip

    def test_names_of_data_are_shown_without_control_characters(self) -> None:
        with contextlib.closing(scratch_database(self.folder / "a.sqlite")) as connection:
            long = "c" * 254 + "\x9b"  # where a piece of a long text ends
            connection.execute(f'CREATE TABLE "\x1b[1mt" (id INTEGER PRIMARY KEY, "{long}" REAL, at TEXT)')
            connection.executemany('INSERT INTO "\x1b[1mt" VALUES (?, ?, ?)', ((i, i / 2, f"2024-01-{i + 1:02d}") for i in range(25)))
            connection.commit()
        self.run_weir("ingest", "a.sqlite", "-o", "a.weir", "--keep-rows")
        graph = json.loads(self.run_weir("graph", "chain", "--nodes", "3").stdout)
        for tensor in graph["tensors"]:
            tensor["id"] = "\x1b[1m" + tensor["id"]
        for node in graph["nodes"]:
            node.update({key: ["\x1b[1m" + name for name in node[key]] for key in ("inputs", "outputs")})
        graph["outputs"] = ["\x1b[1m" + name for name in graph["outputs"]]
        (self.folder / "g.json").write_text(json.dumps(graph))
        for arguments in (
            ("schema", "a.sqlite"), ("schema", "a.sqlite", "--explain"), ("ingest", "a.sqlite", "-o", "b.weir", "--base", "a.weir"),
            ("info", "b.weir"), ("plan", "g.json", "--mode", "backward"),
        ):  # fmt: skip
            done = self.run_weir(*arguments)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("[1mt", done.stdout)
            self.assertNotRegex(done.stdout + done.stderr, "[\x00-\x08\x0b-\x1f\x7f-\x9f]", arguments)

    def test_names_of_classes(self) -> None:
        with contextlib.closing(scratch_database(self.folder / "a.sqlite")) as connection:
            connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, x TEXT, y TEXT)")
            connection.executemany("INSERT INTO t VALUES (?, ?, ?)", ((i, "a" if i == 5 else "", "x" + 19 * "é") for i in range(40)))
            connection.commit()
        columns = {"id": {"stype": "identifier"}, "x": {"stype": "categorical"}, "y": {"stype": "categorical"}}
        tasks = {name: {"anchor_table": "t", "target_column": name, "target_stype": "categorical"} for name in "xy"}
        schema = {"name": "s", "tables": {"t": {"primary_key": "id", "columns": columns}}, "tasks": tasks}
        (self.folder / "s.json").write_text(json.dumps(schema))
        said = self.run_weir("ingest", "a.sqlite", "--schema", "s.json", "-o", "x.weir").stdout
        self.assertRegex(said, r"  x: \d+ train \(\(empty\): [0-9.]+ %\)")
        self.assertRegex(said, r"  y: \d+ train \(xééééééééé: 100.0 %\)")

    def test_arguments_are_shown_without_control_characters(self) -> None:
        for arguments in (("a\x1b[31mb",), ("help", "a\x1b[31mb"), ("info", "--a\x1b[31mb"), ("info", "x.weir", "a\x1b[31mb"),
                          ("info", "x.weir", "--row", "a\x1b[31mb"), ("info", "a\x1b[31mb")):  # fmt: skip
            self.refuse(arguments, "a?[31mb")
            self.assertNotIn("\x1b", self.run_weir(*arguments).stderr)

    # ---- Graphs

    def test_a_file_that_is_not_a_graph(self) -> None:
        (self.folder / "resnet18.onnx").write_bytes(b"\x7fELF")
        self.refuse(("plan", "resnet18.onnx", "--mode", "forward"), "resnet18.onnx is not an ONNX model", "export it again")
        (self.folder / "empty.onnx").write_bytes(b"\x08\x07")
        self.refuse(("plan", "empty.onnx", "--mode", "forward"), "it has no graph; export the model again")
        for data in (b"\x7fELF", b"\x00\x01", b"\x1f\x8b"):
            (self.folder / "model.bin").write_bytes(data)
            self.refuse(("plan", "model.bin", "--mode", "forward"), "model.bin is not a graph: it is neither JSON nor CBOR",
                        "ends in .onnx", "weir.plan(model, inputs)")  # fmt: skip
        with zipfile.ZipFile(self.folder / "model.pt", "w") as archive:
            archive.writestr("data.pkl", "")
        self.refuse(("plan", "model.pt", "--mode", "forward"), "model.pt is a zip archive", "torch.onnx.export")

    # ---- Plans

    def save_plan(self) -> None:
        (self.folder / "g.json").write_text(self.run_weir("graph", "chain").stdout)
        self.assertEqual(self.run_weir("plan", "g.json", "--mode", "forward", "--cbor", "g.plan").returncode, 0)

    def test_a_graph_without_a_mode(self) -> None:
        self.save_plan()
        self.refuse(("plan", "g.json"), "say what the plan is for: --mode inference, forward or backward")

    def test_a_saved_plan_is_shown(self) -> None:
        self.save_plan()
        made = json.loads(self.run_weir("plan", "g.json", "--mode", "forward", "--json").stdout)
        done = self.run_weir("plan", "g.plan", "--json", "--html", "g.html")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["plan_hash"], made["plan_hash"])
        self.assertIn(made["plan_hash"], (self.folder / "g.html").read_text())
        self.assertIn(made["plan_hash"], self.run_weir("plan", "g.plan").stdout)
        self.refuse(("plan", "g.plan", "--mode", "forward"), "g.plan is a saved plan, not a graph", "weir plan FILE --html OUT")
        self.refuse(("plan", "g.plan", "--save", "t"), "g.plan is a saved plan: it can be shown")
        (self.folder / "g.plan").write_bytes((self.folder / "g.plan").read_bytes()[:-1])
        self.refuse(("plan", "g.plan"), "CBOR_INVALID")

    # ---- Files of another format

    def make_files(self) -> dict[str, str]:
        """A file of each format, and what each is called."""
        with contextlib.closing(scratch_database(self.folder / "s.sqlite")) as connection:
            connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, at TEXT, x REAL)")
            connection.executemany("INSERT INTO t VALUES (?, ?, ?)", ((i, f"2024-01-{i + 1:02d}", i / 2) for i in range(25)))
            connection.commit()
        columns = {"id": {"stype": "identifier"}, "at": {"stype": "timestamp"}, "x": {"stype": "numerical"}}
        table = {"primary_key": "id", "temporal_column": "at", "columns": columns}
        task = {"anchor_table": "t", "target_column": "x", "target_stype": "numerical"}
        (self.folder / "s.json").write_text(json.dumps({"name": "s", "tables": {"t": table}, "tasks": {"x": task}}))
        (self.folder / "g.json").write_text(self.run_weir("graph", "chain").stdout)
        with zipfile.ZipFile(self.folder / "s.pt", "w") as archive:
            archive.writestr("data.pkl", "")
        for command in ("ingest s.sqlite --schema s.json -o s.weir", "graph chain --cbor g.cbor",
                        "plan g.json --mode forward --save s.plan",
                        "run --store s.weir --manifest s.manifest.json --steps 2 --trace s.trace --checkpoint s.ckpt"):  # fmt: skip
            done = self.run_weir(*command.split())
            self.assertEqual(done.returncode, 0, done.stderr)
        return {"s.weir": "a weir store", "s.sqlite": "an SQLite database", "s.json": "JSON", "s.trace": "a weir trace",
                "s.ckpt": "a checkpoint", "s.plan": "a saved plan", "g.cbor": "a graph", "s.pt": "a zip archive"}  # fmt: skip

    def test_one_is_not_called_many(self) -> None:
        self.make_files()
        run = self.run_weir("run", "--store", "s.weir", "--manifest", "s.manifest.json", "--steps", "1", "--trace", "1.trace")
        self.assertRegex(run.stdout, r"\Asteps 0 to 1: 1 batch, \d+ samples, ")
        self.assertIn("1 step replayed in sequence, ", self.run_weir("replay", "1.trace").stdout)
        self.assertIn("1 rank, 1 step in sequence, ", self.run_weir("merge", "1.trace").stdout)
        self.assertIn("1 step, all equal", self.run_weir("diff", "1.trace", "1.trace").stdout)

    def test_files_of_another_format_are_called_what_they_are(self) -> None:
        files = self.make_files()
        run = ("run", "--store", "s.weir", "--steps", "1")
        for wanted, arguments in (
            ("a weir store", ("info", "FILE")),
            ("a weir trace", ("replay", "FILE")),
            ("a weir trace", ("diff", "s.trace", "FILE")),
            ("a checkpoint", (*run, "--manifest", "s.manifest.json", "--resume", "FILE")),
            ("a saved plan", ("plan", "--show", "FILE")),
            ("JSON", (*run, "--manifest", "FILE")),
            ("JSON", ("ingest", "s.sqlite", "--schema", "FILE", "-o", "x.weir")),
        ):
            for name, what in files.items():
                if what != wanted:
                    shown = "it" if wanted == "a checkpoint" else name
                    with self.subTest(wanted=wanted, name=name):
                        self.refuse(tuple(name if word == "FILE" else word for word in arguments), f"{shown} is {what}", f", not {wanted}")
        for name in ("s.weir", "s.trace", "s.plan"):
            self.refuse(("plan", name, "--mode", "forward"), f"{name} is {files[name]}, not a graph")
            self.refuse(("plan", "g.json", "--mode", "forward", "--order", name), f"{name} is {files[name]}, not JSON")

    def test_files_of_the_right_format_that_are_damaged(self) -> None:
        self.make_files()
        for name, size, arguments, message in (
            ("s.weir", 3000, ("info", "cut"), "cut is not a weir store: it has only 3000 bytes"),
            ("s.weir", 0, ("info", "cut"), "cut is not a weir store: it is empty"),
            ("s.trace", -1, ("replay", "cut", "--store", "s.weir"), "cut: a record that is cut or is not canonical CBOR begins at byte"),
            ("s.ckpt", -1, ("run", "--store", "s.weir", "--manifest", "s.manifest.json", "--steps", "1", "--resume", "cut"),
             "cannot resume from cut: "),
            ("s.plan", -1, ("plan", "--show", "cut"), "CBOR_INVALID: cut: the input ends too early at byte"),
            ("g.cbor", -1, ("plan", "cut", "--mode", "forward"), "CBOR_INVALID: cut: the input ends too early at byte"),
        ):  # fmt: skip
            with self.subTest(name=name, size=size):
                (self.folder / "cut").write_bytes((self.folder / name).read_bytes()[:size])
                self.refuse(arguments, message)


if __name__ == "__main__":
    unittest.main()
