"""Python's memory runs out, at every allocation of a call in turn: MemoryError, never a crash or an error without an
exception. (Not of a Prefetcher's calls: Python itself crashes if it has no memory for the state of a thread. Python 3.11 also
crashes if it has no memory for the pair of a `.items()` that is iterated, so what is swept here goes through keys.) And arguments
that no caller of the package would give."""

import ctypes
import json
import os
import unittest
from typing import Any, Callable

import weir
from weir import _weir

from support import TRAIN, ShopTest, run_weir

try:
    from _testcapi import remove_mem_hooks, set_nomemory
except ImportError:
    set_nomemory = None

FAULTS_MAX = 4000  # a call that allocates more is swept so far
FAKE = os.environ["WEIR_FAKE_CUDA"]
CALM = 25  # calls in a row without a fault end a sweep


LEFT_ALONE = {"_cancel", "_close", "close", "_command", "mro"}  # they end what is looked at, or print
PACKAGE = os.path.dirname(weir.__file__)
OWN_FILES = {__file__, *(os.path.join(PACKAGE, name) for name in os.listdir(PACKAGE))}


def innermost_file(error: BaseException) -> str:
    frame = error.__traceback__
    while frame.tb_next:
        frame = frame.tb_next
    return frame.tb_frame.f_code.co_filename


