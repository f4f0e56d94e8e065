"""The wheel: one for every Python from 3.11 on, with nothing but the C library left outside, installed by pip without the network."""

import os
import re
import subprocess
import sys
import tempfile
import tomllib
import unittest
import zipfile
from pathlib import Path

import weir

ROOT = Path(__file__).resolve().parents[2]
EXTENSION = Path(weir._weir.__file__)


class Extension(unittest.TestCase):
    def symbols(self, *arguments: str) -> list[str]:
        output = subprocess.run(["nm", "-D", *arguments, str(EXTENSION)], capture_output=True, text=True, check=True).stdout
        return [line.split()[-1].split("@")[0] for line in output.splitlines()]

    def test_it_exports_its_entry_alone(self) -> None:
        self.assertEqual(self.symbols("--defined-only"), ["PyInit__weir"])

    def test_it_is_named_for_every_python(self) -> None:
        self.assertEqual(EXTENSION.name, "_weir.abi3.so")

    def test_versions_agree(self) -> None:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        self.assertEqual(project["version"], weir.__version__)
        self.assertRegex((ROOT / "CMakeLists.txt").read_text(), rf"project\(weir VERSION {re.escape(weir.__version__)} ")


class Wheel(unittest.TestCase):
    """The backend's own part; the build that it starts is stood in for by the one that there is."""

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        sys.path.insert(0, str(ROOT / "tools"))
        import wheel_backend

        wheel_backend._build = lambda settings: EXTENSION.parent
        cls.wheel = cls.folder / wheel_backend.build_wheel(str(cls.folder))
        cls.backend = wheel_backend

    def test_the_same_sources_give_the_same_wheel(self) -> None:
        first = self.wheel.read_bytes()
        self.assertEqual(self.backend.build_wheel(str(self.folder)), self.wheel.name)
        self.assertEqual(self.wheel.read_bytes(), first)
        self.assertRegex(self.wheel.name, r"^weir-[\d.]+-cp311-abi3-linux_\w+\.whl$")

    def test_it_holds_the_package(self) -> None:
        names = set(zipfile.ZipFile(self.wheel).namelist())
        for path in (ROOT / "python" / "weir").iterdir():
            if path.suffix in (".py", ".pyi", ".typed"):
                self.assertIn(f"weir/{path.name}", names)
        self.assertIn("weir/_weir.abi3.so", names)

    def test_pip_installs_it(self) -> None:
        target = self.folder / "site"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile",
                   "--disable-pip-version-check", "--target", str(target), str(self.wheel)]
        environment = {**os.environ, "PYTHONPATH": ""}
        subprocess.run(command, check=True, capture_output=True, env=environment)
        code = "import weir; print(weir.__file__, weir.__version__)"
        printed = subprocess.run([sys.executable, "-c", code], env={**environment, "PYTHONPATH": str(target)}, check=True,
                                 capture_output=True, text=True, cwd=self.folder).stdout
        self.assertEqual(printed.split(), [str(target / "weir" / "__init__.py"), weir.__version__])


if __name__ == "__main__":
    unittest.main()
