"""weir run from the outside: what it says and writes, where rank and world size come from, signals, and the promise
that matters: killed at any moment and resumed, or split over many ranks, a run is the uninterrupted one."""
import hashlib
import json
import os
import pty
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from reference import cbor  # noqa: E402
from reference.manifest import Manifest  # noqa: E402
from reference.mix import Mixer  # noqa: E402
from reference.sampler import Sampler  # noqa: E402
from tests.support.demo import small_demo  # noqa: E402
from tests.support.processes import environment, start  # noqa: E402

WEIR = os.environ["WEIR"]
KILLS = int(os.environ.get("WEIR_KILLS", "24"))
KILL_WORKERS = range(1, int(os.environ.get("WEIR_KILL_WORKERS", "4")) + 1)
STEPS = 60

shop = None  # the folder of a small shop; its manifest has short sequences and batches of 8


def setUpModule():
    global shop
    shop = small_demo()


def command(*arguments):
    return [WEIR, "run", "--store", str(shop / "shop.weir"), "--manifest", str(shop / "shop.manifest.json"),
            *map(str, arguments)]


def run(*arguments, variables=None):
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=60,
                          env=environment(**(variables or {})))


def weir(*arguments):
    return subprocess.run([WEIR, *map(str, arguments)], capture_output=True, text=True, timeout=60)


class WithFolder(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)
        self.trace, self.checkpoint = self.folder / "run.trace", self.folder / "run.checkpoint"

    def run_ok(self, *arguments, **options):
        result = run(*arguments, "--json", **options)
        self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
        return json.loads(result.stdout)

    def assert_error(self, code_id, *arguments, **options):
        plain, as_json = run(*arguments, **options), run(*arguments, "--json", **options)
        self.assertEqual((plain.returncode, plain.stdout), (1, ""))
        self.assertRegex(plain.stderr, rf"\Aweir: {code_id}: [^\n]+\n\Z")
        record = json.loads(as_json.stdout)["error"]
        self.assertEqual(record["code_id"], code_id)
        return record

    def assert_usage(self, text, *arguments):
        result = run(*arguments)
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertIn(text, result.stderr)

    def assert_same_trace(self, left, right):
        result = weir("diff", left, right)
        self.assertEqual((result.returncode, result.stdout), (0, f"{STEPS} steps, all equal\n"), result.stderr)

    def names(self):
        return sorted(path.name for path in self.folder.iterdir())


