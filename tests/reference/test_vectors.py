"""The reference simulator against the golden vectors.

Reads the vector files from the folder that WEIR_VECTORS names, or from tests/golden/vectors, and checks every
case in them. Integers beyond int64 stand in those files as decimal strings, so numbers go through `number`
and whole expected objects through `with_large_integers`.
"""

import array
import functools
import gc
import hashlib
import json
import os
import re
import struct
import sys
import unittest
from pathlib import Path
from typing import Any

PROJECT_ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT_ROOT))

from reference import blake3, cbor, philox, strict_json  # noqa: E402
from reference.errors import WeirError  # noqa: E402
from reference.manifest import Manifest  # noqa: E402
from reference.mix import Mixer  # noqa: E402
from reference.sampler import Cursor, EpochOrder, Sampler  # noqa: E402
from reference.sampler import index_inside_block, seeded_block_permute  # noqa: E402

VECTORS = Path(os.environ.get("WEIR_VECTORS", PROJECT_ROOT / "tests" / "golden" / "vectors"))


def vectors(name: str) -> dict[str, Any]:
    return json.loads((VECTORS / f"{name}.json").read_text("utf-8"))


def number(value: int | str) -> int:
    return int(value)


def with_large_integers(value: Any) -> Any:
    """A vector's value with the integers that had to be written as strings turned back into integers."""
    if isinstance(value, str) and re.fullmatch("[1-9][0-9]{18,19}", value) and int(value) >= 2**63:
        return int(value)
    if isinstance(value, list):
        return [with_large_integers(item) for item in value]
    if isinstance(value, dict):
        return {key: with_large_integers(item) for key, item in value.items()}
    return value


def token_of(case: dict[str, Any]) -> bytes | None:
    return None if case.get("token") is None else bytes.fromhex(case["token"])


def manifest_of(case: dict[str, Any]) -> Manifest:
    return Manifest.read(json.dumps(case["manifest"]))


def cbor_of_json(text: str) -> bytes:
    return cbor.encode(strict_json.read(text, "CBOR_INVALID"))


def locate(case: dict[str, Any]) -> tuple[str, Cursor]:
    return Mixer(manifest_of(case), token_of(case)).locate(number(case["step"]))


def steps_of(case: dict[str, Any], into: list[Any]) -> None:
    """Runs the steps of a case, each from the cursor of the one before; what they print goes to `into`."""
    sampler = Sampler(manifest_of(case), token_of(case))
    cursor = Cursor(number(case["epoch"]), number(case["position"]))
    for _ in range(case["count"]):
        batch = sampler.next_batch(case["dataset"], case["world_size"], case["rank"], case["stage"], cursor)
        into.append(batch.as_json_value())
        cursor = batch.cursor_next


def sha256_of_indices(indices: array.array) -> str:
    if sys.byteorder == "big":
        indices = array.array("Q", indices)
        indices.byteswap()
    return hashlib.sha256(indices.tobytes()).hexdigest()


class VectorTest(unittest.TestCase):
    maxDiff = 4000

    def assert_fails(self, expected: dict[str, Any], call: Any, *arguments: Any) -> WeirError:
        with self.assertRaises(WeirError) as caught:
            call(*arguments)
        self.assertEqual(caught.exception.code_id, expected["code_id"])
        if "numeric_code" in expected:
            self.assertEqual(caught.exception.numeric_code, expected["numeric_code"])
        return caught.exception


class PhiloxVectors(VectorTest):
    def test_cipher(self) -> None:
        for case in vectors("philox")["philox4x32"]:
            words = {name: tuple(int(word, 16) for word in case[name]) for name in ("ctr", "key", "out")}
            with self.subTest(case=case):
                self.assertEqual(philox.philox4x32(words["ctr"], words["key"]), words["out"])

    def test_draws(self) -> None:
        for case in vectors("philox")["P"]:
            with self.subTest(case=case):
                seed, domain = bytes.fromhex(case["seed"]), number(case["domain"])
                drawn = philox.draw_pair(seed, domain, number(case["n"]))
                self.assertEqual(drawn, (number(case["k0"]), number(case["k1"])))

    def test_bounded_draws(self) -> None:
        for case in vectors("philox")["bounded"]:
            with self.subTest(case=case):
                seed, limit = bytes.fromhex(case["seed"]), number(case["range"])
                drawn = philox.bounded(seed, number(case["domain"]), number(case["n"]), limit)
                self.assertEqual(drawn, number(case["result"]))


