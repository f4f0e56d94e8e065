"""The trace: what a run read, step by step, in a file that cannot be cut or edited unnoticed.

Follows the section "Trace" of the specification and docs/spec/02-trace.md. A trace is a sequence of CBOR maps: a
`run_header`, then an `iter` a step (after it a `memory` if the run records that, and a `resume` where the run went on
from a checkpoint), a `failure` if the run failed, then a `run_end`. The kind of a record
is its member `type`; its member `h` is its link in a chain of hashes,

    h_0     = SHA-256(CBOR(["weir_trace_v1", header without h]))
    h_{i+1} = SHA-256(CBOR([h_i, record without h]))

so that a record's `h` vouches for everything before it. A run that crashed leaves a trace of whole records
that has no `run_end`; that is valid, and said. There is no time of day in a trace: two runs of the same
inputs write the same bytes. `judge` says whether the records are those of one whole run.
"""

import hashlib
from dataclasses import dataclass
from typing import Any, NoReturn

from . import cbor
from .errors import WeirError
from .manifest import Manifest, sha256_of
from .mix import Mixer
from .sampler import Batch, Cursor

TRACE_VERSION = "weir_trace_v1"
METADATA_IN_AN_ITER_RECORD = (
    "epoch",
    "global_position",
    "is_shuffled",
    "subsampling_mode",
    "sampling_mode",
    "sampler_config_hash",
    "effective_q",
    "effective_batch_size",
    "epoch_seed_hash",
    "data_replay_t",
)
IDENTITY_FIELDS = ("trace_version", "manifest_hash", "mix_hash", "batch_config_hash", "store_hashes")

Record = dict[str, Any]


# ---- The chain ---------------------------------------------------------------------------------------------


def hash_of_header(header: Record) -> bytes:
    """h_0."""
    return sha256_of([TRACE_VERSION, _without_link(header)])


def hash_of_next(previous_hash: bytes, record: Record) -> bytes:
    """h_{i+1}, of a record that stands behind h_i."""
    return sha256_of([previous_hash, _without_link(record)])


def _without_link(record: Record) -> Record:
    return {name: value for name, value in record.items() if name != "h"}


class TraceWriter:
    """A trace in memory: every record that is appended gets its link."""

    def __init__(self, header: Record) -> None:
        self.last_hash = hash_of_header(header)
        self.encoded = cbor.encode({**header, "h": self.last_hash})

    def append(self, record: Record) -> None:
        self.last_hash = hash_of_next(self.last_hash, record)
        self.encoded += cbor.encode({**record, "h": self.last_hash})


# ---- The records -------------------------------------------------------------------------------------------


def run_header(
    manifest: Manifest,
    token: bytes,
    world_size: int,
    rank: int,
    schedule: str,
    store_hashes: list[bytes],
    weir_version: str,
    stage: str = "train",
) -> Record:
    """The first record. It holds the manifest itself, so that a trace explains itself. `schedule` is "mix"
    where step t is found by its number, "cursor" where each step begins where the one before ended."""
    operator = manifest.operator(stage)
    named = {} if operator.endswith("_v2") else {"operator": operator}
    return named | {
        "type": "run_header",
        "trace_version": TRACE_VERSION,
        "weir_version": weir_version,
        "schedule": schedule,
        "replay_token": token,
        "manifest": manifest.normalised(),
        "mix": manifest.mix or {},
        "batch": manifest.batch.normalised(),
        "datasets": {key: dataset.cardinality for key, dataset in manifest.datasets.items()},
        "sampler_block_size": manifest.data.sampler_block_size,
        "is_shuffled_per_stage": {"train": True, "eval": False, "infer": False},
        "manifest_hash": manifest.manifest_hash,
        "mix_hash": manifest.mix_hash,
        "batch_config_hash": manifest.batch_config_hash,
        "store_hashes": store_hashes,
        "world_size": world_size,
        "rank": rank,
    }


