"""The reference's prefetcher: the golden file is what it makes now, and for every split of every small run what was
consumed and what a resumed one gives make the whole."""

import json
import sys
import unittest
from dataclasses import replace
from itertools import islice, product
from pathlib import Path

PROJECT_ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT_ROOT))

from reference import cbor, prefetch  # noqa: E402
from reference.errors import WeirError  # noqa: E402
from reference.prefetch import Config  # noqa: E402

GOLDEN = json.loads((PROJECT_ROOT / "tests/golden/vectors/prefetch.json").read_text())


def small_configs():
    for length, workers, epochs, mode, drops in product(range(7), range(1, 5), (1, 2), ("interleaved", "contiguous"), (False, True)):
        for start in {0, length // 2, length}:
            yield Config(length, workers, epochs, mode, drops, start_position=start, start_epoch=start % 2)


class PrefetchTest(unittest.TestCase):
    def test_golden_file(self) -> None:
        self.assertEqual(len(GOLDEN["cases"]), len(prefetch.CONFIGS))
        for case, config in zip(GOLDEN["cases"], prefetch.CONFIGS):
            self.assertEqual(case, json.loads(json.dumps(prefetch.golden_case(config))))

    def test_one_pass_is_the_sequential_order(self) -> None:
        for length, workers in product(range(20), range(1, 9)):
            order = prefetch.strict_order(Config(length, workers))
            self.assertEqual([item.position for item in order], list(range(length)))

    def test_a_pass_is_dealt_out_whole(self) -> None:
        for config in small_configs():
            positions = range(config.start_position, config.length)
            dealt = sorted(p for worker in range(config.workers) for p in prefetch.shard(config, positions, worker))
            dropped = len(positions) % config.workers if config.drop_remainder else 0
            if config.shard_mode == "interleaved" or not dropped:
                self.assertEqual(dealt, list(positions)[: len(positions) - dropped])
            self.assertEqual(len(set(dealt)), len(positions) - dropped)

    def test_every_split(self) -> None:
        for config in small_configs():
            whole = list(prefetch.strict_order(config))
            for split in range(len(whole) + 1):
                state = cbor.decode(cbor.encode(prefetch.state_after(config, whole[:split])))
                self.assertEqual(list(prefetch.resume(config, state)), whole[split:])

    def test_another_number_of_workers(self) -> None:
        allowed = refused = 0
        for config in small_configs():
            whole = list(prefetch.strict_order(config))
            for workers in range(1, 6):
                other = replace(config, workers=workers)
                state = prefetch.state_after(config, whole[: len(whole) // 2])
                try:
                    rest = list(prefetch.resume(other, state))
                except WeirError as error:
                    self.assertEqual(error.code_id, "CHECKPOINT_MISMATCH")
                    refused += 1
                    continue
                self.assertEqual([item[:2] for item in rest], [item[:2] for item in whole[len(whole) // 2 :]])
                allowed += 1
        self.assertGreater(min(allowed, refused), 100)

    def test_another_configuration_is_refused(self) -> None:
        config = Config(length=10, workers=3)
        state = prefetch.state_after(config, list(islice(prefetch.strict_order(config), 4)))
        for change in {"length": 11}, {"epochs": 2}, {"key": 1}, {"shard_mode": "contiguous"}, {"drop_remainder": True}:
            with self.assertRaises(WeirError):
                prefetch.resume(replace(config, **change), state)


if __name__ == "__main__":
    unittest.main()
