"""weir: training batches from relational databases, the same on every run, every rank and every machine.

    >>> import weir
    >>> loader = weir.Loader("shop.weir", "shop.manifest.json", dataset="shop/churn/train", workers=2)
    >>> for batch in loader.take(2):
    ...     print(batch.step, batch.task, batch["column_ids"].shape)
    0 churn (32, 1024)
    1 churn (32, 1024)

docs/python.md is the tour. Everything here is typed, and every array is a view of weir's own memory.
"""

from weir import errors, metrics
from weir._arenas import Arenas, Backing, Commit
from weir._batch import Batch, Role, SemanticType, Source, Target, batch
from weir._cells import Cell
from weir._contexts import Contexts
from weir._cursors import Cursors
from weir._ingest import IngestReport, IngestWarning, Progress, draft_schema, ingest
from weir._loader import Loader
from weir._manifest import Location, Manifest, Mix
from weir._plan import Packing, Plan, pack, plan
from weir._prefetcher import Prefetcher
from weir._remote import TransferReport, pull, push
from weir._replay import ReplayReport, replay
from weir._row_runs import assemble
from weir._sampler import BatchSampler, Sampler
from weir._store import Keys, Store, Table
from weir._weir import Array
from weir._weir import version as __version__
from weir.errors import (
    AllocationError,
    ContractError,
    DataError,
    DeviceError,
    EncodingError,
    Error,
    FileError,
    GraphError,
    PipelineError,
    ReplayError,
    StoreError,
)

__all__ = [
    "AllocationError",
    "Arenas",
    "Array",
    "Backing",
    "Batch",
    "BatchSampler",
    "Cell",
    "Commit",
    "Contexts",
    "ContractError",
    "Cursors",
    "DataError",
    "DeviceError",
    "EncodingError",
    "Error",
    "FileError",
    "GraphError",
    "IngestReport",
    "IngestWarning",
    "Keys",
    "Loader",
    "Location",
    "Manifest",
    "Mix",
    "Packing",
    "PipelineError",
    "Plan",
    "Prefetcher",
    "Progress",
    "ReplayError",
    "ReplayReport",
    "Role",
    "Sampler",
    "SemanticType",
    "Source",
    "Store",
    "StoreError",
    "Table",
    "Target",
    "TransferReport",
    "__version__",
    "assemble",
    "batch",
    "draft_schema",
    "errors",
    "ingest",
    "metrics",
    "pack",
    "plan",
    "pull",
    "push",
    "replay",
]
