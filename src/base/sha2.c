/* SHA-2 by OpenSSL's libcrypto. Its low-level calls are used, not EVP: their context is a plain value, so
 * hashing neither allocates nor fails, which the steady state of the sampler needs (a replay token a step).
 * OpenSSL 3 marks them deprecated in favour of EVP; OPENSSL_API_COMPAT says that we mean them. */
#define OPENSSL_API_COMPAT 0x10101000L
#include <openssl/sha.h>

#include "base/boundary.h"
#include "base/hash.h"

_Static_assert(sizeof(SHA256_CTX) <= sizeof(weir__sha256), "weir__sha256 must hold libcrypto's context");
_Static_assert(_Alignof(SHA256_CTX) <= _Alignof(weir__sha256),
               "weir__sha256 must be aligned for libcrypto's context");

static SHA256_CTX *context_of(weir__sha256 *sha) {
    return (SHA256_CTX *)(void *)sha->state;
}

void weir__sha256_init(weir__sha256 *sha) {
    SHA256_Init(context_of(sha));
}

void weir__sha256_update(weir__sha256 *sha, const void *data, size_t size) {
    SHA256_Update(context_of(sha), data, size);
}

void weir__sha256_final(weir__sha256 *sha, uint8_t digest[32]) {
    SHA256_Final(digest, context_of(sha));
    WEIR__WRITTEN(digest, 32);
}

void weir__sha256_of(const void *data, size_t size, uint8_t digest[32]) {
    weir__sha256 sha;
    weir__sha256_init(&sha);
    weir__sha256_update(&sha, data, size);
    weir__sha256_final(&sha, digest);
}

void weir__sha512_of(const void *data, size_t size, uint8_t digest[64]) {
    SHA512_CTX context;
    SHA512_Init(&context);
    SHA512_Update(&context, data, size);
    SHA512_Final(digest, &context);
    WEIR__WRITTEN(digest, 64);
}
