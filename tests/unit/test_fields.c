/* The engine of documents: a struct that has every kind of field is read from JSON, written as canonical
 * CBOR, read again and compared; what does not fit is refused with its path. */
#include <stdlib.h>
#include <string.h>

#include "base/fields.h"
#include "support/testing.h"

typedef enum colour { NO_COLOUR, RED, GREEN } colour;

typedef struct point {
    const char *name;
    uint64_t x;
    int64_t y;
} point;

typedef struct thing {
    uint64_t large;
    uint32_t small;
    uint8_t tiny;
    int64_t level;
    bool has_level;
    double share;
    bool is_good;
    colour colour;
    const char *text;
    weir_text view;
    const char *const *texts;
    uint32_t text_count;
    struct {
        uint32_t count, values[3];
    } numbers;
    uint8_t hash[4];
    point inner;
    point *points;
    uint32_t point_count;
    point *named;
    uint32_t named_count;
    weir_cbor_value any;
    bool has_any;
} thing;

static weir_status check_point(weir__reader *r, void *object) {
    const point *p = object;
    return p->x != 13 ? WEIR_OK : weir__refuse(r, "x", "is unlucky");
}

static const char *const colours[] = {"none", "red", "green", NULL};

static const weir__field point_fields[] = {
    {"x", WEIR__UINT(point, x, 0, UINT64_MAX), .flags = WEIR__REQUIRED},
    {"y", WEIR__INT(point, y), .otherwise = 7},
};
static const weir__shape point_shape = WEIR__SHAPE(point, point_fields, .check = check_point);

static const weir__field fields[] = {
    {"type", WEIR__CONSTANT("thing"), .flags = WEIR__REQUIRED},
    {"large", WEIR__UINT(thing, large, 0, UINT64_MAX)},
    {"small", WEIR__UINT(thing, small, 2, 9), .otherwise = 5, .flags = WEIR__SPARSE},
    {"tiny", WEIR__UINT(thing, tiny, 0, 255), .otherwise = 255, .flags = WEIR__NULLABLE},
    {"level", WEIR__INT(thing, level), .has = offsetof(thing, has_level), .flags = WEIR__SPARSE},
    {"share", WEIR__REAL(thing, share)},
    {"good", WEIR__BOOL(thing, is_good), .flags = WEIR__SPARSE},
    {"colour", WEIR__WORD(thing, colour, colours), .least = RED, .flags = WEIR__SPARSE},
    {"text", WEIR__TEXT(thing, text), .flags = WEIR__NULLABLE},
    {"view", WEIR__VIEW(thing, view), .flags = WEIR__SPARSE},
    {"texts", WEIR__TEXTS(thing, texts, text_count), .flags = WEIR__SPARSE},
    {"numbers", WEIR__NUMBERS(thing, numbers, 1, 8), .otherwise = 3},
    {"hash", WEIR__BYTES(thing, hash)},
    {"inner", WEIR__OBJECT(thing, inner, &point_shape)},
    {"points", WEIR__LIST(thing, points, point_count, &point_shape), .flags = WEIR__SPARSE},
    {"named", WEIR__MAP(thing, named, named_count, &point_shape), .flags = WEIR__SPARSE},
    {"any", WEIR__VALUE(thing, any), .has = offsetof(thing, has_any), .flags = WEIR__SPARSE},
};
static const weir__shape thing_shape = WEIR__SHAPE(thing, fields);

/* Reads JSON text into `out`, whose views last as long as `w`. */
static weir_status read_json(const char *json, weir__arena *arena, weir_cbor_writer *w, thing *out,
                             weir_error *error) {
    weir__reader r = {.arena = arena,
                      .error = error,
                      .family = WEIR_MANIFEST_INVALID,
                      .failure_operator = "test",
                      .name = "it",
                      .unknown = "is not known",
                      .label = "view",
                      .is_json = true,
                      .path = "$"};
    weir_cbor_writer_memory(w, NULL);
    assert_ok(weir_json_read(json, strlen(json), "it", WEIR_MANIFEST_INVALID, w, error), error);
    weir_cbor_value value = weir_cbor_view(w->data);
    *out = (thing){0};
    return weir__read(&r, &value, &thing_shape, out);
}

static void assert_json(const thing *object, const char *expected) {
    weir_error error;
    weir_cbor_writer w;
    weir_json_writer json;
    weir_cbor_writer_memory(&w, NULL);
    weir__write(&w, &thing_shape, object);
    assert_ok(weir_cbor_finish(&w, &error), &error);
    weir_cbor_value value = weir_cbor_view(w.data);
    weir_json_writer_memory(&json, NULL);
    weir_json_value(&json, &value);
    assert_ok(weir_json_finish(&json, &error), &error);
    assert_string_equal(json.data, expected);
    weir_json_release(&json);
    weir_cbor_release(&w);
}

