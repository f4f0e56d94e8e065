"""What shows only after long: a day of training with an interruption in every hour, memory over a million batches, every
number of workers. `make soak` runs all of it; every check runs the share of it that WEIR_SOAK_SHARE says."""
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.support.demo import small_demo  # noqa: E402
from tests.support.processes import start  # noqa: E402

WEIR = os.environ["WEIR"]
SHARE = float(os.environ.get("WEIR_SOAK_SHARE", "0.01"))
DAY = max(2400, int(24 * 3600 * 10 * SHARE))  # steps of a day, at ten a second
HOURS = 24
BATCHES = max(10000, int(1e6 * SHARE))
WORKERS_MAX = 64
MIB = 1 << 20
GROWTH_MAX = MIB // 2  # of anonymous memory, after the first fifth of the batches

shop = None  # the folder of a small shop; its manifest has short sequences and batches of 8


def setUpModule():
    global shop
    shop = small_demo()


def begin(*arguments):
    command = [WEIR, "run", "--store", shop / "shop.weir", "--manifest", shop / "shop.manifest.json", *arguments]
    return start([str(each) for each in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def anonymous_bytes(process):
    """What a process has taken of memory that is no file's; None once it has ended."""
    try:
        for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    except (FileNotFoundError, ProcessLookupError):
        pass
    return None


class Soak(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)

    def run_ok(self, *arguments):
        process = begin(*arguments)
        _, errors = process.communicate()
        self.assertEqual(process.returncode, 0, errors)

    def assert_same(self, steps, left, right):
        result = subprocess.run([WEIR, "diff", left, right], capture_output=True, text=True)
        self.assertEqual((result.returncode, result.stdout), (0, f"{steps} steps, all equal\n"), result.stderr)

    def test_a_day_with_an_interruption_in_every_hour(self):
        """Killed or told to stop at a random moment of each hour, and resumed with another number of workers. No run goes beyond
        its hour, however late this process looks."""
        chance = random.Random(8)
        whole, trace, checkpoint = (self.folder / name for name in ("whole.trace", "run.trace", "run.checkpoint"))
        self.run_ok("--steps", DAY, "--workers", 2, "--trace", whole)
        size, interrupted = whole.stat().st_size, 0
        for hour in range(HOURS):
            process = begin("--steps", DAY * (hour + 1) // HOURS, "--workers", chance.randint(1, WORKERS_MAX), "--trace", trace, "--checkpoint",
                            checkpoint, "--checkpoint-every", 50, "--resume", checkpoint)
            until = size * (hour + chance.random()) / HOURS
            while process.poll() is None and (not trace.exists() or trace.stat().st_size < until):
                time.sleep(0.001)
            number = chance.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
            process.send_signal(number)
            _, errors = process.communicate()
            # It has ended already, has been killed (also by the others, before it listens to them), or has stopped.
            self.assertIn(process.returncode, (0, -number, 128 + number), errors)
            interrupted += process.returncode != 0
        self.run_ok("--steps", DAY, "--trace", trace, "--checkpoint", checkpoint, "--resume", checkpoint)
        self.assertGreater(interrupted, HOURS // 2)
        self.assert_same(DAY, whole, trace)

    def watch_memory(self, batches):
        """What a run holds in the second tenth of its batches, and then: at most, in bytes, if it was seen in both parts."""
        trace = self.folder / f"{batches}.trace"
        process = begin("--steps", batches, "--workers", 4, "--trace", trace, "--checkpoint",
                        self.folder / f"{batches}.checkpoint", "--checkpoint-every", 1000)
        seen = []  # (bytes of trace, bytes of memory)
        while process.poll() is None:
            memory = anonymous_bytes(process)
            if memory and trace.exists():
                seen.append((trace.stat().st_size, memory))
            time.sleep(0.002)
        _, errors = process.communicate()
        self.assertEqual(process.returncode, 0, errors)
        end = trace.stat().st_size
        early = [memory for written, memory in seen if end / 10 < written <= end / 5]
        late = [memory for written, memory in seen if written > end / 5]
        return (max(early), max(late)) if early and late else None

    def test_memory_is_flat(self):
        """Looked at again and again: what is held after a fifth of the batches is all that is ever held."""
        batches = BATCHES
        while not (held := self.watch_memory(batches)):
            batches *= 2  # it was over before there were enough looks at it
        early, late = held
        print(f"{batches} batches: {early / MIB:.1f} MiB, then at most {late / MIB:.1f} MiB", file=sys.stderr)
        self.assertLessEqual(late - early, GROWTH_MAX)

    def test_every_number_of_workers(self):
        counts = range(1, WORKERS_MAX + 1) if SHARE >= 1 else (1, 2, 3, 7, 16, WORKERS_MAX)
        steps = 300
        whole = self.folder / "whole.trace"
        self.run_ok("--steps", steps, "--trace", whole)
        for workers in counts:
            with self.subTest(workers=workers):
                trace, checkpoint = self.folder / f"{workers}.trace", self.folder / f"{workers}.checkpoint"
                arguments = ["--trace", trace, "--checkpoint", checkpoint, "--resume", checkpoint]
                self.run_ok("--steps", steps // 2 + workers, "--workers", workers, *arguments)
                self.run_ok("--steps", steps, "--workers", WORKERS_MAX + 1 - workers, *arguments)
                self.assert_same(steps, whole, trace)


if __name__ == "__main__":
    unittest.main()
