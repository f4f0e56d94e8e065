"""weir.ingest: a database, or tables of Python, become a store."""

from __future__ import annotations

import datetime
import json
import os
import threading
import warnings as python_warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from weir import _weir
from weir._store import Store
from weir._surroundings import prepare


class Progress(NamedTuple):
    """How far ingest is: rows (texts in the phase "embed") and bytes of the phase, 0 if unknown; and what lies in a file
    now, because memory is not enough."""

    phase: str
    done: int
    total: int
    done_bytes: int
    total_bytes: int
    elapsed_ns: int
    spilled_bytes: int = 0


class IngestWarning(UserWarning):
    """What may be a mistake: its code (docs/warnings.md) and the table, column and task that it is about."""

    def __init__(self, code: str, table: str | None, column: str | None, task: str | None, message: str) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code
        self.table = table
        self.column = column
        self.task = task
        self.message = message


@dataclass(frozen=True)
class IngestReport:
    """What ingest did; all else is in the store. manifest_kept: it was edited, and notes say what would change."""

    store_path: str
    manifest_path: str
    manifest_kept: bool
    store_hash: str
    drafted: bool
    tables: int
    rows: int
    edges: int
    dangling: int
    not_finite: int
    seeds: int
    dropped_seeds: int
    texts: int
    source_bytes: int
    store_bytes: int
    embedding_bytes: int
    spilled_bytes: int
    kept_bytes: int
    ignored_columns: int
    read_ns: int
    order_ns: int
    match_ns: int
    tasks_ns: int
    write_ns: int
    embed_ns: int
    total_ns: int
    base: list[dict[str, Any]]
    warnings: tuple[IngestWarning, ...]
    notes: tuple[str, ...]


