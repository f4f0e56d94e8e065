"""weir.Prefetcher: any Python source over threads, in the reference's order, with states that resume exactly."""

import base64
import gc
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import traceback
import unittest
import weakref
from itertools import islice
from pathlib import Path
from typing import Any

import torch
import weir
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import cbor
from reference.prefetch import Config, is_sequential, state_after, strict_order
from tests.python.support import status_of_child


def named(epoch: int, position: int) -> str:
    return f"{epoch}:{position}"


def make(config: Config, source: Any = named, **options: Any) -> weir.Prefetcher[Any]:
    return weir.Prefetcher(
        source, length=config.length, workers=config.workers, epochs=config.epochs or None, shards=config.shard_mode,
        drop_remainder=config.drop_remainder, start_epoch=config.start_epoch, start_position=config.start_position,
        policy=config.policy, **options,
    )  # fmt: skip


@st.composite
def configs(draw: st.DrawFn) -> Config:
    length = draw(st.integers(0, 14))
    return Config(
        length=length,
        workers=draw(st.integers(1, 5)),
        epochs=draw(st.integers(1, 3)),
        shard_mode=draw(st.sampled_from(["interleaved", "contiguous"])),
        drop_remainder=draw(st.booleans()),
        start_position=draw(st.integers(0, length)),
        start_epoch=draw(st.integers(0, 2)),
    )


class MultiPrefetchResumeSmoke(unittest.TestCase):
    """Several workers against a sequential round robin without any prefetching; then resumed at several split points."""

    LENGTH, WORKERS = 23, 4

    def baseline(self, shards: str, drop_remainder: bool) -> list[int]:
        """Shards by counting, then one item of each in turn; an exhausted one is passed over from then on."""
        each, remainder = divmod(self.LENGTH, self.WORKERS)
        sizes = [each + (worker < remainder and not drop_remainder) for worker in range(self.WORKERS)]
        if shards == "interleaved":
            lists = [[k + i * self.WORKERS for i in range(size)] for k, size in enumerate(sizes)]
        else:
            lists = [list(range(sum(sizes[:k]), sum(sizes[: k + 1]))) for k in range(self.WORKERS)]
        return [items[turn] for turn in range(max(sizes)) for items in lists if turn < len(items)]

    def test_smoke(self) -> None:
        source = [position * 10 for position in range(self.LENGTH)]
        for shards in "interleaved", "contiguous":
            for drop_remainder in False, True:
                options = {"workers": self.WORKERS, "shards": shards, "drop_remainder": drop_remainder}
                expected = [position * 10 for position in self.baseline(shards, drop_remainder)]
                with weir.Prefetcher(source, **options) as whole:
                    self.assertEqual(len(whole), len(expected))
                    self.assertEqual(list(whole), expected)
                for split in 0, 1, 5, len(expected) - 1, len(expected):
                    with weir.Prefetcher(source, **options) as first, weir.Prefetcher(source, **options) as second:
                        taken = list(islice(first, split))
                        second.load_state_dict(json.loads(json.dumps(first.state_dict())))
                        self.assertEqual(taken + list(second), expected)


