"""Runs of rows: what is written is what the reference reads; what the reference writes becomes the store of the same rows in
SQLite, however rows are divided into files; what is damaged, cut or wrong is refused by both, and named."""

import json
import os
import random
import resource
import shutil
import sqlite3
import unittest
from pathlib import Path
from typing import Any

import weir
import weir.row_runs
from reference import row_runs
from reference.errors import WeirError
from reference.row_runs import Time
from tests.python.support import ScratchTest
from tests.python.test_arrow import Kind, time_text
from tests.support.arrow import Column, Table

ROUNDS = 8
CHURN = "SELECT id AS who, n FROM a"
SCHEMA: dict[str, Any] = {
    "name": "t",
    "tables": {
        "a": {"primary_key": ["word", "id"], "columns": {
            "id": {"stype": "identifier"}, "word": {"stype": "categorical"}, "n": {"stype": "numerical"},
            "at": {"stype": "timestamp"}, "note": {"stype": "text"}, "raw": {"stype": "ignored"}}},
        "b": {"columns": {"a_id": {"stype": "identifier"}, "n": {"stype": "numerical"}}},
        "c": {"primary_key": "id", "columns": {"id": {"stype": "identifier"}, "on": {"stype": "boolean"}}},
    },
    "tasks": {"churn": {"query": CHURN, "anchor_table": "c", "anchor_key": "who", "target_column": "n",
                        "target_stype": "numerical"}},
}  # fmt: skip


class RowRunTest(ScratchTest):
    def refuse(self, pattern: str, error: type[Exception] = weir.errors.SourceError) -> None:
        with self.assertRaisesRegex(error, pattern):
            weir.ingest("runs", "never.weir", threads=1, embeddings=False)
        with self.assertRaises(WeirError):
            row_runs.read_folder(Path("runs"))
        self.assertFalse(os.path.exists("never.weir"))


def same(a: Any, b: Any) -> bool:
    """Equal, and of one type: 1 is not 1.0, and -0.0 is not 0.0."""
    return type(a) is type(b) and repr(a) == repr(b)