def iter_record(
    t: int,
    manifest: Manifest,
    dataset_key: str,
    world_size: int,
    cursor_before: Cursor,
    batch: Batch,
    with_indices: bool = False,
) -> Record:
    """The record of step t; a run that builds batches adds their digests."""
    global_batch_size = manifest.global_batch_size
    if batch.metadata.get("sequence_length"):
        global_batch_size = global_batch_size * manifest.batch.sequence_length // batch.metadata["sequence_length"]
    record = {
        "type": "iter",
        "t": t,
        "dataset_key": dataset_key,
        "cursor_before": _cursor_map(cursor_before),
        "cursor_after": _cursor_map(batch.cursor_next),
        "valid_count": batch.valid_count,
        "micro_batch_size": global_batch_size // world_size,
        "global_batch_size": global_batch_size,
    }
    for name in METADATA_IN_AN_ITER_RECORD:
        record[name] = batch.metadata[name]
    if with_indices:
        record["indices"] = batch.indices
    return record


def resume_record(step: int, checkpoint_hash: bytes) -> Record:
    return {"type": "resume", "step": step, "checkpoint_hash": checkpoint_hash}


def memory_record(t: int, state: bytes, contents: bytes | None = None) -> Record:
    """What the memory was when the batch of step t was given; `state` is that of commit.Sealer."""
    decoded = cbor.decode(state)
    return {
        "type": "memory",
        "t": t,
        "state": decoded,
        "state_hash": commit_hash(decoded["plan_hash"], t),
        "visibility_hash": hashlib.sha256(state).digest(),
    } | ({} if contents is None else {"contents": contents})


def commit_hash(plan_hash: bytes, batch: int) -> bytes:
    return sha256_of(["tmmu_commit_v1", plan_hash, batch])


def failure_record(
    t: int,
    error: WeirError,
    failure_operator: str,
    dataset_key: str | None,
    cursor: Cursor | None,
    data_replay_t: bytes | None,
    token: bytes,
) -> Record:
    """What a run that fails at step t writes before its run_end."""
    return {
        "type": "failure",
        "t": t,
        "failure_code": error.code_id,
        "failure_operator": failure_operator,
        "dataset_key": dataset_key,
        "cursor_before": None if cursor is None else _cursor_map(cursor),
        "data_replay_t": data_replay_t,
        "replay_token": token,
        "message": error.message,
        "diagnostics": error.diagnostics,
    }


def run_end(
    final_cursors: dict[str, Cursor], total_samples_seen: int, trace_hash: bytes, status: str = "success"
) -> Record:
    """The last record; `trace_hash` is the chain's value before it."""
    return {
        "type": "run_end",
        "status": status,
        "final_cursors": {key: _cursor_map(cursor) for key, cursor in final_cursors.items()},
        "final_epoch": max((cursor.epoch for cursor in final_cursors.values()), default=0),
        "total_samples_seen": total_samples_seen,
        "trace_hash": trace_hash,
    }


def _cursor_map(cursor: Cursor) -> dict[str, int]:
    return {"epoch": cursor.epoch, "global_index": cursor.global_index}


# ---- Reading and verifying ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trace:
    """A verified trace. Without `run_end` the run was cut short, and anything may have followed."""

    header: Record
    records: list[Record]
    run_end: Record | None


def verify(encoded: bytes) -> Trace:
    """The records of a trace whose chain holds; else TRACE_CORRUPT at the first record that is wrong."""
    header, *records = _decode_records(encoded)
    last_hash = hash_of_header(header)
    _check_link(0, header, last_hash)
    for number, record in enumerate(records, start=1):
        if record["type"] == "run_end" and record.get("trace_hash") != last_hash:
            _refuse(number, "it names another trace_hash than that of the records before it")
        last_hash = hash_of_next(last_hash, record)
        _check_link(number, record, last_hash)
    if records and records[-1]["type"] == "run_end":
        return Trace(header, records[:-1], records[-1])
    return Trace(header, records, None)


def _decode_records(encoded: bytes) -> list[Record]:
    """The maps of a trace, which begins with a run_header and ends at the latest with a run_end."""
    records: list[Record] = []
    allowed_kinds: tuple[str, ...] = ("run_header",)
    offset = 0
    while offset < len(encoded) or not records:
        try:
            record, offset = cbor.decode_first(encoded, offset)
        except WeirError as fault:
            _refuse(len(records), fault.message)
        if not isinstance(record, dict) or record.get("type") not in allowed_kinds:
            _refuse(len(records), f"only these may stand here: {', '.join(allowed_kinds) or 'nothing'}")
        allowed_kinds = ("iter", "memory", "resume", "failure", "run_end")
        if record["type"] in ("run_end", "failure"):
            allowed_kinds = () if record["type"] == "run_end" else ("run_end",)
        records.append(record)
    return records


