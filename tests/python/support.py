"""A small shop to test with: the database, schema, store and manifest of `weir demo`, in a folder that is the working
directory while a test class runs."""

import ctypes
import json
import os
import signal
import subprocess
import tempfile
import traceback
import unittest
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tests.support.processes  # noqa: F401  (Ctrl-C is heard, also if the tests run in a shell's background)
import weir

try:
    from hypothesis import settings
except ImportError:  # the tests of frameworks do without
    pass
else:  # the same cases in every run; others with WEIR_PROPERTY_SALT set to anything
    settings.register_profile("weir", derandomize="WEIR_PROPERTY_SALT" not in os.environ, database=None, deadline=None)
    settings.load_profile("weir")

PROGRAM = Path(os.environ.get("WEIR", Path(__file__).parents[2] / "build" / "weir")).resolve()
TRAIN = "shop/churn/train"


def run_weir(*arguments: str) -> str:
    """What the program prints; its exit status does not matter."""
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=False, timeout=120).stdout


def status_of_child(is_right: Callable[[], bool]) -> int:
    """Forks, and calls the function in the child: 0 if it says yes. The child runs nothing else of the test, whatever happens."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(30)
            status = 0 if is_right() else 1
        except BaseException:  # noqa: BLE001
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1]


class ScratchTest(unittest.TestCase):
    """In an empty folder, where warnings of ingest are not shown."""

    def setUp(self) -> None:
        catcher = warnings.catch_warnings()
        catcher.__enter__()
        self.addCleanup(catcher.__exit__, None, None, None)
        warnings.simplefilter("ignore", weir.IngestWarning)
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(holder.name)


class ShopTest(unittest.TestCase):
    scale = 2000
    store, manifest = "shop.weir", "shop.manifest.json"

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.addClassCleanup(os.chdir, os.getcwd())
        cls.folder = Path(folder.name)
        os.chdir(cls.folder)
        run_weir("demo", "--scale", str(cls.scale), "--dir", ".", "--no-run")

    def changed_manifest(self, **changes: Any) -> dict[str, Any]:
        """The shop's manifest with other values, and small batches unless they are among them."""
        document = json.loads(Path(self.manifest).read_text())
        return {**document, "batch": {"sequence_length": 64, "max_rows": 32}, **changes}


C = ctypes.CDLL(None)
ROUNDS_MAX = 3000  # of a call, until none of its allocations fails


@unittest.skipUnless(hasattr(C, "fail_memory_begin"), "the library that makes C's allocations fail is not preloaded")
class FaultTest(ShopTest):
    """The module's C allocations fail, one after the other (tests/support/fail_memory.c). A test counts in `failed`, and must
    have seen a failure."""

    scale = 1000

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        if not C.fail_memory_of(b"/_weir."):
            raise AssertionError("the module is not among the loaded libraries")

    def setUp(self) -> None:
        self.failed = 0

    def tearDown(self) -> None:
        self.assertGreater(self.failed, 0)


def skip(loader: weir.Loader, count: int) -> None:
    for _ in loader.take(count):
        pass


class LoaderTest(ShopTest):
    def loader(self, **options: Any) -> weir.Loader:
        manifest = options.pop("manifest", None) or self.changed_manifest(global_batch_size=8)
        options = {"dataset": TRAIN, "with_digests": True, **options}
        if "steps" in options and "stage" not in options:
            options.setdefault("epochs", 1)  # a run that ends
        loader = weir.Loader(self.store, manifest, **options)
        self.addCleanup(loader.close)
        return loader
