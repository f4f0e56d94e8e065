"""Calling the program for stores and batches, from tests."""

import json
import os
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

PROJECT_ROOT = Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("WEIR", str(PROJECT_ROOT / "build" / "weir"))
VECTORS = Path(os.environ.get("WEIR_VECTORS", PROJECT_ROOT / "tests" / "golden" / "vectors"))
TIMEOUT_SECONDS = 120

Json = Any


def run(*arguments: str | Path | int) -> Json:
    """What a command prints with --json; an error record is `{"error": …}`. Every other exit fails the test."""
    command = [PROGRAM, *map(str, arguments), "--json"]
    done = subprocess.run(command, capture_output=True, timeout=TIMEOUT_SECONDS, check=False)
    if done.returncode not in (0, 1):
        raise AssertionError(f"exit status {done.returncode} of {command}: {done.stderr.decode('utf-8', 'replace')}")
    printed = json.loads(done.stdout.decode("utf-8"))
    if ("error" in printed) != (done.returncode == 1):
        raise AssertionError(f"exit status {done.returncode} of {command} with {printed}")
    return printed


def make_shop(folder: Path, horizons: dict[str, str] | None = None) -> tuple[Path, Path]:
    """The golden shop: its database and its store, in which labels of some tasks are known after a while."""
    source = folder / "shop_small.sqlite"
    connection = sqlite3.connect(source)
    connection.executescript((VECTORS / "shop_small.sql").read_text("utf-8"))
    connection.close()
    store, schema = folder / "shop.weir", folder / "shop.schema.json"
    document = json.loads((VECTORS / "shop_small.schema.json").read_text("utf-8"))
    for task, horizon in (horizons or {}).items():
        document["tasks"][task]["horizon"] = horizon
    schema.write_text(json.dumps(document), "utf-8")
    ingested = run("ingest", source, "--schema", schema, "-o", store)
    if "error" in ingested:
        raise AssertionError(ingested)
    return source, store


def batch_arguments(case: Json, store: Path, manifest: Path) -> list[str | Path | int]:
    """The arguments of `weir batch` for a case with the fields of shop_small.batches.json."""
    arguments: list[str | Path | int] = ["batch", "--store", store, "--manifest", manifest, "--any-hash"]
    for name in ("dataset", "stage", "epoch", "position", "world_size", "rank", "token"):
        if name in case:
            arguments += ["--" + name.replace("_", "-"), case[name]]
    return arguments + (["--pad"] if case.get("pad") else [])


def differences(built: Json, expected: Json) -> list[str]:
    """Where two batches differ, in words short enough to read."""
    if "error" in built or "error" in expected:
        codes = [batch.get("error", {}).get("code_id", "no error") for batch in (built, expected)]
        return [] if codes[0] == codes[1] else [f"error: {codes[0]}, expected {codes[1]}: {built.get('error')}"]
    found = [f"{key}: missing" for key in expected if key not in built]
    for key in expected.keys() & built.keys() - {"tensors"}:
        if built[key] != expected[key]:
            found.append(f"{key}: {str(built[key])[:400]}, expected {str(expected[key])[:400]}")
    for name, tensor in expected.get("tensors", {}).items():
        given = built.get("tensors", {}).get(name)
        if given != tensor:
            found.append(f"tensor {name}: {_first_difference(given, tensor)}")
    return found


def _first_difference(given: Json, expected: Json) -> str:
    if given is None or given["dtype"] != expected["dtype"] or given["shape"] != expected["shape"]:
        return f"{given and (given['dtype'], given['shape'])}, expected {expected['dtype'], expected['shape']}"
    a, b = bytes.fromhex(given["data"]), bytes.fromhex(expected["data"])
    if len(a) != len(b):
        return f"{len(a)} bytes, expected {len(b)}"
    at = next(i for i, (x, y) in enumerate(zip(a, b)) if x != y)
    return f"first differs at byte {at}: {a[at : at + 8].hex()}, expected {b[at : at + 8].hex()}"
