"""weir.Cursors: a loop that chooses datasets itself, stopped anywhere and resumed, is the whole one."""

import unittest
from pathlib import Path

import weir
from reference import cbor
from reference.manifest import Manifest

from support import TRAIN, ShopTest

OTHER = "shop/rating/train"


class Loops(ShopTest):
    def setUp(self) -> None:
        self.described = self.changed_manifest(global_batch_size=8)

    def choice(self, step: int) -> str:
        return OTHER if step * step % 7 < 3 else TRAIN

    def taken(self, cursors: weir.Cursors, first: int, end: int) -> list[str]:
        digests = []
        for step in range(first, end):
            key = self.choice(step)
            batch = weir.batch(self.store, self.described, key, cursor=cursors[key])
            cursors.advance(batch)
            digests.append(batch.digest)
        return digests

    def test_stopped_anywhere_and_resumed(self) -> None:
        whole = self.taken(weir.Cursors(self.described), 0, 12)
        for stop in range(0, 12, 3):
            cursors, resumed = weir.Cursors(self.described), weir.Cursors(self.described)
            before = self.taken(cursors, 0, stop)
            resumed.load_state_dict(cursors.state_dict())
            self.assertEqual(before + self.taken(resumed, stop, 12), whole)
            cursors.save("run.cursors")
            loaded = weir.Cursors(self.described)
            loaded.load("run.cursors")
            self.assertEqual(dict(loaded), dict(cursors))

    def test_it_is_a_mapping_of_all_datasets(self) -> None:
        cursors = weir.Cursors(self.described)
        self.assertEqual(dict(cursors), {key: (0, 0) for key in self.described["datasets"]})
        cursors.set(TRAIN, (3, 16))
        self.assertEqual(cursors[TRAIN], (3, 16))
        self.assertIn("(3, 16)", repr(cursors))
        with self.assertRaises(KeyError):
            cursors["shop/nothing"]
        with self.assertRaises(weir.errors.GlobalPositionExceedsCardinality):
            cursors.set(TRAIN, (0, 10**9))
        batch = weir.batch(self.store, self.described, TRAIN, cursor=(0, 0))
        with self.assertRaises(weir.errors.ContractViolation):
            cursors.advance(batch)

    def test_the_bytes_are_those_of_the_contract(self) -> None:
        import hashlib
        import json

        cursors = weir.Cursors(self.described)
        cursors.set(OTHER, (2, 8))
        cursors.save("bytes.cursors")
        manifest = Manifest.read(json.dumps(self.described))
        expected = {
            "cursors_version": "weir_cursors_v1", "weir_version": weir.__version__, "manifest_hash": manifest.manifest_hash,
            "token_hash": hashlib.sha256(manifest.replay_token).digest(),
            "data_cursors": {key: {"epoch": epoch, "global_index": place} for key, (epoch, place) in cursors.items()},
        }  # fmt: skip
        expected["h"] = hashlib.sha256(cbor.encode(["weir_cursors_v1", expected])).digest()
        self.assertEqual(Path("bytes.cursors").read_bytes(), cbor.encode(expected))

    def test_other_states_are_refused(self) -> None:
        state = weir.Cursors(self.described).state_dict()
        other = weir.Cursors({**self.described, "seed": 9})
        other.set(TRAIN, (1, 8))
        with self.assertRaises(weir.errors.CheckpointMismatch):
            other.load_state_dict(state)
        self.assertEqual(other[TRAIN], (1, 8))
        for wrong in {}, {"version": 1}, {"version": 2, "cursors": ""}, {"version": 1, "cursors": "?"}:
            with self.assertRaises(ValueError):
                other.load_state_dict(wrong)


if __name__ == "__main__":
    unittest.main()
