"""Builds weir's wheel for pip (PEP 517), with CMake and a C compiler and nothing from the network:

    pip install .                                             # for this machine, with its shared libraries
    pip wheel . --config-settings toolchain=build-wheels/x86_64   # for any machine; `make wheels` prepares the toolchain

The wheel holds the package and its extension, which is the whole library and the program `weir`. The extension keeps to
Python's stable ABI, so one wheel serves every Python from 3.11 on. A wheel for any machine has everything but the C library
linked into it. The same sources and tools give the same wheel, byte for byte. What went into it stands in its bill of
materials (PEP 770).
"""

import base64
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import uuid
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "python/weir"
OLDEST = (1980, 1, 1, 0, 0, 0)  # what a zip file can say of times; nothing is gained by more

Settings = dict[str, Any] | None

# Of what weir's own code is linked with, by the names of `weir version --json`.
LICENSES = {
    "curl": "curl",
    "libpq": "PostgreSQL",
    "openssl": "Apache-2.0",
    "sqlite": "blessing",
    "xxhash": "BSD-2-Clause",
    "zlib": "Zlib",
}


def _project() -> dict[str, Any]:
    """pyproject.toml's project, with the version, which has its one place in a header."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    header = (ROOT / "include/weir/base.h").read_text()
    return {**project, "version": re.search(r'#define WEIR_VERSION "(.*)"', header)[1]}


# ---- Toolchains --------------------------------------------------------------------------------------------


class Toolchain:
    """How to build, and for which machines: this one by default, or as a folder of tools/wheels says."""

    def __init__(self, settings: Settings) -> None:
        given = (settings or {}).get("toolchain")
        self.options: dict[str, str] = {}
        self.components: list[dict[str, str]] | None = None  # what is linked in, where it is not the machine's own
        self.licenses: dict[str, bytes] = {}
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        self.folder = ROOT / "build-wheel"
        if given:
            self.folder = Path(given).resolve() / "weir"
            about = json.loads((Path(given) / "toolchain.json").read_text())
            platform, self.options, self.components = about["platform"], about["options"], about["components"]
            self.licenses = {path.name: path.read_bytes() for path in sorted((Path(given) / "licenses").iterdir())}
        self.tag = f"cp311-abi3-{platform}"


def _fail_for_packages(reason: str) -> None:
    """Ends with the names of the packages to install, without a traceback; with the reason if all are there."""
    listed = subprocess.run([ROOT / "tools/bootstrap", "--missing", "python"], capture_output=True, text=True, check=False)
    if not listed.stdout.split():
        raise SystemExit(f"\nweir is compiled when it is installed from source, and {reason}.")
    raise SystemExit(
        "\nweir is compiled when it is installed from source, and this machine lacks what that needs. As root:\n\n"
        f"  apt-get install --no-install-recommends {' '.join(listed.stdout.split())}\n\n"
        "(names as in Debian 12), then give the same command again."
    )


def _build(toolchain: Toolchain) -> Path:
    """The package as CMake leaves it: .py files, stubs and the extension."""
    if not shutil.which("cmake") or not any(map(shutil.which, ("cc", "gcc", "clang"))):
        _fail_for_packages("neither cmake nor a C compiler may be missing on PATH")
    options = {
        "CMAKE_BUILD_TYPE": "Release",
        "WEIR_PYTHON_MODULE": "ON",
        "Python3_EXECUTABLE": sys.executable,
        **toolchain.options,
    }
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    configure = ["cmake", "-S", str(ROOT), "-B", str(toolchain.folder), *generator, *(f"-D{k}={v}" for k, v in options.items())]
    if subprocess.run(configure, check=False, stdout=sys.stderr).returncode != 0:
        _fail_for_packages("CMake cannot configure it; its own words stand above")
    build = ["cmake", "--build", str(toolchain.folder), "--target", "weir_package", "-j", str(os.cpu_count() or 1)]
    if subprocess.run(build, check=False, stdout=sys.stderr).returncode != 0:
        raise SystemExit("weir could not be compiled; the compiler's own words stand above")
    return toolchain.folder / PACKAGE


# ---- What stands in a wheel beside the package ---------------------------------------------------------------


def _metadata(project: dict[str, Any]) -> str:
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {project['name']}",
        f"Version: {project['version']}",
        f"Summary: {project['description']}",
        f"Requires-Python: {project['requires-python']}",
        f"License: {project['license']['text']}",
        *(f"Classifier: {classifier}" for classifier in project["classifiers"]),
    ]
    for extra, requirements in project["optional-dependencies"].items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f'Requires-Dist: {requirement}; extra == "{extra}"' for requirement in requirements]
    readme = (ROOT / project["readme"]).read_text()
    return "\n".join([*lines, "Description-Content-Type: text/markdown", "", readme])


def _wheel_file(tag: str) -> str:
    return f"Wheel-Version: 1.0\nGenerator: weir\nRoot-Is-Purelib: false\nTag: {tag}\n"


def _entry_points(project: dict[str, Any]) -> str:
    lines = [f"{name} = {target}" for name, target in project["scripts"].items()]
    return "\n".join(["[console_scripts]", *lines, ""])


def _own_components(built: Path) -> list[dict[str, str]]:
    """The machine's libraries that the extension is linked with, as it says itself."""
    code = "import sys; from weir import _weir; sys.exit(_weir._command([b'weir', b'version', b'--json']))"
    environment = {**os.environ, "PYTHONPATH": str(built.parent)}
    said = subprocess.run([sys.executable, "-B", "-c", code], env=environment, check=True, capture_output=True).stdout
    components = json.loads(said)["components"]
    return [{"name": name, "version": components[name]["built"], "license": LICENSES[name]} for name in LICENSES]


