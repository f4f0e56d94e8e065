"""Every command over a small store: what it prints twice is the same, a full disk and a closed output are errors, and so are
outputs that name an input. The program's path is in WEIR."""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

WEIR = os.path.abspath(os.environ["WEIR"])
FULL = "weir: IO_ERROR: cannot write the output: No space left on device\n"


class Outputs(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.folder = Path(holder.name)
        cls.weir("demo", "--scale", "1000", "--no-run", "--dir", ".")
        run = ["run", "--store", "shop.weir", "--manifest", "shop.manifest.json", "--dataset", "shop/late/train"]
        for name, steps, options in (("a", "4", []), ("b", "4", ["--trace-indices"]), ("long", "5", []),
                                     ("bare", "4", ["--no-digests"])):
            cls.weir(*run, "--steps", steps, "--trace", f"{name}.trace", *options)
        for rank in "01":
            cls.weir(*run, "--steps", "4", "--trace", "world.trace", "--rank", rank, "--world-size", "2")
        trace = (cls.folder / "a.trace").read_bytes()
        (cls.folder / "cut.trace").write_bytes(trace[: len(trace) // 2])
        told = json.loads(cls.weir("replay", "cut.trace", "--json", status=1).stdout)["error"]  # says where a record begins
        (cls.folder / "cut.trace").write_bytes(trace[: told["diagnostics"]["offset"]])
        (cls.folder / "gpt2.json").write_text(cls.weir("graph", "gpt2", "--layers", "1").stdout)
        cls.weir("plan", "gpt2.json", "--mode", "backward", "--cbor", "gpt2.plan")
        (cls.folder / "lives.csv").write_text("id,lower,upper,size\n1,0,3,8\n2,1,4,8\n3,3,5,16\n")

    @classmethod
    def weir(cls, *arguments: str, status: int | None = 0, **options: object) -> subprocess.CompletedProcess:
        options = {"capture_output": True, **options}
        done = subprocess.run([WEIR, *arguments], text=True, cwd=cls.folder, timeout=120, **options)
        if status is not None and done.returncode != status:
            raise AssertionError(f"{arguments}: {done.returncode}: {done.stdout}{done.stderr}")
        return done

    def calls(self):
        """(exit status, arguments) of calls that print and write nothing else."""
        batch = ["batch", "--store", "shop.weir", "--manifest", "shop.manifest.json", "--dataset", "shop/late/train"]
        for flags in [], ["--json"]:
            yield 0, ["info", "shop.weir", *flags]
            yield 0, ["info", "shop.weir", "--row", "40", *flags]
            yield 0, ["info", "shop.weir", "--key", "customers", "3", *flags]
            yield 0, ["info", "shop.weir", "--key", "order_items", "[1, 1]", *flags]
            yield 0, ["verify", "shop.weir", *flags]
            yield 0, ["embed", "shop.weir", "--columns", *flags]
            yield 0, ["embed", "shop.weir", "--categories", *flags]
            yield 0, ["embed", "shop.weir", "--texts", "3", *flags]
            yield 0, [*batch, *flags]
            yield 0, [*batch, "--stage", "infer", "--pad", "--position", "32", *flags]
            yield 0, ["schema", "shop.sqlite", "--threads", "1", *flags]
            yield 0, ["schema", "--check", "shop.schema.json", *flags]
            yield 0, ["plan", "gpt2.json", "--mode", "inference", *flags]
            yield 0, ["plan", "gpt2.plan", *flags]
            yield 0, ["plan", "--csv", "lives.csv", *flags]
            yield 0, ["replay", "a.trace", *flags]
            yield 0, ["replay", "bare.trace", *flags]
            yield 0, ["replay", "b.trace", "--store", "shop.weir", "--manifest", "shop.manifest.json", *flags]
            yield 3, ["replay", "cut.trace", *flags]
            yield 0, ["diff", "a.trace", "a.trace", *flags]
            yield 1, ["diff", "a.trace", "b.trace", *flags]
            yield 1, ["diff", "a.trace", "long.trace", *flags]
            yield 3, ["diff", "cut.trace", "cut.trace", *flags]
            yield 1, ["diff", "a.trace", "world.trace.rank0", *flags]
            yield 0, ["merge", "world.trace.rank1", "world.trace.rank0", *flags]
            yield 0, ["merge", "world.trace.rank0", "world.trace.rank1", "--single", "a.trace", *flags]
        yield 0, [*batch, "--json", "--tensors"]
        yield 0, ["schema", "shop.sqlite", "--threads", "1", "--explain"]
        yield 0, ["schema", "--json-schema"]
        yield 0, ["graph", "chain", "--nodes", "3"]

    def test_the_same_call_prints_the_same(self) -> None:
        for status, arguments in self.calls():
            with self.subTest(arguments=arguments):
                first = self.weir(*arguments, status=status)
                self.assertTrue(first.stdout)
                if "--json" in arguments:
                    json.loads(first.stdout)
                if arguments[0] != "plan":  # which says how long it took
                    self.assertEqual(self.weir(*arguments, status=status).stdout, first.stdout)

    def test_a_full_disk_is_not_success(self) -> None:
        for _, arguments in self.calls():
            with self.subTest(arguments=arguments), open("/dev/full", "w") as full:
                done = self.weir(*arguments, status=1, capture_output=False, stdout=full, stderr=subprocess.PIPE)
                self.assertTrue(done.stderr.endswith(FULL), done.stderr)

    def test_a_full_disk_under_a_file(self) -> None:
        """What is written to a file that takes nothing; and a folder where a file should be."""
        batch = ["batch", "--store", "shop.weir", "--manifest", "shop.manifest.json", "--dataset", "shop/late/train"]
        for arguments in ([*batch, "--npz"], [*batch, "--html"], ["plan", "gpt2.json", "--mode", "forward", "--cbor"],
                          ["plan", "gpt2.json", "--mode", "forward", "--html"], ["plan", "gpt2.json", "--mode", "forward", "--trace"],
                          ["graph", "chain", "--cbor"], ["schema", "shop.sqlite", "-o"]):
            for path in ("/dev/full", ".", "no/such/folder/x"):
                with self.subTest(arguments=arguments, path=path):
                    self.assertIn("IO_ERROR", self.weir(*arguments, path, status=1).stderr)
        self.assertFalse([path for path in os.listdir(self.folder) if "tmp" in path])

    def test_an_output_that_is_an_input(self) -> None:
        batch = ["batch", "--store", "shop.weir", "--manifest", "shop.manifest.json", "--dataset", "shop/late/train"]
        os.symlink("shop.weir", self.folder / "link")
        for options in (["--npz", "shop.weir"], ["--html", "shop.weir"], ["--npz", "shop.manifest.json"],
                        ["--html", "shop.manifest.json"], ["--npz", "link"], ["--npz", "x", "--html", "x"],
                        ["--steps", "2"], ["--steps", "0", "--html", "x"], ["--tensors"], ["--verify", "some"]):
            with self.subTest(options=options):
                self.assertIn("weir batch: ", self.weir(*batch, *options, status=2).stderr)
        os.remove(self.folder / "link")

    def test_an_output_that_is_data(self) -> None:
        """Nothing that somebody would miss is replaced: databases, stores, what an ingest reads and makes, and edited schemas."""
        batch = ["batch", "--store", "shop.weir", "--manifest", "shop.manifest.json", "--dataset", "shop/late/train"]
        ingest = ["ingest", "shop.sqlite", "--schema", "draft.json", "-o", "new.weir"]
        self.weir("schema", "shop.sqlite", "-o", "draft.json")
        (self.folder / "rows.parquet").write_bytes(b"PAR1" + bytes(100))
        (self.folder / "a.duckdb").write_bytes(bytes(8) + b"DUCK" + bytes(100))
        for name in ("shop.sqlite", "shop.weir", "rows.parquet", "a.duckdb"):
            before = (self.folder / name).read_bytes()
            for arguments in (["schema", "shop.sqlite", "--force", "-o"], [*batch, "--npz"], ["graph", "chain", "--cbor"],
                              [*ingest, "--html"]):
                with self.subTest(arguments=arguments, name=name):
                    done = self.weir(*arguments, name, status=None)
                    self.assertNotEqual(done.returncode, 0)
                    self.assertTrue("would be replaced" in done.stderr or " names " in done.stderr, done.stderr)
                    self.assertEqual((self.folder / name).read_bytes(), before)
        for page, status in (("draft.json", 2), ("new.weir", 2), ("new.manifest.json", 1)):
            with self.subTest(page=page):
                self.weir(*ingest, "--html", page, status=status)
                self.assertNotIn(b"<html", (self.folder / page).read_bytes() if (self.folder / page).exists() else b"")
        (self.folder / "files").mkdir()
        (self.folder / "files/t.csv").write_text("id,x\n1,2\n")
        (self.folder / "files/old.html").write_text("old")
        for page, status in (("files/t.csv", 2), ("files/old.html", 0), ("files/new", 0)):
            with self.subTest(page=page):
                self.weir("ingest", "files", "-o", "files.weir", "--html", page, status=status)
        self.assertEqual((self.folder / "files/t.csv").read_text(), "id,x\n1,2\n")
        self.weir("schema", "shop.sqlite", "-o", "draft.json")  # the same again
        edited = (self.folder / "draft.json").read_text() + "\n"
        (self.folder / "draft.json").write_text(edited)
        self.assertIn("--force", self.weir("schema", "shop.sqlite", "-o", "draft.json", status=1).stderr)
        self.assertEqual((self.folder / "draft.json").read_text(), edited)
        self.weir("schema", "shop.sqlite", "-o", "draft.json", "--force")
        self.assertEqual((self.folder / "draft.json").read_text() + "\n", edited)

    def test_keys_that_are_not_there(self) -> None:
        for key in ("[1, 2]", "[1, 2, 3]", "[", "no such", "99999999999999999999", ""):
            said = self.weir("info", "shop.weir", "--key", "customers", key, status=1).stderr
            expected = "CONTRACT_VIOLATION: a key of" if key.endswith("]") else f"KEY_NOT_FOUND: table customers has no row with the key {key};"
            self.assertIn(expected, said)
        self.assertIn("has 2 columns: write it as a list", self.weir("info", "shop.weir", "--key", "order_items", "1", status=1).stderr)
        self.assertIn("no_such", self.weir("info", "shop.weir", "--key", "no_such", "1", status=1).stderr)
        self.assertIn("needs a table and a key", self.weir("info", "shop.weir", "--key", "customers", status=2).stderr)
        self.assertIn("no row 99999999", self.weir("info", "shop.weir", "--row", "99999999", status=1).stderr)


if __name__ == "__main__":
    unittest.main()
