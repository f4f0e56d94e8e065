#!/usr/bin/env python3
"""Makes sampling_modes.json: golden values of the stateless permutation, of integer weights, and of runs that draw by
class, by weight, or with the stateless block order.

It uses the reference simulator, which shares nothing with the library. Run it only when the contract
(docs/spec/02-sampling-modes.md) changes:

    python3 tests/golden/make_sampling_modes.py > tests/golden/sampling_modes.json
"""
import hashlib
import json
import random
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from reference import philox  # noqa: E402
from reference.manifest import Manifest  # noqa: E402
from reference.population import Classes, Weights, integer_weights, seeded_place  # noqa: E402
from reference.sampler import Cursor, Sampler  # noqa: E402

DOMAINS = {"blks": philox.DOMAIN_BLOCKS, "clas": philox.DOMAIN_CLASSES, "memb": philox.DOMAIN_MEMBERS,
           "line": philox.DOMAIN_LINE, "plac": philox.DOMAIN_POINTS}


def sha256(numbers):
    return hashlib.sha256(struct.pack(f"<{len(numbers)}Q", *numbers)).hexdigest()


def places():
    for number, m in enumerate((1, 2, 3, 7, 16, 31, 32, 33, 34, 64, 100, 1000, 4097, 2**20 - 1, 2**32 + 1, 2**63, 2**64 - 1)):
        seed = hashlib.sha256(b"place %d" % number).digest()[:16]
        domain = list(DOMAINS)[number % len(DOMAINS)]
        n, j = (0, 1, 2**32, 2**64 - 1)[number % 4], (0, 32, 2**32 - 32)[number % 3]
        asked = list(range(m)) if m <= 5000 else [0, 1, m // 3, m // 2, m - 2, m - 1]
        found = [seeded_place(seed, DOMAINS[domain], n, j, m, x) for x in asked]
        case = {"seed": seed.hex(), "domain": domain, "n": str(n), "j": j, "m": str(m)}
        yield {**case, "sha256": sha256(found)} if m <= 5000 else {
            **case, "asked": [str(x) for x in asked], "found": [str(x) for x in found]}


def weight_lists():
    chance = random.Random(1)
    yield [1.0, 2.0, 3.0]
    yield [0.0, 4294967295.0, 1.0, 2147483648.0]
    yield [4294967296.0, 1.0, 3.0, 0.5]
    yield [5e-324, 1e-310, 0.0, 2.2250738585072014e-308]
    yield [1.7976931348623157e308, 1e300, 1.0, 0.0]
    yield [0.1, 0.2, 0.30000000000000004, 1 / 3, 2 / 3, 1.0 - 2**-53]
    yield [2.0**31 + 0.5, 2.0**31 + 1.5, 2.0**32 - 1, 0.25, 0.5, 0.75, 1.5, 2.5]
    yield [chance.expovariate(1.0) ** 3 for _ in range(40)]


def manifest(n, batch, data, seed=5):
    dataset = {"id": "a", "version": "1", "hash": "00" * 32, "cardinality": n}
    return json.dumps({"seed": seed, "global_batch_size": batch, "datasets": {"a": dataset}, "data": data})


def run(text, populations, first_epoch, steps):
    """The hash of the indices of `steps` steps, the number of samples, and the cursor after them."""
    sampler = Sampler(Manifest.read(text), populations=populations)
    cursor, indices = Cursor(first_epoch, 0), []
    for _ in range(steps):
        batch = sampler.next_batch("a", 1, 0, "train", cursor)
        indices += batch.indices
        cursor = batch.cursor_next
    modes = {key: batch.metadata[key] for key in ("sampling_mode", "subsampling_mode")}
    return {**modes, "sampler_config_hash": batch.metadata["sampler_config_hash"].hex(), "sha256": sha256(indices),
            "first": indices[:8], "samples": len(indices), "end": [str(cursor.epoch), cursor.global_index]}


def runs():
    chance = random.Random(2)
    balanced, weighted = {"mode": "class_balanced"}, {"mode": "weighted", "column": "w"}
    for number, (n, batch, classes, extra) in enumerate((
            (50, 6, 2, {}), (50, 6, 3, {"drop_last": True}), (333, 20, 7, {"epoch_boundary": "stream"}),
            (400, 30, 60, {"rotate": True, "intra_block": "feistel_v1"}), (40, 7, 40, {}), (30, 4, 1, {}))):
        labels = [chance.choice([min(int(chance.expovariate(0.7)), classes - 1)] * 9 + [None]) for _ in range(n)]
        text = manifest(n, batch, {"sampling": balanced, **extra}, seed=number)
        first_epoch = (0, 3, 2**40)[number % 3]
        yield {"manifest": text, "classes": labels, "epoch": str(first_epoch), "steps": 120,
               **run(text, {"a": Classes(labels)}, first_epoch, 120)}
    for number, (n, batch, extra) in enumerate((
            (20, 6, {}), (50, 6, {"drop_last": True}), (333, 20, {"epoch_boundary": "stream"}), (1, 4, {}))):
        weights = [round(chance.expovariate(1.0) ** 2, 3) for _ in range(n)]
        weights[0] = 1.25
        text = manifest(n, batch, {"sampling": weighted, **extra}, seed=number)
        first_epoch = (0, 3, 2**64 - 200)[number % 3]
        yield {"manifest": text, "weights": weights, "epoch": str(first_epoch), "steps": 120,
               **run(text, {"a": Weights(weights)}, first_epoch, 120)}
    for number, extra in enumerate(({}, {"rotate": True}, {"intra_block": "feistel_v1", "epoch_boundary": "stream"})):
        text = manifest(1003, 24, {"block_order": "stateless_v1", "sampler_block_size": (7, 100, 16)[number], **extra})
        yield {"manifest": text, "epoch": "0", "steps": 100, **run(text, {}, 0, 100)}


def main():
    print('{"about": "Made by make_sampling_modes.py with the reference simulator. sha256 is over 8-byte little-endian'
          ' integers.",')
    for name, cases in ("places", places()), ("runs", runs()):
        print(f' "{name}": [\n' + ",\n".join("  " + json.dumps(case) for case in cases) + "],")
    lists = [{"weights": weights, "integers": integer_weights(weights)} for weights in weight_lists()]
    print(' "weights": [\n' + ",\n".join("  " + json.dumps(case) for case in lists) + "]}")


if __name__ == "__main__":
    main()
