/* Canonical CBOR, both ways. The golden file holds values as typed trees; they are written through the
 * writer, read back through the checker and the views, and compared at every step. What is refused must be
 * refused at the right byte. */
#include <stdlib.h>
#include <string.h>

#include "base/internal.h"
#include "support/cbor_copy.h"
#include "support/testing.h"

/* ---- Typed trees ----------------------------------------------------------------------------- */

static const char *tree_type(json_t *tree) {
    return json_string_value(json_array_get(tree, 0));
}

static json_t *tree_content(json_t *tree) {
    return json_array_get(tree, 1);
}

/* -1 - n for negative decimals down to -2^64. */
static void parse_int(const char *decimal, bool *is_negative, uint64_t *number) {
    unsigned __int128 value = 0;
    *is_negative = *decimal == '-';
    for (decimal += *is_negative; *decimal; decimal++)
        value = value * 10 + (unsigned)(*decimal - '0');
    *number = (uint64_t)(value - *is_negative);
}

static uint64_t parse_bits(const char *hex) {
    return strtoull(hex, NULL, 16);
}

static int compare_pairs(const void *a, const void *b) {
    json_t *left = json_array_get(*(json_t *const *)a, 0);
    json_t *right = json_array_get(*(json_t *const *)b, 0);
    return weir__key_compare(json_string_value(left), json_string_length(left), json_string_value(right),
                             json_string_length(right));
}

static void write_tree(weir_cbor_writer *w, json_t *tree);

static void write_map(weir_cbor_writer *w, json_t *pairs) {
    json_t *sorted[64];
    size_t count = json_array_size(pairs);
    assert_true(count <= 64);
    for (size_t i = 0; i < count; i++)
        sorted[i] = json_array_get(pairs, i);
    qsort(sorted, count, sizeof sorted[0], compare_pairs);
    weir_cbor_map(w, count);
    for (size_t i = 0; i < count; i++) {
        json_t *key = json_array_get(sorted[i], 0);
        weir_cbor_text_n(w, json_string_value(key), json_string_length(key));
        write_tree(w, json_array_get(sorted[i], 1));
    }
}

static void write_int(weir_cbor_writer *w, const char *decimal) {
    bool is_negative;
    uint64_t number;
    parse_int(decimal, &is_negative, &number);
    if (is_negative)
        weir_cbor_negative(w, number);
    else
        weir_cbor_uint(w, number);
}

static void write_float(weir_cbor_writer *w, const char *hex) {
    uint64_t bits = parse_bits(hex);
    double value;
    memcpy(&value, &bits, sizeof value);
    weir_cbor_double(w, value);
}

static void write_tree(weir_cbor_writer *w, json_t *tree) {
    const char *type = tree_type(tree);
    json_t *content = tree_content(tree);
    size_t size;
    if (strcmp(type, "int") == 0) {
        write_int(w, json_string_value(content));
    } else if (strcmp(type, "bytes") == 0) {
        const uint8_t *data = bytes_of_hex(json_string_value(content), &size);
        weir_cbor_bytes(w, data, size);
    } else if (strcmp(type, "text") == 0) {
        weir_cbor_text_n(w, json_string_value(content), json_string_length(content));
    } else if (strcmp(type, "text_hex") == 0) {
        const uint8_t *data = bytes_of_hex(json_string_value(content), &size);
        weir_cbor_text_n(w, (const char *)data, size);
    } else if (strcmp(type, "float") == 0) {
        write_float(w, json_string_value(content));
    } else if (strcmp(type, "array") == 0) {
        weir_cbor_array(w, json_array_size(content));
        for (size_t i = 0; i < json_array_size(content); i++)
            write_tree(w, json_array_get(content, i));
    } else if (strcmp(type, "map") == 0) {
        write_map(w, content);
    } else if (strcmp(type, "null") == 0) {
        weir_cbor_null(w);
    } else {
        weir_cbor_bool(w, strcmp(type, "true") == 0);
    }
}

static void assert_view_is_tree(const weir_cbor_value *value, json_t *tree);

static void assert_view_is_map(const weir_cbor_value *value, json_t *pairs) {
    assert_int_equal(value->type, WEIR_CBOR_MAP);
    assert_int_equal(value->number, json_array_size(pairs));
    for (size_t i = 0; i < json_array_size(pairs); i++) {
        weir_cbor_value child;
        json_t *pair = json_array_get(pairs, i);
        assert_true(weir_cbor_get(value, json_string_value(json_array_get(pair, 0)), &child));
        assert_view_is_tree(&child, json_array_get(pair, 1));
    }
}

