"""The program as a person or a script meets it: exact output, exit statuses, the one line of an error, --json, and
a full disk. The program's path is in WEIR."""
import json
import os
import re
import shlex
import sqlite3
import subprocess
import tempfile
import unittest
from pathlib import Path

WEIR = os.environ["WEIR"]
ROOT = Path(__file__).resolve().parents[2]

ERROR_LINE = re.compile(r"weir: ([A-Z_]+): [^\n]+\n")
RECORD_KEYS = ["code_id", "numeric_code", "subsystem", "t", "rank", "failure_operator", "replay_token", "message",
               "diagnostics"]

DATASET = {"id": "shop", "version": "1", "hash": "ab" * 32, "cardinality": 10}
MANIFEST = {"seed": 7, "global_batch_size": 8,
            "datasets": {"shop/churn/train": DATASET, "shop/rating/train": dict(DATASET, cardinality=20)},
            "data": {"sampler_block_size": 4}, "mix": {"shop/churn/train": 2, "shop/rating/train": 1}}


def weir(*arguments, stdin="", **options):
    return subprocess.run([WEIR, *arguments], input=stdin, capture_output=True, text=True, timeout=60, **options)


def commands():
    """(name, summary) of every command, from the list that the program prints."""
    lines = weir("help").stdout.splitlines()
    return [tuple(re.fullmatch(r"  (\S+) +(\S.*)", line).groups()) for line in lines if line.startswith("  ")]


def options_in(text):
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text))


class WithManifest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.manifest = str(self.folder / "shop.manifest.json")
        Path(self.manifest).write_text(json.dumps(MANIFEST))

    def next(self, *arguments):
        return weir("next", "--manifest", self.manifest, "--dataset", "shop/churn/train", *arguments)

    def assert_success(self, result, stdout=None):
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        if stdout is not None:
            self.assertEqual(result.stdout, stdout)

    def assert_error(self, arguments, code_id):
        """The same error, as a line on stderr and as a record on stdout."""
        plain, as_json = weir(*arguments), weir(*arguments, "--json")
        self.assertEqual((plain.returncode, plain.stdout), (1, ""))
        self.assertRegex(plain.stderr, r"\A" + ERROR_LINE.pattern + r"\Z")
        self.assertEqual(ERROR_LINE.match(plain.stderr).group(1), code_id)
        self.assertEqual((as_json.returncode, as_json.stderr), (1, ""))
        self.assertEqual(as_json.stdout.count("\n"), 1)
        record = json.loads(as_json.stdout)["error"]
        self.assertEqual(list(record), RECORD_KEYS)
        self.assertEqual(record["code_id"], code_id)
        self.assertEqual("weir: %s: %s\n" % (code_id, record["message"]), plain.stderr)
        return record