@unittest.skipUnless(set_nomemory, "this Python has no _testcapi, which makes allocations fail")
class Faults(ShopTest):
    scale = 1000

    def sweep(self, call: Callable[[], Any]) -> None:
        call()  # imports, and what is made once
        calm = at = 0
        while calm < CALM and at < FAULTS_MAX:
            try:
                set_nomemory(at, at + 1)
                try:
                    call()
                finally:
                    remove_mem_hooks()
                calm += 1
            except MemoryError:
                self.failed += 1
                calm = 0
            except (RuntimeError, SystemError) as error:  # Python's own library has others: locks, os.environ
                self.assertNotIn(innermost_file(error), OWN_FILES, repr(error))
                calm = 0
            at += 1

    def setUp(self) -> None:
        self.failed = 0

    def tearDown(self) -> None:
        self.assertGreater(self.failed, 10)

    def opened(self, dataset: str = TRAIN) -> tuple[weir.Store, weir.Batch]:
        store = weir.Store(self.store)
        return store, weir.batch(store, self.changed_manifest(), dataset)

    def test_stores(self) -> None:
        store = weir.Store(self.store)
        keys, several = store.keys("customers"), store.keys("order_items")
        first = several.row((1, 1))
        for call in (lambda: weir.Store(self.store), lambda: store.tables["customers"]["birth_year"],
                     lambda: store.tables["customers"].nulls("birth_year"), lambda: store._embeddings("columns"),
                     lambda: keys[40], lambda: keys.row(1), lambda: several[first], lambda: several.row((1, 1)),
                     lambda: store.text(1), lambda: store.category(1), lambda: store._info(), lambda: store.datasets):
            self.sweep(call)

    def test_batches(self) -> None:
        store, batch = self.opened()
        array = batch["numeric_values"]
        for call in (lambda: batch._arrays(), lambda: batch.copy(), lambda: batch.target.values, lambda: batch._edges(),
                     lambda: array[0], lambda: array[0, 1:3], lambda: array.tolist(), lambda: repr(array),
                     lambda: array.shape, lambda: array.strides, lambda: array.__array_interface__,
                     lambda: array.__dlpack__(), lambda: array.__dlpack__(max_version=(1, 0)),
                     lambda: memoryview(array), lambda: array.view("int32"),
                     lambda: batch._capsules(0, True), lambda: batch._capsules(0, False)):
            self.sweep(call)

    def test_contexts_and_attention(self) -> None:
        store, manifest = weir.Store(self.store), weir.Manifest(self.changed_manifest())
        contexts = weir.Contexts(store, "churn", manifest)
        row = contexts(1).anchor_row.tolist()[0]
        attention = _weir.Attention._open(None, 0)
        lists = ctypes.create_string_buffer(_weir.Attention._lists_size(0, 1, 0) + 64)
        at = -(-ctypes.addressof(lists) // 64) * 64
        for call in (lambda: weir.Contexts(store, "churn", manifest), lambda: contexts([1, 2], "2024-05-01"), lambda: contexts(row=row),
                     lambda: _weir.Attention._open(None, 0), lambda: _weir.Attention._lists_size(1, 1000, 300),
                     lambda: attention._lists(0, 1, 0, 1, (0,) * 5, at, 0)):
            self.sweep(call)

    def test_samplers(self) -> None:
        sampler = weir.Sampler(self.changed_manifest(), TRAIN)
        for call in (lambda: weir.Sampler(self.manifest, TRAIN), lambda: sampler.step(0, 0), lambda: sampler._take(0, 0),
                     lambda: sampler.range(0, 0, 5), lambda: sampler.index_at(0, 3), lambda: weir.Manifest(self.manifest)):
            self.sweep(call)

    def test_manifests(self) -> None:
        manifest = weir.Manifest(self.manifest)
        cursors, document = weir.Cursors(manifest), self.changed_manifest()
        saved = cursors._bytes()
        for call in (lambda: manifest.datasets, lambda: manifest._documents(), lambda: weir.Manifest(document),
                     lambda: _weir.Mix(manifest)._locate(3), lambda: weir.Cursors(manifest), lambda: cursors._get(TRAIN),
                     lambda: cursors._bytes(), lambda: cursors._restore(saved), lambda: _weir._error_table(),
                     lambda: weir.batch(self.store, manifest, TRAIN), lambda: _weir._draft("shop.sqlite")):
            self.sweep(call)

    def test_errors(self) -> None:
        """The exception itself cannot be made."""
        def fail() -> None:
            try:
                weir.Store("/no/such/store")
            except weir.errors.Error:
                pass

        self.sweep(fail)

    def test_plans(self) -> None:
        graph = json.loads(run_weir("graph", "chain", "--nodes", "3"))
        plan = weir.plan(graph, mode="inference")
        for call in (lambda: weir.plan(graph, mode="inference"), lambda: plan.arenas, lambda: plan.tensors,
                     lambda: plan.to_bytes(), lambda: weir.Plan.from_bytes(plan.to_bytes()),
                     lambda: weir.pack([(0, 3, 8), (1, 4, 8)])):
            self.sweep(call)

    def test_runs(self) -> None:
        """A loader is opened and closed each time; its threads allocate nothing of Python's."""
        manifest = self.changed_manifest()

        def run() -> None:
            with weir.Loader(self.store, manifest, dataset=TRAIN, workers=1, steps=2) as loader:
                for _ in loader:
                    loader.metrics()
                loader.state_dict()

        self.sweep(run)


class Arguments(ShopTest):
    scale = 1000

    def test_wrong_types(self) -> None:
        """Of the module's own functions, which the package calls with what it has checked: an exception, or an answer."""
        store = weir.Store(self.store)
        manifest = weir.Manifest(self.manifest)
        batch = weir.batch(store, self.changed_manifest(), TRAIN)
        plan = weir.plan(json.loads(run_weir("graph", "chain", "--nodes", "3")), mode="inference")
        loader = weir.Loader(store, self.changed_manifest(), dataset=TRAIN, steps=2)
        items = weir.Prefetcher([1, 2, 3])
        kept = next(iter(loader)), next(items)
        contexts = weir.Contexts(store, "churn", manifest)
        things = [store, manifest, contexts, _weir.Attention._open(None, 0), batch, batch["numeric_values"],
                  weir.Sampler(manifest, TRAIN), plan, weir.Cursors(manifest), loader._run, items._opened(), _weir, *(kind for kind in vars(_weir).values() if isinstance(kind, type))]
        for thing in things:
            kinds = [kind for kind in type(thing).__mro__ if kind in vars(_weir).values()] or [thing]
            for name in vars(kinds[0]):
                method = getattr(thing, name, None)
                if not callable(method) or name in LEFT_ALONE or (name.startswith("__") and name != "__dlpack__"):
                    continue
                for arguments in (), ("x",) * 6, (object(),) * 3, (-1,), (2**70, 2**70), (1.5,), ((),), (b"",), ("x",), (0, 0), (0,):
                    try:
                        method(*arguments)
                    except (ArithmeticError, AttributeError, BufferError, LookupError, MemoryError, OSError, RuntimeError, StopIteration,
                            TypeError, ValueError, weir.errors.Error):
                        pass
        del kept
        loader.close()
        items.close()

    def refuse(self, kind: type[Exception], text: str, call: Callable[..., Any], *arguments: Any) -> None:
        with self.subTest(arguments), self.assertRaisesRegex(kind, text):
            call(*arguments)

    def test_requests(self) -> None:
        """Of weir.Contexts, which has checked most of this before."""
        build = weir.Contexts(self.store, "churn", self.manifest)._build
        for kind, text, request in (
            (TypeError, "4 arguments", ()), (TypeError, "integer", (([],), None, None, False)), (ValueError, "at least one value", ((), None, None, False)),
            (OverflowError, "2.64-1", (0, None, -1, False)), (OverflowError, "2.32-1", (2**40, None, None, False)), (TypeError, "integer", ("0", None, None, False)),
            (UnicodeError, "surrogates", (0, "\ud800", None, False)), (TypeError, "integer", (0, 1.5, None, False)), (OverflowError, "64 bits", (0, 2**63, None, False)),
            (LookupError, "row 4294967295 is not one", (2**32 - 1, None, None, False)),
        ):  # fmt: skip
            self.refuse(kind, text, build, weir.Batch, [request])
        self.refuse(ValueError, "1048577 requests; there may be 1 to 1048576", build, weir.Batch, [()] * (2**20 + 1))
        self.refuse(TypeError, "bytes", _weir.Contexts._open, (weir.Store(self.store),), weir.Manifest(self.manifest), "churn", "token", False, 0)
        self.refuse(TypeError, "Store", _weir.Contexts._open, (1,), weir.Manifest(self.manifest), "churn", None, False, 0)

    def test_options_of_a_run(self) -> None:
        opened = weir.Manifest(self.manifest)
        for kind, text, options in (
            (TypeError, "a run has not all of the options .*nonsense", {"workers": 1, "nonsense": 2}), (TypeError, "integer", {"workers": "1"}),
            (ValueError, "embedded null", {"dataset": "shop/churn\0/train"}), (TypeError, "bad argument", {"dataset": 1}),
        ):  # fmt: skip
            self.refuse(kind, text, _weir.Run._open, (weir.Store(self.store),), opened, None, options, None)

    def test_attention(self) -> None:
        """On the host and on the fake driver's device."""
        kind, size = weir.errors.ContractViolation, 2**32 - 1
        self.refuse(weir.errors.DeviceError, "no device 99", _weir.Attention._open, FAKE, 99)
        self.refuse(kind, "1 to 65536 cells", _weir.Attention._lists_size, 1, size, size)
        self.refuse(kind, "1 to 65536 cells", _weir.Attention._mask, 0, 1, size, size, 0, 0)
        tensor = (0, 0, 0, 0)
        for attention in _weir.Attention._open(None, 0), _weir.Attention._open(FAKE, 0):
            self.refuse(kind, "1 to 65536 cells", attention._lists, 1, size, size, 1, (1,) * 5, 1, 0)
            for is_backward in False, True:
                for text, pattern, shape in ("the pattern is not", 7, (1, 1, 1, 1, 16)), ("heads of 7", 0, (1, 1, 1, 1, 7)):
                    self.refuse(kind, text, attention._run, is_backward, pattern, 1, shape, 1, 1.0, 0, *(tensor,) * 4, 0, *(tensor,) * 4, 0, 0)
            self.refuse(TypeError, "4 arguments", attention._run, 0, 0, 1, (1, 1, 1, 1, 16), 1, 1.0, 0, (0,), *(tensor,) * 3, 0, *(tensor,) * 4, 0, 0)

    def test_commands(self) -> None:
        self.refuse(TypeError, "bytes", _weir._command, [b"weir", "info"])
        self.refuse(TypeError, "a list", _weir._command, (b"weir",))


if __name__ == "__main__":
    unittest.main()