class Summary(WithFolder):
    def test_nothing_is_written_unasked(self):
        report = self.run_ok("--steps", STEPS, "--workers", 2)
        self.assertEqual([report[key] for key in ("first_step", "step", "end", "batches", "stopped_by", "stage", "policy",
                                                  "world_size", "rank", "trace", "checkpoint")],
                         [0, STEPS, STEPS, STEPS, None, "train", "strict", 1, 0, None, None])
        self.assertGreater(report["samples"], STEPS)
        self.assertGreater(report["bytes"], report["samples"])
        self.assertEqual(sum(worker["consumed"] for worker in report["workers"]), STEPS)
        self.assertEqual(len(report["workers"]), 2)
        stages = report["stages"]
        self.assertEqual([(name, stage["batches"]) for name, stage in stages.items()],
                         [("read", 0), ("build", STEPS), ("transform", 0), ("transfer", 0), ("consume", STEPS)])
        self.assertEqual([stages[name]["room"] for name in ("build", "consume")], [4, 4])
        self.assertEqual(self.run_ok("--steps", STEPS, "--read-ahead")["stages"]["read"]["batches"], STEPS)
        self.assertGreater(stages["build"]["busy_seconds"], 0)
        self.assertGreater(stages["consume"]["input_wait_seconds"], 0)
        datasets = report["datasets"]
        self.assertEqual([sum(one[key] for one in datasets.values()) for key in ("batches", "samples")],
                         [STEPS, report["samples"]])
        for key, one in datasets.items():  # each stands where its next step begins
            self.assertGreaterEqual(one["blocks_materialized_this_epoch"], 1)
            step = next(step for step in range(STEPS, STEPS + 100) if self.locate(step)["dataset"] == key)
            self.assertEqual(one["cursor_next"], self.locate(step)["cursor"])
        self.assertEqual(self.names(), [])

    def locate(self, step):
        return json.loads(weir("locate", "--manifest", shop / "shop.manifest.json", "--step", step, "--json").stdout)

    def test_a_block_is_counted_once_in_an_epoch(self):
        """Whatever the number of steps that take from it, and also of a run that was resumed."""
        described = json.loads((shop / "shop.manifest.json").read_text())
        described["data"]["sampler_block_size"] = 40
        path = self.folder / "blocks.manifest.json"
        path.write_text(json.dumps(described))
        sampler = Sampler(Manifest.read(path.read_text()))
        call = [WEIR, "run", "--store", shop / "shop.weir", "--manifest", path, "--checkpoint", self.checkpoint, "--resume",
                self.checkpoint, "--rank", "1", "--world-size", "2", "--json"]
        for steps in "25", "100":
            result = subprocess.run([*call, "--steps", steps], capture_output=True, text=True, check=True, env=environment())
            for key, one in json.loads(result.stdout)["datasets"].items():
                last = next(cursor for found, cursor in map(Mixer(sampler.manifest).locate, range(int(steps) - 1, -1, -1))
                            if found == key)
                self.assertEqual(one["epoch"], last.epoch)
                self.assertEqual(one["blocks_materialized_this_epoch"], sampler.blocks_of_epoch(key, 2, 1, last))
                self.assertGreater(one["batches"], 1)

    def test_for_people(self):
        result = run("--steps", STEPS, "--trace", self.trace, "--checkpoint", self.checkpoint)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        lines = result.stdout.splitlines()
        self.assertRegex(lines[0], rf"\Asteps 0 to {STEPS}: {STEPS} batches, \d+ samples, [\d.]+ [kMG]?B in [\d.]+ s\Z")
        samples = int(re.search(r"(\d+) samples", lines[0])[1])
        self.assertEqual(lines.pop(1), f"  {STEPS * 8 - samples} samples fewer than in {STEPS} full batches: the last batch of an epoch has only "
                                       "the samples that are left")
        self.assertRegex(lines[1], r"\A  [\d.]+k? batches/s, [\d.]+[kM]? samples/s, [\d.]+ [kMG]?B/s; "
                                   r"first batch after \d+ ms\Z")
        self.assertEqual(lines[2:], [f"  trace {self.trace}", f"  checkpoint {self.checkpoint} at step {STEPS}"])

    def test_eval_is_one_pass(self):
        manifest = json.loads((shop / "shop.manifest.json").read_text())
        cardinality = manifest["datasets"]["shop/churn/val"]["cardinality"]
        report = self.run_ok("--dataset", "shop/churn/val", "--stage", "eval", "--trace", self.trace)
        self.assertEqual((report["batches"], report["samples"]), (-(-cardinality // 8), cardinality))
        replayed = weir("replay", self.trace, "--store", shop / "shop.weir")
        self.assertIn("every digest is equal", replayed.stdout)

    def seen_on_a_terminal(self, *arguments, columns=0):
        try:
            master, slave = pty.openpty()
        except OSError as reason:  # a bare container without /dev/pts
            self.skipTest(f"no terminal to be had: {reason}")
        if columns:
            termios.tcsetwinsize(slave, (24, columns))
        subprocess.run(command(*arguments), stderr=slave, stdout=subprocess.DEVNULL, check=True, timeout=60, env=environment())
        os.write(slave, b"$")  # its end
        shown = ""
        while not shown.endswith("$"):
            shown += os.read(master, 65536).decode()
        os.close(slave)
        os.close(master)
        return shown

    def test_a_terminal_sees_a_bar_and_only_rank_0_does(self):
        for rank, is_shown in (0, True), (1, False):
            shown = self.seen_on_a_terminal("--steps", 20, "--rank", rank, "--world-size", 2)
            bar = r"\r\x1b\[Krun +\[#* *\] +\d+% .*step \d+  \S+ batches/s, .*B/s"
            self.assertEqual(bool(re.match(bar, shown)), is_shown, shown)
            self.assertTrue(shown.endswith("\r\x1b[K$" if is_shown else "$"), shown)

    def test_the_bar_ends_where_the_terminal_does(self):
        for columns in 40, 80:
            shown = self.seen_on_a_terminal("--steps", 20, columns=columns)
            lines = re.findall(r"\x1b\[K([^\r]+)\r", shown)
            self.assertEqual({len(line) for line in lines}, {columns - 1}, shown)

    def test_a_run_with_nothing_left_has_no_rates(self):
        self.run_ok("--steps", 3, "--checkpoint", self.checkpoint)
        said = run("--steps", 3, "--resume", self.checkpoint).stdout
        self.assertRegex(said, r"\Asteps 3 to 3: 0 batches, 0 samples, 0 B in 0.\d s\n  nothing was left to do: .* let it go on\n\Z")


class Refusals(WithFolder):
    def test_calls_that_make_no_sense(self):
        self.assert_usage("belong together", "--rank", 1)
        self.assert_usage("belong together", "--world-size", 2)
        self.assert_usage("at least 1", "--steps", 0)
        self.assert_usage("belongs to --trace", "--trace-indices")
        self.assert_usage("belongs to --trace", "--no-digests")
        self.assert_usage("belongs to --checkpoint", "--checkpoint-every", 5)
        self.assert_usage("name the same file", "--trace", self.trace, "--checkpoint", self.trace)
        self.assert_usage("names the manifest", "--checkpoint", shop / "shop.manifest.json", "--resume",
                          shop / "shop.manifest.json")
        for option in "--trace", "--checkpoint", "--resume":
            self.assert_usage("the name given is empty", option, "")
        for size in "", "x", "12x", "1Kx", "-1", "99999999999999999999", "99999999T", "1.5G":
            self.assert_usage("--memory-limit takes a number of bytes", f"--memory-limit={size}")

    def test_errors_have_records(self):
        self.assert_error("INVALID_STAGE_TYPE", "--stage", "test")
        self.assert_error("CONTRACT_VIOLATION", "--policy", "fastest")
        self.assertRegex(self.assert_error("CONTRACT_VIOLATION", "--stage", "eval")["message"], "; name one of shop/category/test, .*/val$")
        self.assert_error("CONTRACT_VIOLATION", "--workers", 5000)
        record = self.assert_error("CONTRACT_VIOLATION", "--device", "host", "--depth", 65)
        self.assertRegex(record["message"], r"\Aa depth of 65 .* 64 are the most\Z")
        record = self.assert_error("INVALID_DATASET_KEY", "--dataset", "shop/nothing/train")
        self.assertEqual((record["diagnostics"]["dataset_key"], len(record["replay_token"])), ("shop/nothing/train", 64))
        self.assertIn("shop/churn/train, ", record["message"])
        self.assert_error("BATCH_SIZE_INCONSISTENT", "--rank", 0, "--world-size", 3)
        self.assert_error("IO_ERROR", "--resume", self.checkpoint)
        self.assert_error("IO_ERROR", "--steps", 1, "--trace", self.folder / "none" / "run.trace")
        self.assert_error("IO_ERROR", "--steps", 1, "--checkpoint", self.folder / "none" / "run.checkpoint")
        self.assertEqual(self.names(), [])

    def test_a_run_that_begins_replaces_nothing(self):
        self.run_ok("--steps", 5, "--trace", self.trace)
        self.assert_error("IO_ERROR", "--steps", 5, "--trace", self.trace, "--checkpoint", self.checkpoint)
        self.assertEqual(self.names(), ["run.trace"])
        self.run_ok("--steps", 5, "--checkpoint", self.checkpoint)
        before = self.checkpoint.read_bytes()
        self.assert_error("IO_ERROR", "--steps", 5, "--checkpoint", self.checkpoint)
        self.assertEqual(self.checkpoint.read_bytes(), before)

    def test_a_run_that_goes_on_replaces_checkpoints_only(self):
        self.run_ok("--steps", 2, "--checkpoint", self.checkpoint)
        mine, large = self.folder / "mine", self.folder / "large"
        mine.write_text("not to be lost")
        with large.open("wb") as file:
            file.truncate(2**40)
        for path in mine, large, self.folder:
            record = self.assert_error("IO_ERROR", "--steps", 4, "--resume", self.checkpoint, "--checkpoint", path)
            self.assertIn("not a checkpoint", record["message"])
        record = self.assert_error("IO_ERROR", "--steps", 4, "--resume", large)
        self.assertIn("larger than the limit", record["message"])
        self.assertEqual((mine.read_text(), large.stat().st_size), ("not to be lost", 2**40))
        other = self.folder / "other"
        other.write_bytes(self.checkpoint.read_bytes())
        self.run_ok("--steps", 4, "--resume", self.checkpoint, "--checkpoint", other)
        self.assertNotEqual(other.read_bytes(), self.checkpoint.read_bytes())

    def test_a_checkpoint_of_another_run(self):
        self.run_ok("--steps", 5, "--checkpoint", self.checkpoint, "--dataset", "shop/churn/train")
        record = self.assert_error("CHECKPOINT_MISMATCH", "--resume", self.checkpoint)
        self.assertIn("dataset", record["message"])
        record = self.assert_error("CONTRACT_VIOLATION", "--resume", self.checkpoint, "--dataset", "shop/churn/train",
                                   "--steps", 4)
        self.assertEqual(record["diagnostics"], {"step": 5, "end": 4})
        self.checkpoint.write_bytes(b"\xa0")
        self.assert_error("CHECKPOINT_MISMATCH", "--resume", self.checkpoint)
        self.checkpoint.write_bytes(b"junk")
        record = self.assert_error("CBOR_INVALID", "--resume", self.checkpoint)
        self.assertIn(str(self.checkpoint), record["message"])


class Memory(WithFolder):
    def test_the_plan(self):
        plan = json.loads(run("--plan", "--workers", 3, "--buffer", 4, "--queue", 5, "--json").stdout)
        arenas = plan["metrics"]["peak_physical_bytes_per_arena"]
        self.assertEqual(set(arenas), {"slots", "tensors", "builders"})
        for name in "slot/", "tensors/", "lists/":
            self.assertEqual(sum(tensor.startswith(name) for tensor in plan["tensors"]), 3 * 4 + 5)
        self.assertEqual(sum(name.startswith("worker/") for name in plan["tensors"]), 3)
        self.assertIn("slot/0", run("--plan").stdout)

    def test_the_limit(self):
        plan = json.loads(run("--plan", "--json").stdout)
        needed = sum(plan["metrics"]["peak_physical_bytes_per_arena"].values())
        self.run_ok("--steps", 1, "--memory-limit", needed)
        for more in [], ["--plan"]:
            record = self.assert_error("ARENA_TOO_SMALL", "--steps", 1, "--memory-limit", needed - 1, *more)
            self.assertEqual((record["diagnostics"]["required"], record["diagnostics"]["limit"]), (needed, needed - 1))
        self.assert_error("ARENA_TOO_SMALL", "--memory-limit", "10kB")
        self.run_ok("--steps", 1, "--memory-limit", "1TiB")


class Place(WithFolder):
    def place(self, **variables):
        report = self.run_ok("--steps", 1, variables=variables)
        return report["rank"], report["world_size"]

    def test_from_each_launcher(self):
        self.assertEqual(self.place(), (0, 1))
        self.assertEqual(self.place(RANK=1, WORLD_SIZE=2), (1, 2))
        self.assertEqual(self.place(OMPI_COMM_WORLD_RANK=3, OMPI_COMM_WORLD_SIZE=4), (3, 4))
        self.assertEqual(self.place(PMI_RANK=1, PMI_SIZE=4), (1, 4))
        self.assertEqual(self.place(SLURM_PROCID=7, SLURM_NTASKS=8), (7, 8))

    def test_torchrun_comes_first_and_the_options_before_all(self):
        nested = dict(RANK=1, WORLD_SIZE=2, OMPI_COMM_WORLD_RANK=0, OMPI_COMM_WORLD_SIZE=1, SLURM_PROCID=3, SLURM_NTASKS=4)
        self.assertEqual(self.place(**nested), (1, 2))
        report = self.run_ok("--steps", 1, "--rank", 2, "--world-size", 4, variables={"RANK": "x"})
        self.assertEqual((report["rank"], report["world_size"]), (2, 4))

    def test_values_that_make_no_sense(self):
        for variables in [dict(RANK=2, WORLD_SIZE=2), dict(RANK="", WORLD_SIZE=2), dict(RANK="-1", WORLD_SIZE=2),
                          dict(RANK="1x", WORLD_SIZE=2), dict(WORLD_SIZE="99999999999999999999", RANK=0), dict(RANK=0),
                          dict(SLURM_NTASKS=4), dict(PMI_RANK=0, PMI_SIZE=0)]:
            with self.subTest(variables=variables):
                record = self.assert_error("CONTRACT_VIOLATION", "--steps", 1, variables=variables)
                self.assertIn(next(iter(variables)), record["message"])


class Resume(WithFolder):
    def whole(self):
        path = self.folder / "whole.trace"
        self.run_ok("--steps", STEPS, "--trace", path, "--trace-indices")
        return path

    def test_in_three_sittings_with_other_workers(self):
        files = ["--trace", self.trace, "--trace-indices", "--checkpoint", self.checkpoint]
        self.run_ok("--steps", 17, *files)
        self.run_ok("--steps", 40, "--workers", 3, *files, "--resume", self.checkpoint)
        report = self.run_ok("--steps", STEPS, "--workers", 2, *files, "--resume", self.checkpoint)
        self.assertEqual((report["first_step"], report["step"]), (40, STEPS))
        self.assert_same_trace(self.whole(), self.trace)
        result = weir("replay", self.trace, "--store", shop / "shop.weir", "--json")
        self.assertEqual(json.loads(result.stdout)["checked_digests"], STEPS)

    def test_into_a_new_trace(self):
        self.run_ok("--steps", 50, "--checkpoint", self.checkpoint)
        samples = self.run_ok("--steps", STEPS, "--resume", self.checkpoint, "--trace", self.trace)["samples"]
        self.assertEqual(json.loads(weir("replay", self.trace, "--store", shop / "shop.weir", "--json").stdout),
                         {"equal": True, "steps": 10, "samples": samples, "complete": True, "status": "success",
                          "indices": 0, "checked_digests": 10, "unchecked_digests": 0, "checked_sample_digests": samples,
                          "unchecked_sample_digests": 0, "memory_records": 0})
        self.assertEqual(self.names(), ["run.checkpoint", "run.trace"])

    def test_the_same_command_begins_and_goes_on(self):
        call = ["--trace", self.trace, "--checkpoint", self.checkpoint, "--resume", self.checkpoint]
        self.assertEqual(self.run_ok("--steps", 20, *call)["first_step"], 0)
        self.assertEqual(self.run_ok("--steps", STEPS, *call)["first_step"], 20)
        self.assert_same_trace(self.whole_without_indices(), self.trace)
        self.trace.write_bytes(b"")  # as a run leaves it that was killed just when it began
        self.assertEqual(self.run_ok("--steps", STEPS + 5, *call)["first_step"], STEPS)
        self.assertEqual(json.loads(weir("replay", self.trace, "--json").stdout)["steps"], 5)

    def whole_without_indices(self):
        path = self.folder / "whole.trace"
        self.run_ok("--steps", STEPS, "--trace", path)
        return path

    def test_a_trace_that_does_not_reach_the_checkpoint(self):
        self.run_ok("--steps", 20, "--trace", self.trace)
        self.run_ok("--steps", 30, "--checkpoint", self.checkpoint)
        before = self.trace.read_bytes()
        self.assert_error("TRACE_CORRUPT", "--steps", STEPS, "--trace", self.trace, "--resume", self.checkpoint)
        self.assertEqual(self.trace.read_bytes(), before)

    def test_another_world_goes_on(self):
        """From one rank to two, and back to one: the traces of the second sitting, put together, are the whole run's."""
        self.run_ok("--steps", 10, "--checkpoint", self.checkpoint)
        parts = [self.folder / f"wide.trace.rank{rank}" for rank in (0, 1)]
        for rank in 0, 1:
            self.run_ok("--steps", 40, "--rank", rank, "--world-size", 2, "--resume", self.checkpoint,
                        "--checkpoint", self.folder / "wide", "--trace", self.folder / "wide.trace")
        self.assertTrue((self.folder / "wide.rank1").exists())
        single = self.folder / "single.trace"
        self.run_ok("--steps", 40, "--resume", self.checkpoint, "--trace", single)
        merged = weir("merge", *parts, "--single", single, "--json")
        self.assertEqual(merged.returncode, 0, merged.stdout)
        self.assertEqual(json.loads(merged.stdout)["steps"], 30)
        report = self.run_ok("--steps", STEPS, "--resume", self.folder / "wide")
        self.assertEqual((report["first_step"], report["step"]), (40, STEPS))

    def test_best_effort_says_so_and_loses_nothing(self):
        call = ["--policy", "best_effort", "--workers", 3, "--steps", STEPS, "--checkpoint", self.checkpoint,
                "--resume", self.checkpoint, "--trace", self.trace, "--checkpoint-every", 7]
        self.run_ok(*call)
        self.assertIn(b"best_effort", self.trace.read_bytes()[:4096])
        result = weir("replay", self.trace, "--store", shop / "shop.weir", "--json")
        self.assertEqual(json.loads(result.stdout)["checked_digests"], STEPS)
        self.assert_error("CHECKPOINT_MISMATCH", "--resume", self.checkpoint, "--steps", STEPS)
        for steps, end in (["--steps", STEPS + 9], f"at step {STEPS + 9}"), ([], "nowhere"):
            record = self.assert_error("CHECKPOINT_MISMATCH", "--resume", self.checkpoint, "--policy", "best_effort",
                                       "--workers", 3, *steps)
            self.assertIn(f"ends at step {STEPS}, and this one {end};", record["message"])
        self.assert_error("CHECKPOINT_MISMATCH", *call, "--shards", "contiguous")

    def test_shards_and_a_last_batch_that_is_not_full(self):
        call = ["--stage", "eval", "--dataset", "shop/churn/val", "--policy", "best_effort", "--shards", "contiguous",
                "--workers", 2]
        whole = self.run_ok(*call)
        full = self.run_ok(*call, "--drop-remainder", "--trace", self.trace, "--checkpoint", self.checkpoint)
        self.assertEqual(full["batches"], whole["batches"] - 1)
        self.assertEqual(full["samples"], full["batches"] * (whole["samples"] // full["batches"]))
        result = weir("replay", self.trace, "--store", shop / "shop.weir", "--json")
        self.assertEqual(json.loads(result.stdout)["checked_digests"], full["batches"], result.stderr)
        self.assert_error("CHECKPOINT_MISMATCH", *call, "--resume", self.checkpoint)
        self.assert_error("CONTRACT_VIOLATION", *call[:4], "--shards", "contiguous")
        self.assert_error("CONTRACT_VIOLATION", "--steps", 3, "--drop-remainder")


class Checkpoint(WithFolder):
    def test_its_bytes_are_what_the_reference_says(self):
        manifest = Manifest.read((shop / "shop.manifest.json").read_text())
        mixer = Mixer(manifest)
        info = json.loads(weir("info", shop / "shop.weir", "--json").stdout)
        for steps in 1, 7, STEPS:
            self.run_ok("--steps", steps, "--workers", 2, "--checkpoint", self.checkpoint)
            data = self.checkpoint.read_bytes()
            cursors = {}  # of the first step behind it that each dataset has
            for step in range(steps, steps + 2 * sum(manifest.mix.values())):
                key, cursor = mixer.locate(step)
                cursors.setdefault(key, {"epoch": cursor.epoch, "global_index": cursor.global_index})
            expected = {
                "checkpoint_version": "weir_checkpoint_v2", "step": steps, "data_cursors": cursors,
                "manifest_hash": manifest.manifest_hash, "mix_hash": manifest.mix_hash,
                "batch_config_hash": manifest.batch_config_hash, "store_hashes": [bytes.fromhex(info["store_hash"])],
                "token_hash": hashlib.sha256(manifest.replay_token).digest(), "stage": "train", "dataset": None,
                "policy": "strict", "pad": False, "world_size": 1, "rank": 0, "workers": 2,
                "weir_version": json.loads(weir("version", "--json").stdout)["version"],
                "prefetch": cbor.decode(data)["prefetch"],
            }  # fmt: skip
            expected["h"] = hashlib.sha256(cbor.encode(["weir_checkpoint_v2", expected])).digest()
            self.assertEqual(cbor.decode(data), expected)
            self.assertEqual(data, cbor.encode(expected))
            self.assertEqual(sum(worker["produced"] for worker in expected["prefetch"]["worker_states"]), steps)
            self.checkpoint.unlink()


    def test_one_of_an_earlier_version_is_read_and_replaced(self):
        self.run_ok("--steps", 7, "--checkpoint", self.checkpoint)
        old = cbor.decode(self.checkpoint.read_bytes())
        sealed = old.pop("h")
        old["checkpoint_version"] = "weir_checkpoint_v1"
        self.checkpoint.write_bytes(cbor.encode(old))
        report = self.run_ok("--steps", 9, "--checkpoint", self.checkpoint, "--resume", self.checkpoint)
        self.assertEqual((report["first_step"], report["step"]), (7, 9))
        self.assertEqual(cbor.decode(self.checkpoint.read_bytes())["checkpoint_version"], "weir_checkpoint_v2")
        for change in {"h": sealed}, {"h": bytes(32), "checkpoint_version": "weir_checkpoint_v2"}, {
                "checkpoint_version": "weir_checkpoint_v2"}:
            self.checkpoint.write_bytes(cbor.encode({**old, **change}))
            record = self.assert_error("CHECKPOINT_MISMATCH", "--resume", self.checkpoint)
            self.assertIn("is damaged", record["message"])

    def test_it_is_saved_by_time(self):
        """A run without an end and without --checkpoint-every: its checkpoint moves on while it runs."""
        process = start(command("--checkpoint", self.checkpoint, "--checkpoint-seconds", 1),
                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment())
        try:
            steps = {0}
            while len(steps) < 3:  # the one at the start, and two more
                self.assertIsNone(process.poll())
                if self.checkpoint.exists():
                    steps.add(cbor.decode(self.checkpoint.read_bytes())["step"])
        finally:
            process.kill()
            process.wait(timeout=60)
        report = self.run_ok("--resume", self.checkpoint, "--steps", max(steps) + 5)
        self.assertGreaterEqual(report["first_step"], max(steps))
        self.assert_usage("--checkpoint-seconds belongs to --checkpoint", "--checkpoint-seconds", 5)


class Signals(WithFolder):
    def test_a_signal_ends_a_run_with_all_saved(self):
        for number, status in (signal.SIGINT, 130), (signal.SIGTERM, 143):
            with self.subTest(signal=number):
                trace, checkpoint = self.folder / f"{status}.trace", self.folder / f"{status}.checkpoint"
                call = command("--trace", trace, "--checkpoint", checkpoint, "--json")
                process = start(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
                while not trace.exists() or trace.stat().st_size < 100000:  # it is under way
                    self.assertIsNone(process.poll())
                process.send_signal(number)
                output, errors = process.communicate(timeout=60)
                self.assertEqual(process.returncode, status)
                report = json.loads(output)
                self.assertEqual(report["stopped_by"], number.name)
                self.assertIn(f"stopped by {number.name} at step {report['step']}", errors)
                self.assertIn(f"--resume {checkpoint}", errors)
                replayed = json.loads(weir("replay", trace, "--json").stdout)
                self.assertEqual((replayed["steps"], replayed["complete"]), (report["step"], False))
                end = report["step"] + 10
                again = self.run_ok("--steps", end, "--trace", trace, "--checkpoint", checkpoint, "--resume", checkpoint)
                self.assertEqual((again["first_step"], again["step"]), (report["step"], end))
                replayed = json.loads(weir("replay", trace, "--json").stdout)
                self.assertEqual((replayed["steps"], replayed["complete"]), (end, True))

    def test_a_signal_that_comes_twice_at_once_is_one(self):
        """As from `timeout`, which tells the process and its group."""
        call = ["timeout", "--signal=TERM", "0.2", *command("--trace", self.trace, "--checkpoint", self.checkpoint)]
        for _ in range(5):
            result = subprocess.run(call, capture_output=True, text=True, timeout=60, env=environment())
            self.assertEqual(result.returncode, 124)
            if self.trace.exists() and self.trace.stat().st_size >= 100000:  # it was under way
                self.assertIn("stopped by SIGTERM", result.stderr)
            for path in self.trace, self.checkpoint:
                path.unlink(missing_ok=True)

    def test_a_signal_that_is_ignored_stays_ignored(self):
        process = start(command("--trace", self.trace, "--json"), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, env=environment(),
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
        while not self.trace.exists() or self.trace.stat().st_size < 100000:
            self.assertIsNone(process.poll())
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=60)
        self.assertEqual((process.returncode, json.loads(output)["stopped_by"]), (143, "SIGTERM"))

    def test_a_file_that_reaches_its_limit_is_an_error(self):
        call = command("--steps", 1000, "--trace", self.trace, "--checkpoint", self.checkpoint, "--checkpoint-every", 10)
        limited = subprocess.run(call, capture_output=True, text=True, timeout=60, env=environment(),
                                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000)))
        self.assertEqual(limited.returncode, 1)
        self.assertRegex(limited.stderr, r"\Aweir: IO_ERROR: cannot write .*run.trace: File too large\n\Z")
        again = self.run_ok("--steps", STEPS * 5, "--trace", self.trace, "--checkpoint", self.checkpoint, "--resume",
                            self.checkpoint)
        self.assertGreater(again["first_step"], 0)
        replayed = json.loads(weir("replay", self.trace, "--json").stdout)
        self.assertEqual((replayed["steps"], replayed["complete"]), (STEPS * 5, True))

    def test_two_runs_do_not_write_one_trace(self):
        call = ["--trace", self.trace, "--checkpoint", self.checkpoint, "--resume", self.checkpoint, "--checkpoint-every", 10]
        process = start(command(*call), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment())
        while not self.trace.exists() or self.trace.stat().st_size < 100000:
            self.assertIsNone(process.poll())
        for again in call, ["--trace", self.trace]:
            record = self.assert_error("IO_ERROR", *again)
            self.assertIn("another run is writing", record["message"])
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=60), 130)
        stopped = cbor.decode(self.checkpoint.read_bytes())["step"]
        again = self.run_ok(*call, "--steps", stopped + 5)
        self.assertEqual(again["first_step"], stopped)
        self.assertEqual(json.loads(weir("replay", self.trace, "--json").stdout)["steps"], stopped + 5)

    def test_without_a_checkpoint_it_says_so(self):
        process = start(command("--trace", self.trace), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=environment())
        while not self.trace.exists() or self.trace.stat().st_size < 100000:
            self.assertIsNone(process.poll())
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        self.assertIn("without --checkpoint", errors)


class Kill(WithFolder):
    def test_killed_at_any_moment_a_run_is_the_uninterrupted_one(self):
        """The same command again and again, killed after a random time, until the run ends; then anew, until there
        were enough kills. A checkpoint behind every step makes the moments between files frequent."""
        chance = random.Random(5)
        whole = self.folder / "whole.trace"
        self.run_ok("--steps", STEPS, "--trace", whole)
        kills, rounds = 0, 0
        while kills < KILLS:
            trace, checkpoint = self.folder / f"{rounds}.trace", self.folder / f"{rounds}.checkpoint"
            status = None
            while status != 0:
                call = command("--steps", STEPS, "--workers", chance.choice(KILL_WORKERS), "--trace", trace, "--checkpoint",
                               checkpoint, "--checkpoint-every", chance.choice([1, 1, 2, 5]), "--resume", checkpoint)
                process = start(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
                try:
                    _, errors = process.communicate(timeout=chance.choice([0.01, 0.03, 0.06, 0.1]) * chance.random()
                                                    if kills < KILLS else 60)
                except subprocess.TimeoutExpired:
                    process.kill()
                    _, errors = process.communicate(timeout=60)
                    kills += 1
                status = process.returncode
                self.assertIn(status, (0, -signal.SIGKILL), errors)
            self.assert_same_trace(whole, trace)
            rounds += 1
        self.assertGreaterEqual(kills, KILLS)


    def test_the_example_in_c_survives_kills(self):
        """examples/run.c: the same command until it is done, killed after a random time; its last sitting is not."""
        chance = random.Random(7)
        whole = self.folder / "whole.trace"
        self.run_ok("--steps", STEPS, "--trace", whole)
        call = [os.environ["WEIR_EXAMPLE_RUN"], shop / "shop.weir", shop / "shop.manifest.json", str(STEPS)]
        kills, status = 0, None
        while status != 0:
            process = start(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder, env=environment())
            try:
                said, errors = process.communicate(timeout=0.05 * chance.random() if kills < 6 else 60)
            except subprocess.TimeoutExpired:
                process.kill()
                said, errors = process.communicate(timeout=60)
                kills += 1
            status = process.returncode
            self.assertIn(status, (0, -signal.SIGKILL), errors)
        self.assertRegex(said, rf"^{STEPS} steps, of which \d+ in this sitting\n$")
        self.assert_same_trace(whole, self.folder / "run.trace")
        self.assertIn("every digest is equal", subprocess.run(
            [WEIR, "replay", self.folder / "run.trace", "--store", shop / "shop.weir"], check=True, capture_output=True,
            text=True).stdout)

    def test_killed_at_every_step_of_its_files(self):
        """Before every call that changes a file, and in the middle of every write: what is left behind goes on."""
        if not os.environ.get("WEIR_CRASH_LIBRARY"):
            self.skipTest("not with sanitizers")
        whole = self.folder / "whole.trace"
        steps = ["--steps", 6, "--checkpoint-every", 2]
        self.run_ok(*steps[:2], "--trace", whole)
        for torn in {}, {"WEIR_CRASH_TORN": "1"}:
            at, status = 0, None
            while status != 0:
                at += 1
                trace, checkpoint = self.folder / "run.trace", self.folder / "run.checkpoint"
                call = [*steps, "--trace", trace, "--checkpoint", checkpoint, "--resume", checkpoint]
                variables = {"LD_PRELOAD": os.environ["WEIR_CRASH_LIBRARY"], "WEIR_CRASH_AT": at, **torn}
                status = run(*call, variables=variables).returncode
                self.assertIn(status, (0, -signal.SIGKILL))
                self.run_ok(*call)
                result = weir("diff", whole, trace)
                self.assertEqual(result.stdout, "6 steps, all equal\n", f"killed at call {at}: {result.stderr}")
                self.assertEqual(list(self.folder.glob("*.tmp")), [], "what a kill left is removed by the next run")
                trace.unlink()
                checkpoint.unlink()
            self.assertGreater(at, 20)


class Damage(WithFolder):
    """A store that is damaged, or cut while a run reads it."""

    def setUp(self):
        super().setUp()
        self.store = self.folder / "shop.weir"
        shutil.copy(shop / "shop.weir", self.store)

    def command(self, *arguments):
        return [WEIR, "run", "--store", str(self.store), "--manifest", str(shop / "shop.manifest.json"),
                *map(str, arguments)]

    def flip(self, section, share):
        """Flips a bit at a share of a section."""
        sections = json.loads(weir("info", self.store, "--json").stdout)["sections"]
        place = next(s for s in sections if s["name"] == section)
        at = place["offset"] + int(share * place["size"])
        with open(self.store, "r+b") as file:
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ 4]))

    def test_damage_is_an_error_unless_nobody_asks(self):
        whole = self.folder / "whole.trace"
        subprocess.run(self.command("--steps", STEPS, "--trace", whole), check=True, capture_output=True)
        self.flip("rows", 0.5)
        for verify in "touched", "all":
            result = subprocess.run(self.command("--steps", 2000, "--verify", verify, "--json"), capture_output=True, text=True)
            record = json.loads(result.stdout)["error"]
            self.assertEqual((result.returncode, record["code_id"]), (1, "STORE_CORRUPT"))
            self.assertIn("section rows", record["message"])
            if verify == "touched":
                self.assertIn(str(self.store), record["message"])
        self.assertEqual(subprocess.run(self.command("--steps", 200, "--verify", "none"), capture_output=True).returncode, 0)
        result = subprocess.run(self.command("--verify", "some"), capture_output=True, text=True)
        self.assertEqual(result.returncode, 2)
        self.assertIn("none, touched or all", result.stderr)

    def test_a_store_cut_under_a_run_ends_it_with_its_trace(self):
        with start(self.command("--workers", 2, "--trace", self.trace, "--checkpoint", self.checkpoint,
                                           "--checkpoint-every", 20, "--json"), stdout=subprocess.PIPE, text=True) as process:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and not (self.trace.exists() and self.trace.stat().st_size > 20000):
                time.sleep(0.005)
            os.truncate(self.store, 8192)
            record = json.loads(process.communicate(timeout=60)[0])["error"]
        self.assertEqual((process.returncode, record["code_id"]), (1, "IO_ERROR"))
        self.assertIn(str(self.store), record["message"])
        shutil.copy(shop / "shop.weir", self.store)
        replayed = weir("replay", self.trace, "--store", self.store)
        self.assertEqual(replayed.returncode, 4, replayed.stderr)  # the trace ends with the failure, and all of it is right
        again = subprocess.run(self.command("--steps", 10**6, "--trace", self.trace, "--checkpoint", self.checkpoint,
                                            "--resume", self.checkpoint, "--plan"), capture_output=True, text=True)
        self.assertEqual(again.returncode, 0, again.stderr)

    def test_one_batch_is_verified_too(self):
        call = ["batch", "--store", self.store, "--manifest", shop / "shop.manifest.json", "--dataset",
                "shop/churn/train", "--stage", "infer"]
        sound = json.loads(weir(*call, "--json").stdout)["batch_digest"]
        self.flip("seed_rows", 0)
        for verify in [], ["--verify", "touched"], ["--verify", "all"]:
            self.assertIn("STORE_CORRUPT", weir(*call, *verify).stderr)
        with open(self.store, "r+b") as file:
            file.truncate(4096 + 100)
        self.assertIn("STORE_CORRUPT", weir(*call).stderr)
        shutil.copy(shop / "shop.weir", self.store)
        self.assertEqual(json.loads(weir(*call, "--json", "--verify", "all").stdout)["batch_digest"], sound)

    def test_embeddings_and_texts_are_verified(self):
        self.flip("text_embeddings", 0.01)
        self.assertIn("STORE_CORRUPT", weir("embed", self.store, "--texts", 3000).stderr)
        shutil.copy(shop / "shop.weir", self.store)
        self.flip("text_bytes", 0.01)
        self.assertIn("STORE_CORRUPT", weir("embed", self.store, "--texts", 3000, "--json").stdout)


if __name__ == "__main__":
    unittest.main()
