"""The trace: what a run read, step by step, in a file that cannot be cut or edited unnoticed.

Follows the section "Trace" of the specification. A trace is a sequence of CBOR maps: a `run_header`, then an
`iter` a step (and a `resume` where the run went on from a checkpoint), then a `run_end`. The kind of a record
is its member `type`; its member `h` is its link in a chain of hashes,

    h_0     = SHA-256(CBOR(["weir_trace_v1", header without h]))
    h_{i+1} = SHA-256(CBOR([h_i, record without h]))

so that a record's `h` vouches for everything before it. A run that crashed leaves a trace of whole records
that has no `run_end`; that is valid, and said. There is no time of day in a trace: two runs of the same
inputs write the same bytes.
"""

from dataclasses import dataclass
from typing import Any, NoReturn

from . import cbor
from .errors import WeirError
from .manifest import Manifest, sha256_of
from .sampler import STAGES, Batch, Cursor

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
) -> Record:
    """The first record. It holds the manifest itself, so that a trace explains itself. `schedule` is "mix"
    where step t is found by its number, "cursor" where each step begins where the one before ended."""
    return {
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
        "is_shuffled_per_stage": {stage: stage == "train" for stage in STAGES},
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
    record = {
        "type": "iter",
        "t": t,
        "dataset_key": dataset_key,
        "cursor_before": _cursor_map(cursor_before),
        "cursor_after": _cursor_map(batch.cursor_next),
        "valid_count": batch.valid_count,
        "micro_batch_size": manifest.global_batch_size // world_size,
        "global_batch_size": manifest.global_batch_size,
    }
    for name in METADATA_IN_AN_ITER_RECORD:
        record[name] = batch.metadata[name]
    if with_indices:
        record["indices"] = batch.indices
    return record


def resume_record(step: int, checkpoint_hash: bytes) -> Record:
    return {"type": "resume", "step": step, "checkpoint_hash": checkpoint_hash}


def run_end(final_cursors: dict[str, Cursor], total_samples_seen: int, trace_hash: bytes) -> Record:
    """The last record; `trace_hash` is the chain's value before it."""
    return {
        "type": "run_end",
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
        allowed_kinds = () if record["type"] == "run_end" else ("iter", "resume", "run_end")
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
        is_iter = record["type"] == "iter"
        if (is_iter and record["t"] >= step) or (not is_iter and record["step"] > step):
            break
        writer.append(_without_link(record))
    writer.append(resume_record(step, checkpoint_hash))
    return writer


def are_comparable(one: Trace, other: Trace) -> bool:
    """Whether two runs read the same data in the same way, so that a difference has a meaning."""
    return all(one.header.get(name) == other.header.get(name) for name in IDENTITY_FIELDS)
