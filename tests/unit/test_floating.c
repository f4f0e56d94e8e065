/* The host's floating-point state changes nothing: stores, batches, documents and plans are the same bytes
 * under every rounding mode and with small numbers flushed to zero, in this thread and in workers; and the
 * host keeps its state. */
#include <fenv.h>
#include <float.h>

#include "base/floating.h"
#include "support/shop_store.h"

/* ---- States ---------------------------------------------------------------------------------- */

typedef struct float_state {
    const char *name;
    int rounding; /* -1: this machine has none */
    bool flushes;
} float_state;

#if defined(__x86_64__)
static void set_flushing(bool flushes) {
    __builtin_ia32_ldmxcsr((__builtin_ia32_stmxcsr() & ~0x8040u) | (flushes ? 0x8040u : 0u));
}
#elif defined(__aarch64__)
static void set_flushing(bool flushes) {
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    control = (control & ~((uint64_t)1 << 24)) | (flushes ? (uint64_t)1 << 24 : 0);
    __asm__ volatile("msr fpcr, %0" : : "r"(control));
}
#else
static void set_flushing(bool flushes) {
    (void)flushes;
}
#endif

static const float_state states[] = {
    {"usual", FE_TONEAREST, false},        {"flushing", FE_TONEAREST, true},
    {"upward", FE_UPWARD, false},          {"downward", FE_DOWNWARD, false},
    {"toward zero", FE_TOWARDZERO, false}, {"upward, flushing", FE_UPWARD, true},
};
enum { STATES = sizeof states / sizeof states[0] };

static void set_state(const float_state *state) {
    fesetround(state->rounding);
    set_flushing(state->flushes);
}

static void set_usual(void) {
    set_state(&states[0]);
}

/* Whether numbers near zero are flushed now. */
static bool flushes_now(void) {
    volatile double small = DBL_MIN;
    volatile double smaller = small / 2;
    return smaller == 0;
}

/* That the host's state is what it set. */
static void assert_state(const float_state *state) {
    int rounding = fegetround();
    bool flushes = flushes_now();
    set_usual();
    assert_int_equal(rounding, state->rounding);
#if defined(__x86_64__) || defined(__aarch64__)
    assert_int_equal(flushes, state->flushes);
#else
    (void)flushes;
#endif
    set_state(state);
}

/* ---- What is computed ------------------------------------------------------------------------ */

typedef struct computed {
    uint8_t store_hash[WEIR_HASH_SIZE];
    uint8_t batch_digests[4][16];
    uint64_t expanded; /* of the last batch's compact form */
    uint64_t taken;    /* by workers */
    char json[400];
    float floats[WEIR_TIMESTAMP_FLOATS];
    double effective_q;
    uint64_t rows[6]; /* of keys, … */
    char key[6][40];  /* … and how they are shown */
} computed;

/* Numbers whose sums, means and quotients are rounded, as reals and as text, some of them below every normal
 * one. */
static const char sql[] =
    "CREATE TABLE p (id INTEGER PRIMARY KEY, x REAL, y TEXT, at TEXT);"
    "CREATE TABLE k (key REAL PRIMARY KEY, v REAL);"
    "INSERT INTO k VALUES (0, 1), (5e-324, 2), (1e-310, 3), (2e-310, 4), (0.1, 5), (1e23, 6);"
    "CREATE TABLE c (id INTEGER PRIMARY KEY, p_id INTEGER REFERENCES p, z REAL, note TEXT, at TEXT);"
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)"
    "INSERT INTO p SELECT i, i / 7.0 + 0.1, (i * 3) || '.1', datetime(1600000000 + i * 86399, 'unixepoch') "
    "FROM n;"
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900)"
    "INSERT INTO c SELECT i, i % 300 + 1, CASE WHEN i % 3 THEN i * 1e-310 ELSE i / 3.0e-310 END, 'note ' || "
    "i % 50,"
    " datetime(1600000000 + i * 3601, 'unixepoch') FROM n;";

static void ingest(const char *folder, computed *out) {
    char source[160], store[160];
    weir_error error;
    weir_ingest_report report;
    weir_ingest_options options = WEIR_INGEST_OPTIONS;
    options.source = path_in(folder, "a.sqlite", source);
    options.output = path_in(folder, "a.weir", store);
    options.threads = 2;
    assert_ok(weir_ingest(NULL, &options, &report, &error), &error);
    memcpy(out->store_hash, report.store_hash, WEIR_HASH_SIZE);
}

static uint64_t sum_of(const uint8_t *data, uint64_t size) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < size; i++)
        sum = sum * 31 + data[i];
    return sum;
}

static void expand(const weir_batch_buffer *buffer, computed *out) {
    const weir_batch *batch = weir_batch_view(buffer);
    uint8_t *expanded = malloc((size_t)batch->size);
    assert_non_null(expanded);
    weir_batch_expand(batch->rules, batch->compact, expanded);
    const weir_tensor *times = &batch->tensors[WEIR_TIMESTAMP_VALUES];
    assert_memory_equal(expanded + times->offset, batch->data + times->offset, times->size);
    out->expanded = sum_of(expanded + times->offset, times->size);
    free(expanded);
}

static void build(const weir_store *store, const weir_manifest *manifest, const char *dataset,
                  computed *out) {
    weir_batch_builder *builder;
    weir_batch_buffer *buffer;
    weir_error error;
    weir_batch_options options = {.size = sizeof options,
                                  .store = store,
                                  .manifest = manifest,
                                  .dataset = dataset,
                                  .world_size = 1,
                                  .with_digests = true};
    assert_ok(weir_batch_builder_open(NULL, &options, &builder, &error), &error);
    assert_ok(weir_batch_buffer_open(&builder, 1, NULL, &buffer, &error), &error);
    for (uint64_t i = 0; i < 4; i++) {
        assert_ok(weir_batch_build(builder, (weir_cursor){i, 0}, buffer, &error), &error);
        memcpy(out->batch_digests[i], weir_batch_view(buffer)->batch_digest, 16);
        out->effective_q = weir_batch_view(buffer)->step.effective_q;
    }
    expand(buffer, out);
    weir_batch_buffer_close(buffer);
    weir_batch_builder_close(builder);
}