static const char least[] = "{\"type\": \"thing\"}";
static const char most[] =
    "{\"type\": \"thing\", \"large\": \"18446744073709551615\", \"small\": 9, \"tiny\": 1, \"level\": -3,"
    " \"share\": 2, \"good\": true, \"colour\": \"green\", \"text\": \"a\", \"view\": \"v\", "
    "\"texts\": [\"b\", \"c\"],"
    " \"numbers\": [1, 8, 2], \"hash\": \"00ff10AB\", \"inner\": {\"x\": 1, \"y\": -1},"
    " \"points\": [{\"x\": 2}, {\"x\": 3}], \"named\": {\"p\": {\"x\": 4}, \"o\": {\"x\": 5}},"
    " \"any\": [1, null]}";

static void a_thing_is_read_and_written(void **state) {
    (void)state;
    weir_error error;
    weir__arena arena;
    weir_cbor_writer w;
    thing t;
    weir__arena_init(&arena, weir_env_default());
    assert_ok(read_json(least, &arena, &w, &t, &error), &error);
    assert_true(t.small == 5 && t.tiny == 255 && !t.has_level && !t.text && t.inner.y == 7);
    assert_true(t.numbers.count == 1 && t.numbers.values[0] == 3);
    assert_json(&t,
                "{\"hash\": {\"bytes\": \"00000000\"}, \"text\": null, \"tiny\": null, \"type\": \"thing\", "
                "\"inner\": {\"x\": 0, \"y\": 7}, \"large\": 0, \"share\": 0.0, \"numbers\": 3}");
    weir_cbor_release(&w);
    assert_ok(read_json(most, &arena, &w, &t, &error), &error);
    assert_true(t.large == UINT64_MAX && t.small == 9 && t.level == -3 && t.share == 2 && t.is_good);
    assert_true(t.colour == GREEN && t.text_count == 2 && t.points[1].x == 3 && t.points[1].y == 7);
    assert_string_equal(t.named[0].name, "o");
    assert_json(&t, "{\"any\": [1, null], \"good\": true, \"hash\": {\"bytes\": \"00ff10ab\"}, \"text\": "
                    "\"a\", \"tiny\": 1, "
                    "\"type\": \"thing\", \"view\": \"v\", \"inner\": {\"x\": 1, \"y\": -1}, "
                    "\"large\": 18446744073709551615, "
                    "\"level\": -3, \"named\": {\"o\": {\"x\": 5, \"y\": 7}, \"p\": {\"x\": 4, \"y\": 7}}, "
                    "\"share\": 2.0, "
                    "\"small\": 9, \"texts\": [\"b\", \"c\"], \"colour\": \"green\", "
                    "\"points\": [{\"x\": 2, \"y\": 7}, {\"x\": 3, \"y\": 7}], \"numbers\": [1, 8, 2]}");
    weir_cbor_release(&w);
    weir__arena_release(&arena);
}

#define KEYS                                                                                                 \
    "the keys here are type, large, small, tiny, level, share, good, colour, text, view, texts, numbers, "   \
    "hash, inner, points, named, any"

static void what_does_not_fit_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *json, *message;
    } cases[] = {
        {"[]", "it: $ must be an object"},
        {"{}", "it: $.type is missing"},
        {"{\"type\": \"other\"}", "it: $.type must be \"thing\""},
        {"{\"type\": \"thing\", \"Size2\": 1}", "it: $.Size2 is not known; " KEYS},
        {"{\"type\": \"thing\", \"a b\": 1}", "it: $[\"a b\"] is not known; " KEYS},
        {"{\"type\": \"thing\", \"large\": -1}",
         "it: $.large must be an integer from 0 to 2^64-1 (above 2^63-1 as a decimal string)"},
        {"{\"type\": \"thing\", \"small\": 10}", "it: $.small is 10; it must be from 2 to 9"},
        {"{\"type\": \"thing\", \"tiny\": 256}", "it: $.tiny is 256; it must be from 0 to 255"},
        {"{\"type\": \"thing\", \"level\": 1.5}", "it: $.level must be an integer from -2^63 to 2^63-1"},
        {"{\"type\": \"thing\", \"share\": \"1\"}", "it: $.share must be a number"},
        {"{\"type\": \"thing\", \"good\": 1}", "it: $.good must be true or false"},
        {"{\"type\": \"thing\", \"colour\": \"none\"}", "it: $.colour must be \"red\" or \"green\""},
        {"{\"type\": \"thing\", \"text\": 1}", "it: $.text must be a string"},
        {"{\"type\": \"thing\", \"view\": 1}", "it: $.view must be a string"},
        {"{\"type\": \"thing\", \"view\": \"v\", \"text\": 1}", "it: $.text of 'v' must be a string"},
        {"{\"type\": \"thing\", \"view\": \"v\", \"a\": 1}", "it: $.a of 'v' is not known; " KEYS},
        {"{\"type\": \"thing\", \"texts\": [\"a\", 1]}", "it: $.texts must be a list of strings"},
        {"{\"type\": \"thing\", \"numbers\": []}",
         "it: $.numbers must be a whole number from 1 to 8, or a list of 1 to 3 such numbers"},
        {"{\"type\": \"thing\", \"numbers\": [1, 2, 3, 4]}",
         "it: $.numbers must be a whole number from 1 to 8, or a list of 1 to 3 such numbers"},
        {"{\"type\": \"thing\", \"hash\": \"00ff10\"}", "it: $.hash must be 8 hex digits"},
        {"{\"type\": \"thing\", \"inner\": {}}", "it: $.inner.x is missing"},
        {"{\"type\": \"thing\", \"inner\": {\"x\": 13}}", "it: $.inner.x is unlucky"},
        {"{\"type\": \"thing\", \"points\": {}}", "it: $.points must be a list"},
        {"{\"type\": \"thing\", \"points\": [{\"x\": 1}, {\"x\": true}]}",
         "it: $.points[1].x must be an integer from 0 to 2^64-1 (above 2^63-1 as a decimal string)"},
        {"{\"type\": \"thing\", \"named\": {\"a b\": {\"x\": 13}}}", "it: $.named[\"a b\"].x is unlucky"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weir_error error;
        weir__arena arena;
        weir_cbor_writer w;
        thing t;
        weir__arena_init(&arena, weir_env_default());
        assert_fails(read_json(cases[i].json, &arena, &w, &t, &error), WEIR_MANIFEST_INVALID, &error);
        assert_string_equal(error.message, cases[i].message);
        weir_cbor_release(&w);
        weir__arena_release(&arena);
    }
}

