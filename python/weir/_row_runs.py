"""weir.assemble: runs of rows, which many machines wrote, become a store. How they are written: weir.row_runs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from typing import Any

from weir._folder import Folder, copy_here
from weir._ingest import IngestReport, Path, ingest

LIST, SCHEMA = "row-runs.json", "schema.json"


def assemble(
    runs: Path, out: Path | None = None, *, schema: Path | Mapping[str, Any] | None = None, **options: Any
) -> IngestReport:
    """Makes a store of a folder of runs (docs/sources.md), as `weir assemble` does.

    schema: by default schema.json in the folder, and if there is none, one that is drafted. The other options are
    those of weir.ingest. A folder on another machine (s3://, gs://, hdfs://, …) is copied first, to where the store
    goes, which needs pyarrow.
    """
    if Folder.is_remote(runs):
        with tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.abspath(out or ".")), prefix="runs-") as here:
            copy_here(os.fspath(runs), here)
            return assemble(here, out, schema=schema, **options)
    if not os.path.exists(os.path.join(runs, LIST)):
        raise FileNotFoundError(
            f"{os.fspath(runs)} is not a folder of runs, or not a complete one: it has no {LIST}, which is written last; "
            "weir.ingest reads databases"
        )
    own = os.path.join(runs, SCHEMA)
    if schema is None and os.path.exists(own):
        schema = own
    return ingest(runs, out, schema=schema, **options)