class Help(unittest.TestCase):
    def test_the_list_of_commands(self):
        result = weir("help")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        lines = result.stdout.splitlines()
        self.assertEqual(lines[:2], ["weir: a deterministic data plane for training models", ""])
        self.assertEqual(lines[-3:], [
            "", "'weir help COMMAND' shows options and an example, 'weir help errors' the error codes.",
            "Every command that prints results takes --json."])
        names = [name for name, _ in commands()]
        self.assertEqual(len(names), len(lines) - 5)
        self.assertEqual(len(set(names)), len(names))
        self.assertLessEqual({"next", "locate", "manifest", "permute", "cbor", "version", "help"}, set(names))
        for arguments in [], ["--help"], ["-h"]:
            self.assertEqual(weir(*arguments).stdout, result.stdout)

    def test_the_help_of_one_command(self):
        self.assertEqual(weir("help", "permute").stdout, """\
weir permute: print the order of blocks under an epoch seed

usage: weir permute --seed HEX --blocks N [--json]

  --seed HEX    the epoch seed, 32 hex digits
  --blocks N    how many blocks, at least 1
  --json        {"block_order": […]}

example:
  weir permute --seed 000102030405060708090a0b0c0d0e0f --blocks 8 --json
""")

    def test_every_command_has_help_and_an_example(self):
        for name, summary in commands():
            with self.subTest(command=name):
                result = weir("help", name)
                self.assertEqual((result.returncode, result.stderr), (0, ""))
                self.assertTrue(result.stdout.startswith("weir %s: %s\n\nusage: weir %s" % (name, summary, name)))
                example = result.stdout.split("\nexample:\n")[1]
                self.assertTrue(example.startswith("  ") and example.endswith("\n"))
                self.assertIn("weir %s" % name, example)
                for called, rest in re.findall(r"\bweir ([a-z]+)([^|;&\n]*)", example):
                    self.assertLessEqual(options_in(rest), options_in(weir("help", called).stdout))
                for flag in "--help", "-h":
                    self.assertEqual(weir(name, flag).stdout, result.stdout)

    def test_options_that_usage_names_are_explained(self):
        for name, _ in commands():
            text = weir("help", name).stdout
            usage, rest = text.split("usage: ")[1].split("\n\n", 1)
            explained = options_in("".join(re.findall(r"^ +(?:-\w, )?--[a-z][a-z-]*", rest, re.M)))
            with self.subTest(command=name):
                self.assertLessEqual(options_in(usage), explained)

    def test_version(self):
        version = re.search(r'#define WEIR_VERSION "(.*)"', (ROOT / "include/weir/base.h").read_text()).group(1)
        self.assertEqual(weir("version").stdout, "weir %s\n" % version)
        self.assertEqual(weir("--version").stdout, "weir %s\n" % version)

    def test_version_of_what_it_consists_of(self):
        report = json.loads(weir("version", "--json").stdout)
        self.assertEqual(report["version"], weir("version").stdout.split()[1])
        components = report["components"]
        absent = {"POSTGRES": "libpq", "HTTP": "curl"}
        expected = {"glibc", "openssl", "sqlite", "xxhash", "zlib", "libpq", "curl"}
        expected -= {name for key, name in absent.items() if key in os.environ.get("WEIR_ABSENT", "")}
        self.assertEqual(set(components) - {"gcc", "clang"}, expected)
        self.assertEqual(len(components), len(expected) + 1)
        for name, versions in components.items():
            with self.subTest(name=name):
                self.assertEqual(set(versions), {"built"} if name in ("gcc", "clang") else {"built", "running"})
                for version in versions.values():
                    self.assertRegex(version, r"\A\d+\.\d+")
        self.assertEqual(components["sqlite"]["running"], sqlite3.sqlite_version)  # the same library, here and there

    def test_the_error_codes_are_those_of_the_header(self):
        header = (ROOT / "include/weir/errors.h").read_text().replace("\\\n", "")
        rows = re.findall(r'X\((\d+), (\w+), "([^"]*)",\s*"([^"]*)"\)', header)
        self.assertGreater(len(rows), 25)
        table = "| code | id | subsystem | meaning |\n| --- | --- | --- | --- |\n"
        table += "".join("| %s | %s | %s | %s |\n" % row for row in rows)
        self.assertEqual(weir("help", "errors").stdout, table)

    def test_the_documents_have_the_same_error_codes(self):
        path = ROOT / "docs/errors.md"
        if not path.exists():
            self.skipTest("there is no docs/errors.md")
        self.assertIn(weir("help", "errors").stdout, path.read_text())


