/* The rest of base: the table of statuses, error records in their three notations, memory helpers and text
 * helpers. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/boundary.h"
#include "base/options.h"
#include "support/testing.h"

/* ---- Statuses -------------------------------------------------------------------------------- */

/* Typed in from the contract: these numbers never change. */
static const struct {
    int code;
    const char *id;
} pinned[] = {
    {1101, "BATCH_SIZE_INCONSISTENT"},
    {1102, "INVALID_DATASET_KEY"},
    {1103, "CARDINALITY_MISMATCH"},
    {1104, "GLOBAL_POSITION_EXCEEDS_CARDINALITY"},
    {1105, "KEY_NOT_FOUND"},
    {1201, "INVALID_IR"},
    {1301, "ALIGNMENT_VIOLATION"},
    {1303, "ALLOCATION_OVERFLOW"},
    {1304, "ARENA_TOO_SMALL"},
    {1305, "LIVENESS_CYCLE"},
    {1306, "INVALID_IR_SHAPES"},
    {1307, "ADDRESS_COLLISION"},
    {1801, "CONTRACT_VIOLATION"},
    {1802, "INVALID_STAGE_TYPE"},
    {1804, "COUNTER_OVERFLOW"},
    {1901, "REPLAY_DIVERGENCE"},
    {2001, "IO_ERROR"},
    {2002, "OUT_OF_MEMORY"},
    {2003, "STORE_CORRUPT"},
    {2004, "STORE_VERSION"},
    {2005, "SCHEMA_INVALID"},
    {2006, "SOURCE_ERROR"},
    {2007, "TASK_INVALID"},
    {2008, "CHECKPOINT_MISMATCH"},
    {2009, "DEVICE_ERROR"},
    {2010, "CANCELLED"},
    {2011, "CBOR_INVALID"},
    {2012, "MANIFEST_INVALID"},
    {2013, "TRACE_CORRUPT"},
};
enum { PINNED = sizeof pinned / sizeof pinned[0] };

static void codes_are_pinned(void **state) {
    (void)state;
    for (size_t i = 0; i < PINNED; i++) {
        assert_string_equal(weir_status_name((weir_status)pinned[i].code), pinned[i].id);
        assert_int_equal(weir_status_at(i), pinned[i].code);
    }
    assert_int_equal(weir_status_at(PINNED), WEIR_OK);
    assert_int_equal(weir_status_at(SIZE_MAX), WEIR_OK);
}

static void every_status_is_itself_alone(void **state) {
    (void)state;
    for (size_t i = 0; weir_status_at(i) != WEIR_OK; i++) {
        assert_true(strlen(weir_status_meaning(weir_status_at(i))) > 0);
        assert_true(strlen(weir_status_subsystem(weir_status_at(i))) > 0);
        for (size_t k = 0; k < i; k++) {
            assert_int_not_equal(weir_status_at(i), weir_status_at(k));
            assert_string_not_equal(weir_status_name(weir_status_at(i)), weir_status_name(weir_status_at(k)));
            assert_string_not_equal(weir_status_meaning(weir_status_at(i)),
                                    weir_status_meaning(weir_status_at(k)));
        }
    }
    assert_string_equal(weir_status_name(WEIR_OK), "OK");
    assert_string_equal(weir_status_subsystem(WEIR_OK), "none");
    assert_string_equal(weir_status_meaning(WEIR_OK), "success");
    assert_string_equal(weir_status_name((weir_status)1302), "UNKNOWN");
}

/* ---- Error records --------------------------------------------------------------------------- */

