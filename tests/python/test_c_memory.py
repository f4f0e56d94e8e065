"""C's memory runs out, at every allocation of the module's calls in turn (tests/support/fail_memory.c): MemoryError or an
answer, never a crash or another error. And the module's import, which fails at every allocation of Python's."""

import contextlib
import json
import subprocess
import sys
import unittest
from typing import Any, Callable

import weir
from weir import _weir

from support import ROUNDS_MAX, TRAIN, C, FaultTest, run_weir
from tests.support.arrow import Column, Table


# Each attempt that fails leaves no module behind, so that the next one makes it anew. One that passes ends the process.
IMPORTS = """
import _imp, importlib.machinery, sys
from _testcapi import remove_mem_hooks, set_nomemory
loader = importlib.machinery.ExtensionFileLoader("weir._weir", sys.argv[1])
spec = importlib.machinery.ModuleSpec("weir._weir", loader, origin=sys.argv[1])
first = int(sys.argv[2])
for at in range(first, first + 100_000):
    set_nomemory(at, at + 1)
    try:
        try:
            module = _imp.create_dynamic(spec)
        finally:
            remove_mem_hooks()
    except (ImportError, MemoryError):
        pass
    else:
        break
print(at - first, module.version)
"""


class Faults(FaultTest):
    def sweep(self, *calls: Callable[[], Any]) -> None:
        for call in calls:
            call()  # what is made once
            for _ in range(ROUNDS_MAX):
                C.fail_memory_begin()
                try:
                    call()
                except MemoryError:
                    self.failed += 1
                finally:
                    has_failed = C.fail_memory_end()
                if not has_failed:
                    break
            else:
                self.fail(f"{call} still fails after {ROUNDS_MAX} rounds")

    def test_stores(self) -> None:
        store = weir.Store(self.store)
        several = store.keys("order_items")
        self.sweep(lambda: weir.Store(self.store), lambda: store.tables["customers"]["birth_year"],
                   lambda: store.tables["customers"].nulls("birth_year"), lambda: several.row((1, 1)),
                   lambda: store._info(), lambda: weir.batch(store, self.manifest, TRAIN))

    def test_batches(self) -> None:
        store = weir.Store(self.store)
        batch = weir.batch(store, self.changed_manifest(), TRAIN)
        self.sweep(lambda: batch.copy(), lambda: batch._arrays(), lambda: batch._edges(), lambda: batch._capsules(0, True),
                   lambda: batch.sample_digests)

    def test_contexts(self) -> None:
        manifest = weir.Manifest(self.changed_manifest())
        store = weir.Store(self.store)
        contexts = weir.Contexts(store, "churn", manifest)
        self.sweep(lambda: weir.Contexts(store, "churn", manifest, token=b"some"), lambda: contexts(5, "2024-05-01"))
        kept = []
        self.sweep(lambda: kept.append(contexts([1, 2, 3])), lambda: weir.Contexts(store, "churn", manifest)([4, 5]))
        kept.clear()

    def test_manifests(self) -> None:
        manifest = weir.Manifest(self.manifest)
        cursors = weir.Cursors(manifest)
        saved, sampler = cursors._bytes(), weir.Sampler(manifest, TRAIN)
        self.sweep(lambda: weir.Manifest(self.manifest), lambda: manifest._documents(), lambda: weir.Cursors(manifest),
                   lambda: cursors._bytes(), lambda: cursors._restore(saved), lambda: _weir.Mix(manifest)._locate(3),
                   lambda: weir.Sampler(manifest, TRAIN), lambda: sampler.step(0, 0), lambda: sampler.range(0, 0, 5))

    def test_errors(self) -> None:
        def fail() -> None:
            with contextlib.suppress(FileNotFoundError):
                weir.Store("/no/such/store")

        self.sweep(fail)

    def test_plans(self) -> None:
        graph = json.loads(run_weir("graph", "chain", "--nodes", "3"))
        plan = weir.plan(graph, mode="inference")
        data = plan.to_bytes()
        self.sweep(lambda: weir.plan(graph, mode="inference"), lambda: plan.to_bytes(), lambda: weir.Plan.from_bytes(data),
                   lambda: weir.pack([(0, 3, 8), (1, 4, 8)]))

    def test_drafts(self) -> None:
        table = Table([Column("id", "i", [1, 2, 3]), Column("word", "u", ["a", "b", None])])
        self.sweep(lambda: _weir._draft("shop.sqlite"), lambda: _weir._draft((("t", table, 0), ("u", lambda: table, 3))))

    def test_attention(self) -> None:
        self.sweep(lambda: _weir.Attention._open(None, 0))

    def test_runs(self) -> None:
        manifest = weir.Manifest(self.changed_manifest())

        def run() -> None:
            with weir.Loader(self.store, manifest, dataset=TRAIN, workers=1, steps=2) as loader:
                held = []
                for batch in loader:
                    held = [batch.copy()]
                    loader.metrics()
                loader.state_dict()
                held.clear()

        def copies() -> None:
            with weir.Loader(self.store, manifest, dataset=TRAIN, workers=1, steps=2, copy=True) as loader:
                for _ in loader:
                    pass

        self.sweep(run, copies)

    def test_a_batch_that_cannot_be_handed_over_is_given_by_the_next_call(self) -> None:
        """Or by a run that resumes where this one says that it stands, also when it was closed."""
        manifest = weir.Manifest(self.changed_manifest())

        def opened() -> weir.Loader:
            return weir.Loader(self.store, manifest, dataset=TRAIN, workers=1, steps=4, epochs=1, copy=copy)

        for copy in False, True:
            for _ in range(ROUNDS_MAX):
                with opened() as loader, opened() as other:
                    steps = [next(loader).step]
                    C.fail_memory_begin()
                    try:
                        steps.append(next(loader).step)
                    except MemoryError:
                        self.failed += 1
                    finally:
                        has_failed = C.fail_memory_end()
                    state = loader.state_dict()
                    if not has_failed:
                        loader.close()
                        self.assertEqual(loader.state_dict(), state)
                    self.assertEqual((loader.step, state["step"]), (len(steps), len(steps)))
                    other.load_state_dict(state)
                    rest = [batch.step for batch in other]
                    self.assertEqual(steps + rest, [0, 1, 2, 3])
                    if not has_failed:
                        break
                    self.assertEqual([batch.step for batch in loader], rest)
            else:
                self.fail(f"a batch still fails after {ROUNDS_MAX} rounds")

    def test_prefetchers(self) -> None:
        def run() -> None:
            with weir.Prefetcher([1, 2, 3], workers=2) as items:
                next(items)
                items.metrics()
                state = items.state_dict()
            with weir.Prefetcher([1, 2, 3], workers=2) as items:
                items.load_state_dict(state)
                next(items)

        self.sweep(run)


class Imports(unittest.TestCase):
    def test_an_import_that_runs_out_of_memory(self) -> None:
        try:
            import _testcapi  # noqa: F401
        except ImportError:
            self.skipTest("this Python has no _testcapi, which makes allocations fail")
        at, failures, passed = 0, 0, 0
        while passed < 5:  # in a row: an import survives some failures, and another process looks at those after them
            command = [sys.executable, "-c", IMPORTS, _weir.__file__, str(at)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, 0, done.stderr)
            failed, version = done.stdout.split()
            self.assertEqual(version, _weir.version)
            failures += int(failed)
            passed = 0 if int(failed) > 0 else passed + 1
            at += int(failed) + 1
        self.assertGreater(failures, 100)


if __name__ == "__main__":
    unittest.main()
