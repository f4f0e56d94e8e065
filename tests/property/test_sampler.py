"""The C program against the reference simulator, on random inputs.

Each case is made from its own seed, a text such as "next 17", which a failure names together with the
command. The program is the one that WEIR names, or build/weir; everything goes through its command line with
--json. The two must agree on what they print, on what they refuse, on the error, and for CBOR on the offset
of the fault. To look at one case alone, set WEIR_CASE to its seed; to try other cases, set WEIR_PROPERTY_SALT
to anything.
"""

import json
import math
import os
import random
import struct
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PROJECT_ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT_ROOT))

from reference import cbor, strict_json  # noqa: E402
from reference.errors import WeirError  # noqa: E402
from reference.manifest import Manifest  # noqa: E402
from reference.mix import Mixer  # noqa: E402
from reference.sampler import Cursor, Sampler, seeded_block_permute  # noqa: E402

PROGRAM = os.environ.get("WEIR", str(PROJECT_ROOT / "build" / "weir"))
CASES = int(os.environ.get("WEIR_PROPERTY_CASES", "400"))
SALT = os.environ.get("WEIR_PROPERTY_SALT", "")
ONLY_CASE = os.environ.get("WEIR_CASE")

LARGEST_UINT64 = 2**64 - 1
TIMEOUT_SECONDS = 60
Json = Any


# ---- The two sides -----------------------------------------------------------------------------------------


def what_the_program_says(arguments: list[str]) -> list[Json]:
    """The objects that a command prints; an error becomes {"error": [code_id, numeric_code, offset]}."""
    command = [PROGRAM, *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, timeout=TIMEOUT_SECONDS, check=False)
    if done.returncode not in (0, 1):
        raise AssertionError(f"exit status {done.returncode}: {done.stderr.decode('utf-8', 'replace')}")
    printed = [json.loads(line) for line in done.stdout.decode("utf-8").splitlines()]
    failed = bool(printed) and "error" in printed[-1]
    if failed != (done.returncode == 1):
        raise AssertionError(f"exit status {done.returncode}, but printed {printed[-1:]}")
    if failed:
        record = printed[-1]["error"]
        offset = record["diagnostics"].get("offset")
        printed[-1] = {"error": [record["code_id"], record["numeric_code"], offset]}
    return printed


def what_the_reference_says(objects: Callable[[], Iterator[Json]]) -> list[Json]:
    """The objects that the reference gives, in the same form."""
    said: list[Json] = []
    try:
        for item in objects():
            said.append(item)
    except WeirError as error:
        said.append({"error": [error.code_id, error.numeric_code, error.diagnostics.get("offset")]})
    return said


# ---- Random numbers and texts ------------------------------------------------------------------------------


def any_uint64(rng: random.Random) -> int:
    """Any magnitude, with a liking for the ends of the usual types."""
    edge = rng.choice([0, 2**8, 2**16, 2**31, 2**32, 2**53, 2**63, 2**64])
    near_an_edge = edge + rng.randint(-2, 2)
    return min(max(rng.choice([near_an_edge, rng.getrandbits(rng.randint(1, 64))]), 0), LARGEST_UINT64)


def any_text(rng: random.Random, longest: int = 12) -> str:
    alphabet = 'ab Z09/_.-"\\\t\u007f\u0080éß日語\uffff𝛼\U0010ffff'
    return "".join(rng.choice(alphabet) for _ in range(rng.randint(0, longest)))


def json_text(value: Json, rng: random.Random) -> str:
    """A value as JSON, with white space and escapes as they come."""
    space = rng.choice(["", "", " ", "\n", "\t \r\n"])
    if isinstance(value, dict):
        members = [f"{json_text(key, rng)}:{json_text(item, rng)}" for key, item in value.items()]
        return space + "{" + ",".join(members) + space + "}"
    if isinstance(value, list):
        return space + "[" + ",".join(json_text(item, rng) for item in value) + "]" + space
    return space + json.dumps(value, ensure_ascii=rng.random() < 0.5) + space


def mutated(data: bytes, rng: random.Random) -> bytes:
    """The same bytes with one to three accidents."""
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        start = rng.randint(0, len(data))
        end = min(len(data), start + rng.choice([0, 1, 1, 1, 2, 9]))
        source = rng.randint(0, len(data))
        a_few_bytes, a_copy = rng.randbytes(rng.randint(1, 3)), data[source : source + 4]
        put_in = rng.choice([b"", b"", rng.randbytes(1), a_few_bytes, a_copy])
        data = data[:start] + put_in + data[end:]
    return data


