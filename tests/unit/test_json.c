/* JSON: what the reader refuses and how it says so, and what the writer makes of text, numbers and nesting.
 */
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/internal.h"
#include "support/testing.h"
#include "weir_tool/store_tools.h"

/* ---- Reading --------------------------------------------------------------------------------- */

static weir_status read_json(const char *text, size_t size, weir_status family, weir_error *error) {
    weir_cbor_writer w;
    weir_cbor_writer_memory(&w, NULL);
    weir_status status = weir_json_read(text, size, "the text", family, &w, error);
    weir_cbor_release(&w);
    return status;
}

static void golden_faults_are_refused_in_the_callers_family(void **state) {
    (void)state;
    static const weir_status families[] = {WEIR_CBOR_INVALID, WEIR_MANIFEST_INVALID, WEIR_INVALID_IR,
                                           WEIR_SCHEMA_INVALID};
    json_t *vectors = load_vectors("canonical_cbor.json");
    json_t *list = member(vectors, "json_reject");
    assert_true(json_array_size(list) > 30);
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *text = member(json_array_get(list, i), "json");
        weir_error error;
        weir_status family = families[i % 4];
        assert_fails(read_json(json_string_value(text), json_string_length(text), family, &error), family,
                     &error);
        assert_non_null(strstr(error.message, "the text"));
    }
    json_decref(vectors);
}

static void a_syntax_fault_names_line_and_column(void **state) {
    (void)state;
    static const char text[] = "{\n  \"a\": 1,\n  \"b\": x\n}";
    weir_error error;
    assert_fails(read_json(text, strlen(text), WEIR_MANIFEST_INVALID, &error), WEIR_MANIFEST_INVALID, &error);
    assert_non_null(strstr(error.message, "the text:3:8:"));
    assert_string_equal(error.diagnostics[0].name, "line");
    assert_int_equal(error.diagnostics[0].number, 3);
    assert_string_equal(error.diagnostics[1].name, "column");
    assert_int_equal(error.diagnostics[1].number, 8);
}

static void raw_bytes_that_are_no_json_text_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t size;
    } faults[] = {
        {"[\"\xff\"]", 5}, {"[\"\xC0\xAF\"]", 6},     {"[1]\0", 4}, {"\xEF\xBB\xBF[1]", 6}, {"[\"a\0b\"]", 7},
        {"\x1b[2J", 4},    {"[\"\xED\xA0\x80\"]", 7},
    };
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        weir_error error;
        assert_fails(read_json(faults[i].text, faults[i].size, WEIR_CBOR_INVALID, &error), WEIR_CBOR_INVALID,
                     &error);
        assert_true(weir__utf8_is_valid(error.message, strlen(error.message)));
        assert_null(strchr(error.message, '\x1b'));
    }
}

static void nesting_beyond_any_stack_is_refused(void **state) {
    (void)state;
    enum { DEPTH = 1000000 };
    char *text = malloc(DEPTH);
    assert_non_null(text);
    memset(text, '[', DEPTH);
    weir_error error;
    assert_fails(read_json(text, DEPTH, WEIR_CBOR_INVALID, &error), WEIR_CBOR_INVALID, &error);
    free(text);
}

static void a_fixed_writer_takes_json_too(void **state) {
    (void)state;
    uint8_t buffer[8];
    weir_error error;
    weir_cbor_writer w;
    weir_cbor_writer_fixed(&w, buffer, sizeof buffer);
    assert_ok(weir_json_read("{\"b\": 1, \"a\": 2}", 16, "test", WEIR_CBOR_INVALID, &w, &error), &error);
    assert_ok(weir_cbor_finish(&w, &error), &error);
    assert_hex_equal(w.data, w.size, "a2616102616201");
    weir_cbor_writer_fixed(&w, buffer, 4);
    assert_fails(weir_json_read("{\"b\": 1, \"a\": 2}", 16, "test", WEIR_CBOR_INVALID, &w, &error),
                 WEIR_OUT_OF_MEMORY, &error);
}

