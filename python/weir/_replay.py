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
    indices: int  # that were recorded, and compared
    checked_digests: int  # of batches that were built again
    unchecked_digests: int
    checked_sample_digests: int
    unchecked_sample_digests: int
    memory_records: int  # that were checked
    is_complete: bool  # there is a run_end
    status: str  # "success", "failed", or "cut": no run_end
    failed_step: int | None = None
    failure_code: str | None = None


def replay(
    trace: str | os.PathLike[str],
    *,
    stores: StoreLike | list[StoreLike] | tuple[StoreLike, ...] = (),
    manifest: Manifest | str | os.PathLike[str] | Mapping[str, Any] | None = None,
) -> ReplayReport:
    """Re-executes every step of a trace, compares every field and judges the run, as `weir replay` does.

    stores: to build the batches again from, and compare their digests. manifest: None for the one that the trace holds;
    another must have the same hashes.
    """
    opened = None if manifest is None else as_manifest(manifest)
    return ReplayReport(**_weir._replay(trace, as_stores(stores), opened))