class Order(unittest.TestCase):
    @settings(max_examples=80)
    @given(configs(), st.data())
    def test_strict_order_and_states_are_the_references(self, config: Config, data: st.DataObject) -> None:
        expected = list(strict_order(config))
        items = [named(item.epoch, item.position) for item in expected]
        split = data.draw(st.integers(0, len(items)))
        may_share = config.shard_mode == "interleaved" and config.epochs == 1 and not config.drop_remainder
        options = {"shares_items": may_share and data.draw(st.booleans()), "buffer_size": data.draw(st.integers(1, 3))}
        with make(config, **options) as whole, make(config, **options) as first:
            self.assertEqual(len(whole), len(items))
            self.assertEqual(list(whole), items)
            self.assertEqual(list(islice(first, split)), items[:split])
            state = first.state_dict()
            self.assertEqual(cbor.decode(base64.b64decode(state["prefetch"])), state_after(config, expected[:split]))
        other = Config(**{**config.__dict__, "workers": data.draw(st.integers(1, 5))})
        with make(other) as second:
            if other.workers != config.workers and not (is_sequential(config) and is_sequential(other)):
                with self.assertRaisesRegex(weir.errors.CheckpointMismatch, "workers"):
                    second.load_state_dict(state)
                return
            second.load_state_dict(pickle.loads(pickle.dumps(state)))
            self.assertEqual(list(second), items[split:])

    @settings(max_examples=30)
    @given(configs(), st.integers(1, 4), st.data())
    def test_best_effort_loses_nothing(self, config: Config, max_lead: int, data: st.DataObject) -> None:
        config = Config(**{**config.__dict__, "policy": "best_effort"})
        options = {"max_lead": max_lead, "max_skips": data.draw(st.integers(1, 3))}
        expected = sorted(named(item.epoch, item.position) for item in strict_order(config))
        split = data.draw(st.integers(0, len(expected)))
        with make(config, **options) as first, make(config, **options) as second:
            taken = list(islice(first, split))
            second.load_state_dict(first.state_dict())
            self.assertEqual(sorted(taken + list(second)), expected)

    def test_best_effort_takes_what_is_ready(self) -> None:
        """A worker that is stuck holds nobody up, until the others are max_lead ahead."""
        may_go = threading.Event()
        source = lambda epoch, position: may_go.wait() and position if position == 0 else position  # noqa: E731
        with weir.Prefetcher(source, length=20, workers=2, policy="best_effort", max_lead=3, max_skips=1) as items:
            for expected in 1, 3, 5:
                while items.metrics()["workers"][1]["occupied"] == 0:  # else it would wait for the first worker
                    time.sleep(0)
                self.assertEqual(next(items), expected)
            threading.Timer(0.05, may_go.set).start()
            self.assertEqual(next(items), 0)
            self.assertEqual(sorted(items), [2, 4, *range(6, 20)])

    def test_a_slow_item_does_not_hold_up_another_worker(self) -> None:
        """The first item waits for the three others that there is room for: one worker has to make them all."""
        made = threading.Semaphore(0)

        def source(epoch: int, position: int) -> int:
            if position > 0:
                made.release()
            elif not all(made.acquire(timeout=60) for _ in range(3)):
                raise RuntimeError("the others were not made")
            return position

        with weir.Prefetcher(source, length=4, workers=2, buffer_size=2, shares_items=True) as items:
            self.assertEqual(list(items), [0, 1, 2, 3])
        with self.assertRaisesRegex(weir.Error, "items are shared in strict order"):
            weir.Prefetcher(source, length=4, epochs=2, shares_items=True)

    def test_a_source_without_end(self) -> None:
        with weir.Prefetcher(lambda epoch, position: position, workers=3) as items, weir.Prefetcher([1, 2, 3], epochs=None) as passes:
            self.assertEqual(list(islice(items, 50)), list(range(50)))
            self.assertEqual(list(islice(passes, 7)), [1, 2, 3, 1, 2, 3, 1])
            for endless in items, passes:
                self.assertTrue(endless)
                with self.assertRaises(TypeError):
                    len(endless)
            again = weir.Prefetcher(lambda epoch, position: position, workers=2)
            again.load_state_dict(items.state_dict())
            self.assertEqual(next(again), 50)
            again.close()

    def test_sources_of_all_kinds(self) -> None:
        dataset = torch.utils.data.TensorDataset(torch.arange(6))
        with weir.Prefetcher(dataset, workers=2) as items:
            self.assertEqual([int(row[0]) for row in items], list(range(6)))
        with weir.Prefetcher({0: "a", 1: None, 2: "c"}, workers=2) as items:
            self.assertEqual(list(items), ["a", None, "c"])
        sampler = weir.Sampler({"global_batch_size": 2, "datasets": {"a": {"id": "a", "version": "1", "hash": "0" * 64,
                                                                            "cardinality": 9}}})
        with weir.Prefetcher(sampler.index_at, length=9, epochs=2, workers=3) as items:
            found = list(items)
        self.assertEqual(found, [sampler.index_at(epoch, position) for epoch in range(2) for position in range(9)])

    def test_options_are_checked(self) -> None:
        for options, kind, message in (({"workers": 0}, ValueError, "workers is 0"), ({"workers": 2**20}, ValueError, "ahead|4096"),
                                       ({"workers": 5000, "buffer_size": 1}, weir.errors.ContractViolation, "4096"),
                                       ({"shards": "blocks"}, weir.errors.ContractViolation, "interleaved or contiguous"),
                                       ({"policy": "fast"}, weir.errors.ContractViolation, "strict or best_effort"),
                                       ({"num_workers": 3}, TypeError, "it is called workers"), ({"epochs": 0}, ValueError, "epochs is 0"),
                                       ({"shard": "x"}, TypeError, "did you mean shards"), ({"length": -1}, OverflowError, "length is -1"),
                                       ({"start_position": 4}, weir.errors.ContractViolation, "beyond the source's end")):
            with self.subTest(options), self.assertRaisesRegex(kind, message):
                weir.Prefetcher([1, 2, 3], **options)
        for source, options in ((3, {}), (iter([1]), {}), (named, {"epochs": 2})):
            with self.subTest(source), self.assertRaises((TypeError, ValueError)):
                weir.Prefetcher(source, **options)

    def test_states_of_others_are_refused(self) -> None:
        with weir.Prefetcher([1, 2, 3], workers=2) as items:
            next(items)
            state = items.state_dict()
            for other in weir.Prefetcher([1, 2]), weir.Prefetcher([1, 2, 3], policy="best_effort", workers=2):
                with self.assertRaises(weir.errors.CheckpointMismatch):
                    other.load_state_dict(state)
                self.assertEqual(next(other), 1)
                other.close()
            for wrong in None, 3, {}, {"version": 1}, {"version": 2, **state, "prefetch": 3}, {**state, "prefetch": "?"}:
                with self.subTest(wrong), self.assertRaises(ValueError):
                    items.load_state_dict(wrong)
            with self.assertRaises(weir.errors.CborInvalid):
                items.load_state_dict({**state, "prefetch": "AAAA"})
            self.assertEqual(list(items), [2, 3])