class Written(RowRunTest):
    """What the extension writes."""

    def arrow_value(self, kind: Kind, value: Any) -> Any:
        """A value that SQLite would hold, as rows hold it."""
        if value is None:
            return None
        if kind.format == "b":
            return bool(value)
        if isinstance(value, float):
            return value or 0.0  # as support.arrow hands over -0.0
        if kind.format[:2] in ("td", "ts"):
            return Time(self.micros(kind.format, value))
        return value

    def micros(self, format: str, value: Any) -> int:
        unit = {"tdD": 86400 * 10**6, "tdm": 1000}.get(format)
        if unit:
            return int(value) * unit
        per_second = {"s": 1, "m": 10**3, "u": 10**6, "n": 10**9}[format[2]]
        return int(value) * 10**6 // per_second

    def test_every_type_is_read_again(self) -> None:
        for seed in range(ROUNDS):
            rng = random.Random(seed)
            kinds = [Kind(rng) for _ in range(8)]
            count = rng.choice([1, 5, 300])
            pairs = [[kind.value() for _ in range(count)] for kind in kinds]
            columns = [Column(f"c{i}", kind.format, [a for a, _ in of]) for i, (kind, of) in enumerate(zip(kinds, pairs))]
            sizes = [rng.randint(1, 100) for _ in range(3)]
            piece = weir.row_runs.write(Table(columns, sizes, seed), "runs", "t", frame_size=rng.choice([0, 1, 200]))
            weir.row_runs.commit("runs", [piece], name="t")
            _, tables, _ = row_runs.read_folder(Path("runs"))
            expected = [
                [self.arrow_value(kind, of[r][0] if kind.format[:2] in ("td", "ts") else of[r][1]) for kind, of in zip(kinds, pairs)]
                for r in range(count)
            ]
            rows = tables["t"][1]
            self.assertEqual(len(rows), count)
            for got, wanted in zip(rows, expected):
                for a, b, kind in zip(got, wanted, kinds):
                    self.assertTrue(same(a, b), (kind.format, a, b))

    def test_a_row_that_comes_too_early_begins_another_file(self) -> None:
        keys = [1, 2, 2, 9, 3, 4, 1]
        piece = weir.row_runs.write(Table([Column("id", "l", keys), Column("w", "u", list("abcdefg"))], [3]), "runs", "t", key=["id"])
        self.assertEqual([file["rows"] for file in piece["files"]], [4, 2, 1])
        weir.row_runs.commit("runs", [piece], name="t")
        _, tables, _ = row_runs.read_folder(Path("runs"))
        self.assertEqual([row[0] for row in tables["t"][1]], sorted(keys))

    def test_order_of_mixed_numbers(self) -> None:
        reals = [None, float("nan"), -float("inf"), -0.5, -0.0, 0.0, 0.25, 2.0**53, 1e300, float("inf")]
        piece = weir.row_runs.write(Table([Column("x", "g", reals)]), "runs", "t", key=["x"])
        self.assertEqual(len(piece["files"]), 1)
        weir.row_runs.commit("runs", [piece], name="t")
        row_runs.read_folder(Path("runs"))

    def test_a_full_disk_leaves_nothing_behind(self) -> None:
        """The file that could not be written cannot be closed either, since that writes what is left of it."""
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)
        keys = Column("id", "l", [*range(1000), *range(9000)])
        resource.setrlimit(resource.RLIMIT_FSIZE, (9000, limit[1]))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_FSIZE, limit)
        with self.assertRaisesRegex(OSError, "File too large"):
            weir.row_runs.write(Table([keys]), "runs", "t", key=["id"], frame_size=1000)  # its first file is whole
        self.assertEqual(os.listdir("runs"), [])

    def test_what_is_refused(self) -> None:
        with self.assertRaisesRegex(weir.errors.SourceError, "table t, column w has text that is not UTF-8"):
            weir.row_runs.write(Table([Column("w", "u", ["a", b"\xff"])]), "runs", "t")
        with self.assertRaisesRegex(weir.errors.SchemaInvalid, "there is no column id"):
            weir.row_runs.write(Table([Column("w", "u", ["a"])]), "runs", "t", key=["id"])
        with self.assertRaisesRegex(weir.errors.SchemaInvalid, "twice the column w"):
            weir.row_runs.write(Table([Column("w", "u", ["a"])]), "runs", "t", key=["w", "w"])
        with self.assertRaisesRegex(weir.errors.SourceError, "table t, column x is a list"):
            weir.row_runs.write(Table([Column("x", "+l", [None])]), "runs", "t")
        self.assertEqual(os.listdir("runs"), [])

    def test_a_folder_that_cannot_be_written(self) -> None:
        Path("file").touch()
        with self.assertRaises(OSError):
            weir.row_runs.write(Table([Column("w", "u", ["a"])]), "file", "t")

    def test_only_what_is_committed_counts(self) -> None:
        table = Table([Column("id", "l", [1, 2])])
        lost = weir.row_runs.write(table, "runs", "t", key=["id"])
        kept = weir.row_runs.write(table, "runs", "t", key=["id"])
        with self.assertRaisesRegex(weir.errors.SourceError, "runs has no row-runs.json, which is written last"):
            weir.ingest("runs", "never.weir")
        with self.assertRaisesRegex(FileNotFoundError, "not a complete one"):
            weir.assemble("runs", "never.weir")
        weir.row_runs.commit("runs", [kept], name="t")
        self.assertEqual(weir.assemble("runs", "t.weir").rows, 2)
        self.assertNotIn(lost["files"][0]["path"], os.listdir("runs"))
        other = weir.row_runs.write(Table([Column("id", "g", [1.0])]), "runs", "t", key=["id"])
        with self.assertRaisesRegex(ValueError, "different columns"):
            weir.row_runs.commit("runs", [kept, other], name="t")


