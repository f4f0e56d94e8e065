#!/usr/bin/env python3
"""Makes sampler_hashes.json: golden runs over 10^6 and 10^9 samples, kept as SHA-256 of their indices.

Written from the contract alone, in plain Python, and shares nothing with the library: that the library's
sequence has the same hash is what the golden file is for. Run it only when the contract changes:

    python3 tests/golden/make_sampler_hashes.py > tests/golden/sampler_hashes.json
"""
import hashlib
import json
import math
import struct

ROTATION, BLOCKS, FEISTEL, AFFINE = 0x726F7461, 0xFFFFFFFF, 0x66737431, 0
MASK32, MASK64 = 2**32 - 1, 2**64 - 1


def head(major, number):
    if number < 24:
        return bytes([major << 5 | number])
    for info, limit, form in (24, 2**8, ">B"), (25, 2**16, ">H"), (26, 2**32, ">I"), (27, 2**64, ">Q"):
        if number < limit:
            return bytes([major << 5 | info]) + struct.pack(form, number)
    raise ValueError(number)


def cbor(value):
    if isinstance(value, bool):
        return b"\xf5" if value else b"\xf4"
    if isinstance(value, int):
        return head(0, value)
    if isinstance(value, bytes):
        return head(2, len(value)) + value
    if isinstance(value, str):
        return head(3, len(value.encode())) + value.encode()
    if isinstance(value, list):
        return head(4, len(value)) + b"".join(map(cbor, value))
    pairs = sorted((cbor(key), cbor(item)) for key, item in value.items())
    return head(5, len(pairs)) + b"".join(key + item for key, item in pairs)


def philox(seed, domain, n):
    """The 128-bit integer of P(seed, domain, n)."""
    s = struct.unpack("<4I", seed)
    c, k = [n & MASK32, n >> 32, s[2], s[3] ^ domain], [s[0], s[1]]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & MASK32, (a >> 32) ^ c[3] ^ k[1], a & MASK32]
        k = [(k[0] + 0x9E3779B9) & MASK32, (k[1] + 0xBB67AE85) & MASK32]
    return c[0] | c[1] << 32 | c[2] << 64 | c[3] << 96


def block_order(seed, n):
    order = list(range(n))
    for i in range(n - 1):
        j = i + (philox(seed, BLOCKS, i) * (n - i) >> 128)
        order[i], order[j] = order[j], order[i]
    return order


def affine_map(seed, block, m):
    x = philox(seed, AFFINE, block)
    a, c = 1 + (x & MASK64) % (m - 1), (x >> 64) % m
    while math.gcd(a, m) != 1:
        a = 1 + a % (m - 1)
    return lambda position: (a * position + c) % m


