"""weir.Loader: the batches of a run, made ahead by threads of C."""

from __future__ import annotations

import base64
import binascii
import itertools
import operator
import os
import threading
import warnings
import weakref
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from weir import _weir, _wrappers
from weir._batch import Batch
from weir._environment import rank_and_world_size
from weir._manifest import MIX_KEY, Manifest, as_manifest, only_dataset
from weir._options import answer_unknown
from weir._plan import Plan
from weir._sampler import Sampler
from weir._store import Store, StoreLike, as_stores
from weir._weir import Array
from weir.errors import Error


def _check_together(stage: str, steps: int | None, epochs: int | None, copies_from: object) -> None:
    if copies_from is not None:
        raise ValueError("batches on a device are not copied; clone what you want to keep of their tensors")
    if steps == 0 or epochs == 0:
        raise ValueError("a run of 0 steps has no batches; leave steps and epochs out for one without end")
    if epochs is not None and stage != "train":
        raise ValueError("epochs is for training; in other stages each loop is one pass, as often as you loop")


_SMALL: Mapping[str, Any] = MappingProxyType({  # the options of a run that is asked where it stands, and no more
    "workers": 1, "buffer_size": 1, "queue_size": 1, "device": None, "memory_limit": 0, "trace": None,
    "trace_memory": False, "trace_contents": False,
})  # fmt: skip


