"""Tables in Arrow's C stream interface: the store of the same rows in SQLite, whatever their types and batches; the
streams that are opened and what is kept of them; what is refused. (tests/ecosystem has the libraries that people use.)"""

import datetime
import os
import random
import sqlite3
import struct
import unittest
from decimal import Decimal
from pathlib import Path
from typing import Any

import weir
from tests.python.support import ScratchTest
from tests.support.arrow import Column, Table

EPOCH = datetime.datetime(1970, 1, 1)
WORDS = ["", "a", "red", "green tea", "Äpfel", "日本", "nul\0x", "a text of more than twelve bytes", "7", "x" * 40]
INTEGERS = {"c": 8, "s": 16, "i": 32, "l": 64, "C": 8, "S": 16, "I": 32, "L": 64}
ROUNDS = 25


def float_of(bits: int, rng: random.Random) -> float:
    value = rng.choice([0.0, -0.0, 0.1, 1.5, -3e4, 65504.0, 6e-8, rng.gauss(0, 10)])
    letter = {16: "e", 32: "f", 64: "d"}[bits]
    result: float = struct.unpack(letter, struct.pack(letter, value))[0]
    return result


def clock_text(value: int, unit: int) -> str:
    second, fraction = divmod(value, unit)
    text = f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
    return text + f".{fraction:0{len(str(unit)) - 1}d}".rstrip("0") if fraction else text


def time_text(micros: int) -> str:
    return (EPOCH + datetime.timedelta(microseconds=micros)).isoformat(sep=" ")


def exact(value: Decimal) -> Any:
    is_integer = value == value.to_integral_value() and -(2**63) <= value < 2**63
    return int(value) if is_integer else float(value)