def feistel_map(seed, block, m):
    a = math.isqrt(m - 1) + 1
    b = -(-m // a)
    x = philox(seed, FEISTEL, 2 * block) | philox(seed, FEISTEL, 2 * block + 1) << 128
    keys = [x >> 32 * i & MASK32 for i in range(6)]

    def scramble(value, key):
        h = value ^ key
        h = (h ^ h >> 16) * 0x7FEB352D & MASK32
        h = (h ^ h >> 15) * 0x846CA68B & MASK32
        return h ^ h >> 16

    def at(position):
        while True:
            right, left = divmod(position, a)
            for i in range(0, 6, 2):
                left = (left + (scramble(right, keys[i]) * a >> 32)) % a
                right = (right + (scramble(left, keys[i + 1]) * b >> 32)) % b
            position = right * a + left
            if position < m:
                return position

    return at


class Epoch:
    """One epoch's virtual sequence."""

    def __init__(self, case, number):
        data = {"sampler_block_size": case["block_size"], "drop_last": case["drop_last"]}
        if case["rotate"]:
            data["rotate"] = True
        if case["intra_block"] != "affine_v1":
            data["intra_block"] = case["intra_block"]
        if case["epoch_boundary"] != "strict":
            data["epoch_boundary"] = case["epoch_boundary"]
        dataset = {"id": "a", "version": "1", "hash": bytes(32), "cardinality": case["n"]}
        manifest = {"data": data, "datasets": {"a": dataset}, "global_batch_size": case["batch"],
                    "seed": case["seed"]}
        digest = hashlib.sha256(cbor(manifest)).digest()
        token = hashlib.sha512(cbor(["replay_token_v1", digest, case["seed"]])).digest()
        whole = hashlib.sha256(cbor(["nextbatch_epoch_seed_v2", token, digest, "a", number])).digest()
        self.seed, self.n, self.size = whole[:16], case["n"], case["block_size"]
        self.rotation = philox(self.seed, ROTATION, 0) * self.n >> 128 if case["rotate"] else 0
        self.make = feistel_map if case["intra_block"] == "feistel_v1" else affine_map
        self.order = block_order(self.seed, self.n // self.size)
        self.maps = {}

    def index(self, position):
        slot, local = divmod((position + self.rotation) % self.n, self.size)
        block = self.order[slot] if slot < len(self.order) else slot
        start = block * self.size
        if block not in self.maps:
            self.maps[block] = self.make(self.seed, block, min(self.size, self.n - start))
        return start + self.maps[block](local)


def run(case):
    """The hash over all indices of the run, how many there are, and the cursor behind it."""
    sha, samples, epochs = hashlib.sha256(), 0, {}
    n, batch, epoch, position = case["n"], case["batch"], case["epoch"], case["position"]
    strict = case["epoch_boundary"] == "strict"
    limit = n // batch * batch if strict and case["drop_last"] else n
    for _ in range(case["steps"]):
        indices = []
        for p in range(position, min(position + batch, limit) if strict else position + batch):
            number = epoch + p // n
            if number not in epochs:
                epochs[number] = Epoch(case, number)
            indices.append(epochs[number].index(p % n))
        sha.update(struct.pack("<%dQ" % len(indices), *indices))
        samples += len(indices)
        position += batch
        if strict and position >= limit:
            epoch, position = epoch + 1, 0
        elif not strict:
            epoch, position = epoch + position // n, position % n
    return sha.hexdigest(), samples, {"epoch": epoch, "global_index": position}


def cases():
    million = {"n": 10**6, "batch": 7680, "steps": 132, "position": 0, "world_sizes": [1, 2, 3, 8, 64]}
    for seed, (intra, rotate, boundary, drop, size) in enumerate((
            ("affine_v1", False, "strict", False, 65536), ("affine_v1", True, "stream", False, 1000),
            ("feistel_v1", False, "strict", True, 99999), ("feistel_v1", True, "strict", False, 2**20))):
        yield dict(million, seed=seed, epoch=seed, intra_block=intra, rotate=rotate, epoch_boundary=boundary,
                   drop_last=drop, block_size=size)
    # Of 10^9, whole blocks: the first, one in the middle, and what there is from the last full block on.
    for seed, (intra, rotate, boundary) in enumerate((
            ("affine_v1", False, "strict"), ("feistel_v1", True, "stream"))):
        for block, steps in (0, 64), (477, 64), (952, 110):
            yield {"n": 10**9, "batch": 16384, "steps": steps, "position": block * 2**20,
                   "world_sizes": [1, 4, 16, 64], "seed": seed, "epoch": block, "intra_block": intra,
                   "rotate": rotate, "epoch_boundary": boundary, "drop_last": False, "block_size": 2**20}


def main():
    made = []
    for case in cases():
        digest, samples, end = run(case)
        made.append(dict(case, samples=samples, cursor_end=end, sha256=digest))
    about = ("Golden runs of NextBatch_v2 in train over dataset 'a' (id 'a', version '1', hash of zeros), made by "
             "make_sampler_hashes.py. sha256 is over the indices of all steps and ranks as 8-byte little-endian "
             "integers, and the same for every world size.")
    print('{"about": %s,\n "cases": [' % json.dumps(about))
    print(",\n".join("  " + json.dumps(case) for case in made))
    print("]}")


if __name__ == "__main__":
    main()
