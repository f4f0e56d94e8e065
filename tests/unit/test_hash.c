/* SHA-2 against the known answers of FIPS 180-4, Philox against the golden vectors. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/philox.h"
#include "support/testing.h"

/* ---- SHA-2 ----------------------------------------------------------------------------------- */

static const char two_blocks[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";

static void sha256_knows_its_answers(void **state) {
    (void)state;
    uint8_t digest[32];
    weir__sha256_of("", 0, digest);
    assert_hex_equal(digest, 32, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    weir__sha256_of("abc", 3, digest);
    assert_hex_equal(digest, 32, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    weir__sha256_of(two_blocks, strlen(two_blocks), digest);
    assert_hex_equal(digest, 32, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

static void sha256_of_a_million_letters_in_uneven_pieces(void **state) {
    (void)state;
    enum { SIZE = 1000000 };
    uint8_t digest[32];
    char *letters = malloc(SIZE);
    assert_non_null(letters);
    memset(letters, 'a', SIZE);
    weir__sha256 sha;
    weir__sha256_init(&sha);
    for (size_t done = 0, piece = 0; done < SIZE; done += piece) {
        piece = piece * 3 + 1;
        piece = piece > SIZE - done ? SIZE - done : piece;
        weir__sha256_update(&sha, letters + done, piece);
    }
    weir__sha256 fork = sha; /* a plain value: a copy goes its own way */
    weir__sha256_final(&sha, digest);
    assert_hex_equal(digest, 32, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    weir__sha256_update(&fork, "more", 4);
    weir__sha256_final(&fork, digest);
    weir__sha256_init(&sha);
    weir__sha256_update(&sha, letters, SIZE);
    weir__sha256_update(&sha, "more", 4);
    uint8_t expected[32];
    weir__sha256_final(&sha, expected);
    assert_memory_equal(digest, expected, 32);
    free(letters);
}

static void sha512_knows_its_answers(void **state) {
    (void)state;
    uint8_t digest[64];
    weir__sha512_of("", 0, digest);
    assert_hex_equal(digest, 64,
                     "cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce"
                     "47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e");
    weir__sha512_of("abc", 3, digest);
    assert_hex_equal(digest, 64,
                     "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
                     "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f");
}

/* ---- Philox ---------------------------------------------------------------------------------- */

static uint32_t word_of(json_t *list, size_t index) {
    return (uint32_t)strtoul(json_string_value(json_array_get(list, index)), NULL, 16);
}

static weir_seed seed_of(json_t *vector) {
    size_t size;
    const uint8_t *bytes = bytes_of_hex(member_text(vector, "seed"), &size);
    assert_int_equal(size, 16);
    return weir_seed_load(bytes);
}

static void philox_knows_its_answers(void **state) {
    (void)state;
    json_t *vectors = load_vectors("philox.json");
    json_t *list = member(vectors, "philox4x32");
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *vector = json_array_get(list, i);
        json_t *counter = member(vector, "ctr"), *key = member(vector, "key"), *out = member(vector, "out");
        weir_seed seed = {{word_of(key, 0), word_of(key, 1), word_of(counter, 2), word_of(counter, 3)}};
        weir_random drawn = weir_philox(seed, 0, word_of(counter, 0) | (uint64_t)word_of(counter, 1) << 32);
        assert_true(drawn.k0 == (word_of(out, 0) | (uint64_t)word_of(out, 1) << 32));
        assert_true(drawn.k1 == (word_of(out, 2) | (uint64_t)word_of(out, 3) << 32));
    }
    json_decref(vectors);
}

static void seeds_domains_and_counters_meet_as_the_contract_says(void **state) {
    (void)state;
    json_t *vectors = load_vectors("philox.json");
    json_t *list = member(vectors, "P");
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *vector = json_array_get(list, i);
        weir_random drawn =
            weir_philox(seed_of(vector), (uint32_t)member_uint(vector, "domain"), member_uint(vector, "n"));
        assert_true(drawn.k0 == member_uint(vector, "k0"));
        assert_true(drawn.k1 == member_uint(vector, "k1"));
    }
    json_decref(vectors);
}

static void bounded_numbers_are_exact(void **state) {
    (void)state;
    json_t *vectors = load_vectors("philox.json");
    json_t *list = member(vectors, "bounded");
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *vector = json_array_get(list, i);
        weir_random drawn =
            weir_philox(seed_of(vector), (uint32_t)member_uint(vector, "domain"), member_uint(vector, "n"));
        assert_true(weir__scale(drawn, member_uint(vector, "range")) == member_uint(vector, "result"));
    }
    json_decref(vectors);
}

/* (x * range) >> 128 by long multiplication in 32-bit digits, as one learns it. */
static uint64_t scale_slowly(weir_random x, uint64_t range) {
    uint32_t digits[4] = {(uint32_t)x.k0, (uint32_t)(x.k0 >> 32), (uint32_t)x.k1, (uint32_t)(x.k1 >> 32)};
    uint32_t factor[2] = {(uint32_t)range, (uint32_t)(range >> 32)};
    uint32_t product[6] = {0};
    for (int f = 0; f < 2; f++) {
        uint64_t carry = 0;
        for (int d = 0; d < 4; d++) {
            uint64_t sum = (uint64_t)digits[d] * factor[f] + product[d + f] + carry;
            product[d + f] = (uint32_t)sum;
            carry = sum >> 32;
        }
        product[4 + f] = (uint32_t)carry;
    }
    return product[4] | (uint64_t)product[5] << 32;
}

static void bounded_equals_long_multiplication(void **state) {
    (void)state;
    random_stream random = {3};
    for (int i = 0; i < 100000; i++) {
        weir_seed seed = {{(uint32_t)random_next(&random), 2, 3, 4}};
        uint64_t n = random_next(&random);
        uint64_t range = random_next(&random) >> random_below(&random, 64);
        weir_random random_bits = weir_philox(seed, WEIR_DOMAIN_WALK, n);
        uint64_t drawn = weir__scale(random_bits, range);
        assert_true(drawn == scale_slowly(random_bits, range));
        assert_true(range == 0 ? drawn == 0 : drawn < range);
    }
}

static void a_seed_is_its_bytes(void **state) {
    (void)state;
    uint8_t bytes[16];
    for (uint8_t i = 0; i < 16; i++)
        bytes[i] = (uint8_t)(i * 17 + 1);
    weir_seed seed = weir_seed_load(bytes);
    assert_int_equal(seed.word[0], 0x34231201);
    for (size_t i = 0; i < 16; i++)
        assert_int_equal(seed.word[i / 4] >> 8 * (i % 4) & 0xFF, bytes[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sha256_knows_its_answers),
        cmocka_unit_test(sha256_of_a_million_letters_in_uneven_pieces),
        cmocka_unit_test(sha512_knows_its_answers),
        cmocka_unit_test(philox_knows_its_answers),
        cmocka_unit_test(seeds_domains_and_counters_meet_as_the_contract_says),
        cmocka_unit_test(bounded_numbers_are_exact),
        cmocka_unit_test(bounded_equals_long_multiplication),
        cmocka_unit_test(a_seed_is_its_bytes),
    };
    return cmocka_run_group_tests_name("hash", tests, NULL, NULL);
}
