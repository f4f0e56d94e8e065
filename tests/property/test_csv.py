"""CSV files against the reference, on random files: which are tables, their dialect, their types and their values.

Each case is made from its own seed, a text such as "csv 17", which a failure names; WEIR_CASE runs one alone.
"""

import gzip
import json
import os
import random
import subprocess
import sys
import unittest
from pathlib import Path

PROJECT_ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(PROJECT_ROOT), str(PROJECT_ROOT / "tests")]

from reference.csv_files import MARKERS, CsvDatabase, CsvOptions  # noqa: E402
from reference.draft import draft_schema  # noqa: E402
from reference.errors import WeirError  # noqa: E402
from reference.store import Store  # noqa: E402
from support.cases import RandomCases  # noqa: E402

WEIR = os.environ.get("WEIR", str(PROJECT_ROOT / "build" / "weir"))
SCAN = os.environ.get("WEIR_SCAN", str(PROJECT_ROOT / "build" / "tests" / "scan_source"))
CASES = int(os.environ.get("WEIR_PROPERTY_CASES", "60")) * 5
DECLARED = {3: "integer", 4: "real", 6: "text"}
NAMES = ["id", "a b", 'q"q', "ü", "", "x;y", "id", " spaced ", "2013", "at"]
INTEGERS = ["0", "7", "-3", "9223372036854775807", "-9223372036854775808", "12"]
REALS = ["1.5", "-0", ".5", "1e3", "5.", "1e999", "inf", "NaN", "-2.25E-3"]
TIMES = ["2024-01-02", "2024-01-02T03:04:05Z", "1999-12-31 23:59"]
TEXTS = ["x", "007", "+5", "9223372036854775808", "a,b", 'say "hi"', "two\nlines", "ü€𝄞", " 5", "true", "00.5", '"', "'"]


def any_cell(rng: random.Random, kind: str) -> str:
    if rng.random() < 0.1:
        return ""
    if rng.random() < 0.1:
        return rng.choice(MARKERS)
    return rng.choice({"i": INTEGERS, "r": INTEGERS + REALS, "t": TIMES, "x": INTEGERS + TIMES + TEXTS, "m": TEXTS}[kind])


def written(rng: random.Random, cell: str, delimiter: str) -> str:
    needs = any(character in cell for character in (delimiter, '"', "\n", "\r"))
    if needs and rng.random() < 0.97 or rng.random() < 0.1:
        return '"' + cell.replace('"', '""') + '"' + ("tail" if rng.random() < 0.02 else "")
    return cell


def any_file(rng: random.Random, columns: list[str], kinds: list[str], delimiter: str) -> bytes:
    end = rng.choice(["\n", "\n", "\r\n", "\r"])
    lines = [delimiter.join(written(rng, name, delimiter) for name in columns)] if rng.random() < 0.9 else []
    for _ in range(rng.choice([0, 1, 3, 20, 300])):
        lines.append(delimiter.join(written(rng, any_cell(rng, kind), delimiter) for kind in kinds))
        if rng.random() < 0.01:
            lines.append("")
        if rng.random() < 0.002:
            lines.append(delimiter.join("x" * rng.randint(1, 4)))
    data = end.join(lines).encode() + (end.encode() if rng.random() < 0.8 else b"")
    if rng.random() < 0.03:
        data += rng.choice([b"\xff", b'"open', b"\x00"])
    return (b"\xef\xbb\xbf" if rng.random() < 0.1 else b"") + data


def write_file(rng: random.Random, folder: Path, stem: str, columns: list[str], kinds: list[str], delimiter: str) -> None:
    ending = rng.choice([".csv", ".csv", ".CSV", ".tsv", ".csv.gz", ".Tab"])
    data = any_file(rng, columns, kinds, "\t" if "t" in ending[1:2].lower() and rng.random() < 0.9 else delimiter)
    (folder / (stem + ending)).write_bytes(gzip.compress(data) if ending.endswith(".gz") else data)


def any_table(rng: random.Random, folder: Path, stem: str) -> None:
    columns = [rng.choice(NAMES) for _ in range(rng.randint(1, 5))]
    kinds = [rng.choice("irtxm") for _ in columns]
    delimiter = rng.choice(",,,;|\t")
    if rng.random() < 0.7:
        write_file(rng, folder, stem, columns, kinds, delimiter)
        return
    for number in range(rng.randint(1, 3)):
        part = folder / stem
        for key in rng.choice([[], ["year"], ["year", "k"]]) if rng.random() < 0.3 else ["year"]:
            part /= f"{key}={rng.choice(['2013', '7', 'a%20b', '__HIVE_DEFAULT_PARTITION__'])}"
        part.mkdir(parents=True, exist_ok=True)
        write_file(rng, part, f"part{number}", columns, kinds, delimiter)