class Kind:
    """A type of Arrow's with its semantic type, and values as Arrow and as SQLite hold them."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.format, self.stype, self.declared = rng.choice([*self.choices()])

    def choices(self) -> Any:
        for format in INTEGERS:
            yield format, self.rng.choice(["numerical", "identifier", "categorical", "text"]), "INTEGER"
        for format in ("e", "f", "g"):
            yield format, "numerical", "REAL"
        yield "b", self.rng.choice(["boolean", "numerical"]), "BOOLEAN"
        for format in ("u", "U", "vu"):
            yield format, self.rng.choice(["categorical", "text", "identifier"]), "TEXT"
        for format in ("d:9,2,32", "d:18,3,64", "d:38,4", "d:38,-3", "d:76,20,256", "d:60,-2,256"):
            yield format, self.rng.choice(["numerical", "categorical"]), "NUMERIC"
        for format in ("tdD", "tdm", "tss:", "tsm:UTC", "tsu:", "tsn:Europe/Berlin"):
            yield format, "timestamp", "TEXT"
        for format in ("tts", "ttm", "ttu", "ttn"):
            yield format, "categorical", "TEXT"
        yield "tDm", "numerical", "INTEGER"
        yield "n", "numerical", ""

    def value(self) -> tuple[Any, Any]:
        """One value for Arrow and for SQLite."""
        rng, format = self.rng, self.format
        if format == "n" or rng.random() < 0.15:
            return None, None
        if format in INTEGERS or format == "tDm":
            bits = INTEGERS.get(format, 64)
            low, high = (0, 2**bits - 1) if format.isupper() else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
            number = rng.choice([rng.randint(0, 9), rng.randint(0, 9), rng.randint(low, high), low, high])
            return number, number if number < 2**63 else float(number)
        if format in ("e", "f", "g"):
            return (number := float_of({"e": 16, "f": 32, "g": 64}[format], rng)), number
        if format == "b":
            return (flag := rng.random() < 0.5), int(flag)
        if format in ("u", "U", "vu"):
            return (word := rng.choice(WORDS)), word
        if format[:2] == "d:":
            precision, scale = (int(part) for part in format[2:].split(",")[:2])
            digits = rng.choice([2, 3, precision])
            number = Decimal(rng.randint(-(10**digits) + 1, 10**digits - 1)).scaleb(-scale)
            return number, exact(number)
        if format[:2] == "tt":
            unit = {"s": 1, "m": 10**3, "u": 10**6, "n": 10**9}[format[2]]
            clock = rng.choice([rng.randrange(86400 * unit), rng.randrange(86400) * unit, 86400 * unit])
            return clock, clock_text(clock, unit)
        return self.time()

    def time(self) -> tuple[Any, Any]:
        rng, format = self.rng, self.format
        if format[:2] == "td":
            day = rng.randint(-1000, 20000)
            return day * (1 if format == "tdD" else 86400000), time_text(day * 86400 * 10**6)[:10]
        unit = {"s": 1, "m": 10**3, "u": 10**6, "n": 10**9}[format[2]]
        time = rng.randint(-(10**9) * unit, 2 * 10**9 * unit)
        return time, time_text(time * 10**6 // unit)


class ArrowTest(ScratchTest):
    def refuse(self, table: Any, pattern: str, **options: Any) -> None:
        with self.assertRaisesRegex(weir.errors.SourceError, pattern):
            weir.ingest({"t": table}, "never.weir", **options)
        self.assertEqual(os.listdir(), [])


class SameStore(ArrowTest):
    def make(self, rng: random.Random) -> tuple[dict[str, Table], dict[str, Any]]:
        """Two tables, the second pointing to the first, in SQLite and in Arrow; a schema with a query of a task."""
        connection = sqlite3.connect("t.sqlite")
        schema: dict[str, Any] = {"name": "t", "tables": {}, "tasks": {}}
        tables = {}
        for name in ("a", "b"):
            count = rng.choice([1, 3, 40, 2000])
            kinds = [Kind(rng) for _ in range(rng.randint(1, 6))]
            keys = rng.sample(range(count * 3), count)
            columns = [Column("id", rng.choice(["i", "l", "I", "L"]), keys)]
            rows: list[list[Any]] = [keys]
            declared = ["id INTEGER"]
            plan: dict[str, Any] = {}
            if name == "b":
                parents = [rng.choice([None, *range(9)]) for _ in range(count)]
                columns.append(Column("a_id", "i", parents))
                rows.append(parents)
                declared.append("a_id INTEGER")
                plan["a_id"] = {"stype": "identifier", "foreign_key": "a.id"}
            for number, kind in enumerate(kinds):
                pairs = [kind.value() for _ in range(count)]
                values = [pair[0] for pair in pairs]
                is_dictionary = kind.format not in ("n", "b") and rng.random() < 0.3 and any(v is not None for v in values)
                columns.append(Column(f"c{number}", "i" if is_dictionary else kind.format, values, kind.format if is_dictionary else None))
                rows.append([pair[1] for pair in pairs])
                declared.append(f"c{number} {kind.declared}")
                plan[f"c{number}"] = {"stype": kind.stype}
            has_key = rng.random() < 0.8 or name == "a"
            schema["tables"][name] = {"columns": plan, **({"primary_key": "id"} if has_key else {})}
            connection.execute(f"CREATE TABLE {name} ({', '.join(declared)})")
            connection.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(rows))})", zip(*rows))
            tables[name] = Table(columns, [rng.choice([1, 7, 100, 1024, 5000]) for _ in range(3)], rng.randrange(2**32))
        if rng.random() < 0.5:
            schema["tasks"]["q"] = {
                "query": "SELECT a.id, count(b.id) AS n FROM a LEFT JOIN b ON a_id = a.id GROUP BY a.id", "anchor_table": "a",
                "anchor_key": "id", "target_column": "n", "target_stype": "numerical",
            }  # fmt: skip
        connection.commit()
        connection.close()
        return tables, schema

    def test_random_tables_give_the_store_of_sqlite(self) -> None:
        for seed in range(ROUNDS):
            with self.subTest(seed=seed):
                rng = random.Random(seed)
                Path("t.sqlite").unlink(missing_ok=True)
                tables, schema = self.make(rng)
                expected = weir.ingest("t.sqlite", "s.weir", schema=schema, embeddings=False)
                given: Any = {name: (lambda t=table: t) if rng.random() < 0.5 else table for name, table in tables.items()}
                found = weir.ingest(given, "a.weir", schema=schema, embeddings=False, threads=rng.choice([1, 2]))
                self.assertEqual(Path("a.weir").read_bytes(), Path("s.weir").read_bytes())
                self.assertEqual(found.store_hash, expected.store_hash)
                self.assertEqual([table.live for table in tables.values()], [0, 0])

    def test_drafts_of_integers_and_text(self) -> None:
        words = [WORDS[i % 9] for i in range(500)]
        Path("t").mkdir()
        Path("t/t.csv").write_text("id,word,x\n" + "".join(f'{i},"{words[i]}",{i / 8}\n' for i in range(500) if "\0" not in words[i]))
        kept = [i for i in range(500) if "\0" not in words[i]]
        table = Table([Column("id", "s", kept), Column("word", "U", [words[i] or None for i in kept]), Column("x", "g", [i / 8 for i in kept])], [64])
        by_csv = {**weir.draft_schema("t"), "name": "t"}
        by_csv.pop("csv")
        self.assertEqual({**weir.draft_schema({"t": table}), "name": "t"}, by_csv)


class SameFault(ArrowTest):
    """Of all that does not fit, the first row in key order, then the first column, is the error: as from SQLite."""

    schema = {"tables": {"t": {"primary_key": ["shop", "id"], "columns": {
        "n": {"stype": "numerical"}, "word": {"stype": "categorical"}, "code": {"stype": "identifier"},
        "skipped": {"stype": "ignored"}, "open": {"stype": "boolean"}}}}}  # fmt: skip
    formats = {"shop": "i", "id": "l", "n": "u", "word": "u", "code": "U", "skipped": "u", "open": "u"}

    def put_into_sqlite(self, rows: list[list[Any]]) -> None:
        Path("t.sqlite").unlink(missing_ok=True)
        connection = sqlite3.connect("t.sqlite")
        connection.execute(f"CREATE TABLE t ({', '.join(self.formats)})")
        for row in rows:
            cells = ", ".join(f"CAST(x'{cell.hex()}' AS TEXT)" if isinstance(cell, bytes) else "?" for cell in row)
            connection.execute(f"INSERT INTO t VALUES ({cells})", [cell for cell in row if not isinstance(cell, bytes)])
        connection.commit()
        connection.close()

    def error_of(self, source: Any) -> str:
        with self.assertRaises(weir.Error) as caught:
            weir.ingest(source, "never.weir", schema=self.schema, threads=1)
        return str(caught.exception)

    def test_the_first_fault_is_that_of_sqlite(self) -> None:
        for seed in range(ROUNDS):
            rng = random.Random(seed)
            count = rng.choice([3, 3000])
            ids = rng.sample(range(count * 2), count)
            rows: list[list[Any]] = [[rng.randrange(3), i, "1.5", f"w{i % 7}", f"c{i}", "x", "yes"] for i in ids]
            faults = rng.sample([(0, None), (1, None), (2, "much"), (3, b"w\xff"), (4, b"\xc3"), (6, "maybe")], rng.choice([1, 3]))
            for _ in range(rng.choice([1, 200])):
                column, fault = rng.choice(faults)
                rows[rng.randrange(count)][column] = fault
            columns = [Column(name, format, [row[c] for row in rows]) for c, (name, format) in enumerate(self.formats.items())]
            self.put_into_sqlite(rows)
            with self.subTest(seed=seed):
                self.assertEqual(self.error_of({"t": Table(columns, [rng.choice([7, 1024, 5000])], seed)}), self.error_of("t.sqlite"))

    def test_times_at_the_ends(self) -> None:
        schema = {"tables": {"t": {"primary_key": "id", "columns": {"at": {"stype": "timestamp"}}}}}
        for extreme in (-(2**63), 2**63 - 1):
            table = Table([Column("id", "l", range(50)), Column("at", "tsu:", [None, *range(48), extreme])])
            with self.assertRaisesRegex(weir.errors.SchemaInvalid, "column at, key 49"):
                weir.ingest({"t": table}, "never.weir", schema=schema)


class Streams(ArrowTest):
    schema = {"tables": {"t": {"primary_key": "id", "columns": {"x": {"stype": "numerical"}}}}}

    def table(self, count: int = 100) -> Table:
        return Table([Column("id", "i", range(count)), Column("x", "g", [i / 2 for i in range(count)])], [30])

    def test_a_table_is_asked_for_one_stream(self) -> None:
        for schema in (None, self.schema):
            table = self.table()
            report = weir.ingest({"t": table}, "t.weir", schema=schema)
            self.assertEqual((table.opened, table.live, report.rows), (1, 0, 100))

    def test_a_capsule_gives_its_stream_once(self) -> None:
        table = self.table()
        capsule = table.__arrow_c_stream__()
        given = type("Given", (), {"__arrow_c_stream__": lambda self, requested_schema=None: capsule})()
        with self.assertRaisesRegex(weir.errors.SourceError, "table u has a stream that was released already"):
            weir.ingest({"t": given, "u": given}, "never.weir")
        with self.assertRaisesRegex(weir.errors.SourceError, "table t has a stream that was released already"):
            weir.ingest({"t": given}, "never.weir")
        self.assertEqual((table.live, os.listdir()), (0, []))

    def test_a_function_is_asked_for_a_stream_a_scan(self) -> None:
        table = self.table()
        weir.ingest({"t": lambda: table}, "t.weir", schema=self.schema)
        self.assertEqual((table.opened, table.live), (2, 0))  # its columns, its rows

    def test_a_function_gives_the_same_rows_each_time(self) -> None:
        for counts in (100, 100, 0), (100, 100, 99), (0, 0, 100):
            tables = iter([self.table(count) for count in counts])
            with self.assertRaisesRegex(weir.errors.SourceError, f"table t gave {counts[1]} rows when it was read first, and {counts[2]} now"):
                weir.ingest({"t": lambda tables=tables: next(tables)}, "never.weir")
        self.assertEqual(os.listdir(), [])

    def test_batches_are_not_kept_if_rows_are_needed_once(self) -> None:
        most = {}
        for schema in (self.schema, {**self.schema, "tasks": {"q": {
                "query": "SELECT id, x FROM t", "anchor_table": "t", "anchor_key": "id", "target_column": "x", "target_stype": "numerical"}}}):  # fmt: skip
            table = self.table(300)
            seen: list[int] = []
            fill = table._fill_batch

            def count(*arguments: Any) -> None:
                fill(*arguments)
                seen.append(table.live)

            table._fill_batch = count  # type: ignore[method-assign]
            weir.ingest({"t": table}, "t.weir", schema=schema, threads=1)
            most["tasks" in schema] = max(seen)
        self.assertEqual(most, {False: 1, True: 10})

    def test_an_exception_of_a_function_is_the_callers(self) -> None:
        def fail() -> Any:
            raise KeyError("mine")

        with self.assertRaisesRegex(KeyError, "mine"):
            weir.ingest({"t": fail}, "never.weir")
        with self.assertRaisesRegex(KeyError, "mine"):
            weir.draft_schema({"t": fail})
        with self.assertRaises(AttributeError):
            weir.ingest({"t": lambda: 3}, "never.weir")
        self.assertEqual(os.listdir(), [])

    def test_what_is_no_table(self) -> None:
        with self.assertRaisesRegex(TypeError, "table 't' is a int, which has no __arrow_c_stream__"):
            weir.ingest({"t": 3}, "never.weir")  # type: ignore[dict-item]
        with self.assertRaisesRegex(TypeError, "must be text"):
            weir.ingest({3: self.table()}, "never.weir")  # type: ignore[dict-item]
        with self.assertRaisesRegex(ValueError, "there are no tables"):
            weir.ingest({}, "never.weir")
        with self.assertRaisesRegex(weir.errors.SchemaInvalid, "search_path"):
            weir.ingest({"t": self.table()}, "never.weir", schema={**self.schema, "search_path": ["a"]})

    def test_the_store_has_a_name_without_an_output(self) -> None:
        self.assertEqual(weir.ingest({"t": self.table()}).store_path, "tables.weir")


class Refused(ArrowTest):
    def test_types(self) -> None:
        for format, name in [("+l", "a list"), ("+L", "a list"), ("+w:3", "a list of fixed size"), ("+s", "a struct"), ("+m", "a map"),
                             ("+ud:0,1", "a union"), ("+r", "run-end encoded"), ("+vl", "a list"), ("tiD", "an interval"),
                             ("d:9,500", "a decimal of a width"), ("??", "of a type that is not known"), ("w:-1", "of a type")]:  # fmt: skip
            table = Table([Column("id", "i", [1, 2]), Column("x", "n", [None, None])])
            table.columns[1].format = format
            table._column = lambda column, first, count: table._array("n", [None] * count, 0)  # type: ignore[method-assign]
            with self.subTest(format=format):
                self.refuse(table, rf"table t, column x is {name}.*{format[:2].replace('+', '.').replace('?', '.')}.*is not read")

    def test_a_refused_column_that_the_schema_does_not_use(self) -> None:
        table = Table([Column("id", "i", [1, 2]), Column("x", "+l", [None, None])])
        table._column = lambda column, first, count: table._array(  # type: ignore[method-assign]
            "i" if column.name == "id" else "n", column.values, 0)  # fmt: skip
        weir.ingest({"t": table}, "t.weir", schema={"tables": {"t": {"primary_key": "id", "columns": {}}}})

    def test_names_of_columns(self) -> None:
        self.refuse(Table([Column("x", "i", [1]), Column("x", "i", [1])]), "table t, column x is there twice")
        self.refuse(Table([Column("", "i", [1])]), "has no name in UTF-8 for column 1")

    def test_times_that_do_not_fit(self) -> None:
        self.refuse(Table([Column("x", "tss:", [2**62])]), "table t, column x has a time beyond what int64")
        self.refuse(Table([Column("x", "tts", [86401])]), "table t, column x has a time of day")
        self.refuse(Table([Column("x", "ttu", [-1])]), "table t, column x has a time of day")

    def test_times_that_queries_cannot_have(self) -> None:
        table = Table([Column("id", "i", [1]), Column("x", "tss:", [10**12])])
        schema = {"tables": {"q": {"query": "SELECT id FROM t", "primary_key": "id", "columns": {}}}}
        with self.assertRaisesRegex(weir.errors.SchemaInvalid, "outside the years 0000 to 9999"):
            weir.ingest({"t": table}, "never.weir", schema=schema)

    def test_text_that_is_not_utf8(self) -> None:
        self.refuse(Table([Column("x", "u", [b"\xff\xfe"])]), "column x.* is text that is not UTF-8")

    def test_what_queries_see(self) -> None:
        table = Table([Column("id", "i", [1]), Column("d", "tdD", [19000]), Column("at", "tsu:", [1700000000500000]), Column("ok", "b", [True]),
                       Column("n", "d:9,2", [Decimal("2.50")])])  # fmt: skip
        query = "SELECT id, d || '|' || at || '|' || ok || '|' || n || '|' || date(at, '+1 day') AS x FROM t"
        schema = {"tables": {"q": {"query": query, "primary_key": "id", "columns": {"x": {"stype": "categorical"}}}}}
        weir.ingest({"t": table}, "q.weir", schema=schema)
        self.assertIn(b"2022-01-08|2023-11-14 22:13:20.5|1|2.5|2023-11-15", Path("q.weir").read_bytes())


if __name__ == "__main__":
    unittest.main()