class Failures(unittest.TestCase):
    def test_what_the_source_raises_comes_at_its_place(self) -> None:
        for shares_items in False, True:
            with self.subTest(shares_items=shares_items):
                self.raise_at_its_place(shares_items)

    def raise_at_its_place(self, shares_items: bool) -> None:
        broken = {4}

        def source(epoch: int, position: int) -> int:
            if position in broken:
                raise KeyError(f"item {position}")
            return position

        items = weir.Prefetcher(source, length=8, workers=3, shares_items=shares_items)
        self.addCleanup(items.close)
        self.assertEqual([next(items) for _ in range(4)], [0, 1, 2, 3])
        state = items.state_dict()
        for _ in range(2):
            try:
                next(items)
                self.fail("nothing was raised")
            except KeyError as error:
                self.assertEqual(error.args, ("item 4",))
                self.assertEqual(traceback.extract_tb(error.__traceback__)[-1].name, "source")
            self.assertEqual(items.state_dict(), state)
        broken.clear()
        self.assertEqual(list(items), [4, 5, 6, 7])

    def test_ctrl_c_is_heard_and_the_run_resumes_after(self) -> None:
        may_go = threading.Event()
        items = weir.Prefetcher(lambda epoch, position: (may_go.wait(), position)[1], length=3)
        self.addCleanup(items.close)
        threading.Timer(0.05, lambda: (may_go.set(), os.kill(os.getpid(), signal.SIGINT)) and None).start()
        found, interrupts = [], 0
        while len(found) < 3:
            try:
                found.append(next(items))
            except KeyboardInterrupt:
                interrupts += 1
        while interrupts == 0:
            try:
                time.sleep(0.01)
            except KeyboardInterrupt:
                interrupts += 1
        self.assertEqual(found, [0, 1, 2])

    def when_waiting(self, handler: Any) -> weir.Prefetcher[int]:
        """Numbers, for the first of which the loop waits until a signal handler has run in its thread."""
        is_made, handled = threading.Event(), threading.Event()

        def handle(*_: Any) -> None:
            try:
                handler(items)
            finally:
                handled.set()

        def source(epoch: int, position: int) -> int:
            is_made.wait()  # workers begin before there is a name for it
            while not handled.is_set() and not items._is_waiting:
                time.sleep(0)
            if not handled.is_set():
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
                handled.wait()
            return position

        before = signal.signal(signal.SIGUSR1, handle)
        self.addCleanup(signal.signal, signal.SIGUSR1, before)
        items = weir.Prefetcher(source, length=3)
        is_made.set()
        self.addCleanup(items.close)
        return items

    def test_a_signal_handler_may_wait_for_others(self) -> None:
        def take_another(_: Any) -> None:
            is_made = threading.Event()

            def source(epoch: int, position: int) -> int:
                is_made.wait()
                while not others._is_waiting:
                    time.sleep(0)
                return position

            with weir.Prefetcher(source, length=1) as others:
                is_made.set()
                found.extend(others)
            raise KeyboardInterrupt

        found: list[int] = []
        items = self.when_waiting(take_another)
        with self.assertRaises(KeyboardInterrupt):
            next(items)
        self.assertEqual((found, list(items)), ([0], [0, 1, 2]))

    def test_a_signal_handler_takes_nothing_of_what_it_interrupts(self) -> None:
        def take(items: weir.Prefetcher[int]) -> None:
            for call in lambda: next(items), lambda: items.load_state_dict(states[0]):
                with self.assertRaisesRegex(RuntimeError, "set a flag"):
                    call()
            states.append(items.state_dict())

        states: list[dict[str, Any]] = []
        items = self.when_waiting(take)
        states.append(items.state_dict())
        self.assertEqual(list(items), [0, 1, 2])
        self.assertEqual(states[0], states[1])

    def test_a_signal_handler_closes_what_it_interrupts(self) -> None:
        items = self.when_waiting(weir.Prefetcher.close)
        with self.assertRaises((weir.errors.Cancelled, ValueError)):
            next(items)
        again = weir.Prefetcher(named, length=3)
        again.load_state_dict(items.state_dict())
        self.assertEqual(list(again), ["0:0", "0:1", "0:2"])

    def test_closing_wakes_who_waits(self) -> None:
        may_go, failures = threading.Event(), []
        items = weir.Prefetcher(lambda epoch, position: may_go.wait(), length=3)

        def run() -> None:
            try:
                next(items)
            except (weir.errors.Cancelled, ValueError) as error:
                failures.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        threading.Timer(0.1, may_go.set).start()
        items.close()
        thread.join(60)
        self.assertLessEqual(len(failures), 1)
        self.assertFalse(thread.is_alive())
        state = items.state_dict()
        with self.assertRaisesRegex(ValueError, "closed"):
            next(items)
        again = weir.Prefetcher(lambda epoch, position: position, length=3)
        again.load_state_dict(state)
        self.assertEqual(len(list(again)), 3 if failures else 2)

    def test_a_child_of_fork_is_told(self) -> None:
        items = weir.Prefetcher(range(10), workers=2)
        self.addCleanup(items.close)
        next(items)

        def is_told() -> bool:
            try:
                next(items)
            except weir.errors.ContractViolation:
                items.close()
                return True
            return False

        self.assertEqual(status_of_child(is_told), 0)
        self.assertEqual(list(items), list(range(1, 10)))

    def test_a_program_that_ends_in_the_middle_ends(self) -> None:
        code = (
            "import weir, sys, time\n"
            "items = weir.Prefetcher(lambda epoch, position: time.sleep(0.01) or position, workers=3)\n"
            "assert next(items) == 0\n"
            "sys.exit(7)\n"
        )
        environment = {**os.environ, "PYTHONPATH": str(Path(weir.__file__).parents[1])}
        done = subprocess.run([sys.executable, "-c", code], env=environment, check=False, timeout=100, capture_output=True)
        self.assertEqual((done.returncode, done.stderr), (7, b""))


