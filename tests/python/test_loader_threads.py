"""weir.Loader with threads, forks and interrupts, and its memory, which does not grow."""

import gc
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

import weir
from tests.python.support import TRAIN, LoaderTest, status_of_child


class Concurrency(LoaderTest):
    def test_threads_share_a_loader(self) -> None:
        loader = self.loader(steps=60, workers=2, queue_size=8)
        steps: list[list[int]] = [[] for _ in range(4)]

        def run(mine: list[int]) -> None:
            for batch in loader:
                mine.append(batch.step)

        threads = [threading.Thread(target=run, args=(mine,)) for mine in steps]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(sum(steps, [])), list(range(60)))

    def test_batches_end_in_other_threads(self) -> None:
        loader = self.loader(queue_size=1)
        for _ in range(5):
            boxes = [[next(loader)["column_ids"]]]
            thread = threading.Thread(target=boxes[0].clear)
            thread.start()
            thread.join()
        self.assertEqual(loader.metrics()["held"], 0)

    def test_the_gil_is_free_while_a_batch_is_waited_for(self) -> None:
        """Nobody is made to give the GIL up here, so another thread counts on only where it is let go of."""
        loader = self.slow_loader()
        loader.state_dict()  # the run is open: what is left is waiting
        count, is_over = [0], threading.Event()

        def run() -> None:
            while not is_over.is_set():
                count[0] += 1
                time.sleep(0)

        thread = threading.Thread(target=run)
        thread.start()
        self.addCleanup(sys.setswitchinterval, sys.getswitchinterval())
        sys.setswitchinterval(1000)
        progress = 0
        for _ in range(5):
            before = count[0]
            next(loader)
            progress += count[0] - before
        is_over.set()
        thread.join()
        self.assertGreater(progress, 0)

    def slow_loader(self, **options: object) -> weir.Loader:
        dataset = max(weir.Store(self.store).datasets.items(), key=lambda item: item[1]["cardinality"])[0]
        manifest = self.changed_manifest(global_batch_size=300, batch={"sequence_length": 4096, "max_rows": 64})
        return self.loader(manifest=manifest, dataset=dataset, **options)

    def test_closing_wakes_who_waits(self) -> None:
        loader = self.slow_loader()
        failures = []

        def run() -> None:
            try:
                while True:
                    next(loader)
            except (weir.errors.Cancelled, ValueError) as error:
                failures.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        while loader._run is None or not loader._run.is_started:
            time.sleep(0)
        loader.close()
        thread.join(60)
        self.assertEqual(len(failures), 1)

    def test_who_closes_is_told_what_happens_then(self) -> None:
        """A trace whose end cannot be written is an error of close(), not of a thread that only waits."""
        loader = self.slow_loader(trace="closed")
        next(loader)
        failures: list[BaseException] = []

        def run() -> None:
            try:
                while True:
                    next(loader)
            except (weir.errors.Error, ValueError) as error:
                failures.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        while not loader._is_waiting:
            time.sleep(0)
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize("closed"), limits[1]))
        try:
            with self.assertRaises(weir.errors.IoError):
                loader.close()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            thread.join()
        self.assertEqual([type(error) for error in failures], [weir.errors.Cancelled])

    def test_ctrl_c_is_heard_and_the_run_goes_on_after(self) -> None:
        self.interrupt_a_loop(KeyboardInterrupt)

    def test_a_handler_without_memory_is_heard_too(self) -> None:
        def handle(*_: object) -> None:
            raise MemoryError

        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, handle))
        self.interrupt_a_loop(MemoryError)

    def interrupt_a_loop(self, kind: type[BaseException]) -> None:
        loader = self.slow_loader()
        interrupts = 0
        found: list[str | None] = []
        threading.Thread(target=interrupt_when_waiting, args=(loader,)).start()
        while len(found) < 2 or not interrupts:  # the other thread may be late
            try:
                found.append(next(loader).digest)
            except kind:
                interrupts += 1
        expected = self.slow_loader()
        self.assertEqual(found, [next(expected).digest for _ in found])
        self.assertEqual(interrupts, 1)

    def test_a_child_of_fork_is_told(self) -> None:
        loader = self.loader(steps=3, trace="forked")
        next(loader)
        untouched = self.loader()
        answers = multiprocessing.get_context("fork").SimpleQueue()

        def child() -> None:
            try:
                next(loader)
            except weir.errors.ContractViolation as error:
                answers.put(str(error))
            answers.put(next(untouched).step)
            loader.close()

        process = multiprocessing.get_context("fork").Process(target=child)
        process.start()
        self.assertIn("before a fork", answers.get())
        self.assertEqual(answers.get(), 0)
        process.join()
        self.assertEqual(process.exitcode, 0)
        self.assertEqual([batch.step for batch in loader], [1, 2])
        self.assertEqual(weir.replay("forked").steps, 3)

    def test_a_child_of_fork_is_told_while_a_thread_waits(self) -> None:
        loader = self.loader()
        holds, may_end = threading.Event(), threading.Event()

        def hold() -> None:
            with loader._lock:  # as a thread does that waits for a batch
                loader._is_waiting = True
                holds.set()
                may_end.wait()
                loader._is_waiting = False

        thread = threading.Thread(target=hold)
        next(loader)
        thread.start()
        holds.wait()
        self.addCleanup(thread.join)
        self.addCleanup(may_end.set)

        def is_told() -> bool:
            try:
                next(loader)
            except weir.errors.ContractViolation:
                return True
            return False

        self.assertEqual(status_of_child(is_told), 0)
        may_end.set()
        thread.join()
        self.assertEqual(next(loader).step, 1)

    def test_a_signal_handler_of_the_thread_that_waits(self) -> None:
        """It is past the lock: it may look and close, but neither take nor load."""

        def handle(*_: object) -> None:
            refused = (lambda: next(loader), lambda: iter(loader), lambda: loader.load_state_dict(state))
            for call in refused if loader._is_waiting else ():
                with self.assertRaisesRegex(RuntimeError, "set a flag"):
                    call()
                refusals.append(call)
            self.assertEqual(loader.state_dict()["step"], loader.step)
            loader.close()

        def send_when_waiting() -> None:
            while not loader._is_waiting:
                time.sleep(0)
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

        refusals: list[object] = []
        before = signal.signal(signal.SIGUSR1, handle)
        self.addCleanup(signal.signal, signal.SIGUSR1, before)
        loader = self.loader(queue_size=1, copy=True, workers=1, buffer_size=1)
        state = loader.state_dict()
        thread = threading.Thread(target=send_when_waiting)
        thread.start()
        taken = 0
        with self.assertRaises((weir.errors.Cancelled, ValueError)):
            while True:
                taken += next(loader).step == taken
        thread.join()
        self.assertTrue(refusals)
        again = self.loader()
        again.load_state_dict(loader.state_dict())
        self.assertEqual(next(again).step, taken)

    def test_a_program_that_ends_in_the_middle_ends(self) -> None:
        code = (
            "import weir, sys\n"
            f"loader = weir.Loader({self.store!r}, {self.manifest!r}, dataset={TRAIN!r}, workers=3)\n"
            "kept = next(loader).torch()\n"
            "sys.exit(7)\n"
        )
        environment = {**os.environ, "PYTHONPATH": str(Path(weir.__file__).parents[1])}
        done = subprocess.run([sys.executable, "-c", code], env=environment, check=False, timeout=100)
        self.assertEqual(done.returncode, 7)

    def test_memory_does_not_grow(self) -> None:
        """Thousands of batches, loaders, states and errors; what is kept once warm stays the same."""
        manifest = weir.Manifest(self.changed_manifest(global_batch_size=2, batch={"sequence_length": 16, "max_rows": 4}))

        def work(count: int) -> int:
            for _ in range(count):
                with weir.Loader(self.store, manifest, dataset=TRAIN, workers=2) as loader:
                    for batch in loader.take(50):
                        batch.torch(), batch.numpy(), batch.copy()
                    loader.load_state_dict(loader.state_dict())
                    next(loader).sample_index.tolist()
            gc.collect()
            return resident_bytes()

        work(10)
        before = work(10)
        self.assertLess(work(40) - before, 2 * 2**20)


def interrupt_when_waiting(loader: weir.Loader) -> None:
    while not loader._is_waiting:
        time.sleep(0)
    os.kill(os.getpid(), signal.SIGINT)


def resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


if __name__ == "__main__":
    unittest.main()