class Usage(WithManifest):
    def assert_usage(self, arguments, complaint):
        result = weir(*arguments)
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertEqual(result.stderr.split("\n")[0], complaint)
        return result.stderr

    def test_an_unknown_command(self):
        self.assertEqual(self.assert_usage(["nonsense"], "weir: there is no command 'nonsense'; 'weir help' lists them")
                         .count("\n"), 1)
        self.assert_usage([""], "weir: there is no command ''; 'weir help' lists them")
        self.assert_usage(["nonsense", "--json"], "weir: there is no command 'nonsense'; 'weir help' lists them")
        self.assert_usage(["help", "nonsense"], "weir help: there is no command 'nonsense'")

    def test_usage_says_how_it_is_done(self):
        text = self.assert_usage(["permute", "--seed", "00" * 16], "weir permute: --blocks is missing")
        self.assertEqual(text.split("\n")[1:], ["usage: weir permute --seed HEX --blocks N [--json]",
                                                "'weir help permute' says more.", ""])

    def test_what_is_wrong_with_a_call(self):
        seed = "00" * 16
        for arguments, complaint in (
                (["version", "--jsn"], "weir version: unknown option --jsn"),
                (["version", "extra"], "weir version: unexpected argument 'extra'"),
                (["version", "--", "--json"], "weir version: unexpected argument '--json'"),
                (["version", "--json", "--json"], "weir version: --json is given twice"),
                (["version", "--json=yes"], "weir version: --json takes no value"),
                (["manifest"], "weir manifest: name the manifest file"),
                (["manifest", "a", "b"], "weir manifest: unexpected argument 'b'"),
                (["cbor"], "weir cbor: say 'encode FILE.json' or 'decode HEX'"),
                (["cbor", "decode"], "weir cbor: say 'encode FILE.json' or 'decode HEX'"),
                (["cbor", "transcode", "x"], "weir cbor: say 'encode FILE.json' or 'decode HEX'"),
                (["cbor", "decode", "0"], "weir cbor: '0' is not hex (an even number of digits 0-9 a-f)"),
                (["cbor", "decode", "zz"], "weir cbor: 'zz' is not hex (an even number of digits 0-9 a-f)"),
                (["permute", "--seed", "00", "--blocks", "1"], "weir permute: --seed takes 32 hex digits"),
                (["permute", "--seed", seed, "--blocks"], "weir permute: --blocks needs a value"),
                (["permute", "--seed", seed, "--blocks", "-1"],
                 "weir permute: --blocks takes a whole number from 0 to 18446744073709551615, not '-1'"),
                (["permute", "--seed", seed, "--blocks", "18446744073709551616"],
                 "weir permute: --blocks takes a whole number from 0 to 18446744073709551615, "
                 "not '18446744073709551616'"),
                (["permute", "--seed", seed, "--blocks="],
                 "weir permute: --blocks takes a whole number from 0 to 18446744073709551615, not ''"),
                (["next", "--manifest", "m", "--dataset", "a", "--rank", "4294967296"],
                 "weir next: --rank takes a whole number from 0 to 4294967295, not '4294967296'"),
                (["next", "--dataset", "a"], "weir next: --manifest is missing"),
                (["next", "--manifest", self.manifest, "--dataset", "a", "--token", "abc"],
                 "weir next: --token takes hex digits, two per byte"),
                (["next", "--manifest", self.manifest, "--dataset", "a", "--trace-indices"],
                 "weir next: --trace-indices belongs to --trace"),
                (["batch", "--store", "s", "--manifest", "m", "--dataset", "a", "--tensors"],
                 "weir batch: --tensors belongs to --json"),
                (["version", "-x"], "weir version: unknown option -x"),
                (["version", "-1"], "weir version: unknown option -1"),
                (["version", "-"], "weir version: unexpected argument '-'"),
                (["version", "--", "-x"], "weir version: unexpected argument '-x'"),
                (["locate", "--manifest", self.manifest], "weir locate: --step is missing")):
            with self.subTest(arguments=arguments):
                self.assert_usage(arguments, complaint)


    def test_every_command_refuses_a_wrong_call(self):
        """An option that it does not have, more than it can use, and files that are not there."""
        for name, _ in commands():
            usage = weir("help", name).stdout
            required = [part for option in re.findall(r"(?<![\[\w-])(--[a-z-]+) [A-Z]", usage.split("\n\n")[1])
                        for part in (option, "/no/such")] if name not in ("demo", "help", "version") else []
            with self.subTest(command=name):
                result = weir(name, "--no-such-option")
                self.assertEqual((result.returncode, result.stdout), (2, ""))
                self.assertIn(f"weir {name}: unknown option --no-such-option", result.stderr)
                result = weir(name, "/no/such", "/no/such", "/no/such", *required)
                self.assertIn(result.returncode, (1, 2))
                self.assertRegex(result.stderr, r"\Aweir( \w+)?: ")
                if name not in ("help", "version", "demo"):
                    result = weir(name, "/no/such")
                    self.assertIn(result.returncode, (1, 2), result.stderr)
                    self.assertRegex(result.stderr, r"\Aweir( \w+)?: ")