PROGRAM = """
import gc, os, sys, threading, time, weakref, weir

def is_true_soon(condition):
    until = time.monotonic() + 60
    while not condition() and time.monotonic() < until:
        time.sleep(0.001)
    return condition()

def threads():
    return len(os.listdir("/proc/self/task"))

before = threads()
"""


class WithinTheSource(unittest.TestCase):
    """A worker that ends its own prefetcher cannot wait for itself. Programs of their own: they crashed."""

    def check(self, code: str, said: str = "") -> None:
        environment = {**os.environ, "PYTHONPATH": str(Path(weir.__file__).parents[1])}
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", PROGRAM + code], env=environment, check=False, timeout=100, capture_output=True)
        self.assertEqual((done.returncode, done.stdout.decode(), done.stderr), (0, said, b""))

    def test_it_cannot_be_closed(self) -> None:
        for call in "p.close()", "p.load_state_dict(state)":
            with self.subTest(call):
                self.check(f"""
def source(epoch, position):
    if position == 2 and is_first:
        is_first.pop()
        {call}
    return position

is_first = [True]
p = weir.Prefetcher(lambda epoch, position: source(epoch, position), length=5, workers=2, buffer_size=1)
state = p.state_dict()
assert [next(p), next(p)] == [0, 1]
try:
    next(p)
    sys.exit("nothing was raised")
except RuntimeError as error:
    print(error)
assert list(p) == [2, 3, 4]
p.close()
assert is_true_soon(lambda: threads() == before)
""", "a source cannot close its own prefetcher; raise an exception instead\n")

    def test_it_cannot_be_closed_while_another_thread_closes_it(self) -> None:
        self.check("""
def source(epoch, position):
    is_begun.set()
    assert is_true_soon(lambda: is_named.is_set() and p._run is None)
    try:
        p.close()
    except RuntimeError as error:
        print(error)

is_begun, is_named = threading.Event(), threading.Event()
p = weir.Prefetcher(source, length=1)
is_named.set()
is_begun.wait()
p.close()
assert is_true_soon(lambda: threads() == before)
""", "a source cannot close its own prefetcher; raise an exception instead\n")

    def test_another_may_be_closed(self) -> None:
        self.check("""
def source(epoch, position):
    with weir.Prefetcher(number, length=5) as others:
        return next(others) + position

def number(epoch, position):
    return position

with weir.Prefetcher(source, length=5, workers=2) as p:
    assert list(p) == [0, 1, 2, 3, 4]
assert is_true_soon(lambda: threads() == before)
""")

    def test_the_last_reference_may_go(self) -> None:
        """By hand; by the garbage collector; with what the worker's thread keeps, when that ends."""
        for length, last in ((10, "held.clear()"), (10, "gc.collect()"), (1, "local.held = held.pop()")):
            with self.subTest(last):
                self.check(f"""
def source(epoch, position):
    is_dropped.wait()
    {last}
    done.append(position)
    return bytearray(10)

class Holder:
    pass

def make():
    holder = Holder()
    holder.itself = holder
    holder.items = weir.Prefetcher(source, length={length})
    if {last!r} != "gc.collect()":
        held.append(holder.items)
        holder.itself = None

gc.disable()
is_dropped, local, held, done = threading.Event(), threading.local(), [], []
make()
is_dropped.set()
assert is_true_soon(lambda: threads() == before), threads()
assert done == [0], done
""")

    def test_who_holds_both_ends_of_it_is_garbage(self) -> None:
        """A source that is a method of what holds the prefetcher; so are the items and exceptions that nobody took."""
        self.check("""
class Holder:
    def __init__(self):
        self.items = weir.Prefetcher(self.load, length=1000, workers=4)

    def load(self, epoch, position):
        if position > 10:
            raise KeyError(position)
        return self

def dropped():
    holder = Holder()
    assert next(holder.items) is holder
    return weakref.ref(holder)

gone = [dropped() for _ in range(5)]
assert is_true_soon(lambda: gc.collect() >= 0 and not any(held() for held in gone)), "they are kept"
assert is_true_soon(lambda: threads() == before), threads()
assert not any(type(thing).__name__ in ("Prefetch", "Prefetcher", "KeyError") for thing in gc.get_objects())
""")

    def test_collecting_garbage_does_not_wait_for_the_source(self) -> None:
        """It comes at any time: here when its thread holds a lock that the source waits for."""
        self.check("""
def source(epoch, position):
    is_made.set()
    with lock:
        return position

class Holder:
    pass

def make():
    holder = Holder()
    holder.itself = holder
    holder.items = weir.Prefetcher(source, length=10)

gc.disable()
is_made, lock = threading.Event(), threading.Lock()
with lock:
    make()
    is_made.wait()
    assert threads() == before + 1
    gc.collect()
assert is_true_soon(lambda: threads() == before), threads()
""")

    def test_a_program_that_ends_meanwhile_ends(self) -> None:
        """And the worker, which is at its item, does not go on in an interpreter that has ended."""
        self.check("""
def source(epoch, position):
    is_held.wait()
    held.clear()
    is_dropped.set()
    time.sleep(0.3)
    print("made", flush=True)

is_held, is_dropped, held = threading.Event(), threading.Event(), []
held.append(weir.Prefetcher(source, length=10))
is_held.set()
is_dropped.wait()
""", "made\n")

    def test_a_child_of_fork_may_drop_it(self) -> None:
        self.check("""
def source(epoch, position):
    is_held.wait()
    child = os.fork()
    if child == 0:
        held.clear()
        os._exit(7)
    statuses.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

is_held, statuses, held = threading.Event(), [], []
held.append(weir.Prefetcher(source, length=1))
is_held.set()
next(held[0])
assert statuses == [7], statuses
held.clear()
assert is_true_soon(lambda: threads() == before)
""")