static void assert_view_is_array(const weir_cbor_value *value, json_t *items) {
    assert_int_equal(value->type, WEIR_CBOR_ARRAY);
    assert_int_equal(value->number, json_array_size(items));
    weir_cbor_iterator it = weir_cbor_children(value);
    weir_cbor_value child;
    size_t found = 0;
    while (weir_cbor_next(&it, NULL, &child))
        assert_view_is_tree(&child, json_array_get(items, found++));
    assert_int_equal(found, json_array_size(items));
    assert_ptr_equal(it.next, weir_cbor_skip(value->item));
}

static void assert_view_is_string(const weir_cbor_value *value, weir_cbor_type type, const void *data,
                                  size_t size) {
    assert_int_equal(value->type, type);
    assert_int_equal(value->number, size);
    assert_memory_equal(value->data, data, size);
}

static void assert_view_is_int(const weir_cbor_value *value, const char *decimal) {
    bool is_negative;
    uint64_t number;
    parse_int(decimal, &is_negative, &number);
    assert_int_equal(value->type, is_negative ? WEIR_CBOR_NEGATIVE : WEIR_CBOR_UINT);
    assert_true(value->number == number);
}

static void assert_view_is_float(const weir_cbor_value *value, const char *hex) {
    uint64_t bits;
    memcpy(&bits, &value->real, sizeof bits);
    assert_int_equal(value->type, WEIR_CBOR_FLOAT);
    assert_true(bits == parse_bits(hex));
}

static void assert_view_is_tree(const weir_cbor_value *value, json_t *tree) {
    const char *type = tree_type(tree);
    json_t *content = tree_content(tree);
    size_t size;
    if (strcmp(type, "int") == 0) {
        assert_view_is_int(value, json_string_value(content));
    } else if (strcmp(type, "bytes") == 0) {
        const uint8_t *data = bytes_of_hex(json_string_value(content), &size);
        assert_view_is_string(value, WEIR_CBOR_BYTES, data, size);
    } else if (strcmp(type, "text") == 0) {
        assert_view_is_string(value, WEIR_CBOR_TEXT, json_string_value(content), json_string_length(content));
    } else if (strcmp(type, "text_hex") == 0) {
        const uint8_t *data = bytes_of_hex(json_string_value(content), &size);
        assert_view_is_string(value, WEIR_CBOR_TEXT, data, size);
    } else if (strcmp(type, "float") == 0) {
        assert_view_is_float(value, json_string_value(content));
    } else if (strcmp(type, "array") == 0) {
        assert_view_is_array(value, content);
    } else if (strcmp(type, "map") == 0) {
        assert_view_is_map(value, content);
    } else if (strcmp(type, "null") == 0) {
        assert_int_equal(value->type, WEIR_CBOR_NULL);
    } else {
        assert_int_equal(value->type, WEIR_CBOR_BOOL);
        assert_int_equal(value->number, strcmp(type, "true") == 0);
    }
}

/* ---- Golden values --------------------------------------------------------------------------- */

static void every_golden_value_has_its_one_encoding(void **state) {
    (void)state;
    json_t *vectors = load_vectors("canonical_cbor.json");
    json_t *list = member(vectors, "encode");
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *vector = json_array_get(list, i);
        weir_cbor_writer w;
        weir_error error;
        weir_cbor_writer_memory(&w, NULL);
        write_tree(&w, member(vector, "value"));
        assert_ok(weir_cbor_finish(&w, &error), &error);
        assert_hex_equal(w.data, w.size, member_text(vector, "hex"));
        weir_cbor_release(&w);
    }
    json_decref(vectors);
}