def put_runs(tables: dict[str, row_runs.Table], rows: dict[str, list[list[Any]]], rng: random.Random) -> None:
    """A folder, by the reference: rows divided at random, so that files overlap."""
    shutil.rmtree("runs", ignore_errors=True)
    os.mkdir("runs")
    for name, table in tables.items():
        pieces: list[list[Any]] = [[] for _ in range(rng.choice([1, 2, 5]))]
        for row in rows[name]:
            rng.choice(pieces).append(row)
        table.files = []
        for i, piece in enumerate(pieces):
            piece.sort(key=lambda row: row_runs.order(table.key_of(row)))
            data, said = row_runs.write(table, piece, rng.choice([1, 3, 100]))
            table.files.append({"path": f"{name}-{i}.rows", **said})
            Path("runs", f"{name}-{i}.rows").write_bytes(data)
    put_list(tables)


def put_list(tables: dict[str, row_runs.Table]) -> None:
    def shown(table: row_runs.Table) -> dict[str, Any]:
        said = {"columns": table.columns, "key": table.key, "files": table.files}
        return said | ({} if table.sql is None else {"sql": table.sql})

    document = {"format": row_runs.FORMAT, "name": "t",
                "tables": {t.name: shown(t) for t in tables.values() if t.sql is None},
                "queries": {t.name: shown(t) for t in tables.values() if t.sql is not None}}  # fmt: skip
    Path("runs", "row-runs.json").write_text(json.dumps(document))


class Assembled(RowRunTest):
    """What the reference writes."""

    def make(self, rng: random.Random) -> tuple[dict[str, row_runs.Table], dict[str, list[list[Any]]]]:
        columns = {
            "a": [["id", "nothing"], ["word", "text"], ["n", "real"], ["at", "time"], ["note", "text"], ["raw", "blob"]],
            "b": [["a_id", "integer"], ["n", "numeric"]],
            "c": [["id", "integer"], ["on", "boolean"]],
            "churn": [["who", "integer"], ["n", "real"]],
        }
        words = ["", "a", "ab", "é", "x" * 300]
        ids = [*range(-5, 60), 0.5, 1e30, -1e30]
        rows: dict[str, list[list[Any]]] = {name: [] for name in columns}
        for number in rng.sample(ids, 40):
            rows["a"].append([
                number, rng.choice(words), rng.choice([None, 0.1, -0.0, 1e300, 3.0]),
                rng.choice([None, Time(rng.randint(-(10**15), 10**15))]), rng.choice([None, *words]),
                rng.choice([None, b"", b"\xff\x00"]),
            ])  # fmt: skip
        rows["b"] = [[rng.choice([None, 1, 2]), rng.choice([None, 1, 2.5])] for _ in range(60)]
        rows["c"] = [[i, rng.choice([None, True, False])] for i in range(30)]
        rows["churn"] = [[rng.randrange(40), rng.choice([None, 1.5])] for _ in range(20)]
        keys = {"a": ["word", "id"], "b": rng.choice([[], ["n"], ["n", "a_id"]]), "c": ["id"], "churn": []}
        tables = {name: row_runs.Table(name, of, keys[name], [], CHURN if name == "churn" else None) for name, of in columns.items()}
        return tables, rows

    def in_sqlite(self, tables: dict[str, row_runs.Table], rows: dict[str, list[list[Any]]]) -> str:
        Path("t.sqlite").unlink(missing_ok=True)
        connection = sqlite3.connect("t.sqlite")
        for name, table in tables.items():
            connection.execute(f'CREATE TABLE "{name}" ({", ".join(chr(34) + column + chr(34) for column, _ in table.columns)})')
            for row in rows[name]:
                cells = [time_text(value.micros) if isinstance(value, Time) else value for value in row]
                connection.execute(f'INSERT INTO "{name}" VALUES ({", ".join("?" * len(cells))})', cells)
        connection.commit()
        connection.close()
        schema = json.loads(json.dumps(SCHEMA))
        schema["tasks"]["churn"]["query"] = "SELECT * FROM churn"
        return weir.ingest("t.sqlite", "s.weir", schema=schema, manifest_mode="replace").store_hash

    def test_the_store_is_that_of_sqlite(self) -> None:
        for seed in range(ROUNDS):
            rng = random.Random(seed)
            tables, rows = self.make(rng)
            expected = self.in_sqlite(tables, rows)
            for threads in (1, 3):
                put_runs(tables, rows, rng)
                Path("runs/schema.json").write_text(json.dumps(SCHEMA))
                report = weir.assemble("runs", "t.weir", threads=threads, manifest_mode="replace")
                self.assertEqual(report.store_hash, expected)
                row_runs.read_folder(Path("runs"))

    def test_a_query_without_a_result_is_run_by_sqlite(self) -> None:
        tables, rows = self.make(random.Random(1))
        put_runs(tables, rows, random.Random(2))
        schema = json.loads(json.dumps(SCHEMA))
        schema["tasks"]["churn"]["query"] = "SELECT 1 AS who, 2.5 AS n FROM b LIMIT 3"
        self.assertEqual(weir.assemble("runs", "t.weir", schema=schema).seeds, 3)

    def test_a_duplicate_key_is_found(self) -> None:
        tables, rows = self.make(random.Random(1))
        rows["c"].append(rows["c"][3])
        put_runs(tables, rows, random.Random(2))
        with self.assertRaisesRegex(weir.errors.SchemaInvalid, "3"):
            weir.assemble("runs", "never.weir", schema=SCHEMA)