static weir_error sample_record(void) {
    weir_error error;
    assert_int_equal(weir__fail(&error, WEIR_BATCH_SIZE_INCONSISTENT, "UML_OS.Data.NextBatch_v2",
                                "global_batch_size %d is not a multiple of world_size %d; choose %d or %d",
                                30, 8, 24, 32),
                     WEIR_BATCH_SIZE_INCONSISTENT);
    weir__note_uint(&error, "world_size", UINT64_MAX);
    weir__note_int(&error, "delta", INT64_MIN);
    weir__note_text(&error, "k", "v", 1);
    error.t = 7;
    error.rank = 3;
    error.replay_token_size = WEIR_HASH_SIZE;
    memset(error.replay_token, 0xAB, WEIR_HASH_SIZE);
    return error;
}

static void a_record_is_one_line(void **state) {
    (void)state;
    static const char expected[] = "weir: BATCH_SIZE_INCONSISTENT: global_batch_size 30 is not a multiple of "
                                   "world_size 8; choose 24 or 32";
    weir_error error = sample_record();
    char line[256];
    assert_int_equal(weir_error_line(&error, line, sizeof line), strlen(expected));
    assert_string_equal(line, expected);
    for (size_t size = 0; size < 40; size++) {
        memset(line, '#', sizeof line);
        assert_int_equal(weir_error_line(&error, line, size), strlen(expected));
        assert_int_equal(line[size], '#');
        if (size > 0) {
            assert_int_equal(strlen(line), size - 1);
            assert_memory_equal(line, expected, size - 1);
        }
    }
}

static void a_record_has_json_form(void **state) {
    (void)state;
    weir_error error = sample_record(), fault;
    weir_json_writer w;
    weir_json_writer_memory(&w, NULL);
    weir_error_json(&error, &w);
    assert_ok(weir_json_finish(&w, &fault), &fault);
    assert_string_equal(
        w.data,
        "{\"code_id\": \"BATCH_SIZE_INCONSISTENT\", \"numeric_code\": 1101, \"subsystem\": \"data\", \"t\": "
        "7, "
        "\"rank\": 3, \"failure_operator\": \"UML_OS.Data.NextBatch_v2\", \"replay_token\": "
        "\"abababababababababababababababababababababababababababababababab\", \"message\": "
        "\"global_batch_size 30 is not a multiple of world_size 8; choose 24 or 32\", \"diagnostics\": "
        "{\"world_size\": 18446744073709551615, \"delta\": -9223372036854775808, \"k\": \"v\"}}");
    weir_json_release(&w);
}

static weir_cbor_value encode_record(const weir_error *error, weir_cbor_writer *w) {
    weir_error fault;
    weir_cbor_writer_memory(w, NULL);
    weir_error_cbor(error, w);
    assert_ok(weir_cbor_finish(w, &fault), &fault);
    assert_ok(weir_cbor_check(w->data, w->size, NULL, &fault), &fault);
    return weir_cbor_view(w->data);
}

static void a_record_has_canonical_form(void **state) {
    (void)state;
    weir_error error = sample_record();
    weir_cbor_writer w;
    weir_cbor_value record = encode_record(&error, &w), field, inner;
    assert_int_equal(record.number, 9);
    assert_true(weir_cbor_get(&record, "code_id", &field));
    assert_true(weir_cbor_is_text(&field, "BATCH_SIZE_INCONSISTENT"));
    assert_true(weir_cbor_get(&record, "numeric_code", &field) && field.number == 1101);
    assert_true(weir_cbor_get(&record, "subsystem", &field) && weir_cbor_is_text(&field, "data"));
    assert_true(weir_cbor_get(&record, "t", &field) && field.number == 7);
    assert_true(weir_cbor_get(&record, "rank", &field) && field.number == 3);
    assert_true(weir_cbor_get(&record, "failure_operator", &field));
    assert_true(weir_cbor_is_text(&field, "UML_OS.Data.NextBatch_v2"));
    assert_true(weir_cbor_get(&record, "replay_token", &field));
    assert_true(field.type == WEIR_CBOR_BYTES && field.number == 32);
    assert_true(weir_cbor_get(&record, "message", &field) && weir_cbor_is_text(&field, error.message));
    assert_true(weir_cbor_get(&record, "diagnostics", &field) && field.number == 3);
    assert_true(weir_cbor_get(&field, "world_size", &inner) && inner.number == UINT64_MAX);
    assert_true(weir_cbor_get(&field, "delta", &inner) && inner.type == WEIR_CBOR_NEGATIVE);
    assert_true(weir_cbor_get(&field, "k", &inner) && weir_cbor_is_text(&inner, "v"));
    weir_cbor_release(&w);
}