def _check_link(number: int, record: Record, expected: bytes) -> None:
    if record.get("h") != expected:
        _refuse(number, "its hash is not the chain's: the trace was cut or edited before its end")


def _refuse(number: int, reason: str) -> NoReturn:
    raise WeirError("TRACE_CORRUPT", f"record {number}: {reason}", record=number)


def cut_back_and_resume(trace: Trace, step: int, checkpoint_hash: bytes) -> TraceWriter:
    """What a run that resumes at a step goes on writing: what led to that step, and the resume itself."""
    writer = TraceWriter(_without_link(trace.header))
    for record in trace.records:
        reached = {"iter": lambda: record["t"] >= step, "resume": lambda: record["step"] > step, "memory": lambda: False}
        if record["type"] == "failure" or reached[record["type"]]():
            break
        writer.append(_without_link(record))
    writer.append(resume_record(step, checkpoint_hash))
    return writer


def are_comparable(one: Trace, other: Trace) -> bool:
    """Whether two runs read the same data in the same way, so that a difference has a meaning."""
    return all(one.header.get(name) == other.header.get(name) for name in IDENTITY_FIELDS)


# ---- Judging -----------------------------------------------------------------------------------------------


class Divergence(Exception):
    """The first thing that is not so: the step and the field."""

    def __init__(self, t: int, field: str) -> None:
        super().__init__(f"step {t}: {field}")
        self.t, self.field = t, field


def _stage_of(record: Record) -> str:
    """The stage that a step's record shows; "eval" stands for "infer" too, which takes the same samples."""
    if not record["is_shuffled"]:
        return "eval"
    return "eval_seeded" if record["sampling_mode"] == "SHUFFLE_EVAL_FEISTEL_V1" else "train"


def judge(trace: Trace, manifest: Manifest) -> str:
    """Whether the records are those of one whole run, each following from those before it: "success", "failed",
    or "cut" if there is no run_end. What each step holds is for a replay to say."""
    run = _Run(trace.header, manifest)
    for record in trace.records:
        run.memory.take(record)
        if record["type"] == "memory":
            continue
        if record["type"] == "resume":
            run.resume(record)
        elif record["type"] == "failure":
            run.fail(record)
        else:
            run.step(record)
    if trace.run_end is not None:
        run.memory.take(trace.run_end)
    return "cut" if trace.run_end is None else run.end(trace.run_end)


class _Memory:
    """The memory records of one process: from the header, or a resume, to the next resume."""

    def __init__(self) -> None:
        self.step: Record | None = None
        self.steps = 0
        self.states: list[Record] = []
        self.is_due = False

    def take(self, record: Record) -> None:
        if record["type"] == "memory":
            self.check(record)
            self.states.append(record["state"])
            self.is_due = False
            return
        if self.is_due and self.states and self.step is not None:
            raise Divergence(self.step["t"], "memory")
        if record["type"] == "resume":
            self.__init__()  # type: ignore[misc]
        if record["type"] == "iter":
            self.step, self.steps, self.is_due = record, self.steps + 1, True

    def check(self, record: Record) -> None:
        t, state = record["t"], record["state"]
        if not self.is_due or self.step is None or len(self.states) + 1 != self.steps:
            raise Divergence(t, "memory")
        if t != self.step["t"]:
            raise Divergence(t, "t")
        if state.get("format") != "weir-commit/1" or set(state) != {"batch", "arenas", "format", "position", "plan_hash"}:
            raise Divergence(t, "state")
        if state["batch"] != t:
            raise Divergence(t, "batch")
        if record["visibility_hash"] != sha256_of(state):
            raise Divergence(t, "visibility_hash")
        if record["state_hash"] != commit_hash(state["plan_hash"], t):
            raise Divergence(t, "state_hash")
        if record.get("contents") not in (None, self.step.get("batch_digest", record.get("contents"))):
            raise Divergence(t, "contents")
        before = self.states[-1] if self.states else None
        for field in ("plan_hash", "position"):
            if before and state[field] != before[field]:
                raise Divergence(t, field)
        if before and list(state["arenas"]) != list(before["arenas"]):
            raise Divergence(t, "arenas")
        for name, arena in state["arenas"].items():
            if before and arena["live"] != before["arenas"][name]["live"]:
                raise Divergence(t, f"arenas.{name}.live")
            if arena["epoch"] != (before["arenas"][name]["epoch"] if before else 0) + (arena["written"] > 0):
                raise Divergence(t, f"arenas.{name}.epoch")


