"""BLAKE3: hash, keyed hash and key derivation, with output of any length.

Follows the section "Hashes" of the specification, which asks for BLAKE3 as its paper defines it ("BLAKE3: one
function, fast everywhere", O'Connor, Aumasson, Neves, Wilcox-O'Hearn). The input is cut into chunks of 1024
bytes; each chunk is compressed block by block into a chaining value; the chaining values are the leaves of a
binary tree whose left subtrees are as large as a power of two allows; the root is compressed once for every
64 bytes of output.

Tests hash much. So whole chunks are compressed together: an integer holds the same word of all of them, in lanes of 64
bits, and adds, turns and xors them at once.
"""

import struct
from dataclasses import dataclass

BLOCK_SIZE, CHUNK_SIZE = 64, 1024

CHUNK_START, CHUNK_END, PARENT, ROOT = 1, 2, 4, 8
KEYED_HASH, DERIVE_KEY_CONTEXT, DERIVE_KEY_MATERIAL = 16, 32, 64

Words = tuple[int, ...]

INITIAL_VALUE: Words = (
    0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19,
)  # fmt: skip
MESSAGE_PERMUTATION = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
COLUMNS_AND_DIAGONALS = (
    (0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
    (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14),
)  # fmt: skip
ROUNDS = 7
MASK_32 = 0xFFFFFFFF


def plain_hash(data: bytes, output_size: int = 32) -> bytes:
    """The plain hash."""
    return _root_of_tree(data, INITIAL_VALUE, 0).output_bytes(output_size)


def block_values(data: bytes, block_size: int = 65536) -> list[bytes]:
    """The chaining values of an input's blocks, which are whole subtrees; of an input of two blocks or more."""
    starts = range(0, len(data), block_size)
    nodes = [_subtree(data[at : at + block_size], at // CHUNK_SIZE, INITIAL_VALUE, 0) for at in starts]
    return [struct.pack("<8I", *node.as_chaining_value()) for node in nodes]


def hash_of_blocks(values: list[bytes]) -> bytes:
    """The hash of the input that two or more blocks' chaining values are of."""
    return _join([struct.unpack("<8I", value) for value in values], INITIAL_VALUE, 0).output_bytes(32)


def keyed_hash(key: bytes, data: bytes, output_size: int = 32) -> bytes:
    """The hash under a key of 32 bytes."""
    return _root_of_tree(data, struct.unpack("<8I", key), KEYED_HASH).output_bytes(output_size)


def derive_key(context: str, material: bytes, output_size: int = 32) -> bytes:
    """A key made from key material for the one purpose that the context names."""
    context_key = _root_of_tree(context.encode("utf-8"), INITIAL_VALUE, DERIVE_KEY_CONTEXT).output_bytes(32)
    root = _root_of_tree(material, struct.unpack("<8I", context_key), DERIVE_KEY_MATERIAL)
    return root.output_bytes(output_size)


@dataclass(frozen=True)
class _Node:
    """The last compression of a chunk or of a parent, not done yet: only its place in the tree says how."""

    chaining_value: Words
    block: Words
    counter: int
    block_size: int
    flags: int

    def as_chaining_value(self) -> Words:
        return _compress(self.chaining_value, self.block, self._place(self.counter, self.flags))[:8]

    def output_bytes(self, size: int) -> bytes:
        """As the root: block i of the output is the compression with counter i."""
        output = b""
        for counter in range((size + BLOCK_SIZE - 1) // BLOCK_SIZE):
            words = _compress(self.chaining_value, self.block, self._place(counter, self.flags | ROOT))
            output += struct.pack("<16I", *words)
        return output[:size]

    def _place(self, counter: int, flags: int) -> Words:
        return (counter & MASK_32, counter >> 32, self.block_size, flags)


def _root_of_tree(data: bytes, key: Words, mode_flags: int) -> _Node:
    return _subtree(data, 0, key, mode_flags)


def _subtree(data: bytes, first_chunk: int, key: Words, mode_flags: int) -> _Node:
    if len(data) <= CHUNK_SIZE:
        return _chunk(data, first_chunk, key, mode_flags)
    return _join(_leaves(data, first_chunk, key, mode_flags), key, mode_flags)


def _join(values: list[Words], key: Words, mode_flags: int) -> _Node:
    """The parent of two chaining values or more."""
    left_count = 1 << ((len(values) - 1).bit_length() - 1)
    children = tuple(
        word
        for half in (values[:left_count], values[left_count:])
        for word in (half[0] if len(half) == 1 else _join(half, key, mode_flags).as_chaining_value())
    )
    return _Node(key, children, counter=0, block_size=BLOCK_SIZE, flags=mode_flags | PARENT)


def _leaves(data: bytes, first_chunk: int, key: Words, mode_flags: int) -> list[Words]:
    """The chaining values of the chunks, of which there are several."""
    whole = len(data) // CHUNK_SIZE
    lanes = sum(1 << 64 * i for i in range(whole))
    low = sum((first_chunk + i & MASK_32) << 64 * i for i in range(whole))
    high = sum((first_chunk + i >> 32) << 64 * i for i in range(whole))
    together = tuple(word * lanes for word in key)
    for start in range(0, CHUNK_SIZE, BLOCK_SIZE):
        is_first, is_last = start == 0, start == CHUNK_SIZE - BLOCK_SIZE
        flags = mode_flags | (CHUNK_START if is_first else 0) | (CHUNK_END if is_last else 0)
        block = tuple(_word_of_chunks(data, start + 4 * i, whole) for i in range(16))
        together = _compress(together, block, (low, high, BLOCK_SIZE * lanes, flags * lanes), lanes)[:8]
    values = [tuple(word >> 64 * i & MASK_32 for word in together) for i in range(whole)]
    if whole * CHUNK_SIZE < len(data):
        rest = _chunk(data[whole * CHUNK_SIZE :], first_chunk + whole, key, mode_flags)
        values.append(rest.as_chaining_value())
    return values


def _word_of_chunks(data: bytes, offset: int, whole: int) -> int:
    lanes = bytearray(8 * whole)
    for i in range(4):
        lanes[i::8] = data[offset + i : whole * CHUNK_SIZE : CHUNK_SIZE]
    return int.from_bytes(lanes, "little")


def _chunk(data: bytes, chunk_number: int, key: Words, mode_flags: int) -> _Node:
    blocks = [data[start : start + BLOCK_SIZE] for start in range(0, len(data), BLOCK_SIZE)] or [b""]
    chaining_value = key
    for number, block in enumerate(blocks):
        is_first, is_last = number == 0, number == len(blocks) - 1
        flags = mode_flags | (CHUNK_START if is_first else 0) | (CHUNK_END if is_last else 0)
        words = struct.unpack("<16I", block.ljust(BLOCK_SIZE, b"\0"))
        node = _Node(chaining_value, words, chunk_number, len(block), flags)
        if not is_last:
            chaining_value = node.as_chaining_value()
    return node


def _schedule() -> list[tuple[int, ...]]:
    """The quarter-rounds of a compression in order: four words of the state, and the two words of the message that they take
    in, whose places are permuted after each round."""
    places = tuple(range(16))
    steps: list[tuple[int, ...]] = []
    for _ in range(ROUNDS):
        steps += [(*words, places[2 * i], places[2 * i + 1]) for i, words in enumerate(COLUMNS_AND_DIAGONALS)]
        places = tuple(places[source] for source in MESSAGE_PERMUTATION)
    return steps


SCHEDULE = _schedule()


def _compress(chaining_value: Words, block: Words, place: Words, lanes: int = 1) -> Words:
    """The compression function: 16 words, of which the first eight are the next chaining value. `lanes` has a 1 in each lane
    that the words have."""
    mask = MASK_32 * lanes
    state = [*chaining_value, *(word * lanes for word in INITIAL_VALUE[:4]), *place]
    for at_a, at_b, at_c, at_d, x, y in SCHEDULE:
        b, d = state[at_b], state[at_d]
        a = (state[at_a] + b + block[x]) & mask
        d ^= a
        d = (d >> 16 | d << 16) & mask
        c = (state[at_c] + d) & mask
        b ^= c
        b = (b >> 12 | b << 20) & mask
        a = (a + b + block[y]) & mask
        d ^= a
        d = (d >> 8 | d << 24) & mask
        c = (c + d) & mask
        b ^= c
        b = (b >> 7 | b << 25) & mask
        state[at_a], state[at_b], state[at_c], state[at_d] = a, b, c, d
    first_half = [low ^ high for low, high in zip(state[:8], state[8:])]
    second_half = [high ^ chained for high, chained in zip(state[8:], chaining_value)]
    return tuple(first_half + second_half)
