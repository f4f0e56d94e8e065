"""weir.Contexts: what a model in use is asked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import date, datetime, timezone
from typing import Any

from weir import _weir
from weir._batch import Batch
from weir._manifest import Manifest, as_manifest
from weir._store import Store, StoreLike, as_stores

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Contexts(_weir.Contexts):
    """Answers requests to a task: an entity's key and a time become the tensors that a model was trained on.

        >>> contexts = Contexts("shop.weir", "churn", "shop.manifest.json")
        >>> contexts(5, "2024-05-01").anchor_row.shape
        (1,)
        >>> contexts([5, 7, 9], "2024-05-01T12:30:00Z")["column_ids"].shape
        (3, 1024)

    The key and the time need not be a seed of any split. If they are one, the sequence is the one that this seed has in
    evaluation, its label included (`torch(hide_target=True)` hides it); else the target of a derived task is null.

    Any thread may call it; calls of several threads run side by side. Memory is used again when a batch and all that was
    made of its arrays is gone.

    threads: how many take the walks of one context together, if the manifest has `retrieval`; the context is the same
    for any number. 0: two if the walks are many (50,000 steps) and there are two processors, else one. Whoever answers
    on every core already saves a little work with 1.
    """

    _stores: tuple[Store, ...]

    def __new__(
        cls,
        store: StoreLike,
        task: str,
        manifest: Manifest | str | os.PathLike[str] | Mapping[str, Any],
        *,
        token: bytes | None = None,
        with_digests: bool = False,
        threads: int = 0,
    ) -> Contexts:
        stores = as_stores(store)
        opened = cls._open(stores, as_manifest(manifest), task, token, with_digests, threads)
        opened._stores = stores
        return opened

    def __init__(
        self,
        store: StoreLike,
        task: str,
        manifest: Manifest | str | os.PathLike[str] | Mapping[str, Any],
        *,
        token: bytes | None = None,
        with_digests: bool = False,
        threads: int = 0,
    ) -> None:
        self.task = task
        self._manifest = manifest  # a key of Store.context may be its identity

    def __call__(
        self, key: Any = None, time: Any = None, *, seed: Any = None, row: Any = None, destination: bool = False
    ) -> Batch:
        """A batch of one request, or of as many as `key` (or `row`) is a list of.

        key: the anchor row's primary key, a tuple if it has several columns. row: instead, its number in the store.
        time: as of when: text in ISO 8601, a datetime (without a time zone: UTC), a numpy.datetime64, or microseconds since
        1970; None: the time of the row itself. seed: another context of the same request, if the manifest's child_policy
        draws at random. Both may be lists, one for each request. destination: of a link task: the keys or rows are of its
        destination table, not of the source's.

        weir.errors.KeyNotFound if there is no such row."""
        if (key is None) == (row is None):
            raise TypeError("give a key or a row")
        asked = key if row is None else row
        if hasattr(asked, "tolist"):  # an array
            asked = asked.tolist()
        if not isinstance(asked, list):
            requests = [(_subject(asked, row is None), _micros(time), seed, destination)]
        else:
            several = zip(asked, _for_each(time, len(asked), "time"), _for_each(seed, len(asked), "seed"))
            requests = [(_subject(one, row is None), _micros(when), which, destination) for one, when, which in several]
        batch = self._build(Batch, requests)
        batch._stores = self._stores
        return batch

    def __repr__(self) -> str:
        return f"<weir.Contexts {self.task}>"


def _subject(asked: Any, is_key: bool) -> Any:
    return asked if not is_key or isinstance(asked, tuple) else (asked,)


def _for_each(value: Any, count: int, what: str) -> list[Any]:
    if getattr(value, "ndim", 0) != 0:
        value = list(value)  # not its tolist(): a datetime64 becomes an int of its own unit there
    if not isinstance(value, (list, tuple)):
        return [value] * count
    if len(value) != count:
        raise ValueError(f"there are {len(value)} values of {what} for {count} requests")
    return list(value)


def _micros(time: Any) -> Any:
    """None, a text that C reads, or microseconds since 1970."""
    if time is None or isinstance(time, (str, int)):
        return time
    if isinstance(time, datetime):
        since = (time if time.tzinfo else time.replace(tzinfo=timezone.utc)) - _EPOCH
        return (since.days * 86400 + since.seconds) * 10**6 + since.microseconds
    if isinstance(time, date):
        return time.isoformat()
    if hasattr(time, "astype") and "datetime64" in str(getattr(time, "dtype", "")):
        return int(time.astype("datetime64[us]").astype("int64"))
    if hasattr(time, "__index__"):
        return int(time)
    raise TypeError(f"{time!r} is not a time: give text in ISO 8601, a datetime, or microseconds since 1970")
