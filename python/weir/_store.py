"""weir.Store: an open store as Python sees it."""

from __future__ import annotations

import json
import operator
import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from weir import _weir
from weir._manifest import _with_texts
from weir._weir import Array

if TYPE_CHECKING:
    from weir._batch import Batch

CARRIERS = dict(_weir.STYPES)  # the tensor that carries a type's values, or "none"


class Table(Mapping[str, Array]):
    """A table of a store: its columns as arrays of the file itself.

    Numerical columns are float32 (normalised), timestamps int64 microseconds, categories and texts uint32 numbers for
    Store.category and Store.text, booleans bool. Identifier columns have no values and are not here. Rows are in the
    store's order. `nulls(column)` says which cells are null; their values are 0.
    """

    def __init__(self, store: Store, name: str) -> None:
        table = next(table for table in store.info["tables"] if table["name"] == name)
        columns = [column for column in store.info["columns"] if column["table"] == name]
        self._store = store
        self._columns = {column["name"]: column["column_idx"] for column in columns}
        self._values = [column["name"] for column in columns if CARRIERS[column["stype"]] != "none"]
        self.name: str = name
        self.row_start: int = table["row_start"]
        self.row_count: int = table["rows"]
        self.first_number: int = table["row_start"] if store.info["format_version"] == 1 else 0  # as anchor_row counts

    def __getitem__(self, column: str) -> Array:
        return self._store._column(self._columns[column], False)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def nulls(self, column: str) -> Array:
        """bool [rows]: whether each cell is null. A copy."""
        return self._store._column(self._columns[column], True)

    def __repr__(self) -> str:
        return f"<weir.Table {self.name}: {self.row_count} rows, {', '.join(self._values)}>"


KeyValue = int | float | str | bytes
Key = KeyValue | tuple[KeyValue, ...]


class Keys:
    """The primary keys of a table's rows, as the database has them: what joins predictions back to it.

    Rows are counted as in a batch's `anchor_row`: over the whole store, or within their table if the store is of format 2.
    A key of several columns is a tuple.

        >>> keys = Store("shop.weir").keys("order_items")
        >>> keys.columns, keys[keys.row((3, 1))]
        (('order_id', 'line'), (3, 1))

    `dict(zip(keys[batch.anchor_row], scores))` is a prediction for each key.
    """

    def __init__(self, store: Store, table: str) -> None:
        numbers = [number for number, described in enumerate(store.info["tables"]) if described["name"] == table]
        if not numbers:
            raise KeyError(f"the store has no table {table!r}")
        described = store.info["tables"][numbers[0]]
        if "keys" not in described:
            raise KeyError(
                f'the store keeps no keys of {table!r}; ingest with "keys": true in the schema, and a primary_key'
            )
        self._store = store
        self._number: int = numbers[0]
        self.columns: tuple[str, ...] = tuple(described["primary_key"])
        first = store.tables[table].first_number
        self._rows = range(first, first + described["rows"])
        self._moved: int = described["row_start"] - first  # from such a number to the row of the whole store

    def _one(self, row: int) -> Key:
        if row not in self._rows:
            raise IndexError(f"row {row} is not one of the table's, {self._rows.start} to {self._rows.stop - 1}")
        key: Key = self._store._key(row + self._moved)
        return key

    def __getitem__(self, rows: Any) -> Any:
        """The key of a row, or a list of keys for several rows: any array or iterable of integers."""
        if hasattr(rows, "__index__") and not getattr(rows, "ndim", 0):
            return self._one(operator.index(rows))
        return [self._one(operator.index(row)) for row in (rows.tolist() if hasattr(rows, "tolist") else rows)]

    def row(self, key: Key) -> int:
        """The row of a key, by binary search; KeyError if there is none."""
        row = self._store._find_row(self._number, key if isinstance(key, tuple) else (key,))
        if row is None:
            raise KeyError(key)
        return row - self._moved

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Key]:
        return map(self._one, self._rows)

    def __repr__(self) -> str:
        return f"<weir.Keys {', '.join(self.columns)}: {len(self)} rows>"