class Results(WithManifest):
    def test_permute(self):
        arguments = "permute", "--seed", "000102030405060708090a0b0c0d0e0f", "--blocks=8"
        order = json.loads(weir(*arguments, "--json").stdout)
        self.assertEqual(list(order), ["block_order"])
        self.assertEqual(sorted(order["block_order"]), list(range(8)))
        self.assert_success(weir(*arguments), "".join("%d\n" % block for block in order["block_order"]))
        self.assert_error(["permute", "--seed", "00" * 16, "--blocks", "0"], "CONTRACT_VIOLATION")
        self.assert_error(["permute", "--seed", "00" * 16, "--blocks", str(2**64 - 1)], "OUT_OF_MEMORY")

    def test_cbor(self):
        text = '{"step": 7, "a": [true, null, -1, 1.5]}'
        encoded = "a2616184f5f620fb3ff8000000000000647374657007"
        self.assert_success(weir("cbor", "encode", "-", stdin=text), encoded + "\n")
        self.assert_success(weir("cbor", "encode", "-", "--json", stdin=text), '{"cbor": "%s"}\n' % encoded)
        self.assert_success(weir("cbor", "decode", encoded), '{"a": [true, null, -1, 1.5], "step": 7}\n')
        self.assert_success(weir("cbor", "decode", encoded.upper(), "--json"),
                            '{"value": {"a": [true, null, -1, 1.5], "step": 7}}\n')
        self.assert_success(weir("cbor", "decode", "42ff00"), '{"bytes": "ff00"}\n')
        self.assert_success(weir("cbor", "decode", "fb7ff8000000000000"), '{"float": "7ff8000000000000"}\n')
        self.assertEqual(self.assert_error(["cbor", "decode", "820018"], "CBOR_INVALID")["diagnostics"]["offset"], 2)
        self.assert_error(["cbor", "decode", ""], "CBOR_INVALID")
        self.assert_error(["cbor", "encode", str(self.folder)], "IO_ERROR")
        self.assert_error(["cbor", "encode", str(self.folder / "none.json")], "IO_ERROR")
        bad = self.folder / "bad.json"
        bad.write_text('{"a": 1,\n "a": 2}')
        record = self.assert_error(["cbor", "encode", str(bad)], "CBOR_INVALID")
        self.assertIn("%s:2:" % bad, record["message"])
        self.assertEqual(record["diagnostics"]["line"], 2)

    def test_manifest(self):
        result = weir("manifest", self.manifest, "--json")
        self.assert_success(result)
        shown = json.loads(result.stdout)
        self.assertEqual(list(shown),
                         ["manifest_hash", "replay_token", "mix_hash", "batch_config_hash", "normalised"])
        self.assert_success(weir("manifest", "-", "--json", stdin=json.dumps(MANIFEST)), result.stdout)
        text = weir("manifest", self.manifest).stdout
        for expected in (shown["manifest_hash"], shown["replay_token"], "shop/churn/train", "10 samples",
                         "weight 2 of 3", "seed 7", "blocks of 4"):
            self.assertIn(expected, text)
        record = self.assert_error(["manifest", str(self.folder / "none.json")], "IO_ERROR")
        self.assertEqual(record["diagnostics"]["path"], str(self.folder / "none.json"))
        Path(self.manifest).write_text('{"global_batch_size": 8}')
        record = self.assert_error(["manifest", self.manifest], "MANIFEST_INVALID")
        self.assertEqual(record["message"], self.manifest + ": $.datasets is missing")

    def test_locate(self):
        result = weir("locate", "--manifest", self.manifest, "--step", "1000000", "--json")
        self.assert_success(result)
        found = json.loads(result.stdout)
        cursor = found["cursor"]
        self.assertEqual((list(found), list(cursor)), (["dataset", "cursor"], ["epoch", "global_index"]))
        self.assert_success(weir("locate", "--manifest", self.manifest, "--step", "1000000"),
                            "step 1000000: %s, epoch %d, position %d\n"
                            % (found["dataset"], cursor["epoch"], cursor["global_index"]))
        Path(self.manifest).write_text(json.dumps({key: MANIFEST[key] for key in MANIFEST if key != "mix"}))
        self.assert_error(["locate", "--manifest", self.manifest, "--step", "3"], "MANIFEST_INVALID")

    def test_next(self):
        result = self.next("--count", "3", "--json")
        self.assert_success(result)
        steps = [json.loads(line) for line in result.stdout.splitlines()]
        self.assertEqual([len(step["indices"]) for step in steps], [8, 2, 8])
        self.assertEqual(sorted(steps[0]["indices"] + steps[1]["indices"]), list(range(10)))
        self.assertEqual(list(steps[0]), ["indices", "valid_count", "cursor_next", "metadata"])
        self.assertEqual(list(steps[0]["metadata"]), [
            "epoch", "global_position", "is_shuffled", "effective_batch_size", "blocks_materialized",
            "subsampling_mode", "sampling_mode", "effective_q", "sampler_block_size", "sampler_config_hash",
            "epoch_seed_hash", "data_replay_t"])
        self.assertEqual(steps[1]["cursor_next"], {"epoch": 1, "global_index": 0})
        self.assert_success(self.next("--stage", "eval", "--position", "8"),
                            "epoch 0 position 8: 8 of 2 samples (2 valid): 8 9 0 1 2 3 4 5\n")
        self.assert_success(self.next("--count", "0"), "")
        one = self.next("--epoch=3", "--position=0", "--json").stdout
        ranks = [self.next("--epoch", "3", "--world-size", "2", "--rank", rank, "--json").stdout for rank in "01"]
        self.assertEqual(json.loads(one)["indices"],
                         json.loads(ranks[0])["indices"] + json.loads(ranks[1])["indices"])
        other = json.loads(self.next("--token", "00ff", "--epoch", "3", "--json").stdout)
        self.assertNotEqual(other["indices"], json.loads(one)["indices"])

    def test_the_steps_before_an_error_are_printed(self):
        start = ["--epoch", str(2**64 - 1), "--count", "5"]
        plain, as_json = self.next(*start), self.next(*start, "--json")
        self.assertEqual((plain.returncode, as_json.returncode, as_json.stderr), (1, 1, ""))
        self.assertEqual(plain.stdout.count("\n"), 1)
        self.assertRegex(plain.stderr, r"\Aweir: COUNTER_OVERFLOW: [^\n]+\n\Z")
        step, error = map(json.loads, as_json.stdout.splitlines())
        self.assertEqual(step["cursor_next"], {"epoch": 2**64 - 1, "global_index": 8})
        self.assertEqual((error["error"]["code_id"], error["error"]["t"]), ("COUNTER_OVERFLOW", 1))
        self.assertEqual(len(error["error"]["replay_token"]), 64)

    def test_errors_of_next(self):
        start = ["next", "--manifest", self.manifest, "--dataset", "shop/churn/train"]
        self.assert_error([*start, "--stage", "test"], "INVALID_STAGE_TYPE")
        self.assert_error([*start[:-1], "shop"], "INVALID_DATASET_KEY")
        record = self.assert_error([*start, "--position", "10"], "GLOBAL_POSITION_EXCEEDS_CARDINALITY")
        self.assertEqual(record["message"], "cursor (epoch 0, global_index 10) lies beyond the dataset; the dataset has 10 samples")
        self.assert_error([*start, "--world-size", "2", "--rank", "2"], "CONTRACT_VIOLATION")
        record = self.assert_error([*start, "--world-size", "3"], "BATCH_SIZE_INCONSISTENT")
        self.assertEqual(record["message"],
                         "global_batch_size 8 is not a multiple of world_size 3; choose 6 or 9")
        self.assertEqual(record["diagnostics"],
                         {"global_batch_size": 8, "world_size": 3, "dataset_key": "shop/churn/train"})
        self.assertEqual(len(record["replay_token"]), 64)
        self.assertEqual((record["subsystem"], record["failure_operator"]), ("data", "UML_OS.Data.NextBatch_v2"))

    def test_a_trace_is_of_one_call(self):
        trace = self.folder / "n.trace"
        failed = self.next("--world-size", "3", "--trace", str(trace))  # before there is a run to record
        self.assertEqual(failed.returncode, 1)
        self.assertFalse(trace.exists())
        self.assert_success(self.next("--trace", str(trace)))
        first = trace.read_bytes()
        for arguments in ((), ("--position", "99")):
            failed = self.next("--trace", str(trace), *arguments)
            self.assertEqual((failed.returncode, failed.stdout), (1, ""))
            self.assertEqual(failed.stderr,
                             f"weir: IO_ERROR: {trace} exists already; move it away, or resume the run\n")
            self.assertEqual(trace.read_bytes(), first)
        failed = self.next("--trace", str(self.folder))
        self.assertEqual(failed.stderr, f"weir: IO_ERROR: cannot create {self.folder}: Is a directory\n")

    def test_ranks_of_different_length(self):
        traces = [str(self.folder / f"{rank}.trace") for rank in range(2)]
        for rank, steps in ((0, "1"), (1, "2")):
            options = ("--world-size", "2", "--rank", str(rank), "--count", steps, "--trace", traces[rank])
            self.assert_success(self.next(*options))
        record = self.assert_error(["merge", *traces], "REPLAY_DIVERGENCE")
        self.assertEqual(record["message"], f"step 1: {traces[0]} ends there, and {traces[1]} continues")
        self.assertEqual(record["t"], 1)
        record = self.assert_error(["merge", traces[0]], "CONTRACT_VIOLATION")
        self.assertIn("it is rank 0 of 2, and 1 trace is given;", record["message"])

    def test_a_directory_is_no_store(self):
        record = self.assert_error(["info", str(self.folder)], "IO_ERROR")
        self.assertEqual(record["message"], f"{self.folder} is a directory")

    def test_a_batch_beyond_memory_is_an_error(self):
        Path(self.manifest).write_text(json.dumps(dict(MANIFEST, global_batch_size=str(2**62))))
        self.assert_error(["next", "--manifest", self.manifest, "--dataset", "shop/churn/train", "--stage", "eval"],
                          "OUT_OF_MEMORY")

    def test_examples_work(self):
        directory = os.path.dirname(os.path.abspath(WEIR))
        environment = dict(os.environ, PATH=directory + os.pathsep + os.environ["PATH"])
        for name in "next", "locate", "manifest", "permute", "cbor", "version", "help":
            example = weir("help", name).stdout.split("\nexample:\n")[1]
            for line in example.splitlines():
                with self.subTest(example=line.strip()):
                    result = subprocess.run(["sh", "-c", line], cwd=self.folder, env=environment,
                                            capture_output=True, text=True, timeout=60)
                    self.assertEqual((result.returncode, result.stderr), (0, ""))


