"""The manifest: what a run reads, in which batches, from which seed; and the hashes that identify it.

Follows the section "Manifest" of the specification, and for the part `batch` the section "Configuration" of
the batch specification. `Manifest.read` takes the text of a JSON file and is strict: an unknown key, a wrong
type, a duplicate key, a float where an integer belongs or a number out of range is MANIFEST_INVALID and names
the place. A size of zero is not refused here; the sampler's checks have their own error for it. Two files
that mean the same, one of which spells a default out, are the same manifest and have the same hash.
"""

import hashlib
import re
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Callable, Collection, NoReturn

from . import cbor, strict_json, timestamps
from .errors import WeirError

LARGEST_UINT64 = 2**64 - 1
DEFAULT_BLOCK_SIZE = 1_048_576
LARGEST_SUM_OF_WEIGHTS = 65_536

EPOCH_BOUNDARIES = ("strict", "stream")
INTRA_BLOCK_MAPS = ("affine_v1", "feistel_v1")
BLOCK_ORDERS = ("fisher_yates_v1", "stateless_v1")
SAMPLING_MODES = ("class_balanced", "weighted")
PRESETS = {"train_shuffle": "strict", "streaming_infinite": "stream", "eval_sequential": "strict"}
CHILD_POLICIES = ("uniform", "recent", "latest")
LABEL_VISIBILITIES = ("train", "all", "none")
ROW_ORDERS = ("rcm", "best")
IDENTIFIERS = ("keep", "omit")
SPLITS = ("train", "val", "test")
OPTIONAL_TENSORS = ("example_ids", "hops", "ages")
DEFAULT_WIDTH = 16


MIX_KEY = "*"  # of the mix, where batches are mixed


def sha256_of(value: Any) -> bytes:
    """SHA-256 of a value's canonical encoding, the hash of everything in weir's contracts."""
    return hashlib.sha256(cbor.encode(value)).digest()


@dataclass(frozen=True)
class Dataset:
    id: str
    version: str
    hash: bytes
    cardinality: int


@dataclass(frozen=True)
class Sampling:
    """Drawing by class or by weight, from these datasets or (None) from all."""

    mode: str
    column: str | None = None
    datasets: tuple[str, ...] | None = None

    def normalised(self) -> dict[str, Any]:
        normalised: dict[str, Any] = {"mode": self.mode}
        if self.column is not None:
            normalised["column"] = self.column
        if self.datasets is not None:
            normalised["datasets"] = sorted(self.datasets, key=lambda key: key.encode("utf-8"))
        return normalised


@dataclass(frozen=True)
class Accountant:
    """What a privacy accountant takes for granted about the run."""

    subsampling_mode: str | None = None
    effective_q: float | None = None


@dataclass(frozen=True)
class DataConfig:
    sampler_block_size: int = DEFAULT_BLOCK_SIZE
    drop_last: bool = False
    epoch_boundary: str = "strict"
    intra_block: str = "affine_v1"
    rotate: bool = False
    block_order: str = "fisher_yates_v1"
    sampling: Sampling | None = None
    preset: str | None = None

    @property
    def is_stream(self) -> bool:
        return self.epoch_boundary == "stream"

    def normalised(self) -> dict[str, Any]:
        """All but two appear only where they are not the default; a preset never does."""
        normalised: dict[str, Any] = {
            "drop_last": self.drop_last,
            "sampler_block_size": self.sampler_block_size,
        }
        if self.epoch_boundary != "strict":
            normalised["epoch_boundary"] = self.epoch_boundary
        if self.intra_block != "affine_v1":
            normalised["intra_block"] = self.intra_block
        if self.rotate:
            normalised["rotate"] = True
        if self.block_order != "fisher_yates_v1":
            normalised["block_order"] = self.block_order
        if self.sampling is not None:
            normalised["sampling"] = self.sampling.normalised()
        return normalised

    @property
    def is_literally_v2(self) -> bool:
        """Whether training goes through the samples as NextBatch_v2 says."""
        plain = (self.intra_block, self.rotate, self.block_order, self.sampling)
        return plain == ("affine_v1", False, "fisher_yates_v1", None)