class Store(_weir.Store):
    """An immutable store file, mapped into memory and shared by all processes that open it. Any thread may use it.

        >>> store = Store("shop.weir")
        >>> store.name, len(store.tables)
        ('shop', 8)
        >>> store.datasets["shop/churn/val"]["split"]
        'val'
        >>> store.tables["products"]["price"].dtype
        'float32'
        >>> store.embeddings["columns"].shape[1]
        64

    verify says what of the file is compared with its hashes: "touched", each block of 64 KiB when it is used first in
    this process; "all", everything, when it is opened; "none". Damage is weir.errors.StoreCorrupt.

    read_ahead: batches ask for the pages of the file some time before they read them, as they always do if the store is
    larger than memory. If all of it is in memory that costs time and does not help.
    """

    def __init__(self, path: str | os.PathLike[str], verify: str = "touched", read_ahead: bool = False) -> None:
        self.path, self._opened_with = os.fspath(path), (verify, read_ahead)

    @cached_property
    def info(self) -> dict[str, Any]:
        """All that `weir info --json` prints."""
        info: dict[str, Any] = json.loads(self._info())
        return info

    @cached_property
    def tables(self) -> Mapping[str, Table]:
        """The tables by name."""
        return {table["name"]: Table(self, table["name"]) for table in self.info["tables"]}

    @property
    def embeddings(self) -> dict[str, Array]:
        """float16 [count, dim] of `columns`, `categories` and `texts`: what column_ids and categorical_embed_ids of a batch
        point into, and the numbers of a Table's text columns. (A batch brings the texts that it uses: its text_embed_ids
        point into its own text_batch_embeddings.)"""
        return {kind: self._embeddings(kind) for kind in ("columns", "categories", "texts")}

    def keys(self, table: str) -> Keys:
        """The primary keys of a table's rows; KeyError if the store keeps none."""
        return Keys(self, table)

    def _key_of(self, row: int) -> Key | None:
        """The key of a row of the whole store; None if the store keeps none of its table."""
        tables = (table for table in self.info["tables"] if row - table["row_start"] in range(table["rows"]))
        key: Key | None = self._key(row) if "keys" in next(tables, {}) else None
        return key

    def context(
        self,
        task: str,
        key: Any = None,
        time: Any = None,
        *,
        seed: int | None = None,
        row: Any = None,
        destination: bool = False,
        manifest: Any = None,
        with_digests: bool = False,
        threads: int = 0,
    ) -> Batch:
        """What a model sees of an entity at a time, which need not be a seed of any split: a batch of one sequence, or of
        several where `key` (or `row`) is a list. See weir.Contexts for what the arguments are, and for a loop that asks
        often.

            >>> asked = Store("shop.weir").context("churn", 5, "2024-05-01")
            >>> asked["numeric_values"].shape, asked.target.is_null.tolist()
            ((1, 1024), [True])

        manifest: whose `batch` settings count; None: the one that weir.ingest wrote beside the store. What was opened for
        a task and a manifest is kept for the next call; a file or a dict that was changed since is read again."""
        from weir._contexts import Contexts

        if manifest is None:
            manifest = self.path.removesuffix(".weir") + ".manifest.json"
        kept: dict[Any, Contexts] = self.__dict__.setdefault("_contexts", {})
        place = (task, _identity_of(manifest), with_digests, threads)
        contexts = kept.get(place)
        if contexts is None:
            contexts = Contexts(self, task, manifest, with_digests=with_digests, threads=threads)
            while len(kept) >= 16:
                kept.pop(list(kept)[0], None)
            contexts._stores = ()  # this one holds them, and is not to wait for the garbage collector
            kept[place] = contexts
        batch = contexts(key, time, seed=seed, row=row, destination=destination)
        batch._stores = (self,)
        return batch

    def verify(self, threads: int = 1) -> None:
        """Reads every byte; weir.errors.StoreCorrupt where one is damaged."""
        self._verify(threads)

    def __reduce__(self) -> Any:
        return _open_again, (type(self), self.path, *self._opened_with, self.hash)

    def __repr__(self) -> str:
        return f"<weir.Store {self.name} {self.hash[:12]} at {self.path}>"


def _open_again(kind: type[Store], path: str, verify: str, read_ahead: bool, hash: str) -> Store:
    """A copy of a store, mostly in another process. The file may have been replaced since."""
    store = kind(path, verify, read_ahead)
    if store.hash != hash:
        raise ValueError(
            f"{path} is no longer the store that is copied: it has the hash {store.hash[:12]}, not {hash[:12]}; open it anew, "
            "or give new stores new names"
        )
    return store


def _identity_of(manifest: Any) -> Any:
    """What a manifest is known by: a file and a dict may be another manifest the next time."""
    if isinstance(manifest, Mapping):
        return json.dumps(_with_texts(manifest))
    if not isinstance(manifest, (str, os.PathLike)):
        return id(manifest)
    try:
        found = os.stat(manifest)
    except OSError:  # whoever opens it says why
        return os.fspath(manifest)
    return os.fspath(manifest), found.st_ino, found.st_size, found.st_mtime_ns


StoreLike = Store | str | os.PathLike[str]


def as_stores(
    stores: StoreLike | list[StoreLike] | tuple[StoreLike, ...], verify: str = "touched", read_ahead: bool = False
) -> tuple[Store, ...]:
    """One store or several, open or as paths; these are opened with `verify` and `read_ahead`."""
    several = stores if isinstance(stores, (list, tuple)) else [stores]
    return tuple(store if isinstance(store, Store) else Store(store, verify, read_ahead) for store in several)
