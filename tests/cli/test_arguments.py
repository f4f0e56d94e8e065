"""Numbers, sizes and digits on the command line, files that a command reads, and what it leaves beside one that it writes.
The program's path is in WEIR."""

import fcntl
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

WEIR = os.path.abspath(os.environ["WEIR"])
GRAPH = """{"format": "weir-graph/1", "name": "g", "tensors": [{"id": "a", "shape": [4], "dtype": "f32", "role": "input"},
  {"id": "b", "shape": [4], "dtype": "f32"}], "nodes": [{"id": "n", "op": "relu", "inputs": ["a"], "outputs": ["b"]}], "outputs": ["b"]}"""


class Arguments(unittest.TestCase):
    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)

    def weir(self, *arguments: object, **options: object) -> tuple[int, str, str]:
        command = [WEIR, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.folder, timeout=60, **options)
        return done.returncode, done.stdout, done.stderr

    # ---- Numbers

    def test_sizes(self) -> None:
        """At least 64 MiB are wanted; those that have it fail later: there is no such database."""
        for size in ("67108864", "67108864B", "65536KiB", "67109K", "64MiB", "68M", "68MB", "1G", "1Gi", "1T", "1TiB", str(2**64 - 1)):
            with self.subTest(size=size):
                self.assertEqual(self.weir("ingest", "none.sqlite", "--memory", size)[0], 1)
        for size in ("1", "67108863", "64M", "64MB", "65536k", "63Mi"):
            with self.subTest(size=size):
                status, _, words = self.weir("ingest", "none.sqlite", "--memory", size)
                self.assertEqual((status, "--memory must be at least 64MiB" in words), (2, True))
        for size in ("", "k", "-1", "1.5G", "1Q", "1KK", "1iB", "1BB", "1 M", "18446744073709551616", "1" * 30, "16777216TiB"):
            with self.subTest(size=size):
                status, _, words = self.weir("ingest", "none.sqlite", f"--memory={size}")
                self.assertEqual(status, 2)
                self.assertIn(f"--memory takes a number of bytes, such as 1000000, 512M or 2GiB, not '{size}'", words)

    def test_whole_numbers(self) -> None:
        for option, most in (("--blocks", 2**64 - 1), ("--threads", 2**32 - 1)):
            command = ["permute", "--seed", "0" * 32] if option == "--blocks" else ["verify", "none.weir"]
            for number in ("", "-1", "+1", "1e3", "0x1", "1 ", str(most + 1), "9" * 40):
                with self.subTest(option=option, number=number):
                    status, _, words = self.weir(*command, f"{option}={number}")
                    self.assertEqual(status, 2)
                    self.assertIn(f"{option} takes a whole number from 0 to {most}, not '{number}'", words)

    def test_hex_digits(self) -> None:
        self.assertEqual(self.weir("cbor", "decode", "A1616bF5", "--json")[:2], (0, '{"value": {"k": true}}\n'))
        for digits in ("a", "a1616bf", "a1616bfg", "a1 616bf5", "g1", ""):
            with self.subTest(digits=digits):
                self.assertNotEqual(self.weir("cbor", "decode", digits)[0], 0)

    def test_lists_have_an_end(self) -> None:
        stores = [f"--store=s{i}.weir" for i in range(65)]
        status, _, words = self.weir("run", "--manifest", "m.json", *stores)
        self.assertEqual(status, 2)
        self.assertIn("--store is given more than 64 times", words)

    # ---- Files that are read

    def test_what_is_no_file(self) -> None:
        os.mkfifo(self.folder / "pipe")
        for name, words in ((".", "Is a directory"), ("/dev/zero", "is a device or a pipe, not a file"),
                            ("pipe", "is a device or a pipe, not a file"), ("none", "No such file or directory")):
            with self.subTest(name=name):
                status, _, said = self.weir("cbor", "encode", name)
                self.assertEqual(status, 1)
                self.assertIn(words, said)

    def test_what_is_too_large(self) -> None:
        with open(self.folder / "sparse", "wb") as file:
            file.truncate(2**31 + 1)
        status, _, words = self.weir("cbor", "encode", "sparse")
        self.assertEqual(status, 1)
        self.assertIn("File too large", words)
        with open(self.folder / "sparse", "rb") as file:
            status, _, words = self.weir("cbor", "encode", "-", stdin=file)
            self.assertEqual((status, os.lseek(file.fileno(), 0, os.SEEK_CUR)), (1, 0))  # none of it was read
        self.assertIn("File too large", words)

    def test_standard_input_of_any_length(self) -> None:
        for count in (1, 70_000, 300_000):  # beyond the first piece of memory, and the second
            text = "[" + ",".join("7" * count) + "]"
            status, printed, _ = self.weir("cbor", "encode", "-", input=text)
            self.assertEqual(status, 0)
            self.assertTrue(printed.endswith("07" * count + "\n"))

    # ---- Files that are written

    def plan(self, target: str) -> tuple[int, str, str]:
        return self.weir("plan", "-", "--mode", "inference", "--cbor", target, input=GRAPH)

    def test_what_killed_commands_left_is_removed(self) -> None:
        for target in ("made.plan", "[odd*] ?.plan"):
            with self.subTest(target=target):
                left, other, held = (self.folder / f"{target}.{name}.tmp"
                                     for name in ("0123456789abcdef", "0123456789abcdeg", "fedcba9876543210"))  # fmt: skip
                for path in (left, other, held):
                    path.write_text("half")
                with open(held) as file:
                    fcntl.flock(file, fcntl.LOCK_EX)  # somebody writes it
                    self.assertEqual(self.plan(target)[0], 0)
                self.assertEqual((left.exists(), other.exists(), held.exists()), (False, True, True))
                self.assertEqual(self.weir("plan", "--show", target)[0], 0)

    def test_targets_that_cannot_be_written(self) -> None:
        for target, words in (("none/x.plan", "No such file or directory"), (".", "Is a directory")):
            with self.subTest(target=target):
                status, _, said = self.plan(target)
                self.assertEqual(status, 1)
                self.assertIn(words, said)
        self.assertEqual(os.listdir(self.folder), [])

    def test_a_target_through_a_link(self) -> None:
        (self.folder / "real.plan").write_text("old")
        (self.folder / "link.plan").symlink_to("real.plan")
        self.assertEqual(self.plan("link.plan")[0], 0)
        self.assertTrue((self.folder / "link.plan").is_symlink())
        self.assertEqual(self.weir("plan", "--show", "real.plan")[0], 0)

    def test_a_target_through_a_loop(self) -> None:
        (self.folder / "loop.plan").symlink_to("loop.plan")
        for option in ("--cbor", "--save"):
            status, _, said = self.weir("plan", "-", "--mode", "inference", option, "loop.plan", input=GRAPH)
            self.assertEqual(status, 1)
            self.assertIn("Too many levels of symbolic links", said)
        self.assertEqual(os.readlink(self.folder / "loop.plan"), "loop.plan")

    def test_a_pipe_is_not_replaced_by_what_the_library_writes(self) -> None:
        os.mkfifo(self.folder / "pipe")
        (self.folder / "link").symlink_to("pipe")
        for target in ("pipe", "link"):
            with self.subTest(target=target):
                status, _, said = self.weir("plan", "-", "--mode", "inference", "--save", target, input=GRAPH)
                self.assertEqual((status, said), (1, f"weir: IO_ERROR: {target} is a device or a pipe, not a file, and is not "
                                                     "replaced; give another name\n"))
        self.assertTrue((self.folder / "pipe").is_fifo())
        self.assertEqual(sorted(os.listdir(self.folder)), ["link", "pipe"])


if __name__ == "__main__":
    unittest.main()
