"""weir.replay: a trace re-executed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from weir import _weir
from weir._manifest import Manifest, as_manifest
from weir._store import StoreLike, as_stores


@dataclass(frozen=True)
class ReplayReport:
    """What a replay found equal; the first thing that is not is weir.errors.ReplayDivergence."""

    steps: int
    samples: int
    checked_digests: int
    unchecked_digests: int
    is_complete: bool


def replay(
    trace: str | os.PathLike[str],
    *,
    stores: StoreLike | list[StoreLike] | tuple[StoreLike, ...] = (),
    manifest: Manifest | str | os.PathLike[str] | Mapping[str, Any] | None = None,
) -> ReplayReport:
    """Re-executes every step of a trace and compares every field, as `weir replay` does.

    stores: to build the batches again from, and compare their digests. manifest: None for the one that the trace holds;
    another must have the same hashes.
    """
    opened = None if manifest is None else as_manifest(manifest)
    return ReplayReport(**_weir._replay(trace, as_stores(stores), opened))