class Hostile(RowRunTest):
    def setUp(self) -> None:
        super().setUp()
        self.table = row_runs.Table("t", [["id", "integer"], ["w", "text"]], ["id"], [])
        self.rows = [[i, f"word {i}"] for i in range(7)]
        put_runs({"t": self.table}, {"t": self.rows}, random.Random(3))
        data, said = row_runs.write(self.table, self.rows, 3)
        self.put(data, said)
        self.data, self.said = data, said
        row_runs.read_folder(Path("runs"))
        weir.ingest("runs", "fine.weir", embeddings=False)

    def put(self, data: bytes, said: dict[str, Any] | None = None) -> None:
        """A file as it is, and a list that agrees with it as far as `said` does not say otherwise."""
        Path("runs/f.rows").write_bytes(data)
        self.table.files = [{"path": "f.rows", **(self.said if said is None else said)}]
        put_list({"t": self.table})

    def test_every_bit_and_every_cut(self) -> None:
        rng = random.Random(0)
        for at in range(len(self.data)):
            damaged = bytearray(self.data)
            damaged[at] ^= 1 << rng.randrange(8)
            self.put(bytes(damaged))
            self.refuse(r"runs/f\.rows")
        for size in range(0, len(self.data), 7):
            self.put(self.data[:size])
            self.refuse(r"runs/f\.rows has \d+ bytes, but row-runs.json says")
            self.put(self.data[:size], {**self.said, "size": size})
            self.refuse(r"runs/f\.rows")
        self.put(self.data + b"\0", {**self.said, "size": len(self.data) + 1})
        self.refuse(r"runs/f\.rows")

    def test_lies_with_right_hashes(self) -> None:
        lies: list[tuple[list[Any], str]] = [
            ([[2, "a"], [1, "b"]], "not sorted by their key"),
            ([[1, "a", 3]], "a row without 2 values"),
            ([[1]], "a row without 2 values"),
            ([[1, {"a": 1}]], "a value in column w that rows cannot hold"),
            ([[1, [1, 2]]], "a value in column w that rows cannot hold"),
            ([[1, ["a"]]], "a value in column w that rows cannot hold"),
            ([[2**63, "a"]], "a value in column id that rows cannot hold|without its first key"),
            ([[-(2**63) - 1, "a"]], "a value in column id that rows cannot hold|without its first key"),
        ]
        for rows, pattern in lies:
            with self.subTest(pattern=pattern, rows=rows):
                self.put(*row_runs.write(self.table, rows))
                self.refuse(pattern)

    def test_an_end_that_lies(self) -> None:
        for change in ({"rows": 6}, {"first": [1]}, {"last": [5]}, {"first": None}, {"extra": 1}):
            end = {"first": [0], "last": [6], "rows": 7, **change}
            frames = [self.table.header(), b"".join(row_runs.cbor.encode(row) for row in self.rows), row_runs.cbor.encode(end)]
            heads = [len(frame).to_bytes(4, "little") + row_runs.plain_hash(frame) for frame in frames]
            data = row_runs.MAGIC + b"".join(head + frame for head, frame in zip(heads, frames)) + heads[-1][:4]
            with self.subTest(change=change):
                hash = row_runs.plain_hash(b"".join(heads)).hex()
                self.put(data, {"rows": end["rows"], "size": len(data), "hash": hash})
                self.refuse(r"runs/f\.rows")

    def test_files_that_are_not_the_listed_ones(self) -> None:
        other, said = row_runs.write(self.table, self.rows[:3] + [[6, "else!!"]] + self.rows[4:], 3)
        self.put(other, {**said, "hash": self.said["hash"]})
        self.refuse("it has another hash|not sorted")
        self.put(row_runs.write(row_runs.Table("u", self.table.columns, ["id"], []), self.rows)[0])
        self.refuse(r"runs/f\.rows")
        self.put(self.data, {**self.said, "rows": 8})
        self.refuse("another number of rows than row-runs.json says")
        self.put(self.data)
        os.remove("runs/f.rows")
        self.refuse("No such file or directory; row-runs.json names this file", weir.errors.IoError)
        os.mkfifo("runs/f.rows")
        with self.assertRaisesRegex(weir.errors.IoError, "a device or a pipe"):
            weir.ingest("runs", "never.weir")

    def test_lists(self) -> None:
        self.put(self.data)
        good = json.loads(Path("runs/row-runs.json").read_text())
        file = good["tables"]["t"]["files"][0]

        def changed(change: Any) -> dict[str, Any]:
            document = json.loads(json.dumps(good))
            change(document, document["tables"]["t"])
            return document

        wrong: list[Any] = [
            [], {}, {**good, "format": "weir-run/2"}, {**good, "more": 1}, {**good, "name": ""}, {**good, "tables": {}},
            {**good, "tables": []}, {**good, "queries": []},
            changed(lambda d, t: t.pop("key")), changed(lambda d, t: t.update(more=1)), changed(lambda d, t: t.update(key=["x"])),
            changed(lambda d, t: t.update(key=["id", "id"])), changed(lambda d, t: t.update(columns=[])),
            changed(lambda d, t: t.update(columns=[["id", "integer"]] * 2)), changed(lambda d, t: t.update(columns=[["id", "int"]])),
            changed(lambda d, t: t.update(columns=[["id"]])), changed(lambda d, t: t.update(files={})),
            changed(lambda d, t: t.update(files=[file, file])), changed(lambda d, t: t.update(files=[{**file, "path": "../f.rows"}])),
            changed(lambda d, t: t.update(files=[{**file, "path": ".f"}])), changed(lambda d, t: t.update(files=[{**file, "size": -1}])),
            changed(lambda d, t: t.update(files=[{**file, "rows": "7"}])), changed(lambda d, t: t.update(files=[{**file, "hash": "00"}])),
            changed(lambda d, t: d["queries"].update(q=t)),
            changed(lambda d, t: d["queries"].update(q={**t, "files": [], "sql": "x"}, p={**t, "files": [], "sql": "x"})),
        ]  # fmt: skip
        for document in wrong:
            with self.subTest(document=document):
                Path("runs/row-runs.json").write_text(json.dumps(document))
                self.refuse(r"runs/row-runs.json is not a list of weir-run/1: \$")
        Path("runs/row-runs.json").write_text("{")
        self.refuse("runs/row-runs.json:1:")
        Path("runs/row-runs.json").write_text('{"a": 1, "a": 2}')
        self.refuse("runs/row-runs.json:1:")


if __name__ == "__main__":
    unittest.main()