static void a_record_without_particulars_has_both_forms(void **state) {
    (void)state;
    weir_error error = {.status = WEIR_CANCELLED};
    weir_cbor_writer cbor;
    weir_cbor_value field, record = encode_record(&error, &cbor);
    assert_true(weir_cbor_get(&record, "replay_token", &field) && field.number == 0);
    assert_true(weir_cbor_get(&record, "failure_operator", &field) && weir_cbor_is_text(&field, ""));
    weir_cbor_release(&cbor);
}

/* Quoted input may hold anything; a record shows it without a control character, in valid UTF-8. */
static void assert_printable(const char *text) {
    assert_true(weir__utf8_is_valid(text, strlen(text)));
    for (const uint8_t *at = (const uint8_t *)text; *at; at++) {
        assert_true(*at >= 0x20 && *at != 0x7F);
        assert_false(at[0] == 0xC2 && at[1] < 0xA0); /* U+0080 to U+009F, terminals obey some of them */
    }
}

static void hostile_text_is_made_printable(void **state) {
    (void)state;
    static const struct {
        const char *given;
        const char *kept;
    } texts[] = {
        {"plain \xC3\xA9 \xE2\x82\xAC \xF0\x9D\x9B\xBC", "plain \xC3\xA9 \xE2\x82\xAC \xF0\x9D\x9B\xBC"},
        {"\x1b[31mred\x07\r\n\t", "?[31mred????"},
        {"\xff\xfe\xC0\xAF", "????"},
        {"\xED\xA0\x80", "???"},
        {"cut \xE2\x82", "cut ??"},
        {"\xC2\x9B"
         "31m \xC2\x80 \xC2\x9F \xC2\xA0",
         "?31m ? ? \xC2\xA0"},
        {"\x7f", "?"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        weir_error error;
        (void)weir__fail(&error, WEIR_IO_ERROR, "test", "%s", texts[i].given);
        weir__note_text(&error, "text", texts[i].given, strlen(texts[i].given));
        assert_string_equal(error.message, texts[i].kept);
        assert_string_equal(error.diagnostics[0].text, texts[i].kept);
    }
    weir_error error;
    (void)weir__fail(&error, WEIR_IO_ERROR, "test", "x");
    weir__note_text(&error, "nul", "a\0b", 3);
    weir__note_text(&error, "empty", NULL, 0);
    assert_string_equal(error.diagnostics[0].text, "a?b");
    assert_string_equal(error.diagnostics[1].text, "");
}

static void long_text_is_cut_between_characters(void **state) {
    (void)state;
    for (size_t lead = 0; lead < 8; lead++) {
        char text[4096];
        size_t size = lead;
        memset(text, 'x', lead);
        while (size + 5 < sizeof text) {
            memcpy(text + size, "\xF0\x9D\x9B\xBC", 4);
            size += 4;
        }
        text[size] = 0;
        weir_error error;
        (void)weir__fail(&error, WEIR_IO_ERROR, "test", "%s", text);
        weir__note_text(&error, "text", text, size);
        assert_printable(error.message);
        assert_printable(error.diagnostics[0].text);
        assert_in_range(strlen(error.message), WEIR_MESSAGE_CAPACITY - 4, WEIR_MESSAGE_CAPACITY - 1);
        assert_in_range(strlen(error.diagnostics[0].text), WEIR_DIAGNOSTIC_CAPACITY - 4,
                        WEIR_DIAGNOSTIC_CAPACITY - 1);
        assert_memory_equal(error.diagnostics[0].text, text, strlen(error.diagnostics[0].text));
    }
}

static void random_bytes_are_made_printable(void **state) {
    (void)state;
    random_stream random = {4};
    for (int round = 0; round < 5000; round++) {
        char text[65];
        size_t size = (size_t)random_below(&random, sizeof text);
        for (size_t i = 0; i < size; i++)
            text[i] = (char)(1 + random_below(&random, 255));
        text[size] = 0;
        weir_error error;
        weir_cbor_writer w;
        (void)weir__fail(&error, WEIR_IO_ERROR, "test", "%s", text);
        assert_printable(error.message);
        encode_record(&error, &w);
        weir_cbor_release(&w);
    }
}

static void memory_that_nobody_counted_has_no_number(void **state) {
    (void)state;
    weir_error error;
    (void)weir__out_of_memory(&error, "test", 4096);
    assert_string_equal(
        error.message,
        "out of memory: 4096 bytes could not be allocated; free some or make the problem smaller");
    for (size_t size = 0; size < 2; size++) {
        (void)weir__out_of_memory(&error, "test", size);
        assert_string_equal(error.message, "out of memory; free some or make the problem smaller");
    }
}

static void diagnostics_beyond_the_last_are_dropped(void **state) {
    (void)state;
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h",
                                        "i", "j", "k", "l", "m", "n", "o", "p"};
    weir_error error;
    weir_cbor_writer w;
    (void)weir__fail(&error, WEIR_IO_ERROR, "test", "many");
    for (size_t i = 16; i-- > 0;)
        weir__note_uint(&error, names[i], i);
    assert_int_equal(error.diagnostic_count, WEIR_DIAGNOSTICS_MAX);
    weir_cbor_value field, record = encode_record(&error, &w);
    assert_true(weir_cbor_get(&record, "diagnostics", &field));
    assert_int_equal(field.number, WEIR_DIAGNOSTICS_MAX);
    weir_cbor_release(&w);
}