# ---- Random manifests --------------------------------------------------------------------------------------


def any_cardinality(rng: random.Random) -> int:
    tiny, small = rng.randint(1, 20), rng.randint(1, 5000)
    large, huge = rng.randint(10**5, 10**12), 2**63 + rng.randint(-3, 3)
    return rng.choice([tiny, tiny, small, small, large, large, huge, LARGEST_UINT64 - rng.randint(0, 20)])


def any_block_size(n: int, rng: random.Random) -> int:
    """Such that there are not too many blocks to shuffle in Python."""
    smallest = n // 20_000 + 1
    block_size = rng.choice([smallest, smallest + rng.randint(0, n), n, n + rng.randint(1, 99)])
    return min(block_size, LARGEST_UINT64)


def any_hash(rng: random.Random) -> str:
    digits = rng.randbytes(32).hex()
    return digits.upper() if rng.random() < 0.1 else digits


def any_manifest(rng: random.Random, world_size: int = 1) -> dict[str, Json]:
    """A valid manifest, whose batch size fits the world size, as the members of its JSON object."""
    names = ["a", "b", "aa", "é", "shop/churn/train", any_text(rng).lstrip("-")]
    keys = rng.sample(names, rng.choice([1, 1, 2, 3]))
    cardinalities = [any_cardinality(rng) for _ in keys]
    manifest: dict[str, Json] = {
        "global_batch_size": world_size * rng.choice([1, 2, 3, rng.randint(1, 100)]),
        "datasets": {
            key: {"id": any_text(rng), "version": any_text(rng), "hash": any_hash(rng), "cardinality": n}
            for key, n in zip(keys, cardinalities)
        },
        "data": any_data_config(max(cardinalities), rng),
    }
    if rng.random() < 0.7:
        manifest["seed"] = any_uint64(rng)
    if len(keys) > 1 and rng.random() < 0.9 or rng.random() < 0.3:
        mixed = rng.sample(keys, rng.randint(1, len(keys)))
        manifest["mix"] = {key: rng.choice([1, 2, 3, rng.randint(1, 300)]) for key in mixed}
    if rng.random() < 0.3:
        manifest["batch"] = any_batch_config(rng)
    if rng.random() < 0.1 and manifest["datasets"]:
        manifest.setdefault("data", {})["sampling"] = any_sampling(list(manifest["datasets"]), rng)
    if rng.random() < 0.1 and manifest["datasets"]:
        manifest["accountant"] = any_accountant(manifest, rng)
    return manifest


def any_data_config(n: int, rng: random.Random) -> dict[str, Json]:
    """Parts of it are left out, except the block size, which keeps the number of blocks small."""
    config: dict[str, Json] = {"sampler_block_size": any_block_size(n, rng)}
    choices = {
        "drop_last": [True, False],
        "epoch_boundary": ["strict", "stream"],
        "intra_block": ["affine_v1", "feistel_v1"],
        "rotate": [True, False],
        "block_order": ["fisher_yates_v1", "stateless_v1"],
    }
    for name in choices:
        if rng.random() < 0.8:
            config[name] = rng.choice(choices[name])
    if rng.random() < 0.1:
        config["preset"] = rng.choice(["train_shuffle", "streaming_infinite", "eval_sequential"])
        if rng.random() < 0.7:
            config.pop("epoch_boundary", None)
    return config


def any_sampling(keys: list[str], rng: random.Random) -> dict[str, Json]:
    """Without a store nothing can be drawn under it: both sides refuse, or the dataset is not listed."""
    sampling: dict[str, Json] = rng.choice([{"mode": "class_balanced"}, {"mode": "weighted", "column": any_text(rng)}])
    if rng.random() < 0.6:
        sampling["datasets"] = rng.sample(keys, rng.randint(1, len(keys)))
    return sampling


def any_accountant(manifest: dict[str, Json], rng: random.Random) -> dict[str, Json]:
    """Often what one of the samplers does."""
    n = rng.choice([dataset["cardinality"] for dataset in manifest["datasets"].values()])
    modes = ["SHUFFLE_WITHOUT_REPLACEMENT", "SHUFFLE_STREAMING", "WEIGHTED", any_text(rng)]
    q = rng.choice([float(manifest["global_batch_size"]) / float(n or 1), rng.random(), 0, 1])
    everything = {"subsampling_mode": rng.choice(modes), "effective_q": q}
    return {name: everything[name] for name in everything if rng.random() < 0.7}