class _Run:
    def __init__(self, header: Record, manifest: Manifest) -> None:
        self.header, self.manifest = header, manifest
        self.mixer = Mixer(manifest, header["replay_token"]) if header["schedule"] == "mix" else None
        self.in_any_order = header.get("policy") == "best_effort"
        self.taken: set[int] = set()
        self.first: int | None = None  # where the trace begins, once that is known
        self.last: Record | None = None  # the last step
        self.cursors: dict[str, Record] = {}
        self.samples = 0
        self.has_failed = False
        self.memory = _Memory()

    @property
    def next(self) -> int:
        """The next step; in best effort the first that was not taken."""
        next_step = 0 if self.in_any_order else self.first or 0
        while next_step in self.taken:
            next_step += 1
        return next_step

    def resume(self, record: Record) -> None:
        if self.first is None:
            self.first = record["step"]
        elif record["step"] != (self.first + len(self.taken) if self.in_any_order else self.next):
            raise Divergence(record["step"], "step")

    def take(self, t: int) -> None:
        if t in self.taken if self.in_any_order else t != self.next:
            raise Divergence(t, "t")
        self.first = self.first or 0
        self.taken.add(t)

    def place(self, t: int) -> tuple[str, Cursor] | None:
        """Where step t must lie; None where that is not known."""
        if self.mixer is not None:
            return self.mixer.locate(t)
        if self.last is None:
            return None
        key, batch_size = self.last["dataset_key"], self.manifest.global_batch_size
        if not self.in_any_order:
            return key, Cursor(**self.last["cursor_after"])
        if _stage_of(self.last) == "train":
            return key, Mixer(self.manifest).cursor_of_batch(key, t)
        return key, Cursor(0, t * batch_size)

    def check_place(self, record: Record) -> None:
        place = self.place(record["t"])
        if place is None:
            return
        key, cursor = place
        if record["dataset_key"] != key:
            raise Divergence(record["t"], "dataset_key")
        if record["cursor_before"] != _cursor_map(cursor):
            raise Divergence(record["t"], "cursor_before")

    def step(self, record: Record) -> None:
        self.take(record["t"])
        self.check_place(record)
        stage = "train" if self.mixer else _stage_of(self.last or record)
        if _stage_of(record) != stage:
            raise Divergence(record["t"], "is_shuffled" if "eval" in (stage, _stage_of(record)) else "sampling_mode")
        self.last = record
        self.cursors[record["dataset_key"]] = record["cursor_after"]
        self.samples += record["effective_batch_size"]

    def fail(self, record: Record) -> None:
        place = self.place(record["t"])
        self.take(record["t"])
        self.check_place(record)
        if record["replay_token"] != self.header["replay_token"]:
            raise Divergence(record["t"], "replay_token")
        if place is not None:
            key, cursor = place
            call = [key, cursor.epoch, cursor.global_index, self.header["world_size"], self.header["rank"]]
            if record["data_replay_t"] != sha256_of(["nextbatch_v2", self.header["replay_token"], *call]):
                raise Divergence(record["t"], "data_replay_t")
        self.has_failed = True

    def end(self, record: Record) -> str:
        status = "failed" if self.has_failed else "success"
        expected = {
            "final_cursors": self.cursors,
            "final_epoch": max((cursor["epoch"] for cursor in self.cursors.values()), default=0),
            "status": status,
            "total_samples_seen": self.samples,
        }
        for field in sorted(expected, key=lambda name: (len(name), name)):
            if record.get(field, "success") != expected[field]:
                raise Divergence(self.next, field)
        is_whole = self.next > max(self.taken, default=-1)
        if self.in_any_order and not self.has_failed and self.first == 0 and not is_whole:
            raise Divergence(self.next, "t")
        return status
