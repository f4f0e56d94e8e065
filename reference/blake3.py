"""BLAKE3: hash, keyed hash and key derivation, with output of any length.

Follows the section "Hashes" of the specification, which asks for BLAKE3 as its paper defines it ("BLAKE3: one
function, fast everywhere", O'Connor, Aumasson, Neves, Wilcox-O'Hearn). The input is cut into chunks of 1024
bytes; each chunk is compressed block by block into a chaining value; the chaining values are the leaves of a
binary tree whose left subtrees are as large as a power of two allows; the root is compressed once for every
64 bytes of output.
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
    return _join_blocks([struct.unpack("<8I", value) for value in values]).output_bytes(32)


def _join_blocks(values: list[Words]) -> "_Node":
    left_count = 1 << ((len(values) - 1).bit_length() - 1)
    left, right = values[:left_count], values[left_count:]
    children = tuple(
        word
        for half in (left, right)
        for word in (half[0] if len(half) == 1 else _join_blocks(half).as_chaining_value())
    )
    return _Node(INITIAL_VALUE, children, counter=0, block_size=BLOCK_SIZE, flags=PARENT)


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
        return _compress(self.chaining_value, self.block, self.counter, self.block_size, self.flags)[:8]

    def output_bytes(self, size: int) -> bytes:
        """As the root: block i of the output is the compression with counter i."""
        output = b""
        for counter in range((size + BLOCK_SIZE - 1) // BLOCK_SIZE):
            words = _compress(self.chaining_value, self.block, counter, self.block_size, self.flags | ROOT)
            output += struct.pack("<16I", *words)
        return output[:size]


def _root_of_tree(data: bytes, key: Words, mode_flags: int) -> _Node:
    return _subtree(data, 0, key, mode_flags)


def _subtree(data: bytes, first_chunk: int, key: Words, mode_flags: int) -> _Node:
    if len(data) <= CHUNK_SIZE:
        return _chunk(data, first_chunk, key, mode_flags)
    chunk_count = (len(data) + CHUNK_SIZE - 1) // CHUNK_SIZE
    left_count = 1 << ((chunk_count - 1).bit_length() - 1)
    left = _subtree(data[: left_count * CHUNK_SIZE], first_chunk, key, mode_flags)
    right = _subtree(data[left_count * CHUNK_SIZE :], first_chunk + left_count, key, mode_flags)
    children = left.as_chaining_value() + right.as_chaining_value()
    return _Node(key, children, counter=0, block_size=BLOCK_SIZE, flags=mode_flags | PARENT)


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


def _compress(chaining_value: Words, block: Words, counter: int, block_size: int, flags: int) -> Words:
    """The compression function: 16 words, of which the first eight are the next chaining value."""
    position = (counter & MASK_32, counter >> 32, block_size, flags)
    state = [*chaining_value, *INITIAL_VALUE[:4], *position]
    for _ in range(ROUNDS):
        for quarter, (a, b, c, d) in enumerate(COLUMNS_AND_DIAGONALS):
            _mix(state, a, b, c, d, block[2 * quarter], block[2 * quarter + 1])
        block = tuple(block[source] for source in MESSAGE_PERMUTATION)
    first_half = [low ^ high for low, high in zip(state[:8], state[8:])]
    second_half = [high ^ chained for high, chained in zip(state[8:], chaining_value)]
    return tuple(first_half + second_half)


def _mix(state: list[int], a: int, b: int, c: int, d: int, word_x: int, word_y: int) -> None:
    """The quarter-round: words a, b, c and d of the state take in two words of the message."""
    for word, first_turn, second_turn in ((word_x, 16, 12), (word_y, 8, 7)):
        state[a] = (state[a] + state[b] + word) & MASK_32
        state[d] = _rotate_right(state[d] ^ state[a], first_turn)
        state[c] = (state[c] + state[d]) & MASK_32
        state[b] = _rotate_right(state[b] ^ state[c], second_turn)


def _rotate_right(word: int, bits: int) -> int:
    return (word >> bits) | (word << (32 - bits) & MASK_32)