def any_retrieval(rng: random.Random) -> dict[str, Json]:
    everything = {
        "walks": rng.choice([0, 1_000_000, [5], [1, 2, 3], list(range(64))]),
        "length": rng.choice([1, 1000, [20, 1]]),
        "local_cells": rng.choice([1, 65536, [256]]),
        "width": rng.choice([0, 4096, [0, 0]]),
        "order": rng.choice(["visits", "latest"]),
        "fill": rng.choice([True, False]),
    }
    return {name: everything[name] for name in everything if rng.random() < 0.6}


def any_widths(rng: random.Random) -> dict[str, Json]:
    names = rng.sample(["", "!", "*", "a", "orders.customer", "a.b", "café"], rng.randint(0, 4))
    return {name: rng.choice([0, 4096, [7], [128, 8], list(range(64))]) for name in names}


def any_length(rng: random.Random) -> Json:
    """A number, or several: mostly such that every batch size is whole."""
    longest = rng.choice([1, 12, 60, 1024, 65536])
    divisors = [n for n in range(1, 65) if longest % n == 0]
    several = [longest // rng.choice(divisors) for _ in range(rng.choice([1, 2, 3, 7, 64]))]
    return rng.choice([rng.randint(1, 65536), several, several, [rng.randint(1, 20), 12]])


def any_batch_config(rng: random.Random) -> dict[str, Json]:
    everything = {
        "sequence_length": any_length(rng),
        "max_hops": rng.randint(0, 64),
        "child_width": rng.choice([rng.randint(0, 4096), any_widths(rng)]),
        "child_policy": rng.choice(["uniform", "recent", "latest"]),
        "max_rows": rng.randint(1, 65535),
        "pad_rows": rng.choice([True, False]),
        "label_visibility": rng.choice(["train", "all", "none", rng.sample(["train", "val", "test"], rng.randint(1, 3))]),
        "row_order": rng.choice(["rcm", "best"]),
        "identifiers": rng.choice(["keep", "omit"]),
        "blank_rows": rng.choice(["keep", "omit"]),
        "context_until": rng.choice([None, 0, -1, 2**63 - 2, 1 - 2**63, "2000-02-29", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"]),
        "strictly_before": rng.choice([True, False]),
        "labels": rng.choice([True, True, False]),
        "context_seed": rng.choice([0, 1, 2**64 - 1]),
        "retrieval": rng.choice([None, any_retrieval(rng)]),
        "tensors": rng.sample(["hops", "ages", "example_ids"], rng.randint(0, 3)),
        "mask_permille": rng.choice([0, 1, 1000]),
        "since": rng.choice([None, 0, -1, 2**63 - 2, "2000-02-29", "0us", "30d", "0007h", "9223372036854775806us"]),
    }
    return {name: everything[name] for name in everything if rng.random() < 0.5}


def manifest_text(manifest: dict[str, Json], rng: random.Random) -> bytes:
    return json_text(in_any_order(as_written(manifest, rng), rng), rng).encode("utf-8")


def as_written(value: Json, rng: random.Random) -> Json:
    """Integers beyond int64 have to be written as strings of digits; the others may be."""
    if isinstance(value, dict):
        return {key: as_written(item, rng) for key, item in value.items()}
    if isinstance(value, int) and not isinstance(value, bool) and (value >= 2**63 or rng.random() < 0.1):
        return str(value)
    return value


def in_any_order(value: Json, rng: random.Random) -> Json:
    if not isinstance(value, dict):
        return value
    keys = rng.sample(list(value), len(value))
    return {key: in_any_order(value[key], rng) for key in keys}


ODD_NUMBERS = [0, 1, -1, 64, 65, 4096, 65536, 65537, 1.0, 1.5, 1e3, 2**63 - 1]
ODD_TEXTS = ["", "0", "7", "07", "+7", " 7", "7.0", "18446744073709551615", "18446744073709551616", "strict"]
ODD_TEXTS += ["stream", "train", "x", "00" * 32, "0" * 63 + "g", "5d", "d", "9223372036854775807us", "99999999999999999999w"]
ODD_VALUES = [None, True, False, *ODD_NUMBERS, *ODD_TEXTS, [], {}, [1], {"a": 1}]


def with_an_odd_member(manifest: dict[str, Json], rng: random.Random) -> dict[str, Json]:
    """A manifest in which one member, somewhere, is replaced, renamed, removed or added."""
    manifest = json.loads(json.dumps(manifest))
    place = manifest
    while rng.random() < 0.7 and any(isinstance(item, dict) and item for item in place.values()):
        place = rng.choice([item for item in place.values() if isinstance(item, dict) and item])
    key = rng.choice(list(place))
    accident = rng.choice(["replace", "replace", "replace", "rename", "remove", "add"])
    if accident == "replace":
        place[key] = rng.choice(ODD_VALUES)
    elif accident == "add":
        name = rng.choice(["seed", "mix", "batch", "data", "rotate", "id", "x", any_text(rng)])
        place[name] = rng.choice(ODD_VALUES)
    else:
        member = place.pop(key)
        if accident == "rename":
            place[key[:-1] + rng.choice(["", "x", "_", "é"])] = member
    return manifest


# ---- Random CBOR values ------------------------------------------------------------------------------------


def any_value(rng: random.Random, depth: int = 0, for_json: bool = False) -> Any:
    """A value of the CBOR profile, or one that JSON can express too."""
    kinds = ["int", "float", "text", "constant"] + ([] if for_json else ["bytes", "odd float"])
    if depth < 4:
        kinds += ["array", "map", "array", "map"]
    if depth == 0 and rng.random() < 0.03:
        return deep_value(rng, for_json)
    make = {
        "int": lambda: rng.choice([1, -1]) * any_uint64(rng),
        "float": lambda: rng.choice([0.0, -0.0, 1.0, 5e-324, rng.gauss(0, 9), 10 ** rng.uniform(-300, 300)]),
        "odd float": lambda: rng.choice([math.nan, math.inf, -math.inf]),
        "text": lambda: any_text(rng, rng.choice([3, 30, 300])),
        "bytes": lambda: rng.randbytes(rng.choice([0, 1, 23, 24, 255, 256])),
        "constant": lambda: rng.choice([True, False, None]),
        "array": lambda: [any_value(rng, depth + 1, for_json) for _ in range(rng.choice([0, 1, 2, 3, 25]))],
        "map": lambda: {any_text(rng): any_value(rng, depth + 1, for_json) for _ in range(rng.randint(0, 5))},
    }
    value = make[rng.choice(kinds)]()
    if for_json and isinstance(value, int) and not -(2**63) <= value < 2**63:
        return str(value)
    return value


def deep_value(rng: random.Random, for_json: bool) -> Any:
    """As deep as the profile allows, give or take one."""
    value = any_value(rng, 4, for_json)
    for _ in range(rng.randint(63, 65)):
        value = [value] if rng.random() < 0.5 else {"k": value}
    return value


def as_printed(value: Any) -> Json:
    """How the program shows a CBOR value as JSON."""
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": struct.pack(">d", value).hex()}
    if isinstance(value, list):
        return [as_printed(item) for item in value]
    if isinstance(value, dict):
        return {key: as_printed(item) for key, item in value.items()}
    return value


# ---- The comparisons ---------------------------------------------------------------------------------------


class ProgramAgainstReference(unittest.TestCase):
    maxDiff = 3000

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = Path(folder.name) / "input.json"

    def for_each_case(self, area: str, check: Callable[[random.Random], None]) -> None:
        for number in range(CASES):
            seed = f"{area} {number}{SALT}"
            if ONLY_CASE in (None, seed):
                with self.subTest(seed=seed):
                    check(random.Random(seed))

    def assert_agree(self, arguments: list[str], objects: Callable[[], Iterator[Json]]) -> None:
        expected, said = what_the_reference_says(objects), what_the_program_says(arguments)
        command_and_input = f"\nweir {' '.join(arguments)}\n{self.input_text()}"
        self.assertEqual(strictly(said), strictly(expected), command_and_input)

    def input_text(self) -> str:
        return self.file.read_bytes().decode("utf-8", "replace")[:2000] if self.file.exists() else ""

    # -- weir next --

    def test_next(self) -> None:
        self.for_each_case("next", self.check_next)

    def check_next(self, rng: random.Random) -> None:
        world_size = rng.choice([1, 1, 2, 3, 8, rng.randint(1, 64)])
        manifest = any_manifest(rng, world_size)
        key = rng.choice(list(manifest["datasets"]))
        n = manifest["datasets"][key]["cardinality"]
        call = {
            "dataset": key,
            "stage": rng.choice(["train", "train", "train", "eval", "infer", "eval_seeded"]),
            "epoch": rng.choice([0, 1, rng.randint(0, 99), any_uint64(rng)]),
            "position": any_position(n, manifest["global_batch_size"], rng),
            "world-size": world_size,
            "rank": rng.randrange(world_size),
        }
        if rng.random() < 0.8:
            begin_at_a_batch(manifest, call, rng)
        accident = rng.choice([None] * 6 + [break_some_rules, make_batch_giant])
        if accident:
            accident(manifest, call, rng)
        token = rng.choice([None, None, rng.randbytes(64), rng.randbytes(rng.randint(1, 99))])
        self.file.write_bytes(manifest_text(manifest, rng))
        count = rng.randint(1, 6)
        arguments = ["next", "--manifest", str(self.file), "--count", str(count)]
        arguments += options(call) + token_option(token)
        self.assert_agree(arguments, lambda: self.steps(call, token, count))

    def steps(self, call: dict[str, Any], token: bytes | None, count: int) -> Iterator[Json]:
        sampler = Sampler(Manifest.read(self.file.read_bytes()), token)
        cursor = Cursor(call["epoch"], call["position"])
        for _ in range(count):
            world_size, rank = call["world-size"], call["rank"]
            batch = sampler.next_batch(call["dataset"], world_size, rank, call["stage"], cursor)
            yield batch.as_json_value()
            cursor = batch.cursor_next

    # -- weir locate --

    def test_locate(self) -> None:
        self.for_each_case("locate", self.check_locate)

    def check_locate(self, rng: random.Random) -> None:
        manifest = any_manifest(rng)
        if rng.random() < 0.15:
            break_some_rules(manifest, {"dataset": next(iter(manifest["datasets"]))}, rng)
        token = rng.choice([None, rng.randbytes(rng.randint(1, 99))])
        step = rng.choice([rng.randint(0, 999), any_uint64(rng)])
        self.file.write_bytes(manifest_text(manifest, rng))
        arguments = ["locate", "--manifest", str(self.file), "--step", str(step), *token_option(token)]
        self.assert_agree(arguments, lambda: self.location(step, token))

    def location(self, step: int, token: bytes | None) -> Iterator[Json]:
        key, cursor = Mixer(Manifest.read(self.file.read_bytes()), token).locate(step)
        yield {"dataset": key, "cursor": {"epoch": cursor.epoch, "global_index": cursor.global_index}}

    # -- weir manifest --

    def test_manifest(self) -> None:
        self.for_each_case("manifest", self.check_manifest)

    def check_manifest(self, rng: random.Random) -> None:
        manifest = any_manifest(rng)
        fate = rng.choice(["valid", "odd member", "odd member", "mutated text"])
        if fate == "odd member":
            manifest = with_an_odd_member(manifest, rng)
        text = manifest_text(manifest, rng)
        self.file.write_bytes(mutated(text, rng) if fate == "mutated text" else text)
        self.assert_agree(["manifest", str(self.file)], self.identities)

    def identities(self) -> Iterator[Json]:
        manifest = Manifest.read(self.file.read_bytes())
        yield {
            "manifest_hash": manifest.manifest_hash.hex(),
            "replay_token": manifest.replay_token.hex(),
            "mix_hash": manifest.mix_hash.hex(),
            "batch_config_hash": manifest.batch_config_hash.hex(),
            "normalised": cbor.encode(manifest.normalised()).hex(),
        }

    # -- weir permute --

    def test_permute(self) -> None:
        self.for_each_case("permute", self.check_permute)

    def check_permute(self, rng: random.Random) -> None:
        seed = rng.choice([rng.randbytes(16), bytes(16), b"\xff" * 16])
        num_blocks = rng.choice([rng.randint(0, 5), rng.randint(0, 1000)])
        arguments = ["permute", "--seed", seed.hex(), "--blocks", str(num_blocks)]
        self.assert_agree(arguments, lambda: self.block_order(num_blocks, seed))

    def block_order(self, num_blocks: int, seed: bytes) -> Iterator[Json]:
        yield {"block_order": seeded_block_permute(num_blocks, seed)}

    # -- weir cbor --

    def test_cbor_encode(self) -> None:
        self.for_each_case("cbor encode", self.check_cbor_encode)

    def check_cbor_encode(self, rng: random.Random) -> None:
        text = json_text(any_value(rng, for_json=True), rng).encode("utf-8")
        self.file.write_bytes(mutated(text, rng) if rng.random() < 0.5 else text)
        self.assert_agree(["cbor", "encode", str(self.file)], self.encoded)

    def encoded(self) -> Iterator[Json]:
        yield {"cbor": cbor.encode(strict_json.read(self.file.read_bytes(), "CBOR_INVALID")).hex()}

    def test_cbor_decode(self) -> None:
        self.for_each_case("cbor decode", self.check_cbor_decode)

    def check_cbor_decode(self, rng: random.Random) -> None:
        data = encoded_without_a_limit(any_value(rng))
        if rng.random() < 0.7:
            data = mutated(data, rng)
        self.assert_agree(["cbor", "decode", data.hex()], lambda: self.decoded(data))

    def decoded(self, data: bytes) -> Iterator[Json]:
        yield {"value": as_printed(cbor.decode(data))}


def strictly(value: Json) -> str:
    """A form in which 1, 1.0 and True differ, and 0.0 and -0.0."""
    return json.dumps(value, sort_keys=True)


def options(call: dict[str, Any]) -> list[str]:
    return [text for name, value in call.items() for text in (f"--{name}", str(value))]


def token_option(token: bytes | None) -> list[str]:
    return [] if token is None else ["--token", token.hex()]


def any_position(n: int, batch_size: int, rng: random.Random) -> int:
    on_a_batch = rng.randrange(n) // batch_size * batch_size
    near_the_end = max(0, n - rng.randint(1, 3 * batch_size))
    return rng.choice([0, on_a_batch, near_the_end, rng.randrange(n), n - 1])


def begin_at_a_batch(manifest: dict[str, Json], call: dict[str, Any], rng: random.Random) -> None:
    """If steps have several lengths, a cursor at which one begins: one of the last of its epoch, or any."""
    if not isinstance(manifest.get("batch", {}).get("sequence_length"), list):
        return
    try:
        mixer = Mixer(Manifest.read(json.dumps(as_written(manifest, rng))))
        batches = mixer._batches_in_an_epoch(manifest["datasets"][call["dataset"]]["cardinality"])
        number = rng.choice([rng.randrange(batches), max(0, batches - rng.randint(1, 4)), any_uint64(rng)])
        cursor = mixer.cursor_of_batch(call["dataset"], number)
    except WeirError:
        return
    call["epoch"], call["position"] = cursor.epoch, cursor.global_index


def break_some_rules(manifest: dict[str, Json], call: dict[str, Any], rng: random.Random) -> None:
    """Changes one to three of the things that the sampler checks, mostly so that a check fails."""
    dataset = manifest["datasets"][call["dataset"]]
    batch_size = manifest["global_batch_size"]
    changes: list[tuple[dict[str, Any], str, list[Any]]] = [
        (call, "stage", ["", "test", "TRAIN", "évaluation"]),
        (call, "dataset", ["", "nobody", call["dataset"] + " "]),
        (dataset, "cardinality", [0, 0, 1, 2, batch_size - 1, batch_size]),
        (manifest, "global_batch_size", [0, 1, batch_size + 1, 2 * batch_size]),
        (call, "world-size", [0, 1, 7, 1000]),
        (call, "rank", [call.get("rank", 0) + 1, 64, 2**32 - 1]),
        (manifest["data"], "sampler_block_size", [0]),
        (call, "position", [dataset["cardinality"], any_uint64(rng)]),
        (call, "epoch", [LARGEST_UINT64, LARGEST_UINT64 - 1, LARGEST_UINT64 - 2]),
    ]
    for holder, name, choices in rng.sample(changes, rng.randint(1, 3)):
        holder[name] = rng.choice(choices)


def make_batch_giant(manifest: dict[str, Json], call: dict[str, Any], rng: random.Random) -> None:
    """A batch of almost 2^64 positions: either training stops at the end of a small dataset, or the position
    overflows."""
    world_size, dataset = call["world-size"], manifest["datasets"][call["dataset"]]
    manifest["global_batch_size"] = LARGEST_UINT64 // world_size * world_size
    if rng.random() < 0.5:
        call["stage"], manifest["data"]["epoch_boundary"] = "train", "strict"
        dataset["cardinality"] = rng.randint(1, 500)
        call["position"] = rng.randrange(dataset["cardinality"])
    else:
        call["stage"] = rng.choice(["eval", "infer", "eval_seeded"])
        dataset["cardinality"] = rng.randint(500, LARGEST_UINT64)
        call["position"] = rng.randint(world_size, 499)


def encoded_without_a_limit(value: Any) -> bytes:
    """The encoding that the value would have if it could be one level deeper than the encoder writes it."""
    try:
        return cbor.encode(value)
    except WeirError:
        return b"\x81" + cbor.encode(value[0] if isinstance(value, list) else value["k"])


if __name__ == "__main__":
    unittest.main()