@dataclass(frozen=True)
class Retrieval:
    """How examples are found; each number is one of several, drawn for each sequence."""

    walks: tuple[int, ...] = (10_000,)
    length: tuple[int, ...] = (20,)
    local_cells: tuple[int, ...] = (256,)
    width: tuple[int, ...] = (32,)
    order: str = "visits"
    fill: bool = True
    has_width: bool = False  # it was given

    def normalised(self, with_width: bool = True) -> dict[str, Any]:
        numbers = {"walks": self.walks, "length": self.length, "local_cells": self.local_cells}
        numbers |= {"width": self.width} if with_width else {}
        written = {name: list(values) if len(values) > 1 else values[0] for name, values in numbers.items()}
        return {**written, "order": self.order, "fill": self.fill}


@dataclass(frozen=True)
class Links:
    """The negatives of a pair."""

    negatives: int = 4
    candidates: int = 20
    by: str = "uniform"

    def normalised(self) -> dict[str, Any]:
        return {"negatives": self.negatives, "candidates": self.candidates, "by": self.by}


@dataclass(frozen=True)
class Since:
    """From when on things are shown: a time, or how long before the observation time."""

    time: int | None = None
    duration: int | None = None

    def normalised(self) -> int | str | None:
        return self.time if self.duration is None else f"{self.duration}us"

    def floor(self, observation_time: int) -> int:
        """The earliest time that is shown, beside what was always there."""
        if self.duration is None:
            return -(2**63) if self.time is None else self.time
        return -(2**63) if observation_time == 2**63 - 1 else max(observation_time - self.duration, -(2**63) + 1)


@dataclass(frozen=True)
class BatchConfig:
    lengths: tuple[int, ...] = (1024,)  # of the steps, in turn; of all but train the largest
    max_hops: int = 4
    child_width: int | dict[str, tuple[int, ...]] = DEFAULT_WIDTH  # an object has *, always
    child_policy: str = "uniform"
    max_rows: int = 256
    pad_rows: bool = False
    label_visibility: str | tuple[str, ...] = "train"  # a tuple of two splits, else a word
    row_order: str = "rcm"
    identifiers: str = "keep"
    blank_rows: str = "keep"
    context_until: int | None = None
    strictly_before: bool = False
    labels: bool = False
    retrieval: Retrieval | None = None
    links: Links = Links()
    context_seed: int = 0
    tensors: tuple[str, ...] = ()  # of the optional ones, in their order
    mask_permille: int = 0
    since: Since = Since()
    mixed: bool = False

    @property
    def sequence_length(self) -> int:
        return max(self.lengths)

    @property
    def widths(self) -> dict[str, tuple[int, ...]] | None:
        return self.child_width if isinstance(self.child_width, dict) else None

    def normalised(self) -> dict[str, Any]:
        """What was added after the first manifests appears only if it is not the default."""
        normalised = asdict(self)
        del normalised["lengths"]
        normalised["sequence_length"] = list(self.lengths) if len(self.lengths) > 1 else self.lengths[0]
        for name, default in (
            ("row_order", "rcm"), ("identifiers", "keep"), ("blank_rows", "keep"), ("context_until", None), ("strictly_before", False),
            ("labels", False), ("retrieval", None), ("context_seed", 0), ("tensors", ()), ("mask_permille", 0), ("mixed", False),
            ("links", Links().normalised()),
        ):
            if normalised[name] == default:
                del normalised[name]
        if self.tensors:
            normalised["tensors"] = list(self.tensors)
        normalised["since"] = self.since.normalised()
        if normalised["since"] is None:
            del normalised["since"]
        if self.widths is not None:
            normalised["child_width"] = {
                name: list(values) if len(values) > 1 else values[0] for name, values in self.widths.items()
            }
        if isinstance(self.label_visibility, tuple):
            normalised["label_visibility"] = list(self.label_visibility)
        if self.retrieval is not None:
            normalised["retrieval"] = self.retrieval.normalised(with_width=self.widths is None)
        return normalised

    def shown_splits(self) -> tuple[str, ...]:
        """The splits whose labels are shown."""
        if isinstance(self.label_visibility, tuple):
            return self.label_visibility
        return {"train": ("train",), "all": SPLITS, "none": ()}[self.label_visibility]

    def cutoff(self, observation_time: int) -> int:
        """The latest time that a sequence shows."""
        return max(self.anchor_cutoff(observation_time - self.strictly_before), -(2**63) + 1)

    def anchor_cutoff(self, observation_time: int) -> int:
        """The same for the time of the anchor row itself."""
        return observation_time if self.context_until is None else min(observation_time, self.context_until)