class CborVectors(VectorTest):
    def value_of_tree(self, tree: list[Any]) -> Any:
        kind, *content = tree
        if kind in ("true", "false", "null"):
            return {"true": True, "false": False, "null": None}[kind]
        read_content = {
            "int": int,
            "bytes": bytes.fromhex,
            "text": str,
            "text_hex": lambda digits: bytes.fromhex(digits).decode("utf-8"),
            "float": lambda digits: struct.unpack(">d", bytes.fromhex(digits))[0],
            "array": lambda items: [self.value_of_tree(item) for item in items],
            "map": lambda pairs: {self.key_of_tree(key): self.value_of_tree(item) for key, item in pairs},
        }
        return read_content[kind](content[0])

    def key_of_tree(self, key: Any) -> str:
        return key if isinstance(key, str) else self.value_of_tree(key)

    def assert_same_value(self, one: Any, other: Any) -> None:
        """Equality that tells 1 from 1.0 and True, and 0.0 from -0.0, and finds NaN equal to itself."""
        self.assertIs(type(one), type(other))
        if isinstance(one, float):
            self.assertEqual(struct.pack(">d", one), struct.pack(">d", other))
        elif isinstance(one, list):
            self.assertEqual(len(one), len(other))
            for item, other_item in zip(one, other):
                self.assert_same_value(item, other_item)
        elif isinstance(one, dict):
            self.assertEqual(set(one), set(other))
            for key in one:
                self.assert_same_value(one[key], other[key])
        else:
            self.assertEqual(one, other)

    def test_encoding_and_decoding_undo_each_other(self) -> None:
        for case in vectors("canonical_cbor")["encode"]:
            with self.subTest(name=case["name"], hex=case["hex"][:80]):
                value, encoded = self.value_of_tree(case["value"]), bytes.fromhex(case["hex"])
                self.assertEqual(cbor.encode(value).hex(), case["hex"])
                self.assert_same_value(cbor.decode(encoded), value)
                self.assertEqual(cbor.encode(cbor.decode(encoded)), encoded)

    def test_json_encodes_to_the_same_bytes(self) -> None:
        for case in vectors("canonical_cbor")["encode"]:
            if "json" in case:
                with self.subTest(json=case["json"][:80]):
                    self.assertEqual(cbor_of_json(case["json"]).hex(), case["hex"])

    def test_everything_else_is_refused_at_its_offset(self) -> None:
        for case in vectors("canonical_cbor")["reject"]:
            with self.subTest(why=case["why"], hex=case["hex"][:80]):
                data = bytes.fromhex(case["hex"])
                error = self.assert_fails({"code_id": "CBOR_INVALID"}, cbor.decode, data)
                self.assertEqual(error.diagnostics["offset"], case["offset"])

    def test_bad_json_is_refused(self) -> None:
        for case in vectors("canonical_cbor")["json_reject"]:
            with self.subTest(why=case["why"]):
                self.assert_fails({"code_id": "CBOR_INVALID"}, cbor_of_json, case["json"])