class Threads(unittest.TestCase):
    def test_what_is_kept_per_thread_stays(self) -> None:
        """A connection per thread is opened once per worker, not once per item."""
        local, opened = threading.local(), []

        def source(epoch: int, position: int) -> int:
            if not hasattr(local, "connection"):
                local.connection = object()
                opened.append(position)
            return position

        with weir.Prefetcher(source, length=200, workers=3) as items:
            self.assertEqual(list(items), list(range(200)))
        self.assertEqual(sorted(opened), [0, 1, 2])

    def test_workers_work_at_the_same_time(self) -> None:
        barrier = threading.Barrier(4, timeout=60)
        with weir.Prefetcher(lambda epoch, position: barrier.wait() >= 0, length=8, workers=4) as items:
            self.assertEqual(list(items), [True] * 8)

    def test_threads_share_it(self) -> None:
        items = weir.Prefetcher(range(500), workers=3)
        self.addCleanup(items.close)
        found: list[list[int]] = [[] for _ in range(4)]
        threads = [threading.Thread(target=mine.extend, args=(items,)) for mine in found]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(sum(found, [])), list(range(500)))

    def test_nothing_is_kept(self) -> None:
        class Thing:
            pass

        made: weakref.WeakSet[Thing] = weakref.WeakSet()

        def source(epoch: int, position: int) -> Thing:
            thing = Thing()
            made.add(thing)
            return thing

        for _ in range(20):
            items = weir.Prefetcher(source, length=100, workers=3, buffer_size=4)
            kept = [next(items) for _ in range(5)]
            items.load_state_dict(items.state_dict())
            next(items)
            del items, kept
        gc.collect()
        self.assertEqual((len(made), threading.active_count()), (0, 1))

    def test_metrics(self) -> None:
        with weir.Prefetcher(range(9), workers=3) as items:
            list(items)
            metrics = items.metrics()
        self.assertEqual((metrics["consumed"], [worker["consumed"] for worker in metrics["workers"]]), (9, [3, 3, 3]))

    def test_it_is_not_copied(self) -> None:
        with weir.Prefetcher(range(3)) as items, self.assertRaisesRegex(TypeError, "one in each process"):
            pickle.dumps(items)


if __name__ == "__main__":
    unittest.main()