def scanned(path: Path) -> list[dict] | None:
    done = subprocess.run([SCAN, str(path)], capture_output=True, timeout=120, check=False)
    if done.returncode not in (0, 1):
        raise AssertionError(f"exit status {done.returncode}: {done.stderr!r}")
    return [json.loads(line) for line in done.stdout.splitlines()] if done.returncode == 0 else None


def as_scanned(value: object) -> list[object]:
    if value is None:
        return ["n"]
    if isinstance(value, float):
        return ["r", str(value)]
    return ["i", value] if isinstance(value, int) else ["t", value]


class CsvAgainstReference(RandomCases):
    def test_random_files(self) -> None:
        self.cases("csv", self.check_case, CASES)

    def check_case(self, rng: random.Random, scratch: Path) -> None:
        folder = scratch / "db"
        folder.mkdir()
        for number in range(rng.randint(1, 3)):
            any_table(rng, folder, f"t{number}")
        if rng.random() < 0.2:
            (folder / "notes.txt").write_text("no table")
        self.compare(folder)

    def compare(self, folder: Path) -> None:
        try:
            expected = CsvDatabase(folder)
        except WeirError as error:
            # Text that is not UTF-8 in a cell is refused by ingest, with the row: the source hands it over.
            if "UTF-8" not in error.message:
                self.assertIsNone(scanned(folder), error.message)
            return
        found = scanned(folder)
        self.assertIsNotNone(found)
        tables = found[0]["tables"]
        self.assertEqual(
            {name: [[c, DECLARED[d]] for c, d in table["columns"]] for name, table in tables.items()},
            {name: [list(item) for item in table.columns.items()] for name, table in expected.tables.items()},
        )
        for name, table in expected.tables.items():
            rows = [line["row"] for line in found[1:] if line.get("of") == name]
            rows = [[[v[0], str(float.fromhex(v[1]))] if v[0] == "r" else v for v in row] for row in rows]
            wanted = [[as_scanned(row[c]) for c in table.columns] for row in expected.rows(name, list(table.columns))]
            self.assertEqual(rows, wanted, name)

    def test_drafts_and_stores(self) -> None:
        self.cases("csv store", self.check_store, CASES // 10)

    def check_store(self, rng: random.Random, scratch: Path) -> None:
        """Options of the command line, the draft that writes them down, and the store that it gives."""
        folder = scratch / "db"
        folder.mkdir()
        for number in range(rng.randint(1, 3)):
            any_table(rng, folder, f"t{number}")
        line, arguments = any_options(rng)
        try:
            expected = draft_schema(CsvDatabase(folder, line))
        except WeirError as error:
            if "UTF-8" not in error.message:
                self.assertIsNone(weir("schema", str(folder), "--json", *arguments), error.message)
            return
        drafted = weir("schema", str(folder), "--json", *arguments)
        self.assertEqual(drafted, expected)
        schema = scratch / "schema.json"
        schema.write_text(json.dumps(drafted))
        report = weir("ingest", str(folder), "--schema", str(schema), "-o", str(scratch / "a.weir"), "--json")
        again = weir("ingest", str(folder), "-o", str(scratch / "b.weir"), "--json", *arguments)
        try:
            store = Store.ingest(folder, json.dumps(drafted))
        except WeirError as error:
            self.assertIsNone(report, error.message)
            return
        self.assertEqual(report["store_hash"], again["store_hash"])
        self.assertEqual(report["rows"], store.row_count)
        info = weir("info", str(scratch / "a.weir"), "--json")
        for key, value in store.info().items():
            if key in ("tables", "columns", "edges", "tasks"):
                self.assertEqual([item["name"] for item in info[key]], [item["name"] for item in value], key)


def any_options(rng: random.Random) -> tuple[CsvOptions, list[str]]:
    options, arguments = CsvOptions(), []
    if rng.random() < 0.3:
        options.null = rng.sample(MARKERS, 2)
        arguments += [part for text in options.null for part in ("--null", text)]
    if rng.random() < 0.2:
        options.delimiter = rng.choice(",;\t")
        arguments += ["--delimiter", options.delimiter.replace("\t", "\\t")]
    if rng.random() < 0.1:
        options.quote = rng.choice(["'", ""])
        arguments += ["--quote", options.quote]
    if rng.random() < 0.2:
        options.header = rng.random() < 0.5
        arguments.append("--header" if options.header else "--no-header")
    return options, arguments


def weir(*arguments: str) -> dict | None:
    done = subprocess.run([WEIR, *arguments], capture_output=True, timeout=120, check=False)
    if done.returncode not in (0, 1):
        raise AssertionError(f"exit status {done.returncode} of {arguments}: {done.stderr!r}")
    return json.loads(done.stdout) if done.returncode == 0 else None


if __name__ == "__main__":
    unittest.main()