static size_t largest;

static void *note_largest(void *context, size_t size) {
    largest = size > largest ? size : largest;
    return weir_env_default()->allocate(context, size);
}

/* A list of many items that have not the bytes that an item has takes no
 * more memory than its bytes justify. */
static void items_without_bytes_take_no_memory(void **state) {
    enum { ITEMS = 200000 };
    static const struct {
        const char *begin, *item, *message;
    } cases[] = {
        {"{\"type\": \"thing\", \"points\": [{\"x\": 4}", ", 0", "it: $.points[1] must be an object"},
        {"{\"type\": \"thing\", \"points\": [{\"x\": 4}", ", {}", "it: $.points[1].x is missing"},
        {"{\"type\": \"thing\", \"points\": [{\"y\": 4}", ", {\"x\": 13}", "it: $.points[0].x is missing"},
    };
    (void)state;
    weir_env env = *weir_env_default();
    env.allocate = note_largest;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weir_error error;
        weir__arena arena;
        weir_cbor_writer w;
        thing t;
        size_t size = strlen(cases[i].begin), step = strlen(cases[i].item);
        char *json = malloc(size + ITEMS * step + 3);
        assert_non_null(json);
        memcpy(json, cases[i].begin, size);
        for (size_t k = 0; k < ITEMS; k++, size += step)
            memcpy(json + size, cases[i].item, step);
        memcpy(json + size, "]}", 3);
        weir__arena_init(&arena, &env);
        largest = 0;
        assert_fails(read_json(json, &arena, &w, &t, &error), WEIR_MANIFEST_INVALID, &error);
        assert_string_equal(error.message, cases[i].message);
        assert_true(largest <= 8 * w.size);
        weir_cbor_release(&w);
        weir__arena_release(&arena);
        free(json);
    }
}

static void maps_are_compared(void **state) {
    (void)state;
    weir_error error;
    weir_cbor_writer w[2];
    weir_cbor_value maps[2];
    static const char *const texts[2] = {"{\"a\": 1, \"bb\": [1], \"c\": null}", "{\"a\": 2, \"bb\": [2]}"};
    static const char *const ignored[] = {"a", "c", NULL};
    weir__difference difference;
    for (int i = 0; i < 2; i++) {
        weir_cbor_writer_memory(&w[i], NULL);
        assert_ok(weir_json_read(texts[i], strlen(texts[i]), "it", WEIR_CBOR_INVALID, &w[i], &error), &error);
        maps[i] = weir_cbor_view(w[i].data);
    }
    assert_false(weir__compare(weir_env_default(), &maps[0], &maps[0], NULL, &difference));
    assert_true(weir__compare(weir_env_default(), &maps[0], &maps[1], ignored + 1, &difference));
    assert_string_equal(difference.field, "a");
    assert_true(weir__compare(weir_env_default(), &maps[0], &maps[1], ignored, &difference));
    assert_string_equal(difference.field, "bb");
    assert_string_equal(difference.left, "[1]");
    assert_string_equal(difference.right, "[2]");
    assert_false(weir__same(&maps[0], &maps[1], "c"));
    assert_true(weir__same(&maps[0], &maps[1], "d"));
    weir_cbor_release(&w[0]);
    weir_cbor_release(&w[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thing_is_read_and_written),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(items_without_bytes_take_no_memory),
        cmocka_unit_test(maps_are_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
