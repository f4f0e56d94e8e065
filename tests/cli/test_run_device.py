"""weir run --device: batches on the host as the device, and on the fake driver's, are those of a run without one; traces and checkpoints follow
what the loop has seen, not what was copied ahead."""
import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from tests.support.demo import small_demo

WEIR = os.environ["WEIR"]
FAKE = os.environ["WEIR_FAKE_CUDA"]
STEPS = 40

shop = None


def setUpModule():
    global shop
    shop = small_demo()


def run(*arguments, **environment):
    return subprocess.run([WEIR, "run", "--store", shop / "shop.weir", "--manifest", shop / "shop.manifest.json",
                           "--dataset", "shop/churn/train", *map(str, arguments)], capture_output=True, text=True, timeout=60,
                          env={**os.environ, **environment})


class Device(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)

    def run_ok(self, *arguments):
        result = run(*arguments, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def test_every_batch_is_the_same_there(self):
        plain = self.run_ok("--steps", STEPS)
        self.assertIsNone(plain["device"])
        for device, name in (("host", "host"), (FAKE, "fake device 0")):
            with self.subTest(device=device):
                result = self.run_ok("--steps", STEPS, "--workers", 3, "--device", device, "--depth", 4, "--read-back")
                self.assertEqual(result["batches"], STEPS)
                self.assertEqual(result["bytes"], plain["bytes"])
                self.assertEqual(result["device"]["name"], name)
                self.assertEqual(result["device"]["verified"], STEPS)
                self.assertLess(result["device"]["compact_bytes"], plain["bytes"] / 3)

    def test_for_people(self):
        result = run("--steps", 5, "--device", "host", "--read-back")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"on host: .* copied, 5 batches read back, all identical")

    def test_traces_and_checkpoints_are_those_of_the_host(self):
        whole, first, second = (self.folder / name for name in ("whole.trace", "parts.trace", "device.trace"))
        checkpoint = self.folder / "run.checkpoint"
        self.run_ok("--steps", STEPS, "--trace", whole)
        self.run_ok("--steps", STEPS, "--trace", second, "--device", "host", "--workers", 2)
        self.assertEqual(second.read_bytes(), whole.read_bytes())
        for name, arguments in (("host.trace", ()), ("device.trace", ("--device", "host"))):
            (self.folder / name).unlink(missing_ok=True)
            self.run_ok("--steps", 7, "--trace", self.folder / name, "--trace-indices", *arguments)
        self.assertEqual((self.folder / "host.trace").read_bytes(), second.read_bytes())
        self.run_ok("--steps", 13, "--trace", first, "--checkpoint", checkpoint, "--device", "host", "--depth", 5, "--workers", 3)
        result = self.run_ok("--steps", STEPS, "--trace", first, "--checkpoint", checkpoint, "--resume", checkpoint, "--device", FAKE,
                             "--checkpoint-every", 4)
        self.assertEqual((result["first_step"], result["step"]), (13, STEPS))
        merged = subprocess.run([WEIR, "diff", whole, first], capture_output=True, text=True)
        self.assertEqual(merged.returncode, 0, merged.stdout + merged.stderr)

    def test_a_batch_that_fails_there_is_in_no_checkpoint(self):
        whole, trace, checkpoint = (self.folder / name for name in ("whole.trace", "run.trace", "run.checkpoint"))
        self.run_ok("--steps", 9, "--trace", whole)
        arguments = ("--steps", 9, "--trace", trace, "--checkpoint", checkpoint, "--checkpoint-every", 2, "--device", FAKE,
                     "--read-back")
        result = run(*arguments, WEIR_FAKE_CUDA_FAILS="cuMemcpyDtoHAsync_v2 4")
        self.assertEqual(result.returncode, 1)
        self.assertIn("DEVICE_ERROR", result.stderr)
        self.assertEqual(self.run_ok(*arguments, "--resume", checkpoint)["first_step"], 2)
        self.assertEqual(subprocess.run([WEIR, "diff", whole, trace]).returncode, 0)

    def test_the_plan_shows_both_sides(self):
        arenas = {where: self.run_ok("--plan", *where)["arenas"] for where in ((), ("--device", "cuda"))}
        self.assertEqual(set(arenas[()]), {"slots", "tensors", "builders"})
        self.assertEqual(set(arenas["--device", "cuda"]), {"slots", "builders", "device"})

    def test_calls_that_make_no_sense(self):
        for arguments in (["--depth", "2"], ["--read-back"], ["--device", "host", "--queue", "2"]):
            with self.subTest(arguments=arguments):
                self.assertEqual(run("--steps", 2, *arguments).returncode, 2)

    def test_errors_have_records(self):
        for arguments, code in ((["--device", "gpu"], "CONTRACT_VIOLATION"), (["--device", "cuda:x"], "CONTRACT_VIOLATION"),
                                (["--device", "host", "--depth", "65"], "CONTRACT_VIOLATION"),
                                (["--device", "/nowhere/libcuda.so.1"], "DEVICE_ERROR")):
            with self.subTest(arguments=arguments):
                result = run("--steps", 2, *arguments)
                self.assertEqual(result.returncode, 1)
                self.assertTrue(result.stderr.startswith(f"weir: {code}: "), result.stderr)


if __name__ == "__main__":
    unittest.main()
