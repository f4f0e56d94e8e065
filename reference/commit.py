"""CommitExecution_v1 as docs/spec/03g-commit.md says it: the visibility state that a commit seals for a batch."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from reference import cbor


class Sealer:
    """The committed state of a plan's arenas. `tensors` and `arenas` are those of a plan: by id [arena, address, offset,
    size, birth, death], and the arenas' names."""

    def __init__(self, plan_hash: bytes, arenas: list[str], tensors: Mapping[str, tuple[str, int, int, int, int, int]]) -> None:
        self.plan_hash, self.tensors = plan_hash, tensors
        self.written = dict.fromkeys(arenas, 0)
        self.epochs = dict.fromkeys(arenas, 0)

    def write(self, id: str) -> None:
        arena, _, _, size, _, _ = self.tensors[id]
        self.written[arena] = min(self.written[arena] + size, 2**64 - 1)

    def seal(self, batch: int, position: int, contents: Mapping[str, bytes] | None = None) -> bytes:
        """The state of a batch that was not sealed yet. contents: the bytes of each live tensor."""
        arenas: dict[str, dict[str, Any]] = {}
        for name in self.written:
            self.epochs[name] += self.written[name] > 0
            live = [
                [id, address, offset, size]
                for id, (arena, address, offset, size, birth, death) in self.tensors.items()
                if arena == name and birth <= position < death
            ]
            live.sort(key=lambda entry: (len(entry[0].encode()), entry[0].encode()))
            arenas[name] = {"live": live, "epoch": self.epochs[name], "written": self.written[name]}
            if contents is not None:
                arenas[name]["contents"] = hashlib.sha256(b"".join(contents[entry[0]] for entry in live)).digest()
            self.written[name] = 0
        return cbor.encode(
            {"batch": batch, "arenas": arenas, "format": "weir-commit/1", "position": position, "plan_hash": self.plan_hash}
        )