static void every_golden_encoding_reads_back_and_encodes_again(void **state) {
    (void)state;
    json_t *vectors = load_vectors("canonical_cbor.json");
    json_t *list = member(vectors, "encode");
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *vector = json_array_get(list, i);
        weir_error error;
        weir_cbor_writer w;
        uint8_t data[1024];
        size_t size;
        const uint8_t *encoded = bytes_of_hex(member_text(vector, "hex"), &size);
        memcpy(data, encoded, size);
        assert_ok(weir_cbor_check(data, size, NULL, &error), &error);
        assert_ptr_equal(weir_cbor_skip(data), data + size);
        weir_cbor_value value = weir_cbor_view(data);
        assert_view_is_tree(&value, member(vector, "value"));
        weir_cbor_writer_memory(&w, NULL);
        copy_view(&w, &value);
        assert_ok(weir_cbor_finish(&w, &error), &error);
        assert_int_equal(w.size, size);
        assert_memory_equal(w.data, data, size);
        weir_cbor_release(&w);
    }
    json_decref(vectors);
}

static void every_golden_json_becomes_the_same_encoding(void **state) {
    (void)state;
    json_t *vectors = load_vectors("canonical_cbor.json");
    json_t *list = member(vectors, "encode");
    size_t seen = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *vector = json_array_get(list, i);
        json_t *text = json_object_get(vector, "json");
        if (!text)
            continue;
        weir_error error;
        weir_cbor_writer w;
        weir_cbor_writer_memory(&w, NULL);
        assert_ok(weir_json_read(json_string_value(text), json_string_length(text), "test", WEIR_CBOR_INVALID,
                                 &w, &error),
                  &error);
        assert_ok(weir_cbor_finish(&w, &error), &error);
        assert_hex_equal(w.data, w.size, member_text(vector, "hex"));
        weir_cbor_release(&w);
        seen++;
    }
    assert_true(seen > 100);
    json_decref(vectors);
}

static uint64_t offset_of_fault(const uint8_t *data, size_t size) {
    weir_error error;
    assert_fails(weir_cbor_check(data, size, NULL, &error), WEIR_CBOR_INVALID, &error);
    assert_string_equal(error.diagnostics[0].name, "offset");
    assert_string_equal(error.diagnostics[1].name, "fault");
    return error.diagnostics[0].number;
}

static void every_golden_fault_is_found_where_it_is(void **state) {
    (void)state;
    json_t *vectors = load_vectors("canonical_cbor.json");
    json_t *list = member(vectors, "reject");
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *vector = json_array_get(list, i);
        size_t size;
        const uint8_t *data = bytes_of_hex(member_text(vector, "hex"), &size);
        uint64_t offset = offset_of_fault(data, size);
        if (offset != member_uint(vector, "offset"))
            fail_msg("%s (%s): offset %llu", member_text(vector, "hex"), member_text(vector, "why"),
                     (unsigned long long)offset);
    }
    json_decref(vectors);
}

/* The offset of the innermost item of accepted bytes that ends after `cut`, or begins at it where a
 * container wants it and then is that container. */
static size_t innermost_cut(const uint8_t *from, const uint8_t *item, size_t cut) {
    weir_cbor_value value = weir_cbor_view(item);
    weir_cbor_iterator it = weir_cbor_children(&value);
    weir_cbor_value key, child;
    while (weir_cbor_next(&it, &key, &child)) {
        if (it.is_map && (size_t)(key.item - from) < cut && (size_t)(child.item - from) > cut)
            return (size_t)(key.item - from);
        if ((size_t)(child.item - from) < cut && (size_t)(it.next - from) > cut)
            return innermost_cut(from, child.item, cut);
    }
    return (size_t)(item - from);
}

static void every_cut_of_every_golden_value_is_refused(void **state) {
    (void)state;
    json_t *vectors = load_vectors("canonical_cbor.json");
    json_t *list = member(vectors, "encode");
    for (size_t i = 0; i < json_array_size(list); i++) {
        size_t size;
        const uint8_t *data = bytes_of_hex(member_text(json_array_get(list, i), "hex"), &size);
        for (size_t cut = 0; cut < size; cut++) {
            /* A copy of exactly that size, so that a sanitizer sees a read past the cut. */
            uint8_t *copy = malloc(cut ? cut : 1);
            assert_non_null(copy);
            memcpy(copy, data, cut);
            assert_int_equal(offset_of_fault(copy, cut), innermost_cut(data, data, cut));
            free(copy);
        }
    }
    json_decref(vectors);
}

