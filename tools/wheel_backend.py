"""Builds weir's wheel for pip (PEP 517), with CMake and a C compiler and nothing from the network:

    pip install --no-build-isolation .

The wheel holds the package and its extension, into which everything but the C library is linked (the preset `static`;
`--config-settings shared=1` links the system's shared libraries instead). The extension keeps to Python's stable ABI,
so one wheel serves every Python from 3.11 on. The same sources give the same wheel, byte for byte.
"""

import base64
import hashlib
import io
import os
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "python/weir"
OLDEST = (1980, 1, 1, 0, 0, 0)  # what a zip file can say of times; nothing is gained by more

Settings = dict[str, Any] | None


def _project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def _tag() -> str:
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    return f"cp311-abi3-{platform}"


def _build(settings: Settings) -> Path:
    """The package as CMake leaves it: .py files, stubs and the extension."""
    static = "OFF" if (settings or {}).get("shared") else "ON"
    folder = ROOT / f"build-wheel-{'shared' if static == 'OFF' else 'static'}"
    options = {
        "CMAKE_BUILD_TYPE": "Release",
        "WEIR_STATIC": static,
        "WEIR_TESTS": "OFF",
        "WEIR_BENCH": "OFF",
        "WEIR_POSTGRES": "OFF",
        "WEIR_HTTP": "OFF",
        "Python3_EXECUTABLE": sys.executable,
    }
    configure = ["cmake", "-S", str(ROOT), "-B", str(folder), *(f"-D{key}={value}" for key, value in options.items())]
    subprocess.run(configure, check=True, stdout=sys.stderr)
    jobs = str(os.cpu_count() or 1)
    subprocess.run(["cmake", "--build", str(folder), "--target", "weir_package", "-j", jobs], check=True, stdout=sys.stderr)
    return folder / PACKAGE


def _metadata(project: dict[str, Any]) -> str:
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {project['name']}",
        f"Version: {project['version']}",
        f"Summary: {project['description']}",
        f"Requires-Python: {project['requires-python']}",
        *(f"Classifier: {classifier}" for classifier in project["classifiers"]),
    ]
    for extra, requirements in project["optional-dependencies"].items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f'Requires-Dist: {requirement}; extra == "{extra}"' for requirement in requirements]
    readme = (ROOT / project["readme"]).read_text()
    return "\n".join([*lines, "Description-Content-Type: text/markdown", "", readme])


def _write_wheel(path: Path, files: dict[str, bytes], folder: str) -> None:
    record = []
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record.append(f"{name},sha256={digest},{len(data)}")
    record.append(f"{folder}/RECORD,,")
    files = {**files, f"{folder}/RECORD": ("\n".join(record) + "\n").encode()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, OLDEST)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)


# ---- What pip calls ----------------------------------------------------------------------------------------


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    return []


def get_requires_for_build_sdist(config_settings: Settings = None) -> list[str]:
    return []


def build_wheel(wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    project = _project()
    built = _build(config_settings)
    about = f"{project['name']}-{project['version']}.dist-info"
    wheel = f"Wheel-Version: 1.0\nGenerator: weir\nRoot-Is-Purelib: false\nTag: {_tag()}\n"
    names = sorted(path.name for path in (ROOT / PACKAGE).iterdir() if path.suffix in (".py", ".pyi", ".typed"))
    files = {f"weir/{name}": (built / name).read_bytes() for name in [*names, "_weir.abi3.so"]}
    files |= {
        f"{about}/METADATA": _metadata(project).encode(),
        f"{about}/WHEEL": wheel.encode(),
        f"{about}/licenses/LICENSE": (ROOT / "LICENSE").read_bytes(),
    }
    name = f"{project['name']}-{project['version']}-{_tag()}.whl"
    _write_wheel(Path(wheel_directory) / name, files, about)
    return name


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    project = _project()
    base = f"{project['name']}-{project['version']}"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(Path(sdist_directory) / f"{base}.tar.gz", "w:gz", format=tarfile.PAX_FORMAT) as sdist:
        for name in listed.decode().split("\0"):
            if name:
                sdist.add(ROOT / name, f"{base}/{name}", recursive=False)
        about = _metadata(project).encode()
        entry = tarfile.TarInfo(f"{base}/PKG-INFO")
        entry.size = len(about)
        sdist.addfile(entry, io.BytesIO(about))
    return f"{base}.tar.gz"