class Loader:
    """The batches of a run, in order, for one rank; workers are threads of C that make them ahead.

        >>> loader = Loader("shop.weir", "shop.manifest.json", dataset="shop/churn/train", workers=2)
        >>> for batch in loader.take(3):
        ...     print(batch.step, batch.task, batch["numeric_values"].shape)
        0 churn (32, 1024)
        1 churn (32, 1024)
        2 churn (32, 1024)
        >>> state = loader.state_dict()
        >>> resumed = Loader("shop.weir", "shop.manifest.json", dataset="shop/churn/train")
        >>> resumed.load_state_dict(state)
        >>> next(resumed).step
        3

    stores: one store or several, open or as paths. manifest: open, a path or a dict. dataset: one of the manifest's;
    without it the manifest's mix. rank, world_size: those of torchrun, MPI or Slurm if they are not given.

    stage: None is what the manifest's preset says, else "train". In "train" each loop resumes where the last one
    stopped. steps: how many a loop (an epoch of yours) has; a loop
    that was left early is finished by the next one. epochs: how many loops the run has; without steps a loop is one
    pass over the dataset. Without both, a loop has no end. In "eval" and "infer" each loop is a new pass over one
    dataset, in its order; "eval_seeded" is the same pass in a shuffled order that never changes, for evaluations that look
    at a part of it. There steps says where a pass ends early, and drop_remainder leaves out the last batch if it is not
    full (in "train" the manifest says so: data.drop_last).

    workers: threads. buffer_size: batches that each makes ahead. queue_size: batches that may be held at a time; a
    batch counts until it and all that was made of its arrays is gone. copy: give batches of their own memory, which may
    be written to and kept. policy: "strict", or "best_effort", which takes what is ready first; then
    max_lead, max_skips and shards are those of weir.Prefetcher. memory_limit: bytes; a
    run that needs more is refused with the numbers (plan() has them).

    trace: a file to record every batch that is taken in, for weir.replay, `weir diff` and `weir merge`; in a world of several
    ranks FILE.rankN. A run that resumes from a state resumes its trace. A run that fails ends it with the failure.
    trace_memory: also commit the run's memory before each batch is given, and record what it is; trace_contents: with a
    digest of the batch's bytes in their place.

    device: "cuda:1" ("cuda" is the first GPU): batches are copied to the GPU ahead of the loop, and their arrays lie there;
    torch and JAX take them with their streams in order (batch.torch(), torch.from_dlpack). At most `depth` can be held at
    a time, queue_size does not count, and copy is not for them. "host" is a device on any machine. There
    batch.anchor_row stays on the host, since no model needs the store's row numbers, unless anchor_rows asks for it.

    verify, read_ahead: how stores that are given as paths are opened; see Store.

    with_digests: compute each batch's digest. pad: fill up partial batches. any_hash: take a dataset whose hash is not
    the store's. Any thread may use a loader; batches go to whoever asks first. A loader that has begun does not survive
    a fork.
    """

    _checkpoint: bytes | None = None  # where the next run begins
    _is_fresh = True  # nothing was taken since it was made, or since a state was loaded
    _is_closed = False
    _is_waiting = False  # for a batch: who has the lock nevertheless is a signal handler …
    _is_left = False  # … and has closed it
    _is_checked = False  # who asks for the batches of this loop
    _loop_end: int | None = -1  # None: the loop has no end; -1: not yet known

    @answer_unknown
    def __init__(
        self,
        stores: StoreLike | list[StoreLike] | tuple[StoreLike, ...],
        manifest: Manifest | str | os.PathLike[str] | Mapping[str, Any],
        *,
        dataset: str | None = None,
        stage: str | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        workers: int = _weir.RUN_WORKERS,
        buffer_size: int = _weir.RUN_BUFFER,
        queue_size: int = _weir.RUN_QUEUE,
        policy: str = "strict",
        max_lead: int = _weir.PREFETCH_LEAD,
        max_skips: int = _weir.PREFETCH_SKIPS,
        shards: str = "interleaved",
        steps: int | None = None,
        epochs: int | None = None,
        first_step: int = 0,
        drop_remainder: bool = False,
        token: bytes | None = None,
        any_hash: bool = False,
        pad: bool = False,
        with_digests: bool = False,
        memory_limit: int | None = None,
        copy: bool = False,
        trace: str | os.PathLike[str] | None = None,
        trace_indices: bool = False,
        trace_memory: bool = False,
        trace_contents: bool = False,
        device: object = None,
        depth: int = _weir.RUN_DEPTH,
        anchor_rows: bool = False,
        verify: str = "touched",
        read_ahead: bool = False,
    ) -> None:
        self.stores, self.manifest = as_stores(stores, verify, read_ahead), as_manifest(manifest)
        stage = self.manifest.stage if stage is None else stage
        self.rank, self.world_size = rank_and_world_size(rank, world_size)
        check_numbers(64, steps=steps or 0, epochs=epochs or 0, first_step=first_step, memory_limit=memory_limit or 0)
        check_numbers(
            32, rank=self.rank, world_size=self.world_size, workers=workers, buffer_size=buffer_size,
            queue_size=queue_size, max_lead=max_lead, max_skips=max_skips, depth=depth,
        )  # fmt: skip
        check_texts(dataset="" if dataset is None else dataset, stage=stage, policy=policy, shards=shards)
        self.dataset, self.stage, self.first_step, self.copy, self._token = dataset, stage, first_step, copy, token
        self.steps, self.epochs = steps, epochs
        _check_together(stage, steps, epochs, copies_from=device if copy else None)
        self._passes = self._natural_epochs(token) if epochs is not None and steps is None else None
        end = self._find_end()
        check_numbers(64, steps=end or 0)
        if self.world_size == 0:
            raise ValueError("world_size is 0; a world has at least one rank")
        self._options: dict[str, Any] = {  # by the names that src/pipeline/run_options.c gives them
            "dataset": dataset, "stage": stage, "rank": self.rank, "world_size": self.world_size, "any_hash": any_hash, "pad": pad,
            "with_digests": with_digests, "steps": end, "first_step": first_step, "drop_remainder": drop_remainder,
            "workers": workers, "buffer_size": buffer_size, "queue_size": queue_size, "policy": policy, "max_lead": max_lead,
            "max_skips": max_skips, "shards": shards, "memory_limit": memory_limit, "depth": depth, "anchor_rows": anchor_rows,
            "trace": trace, "trace_indices": trace_indices, "trace_memory": trace_memory, "trace_contents": trace_contents,
            "device": None if device is None else str(device),
        }  # fmt: skip
        self._lock = threading.RLock()
        _loaders.add(self)
        self._run: _weir.Run | None = self._open_run(None)  # whatever is wrong is said now
        self._end: int | None = self._run.end
        self._memory = self._run._plan()

    # ---- Batches ----

    def __iter__(self) -> Iterator[Batch]:
        with self._lock:
            check_alone(self._is_waiting)
            self._is_checked = False
            if self.stage != "train" and not self._is_fresh:
                trace = self._options["trace"]
                if trace is not None:
                    raise ValueError(f"{trace} is of one pass; make a Loader with a trace of its own for the next")
                self._drop_run()
                self._checkpoint, self._is_fresh = None, True
            self._begin_loop()
            if self.stage == "train" and self._end is not None and self.step >= self._end:
                warnings.warn(f"the run has ended at step {self._end}, so this loop is empty", stacklevel=2)
        return self

    def __next__(self) -> Batch:
        with self._lock:
            check_alone(self._is_waiting)
            if not self._is_checked:
                is_train = self.stage == "train"
                _wrappers.check_batches(is_train and self.steps is self.epochs is None, is_train)
                self._is_checked = True
            run = self._begun()
            if self._loop_end == -1:
                self._begin_loop()
            if self._loop_end is not None and run.step >= self._loop_end != self._end:
                run._save()  # a trace reaches to the end of any loop
                raise StopIteration
            try:
                self._is_waiting = True
                batch = run._next(Batch, self.copy)
            except Error:
                raise
            except BaseException:  # a signal handler's: if asked again, resume from here; a batch that is owed comes next
                if not run.is_owed:
                    self._leave_run()
                raise
            finally:
                self._is_waiting = False
                if self._is_left:
                    self._leave_run()
            self._is_fresh = False
        if batch is None:
            raise StopIteration
        batch._stores = self.stores
        return batch

    def take(self, count: int) -> Iterator[Batch]:
        """The next `count` batches, or as many as the loop still has."""
        return itertools.islice(self, count)

    def __len__(self) -> int:
        """The batches of a loop, from its beginning to its end."""
        with self._lock:
            start, end = self._loop_at(self.step)
        if end is None:
            raise TypeError("a loop of this run has no end: give steps, or epochs")
        return max(end - max(start, self.first_step), 0)

    def __bool__(self) -> bool:
        """True, also without a length."""
        return True

    @property
    def end(self) -> int | None:
        """The step at which the run ends; None if it has no end. Does not begin the run."""
        return self._end

    @property
    def _is_mixed(self) -> bool:
        """Whether its batches are mixed."""
        return self.stage == "train" and self.dataset in (None, MIX_KEY) and self.manifest.mixed

    def _natural_epochs(self, token: bytes | None) -> Sampler:
        """The one dataset whose passes are the run's epochs."""
        if self._is_mixed or (self.dataset is None and len(self.manifest.datasets) > 1):
            raise ValueError("a mix has no passes that could be epochs: say with steps how many steps an epoch has")
        dataset = only_dataset(self.manifest, self.dataset)
        return Sampler(self.manifest, dataset, rank=self.rank, world_size=self.world_size, token=token)

    def _find_end(self) -> int | None:
        """Where the run ends, by its options."""
        if self.stage != "train" or self.epochs is None:
            return self.steps if self.stage != "train" else None
        return self._passes.first_step_of(self.epochs) if self._passes else self.epochs * (self.steps or 0)

    def _loop_at(self, step: int) -> tuple[int, int | None]:
        """The first step of the loop that a step belongs to, and the first after it."""
        if self.stage != "train":
            return 0, self.end
        if self._passes is not None:
            epoch = self._passes.cursor_of(step)[0]
            return self._passes.first_step_of(epoch), self._passes.first_step_of(epoch + 1)
        if self.steps is None:
            return 0, None
        first = step - step % self.steps
        return first, first + self.steps

    def _begin_loop(self) -> None:
        """From here to the end of the loop that the next step belongs to, or to that of the run."""
        end = self._loop_at(self.step)[1]
        self._loop_end = end if self._end is None or end is None else min(end, self._end or end)

    # ---- State ----

    @property
    def step(self) -> int:
        """The step after the last batch that was taken: all the state there is under the strict policy."""
        with self._lock:
            if self._run is not None:
                return self._run.step
            return self.first_step if self._checkpoint is None else _weir.Run._checkpoint_step(self._checkpoint)

    def state_dict(self, after: Batch | int | None = None) -> dict[str, Any]:
        """Where the run stands, after the last batch that was taken: integers and text, for any file format.

        after: a batch, or its step. If something of yours reads ahead of the loop, the last batch that was taken is not the
        last one that the loop has used: then say which one that was.
        """
        if after is not None:
            return self._state_after(after if isinstance(after, int) else after.step)
        with self._lock:
            checkpoint = self._checkpoint
            if checkpoint is None and self._is_closed and self._is_fresh:  # it has not begun, and never will
                run = self._open_run(None, {**_SMALL, "workers": self._options["workers"]})  # best effort's state has them
                checkpoint = run._state()
            elif checkpoint is None or (self._run is not None and self._run.is_started):
                checkpoint = self._state_of_run(self._begun())
            return _state_of(self.step, checkpoint)

    def _state_of_run(self, run: _weir.Run) -> bytes:
        """Where a run stands: before the batch that it owes, if it owes one. (Best effort cannot say that.)"""
        if run.is_owed and self._options["policy"] == "strict":
            return self._open_run(None, {**_SMALL, "first_step": run.step})._state()
        return run._state()

    def _state_after(self, step: int) -> dict[str, Any]:
        """Under the strict policy a state is its step: a run that begins there says it."""
        with self._lock:
            self._check_open()
            if self._options["policy"] != "strict":
                raise ValueError("under best effort only the state after the last batch that was taken is known")
            if not self.first_step <= step < self.step:
                raise ValueError(f"step {step} is not among those that were taken: {self.first_step} to {self.step - 1}")
            if self._run is not None and not self._run.is_owed:
                self._run._save()
            run = self._open_run(None, {**_SMALL, "first_step": step + 1})
            return _state_of(step + 1, run._state())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resumes where a state stands. It may be another world size's or another number of workers'; if it cannot be
        resumed exactly, weir.errors.CheckpointMismatch says what differs, and nothing changes."""
        checkpoint = _checkpoint_of(state)
        with self._lock:
            check_alone(self._is_waiting)
            self._check_open()
            run = self._open_run(checkpoint)
            if self._options["trace"] is not None or self._options["policy"] != "strict":  # the step is not all there is
                self._leave_run()  # which closes its trace: the new run may resume it
                run._start()
            self._drop_run()
            self._run, self._checkpoint, self._is_fresh, self._loop_end = run, checkpoint, True, -1

    # ---- About the run ----

    def metrics(self) -> dict[str, Any]:
        """Batches produced and consumed, waits, stalls, batches held; `workers` has the same for each. `stages`: for read,
        build, transform, transfer and consume the batches, busy_seconds, input_wait_seconds, room_wait_seconds, and how many
        batches are queued after it, of how much room. `compact_bytes`: copied to the device; `unpinned_bytes`: those of
        them that were not in pinned memory, which is slower."""
        with self._lock:
            return (self._run or self._begun())._metrics()

    def tables(self, store: Store | None = None) -> dict[str, Array]:
        """A store's embeddings of `columns` and `categories`, float16 [count, dim], where the batches are: on a device they
        are put there once, when the run begins (which this does), and stay for as long as the run or one of these arrays
        does. Without a device they are the store's own. store: one of the loader's; may be left out if it has only one.
        If batches are mixed, leave it out: then they are those of all stores, one after the other, as the batches number
        them.

            >>> loader = Loader("shop.weir", "shop.manifest.json", device="host")
            >>> loader.tables()["columns"]
            <weir.Array float16 (60, 64)>
        """
        if store is None and len(self.stores) > 1 and not self._is_mixed:
            raise ValueError(f"the loader has {len(self.stores)} stores; say which (batch.store is the one of a batch)")
        if store is not None and store not in self.stores:
            raise ValueError(f"{store!r} is not one of the loader's stores")
        with self._lock:
            all_stores = -1 if self._is_mixed else 0
            return self._begun()._tables(all_stores if store is None else self.stores.index(store))

    def plan(self) -> Plan:
        """The plan of the run's memory."""
        return Plan.from_bytes(self._memory)

    def close(self) -> None:
        """Ends the run: its workers stop, and a thread that waits for a batch gets weir.errors.Cancelled. Batches that are
        still held stay valid, and so do step and state_dict()."""
        self._is_closed = True
        run = self._run
        if run is not None:
            run._cancel()
        with self._lock:
            self._is_left = self._is_waiting
            if not self._is_waiting:
                self._leave_run()

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        place = f"rank {self.rank} of {self.world_size}"
        return f"<weir.Loader {self.dataset or 'mix'} ({self.stage}), {place}, at step {self.step}>"

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a weir.Loader has threads and cannot be pickled or copied; make one in each process")

    def _open_run(self, checkpoint: bytes | None, instead: Mapping[str, Any] = MappingProxyType({})) -> _weir.Run:
        return _weir.Run._open(self.stores, self.manifest, self._token, {**self._options, **instead}, checkpoint)

    def _check_open(self) -> None:
        if self._is_closed:
            raise ValueError("the loader is closed")

    def _begun(self) -> _weir.Run:
        """The run, with its workers."""
        self._check_open()
        if self._run is None:
            self._run = self._open_run(self._checkpoint)
        if not self._run.is_started:
            try:
                self._run._start()
            except BaseException:
                self._run = None
                raise
        return self._run

    def _leave_run(self) -> None:
        """Lets go of the run, but not of where it stood; unless its trace failed, which then does not reach so far."""
        run, self._run = self._run, None
        if run is not None and run.is_started:
            try:
                self._checkpoint = self._state_of_run(run)
            finally:
                run._stop()

    def _drop_run(self) -> None:
        """Lets go of the run; batches that are held keep what they need of it."""
        run, self._run = self._run, None
        if run is not None:
            run._stop()