class Blake3Vectors(VectorTest):
    def test_three_modes_and_extended_output(self) -> None:
        about = vectors("blake3")
        key, context = about["key"].encode("ascii"), about["context_string"]
        for case in about["cases"]:
            data = bytes(i % 251 for i in range(case["input_len"]))
            modes = {
                "hash": functools.partial(blake3.plain_hash, data),
                "keyed_hash": functools.partial(blake3.keyed_hash, key, data),
                "derive_key": functools.partial(blake3.derive_key, context, data),
            }
            for name in modes.keys() & case.keys():
                with self.subTest(mode=name, size=case["input_len"]):
                    self.assertEqual(modes[name](len(case[name]) // 2).hex(), case[name])
                    self.assertEqual(modes[name]().hex(), case[name][:64])


class PermutationVectors(VectorTest):
    def test_block_orders(self) -> None:
        for case in vectors("block_permute")["cases"]:
            with self.subTest(seed=case["seed"], blocks=case["blocks"]):
                order = seeded_block_permute(case["blocks"], bytes.fromhex(case["seed"]))
                if "block_order" in case:
                    self.assertEqual(order, case["block_order"])
                else:
                    self.assertEqual((order[:16], order[-16:]), (case["first"], case["last"]))
                    self.assertEqual(sha256_of_indices(array.array("Q", order)), case["sha256_le64"])

    def test_impossible_block_orders(self) -> None:
        for case in vectors("block_permute")["errors"]:
            with self.subTest(case=case):
                self.assert_fails(case, seeded_block_permute, case["blocks"], bytes.fromhex(case["seed"]))

    def index_of(self, case: dict[str, Any], local_position: int) -> int:
        block_id, block_size, n = (number(case[name]) for name in ("block_id", "block_size", "n"))
        return index_inside_block(
            case["kind"], block_id, local_position, block_size, bytes.fromhex(case["seed"]), n
        )

    def test_whole_blocks(self) -> None:
        for case in vectors("intra_block")["blocks"]:
            with self.subTest(case=str(case)[:200]):
                expected = [number(index) for index in case["indices"]]
                self.assertEqual([self.index_of(case, place) for place in range(len(expected))], expected)

    def test_single_positions(self) -> None:
        for case in vectors("intra_block")["positions"]:
            with self.subTest(case=case):
                self.assertEqual(self.index_of(case, number(case["local_pos"])), number(case["index"]))


class ManifestVectors(VectorTest):
    def test_valid_manifests_have_their_hashes(self) -> None:
        for case in vectors("manifest")["valid"]:
            with self.subTest(name=case["name"]):
                manifest = Manifest.read(case["text"])
                self.assertIn(case["dataset"], manifest.datasets)
                printed = {
                    "manifest_hash": manifest.manifest_hash.hex(),
                    "replay_token": manifest.replay_token.hex(),
                    "mix_hash": manifest.mix_hash.hex(),
                    "batch_config_hash": manifest.batch_config_hash.hex(),
                    "normalised": cbor.encode(manifest.normalised()).hex(),
                }
                self.assertEqual(printed, case["expected"])

    def test_invalid_manifests_are_refused(self) -> None:
        for case in vectors("manifest")["invalid"]:
            with self.subTest(why=case["why"], text=case["text"][:200]):
                text = case["text"].encode("utf-8")
                self.assert_fails({"code_id": "MANIFEST_INVALID"}, Manifest.read, text)


class MixVectors(VectorTest):
    def test_steps_and_schedules(self) -> None:
        for case in vectors("mix")["cases"]:
            mixer = Mixer(manifest_of(case), token_of(case))
            self.assertEqual(mixer.manifest.manifest_hash.hex(), case["manifest_hash"])
            for step in case["steps"]:
                with self.subTest(name=case["name"], step=step["step"]):
                    cursor = Cursor(number(step["cursor"]["epoch"]), number(step["cursor"]["global_index"]))
                    self.assertEqual(mixer.locate(number(step["step"])), (step["dataset"], cursor))
            for schedule in case.get("schedules", []):
                with self.subTest(name=case["name"], period=schedule["period"]):
                    self.assertEqual(mixer.schedule(number(schedule["period"])), schedule["keys"])

    def test_steps_without_a_meaning(self) -> None:
        for case in vectors("mix")["errors"]:
            with self.subTest(name=case["name"]):
                self.assert_fails(case, locate, case)


class NextBatchVectors(VectorTest):
    def test_steps(self) -> None:
        for case in vectors("nextbatch")["cases"]:
            with self.subTest(name=case["name"], rank=case["rank"], position=case["position"]):
                printed: list[Any] = []
                steps_of(case, printed)
                self.assertEqual(printed, with_large_integers(case["expected"]))
                self.assertEqual(manifest_of(case).manifest_hash.hex(), case["manifest_hash"])

    def test_the_first_check_that_fails_is_the_error(self) -> None:
        for case in vectors("nextbatch_errors")["cases"]:
            with self.subTest(name=case["name"]):
                printed: list[Any] = []
                self.assert_fails(case, steps_of, case, printed)
                self.assertEqual(printed, with_large_integers(case.get("expected", [])))

    def test_runs(self) -> None:
        sampler = None
        for case in vectors("nextbatch_runs")["cases"]:
            if sampler is None or sampler.manifest != manifest_of(case):
                sampler = None
                gc.collect()  # millions of remembered positions
                sampler = RememberingSampler(manifest_of(case))
            with self.subTest(case={name: case[name] for name in case if not name.startswith("sha256")}):
                self.check_run(case, sampler)

    def check_run(self, case: dict[str, Any], sampler: Sampler) -> None:
        ranks = range(case["world_size"])
        of_all, of_rank = array.array("Q"), [array.array("Q") for _ in ranks]
        cursor = Cursor(number(case["epoch"]), number(case["position"]))
        for _ in range(case["steps"]):
            for rank in ranks:
                batch = sampler.next_batch(case["dataset"], case["world_size"], rank, case["stage"], cursor)
                of_all.extend(batch.indices[: batch.valid_count])
                of_rank[rank].extend(batch.indices[: batch.valid_count])
            cursor = batch.cursor_next
        self.assertEqual(len(of_all), case["samples"])
        self.assertEqual(cursor, Cursor(**with_large_integers(case["cursor_end"])))
        self.assertEqual(sha256_of_indices(of_all), case["sha256_all"])
        self.assertEqual([sha256_of_indices(indices) for indices in of_rank], case["sha256_ranks"])


class RememberingSampler(Sampler):
    """A sampler that computes each position once. Runs that differ in the world size alone stand together in
    the vectors and look at the same samples, so this saves most of the work."""

    def _make_epoch_order(self, dataset_key: str, epoch: int) -> EpochOrder:
        order = super()._make_epoch_order(dataset_key, epoch)
        order.sample_at = functools.cache(order.sample_at)
        return order


if __name__ == "__main__":
    unittest.main()
