/* The hashes that identities are made of: SHA-2 is OpenSSL's, BLAKE3 is ours. All of them are values without
 * memory of their own: nothing here allocates or can fail, and any thread may use its own. */
#ifndef WEIR_BASE_HASH_H
#define WEIR_BASE_HASH_H

#include "weir_tool/documents.h"

/* ---- SHA-2 ----------------------------------------------------------------------------------- */

typedef struct weir__sha256 {
    uint64_t state[16]; /* libcrypto's own context */
} weir__sha256;

/*   weir__sha256 sha;
 *   weir__sha256_init(&sha);
 *   weir__sha256_update(&sha, data, size);
 *   weir__sha256_final(&sha, digest);      (then init again before the next use) */
void weir__sha256_init(weir__sha256 *sha);
void weir__sha256_update(weir__sha256 *sha, const void *data, size_t size);
void weir__sha256_final(weir__sha256 *sha, uint8_t digest[32]);

void weir__sha256_of(const void *data, size_t size, uint8_t digest[32]);
void weir__sha512_of(const void *data, size_t size, uint8_t digest[64]);

/* Makes a writer whose bytes go to the hash, which the caller finishes. */
void weir__cbor_writer_hash(weir_cbor_writer *w, weir__sha256 *sha);

/* ---- BLAKE3 ---------------------------------------------------------------------------------- */

/* A plain value, about 2 KiB; copy it to fork a hash. Pick one of the three inits, update any number of
 * times, finalize any number of times (finalizing changes nothing). */
typedef struct weir__blake3 {
    uint32_t key[8];
    uint32_t chunk_value[8];
    uint64_t first_chunk; /* the number of the first; above 0 in a subtree */
    uint64_t chunk_counter;
    uint8_t block[64];
    uint8_t block_size;
    uint8_t blocks_compressed;
    uint8_t flags;
    uint8_t stack_depth;
    uint8_t stack[55][32]; /* chaining values, little-endian */
} weir__blake3;

void weir__blake3_init(weir__blake3 *hasher);
void weir__blake3_init_keyed(weir__blake3 *hasher, const uint8_t key[32]);
void weir__blake3_init_derive_key(weir__blake3 *hasher, const void *context, size_t context_size);
void weir__blake3_update(weir__blake3 *hasher, const void *data, size_t size);
void weir__blake3_final(const weir__blake3 *hasher, void *out, size_t size);

/* Extended output: `size` bytes from byte `offset` of the output stream on. */
void weir__blake3_final_seek(const weir__blake3 *hasher, uint64_t offset, void *out, size_t size);

void weir__blake3_of(const void *data, size_t size, uint8_t digest[32]);

/* ---- BLAKE3 in two steps --------------------------------------------------------------------- */

/* The hash of a long input is the root of a tree: its subtrees can be hashed one by one, in any order, and
 * their chaining values be joined. So a part of an input can be checked without the rest. */
enum { WEIR__SUBTREE_SIZE = 64 * 1024, WEIR__SUBTREE_VALUE = 32 };

/* The chaining value of the index-th subtree of a longer input: `size` bytes, 1 to WEIR__SUBTREE_SIZE, and
 * exactly that unless it is the last. */
void weir__blake3_subtree(const void *data, size_t size, uint64_t index, uint8_t value[32]);

/* Takes the values of the next subtrees, into a hash that takes nothing else. Its final is the hash of the
 * input, which has at least two of them. */
void weir__blake3_join(weir__blake3 *hasher, const uint8_t *values, size_t count);

#endif