_loaders: weakref.WeakSet[Loader] = weakref.WeakSet()


def _renew_locks() -> None:
    """In a child of fork: whichever thread held a loader's lock is not here to let go of it."""
    for loader in list(_loaders):
        loader._lock, loader._is_waiting = threading.RLock(), False


os.register_at_fork(after_in_child=_renew_locks)


def check_alone(is_waiting: bool) -> None:
    """What a signal handler may ask of what this very thread is waiting for: not this."""
    if is_waiting:
        raise RuntimeError(
            "a signal handler cannot take, begin or load anything while the loop that it interrupts waits; set a flag in "
            "the handler and look at it in the loop"
        )


def check_numbers(bits: int, **numbers: int) -> None:
    for name, number in numbers.items():
        try:
            is_known = 0 <= operator.index(number) < 1 << bits
        except TypeError:
            raise TypeError(f"{name} is a whole number, not {number!r}") from None
        if not is_known:
            raise OverflowError(f"{name} is {number}, which is not between 0 and 2^{bits}-1")


def check_texts(**texts: str) -> None:
    for name, text in texts.items():
        if not isinstance(text, str):
            raise TypeError(f"{name} is a str, not {text!r}")


def _state_of(step: int, checkpoint: bytes) -> dict[str, Any]:
    return {"version": 1, "step": step, "checkpoint": base64.b64encode(checkpoint).decode()}


def _checkpoint_of(state: Mapping[str, Any]) -> bytes:
    found = state if isinstance(state, Mapping) else {}
    if found.get("version") != 1 or not isinstance(found.get("checkpoint"), str):
        raise ValueError("this is not the state_dict() of a weir.Loader: it is not a dict of version 1 with a checkpoint")
    try:
        return base64.b64decode(found["checkpoint"], validate=True)
    except binascii.Error as error:
        raise ValueError(f"the state's checkpoint is damaged: {error}") from None
