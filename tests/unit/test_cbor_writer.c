/* The canonical CBOR writer on its own: what it refuses and that a refusal sticks, where its bytes go, and
 * sequences of values. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "support/testing.h"

/* ---- What the writer refuses ----------------------------------------------------------------- */

static weir_cbor_writer writer;

static weir_cbor_writer *fresh_writer(void) {
    weir_cbor_writer_memory(&writer, NULL);
    return &writer;
}

/* The fault sticks: what comes after it changes nothing. */
static void assert_refused(const char *why) {
    weir_error error;
    size_t size = writer.size;
    weir_cbor_uint(&writer, 1);
    weir_cbor_text(&writer, "zzzzzzzzzz");
    assert_fails(weir_cbor_finish(&writer, &error), WEIR_CBOR_INVALID, &error);
    assert_non_null(strstr(error.message, why));
    assert_int_equal(writer.size, size);
    weir_cbor_release(&writer);
}

static void keys_out_of_order_are_refused(void **state) {
    (void)state;
    static const char *const pairs[][2] = {{"b", "a"}, {"a", "a"}, {"aa", "b"}, {"a", ""}, {"", ""}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        weir_cbor_writer *w = fresh_writer();
        weir_cbor_map(w, 2);
        weir_cbor_text(w, pairs[i][0]);
        weir_cbor_null(w);
        weir_cbor_text(w, pairs[i][1]);
        assert_refused("order or twice");
    }
}

static void key_order_is_kept_across_nested_maps(void **state) {
    (void)state;
    weir_error error;
    weir_cbor_writer *w = fresh_writer();
    weir_cbor_map(w, 2);
    weir_cbor_text(w, "a");
    weir_cbor_map(w, 1);
    weir_cbor_text(w, "z");
    weir_cbor_text(w, "a value is no key, whatever it says");
    weir_cbor_text(w, "b");
    weir_cbor_array(w, 0);
    assert_ok(weir_cbor_finish(w, &error), &error);
    weir_cbor_release(w);
    w = fresh_writer();
    weir_cbor_map(w, 2);
    weir_cbor_text(w, "b");
    weir_cbor_map(w, 1);
    weir_cbor_text(w, "c");
    weir_cbor_null(w);
    weir_cbor_text(w, "a");
    assert_refused("order or twice");
}

static void keys_that_are_no_text_are_refused(void **state) {
    (void)state;
    for (int kind = 0; kind < 8; kind++) {
        weir_cbor_writer *w = fresh_writer();
        weir_cbor_map(w, 1);
        switch (kind) {
        case 0:
            weir_cbor_uint(w, 1);
            break;
        case 1:
            weir_cbor_int(w, -1);
            break;
        case 2:
            weir_cbor_bytes(w, "k", 1);
            break;
        case 3:
            weir_cbor_array(w, 0);
            break;
        case 4:
            weir_cbor_map(w, 0);
            break;
        case 5:
            weir_cbor_double(w, 1.0);
            break;
        case 6:
            weir_cbor_bool(w, true);
            break;
        default:
            weir_cbor_null(w);
        }
        assert_refused("not text");
    }
}

static void text_that_is_not_utf8_is_refused(void **state) {
    (void)state;
    static const char *const faults[] = {"\xff",    "a\x80", "\xC0\xAF", "\xED\xA0\x80", "\xF4\x90\x80\x80",
                                         "\xE2\x82"};
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        weir_cbor_text(fresh_writer(), faults[i]);
        assert_refused("UTF-8");
    }
}

static void nesting_ends_at_64(void **state) {
    (void)state;
    for (int use_maps = 0; use_maps < 2; use_maps++)
        for (int levels = 64; levels <= 65; levels++) {
            weir_cbor_writer *w = fresh_writer();
            for (int i = 0; i < levels; i++) {
                if (use_maps) {
                    weir_cbor_map(w, i + 1 < levels);
                    if (i + 1 < levels)
                        weir_cbor_text(w, "k");
                } else {
                    weir_cbor_array(w, i + 1 < levels);
                }
            }
            if (levels == 65) {
                assert_refused("64 deep");
                continue;
            }
            weir_error error;
            assert_ok(weir_cbor_finish(w, &error), &error);
            assert_ok(weir_cbor_check(w->data, w->size, NULL, &error), &error);
            weir_cbor_release(w);
        }
}