static void a_record_may_be_left_out(void **state) {
    (void)state;
    assert_int_equal(weir__fail(NULL, WEIR_IO_ERROR, "test", "%s", "nobody listens"), WEIR_IO_ERROR);
    weir__note_uint(NULL, "a", 1);
    weir__note_int(NULL, "a", 1);
    weir__note_text(NULL, "a", "b", 1);
    assert_int_equal(weir__out_of_memory(NULL, "test", 1), WEIR_OUT_OF_MEMORY);
    errno = ENOENT;
    assert_int_equal(weir__io_error(NULL, "test", "open", "x"), WEIR_IO_ERROR);
}

static void io_errors_name_the_file_and_the_reason(void **state) {
    (void)state;
    weir_error error;
    errno = ENOENT;
    assert_int_equal(weir__io_error(&error, "test", "open", "/no/such"), WEIR_IO_ERROR);
    assert_string_equal(error.message, "cannot open /no/such: No such file or directory");
    assert_string_equal(error.diagnostics[0].name, "errno");
    assert_int_equal(error.diagnostics[0].number, ENOENT);
    assert_string_equal(error.diagnostics[1].text, "/no/such");
}

/* A new record leaves nothing of the old one behind. */
static void a_record_is_filled_anew(void **state) {
    (void)state;
    weir_error error = sample_record();
    (void)weir__fail(&error, WEIR_IO_ERROR, "test", "short");
    assert_int_equal(error.diagnostic_count, 0);
    assert_int_equal(error.replay_token_size, 0);
    assert_int_equal(error.t, 0);
    assert_int_equal(error.rank, 0);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static void sizes_that_overflow_get_no_memory(void **state) {
    (void)state;
    const weir_env *env = weir_env_default();
    assert_null(weir__allocate(env, SIZE_MAX, 2));
    assert_null(weir__allocate(env, SIZE_MAX / 2 + 1, 2));
    assert_null(weir__allocate_zero(env, (size_t)1 << 33, (size_t)1 << 31));
    assert_null(weir__copy_text(env, "", SIZE_MAX));
    void *nothing = weir__allocate(env, 0, SIZE_MAX);
    void *zeroed = weir__allocate_zero(env, SIZE_MAX, 0);
    assert_non_null(nothing);
    assert_non_null(zeroed);
    weir__release(env, nothing);
    weir__release(env, zeroed);
    weir__release(env, NULL);
}

static void zeroed_memory_is_zero(void **state) {
    (void)state;
    uint8_t zeros[513] = {0};
    uint8_t *memory = weir__allocate_zero(weir_env_default(), 27, 19);
    assert_non_null(memory);
    assert_memory_equal(memory, zeros, sizeof zeros);
    weir__release(weir_env_default(), memory);
}

static void growing_keeps_what_is_there(void **state) {
    (void)state;
    const weir_env *env = weir_env_default();
    void *memory = NULL;
    size_t capacity = 0;
    for (size_t i = 0; i < 10000; i++) {
        assert_true(weir__grow(env, &memory, &capacity, i + 1, sizeof(uint32_t)));
        assert_true(capacity > i);
        ((uint32_t *)memory)[i] = (uint32_t)i * 7;
    }
    for (size_t i = 0; i < 10000; i++)
        assert_int_equal(((uint32_t *)memory)[i], (uint32_t)i * 7);
    void *kept = memory;
    size_t kept_capacity = capacity;
    assert_false(weir__grow(env, &memory, &capacity, SIZE_MAX, 1));
    assert_false(weir__grow(env, &memory, &capacity, SIZE_MAX / 4, 8));
    assert_ptr_equal(memory, kept);
    assert_int_equal(capacity, kept_capacity);
    weir__release(env, memory);
    /* Half as much again is 3 * 2^59 items of 32 bytes: 3 * 2^64 bytes, which must not be taken for none. */
    memory = NULL;
    capacity = (size_t)1 << 60;
    assert_false(weir__grow(env, &memory, &capacity, capacity + 1, 32));
    assert_null(memory);
}

static void an_arena_remembers_that_it_was_short(void **state) {
    weir__arena arena;
    (void)state;
    weir__arena_init(&arena, weir_env_default());
    assert_non_null(weir__arena_take_zero(&arena, 3, sizeof(uint64_t)));
    assert_false(arena.is_short);
    assert_null(weir__arena_take_zero(&arena, SIZE_MAX / 2, 4));
    assert_true(arena.is_short);
    assert_non_null(weir__arena_take(&arena, 8));
    assert_true(arena.is_short); /* until it is released */
    weir__arena_release(&arena);
    assert_false(arena.is_short);
    assert_null(weir__arena_take(&arena, SIZE_MAX));
    assert_true(arena.is_short);
    weir__arena_release(&arena);
}

/* A byte behind a piece, and a list that has moved, are as wrong as what was never allocated. */
static void the_sanitizer_sees_pieces_of_an_arena(void **state) {
    (void)state;
#ifdef WEIR__ADDRESS_SANITIZER
    weir__arena arena;
    uint32_t *list = NULL, count = 0;
    weir__arena_init(&arena, weir_env_default());
    char *first = weir__arena_take(&arena, 5), *second = weir__arena_take(&arena, 8);
    assert_false(__asan_address_is_poisoned(first + 4));
    assert_true(__asan_address_is_poisoned(first + 5));
    assert_false(__asan_address_is_poisoned(second + 7));
    assert_true(__asan_address_is_poisoned(second + 8));
    assert_non_null(weir__arena_append(&arena, &list, &count, sizeof *list));
    const uint32_t *before = list;
    assert_non_null(weir__arena_append(&arena, &list, &count, sizeof *list));
    assert_true(__asan_address_is_poisoned(before));
    assert_false(__asan_address_is_poisoned(list));
    weir__arena_release(&arena);
#else
    skip_because("there is no address sanitizer here");
#endif
}

static void a_list_grows_in_an_arena(void **state) {
    weir__arena arena;
    uint64_t *list = NULL;
    uint32_t count = 0;
    (void)state;
    weir__arena_init(&arena, weir_env_default());
    for (uint64_t i = 0; i < 100; i++) {
        uint64_t *item = weir__arena_append(&arena, &list, &count, sizeof *list);
        assert_ptr_equal(item, &list[i]);
        assert_int_equal(*item, 0);
        *item = i;
    }
    assert_int_equal(count, 100);
    for (uint64_t i = 0; i < 100; i++)
        assert_int_equal(list[i], i);
    list[50] = 1;
    count = 50; /* the rest goes, and what comes anew is zeroed */
    assert_int_equal(*(uint64_t *)weir__arena_append(&arena, &list, &count, sizeof *list), 0);
    assert_int_equal(list[49], 49);
    weir__arena_release(&arena);
}

static void a_text_that_cannot_be_formatted_is_no_text(void **state) {
    weir__arena arena;
    (void)state;
    weir__arena_init(&arena, weir_env_default());
    assert_string_equal(weir__arena_format(&arena, "%s/%d", "a", 7), "a/7");
    assert_false(arena.is_short);
    assert_null(weir__arena_format(&arena, "%ls", (const wchar_t[]){0x110000, 0})); /* no character */
    assert_true(arena.is_short);
    weir__arena_release(&arena);
}

static void text_is_copied_with_a_terminator(void **state) {
    (void)state;
    char *copy = weir__copy_text(weir_env_default(), "abcdef", 3);
    assert_string_equal(copy, "abc");
    weir__release(weir_env_default(), copy);
    copy = weir__copy_text(weir_env_default(), NULL, 0);
    assert_string_equal(copy, "");
    weir__release(weir_env_default(), copy);
}

/* ---- Text ------------------------------------------------------------------------------------ */

static size_t encode_code_point(uint32_t code, uint8_t out[4]) {
    if (code < 0x80) {
        out[0] = (uint8_t)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (uint8_t)(0xC0 | code >> 6);
        out[1] = (uint8_t)(0x80 | (code & 63));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (uint8_t)(0xE0 | code >> 12);
        out[1] = (uint8_t)(0x80 | (code >> 6 & 63));
        out[2] = (uint8_t)(0x80 | (code & 63));
        return 3;
    }
    out[0] = (uint8_t)(0xF0 | code >> 18);
    out[1] = (uint8_t)(0x80 | (code >> 12 & 63));
    out[2] = (uint8_t)(0x80 | (code >> 6 & 63));
    out[3] = (uint8_t)(0x80 | (code & 63));
    return 4;
}

static void every_code_point_is_utf8_unless_it_is_none(void **state) {
    (void)state;
    for (uint32_t code = 0; code < 0x200000; code++) {
        uint8_t text[4];
        size_t size = encode_code_point(code, text);
        bool exists = code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
        assert_int_equal(weir__utf8_sequence(text, size), exists ? size : 0);
        assert_true(weir__utf8_is_valid(text, size) == exists);
        if (exists && size > 1)
            assert_false(weir__utf8_is_valid(text, size - 1));
    }
}

static void every_pair_of_bytes_is_judged_rightly(void **state) {
    (void)state;
    for (unsigned first = 0; first < 256; first++)
        for (unsigned second = 0; second < 256; second++) {
            uint8_t text[2] = {(uint8_t)first, (uint8_t)second};
            bool is_two_ascii = first < 0x80 && second < 0x80;
            bool is_one_character = first >= 0xC2 && first < 0xE0 && second >= 0x80 && second < 0xC0;
            assert_true(weir__utf8_is_valid(text, 2) == (is_two_ascii || is_one_character));
        }
}

/* What has three bytes is valid exactly if it is the encoding of the code point that its bits spell. */
static void every_triple_with_a_lead_of_three_is_judged_rightly(void **state) {
    (void)state;
    for (uint32_t bits = 0xE00000; bits < 0xF00000; bits++) {
        uint8_t text[3] = {(uint8_t)(bits >> 16), (uint8_t)(bits >> 8), (uint8_t)bits}, spelt[4];
        uint32_t code = (bits >> 4 & 0xF000) | (bits >> 2 & 0xFC0) | (bits & 0x3F);
        bool is_valid = encode_code_point(code, spelt) == 3 && memcmp(text, spelt, 3) == 0 &&
                        (code < 0xD800 || code > 0xDFFF);
        assert_int_equal(weir__utf8_sequence(text, 3), is_valid ? 3 : 0);
    }
}

/* The check takes eight bytes at a time where it can: a fault is seen at every place. */
static void a_fault_is_seen_at_every_place(void **state) {
    (void)state;
    for (size_t size = 1; size < 40; size++)
        for (size_t place = 0; place < size; place++) {
            char text[40];
            memset(text, 'a', size);
            assert_true(weir__utf8_is_valid(text, size));
            text[place] = (char)0xC3;
            assert_false(weir__utf8_is_valid(text, size));
            if (place + 1 < size) {
                text[place + 1] = (char)0xA9;
                assert_true(weir__utf8_is_valid(text, size));
            }
        }
}

static void decimals_are_strict(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool is_valid;
        uint64_t value;
    } cases[] = {
        {"0", true, 0},
        {"7", true, 7},
        {"18446744073709551615", true, UINT64_MAX},
        {"18446744073709551616", false, 0},
        {"18446744073709551620", false, 0},
        {"99999999999999999999", false, 0},
        {"100000000000000000000", false, 0},
        {"", false, 0},
        {"00", false, 0},
        {"01", false, 0},
        {"-1", false, 0},
        {"+1", false, 0},
        {" 1", false, 0},
        {"1 ", false, 0},
        {"1e3", false, 0},
        {"0x1", false, 0},
        {"\xD9\xA4", false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t value = 0;
        assert_true(weir__decimal_parse(cases[i].text, strlen(cases[i].text), &value) == cases[i].is_valid);
        if (cases[i].is_valid)
            assert_true(value == cases[i].value);
    }
    uint64_t value;
    assert_false(weir__decimal_parse("1\0", 2, &value));
    assert_true(weir__decimal_parse("123", 2, &value) && value == 12);
}

static void hex_goes_both_ways(void **state) {
    (void)state;
    uint8_t bytes[256], back[256];
    char text[513];
    for (unsigned i = 0; i < 256; i++)
        bytes[i] = (uint8_t)i;
    weir__hex_encode(bytes, 256, text);
    assert_int_equal(strlen(text), 512);
    assert_memory_equal(text, "000102", 6);
    assert_true(weir__hex_decode(text, 512, back, 256));
    assert_memory_equal(bytes, back, 256);
    assert_true(weir__hex_decode("aBCdef", 6, back, 3));
    assert_memory_equal(back, "\xab\xcd\xef", 3);
    assert_false(weir__hex_decode("abc", 3, back, 1));
    assert_false(weir__hex_decode("abcd", 4, back, 1));
    assert_false(weir__hex_decode("ab", 2, back, 2));
    for (unsigned c = 1; c < 256; c++) {
        char pair[2] = {'0', (char)c};
        bool is_digit = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
        assert_true(weir__hex_decode(pair, 2, back, 1) == is_digit);
    }
}

typedef struct older_options {
    size_t size;
    uint64_t first;
} older_options;

typedef struct some_options {
    size_t size;
    uint64_t first;
    uint64_t second;
} some_options;

typedef struct newer_options {
    size_t size;
    uint64_t first;
    uint64_t second;
    uint64_t third;
} newer_options;

static void options_of_other_versions_are_taken(void **state) {
    (void)state;
    weir_error error;
    some_options own;
    older_options older = {sizeof older, 7};
    newer_options newer = {sizeof newer, 7, 8, 0};
    assert_ok(WEIR__TAKE_OPTIONS(own, NULL, some_options, "test", &error), &error);
    assert_true(own.size == sizeof own && own.first == 0 && own.second == 0);
    assert_ok(WEIR__TAKE_OPTIONS(own, &newer, some_options, "test", &error), &error);
    assert_true(own.size == sizeof own && own.first == 7 && own.second == 8);
    assert_ok(WEIR__TAKE_OPTIONS(own, &older, some_options, "test", &error), &error);
    assert_true(own.size == sizeof own && own.first == 7 && own.second == 0);
    newer.third = (uint64_t)1 << 63;
    assert_fails(WEIR__TAKE_OPTIONS(own, &newer, some_options, "test", &error), WEIR_CONTRACT_VIOLATION,
                 &error);
    assert_non_null(
        strstr(error.message, "some_options has options that weir " WEIR_VERSION " does not know"));
    older.size = 0;
    assert_fails(WEIR__TAKE_OPTIONS(own, &older, some_options, "test", &error), WEIR_CONTRACT_VIOLATION,
                 &error);
    assert_non_null(strstr(error.message, "set it to sizeof(some_options)"));
}

static void the_version_is_also_a_number(void **state) {
    (void)state;
    unsigned major, minor, patch;
    assert_int_equal(sscanf(weir_version(), "%u.%u.%u", &major, &minor, &patch), 3);
    assert_int_equal(WEIR_VERSION_NUMBER, 10000 * major + 100 * minor + patch);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_are_pinned),
        cmocka_unit_test(every_status_is_itself_alone),
        cmocka_unit_test(a_record_is_one_line),
        cmocka_unit_test(a_record_has_json_form),
        cmocka_unit_test(a_record_has_canonical_form),
        cmocka_unit_test(a_record_without_particulars_has_both_forms),
        cmocka_unit_test(hostile_text_is_made_printable),
        cmocka_unit_test(long_text_is_cut_between_characters),
        cmocka_unit_test(random_bytes_are_made_printable),
        cmocka_unit_test(memory_that_nobody_counted_has_no_number),
        cmocka_unit_test(diagnostics_beyond_the_last_are_dropped),
        cmocka_unit_test(a_record_may_be_left_out),
        cmocka_unit_test(io_errors_name_the_file_and_the_reason),
        cmocka_unit_test(a_record_is_filled_anew),
        cmocka_unit_test(sizes_that_overflow_get_no_memory),
        cmocka_unit_test(zeroed_memory_is_zero),
        cmocka_unit_test(growing_keeps_what_is_there),
        cmocka_unit_test(an_arena_remembers_that_it_was_short),
        cmocka_unit_test(the_sanitizer_sees_pieces_of_an_arena),
        cmocka_unit_test(a_list_grows_in_an_arena),
        cmocka_unit_test(text_is_copied_with_a_terminator),
        cmocka_unit_test(a_text_that_cannot_be_formatted_is_no_text),
        cmocka_unit_test(every_code_point_is_utf8_unless_it_is_none),
        cmocka_unit_test(every_pair_of_bytes_is_judged_rightly),
        cmocka_unit_test(every_triple_with_a_lead_of_three_is_judged_rightly),
        cmocka_unit_test(a_fault_is_seen_at_every_place),
        cmocka_unit_test(decimals_are_strict),
        cmocka_unit_test(hex_goes_both_ways),
        cmocka_unit_test(options_of_other_versions_are_taken),
        cmocka_unit_test(the_version_is_also_a_number),
    };
    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