def _bill_of_materials(project: dict[str, Any], components: list[dict[str, str]], is_linked_in: bool) -> str:
    """CycloneDX, without anything that would differ between two builds of the same."""
    name, version = project["name"], project["version"]
    libraries = [
        {
            "type": "library",
            "bom-ref": component["name"],
            "name": component["name"],
            "version": component["version"],
            "licenses": [{"license": {"id": component["license"]}}],
            **({"purl": component["purl"]} if "purl" in component else {}),
            "properties": [{"name": "weir:linked", "value": "into the extension" if is_linked_in else "shared, the machine's"}],
        }
        for component in components
    ]
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": name,
                "name": name,
                "version": version,
                "purl": f"pkg:pypi/{name}@{version}",
                "licenses": [{"license": {"id": project["license"]["text"]}}],
            }
        },
        "components": libraries,
        "dependencies": [{"ref": name, "dependsOn": [component["name"] for component in components]}],
    }
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(bill, sort_keys=True))
    return json.dumps({**bill, "serialNumber": f"urn:uuid:{serial}"}, indent=1) + "\n"


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
            entry.external_attr = (0o755 if name.endswith(".so") else 0o644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)


# ---- What pip calls ----------------------------------------------------------------------------------------


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    return []


def get_requires_for_build_sdist(config_settings: Settings = None) -> list[str]:
    return []


def _about(project: dict[str, Any], toolchain: Toolchain) -> dict[str, str]:
    return {
        "METADATA": _metadata(project),
        "WHEEL": _wheel_file(toolchain.tag),
        "entry_points.txt": _entry_points(project),
    }


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Settings = None) -> str:
    """Compiles nothing."""
    project = _project()
    folder = Path(metadata_directory) / f"{project['name']}-{project['version']}.dist-info"
    folder.mkdir()
    for name, text in _about(project, Toolchain(config_settings)).items():
        (folder / name).write_text(text)
    return folder.name


def build_wheel(wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    project, toolchain = _project(), Toolchain(config_settings)
    built = _build(toolchain)
    folder = f"{project['name']}-{project['version']}.dist-info"
    names = sorted(path.name for path in (ROOT / PACKAGE).iterdir() if path.suffix in (".py", ".pyi", ".typed"))
    files = {f"weir/{name}": (built / name).read_bytes() for name in [*names, "_weir.abi3.so"]}
    files |= {f"{folder}/{name}": text.encode() for name, text in _about(project, toolchain).items()}
    files[f"{folder}/licenses/LICENSE"] = (ROOT / "LICENSE").read_bytes()
    files |= {f"{folder}/licenses/{name}": data for name, data in toolchain.licenses.items()}
    bill = _bill_of_materials(project, toolchain.components or _own_components(built), toolchain.components is not None)
    files[f"{folder}/sboms/weir.cdx.json"] = bill.encode()
    name = f"{project['name']}-{project['version']}-{toolchain.tag}.whl"
    _write_wheel(Path(wheel_directory) / name, files, folder)
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