static void items_are_counted(void **state) {
    (void)state;
    weir_error error;
    assert_fails(weir_cbor_finish(fresh_writer(), &error), WEIR_CBOR_INVALID, &error); /* none at all */
    weir_cbor_array(fresh_writer(), 2);
    weir_cbor_uint(&writer, 1);
    assert_fails(weir_cbor_finish(&writer, &error), WEIR_CBOR_INVALID, &error);
    assert_non_null(strstr(error.message, "fewer items"));
    weir_cbor_release(&writer);
    weir_cbor_map(fresh_writer(), 1);
    weir_cbor_text(&writer, "key without a value");
    assert_fails(weir_cbor_finish(&writer, &error), WEIR_CBOR_INVALID, &error);
    weir_cbor_release(&writer);
    weir_cbor_array(fresh_writer(), 1);
    weir_cbor_uint(&writer, 1);
    weir_cbor_uint(&writer, 2);
    assert_refused("more items");
    weir_cbor_null(fresh_writer());
    weir_cbor_null(&writer);
    assert_refused("more items");
    weir_cbor_map(fresh_writer(), UINT64_MAX / 2 + 1);
    assert_refused("pairs");
}

/* ---- Where bytes go -------------------------------------------------------------------------- */

static void write_sample(weir_cbor_writer *w) {
    static const uint8_t bytes[300] = {1, 2, 3};
    weir_cbor_array(w, 5);
    weir_cbor_bytes(w, bytes, sizeof bytes);
    weir_cbor_int(w, INT64_MIN);
    weir_cbor_text(w, "a text of some length, so that the buffer grows");
    weir_cbor_map(w, 2);
    weir_cbor_text(w, "k");
    weir_cbor_double(w, -0.0);
    weir_cbor_text(w, "l");
    weir_cbor_array(w, 0);
    weir_cbor_bool(w, false);
}

static void a_hash_writer_hashes_what_a_memory_writer_keeps(void **state) {
    (void)state;
    weir_error error;
    weir__sha256 sha;
    uint8_t streamed[32], whole[32];
    weir_cbor_writer to_hash;
    weir__sha256_init(&sha);
    weir__cbor_writer_hash(&to_hash, &sha);
    write_sample(&to_hash);
    assert_ok(weir_cbor_finish(&to_hash, &error), &error);
    weir__sha256_final(&sha, streamed);
    write_sample(fresh_writer());
    assert_ok(weir_cbor_finish(&writer, &error), &error);
    weir__sha256_of(writer.data, writer.size, whole);
    assert_int_equal(to_hash.size, writer.size);
    assert_memory_equal(streamed, whole, sizeof whole);
    weir_cbor_release(&to_hash);
    weir_cbor_release(&writer);
}

static void a_fixed_buffer_holds_what_fits_and_nothing_past_it(void **state) {
    (void)state;
    weir_error error;
    write_sample(fresh_writer());
    assert_ok(weir_cbor_finish(&writer, &error), &error);
    for (size_t capacity = 0; capacity <= writer.size + 1; capacity++) {
        weir_cbor_writer w;
        uint8_t *buffer = malloc(capacity + 1);
        assert_non_null(buffer);
        buffer[capacity] = 0xA5;
        weir_cbor_writer_fixed(&w, buffer, capacity);
        write_sample(&w);
        bool fits = capacity >= writer.size;
        assert_fails(weir_cbor_finish(&w, &error), fits ? WEIR_OK : WEIR_OUT_OF_MEMORY, &error);
        assert_true(w.size <= capacity && buffer[capacity] == 0xA5);
        assert_memory_equal(buffer, writer.data, w.size);
        weir_cbor_release(&w);
        free(buffer);
    }
    weir_cbor_release(&writer);
}