class ArrowTable(Protocol):
    """What has Arrow's C stream interface: tables and data frames of pyarrow, pandas, polars, DuckDB and others."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


Path = str | os.PathLike[str]
Tables = Mapping[str, ArrowTable | Callable[[], ArrowTable]]
ProgressCallback = Callable[[Progress], object]


def ingest(
    source: Path | Tables,
    out: Path | None = None,
    *,
    schema: Path | Mapping[str, Any] | None = None,
    manifest: Path | None = None,
    manifest_mode: Literal["keep", "update", "replace"] = "keep",
    batch_size: int | None = None,
    threads: int = 0,
    memory: int = 0,
    strict: bool = False,
    embeddings: bool = True,
    like: Store | Path | None = None,
    keep_rows: bool = False,
    base: Store | Path | None = None,
    base_check: Literal["count", "full"] = "count",
    base_cut: str | datetime.date | None = None,
    progress: ProgressCallback | bool = False,
) -> IngestReport:
    """Reads a database (a path or URL, docs/sources.md) or tables, and writes a store and its manifest.

        >>> report = ingest("shop.sqlite", "again.weir", schema="shop.schema.json")
        >>> report.tables, report.manifest_path
        (8, 'again.manifest.json')

    A dict of tables by name has values with Arrow's C stream interface (pyarrow, pandas 2.2, polars, DuckDB, …), or
    functions that return such a value each time they are called. A value is read once, and its batches are kept in
    memory if no schema is given or the schema has queries; of a function's results nothing is kept.

    schema: a file, the same thing as a dict, or None for one that is drafted from the source. progress: a function
    that gets a Progress some times a second and ends the work by returning False or raising; True shows a bar where
    tqdm is installed. Ctrl-C ends it; store and manifest appear whole or not at all.

    What may be a mistake is shown as an IngestWarning and is in the report's `warnings`; strict=True makes any of
    them, and a foreign key without a match, an error. A manifest that was edited is kept; manifest_mode "update"
    brings its datasets up to date, "replace" writes it again. batch_size: by default that of the old manifest, or 32.

    memory: how many bytes it may take of memory, from 64 MiB on; 0 for half of what the machine has. What is more lies
    in a file without a name beside the store, which is the same for any number.

    like: an earlier store, whose columns, categories, statistics and splits this one is to have, so that a model that was
    trained on it can be used with new data (docs/serving.md). Give the schema that it was made with.

    keep_rows: also keep the rows that were read, in OUT.rows, of which `weir.assemble` makes a store again. base: a store
    whose rows were kept: only new ones are read, where the source can say which; the store is the same as without. If
    rows of the base changed, that is a SourceError. base_check "full" compares all rows. base_cut, a time ("2026-11-01",
    a date or a datetime, in UTC if it has no zone): rows from then on are read again (docs/store.md).
    """
    prepare()
    tables, earlier = _source(source), _base(base, base_check, base_cut)
    text, name = _schema_text(schema)
    modes = ("keep", "update", "replace")
    if manifest_mode not in modes:
        raise ValueError(f"manifest_mode is {manifest_mode!r}, but must be one of {', '.join(modes)}")
    heard: list[tuple[Any, ...]] = []
    with _Bar(progress) as report:
        def work(on_progress: Callable[..., bool]) -> dict[str, Any]:
            return _weir._ingest(
                tables, text, name, out, manifest, modes.index(manifest_mode), batch_size or 0, threads, memory, strict,
                not embeddings, like.path if isinstance(like, Store) else like, keep_rows, *earlier, on_progress, heard,
            )

        try:
            result = _interruptible(work, report)
        finally:
            found = tuple(IngestWarning(*one[:5]) for one in heard if not one[5])
            for warning in found:
                python_warnings.warn(warning, stacklevel=2)
    result["base"] = json.loads(result["base"])
    return IngestReport(**result, warnings=found, notes=tuple(one[4] for one in heard if one[5]))


def draft_schema(source: Path | Tables) -> dict[str, Any]:
    """The schema that ingest would draft from a source. It reads all rows: a stream that can be read once is at its end then.

        >>> sorted(draft_schema("shop.sqlite")["tables"])[:3]
        ['categories', 'customers', 'employees']
    """
    prepare()
    draft: dict[str, Any] = json.loads(_weir._draft(_source(source)))
    return draft


def _base(base: Store | Path | None, check: str, cut: str | datetime.date | None) -> tuple[Path | None, bool, str | None]:
    if check not in ("count", "full"):
        raise ValueError(f"base_check is {check!r}, but must be count or full")
    if isinstance(cut, datetime.date):  # of which datetime is a kind
        cut = cut.isoformat()
    return base.path if isinstance(base, Store) else base, check == "full", cut


def _source(source: Path | Tables) -> Path | tuple[tuple[str, object, int], ...]:
    if not isinstance(source, Mapping):
        return source
    if not source:
        raise ValueError("there are no tables; give at least one, by its name")
    return tuple((name, _table(name, table), _row_count(table)) for name, table in source.items())


def _table(name: object, table: object) -> object:
    if not isinstance(name, str):
        raise TypeError(f"a table's name is {name!r}, but must be text")
    if not hasattr(table, "__arrow_c_stream__") and not callable(table):
        raise TypeError(
            f"table {name!r} is a {type(table).__name__}, which has no __arrow_c_stream__; give a table of pyarrow, polars, "
            "DuckDB or pandas 2.2 or later, or a function that returns one"
        )
    return table


def _row_count(table: object) -> int:
    """How many rows there are, if that costs nothing to say; else 0."""
    if type(table).__module__.startswith("pandas."):
        return len(table)  # type: ignore[arg-type]
    for name in ("num_rows", "height"):
        count = getattr(table, name, None)
        if isinstance(count, int):
            return max(count, 0)
    return 0


def _schema_text(schema: Path | Mapping[str, Any] | None) -> tuple[str | None, str | None]:
    if schema is None:
        return None, None
    if isinstance(schema, Mapping):
        return json.dumps(schema), "the schema"
    with open(schema, encoding="utf-8") as file:
        return file.read(), os.fspath(schema)


class _Bar:
    """The callback for a `progress` argument."""

    def __init__(self, progress: ProgressCallback | bool, unit: str = " rows") -> None:
        self._callback = progress if callable(progress) else None
        self._bar: Any = None
        if progress is True:
            try:
                from tqdm.auto import tqdm
            except ImportError:
                return
            self._bar = tqdm(unit=unit, unit_scale=True)

    def __enter__(self) -> ProgressCallback | None:
        return self._callback or (self._show if self._bar is not None else None)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def _show(self, progress: Progress) -> None:
        self._bar.set_description(progress.phase, refresh=False)
        self._bar.total = progress.total or None
        self._bar.n = progress.done
        self._bar.refresh()


def _interruptible(
    work: Callable[[Callable[..., bool]], dict[str, Any]], report: ProgressCallback | None
) -> dict[str, Any]:
    """Runs long work in a thread of its own, so that the main one is there for Ctrl-C."""
    stop, done = threading.Event(), threading.Event()
    result: dict[str, Any] = {}
    failure: list[BaseException] = []

    def on_progress(*numbers: Any) -> bool:
        return not stop.is_set() and (report is None or report(Progress(*numbers)) is not False)

    def run() -> None:
        try:
            result.update(work(on_progress))
        except BaseException as error:
            failure.append(error)
        finally:
            done.set()

    def start() -> None:
        try:
            threading.Thread(target=run, name="weir.ingest").start()
        except RuntimeError:  # there can be no more threads
            done.set()
            raise

    try:  # Ctrl-C may come inside start too; and a join that it interrupts may take the thread for ended
        start()
        done.wait()
    except BaseException:
        stop.set()
        done.wait()
        raise
    if failure:
        raise failure[0]
    return result