@dataclass(frozen=True)
class Manifest:
    global_batch_size: int
    datasets: dict[str, Dataset]
    seed: int = 0
    data: DataConfig = field(default_factory=DataConfig)
    mix: dict[str, int] | None = None
    batch: BatchConfig = field(default_factory=BatchConfig)
    accountant: Accountant | None = None

    @property
    def stage(self) -> str:
        """The stage of a run that names none."""
        return "eval" if self.data.preset == "eval_sequential" else "train"

    @property
    def batch_sizes(self) -> list[int]:
        """The samples of a training step of each length, in turn."""
        longest = self.batch.sequence_length
        return [self.global_batch_size * longest // length for length in self.batch.lengths]

    def operator(self, stage: str) -> str:
        is_literal = self.data.is_literally_v2 and len(self.batch.lengths) == 1
        is_v2 = stage in ("eval", "infer") or (stage == "train" and is_literal)
        return "UML_OS.Data.NextBatch_v2" if is_v2 else "UML_OS.Data.NextBatch_v3"

    @cached_property
    def all_datasets(self) -> dict[str, Dataset]:
        """The datasets, and the mix as one if its batches are mixed."""
        if not self.batch.mixed:
            return self.datasets
        return {**self.datasets, MIX_KEY: Dataset(MIX_KEY, "", self.mix_hash, sum((self.mix or {}).values()))}

    def draws_by_population(self, dataset_key: str) -> bool:
        """Whether training draws from the dataset by class or weight."""
        sampling = self.data.sampling
        if dataset_key not in self.datasets:
            return False
        return sampling is not None and (sampling.datasets is None or dataset_key in sampling.datasets)

    @staticmethod
    def read(text: bytes | str) -> "Manifest":
        """The manifest that a JSON text describes, or MANIFEST_INVALID."""
        return _manifest(strict_json.read(text, "MANIFEST_INVALID"))

    def normalised(self) -> dict[str, Any]:
        """The part that decides which samples come in which order, without `mix` and `batch`."""
        return {
            "data": self.data.normalised(),
            "datasets": {key: asdict(dataset) for key, dataset in self.datasets.items()},
            "global_batch_size": self.global_batch_size,
            "seed": self.seed,
        }

    @cached_property
    def manifest_hash(self) -> bytes:
        return sha256_of(self.normalised())

    @cached_property
    def replay_token(self) -> bytes:
        """The token that every draw of randomness depends on, unless the caller brings another."""
        return hashlib.sha512(cbor.encode(["replay_token_v1", self.manifest_hash, self.seed])).digest()

    @property
    def mix_hash(self) -> bytes:
        return sha256_of(self.mix or {})

    @property
    def batch_config_hash(self) -> bytes:
        return sha256_of(self.batch.normalised())


# ---- Reading -----------------------------------------------------------------------------------------------


def _refuse(path: str, reason: str) -> NoReturn:
    raise WeirError("MANIFEST_INVALID", f"{path} {reason}", path=path)


def _manifest(value: Any) -> Manifest:
    members = _object(
        value,
        "$",
        required=("global_batch_size", "datasets"),
        optional=("seed", "data", "mix", "batch", "accountant"),
    )
    datasets = {
        key: _dataset(dataset, f"$.datasets.{key}")
        for key, dataset in _any_object(members["datasets"], "$.datasets").items()
    }
    manifest = Manifest(
        global_batch_size=_integer(members["global_batch_size"], "$.global_batch_size"),
        datasets=datasets,
        seed=_integer(members.get("seed", 0), "$.seed"),
        data=_data_config(members.get("data", {}), datasets),
        mix=_mix(members["mix"], datasets) if "mix" in members else None,
        batch=_batch_config(members.get("batch", {})),
        accountant=_accountant(members["accountant"]) if "accountant" in members else None,
    )
    if manifest.batch.mixed:
        _check_mixed(manifest)
    cells = manifest.global_batch_size * manifest.batch.sequence_length
    is_whole = all(cells % length == 0 for length in manifest.batch.lengths)
    if not is_whole or sum(manifest.batch_sizes) > LARGEST_UINT64:
        _refuse("$.batch.sequence_length", "leaves batches of a size that is not whole, or too large")
    return manifest


def _check_mixed(manifest: Manifest) -> None:
    path = "$.batch.mixed"
    if manifest.mix is None:
        _refuse(path, "needs a mix")
    if not manifest.data.is_stream:
        _refuse(path, "needs epoch_boundary stream")
    if manifest.accountant is not None:
        _refuse(path, "stands beside an accountant")
    if MIX_KEY in manifest.datasets:
        _refuse(path, "stands beside a dataset with the key of the mix")


def _dataset(value: Any, path: str) -> Dataset:
    members = _object(value, path, required=("id", "version", "hash", "cardinality"))
    return Dataset(
        id=_text(members["id"], f"{path}.id"),
        version=_text(members["version"], f"{path}.version"),
        hash=_hash(members["hash"], f"{path}.hash"),
        cardinality=_integer(members["cardinality"], f"{path}.cardinality"),
    )


def _data_config(value: Any, datasets: dict[str, Dataset]) -> DataConfig:
    readers = {
        "sampler_block_size": _integer,
        "drop_last": _boolean,
        "epoch_boundary": _one_of(EPOCH_BOUNDARIES),
        "intra_block": _one_of(INTRA_BLOCK_MAPS),
        "rotate": _boolean,
        "block_order": _one_of(BLOCK_ORDERS),
        "sampling": lambda member, path: _sampling(member, path, datasets),
        "preset": _one_of(tuple(PRESETS)),
    }
    members = _object(value, "$.data", optional=readers)
    read = {name: readers[name](member, f"$.data.{name}") for name, member in members.items()}
    if "preset" in read:
        boundary = PRESETS[read["preset"]]
        if read.setdefault("epoch_boundary", boundary) != boundary:
            _refuse("$.data.epoch_boundary", f"contradicts the preset, which is {boundary}")
    return DataConfig(**read)


def _sampling(value: Any, path: str, datasets: dict[str, Dataset]) -> Sampling:
    members = _object(value, path, required=("mode",), optional=("column", "datasets"))
    mode = _one_of(SAMPLING_MODES)(members["mode"], f"{path}.mode")
    if ("column" in members) != (mode == "weighted"):
        _refuse(f"{path}.column", "belongs to the mode weighted, which needs it")
    keys = None
    if "datasets" in members:
        keys = members["datasets"]
        if not isinstance(keys, list) or not keys or len({str(key) for key in keys}) != len(keys):
            _refuse(f"{path}.datasets", "must be a list of dataset keys, each once")
        if not all(isinstance(key, str) and key in datasets for key in keys):
            _refuse(f"{path}.datasets", "names something that is not one of the datasets")
        keys = tuple(keys)
    column = _text(members["column"], f"{path}.column") if mode == "weighted" else None
    return Sampling(mode, column, keys)


def _accountant(value: Any) -> Accountant:
    members = _object(value, "$.accountant", optional=("subsampling_mode", "effective_q"))
    if not members:
        _refuse("$.accountant", "is empty")
    q = members.get("effective_q")
    if "effective_q" in members and (isinstance(q, bool) or not isinstance(q, (int, float))):
        _refuse("$.accountant.effective_q", "must be a number")
    mode = members.get("subsampling_mode")
    if "subsampling_mode" in members:
        mode = _text(mode, "$.accountant.subsampling_mode")
    return Accountant(mode, None if q is None else float(q))


def _batch_config(value: Any) -> BatchConfig:
    readers = {
        "sequence_length": _choices(1, 65_536),
        "max_hops": _integer_between(0, 64),
        "child_width": _child_width,
        "child_policy": _one_of(CHILD_POLICIES),
        "max_rows": _integer_between(1, 65_535),
        "pad_rows": _boolean,
        "label_visibility": _label_visibility,
        "row_order": _one_of(ROW_ORDERS),
        "identifiers": _one_of(IDENTIFIERS),
        "blank_rows": _one_of(IDENTIFIERS),
        "context_until": _time,
        "strictly_before": _boolean,
        "labels": _boolean,
        "retrieval": _retrieval,
        "context_seed": _integer,
        "tensors": _tensors,
        "mask_permille": _integer_between(0, 1_000),
        "since": _since,
        "links": _links,
        "mixed": _boolean,
    }
    members = _object(value, "$.batch", optional=readers)
    read = {name: readers[name](member, f"$.batch.{name}") for name, member in members.items()}
    config = BatchConfig(lengths=read.pop("sequence_length", (1024,)), **read)
    if config.retrieval is not None and not config.labels:
        _refuse("$.batch.retrieval", "needs labels")
    if config.retrieval is not None and config.retrieval.has_width and config.widths is not None:
        _refuse("$.batch.retrieval.width", "stands beside a child_width by edge type")
    return config


def _retrieval(value: Any, path: str) -> Retrieval | None:
    if value is None:
        return None
    readers = {
        "walks": _choices(0, 1_000_000),
        "length": _choices(1, 1_000),
        "local_cells": _choices(1, 65_536),
        "width": _choices(0, 4_096),
        "order": _one_of(("visits", "latest")),
        "fill": _boolean,
    }
    members = _object(value, path, optional=readers)
    read = {name: readers[name](member, f"{path}.{name}") for name, member in members.items()}
    return Retrieval(**read, has_width="width" in members)


def _child_width(value: Any, path: str) -> int | dict[str, tuple[int, ...]]:
    if not isinstance(value, dict):
        return _integer_between(0, 4_096)(value, path)
    widths = {name: _choices(0, 4_096)(member, f"{path}.{name}") for name, member in value.items()}
    return {"*": (DEFAULT_WIDTH,), **widths}


def _tensors(value: Any, path: str) -> tuple[str, ...]:
    named = [name for name in OPTIONAL_TENSORS if isinstance(value, list) and name in value]
    if not isinstance(value, list) or len(named) != len(value):
        _refuse(path, "must be a list of optional tensors, each at most once")
    return tuple(named)


def _since(value: Any, path: str) -> Since:
    duration = timestamps.duration_from_text(value) if isinstance(value, str) else None
    return Since(duration=duration) if duration is not None else Since(time=_time(value, path))


def _links(value: Any, path: str) -> Links:
    readers = {
        "negatives": _integer_between(0, 1_024),
        "candidates": _integer_between(0, 1_024),
        "by": _one_of(("uniform", "popularity")),
    }
    members = _object(value, path, optional=readers)
    return Links(**{name: readers[name](member, f"{path}.{name}") for name, member in members.items()})


def _choices(lowest: int, highest: int) -> Callable[[Any, str], tuple[int, ...]]:
    def read(value: Any, path: str) -> tuple[int, ...]:
        values = value if isinstance(value, list) else [value]
        if not 1 <= len(values) <= 64:
            _refuse(path, "must be a number, or a list of 1 to 64 numbers")
        return tuple(_integer_between(lowest, highest)(item, path) for item in values)

    return read


def _label_visibility(value: Any, path: str) -> str | tuple[str, ...]:
    if not isinstance(value, list):
        return _one_of(LABEL_VISIBILITIES)(value, path)
    named = [split for split in SPLITS if split in value]
    if not named or len(named) != len(value):
        _refuse(path, "must be train, all, none, or a list of splits, each once")
    if len(named) == len(SPLITS):
        return "all"
    return "train" if named == ["train"] else tuple(named)


def _time(value: Any, path: str) -> int | None:
    """Microseconds since 1970, or a text that says the time."""
    if value is None:
        return None
    if isinstance(value, str) and re.fullmatch("0|[1-9][0-9]{0,19}", value):
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and -(2**63) < value < 2**63 - 1:
        return value
    time = timestamps.from_text(value) if isinstance(value, str) else None
    if time is not None:
        return time
    _refuse(path, "must be microseconds since 1970, a date, or a date and a time such as 2010-01-01T00:00:00Z")


def _mix(value: Any, datasets: dict[str, Dataset]) -> dict[str, int]:
    weights = {}
    for key, weight in _any_object(value, "$.mix").items():
        if key not in datasets:
            _refuse(f"$.mix.{key}", "is not one of the datasets")
        weights[key] = _integer_between(1, LARGEST_SUM_OF_WEIGHTS)(weight, f"$.mix.{key}")
    if not weights:
        _refuse("$.mix", "is empty; leave it out, or give a dataset a weight")
    if sum(weights.values()) > LARGEST_SUM_OF_WEIGHTS:
        _refuse("$.mix", f"has weights whose sum is above {LARGEST_SUM_OF_WEIGHTS}")
    return weights


def _any_object(value: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        _refuse(path, "must be an object")
    return value


def _object(
    value: Any, path: str, required: Collection[str] = (), optional: Collection[str] = ()
) -> dict[str, Any]:
    members = _any_object(value, path)
    for name in required:
        if name not in members:
            _refuse(f"{path}.{name}", "is missing")
    for name in members:
        if name not in required and name not in optional:
            _refuse(f"{path}.{name}", "is not a key that is known here")
    return members


def _integer(value: Any, path: str) -> int:
    """A uint64, given as a JSON integer or as a string of ASCII digits without leading zeros."""
    if isinstance(value, str) and re.fullmatch("0|[1-9][0-9]{0,19}", value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        _refuse(path, "must be an integer")
    if not 0 <= value <= LARGEST_UINT64:
        _refuse(path, f"must be an integer from 0 to {LARGEST_UINT64}")
    return value


def _integer_between(lowest: int, highest: int) -> Callable[[Any, str], int]:
    def read(value: Any, path: str) -> int:
        number = _integer(value, path)
        if not lowest <= number <= highest:
            _refuse(path, f"must be an integer from {lowest} to {highest}")
        return number

    return read


def _one_of(choices: tuple[str, ...]) -> Callable[[Any, str], str]:
    def read(value: Any, path: str) -> str:
        if value not in choices:
            _refuse(path, f"must be one of {', '.join(choices)}")
        return value

    return read


def _boolean(value: Any, path: str) -> bool:
    if not isinstance(value, bool):
        _refuse(path, "must be true or false")
    return value


def _text(value: Any, path: str) -> str:
    if not isinstance(value, str):
        _refuse(path, "must be a string")
    return value


def _hash(value: Any, path: str) -> bytes:
    if not re.fullmatch("[0-9a-fA-F]{64}", _text(value, path)):
        _refuse(path, "must be 64 hexadecimal digits")
    return bytes.fromhex(value)
