"""What the tests of the planner share: calling the program, and a validator that knows nothing of how plans
are made.

The validator recomputes everything that a plan claims from lifetimes and sizes alone, by sweeping over the
events in time; it shares no code and no algorithm with the packer.
"""

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

PROGRAM = os.environ.get("WEIR", "build/weir")
NO_REUSE = "parameters"


def call(*arguments: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([PROGRAM, *arguments], input=stdin, capture_output=True, timeout=600)


def graph(*arguments: str) -> dict[str, Any]:
    done = call("graph", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class Files:
    """A folder of small files that options point to."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._count = 0

    def add(self, content: Any) -> str:
        """The path of a new file that holds bytes, or a value as JSON."""
        self._count += 1
        path = Path(self._folder.name) / f"file{self._count}"
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return str(path)

    def path(self, name: str) -> str:
        return str(Path(self._folder.name) / name)

    def close(self) -> None:
        self._folder.cleanup()


def arguments_of(run: dict[str, Any], files: Files) -> list[str]:
    """The options of a run of the golden vectors."""
    options = ["--preset", run["preset"]] if "preset" in run else ["--mode", run["mode"]]
    if run.get("token") is not None:
        options += ["--token", run["token"]]
    if "order" in run:
        options += ["--order", files.add(run["order"])]
    if "arenas" in run:
        options += ["--arenas", files.add(run["arenas"])]
    return options


def plan(graph_path: str, *options: str) -> dict[str, Any]:
    done = call("plan", graph_path, "--json", *options)
    assert done.returncode == 0, (done.stdout[:2000], done.stderr)
    return json.loads(done.stdout)


def error(graph_path: str, *options: str) -> dict[str, Any]:
    done = call("plan", graph_path, "--json", *options)
    assert done.returncode == 1, (done.returncode, done.stdout[:200], done.stderr)
    return json.loads(done.stdout)["error"]


# ---- The validator -----------------------------------------------------------------------------------------


def validate(result: dict[str, Any]) -> None:
    """Raises AssertionError where a plan, as `weir plan --json` prints it, breaks a promise."""
    members: dict[str, list[dict[str, Any]]] = {name: [] for name in result["arenas"]}
    for name, tensor in result["tensors"].items():
        if "alias_of" in tensor:
            _validate_alias(name, tensor, result["tensors"][tensor["alias_of"]])
        else:
            members[tensor["arena"]].append({**tensor, "id": name})
    for name, arena in result["arenas"].items():
        assert members[name], f"{name} is empty"
        _validate_arena(name, arena, members[name])


def _validate_alias(name: str, alias: dict[str, Any], owner: dict[str, Any]) -> None:
    assert "alias_of" not in owner, name
    for key in ("arena", "slot", "address"):
        assert alias[key] == owner[key], (name, key)
    assert owner["offset"] <= alias["offset"], name
    assert alias["offset"] + alias["size"] <= owner["offset"] + owner["size"], name
    assert owner["birth"] <= alias["birth"] < alias["death"] <= owner["death"], name


def _rounded(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment


def _validate_arena(name: str, arena: dict[str, Any], tensors: list[dict[str, Any]]) -> None:
    alignment = arena["alignment"]
    for tensor in tensors:
        tensor["room"] = _rounded(tensor["size"], alignment)
        assert 0 <= tensor["birth"] < tensor["death"], tensor
        assert tensor["offset"] % alignment == 0 and int(tensor["address"]) % alignment == 0, tensor
    _validate_slots(name, arena, tensors)
    most, most_bytes = _most_live(tensors)
    assert most == arena["max_live"], (name, most)
    assert most_bytes == arena["lower_bound"], (name, most_bytes)
    assert arena["slots"] == (len(tensors) if name == NO_REUSE else most), name
    peak = max(tensor["offset"] + tensor["room"] for tensor in tensors)
    assert peak == arena["peak_bytes"] and most_bytes <= peak <= arena["slot_bytes"], (name, peak)
    assert peak != most_bytes or arena["optimal"], name
    assert peak <= arena.get("capacity", peak), name
    _validate_no_overlap(tensors)


def _validate_slots(name: str, arena: dict[str, Any], tensors: list[dict[str, Any]]) -> None:
    slots: dict[int, list[dict[str, Any]]] = {}
    for tensor in tensors:
        slots.setdefault(tensor["slot"], []).append(tensor)
    assert sorted(slots) == list(range(arena["slots"])), name
    addresses = [{tensor["address"] for tensor in slot} for slot in slots.values()]
    assert all(len(address) == 1 for address in addresses), name
    assert len(set().union(*addresses)) == len(slots), name
    for slot in slots.values():
        slot.sort(key=lambda tensor: tensor["birth"])
        for earlier, later in zip(slot, slot[1:]):
            assert earlier["death"] <= later["birth"], (earlier, later)
    assert sum(max(tensor["room"] for tensor in slot) for slot in slots.values()) == arena["slot_bytes"], name


def _most_live(tensors: list[dict[str, Any]]) -> tuple[int, int]:
    events = [(tensor["birth"], 1, tensor["room"]) for tensor in tensors]
    events += [(tensor["death"], -1, -tensor["room"]) for tensor in tensors]
    live = live_bytes = most = most_bytes = 0
    for _, step, room in sorted(events):
        live, live_bytes = live + step, live_bytes + room
        most, most_bytes = max(most, live), max(most_bytes, live_bytes)
    return most, most_bytes


def _validate_no_overlap(tensors: list[dict[str, Any]]) -> None:
    """At every birth, what is live must not overlap: neighbours in address are enough to look at."""
    live: list[tuple[int, int, int, str]] = []
    with_bytes = (tensor for tensor in tensors if tensor["room"])
    for tensor in sorted(with_bytes, key=lambda tensor: tensor["birth"]):
        live = [other for other in live if other[2] > tensor["birth"]]
        begin, end = tensor["offset"], tensor["offset"] + tensor["room"]
        for other_begin, other_end, _, other in live:
            assert end <= other_begin or other_end <= begin, (tensor["id"], other)
        live.append((begin, end, tensor["death"], tensor["id"]))
