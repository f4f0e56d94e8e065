/* Canonical CBOR, both ways. The golden file holds values as typed trees; they are written through the
 * writer, read back through the checker and the views, and compared at every step. What is refused must be
 * refused at the right byte. */
#include <stdlib.h>
#include <string.h>

#include "base/internal.h"
#include "support/testing.h"

/* ---- Typed trees ----------------------------------------------------------------------------------------
 */

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

/* Writes what the views show: encode(decode(b)). */
static void copy_view(weir_cbor_writer *w, const weir_cbor_value *value) {
    weir_cbor_iterator it = weir_cbor_children(value);
    weir_cbor_value key, child;
    switch (value->type) {
    case WEIR_CBOR_UINT:
        weir_cbor_uint(w, value->number);
        break;
    case WEIR_CBOR_NEGATIVE:
        weir_cbor_negative(w, value->number);
        break;
    case WEIR_CBOR_BYTES:
        weir_cbor_bytes(w, value->data, (size_t)value->number);
        break;
    case WEIR_CBOR_TEXT:
        weir_cbor_text_n(w, (const char *)value->data, (size_t)value->number);
        break;
    case WEIR_CBOR_BOOL:
        weir_cbor_bool(w, value->number != 0);
        break;
    case WEIR_CBOR_NULL:
        weir_cbor_null(w);
        break;
    case WEIR_CBOR_FLOAT:
        weir_cbor_double(w, value->real);
        break;
    case WEIR_CBOR_ARRAY:
        weir_cbor_array(w, value->number);
        while (weir_cbor_next(&it, NULL, &child))
            copy_view(w, &child);
        break;
    case WEIR_CBOR_MAP:
        weir_cbor_map(w, value->number);
        while (weir_cbor_next(&it, &key, &child)) {
            copy_view(w, &key);
            copy_view(w, &child);
        }
        break;
    }
}

/* ---- Golden values --------------------------------------------------------------------------------------
 */

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

/* The offset of the innermost item of accepted bytes that ends after `cut`, or begins at it where a container
 * wants it and then is that container. */
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

/* ---- Views ----------------------------------------------------------------------------------------------
 */

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

/* ---- What the writer refuses ----------------------------------------------------------------------------
 */

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

/* ---- Where bytes go -------------------------------------------------------------------------------------
 */

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
    weir_sha256 sha;
    uint8_t streamed[32], whole[32];
    weir_cbor_writer to_hash;
    weir_sha256_init(&sha);
    weir_cbor_writer_hash(&to_hash, &sha);
    write_sample(&to_hash);
    assert_ok(weir_cbor_finish(&to_hash, &error), &error);
    weir_sha256_final(&sha, streamed);
    write_sample(fresh_writer());
    assert_ok(weir_cbor_finish(&writer, &error), &error);
    weir_sha256_of(writer.data, writer.size, whole);
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
        cmocka_unit_test(every_golden_value_has_its_one_encoding),
        cmocka_unit_test(every_golden_encoding_reads_back_and_encodes_again),
        cmocka_unit_test(every_golden_json_becomes_the_same_encoding),
        cmocka_unit_test(every_golden_fault_is_found_where_it_is),
        cmocka_unit_test(every_cut_of_every_golden_value_is_refused),
        cmocka_unit_test(bytes_after_a_value_are_a_fault_or_the_next_item),
        cmocka_unit_test(every_short_input_is_refused_or_canonical),
        cmocka_unit_test(members_are_found_by_key_or_not_at_all),
        cmocka_unit_test(integers_may_be_decimal_text),
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
    return cmocka_run_group_tests_name("cbor", tests, NULL, NULL);
}
