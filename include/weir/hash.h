/* weir/hash.h: the hashes and the random numbers that identities are made of.
 *
 * SHA-2 is OpenSSL's, Philox is Random123's, BLAKE3 is ours. All of them are values without memory of their
 * own: nothing here allocates or can fail, and any thread may use its own. */
#ifndef WEIR_HASH_H
#define WEIR_HASH_H

#include "weir/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- SHA-2 ----------------------------------------------------------------------------------- */

typedef struct weir_sha256 {
    uint64_t state[16]; /* libcrypto's own context */
} weir_sha256;

/*   weir_sha256 sha;
 *   weir_sha256_init(&sha);
 *   weir_sha256_update(&sha, data, size);
 *   weir_sha256_final(&sha, digest);      (then init again before the next use) */
WEIR_API void weir_sha256_init(weir_sha256 *sha);
WEIR_API void weir_sha256_update(weir_sha256 *sha, const void *data, size_t size);
WEIR_API void weir_sha256_final(weir_sha256 *sha, uint8_t digest[32]);

WEIR_API void weir_sha256_of(const void *data, size_t size, uint8_t digest[32]);
WEIR_API void weir_sha512_of(const void *data, size_t size, uint8_t digest[64]);

/* ---- BLAKE3 ---------------------------------------------------------------------------------- */

/* A plain value, about 2 KiB; copy it to fork a hash. Pick one of the three inits, update any number of
 * times, finalize any number of times (finalizing changes nothing). */
typedef struct weir_blake3 {
    uint32_t key[8];
    uint32_t chunk_value[8];
    uint64_t chunk_counter;
    uint8_t block[64];
    uint8_t block_size;
    uint8_t blocks_compressed;
    uint8_t flags;
    uint8_t stack_depth;
    uint8_t stack[55][32]; /* chaining values, little-endian */
} weir_blake3;

WEIR_API void weir_blake3_init(weir_blake3 *hasher);
WEIR_API void weir_blake3_init_keyed(weir_blake3 *hasher, const uint8_t key[32]);
WEIR_API void weir_blake3_init_derive_key(weir_blake3 *hasher, const void *context, size_t context_size);
WEIR_API void weir_blake3_update(weir_blake3 *hasher, const void *data, size_t size);
WEIR_API void weir_blake3_final(const weir_blake3 *hasher, void *out, size_t size);

/* Extended output: `size` bytes from byte `offset` of the output stream on. */
WEIR_API void weir_blake3_final_seek(const weir_blake3 *hasher, uint64_t offset, void *out, size_t size);

WEIR_API void weir_blake3_of(const void *data, size_t size, uint8_t digest[32]);

/* ---- Philox4x32-10 --------------------------------------------------------------------------- */

/* Streams with different domains never meet under one seed. */
typedef enum weir_domain {
    WEIR_DOMAIN_INTRA_AFFINE = 0,
    WEIR_DOMAIN_INTRA_FEISTEL = 0x66737431,
    WEIR_DOMAIN_ROTATION = 0x726F7461,
    WEIR_DOMAIN_MIX = 0x6D697800,
    WEIR_DOMAIN_WALK = 0x77616C6B,
    WEIR_DOMAIN_SPLIT = 0x73706C74,
    WEIR_DOMAIN_BLOCKS = 0x626C6B73,
    WEIR_DOMAIN_CLASSES = 0x636C6173,
    WEIR_DOMAIN_MEMBERS = 0x6D656D62,
    WEIR_DOMAIN_LINE = 0x6C696E65,
    WEIR_DOMAIN_POINTS = 0x706C6163,
    WEIR_DOMAIN_PHASE = 0x70686173,
} weir_domain;
#define WEIR_DOMAIN_BLOCK_PERMUTE 0xFFFFFFFFu

/* Words 0, 1 are the key, words 2, 3 go into the counter: the 16 bytes of a seed, little-endian. */
typedef struct weir_seed {
    uint32_t word[4];
} weir_seed;

typedef struct weir_random {
    uint64_t k0; /* words 0 and 1: the low half of the 128-bit integer */
    uint64_t k1; /* words 2 and 3: the high half */
} weir_random;

WEIR_API weir_seed weir_seed_load(const uint8_t bytes[16]);
WEIR_API void weir_seed_store(weir_seed seed, uint8_t bytes[16]);

/* P(seed, domain, n). */
WEIR_API weir_random weir_philox(weir_seed seed, uint32_t domain, uint64_t n);

/* (P(seed, domain, n) as a 128-bit integer * range) >> 128: a number below range; 0 for range 0. */
WEIR_API uint64_t weir_bounded(weir_seed seed, uint32_t domain, uint64_t n, uint64_t range);

/* The bare function: counter and key in, four words out. */
WEIR_API void weir_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

#ifdef __cplusplus
}
#endif
#endif
