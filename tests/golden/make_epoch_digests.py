#!/usr/bin/env python3
"""Makes epoch_digests.json: SHA-256 of whole epochs, of 10^6 and of 10^9 samples, in train and in eval.

Written from the contract with numpy, a block at a time, and shares nothing with the library; at 10^6 samples it also
compares itself with the plain Python of make_sampler_hashes.py, one index at a time. It takes some minutes. Run it only
when the contract changes:

    python3 tests/golden/make_epoch_digests.py > tests/golden/epoch_digests.json
"""
import hashlib
import json
import math
import struct
import sys

import numpy as np

import make_sampler_hashes as plain

BLOCKS = 0x626C6B73
BATCH, WORLD_SIZES = 65536, [1, 8, 64]


# ---- The stateless order of blocks -------------------------------------------------------------------------


def draw(seed, domain, n, j):
    s = list(struct.unpack("<4I", seed))
    s[2] ^= j
    return plain.philox(struct.pack("<4I", *s), domain, n)


def scramble(value, key):
    h = value ^ key
    h = (h ^ h >> 16) * 0x7FEB352D & plain.MASK32
    h = (h ^ h >> 15) * 0x846CA68B & plain.MASK32
    return h ^ h >> 16


def stateless_order(seed, m):
    """Block m times SeededPlace_v1."""
    if m <= 32:
        order = list(range(m))
        for i in range(m - 1):
            k = i + (draw(seed, BLOCKS, 0, i) * (m - i) >> 128)
            order[i], order[k] = order[k], order[i]
        return order
    a = math.isqrt(m - 1) + 1
    b = -(-m // a)
    x = sum(draw(seed, BLOCKS, 0, i) << 128 * i for i in range(3))
    keys = [x >> 32 * i & plain.MASK32 for i in range(12)]

    def at(place):
        while True:
            right, left = divmod(place, a)
            for i in range(0, 12, 2):
                left = (left + (scramble(right, keys[i]) * a >> 32)) % a
                right = (right + (scramble(left, keys[i + 1]) * b >> 32)) % b
            place = right * a + left
            if place < m:
                return place

    return [at(place) for place in range(m)]


# ---- A block at a time -------------------------------------------------------------------------------------


def affine_block(seed, block, m):
    x = plain.philox(seed, plain.AFFINE, block)
    a, c = 1 + (x & plain.MASK64) % (m - 1), (x >> 64) % m
    while math.gcd(a, m) != 1:
        a = 1 + a % (m - 1)
    return (np.arange(m, dtype=np.uint64) * np.uint64(a) + np.uint64(c)) % np.uint64(m)


def feistel_block(seed, block, m):
    a = math.isqrt(m - 1) + 1
    b = -(-m // a)
    x = plain.philox(seed, plain.FEISTEL, 2 * block) | plain.philox(seed, plain.FEISTEL, 2 * block + 1) << 128
    keys = [np.uint32(x >> 32 * i & plain.MASK32) for i in range(6)]

    def shift(other, key, side):
        h = other.astype(np.uint32) ^ key
        h = (h ^ h >> np.uint32(16)) * np.uint32(0x7FEB352D)
        h = (h ^ h >> np.uint32(15)) * np.uint32(0x846CA68B)
        h = h ^ h >> np.uint32(16)
        return h.astype(np.uint64) * np.uint64(side) >> np.uint64(32)

    def rounds(place):
        right, left = place // np.uint64(a), place % np.uint64(a)
        for i in range(0, 6, 2):
            left = (left + shift(right, keys[i], a)) % np.uint64(a)
            right = (right + shift(left, keys[i + 1], b)) % np.uint64(b)
        return right * np.uint64(a) + left

    places = rounds(np.arange(m, dtype=np.uint64))
    while (outside := places >= m).any():
        places[outside] = rounds(places[outside])
    return places


def epoch_blocks(case, number):
    """The indices of a training epoch, an array per stretch of a block."""
    size = case["block_size"]
    data = {"sampler_block_size": size, "drop_last": False}
    data.update({key: case[key] for key in ("rotate", "intra_block", "block_order") if key in case})
    dataset = {"id": "a", "version": "1", "hash": bytes(32), "cardinality": case["n"]}
    manifest = {"data": data, "datasets": {"a": dataset}, "global_batch_size": BATCH, "seed": case["seed"]}
    digest = hashlib.sha256(plain.cbor(manifest)).digest()
    token = hashlib.sha512(plain.cbor(["replay_token_v1", digest, case["seed"]])).digest()
    seed = hashlib.sha256(plain.cbor(["nextbatch_epoch_seed_v2", token, digest, "a", number])).digest()[:16]
    n, full = case["n"], case["n"] // size
    rotation = plain.philox(seed, plain.ROTATION, 0) * n >> 128 if case.get("rotate") else 0
    order = (stateless_order if "block_order" in case else plain.block_order)(seed, full) if full else []
    make = feistel_block if case.get("intra_block") else affine_block

    def block_at(place):
        block = order[place] if place < full else place
        start = block * size
        return np.uint64(start) + make(seed, block, min(size, n - start))

    first, within = divmod(rotation, size)
    yield block_at(first)[within:]
    for place in range(first + 1, -(-n // size)):
        yield block_at(place)
    for place in range(first):
        yield block_at(place)
    yield block_at(first)[:within]


def sequential_blocks(n):
    """Evaluation: all ranks keep one shape, so the last batch wraps round."""
    total = -(-n // BATCH) * BATCH
    for start in range(0, total, 2**20):
        yield np.arange(start, min(start + 2**20, total), dtype=np.uint64) % np.uint64(n)


# ---- The file ----------------------------------------------------------------------------------------------


def digest_of(case):
    sha, count = hashlib.sha256(), 0
    for part in epoch_blocks(case, case["epoch"]) if case["stage"] == "train" else sequential_blocks(case["n"]):
        sha.update(part.astype("<u8").tobytes())
        count += len(part)
    return sha.hexdigest(), count


def check_against_plain_python(case):
    """One index at a time; the plain program knows no stateless order."""
    full = {"drop_last": False, "rotate": case.get("rotate", False), "batch": BATCH,
            "intra_block": case.get("intra_block", "affine_v1"), "epoch_boundary": "strict", **case}
    epoch = plain.Epoch(full, case["epoch"])
    expected = [epoch.index(position) for position in range(case["n"])]
    assert np.concatenate(list(epoch_blocks(case, case["epoch"]))).tolist() == expected, case


def cases():
    kinds = ({}, {"intra_block": "feistel_v1", "rotate": True}, {"block_order": "stateless_v1"})
    for n, size in (10**6, 4096), (10**9, 2**20):
        for seed, kind in enumerate(kinds):
            yield {"n": n, "block_size": size, "stage": "train", "seed": seed, "epoch": seed + 1, **kind}
        yield {"n": n, "block_size": size, "stage": "eval", "seed": 0, "epoch": 0}


def main():
    made = []
    for case in cases():
        if case["n"] == 10**6 and case["stage"] == "train" and "block_order" not in case:
            check_against_plain_python(case)
        digest, count = digest_of(case)
        made.append({**case, "batch": BATCH, "world_sizes": WORLD_SIZES, "indices": count, "sha256": digest})
        print(made[-1], file=sys.stderr)
    about = ("Whole epochs of dataset 'a' (id 'a', version '1', hash of zeros), made by make_epoch_digests.py. sha256 is over "
             "the indices of all steps and ranks as 8-byte little-endian integers, and the same for every world size.")
    print('{"about": %s,\n "cases": [' % json.dumps(about))
    print(",\n".join("  " + json.dumps(case) for case in made))
    print("]}")


if __name__ == "__main__":
    main()
