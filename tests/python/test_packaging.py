"""The wheel: one for every Python from 3.11 on, with the program in it, installed by pip without the network."""

import email
import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

import tests.support.processes  # noqa: F401  (Ctrl-C is heard, also if the tests run in a shell's background)
import weir

ROOT = Path(__file__).resolve().parents[2]
EXTENSION = Path(weir._weir.__file__)
sys.path.insert(0, str(ROOT / "tools"))

import wheel_backend  # noqa: E402


class Extension(unittest.TestCase):
    def symbols(self, *arguments: str) -> list[str]:
        output = subprocess.run(["nm", "-D", *arguments, str(EXTENSION)], capture_output=True, text=True, check=True).stdout
        return [line.split()[-1].split("@")[0] for line in output.splitlines()]

    def test_it_exports_its_entries_alone(self) -> None:
        self.assertEqual(self.symbols("--defined-only"), ["PyInit__weir", "weir_torch_allocate", "weir_torch_free", "weir_torch_share"])

    def test_it_is_named_for_every_python(self) -> None:
        self.assertEqual(EXTENSION.name, "_weir.abi3.so")


class Command(unittest.TestCase):
    """`python -m weir` is the program, with its exit statuses and its manners."""

    def run_command(self, *arguments: str, **options: object) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([sys.executable, "-B", "-m", "weir", *arguments], capture_output=True, text=True, **options)

    def test_it_is_the_program(self) -> None:
        program = subprocess.run([os.environ["WEIR"], "help"], capture_output=True, text=True, check=True)
        self.assertEqual(self.run_command("help").stdout, program.stdout)
        self.assertEqual(self.run_command("version").stdout, f"weir {weir.__version__}\n")

    def test_exit_statuses(self) -> None:
        self.assertEqual(self.run_command("nothing").returncode, 2)
        missing = self.run_command("info", "/missing.weir")
        self.assertEqual((missing.returncode, missing.stdout), (1, ""))
        self.assertRegex(missing.stderr, r"\Aweir: [A-Z_]+: ")

    def test_a_closed_pipe_and_an_interrupt_end_it(self) -> None:
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([sys.executable, "-B", "-m", "weir", "help"], stdout=writer, stderr=subprocess.PIPE, text=True)
        os.close(writer)
        self.assertEqual((done.returncode, done.stderr), (-signal.SIGPIPE, ""))
        code = ("import signal, weir.__main__ as m; "
                "m._weir = type('W', (), {'_command': staticmethod(lambda a: print(signal.getsignal(signal.SIGINT), "
                "signal.getsignal(signal.SIGPIPE)) or 0)}); m.main()")  # fmt: skip
        printed = subprocess.run([sys.executable, "-B", "-c", code], capture_output=True, text=True, check=True).stdout
        self.assertEqual(printed.split(), [str(0), str(0)])  # SIG_DFL, as a C program finds them


class Wheel(unittest.TestCase):
    """The backend's own part; the build that it starts is stood in for by the one that there is."""

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        wheel_backend._build = lambda toolchain: EXTENSION.parent
        cls.wheel = cls.folder / wheel_backend.build_wheel(str(cls.folder))
        cls.about = f"weir-{weir.__version__}.dist-info"

    def read(self, name: str) -> str:
        return zipfile.ZipFile(self.wheel).read(f"{self.about}/{name}").decode()

    def test_the_same_sources_give_the_same_wheel(self) -> None:
        first = self.wheel.read_bytes()
        self.assertEqual(wheel_backend.build_wheel(str(self.folder)), self.wheel.name)
        self.assertEqual(self.wheel.read_bytes(), first)
        self.assertRegex(self.wheel.name, r"^weir-[\d.]+-cp311-abi3-linux_\w+\.whl$")

    def test_it_holds_the_package(self) -> None:
        names = set(zipfile.ZipFile(self.wheel).namelist())
        for path in (ROOT / "python" / "weir").iterdir():
            if path.suffix in (".py", ".pyi", ".typed"):
                self.assertIn(f"weir/{path.name}", names)
        self.assertIn("weir/_weir.abi3.so", names)

    def test_metadata_is_there_before_the_build(self) -> None:
        place = self.folder / "metadata"
        place.mkdir()
        self.assertEqual(wheel_backend.prepare_metadata_for_build_wheel(str(place)), self.about)
        for name in ("METADATA", "WHEEL", "entry_points.txt"):
            self.assertEqual((place / self.about / name).read_text(), self.read(name))
        metadata = email.message_from_string(self.read("METADATA"))
        self.assertEqual((metadata["Name"], metadata["Version"]), ("weir", weir.__version__))

    def test_the_bill_of_materials(self) -> None:
        bill = json.loads(self.read("sboms/weir.cdx.json"))
        self.assertEqual((bill["bomFormat"], bill["metadata"]["component"]["version"]), ("CycloneDX", weir.__version__))
        said = subprocess.run([os.environ["WEIR"], "version", "--json"], capture_output=True, check=True).stdout
        built = {name: versions["built"] for name, versions in json.loads(said)["components"].items()}
        listed = {component["name"]: component["version"] for component in bill["components"]}
        self.assertEqual(listed, {name: version for name, version in built.items() if name not in ("gcc", "glibc")})

    def test_without_a_compiler_it_names_the_packages(self) -> None:
        code = f"import sys; sys.path.insert(0, {str(ROOT / 'tools')!r}); import wheel_backend as b; b.build_wheel('.')"
        bare = self.folder / "bin"  # a shell and its tools, and no compiler
        bare.mkdir()
        for name in ("sh", "dirname", "id", "echo"):
            path = subprocess.run(["which", name], capture_output=True, text=True).stdout.strip()
            if path:
                (bare / name).symlink_to(path)
        done = subprocess.run([sys.executable, "-B", "-c", code], env={"PATH": str(bare)}, capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("apt-get install", done.stderr)
        self.assertNotIn("Traceback", done.stderr)

    def test_pip_installs_it_with_its_command(self) -> None:
        target = self.folder / "site"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile",
                   "--disable-pip-version-check", "--target", str(target), str(self.wheel)]
        environment = {**os.environ, "PYTHONPATH": ""}
        subprocess.run(command, check=True, capture_output=True, env=environment)
        environment["PYTHONPATH"] = str(target)
        code = "import weir; print(weir.__file__, weir.__version__)"
        printed = subprocess.run([sys.executable, "-c", code], env=environment, check=True,
                                 capture_output=True, text=True, cwd=self.folder).stdout
        self.assertEqual(printed.split(), [str(target / "weir" / "__init__.py"), weir.__version__])
        printed = subprocess.run([target / "bin" / "weir", "version"], env=environment, check=True, capture_output=True,
                                 text=True, cwd=self.folder).stdout
        self.assertEqual(printed, f"weir {weir.__version__}\n")


class SourceArchive(unittest.TestCase):
    def test_it_holds_what_a_build_needs(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            import tarfile

            name = wheel_backend.build_sdist(folder)
            with tarfile.open(Path(folder) / name) as archive:
                names = {member.name.split("/", 1)[1] for member in archive.getmembers() if "/" in member.name}
        for needed in ("PKG-INFO", "pyproject.toml", "CMakeLists.txt", "include/weir/base.h", "tools/wheel_backend.py"):
            self.assertIn(needed, names)


if __name__ == "__main__":
    unittest.main()
