/* Every failed allocation and file operation of the embedders `file` and `http` and of the cache of
 * vectors; and a cache that somebody else is making. */
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "ingest/embed.h"
#include "ingest/vector_cache.h"
#include "support/testing.h"

/* An embedder of these settings, and the vectors of some texts. */
typedef struct embedding {
    const char *settings;
    const weir_ingest__bytes *texts;
    size_t count;
    uint16_t vectors[8];
} embedding;

static weir_status embed(const weir_env *env, void *context, weir_error *error) {
    embedding *e = context;
    weir_cbor_writer w;
    weir_ingest__embedder *embedder;
    weir_cbor_writer_memory(&w, NULL);
    assert_ok(weir_json_read(e->settings, strlen(e->settings), "settings", WEIR_SCHEMA_INVALID, &w, error),
              error);
    weir_cbor_value settings = weir_cbor_view(w.data);
    weir_status status = weir_ingest__embedder_open(env, &settings, NULL, &embedder, error);
    if (!status) {
        status = embedder->kind->embed(embedder, e->texts, e->count, e->vectors, error);
        weir_ingest__embedder_close(embedder);
    }
    weir_cbor_release(&w);
    return status;
}

static void file_survives(void **state) {
    (void)state;
    char folder[SCRATCH_PATH], path[SCRATCH_PATH + 16], settings[SCRATCH_PATH + 128];
    scratch_make(folder);
    snprintf(path, sizeof path, "%s/vectors.jsonl", folder);
    snprintf(settings, sizeof settings, "{\"provider\": \"file\", \"path\": \"%s\", \"dim\": 2}", path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("{\"text\": \"a\", \"embedding\": [1, -2]}\n{\"text\": \"\", \"embedding\": [0.5, 0]}", file);
    fclose(file);
    const weir_ingest__bytes texts[] = {{"", 0}, {"a", 1}};
    embedding e = {.settings = settings, .texts = texts, .count = 2};
    assert_true(sweep_faults(embed, NULL, &e) >= 40);
    static const uint16_t expected[] = {0x3800, 0, 0x3C00, 0xC000};
    assert_memory_equal(e.vectors, expected, sizeof expected);
    scratch_remove(folder);
}

/* Without a server: an empty text needs none. */
static void http_survives(void **state) {
    (void)state;
#ifndef WEIR_WITHOUT_HTTP
    static const uint16_t zeros[4];
    const weir_ingest__bytes texts[] = {{"", 0}};
    embedding e = {.settings =
                       "{\"provider\": \"http\", \"url\": \"http://127.0.0.1:1/v1/\", \"model\": \"m\", "
                       "\"cache\": null, \"dim\": 4, \"concurrency\": 2}",
                   .texts = texts,
                   .count = 1,
                   .vectors = {1, 2, 3, 4}};
    assert_true(sweep_faults(embed, NULL, &e) >= 10);
    assert_memory_equal(e.vectors, zeros, sizeof zeros);
#endif
}

static weir_status use_cache(const weir_env *env, void *context, weir_error *error) {
    weir_ingest__vector_cache *cache;
    weir_status status = weir_ingest__vector_cache_open(env, context, 2, &cache, error);
    if (status)
        return status;
    uint16_t first[] = {10, 20}, second[] = {30, 40};
    weir_ingest__cached_vector vectors[] = {{{1}, first}, {{2}, second}};
    uint16_t out[2] = {0};
    bool is_found = false;
    status = weir_ingest__vector_cache_put(cache, vectors, 2, error);
    if (!status)
        status = weir_ingest__vector_cache_get(cache, vectors[1].key, out, &is_found, error);
    if (!status)
        assert_true(is_found && memcmp(out, second, sizeof second) == 0);
    vectors[0].key[0] = 9;
    if (!status)
        status = weir_ingest__vector_cache_get(cache, vectors[0].key, out, &is_found, error);
    if (!status)
        assert_false(is_found);
    weir_ingest__vector_cache_close(cache);
    return status;
}

static void cache_survives(void **state) {
    (void)state;
    char folder[SCRATCH_PATH], path[SCRATCH_PATH + 16];
    scratch_make(folder);
    snprintf(path, sizeof path, "%s/cache", folder);
    assert_true(sweep_faults(use_cache, NULL, path) >= 6);
    scratch_remove(folder);
}

/* An environment whose time passes only while somebody sleeps, and another connection that holds the lock of
 * a new file until it has been waited for. */
typedef struct maker {
    weir_env env;
    sqlite3 *database;
    unsigned waits, lets_go_at; /* 0: never */
    uint64_t now_ns;
} maker;

static uint64_t maker_now(void *context) {
    return ((const maker *)context)->now_ns;
}

static void maker_wait(void *context, const uint32_t *word, uint32_t expected, uint64_t timeout_ns) {
    maker *other = context;
    assert_true(*word == expected && timeout_ns > 0);
    other->now_ns += timeout_ns;
    if (++other->waits == other->lets_go_at)
        assert_int_equal(sqlite3_exec(other->database, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
}

static weir_status open_while_made(maker *other, unsigned lets_go_at, weir_error *error) {
    char folder[SCRATCH_PATH], path[SCRATCH_PATH + 16];
    scratch_make(folder);
    snprintf(path, sizeof path, "%s/cache", folder);
    *other = (maker){.env = *weir_env_default(), .lets_go_at = lets_go_at};
    other->env.context = other;
    other->env.now_ns = maker_now;
    other->env.wait = maker_wait;
    assert_int_equal(sqlite3_open(path, &other->database), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other->database, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    weir_status status = use_cache(&other->env, path, error);
    sqlite3_close(other->database);
    scratch_remove(folder);
    return status;
}

static void a_cache_that_is_being_made_is_waited_for(void **state) {
    (void)state;
    maker other;
    weir_error error;
    assert_ok(open_while_made(&other, 5, &error), &error);
    assert_int_equal(other.waits, 5);
    assert_int_equal(open_while_made(&other, 0, &error), WEIR_SOURCE_ERROR);
    assert_non_null(strstr(error.message, "database is locked"));
    assert_true(other.now_ns >= 30000000000u && other.now_ns < 31000000000u);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(file_survives), cmocka_unit_test(http_survives),
                                       cmocka_unit_test(cache_survives),
                                       cmocka_unit_test(a_cache_that_is_being_made_is_waited_for)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