/* ---- Against another reader ------------------------------------------------------------------ */

static int compare_names(const void *a, const void *b) {
    const char *left = *(const char *const *)a, *right = *(const char *const *)b;
    return weir__key_compare(left, strlen(left), right, strlen(right));
}

/* What jansson has read, as CBOR. */
static void write_tree(json_t *value, weir_cbor_writer *w) {
    const char *names[64];
    size_t count = 0;
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        weir_cbor_map(w, json_object_size(value));
        for (void *it = json_object_iter(value); it && count < 64; it = json_object_iter_next(value, it))
            names[count++] = json_object_iter_key(it);
        qsort(names, count, sizeof *names, compare_names);
        for (size_t i = 0; i < count; i++) {
            weir_cbor_text(w, names[i]);
            write_tree(json_object_get(value, names[i]), w);
        }
        break;
    case JSON_ARRAY:
        weir_cbor_array(w, json_array_size(value));
        for (size_t i = 0; i < json_array_size(value); i++)
            write_tree(json_array_get(value, i), w);
        break;
    case JSON_STRING:
        weir_cbor_text_n(w, json_string_value(value), json_string_length(value));
        break;
    case JSON_INTEGER:
        weir_cbor_int(w, json_integer_value(value));
        break;
    case JSON_REAL:
        weir_cbor_double(w, json_real_value(value));
        break;
    case JSON_NULL:
        weir_cbor_null(w);
        break;
    default:
        weir_cbor_bool(w, json_is_true(value));
    }
}

/* Whether both refuse a text, or read the same from it. */
static void assert_both_agree(const char *text, size_t size, uint32_t *accepted) {
    weir_cbor_writer ours, theirs;
    weir_error error;
    weir_cbor_writer_memory(&ours, NULL);
    weir_cbor_writer_memory(&theirs, NULL);
    forget_stack();
    json_t *tree = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL);
    weir_status status = weir_json_read(text, size, "test", WEIR_CBOR_INVALID, &ours, &error);
    if (tree)
        write_tree(tree, &theirs);
    bool is_same =
        tree ? status == WEIR_OK && ours.size == theirs.size && memcmp(ours.data, theirs.data, ours.size) == 0
             : status == WEIR_CBOR_INVALID;
    if (!is_same)
        fail_msg("%.*s: %s", (int)size, text, status == WEIR_OK ? "read" : error.message);
    *accepted += tree != NULL;
    json_decref(tree);
    weir_cbor_release(&theirs);
    weir_cbor_release(&ours);
}

/* Texts of pieces that JSON is made of, and sound ones with some bytes changed. */
static void another_reader_reads_the_same(void **state) {
    static const char *const pieces[] = {
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"a\"",
        "\"b\"",
        "\"",
        "0",
        "1",
        "-",
        "12",
        ".5",
        "e3",
        "E-2",
        "+",
        " ",
        "\n",
        "true",
        "false",
        "null",
        "\\u0041",
        "\\ud83d",
        "\\ude00",
        "\\n",
        "\\x",
        "\xC3\xA9",
        "\xff",
        "9223372036854775807",
        "9223372036854775808",
        "1e308",
        "1e309",
    };
    static const char *const sound[] = {
        "{\"a\": [1, -2, 0.5e-3], \"bb\": {\"c\": null, \"\\u00e9\": true}, \"\\ud83d\\ude00\": \"x\\ty\"}",
        "[[], {}, [[\"\\\"\\\\\\/\\b\\f\"]], -0, -0.0, 1E400, 4.9e-324]",
        " \t\r\n[-9223372036854775808, \"\xE2\x82\xAC\", false ] ",
    };
    random_stream random = {21};
    uint32_t accepted = 0;
    (void)state;
    for (unsigned round = 0; round < 60000; round += test_stride()) {
        char text[256] = "";
        size_t size = 0;
        if (round % 2) {
            for (uint64_t i = 1 + random_below(&random, 9); i-- > 0;)
                strcat(text, pieces[random_below(&random, sizeof pieces / sizeof *pieces)]);
            size = strlen(text);
        } else {
            strcpy(text, sound[random_below(&random, 3)]);
            size = strlen(text);
            for (uint64_t i = random_below(&random, 3); i-- > 0;)
                text[random_below(&random, size)] =
                    (char)(1 + random_below(&random, 255)); /* jansson skips a NUL */
        }
        assert_both_agree(text, size, &accepted);
    }
    assert_true(accepted > 3000 / test_stride());
}