static void load(weir_store *store, const weir_manifest *manifest, computed *out) {
    weir_run *run;
    weir_taken taken;
    weir_error error;
    weir_run_options options = {.size = sizeof options,
                                .stores = &store,
                                .store_count = 1,
                                .manifest = manifest,
                                .world_size = 1,
                                .workers = 3,
                                .steps = 6,
                                .with_digests = true};
    assert_ok(weir_run_open(NULL, &options, &run, &error), &error);
    for (;;) {
        assert_ok(weir_run_next(run, &taken, &error), &error);
        if (!taken.batch)
            break;
        out->taken = out->taken * 31 + sum_of(taken.batch->batch_digest, 16);
        assert_ok(weir_run_release(run, &taken, 0, &error), &error);
    }
    weir_run_close(run);
}

static void write_json(computed *out) {
    static const double values[] = {0.1, 1.0 / 3, 5e-324, 2.2250738585072014e-308, 1e23, 123456.789e-300};
    weir_json_writer w;
    weir_cbor_writer read;
    weir_error error;
    weir_json_writer_memory(&w, NULL);
    weir_json_array(&w);
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        weir_json_double(&w, values[i]);
    weir_json_end_array(&w);
    assert_ok(weir_json_finish(&w, &error), &error);
    assert_true(w.size < sizeof out->json / 2);
    weir_cbor_writer_memory(&read, NULL);
    assert_ok(weir_json_read(w.data, w.size, "test", WEIR_MANIFEST_INVALID, &read, &error), &error);
    memcpy(out->json, w.data, w.size);
    memcpy(out->json + 200, read.data, read.size);
    weir_cbor_release(&read);
    weir_json_release(&w);
}

static void find_keys(const weir_store *store, computed *out) {
    static const double keys[] = {0, 5e-324, 1e-310, 2e-310, 0.1, 1e23};
    const weir_store_info *info = weir_store_describe(store);
    uint32_t table = 0;
    while (strcmp(info->tables[table].name, "k") != 0)
        table++;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        weir_key_value key = {.type = WEIR_KEY_REAL, .real = keys[i]};
        out->rows[i] = weir_store_find_row(store, table, &key, 1) - info->tables[table].row_start;
        assert_int_equal(out->rows[i], i);
        (void)weir_store_key_part_text(&key, out->key[i], sizeof out->key[i]);
    }
}

static void compute(const char *folder, computed *out) {
    char path[160];
    weir_error error;
    weir_store *store;
    weir_manifest *manifest;
    memset(out, 0, sizeof *out);
    ingest(folder, out);
    assert_ok(weir_store_open(NULL, path_in(folder, "a.weir", path), &store, &error), &error);
    assert_ok(weir_manifest_open(NULL, path_in(folder, "a.manifest.json", path), &manifest, &error), &error);
    assert_ok(weir_store_verify(store, 2, &error), &error);
    find_keys(store, out);
    build(store, manifest, "a/c.z/train", out);
    load(store, manifest, out);
    write_json(out);
    weir_statistics statistics = {.mean = 1.6e15 + 0.3, .std = 7e12 + 0.1};
    weir_timestamp_floats(1700000000123457, &statistics, out->floats);
    weir_manifest_close(manifest);
    weir_store_close(store);
}

/* Drafts are computed too. */
static char *draft(const char *folder) {
    char source[160];
    weir_error error;
    weir_bytes schema;
    weir_ingest_options options = WEIR_INGEST_OPTIONS;
    options.source = path_in(folder, "a.sqlite", source);
    assert_ok(weir_schema_draft(NULL, &options, &schema, &error), &error);
    char *text = strndup(schema.data, schema.size);
    weir_bytes_release(&schema);
    return text;
}

static void the_state_of_the_host_changes_nothing(void **test) {
    char folder[64], path[160];
    computed expected, found;
    (void)test;
    make_folder(folder);
    make_database(path_in(folder, "a.sqlite", path), sql);
    compute(folder, &expected);
    char *drafted = draft(folder);
    for (size_t i = 0; i < STATES; i++) {
        set_state(&states[i]);
        compute(folder, &found);
        assert_state(&states[i]);
        char *again = draft(folder);
        assert_state(&states[i]);
        set_usual();
        if (memcmp(&found, &expected, sizeof found) != 0 || strcmp(drafted, again) != 0)
            fail_msg("something else is computed under the state '%s'", states[i].name);
        free(again);
    }
    free(drafted);
    remove_folder(folder);
}

/* The measure itself: under these states, plain arithmetic does differ. */
static void the_states_are_really_set(void **test) {
    (void)test;
    volatile double one = 1, three = 3;
    set_state(&states[2]);
    volatile double up = one / three;
    set_state(&states[3]);
    volatile double down = one / three;
    set_usual();
    assert_true(up > down);
    assert_true(weir__quotient(1, 3) == down || weir__quotient(1, 3) == up);
    assert_false(flushes_now());
#if defined(__x86_64__) || defined(__aarch64__)
    set_state(&states[1]);
    bool flushed = flushes_now();
    bool is_usual = weir__floating_is_usual();
    set_usual();
    assert_true(flushed);
    assert_false(is_usual);
    assert_true(weir__floating_is_usual());
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_states_are_really_set),
        cmocka_unit_test(the_state_of_the_host_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