static void restart_makes_a_sequence_of_whole_values(void **state) {
    (void)state;
    weir_error error;
    weir_cbor_writer *w = fresh_writer();
    weir_cbor_array(w, 1);
    weir_cbor_uint(w, 7);
    weir_cbor_restart(w);
    weir_cbor_text(w, "k");
    assert_ok(weir_cbor_finish(w, &error), &error);
    assert_hex_equal(w->data, w->size, "8107616b");
    weir_cbor_restart(w);
    assert_fails(weir_cbor_finish(w, &error), WEIR_CBOR_INVALID, &error);
    weir_cbor_release(w);
    weir_cbor_array(fresh_writer(), 2);
    weir_cbor_restart(&writer); /* inside a value: no effect */
    weir_cbor_uint(&writer, 1);
    assert_fails(weir_cbor_finish(&writer, &error), WEIR_CBOR_INVALID, &error);
    weir_cbor_release(&writer);
}

static void a_raw_item_takes_one_place(void **state) {
    (void)state;
    static const uint8_t item[] = {0x82, 0x01, 0x02};
    weir_error error;
    weir_cbor_map(fresh_writer(), 1);
    weir_cbor_text(&writer, "k");
    weir_cbor_raw(&writer, item, sizeof item);
    assert_ok(weir_cbor_finish(&writer, &error), &error);
    assert_hex_equal(writer.data, writer.size, "a1616b820102");
    weir_cbor_release(&writer);
    weir_cbor_map(fresh_writer(), 1);
    weir_cbor_raw(&writer, item, sizeof item);
    assert_refused("not text");
}

static void signed_integers_and_every_nan_have_one_form(void **state) {
    (void)state;
    weir_error error;
    weir_cbor_writer *w = fresh_writer();
    weir_cbor_array(w, 6);
    weir_cbor_int(w, INT64_MIN);
    weir_cbor_int(w, -1);
    weir_cbor_int(w, INT64_MAX);
    weir_cbor_double(w, __builtin_nan("123"));
    weir_cbor_double(w, -__builtin_nan(""));
    weir_cbor_double(w, -__builtin_inf());
    assert_ok(weir_cbor_finish(w, &error), &error);
    assert_hex_equal(w->data, w->size,
                     "863b7fffffffffffffff201b7ffffffffffffffffb7ff8000000000000fb7ff8000000000000"
                     "fbfff0000000000000");
    weir_cbor_release(w);
}

static void nothing_may_be_given_as_a_null_pointer(void **state) {
    (void)state;
    weir_error error;
    weir_cbor_writer *w = fresh_writer();
    weir_cbor_array(w, 3);
    weir_cbor_bytes(w, NULL, 0);
    weir_cbor_text_n(w, NULL, 0);
    weir_cbor_map(w, 1);
    weir_cbor_text_n(w, NULL, 0);
    weir_cbor_null(w);
    assert_ok(weir_cbor_finish(w, &error), &error);
    assert_hex_equal(w->data, w->size, "834060a160f6");
    weir_cbor_release(w);
    assert_fails(weir_cbor_check(NULL, 0, NULL, &error), WEIR_CBOR_INVALID, &error);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_out_of_order_are_refused),
        cmocka_unit_test(key_order_is_kept_across_nested_maps),
        cmocka_unit_test(keys_that_are_no_text_are_refused),
        cmocka_unit_test(text_that_is_not_utf8_is_refused),
        cmocka_unit_test(nesting_ends_at_64),
        cmocka_unit_test(items_are_counted),
        cmocka_unit_test(a_hash_writer_hashes_what_a_memory_writer_keeps),
        cmocka_unit_test(a_fixed_buffer_holds_what_fits_and_nothing_past_it),
        cmocka_unit_test(restart_makes_a_sequence_of_whole_values),
        cmocka_unit_test(a_raw_item_takes_one_place),
        cmocka_unit_test(signed_integers_and_every_nan_have_one_form),
        cmocka_unit_test(nothing_may_be_given_as_a_null_pointer),
    };
    return cmocka_run_group_tests_name("cbor writer", tests, NULL, NULL);
}