/* ---- Writing --------------------------------------------------------------------------------- */

static weir_json_writer writer;

static weir_json_writer *fresh_writer(void) {
    weir_json_writer_memory(&writer, NULL);
    return &writer;
}

static void assert_written(const char *expected) {
    weir_error error;
    assert_ok(weir_json_finish(&writer, &error), &error);
    assert_int_equal(writer.size, strlen(expected));
    assert_string_equal(writer.data, expected);
    weir_json_release(&writer);
}

static void text_is_escaped(void **state) {
    (void)state;
    weir_json_text(fresh_writer(), "plain, \xC3\xA9 \xE2\x82\xAC \xF0\x9D\x9B\xBC /");
    assert_written("\"plain, \xC3\xA9 \xE2\x82\xAC \xF0\x9D\x9B\xBC /\"");
    weir_json_text_n(fresh_writer(), "\"\\\n\t\r\b\f\x01\x1f\x7f\0z", 12);
    assert_written("\"\\\"\\\\\\n\\t\\u000d\\u0008\\u000c\\u0001\\u001f\\u007f\\u0000z\"");
    weir_json_text(fresh_writer(), "\xC2\x80\xC2\x9B\xC2\x9F\xC2\xA0");
    assert_written("\"\\u0080\\u009b\\u009f\xC2\xA0\"");
    weir_json_text_n(fresh_writer(), "a\xff\xC0\xAF\xE2\x82", 6);
    assert_written("\"a\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
    weir_json_text_n(fresh_writer(), NULL, 0);
    assert_written("\"\"");
}

/* Every byte string that the writer takes comes back from a strict reader. */
static void any_text_is_valid_json(void **state) {
    (void)state;
    random_stream random = {1};
    for (int round = 0; round < 2000; round++) {
        char text[24];
        size_t size = (size_t)random_below(&random, sizeof text);
        for (size_t i = 0; i < size; i++)
            text[i] = (char)random_next(&random);
        weir_error error;
        weir_json_text_n(fresh_writer(), text, size);
        assert_ok(weir_json_finish(&writer, &error), &error);
        forget_stack();
        json_t *value = json_loadb(writer.data, writer.size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        assert_true(json_is_string(value));
        if (weir__utf8_is_valid(text, size)) {
            assert_int_equal(json_string_length(value), size);
            assert_memory_equal(json_string_value(value), text, size);
        }
        json_decref(value);
        weir_json_release(&writer);
    }
}

static void commas_and_nesting(void **state) {
    (void)state;
    weir_json_writer *w = fresh_writer();
    weir_json_object(w);
    weir_json_key(w, "a");
    weir_json_array(w);
    weir_json_end_array(w);
    weir_json_key_n(w, "bcd", 1);
    weir_json_array(w);
    weir_json_uint(w, 1);
    weir_json_object(w);
    weir_json_end_object(w);
    weir_json_null(w);
    weir_json_end_array(w);
    weir_json_key(w, "c");
    weir_json_bool(w, true);
    weir_json_key(w, "d");
    weir_json_hex(w, "\x01\xab", 2);
    weir_json_key(w, "e");
    weir_json_uint_text(w, UINT64_MAX);
    weir_json_key(w, "f");
    weir_json_hex(w, NULL, 0);
    weir_json_end_object(w);
    assert_written("{\"a\": [], \"b\": [1, {}, null], \"c\": true, \"d\": \"01ab\", "
                   "\"e\": \"18446744073709551615\", \"f\": \"\"}");
}

static void integers_are_written_in_full(void **state) {
    (void)state;
    weir_json_writer *w = fresh_writer();
    weir_json_array(w);
    weir_json_uint(w, 0);
    weir_json_uint(w, UINT64_MAX);
    weir_json_int(w, INT64_MIN);
    weir_json_int(w, -1);
    weir_json_int(w, INT64_MAX);
    weir_json_end_array(w);
    assert_written("[0, 18446744073709551615, -9223372036854775808, -1, 9223372036854775807]");
}

static void checked_values_become_json(void **state) {
    (void)state;
    static const struct {
        const char *hex;
        const char *json;
    } values[] = {
        {"1bffffffffffffffff", "18446744073709551615"},
        {"3bffffffffffffffff", "-18446744073709551616"},
        {"3bfffffffffffffffe", "-18446744073709551615"},
        {"42ff00", "{\"bytes\": \"ff00\"}"},
        {"fb8000000000000000", "-0.0"},
        {"fb3ff0000000000000", "1.0"},
        {"fb7ff8000000000000", "{\"float\": \"7ff8000000000000\"}"},
        {"fbfff0000000000000", "{\"float\": \"fff0000000000000\"}"},
        {"83f4f5f6", "[false, true, null]"},
        {"a2617880626161a0", "{\"x\": [], \"aa\": {}}"},
        {"6300410a", "\"\\u0000A\\n\""},
    };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        size_t size;
        const uint8_t *data = bytes_of_hex(values[i].hex, &size);
        weir_error error;
        assert_ok(weir_cbor_check(data, size, NULL, &error), &error);
        weir_cbor_value value = weir_cbor_view(data);
        weir_json_value(fresh_writer(), &value);
        assert_written(values[i].json);
    }
}

/* ---- Doubles --------------------------------------------------------------------------------- */

static double from_bits(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void write_double(double value) {
    weir_error error;
    weir_json_double(fresh_writer(), value);
    assert_ok(weir_json_finish(&writer, &error), &error);
}

/* Significant digits, without the ".0" that only says that it is a float. */
static size_t digit_count(const char *text, size_t size) {
    size_t count = 0;
    bool is_leading = true;
    if (size > 2 && strcmp(text + size - 2, ".0") == 0)
        size -= 2;
    for (size_t i = 0; i < size && text[i] != 'e'; i++) {
        is_leading = is_leading && (text[i] == '0' || text[i] == '.' || text[i] == '-');
        count += !is_leading && text[i] != '.';
    }
    return count;
}

/* JSON's own grammar for a number with a point or an exponent. */
static bool is_json_float(const char *text) {
    text += *text == '-';
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || (digits > 1 && *text == '0'))
        return false;
    text += digits;
    bool is_float = *text == '.' || *text == 'e';
    if (*text == '.') {
        digits = strspn(++text, "0123456789");
        if (digits == 0)
            return false;
        text += digits;
    }
    if (*text == 'e') {
        text++;
        text += *text == '+' || *text == '-';
        digits = strspn(text, "0123456789");
        if (digits == 0)
            return false;
        text += digits;
    }
    return is_float && *text == 0;
}

static void assert_shortest(double value) {
    char shorter[40];
    write_double(value);
    assert_true(is_json_float(writer.data));
    double back = strtod(writer.data, NULL);
    assert_memory_equal(&back, &value, sizeof value);
    size_t digits = digit_count(writer.data, writer.size);
    if (digits > 1) {
        snprintf(shorter, sizeof shorter, "%.*e", (int)digits - 2, value);
        if (strtod(shorter, NULL) == value)
            fail_msg("%s is longer than %s", writer.data, shorter);
    }
    weir_json_release(&writer);
}

static void doubles_are_shortest_and_read_back(void **state) {
    (void)state;
    static const uint64_t edges[] = {
        0,
        0x8000000000000000u,
        1,
        2,
        0x000FFFFFFFFFFFFFu,
        0x0010000000000000u,
        0x7FEFFFFFFFFFFFFFu,
        0xFFEFFFFFFFFFFFFFu,
        0x3FF0000000000000u,
        0x3FF0000000000001u,
        0x3FEFFFFFFFFFFFFFu,
        0x4340000000000000u,
        0x4340000000000001u,
        0x3FB999999999999Au,
        0x7FE0000000000000u,
    };
    random_stream random = {2};
    for (size_t i = 0; i < sizeof edges / sizeof edges[0]; i++)
        assert_shortest(from_bits(edges[i]));
    for (int i = 0; i < 20000; i++) {
        double value = from_bits(random_next(&random));
        if (isfinite(value))
            assert_shortest(value);
        assert_shortest(from_bits(random_next(&random) >> 12)); /* subnormal */
        assert_shortest((double)random_below(&random, 100000) / 100.0);
    }
}

static void known_doubles_have_known_text(void **state) {
    (void)state;
    static const struct {
        double value;
        const char *text;
    } known[] = {
        {0.1, "0.1"},
        {1.0, "1.0"},
        {-0.0, "-0.0"},
        {1e100, "1e+100"},
        {5e-324, "5e-324"},
        {0.4, "0.4"},
        {8.673617379884035e-19, "8.673617379884035e-19"},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        weir_json_double(fresh_writer(), known[i].value);
        assert_written(known[i].text);
    }
    weir_json_double(fresh_writer(), __builtin_nan(""));
    assert_written("null");
    weir_json_double(fresh_writer(), -__builtin_inf());
    assert_written("null");
}

/* Makes a locale with this decimal separator in a folder and switches to it; false where that cannot be had
 * here. localedef warns of all that the source leaves out, so its exit status says nothing. */
static bool use_decimal_separator(const char *code_point, const char *separator, const char *folder) {
    char source[2 * SCRATCH_PATH], path[2 * SCRATCH_PATH], text[128];
    snprintf(source, sizeof source, "%s/source", folder);
    snprintf(path, sizeof path, "%s/xx_XX.UTF-8", folder);
    snprintf(text, sizeof text,
             "LC_NUMERIC\ndecimal_point \"%s\"\nthousands_sep \"\"\ngrouping -1\nEND LC_NUMERIC\n",
             code_point);
    write_whole_file(source, text, strlen(text));
    pid_t child = fork();
    if (child == 0) {
        if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
            _exit(1);
        execlp("localedef", "localedef", "-c", "-i", source, "-f", "UTF-8", path, (char *)NULL);
        _exit(1);
    }
    int status;
    return waitpid(child, &status, 0) == child && setenv("LOCPATH", folder, 1) == 0 &&
           setlocale(LC_NUMERIC, "xx_XX.UTF-8") && strcmp(localeconv()->decimal_point, separator) == 0;
}

static void remove_tree(const char *folder) {
    char command[2 * SCRATCH_PATH];
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    assert_int_equal(system(command), 0);
}

static bool write_and_read_with_separator(const char *code_point, const char *separator) {
    static const double values[] = {0.5, -1234.5, 1e-300, 123456789012.25, 3.0, 5e-324};
    static const char *const texts[] = {"0.5", "-1234.5", "1e-300", "123456789012.25", "3.0", "5e-324"};
    char folder[SCRATCH_PATH];
    scratch_make(folder);
    bool is_usable = use_decimal_separator(code_point, separator, folder);
    for (size_t i = 0; is_usable && i < sizeof values / sizeof values[0]; i++) {
        weir_json_double(fresh_writer(), values[i]);
        assert_written(texts[i]);
        weir_error error;
        weir_cbor_writer w;
        weir_cbor_writer_memory(&w, NULL);
        assert_ok(weir_json_read(texts[i], strlen(texts[i]), "test", WEIR_CBOR_INVALID, &w, &error), &error);
        assert_true(weir_cbor_view(w.data).real == values[i]);
        weir_cbor_release(&w);
        char key[32];
        weir_key_value value = {.type = WEIR_KEY_REAL, .real = -1234.5};
        assert_int_equal(weir_store_key_part_text(&value, key, sizeof key), 7);
        assert_string_equal(key, "-1234.5");
    }
    setlocale(LC_NUMERIC, "C");
    remove_tree(folder);
    return is_usable;
}

static void numbers_do_not_follow_the_locale(void **state) {
    (void)state;
    if (!write_and_read_with_separator("<U002C>", ","))
        skip_because("localedef cannot make a locale with another decimal separator here");
}

static void numbers_do_not_follow_a_locale_with_a_long_separator(void **state) {
    (void)state;
    if (!write_and_read_with_separator("<U066B>", "\xD9\xAB")) /* as in Pashto */
        skip_because("localedef cannot make a locale with another decimal separator here");
}

/* ---- Faults of the caller -------------------------------------------------------------------- */

static void assert_unbalanced(void) {
    weir_error error;
    assert_fails(weir_json_finish(&writer, &error), WEIR_CONTRACT_VIOLATION, &error);
    weir_json_release(&writer);
}

static void unbalanced_nesting_is_refused(void **state) {
    (void)state;
    weir_json_object(fresh_writer());
    assert_unbalanced();
    weir_json_array(fresh_writer());
    weir_json_end_array(&writer);
    weir_json_end_array(&writer);
    assert_unbalanced();
    weir_json_object(fresh_writer());
    weir_json_key(&writer, "k");
    assert_unbalanced();
    weir_json_object(fresh_writer());
    weir_json_key(&writer, "k");
    weir_json_end_object(&writer);
    assert_unbalanced();
    fresh_writer();
    for (int i = 0; i < 100; i++)
        weir_json_array(&writer);
    for (int i = 0; i < 100; i++)
        weir_json_end_array(&writer);
    assert_unbalanced();
}

static void the_deepest_value_can_be_shown(void **state) {
    (void)state;
    uint8_t data[66];
    weir_error error;
    memset(data, 0x81, 64);
    data[64] = 0x41; /* {"bytes": …} is one level more */
    data[65] = 0;
    assert_ok(weir_cbor_check(data, sizeof data, NULL, &error), &error);
    weir_cbor_value value = weir_cbor_view(data);
    weir_json_object(fresh_writer());
    weir_json_key(&writer, "value");
    weir_json_value(&writer, &value);
    weir_json_end_object(&writer);
    assert_ok(weir_json_finish(&writer, &error), &error);
    weir_json_release(&writer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_faults_are_refused_in_the_callers_family),
        cmocka_unit_test(a_syntax_fault_names_line_and_column),
        cmocka_unit_test(raw_bytes_that_are_no_json_text_are_refused),
        cmocka_unit_test(nesting_beyond_any_stack_is_refused),
        cmocka_unit_test(a_fixed_writer_takes_json_too),
        cmocka_unit_test(another_reader_reads_the_same),
        cmocka_unit_test(text_is_escaped),
        cmocka_unit_test(any_text_is_valid_json),
        cmocka_unit_test(commas_and_nesting),
        cmocka_unit_test(integers_are_written_in_full),
        cmocka_unit_test(checked_values_become_json),
        cmocka_unit_test(doubles_are_shortest_and_read_back),
        cmocka_unit_test(known_doubles_have_known_text),
        cmocka_unit_test(numbers_do_not_follow_the_locale),
        cmocka_unit_test(numbers_do_not_follow_a_locale_with_a_long_separator),
        cmocka_unit_test(unbalanced_nesting_is_refused),
        cmocka_unit_test(the_deepest_value_can_be_shown),
    };
    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
