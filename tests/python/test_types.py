"""The package as a tool sees it: types, stubs, examples in docstrings and in docs/python.md."""

import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import weir
from tests.python.support import ShopTest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python"
MODULES = ["weir", *(f"weir.{module.name}" for module in pkgutil.iter_modules(weir.__path__) if module.name != "_weir")]

FRAMEWORKS = [("weir.executorch", "executorch"), ("weir.pyg", "torch_geometric"), ("weir.spark", "pyarrow"), ("weir.spark", "pyspark"),
              ("weir.transformers", "transformers")]  # fmt: skip


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, cwd=PACKAGE, check=False, timeout=300)
    return "" if done.returncode == 0 else done.stdout + done.stderr


class Types(unittest.TestCase):
    def test_mypy_has_nothing_to_say(self) -> None:
        cache = tempfile.TemporaryDirectory()
        self.addCleanup(cache.cleanup)
        arguments = ["-m", "mypy", "--config-file", "mypy.ini", "--cache-dir", cache.name]
        self.assertEqual(run("/usr/bin/python3", *arguments, "-p", "weir"), "")
        usage = str(Path(__file__).with_name("typed_usage.py"))
        self.assertEqual(run("/usr/bin/python3", *arguments, usage), "")

    def test_stubs_are_what_the_extension_has(self) -> None:
        stubs = {"weir._weir": PACKAGE / "weir" / "_weir.pyi", "weir.errors": PACKAGE / "weir" / "errors.pyi"}
        for name, path in stubs.items():
            module, text = importlib.import_module(name), path.read_text()
            for attribute, value in vars(module).items():
                if not attribute.startswith("__") and getattr(value, "__module__", name) == name:
                    with self.subTest(attribute):
                        if isinstance(value, type):
                            self.check_class(value, text)
                        elif name == "weir._weir":
                            self.assertRegex(text, rf"(?m)^(def {attribute}\(|{attribute}:)")

    def check_class(self, kind: type, text: str) -> None:
        self.assertIn(f"class {kind.__name__}", text)
        body = text.split(f"class {kind.__name__}", 1)[1].split("\nclass ", 1)[0].split("\n@final", 1)[0]
        for attribute in vars(kind):
            if not attribute.startswith("__"):
                self.assertIn(f"def {attribute}(", body, kind.__name__)

    def test_everything_public_is_documented(self) -> None:
        for name in weir.__all__:
            value = getattr(weir, name)
            with self.subTest(name):
                self.assertTrue(value.__doc__)
                for attribute, member in vars(value).items() if isinstance(value, type) else ():
                    if not attribute.startswith("_") and callable(member):
                        self.assertTrue(member.__doc__, f"{name}.{attribute}")

    def test_importing_weir_imports_neither_numpy_nor_torch(self) -> None:
        code = "import sys, weir; print(sorted({'numpy', 'torch', 'jax'} & set(sys.modules)))"
        printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        self.assertEqual(printed, "[]\n")


class Examples(ShopTest):
    def test_docstrings(self) -> None:
        examples = 0
        for name in MODULES:
            with self.subTest(name):
                try:
                    module = importlib.import_module(name)
                except ModuleNotFoundError as error:
                    self.assertIn((name, error.name), FRAMEWORKS)
                    self.skipTest(f"the examples of {name} need {error.name}, which is not here")
                result = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
                self.assertEqual(result.failed, 0)
                examples += result.attempted
        self.assertGreater(examples, 30)

    def test_the_docs(self) -> None:
        """Every Python block of the page, in order and in one namespace: with prompts as a doctest, without as a program."""
        names: dict[str, object] = {}
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
        blocks = re.findall(r"(?ms)^```python\n(.*?)^```", (ROOT / "docs" / "python.md").read_text())
        for number, block in enumerate(blocks):
            if ">>>" in block:
                example = doctest.DocTestParser().get_doctest(block, names, f"block {number}", "python.md", 0)
                runner.run(example, clear_globs=False)
                names.update(example.globs)
            else:
                exec(compile(block, f"python.md, block {number}", "exec"), names)
        self.assertEqual(runner.failures, 0)
        self.assertGreater(runner.tries, 20)


if __name__ == "__main__":
    unittest.main()