class Output(WithManifest):
    def calls(self):
        yield ["help"]
        yield ["help", "errors"]
        yield ["help", "next"]
        for flags in [], ["--json"]:
            yield ["version", *flags]
            yield ["manifest", self.manifest, *flags]
            yield ["locate", "--manifest", self.manifest, "--step", "1", *flags]
            yield ["next", "--manifest", self.manifest, "--dataset", "shop/churn/train", "--count", "3", *flags]
            yield ["permute", "--seed", "00" * 16, "--blocks", "20000", *flags]
            yield ["cbor", "decode", "a0", *flags]
            yield ["cbor", "encode", self.manifest, *flags]

    def test_a_full_disk_is_not_success(self):
        for arguments in self.calls():
            with self.subTest(arguments=arguments), open("/dev/full", "w") as full:
                result = subprocess.run([WEIR, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
                self.assertEqual(result.returncode, 1)
                self.assertEqual(result.stderr, "weir: IO_ERROR: cannot write the output: No space left on device\n")

    def test_a_closed_output_is_not_success(self):
        for arguments in self.calls():
            with self.subTest(arguments=arguments):
                command = " ".join(map(shlex.quote, [WEIR, *arguments])) + " >&-"
                result = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, text=True, timeout=60)
                self.assertEqual(result.returncode, 1)
                self.assertRegex(result.stderr, r"\Aweir: IO_ERROR: cannot write the output: [^\n]+\n\Z")
        self.assertEqual(json.loads(Path(self.manifest).read_text()), MANIFEST)  # nothing went into a file instead

    def test_an_error_that_cannot_be_printed_is_still_an_error(self):
        with open("/dev/full", "w") as full:
            result = subprocess.run([WEIR, "manifest", "/no/such", "--json"], stdout=full, stderr=subprocess.PIPE,
                                    text=True, timeout=60)
        self.assertEqual(result.returncode, 1)

    def test_what_a_file_says_does_not_steer_the_terminal(self):
        hostile = "\x1b[2Jkey\x9b1m\x07"
        manifest = dict(MANIFEST, datasets={hostile: DATASET})
        del manifest["mix"]
        Path(self.manifest).write_text(json.dumps(manifest))
        self.assertEqual(weir("manifest", self.manifest).returncode, 0)
        for arguments in (["manifest", self.manifest], ["locate", "--manifest", self.manifest, "--step", "0"],
                          ["next", "--manifest", self.manifest, "--dataset", "x"],
                          ["cbor", "encode", str(self.folder / hostile)],
                          ["cbor", "decode", (b"\x68" + hostile.encode()[:8]).hex()],
                          ["manifest", str(self.folder / hostile)]):
            result = weir(*arguments)
            with self.subTest(arguments=arguments):
                self.assertNotRegex(result.stdout + result.stderr, "[\x00-\x09\x0b-\x1f\x7f-\x9f]")

    def test_the_same_call_gives_the_same_bytes(self):
        for arguments in self.calls():
            self.assertEqual(weir(*arguments).stdout, weir(*arguments).stdout)


if __name__ == "__main__":
    unittest.main()
