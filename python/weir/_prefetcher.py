"""weir.Prefetcher: the items of any source, made ahead by threads, in an order that resumes exactly."""

from __future__ import annotations

import atexit
import base64
import binascii
import itertools
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, Protocol, TypeVar

from weir import _weir
from weir._loader import check_alone, check_numbers, check_texts
from weir._options import answer_unknown

Item = TypeVar("Item")
Held = TypeVar("Held", covariant=True)

_ENDLESS = 2**64 - 1
_numbers = itertools.count(1)  # by which workers know whose they are


class Indexable(Protocol[Held]):
    """What gives items by their number: a list, a torch dataset."""

    def __getitem__(self, position: int, /) -> Held: ...


class Prefetcher(Generic[Item]):
    """The items of a source, made ahead by worker threads and given in one order (docs/pipeline.md).

        >>> squares = Prefetcher(lambda epoch, position: position**2, length=6, workers=3)
        >>> next(squares), next(squares)
        (0, 1)
        >>> state = squares.state_dict()
        >>> again = Prefetcher(lambda epoch, position: position**2, length=6, workers=2)
        >>> again.load_state_dict(state)
        >>> list(again)
        [4, 9, 16, 25]

    source: anything with __getitem__ and __len__ (a list, a torch dataset): its items in order; or a function of (epoch,
    position) with `length`, or without it for one pass that has no end. What an item is must depend on these two alone,
    since items that were made ahead and not taken are made again after a resume. Workers call it from threads of
    their own: it should let go of the GIL while it waits or computes, as reading, decompressing, numpy and torch do.

    workers: threads. buffer_size: items that each makes ahead. epochs: passes over the source; None for no end.
    start_epoch, start_position: where the first pass begins. shards: how a pass is dealt out, "interleaved" (worker k of N
    has items k, k + N, …) or "contiguous" (a block each). drop_remainder: all workers have the same number of items in a
    pass; what is left over is left out. policy: "strict" takes one item of each worker in turn, so that with interleaved
    shards one pass is the source's own order for any number of workers; "best_effort" takes what is ready first: a worker
    is at most max_lead items ahead of the slowest, and after max_skips workers that have nothing it waits.

    shares_items: for one pass in strict order, with interleaved shards and no dropped remainder: an item is made by
    whichever worker is free. Order and states stay the same, and a slow item delays no other worker's.

    A loop takes what is left; one that was stopped is resumed by the next. The state is what was taken, and nothing that
    was only made ahead. What the source raises comes at its item's place; asking again tries that item again. Any thread
    may take items; each goes to whoever asks first.
    """

    @answer_unknown
    def __init__(
        self,
        source: Indexable[Item] | Callable[[int, int], Item],
        *,
        length: int | None = None,
        workers: int = _weir.PREFETCH_WORKERS,
        buffer_size: int = _weir.PREFETCH_BUFFER,
        shards: str = "interleaved",
        drop_remainder: bool = False,
        policy: str = "strict",
        max_lead: int = _weir.PREFETCH_LEAD,
        max_skips: int = _weir.PREFETCH_SKIPS,
        epochs: int | None = 1,
        start_epoch: int = 0,
        start_position: int = 0,
        shares_items: bool = False,
    ) -> None:
        call, self.length = _source_of(source, length)
        check_numbers(64, length=self.length or 0, epochs=epochs or 0, start_epoch=start_epoch, start_position=start_position)
        check_numbers(32, workers=workers, buffer_size=buffer_size, max_lead=max_lead, max_skips=max_skips)
        check_texts(shards=shards, policy=policy)
        for name, number in ("workers", workers), ("buffer_size", buffer_size), ("epochs", epochs):
            if number == 0:
                raise ValueError(f"{name} is 0, so there would be no items")
        if workers * buffer_size > 2**24:
            raise ValueError(f"{workers} workers with {buffer_size} items each are more than 2^24 items ahead; make fewer ahead")
        if self.length is None and epochs != 1:
            raise ValueError("a source without a length is one pass that has no end: leave epochs out, or say its length")
        self.source, self.workers, self.epochs = source, workers, epochs
        self._drops, self._start = drop_remainder, start_position
        self._number = number = next(_numbers)
        self._options = (
            call, _ENDLESS if self.length is None else self.length, epochs or 0, start_epoch, start_position, shards,
            drop_remainder, policy, max_lead, max_skips, workers, buffer_size, shares_items, number,
        )  # fmt: skip
        self._lock = threading.RLock()
        self._is_closed = False
        self._is_waiting = False  # for an item: who has the lock nevertheless is a signal handler
        self._state: bytes | None = None  # where the next run begins
        self._run: _weir.Prefetch | None = _weir.Prefetch._open(*self._options, None)
        self._owner = os.getpid()
        _prefetchers.add(self)

    # ---- Items ----

    def __iter__(self) -> Iterator[Item]:
        return self

    def __next__(self) -> Item:
        with self._lock:
            check_alone(self._is_waiting)
            run = self._opened()
            try:
                self._is_waiting = True
                item: Item = run._next()
                return item
            except StopIteration:
                raise
            except BaseException:  # the source's, or a signal handler's: if asked again, resume from here
                if self._owner == os.getpid():
                    self._leave()
                raise
            finally:
                self._is_waiting = False
                if self._is_closed:  # by a signal handler
                    self._leave()

    def __len__(self) -> int:
        """The items of the whole run, from its first to its last."""
        if self.length is None or self.epochs is None:
            raise TypeError("the run has no end")
        passes = [self.length - self._start, *[self.length] * min(self.epochs - 1, 1)]
        counts = [count - count % self.workers if self._drops else count for count in passes]
        return counts[0] + (self.epochs - 1) * counts[-1]

    def __bool__(self) -> bool:
        """True, also without a length."""
        return True

    # ---- State ----

    def state_dict(self) -> dict[str, Any]:
        """Where the run stands, after the last item that was taken: integers and text, for any file format."""
        with self._lock:
            state = self._run._save() if self._run is not None else self._state
            if state is None:
                raise ValueError("the prefetcher is closed")
            return {"version": 1, "prefetch": base64.b64encode(state).decode()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resumes where a state stands, exactly. buffer_size, max_lead and max_skips may differ, and workers if the order
        does not depend on them; anything else is weir.errors.CheckpointMismatch, which says what differs, and nothing changes."""
        saved = _saved(state)
        _weir.Prefetch._check_may_close(self._number)
        with self._lock:
            check_alone(self._is_waiting)
            if self._is_closed:
                raise ValueError("the prefetcher is closed")
            run = _weir.Prefetch._open(*self._options, saved)
            self._drop()
            self._run, self._state, self._owner = run, saved, os.getpid()

    # ---- About it ----

    def metrics(self) -> dict[str, Any]:
        """Items produced and consumed since it was opened, waits, stalls; `workers` has the same for each."""
        with self._lock:
            return self._opened()._metrics()

    def close(self) -> None:
        """Ends the run: waits for the workers, who finish the items that they are at. The state stays. A source cannot close its
        own prefetcher (RuntimeError)."""
        _weir.Prefetch._check_may_close(self._number)
        self._is_closed = True
        run = self._run
        if run is not None and self._owner == os.getpid():
            run._cancel()
        with self._lock:
            if not self._is_waiting:
                self._leave()

    def __enter__(self) -> Prefetcher[Item]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a weir.Prefetcher has threads and cannot be pickled or copied; make one in each process")

    def __repr__(self) -> str:
        return f"<weir.Prefetcher of {'no end' if self.length is None else f'{self.length} items'}, {self.workers} workers>"

    def _opened(self) -> _weir.Prefetch:
        if self._is_closed:
            raise ValueError("the prefetcher is closed")
        if self._run is None:
            self._run, self._owner = _weir.Prefetch._open(*self._options, self._state), os.getpid()
        return self._run

    def _leave(self) -> None:
        """Lets go of the run, but not of where it stood."""
        if self._run is not None:
            self._state = self._run._save()
            self._drop()

    def _drop(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            run._cancel()
            run._close()


_prefetchers: weakref.WeakSet[Prefetcher[Any]] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Workers must not call into an interpreter that has ended."""
    for prefetcher in list(_prefetchers):
        if prefetcher._owner == os.getpid():
            prefetcher.close()
    _weir.Prefetch._await_ends()


def _renew_locks() -> None:
    for prefetcher in list(_prefetchers):
        prefetcher._lock, prefetcher._is_waiting = threading.RLock(), False


os.register_at_fork(after_in_child=_renew_locks)


def _source_of(source: Any, length: int | None) -> tuple[Callable[[int, int], Any], int | None]:
    """What a worker calls, and how many items a pass has."""
    if hasattr(source, "__getitem__"):
        if length is None and not hasattr(source, "__len__"):
            raise TypeError("the source does not say how many items it has: give length")
        item = source.__getitem__
        return (lambda epoch, position: item(position)), len(source) if length is None else length
    if callable(source):
        return source, length
    raise TypeError(f"a source has __getitem__, or is a function of (epoch, position); {source!r} is neither")


def _saved(state: Mapping[str, Any]) -> bytes:
    found = state if isinstance(state, Mapping) else {}
    if found.get("version") != 1 or not isinstance(found.get("prefetch"), str):
        raise ValueError("this is not the state_dict() of a weir.Prefetcher: it is not a dict of version 1 with a prefetch state")
    try:
        return base64.b64decode(found["prefetch"], validate=True)
    except binascii.Error as error:
        raise ValueError(f"the state is damaged: {error}") from None