static void bytes_after_a_value_are_a_fault_or_the_next_item(void **state) {
    (void)state;
    static const uint8_t sequence[] = {0x82, 0x01, 0x61, 'k', 0xF6, 0x18};
    weir_error error;
    size_t size;
    assert_int_equal(offset_of_fault(sequence, 5), 4);
    assert_ok(weir_cbor_check(sequence, sizeof sequence, &size, &error), &error);
    assert_int_equal(size, 4);
    assert_ok(weir_cbor_check(sequence + 4, 2, &size, &error), &error);
    assert_int_equal(size, 1);
    assert_fails(weir_cbor_check(sequence + 5, 1, &size, &error), WEIR_CBOR_INVALID, &error);
}

/* Every input of up to three bytes: what is accepted encodes to itself, so two inputs never mean one value.
 */
static void every_short_input_is_refused_or_canonical(void **state) {
    (void)state;
    size_t accepted = 0;
    for (uint32_t bits = 0; bits < 1 << 24; bits++) {
        uint8_t data[3] = {(uint8_t)(bits >> 16), (uint8_t)(bits >> 8), (uint8_t)bits};
        size_t size;
        if (weir_cbor_check(data, sizeof data, &size, NULL) != WEIR_OK)
            continue;
        if (size < 3 && data[2] != 0)
            continue; /* seen before, with another byte behind it */
        uint8_t buffer[3];
        weir_cbor_writer w;
        weir_cbor_value value = weir_cbor_view(data);
        weir_cbor_writer_fixed(&w, buffer, sizeof buffer);
        copy_view(&w, &value);
        assert_int_equal(weir_cbor_finish(&w, NULL), WEIR_OK);
        assert_int_equal(w.size, size);
        assert_memory_equal(buffer, data, size);
        accepted++;
    }
    assert_true(accepted > 65536);
}

/* ---- Views ----------------------------------------------------------------------------------- */

static void members_are_found_by_key_or_not_at_all(void **state) {
    (void)state;
    static const uint8_t map[] = {0xA2, 0x60, 0x01, 0x61, 'k', 0x82, 0x02, 0x03}; /* {"": 1, "k": [2, 3]} */
    weir_cbor_value value = weir_cbor_view(map), found;
    assert_true(weir_cbor_get(&value, "", &found) && found.number == 1);
    assert_true(weir_cbor_get(&value, "k", &found) && found.type == WEIR_CBOR_ARRAY);
    assert_false(weir_cbor_get(&value, "kk", &found));
    assert_false(weir_cbor_get(&found, "k", &value));
    weir_cbor_value scalar = weir_cbor_view(map + 2);
    weir_cbor_iterator it = weir_cbor_children(&scalar);
    assert_false(weir_cbor_next(&it, NULL, &found));
}

static bool reads_as_uint(const char *hex, uint64_t *out) {
    size_t size;
    const uint8_t *data = bytes_of_hex(hex, &size);
    weir_cbor_value value = weir_cbor_view(data);
    return weir_cbor_get_uint(&value, out);
}

static void integers_may_be_decimal_text(void **state) {
    (void)state;
    uint64_t number;
    assert_true(reads_as_uint("1bffffffffffffffff", &number) && number == UINT64_MAX);
    assert_true(reads_as_uint("743138343436373434303733373039353531363135", &number) && number == UINT64_MAX);
    assert_false(reads_as_uint("743138343436373434303733373039353531363136", &number)); /* 2^64 */
    assert_true(reads_as_uint("6130", &number) && number == 0);
    assert_false(reads_as_uint("623031", &number)); /* "01" */
    assert_false(reads_as_uint("60", &number));
    assert_false(reads_as_uint("20", &number)); /* -1 */
    assert_false(reads_as_uint("4130", &number));
    assert_false(reads_as_uint("fb3ff0000000000000", &number));
    assert_false(reads_as_uint("f5", &number));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_golden_value_has_its_one_encoding),
        cmocka_unit_test(every_golden_encoding_reads_back_and_encodes_again),
        cmocka_unit_test(every_golden_json_becomes_the_same_encoding),
        cmocka_unit_test(every_golden_fault_is_found_where_it_is),
        cmocka_unit_test(every_cut_of_every_golden_value_is_refused),
        cmocka_unit_test(bytes_after_a_value_are_a_fault_or_the_next_item),
        cmocka_unit_test(every_short_input_is_refused_or_canonical),
        cmocka_unit_test(members_are_found_by_key_or_not_at_all),
        cmocka_unit_test(integers_may_be_decimal_text),
    };
    return cmocka_run_group_tests_name("cbor", tests, NULL, NULL);
}
