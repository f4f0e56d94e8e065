/* Fuzzes ingest from Arrow streams: the input is the recipe of two batches of up to six columns: formats,
 * what is in the buffers, and what the producer says of them (lengths, offsets, nulls, buffers), true or not.
 * Buffers are as long as anything that may be said of them and not be refused, for their sizes are trusted.
 * Ingest must end in a store that verifies, the same for the draft read again, or in a documented error; and
 * all is released. */
#include <string.h>

#include "ingested.h"
#include "recipe.h"
#include "support/arrow_stream.h"

#define STORE "s.weir"

enum { COLUMNS_MAX = 6, VALUES = 16, VALUE_MAX = 32, BYTES = 64 };

typedef struct fuzzed_column {
    made_column column, dictionary;
    uint8_t validity[VALUES], values[(VALUES + 1) * VALUE_MAX], bytes[BYTES];
    int64_t lengths[1];
    char format[16];
} fuzzed_column;

static const char *const formats[] = {
    "n",         "b",      "c",       "C",           "s",    "S",       "i",    "I",        "l",
    "L",         "e",      "f",       "g",           "u",    "U",       "vu",   "z",        "Z",
    "vz",        "w:3",    "tdD",     "tdm",         "tss:", "tsm:UTC", "tsu:", "tsn:",     "tts",
    "ttm",       "ttu",    "ttn",     "tDs",         "+l",   "+s",      "tiM",  "d:38,500", "d:9,2,32",
    "d:18,3,64", "d:38,9", "d:38,-9", "d:76,40,256", "w:0"};

/* Offsets lie before, in or right after the bytes: what is beyond would be trusted. */
static void place_offsets(fuzzed_column *column, bool is_wide) {
    for (int i = 0; i <= VALUES; i++) {
        int64_t offset = (int64_t)(column->values[i] % (BYTES + 3)) - (column->values[i] > 250 ? 2 : 0);
        offset = offset > BYTES ? BYTES : offset;
        int32_t narrow = (int32_t)offset;
        if (is_wide)
            memcpy(column->values + 8 * i, &offset, 8);
        else
            memcpy(column->values + 4 * i, &narrow, 4);
    }
}

static int64_t lie(recipe *r, int64_t truth) {
    static const int64_t lies[] = {-1, -2, 0, 1, 2, INT64_MAX, INT64_MIN};
    uint8_t choice = take(r);
    return choice < 240 ? truth : lies[choice % 7];
}

/* A column that is longer than its batch is refused, but how many values a dictionary has would be trusted.
 */
static void fill_array(recipe *r, fuzzed_column *column, made_column *out, bool is_dictionary) {
    const char *format = out->format;
    int64_t n_buffers = format[0] == 'n' ? 0 : strchr("uUzZ", format[0]) ? 3 : format[0] == 'v' ? 4 : 2;
    out->length = lie(r, is_dictionary ? 4 : 8);
    out->length = out->length <= VALUES / 2 ? out->length : is_dictionary ? VALUES / 2 : INT64_MAX;
    out->offset = lie(r, 0);
    out->offset = out->offset > VALUES / 2 ? INT64_MAX : out->offset;
    out->null_count = lie(r, take(r) & 1 ? -1 : 0);
    out->n_buffers = lie(r, n_buffers);
    out->buffers[0] = take(r) & 1 ? column->validity : NULL;
    out->buffers[1] = take(r) < 250 ? column->values : NULL;
    out->buffers[2] = take(r) < 250 ? column->bytes : NULL;
    out->buffers[3] = take(r) < 250 ? column->lengths : NULL;
    if (format[0] == 'v' && out->n_buffers != 4) /* how many lengths there are would be trusted */
        out->n_buffers = out->n_buffers > 4 ? 2 : out->n_buffers;
}

static void fill_column(recipe *r, fuzzed_column *column, const char *name) {
    uint8_t choice = take(r);
    snprintf(column->format, sizeof column->format, "%s",
             formats[choice % (sizeof formats / sizeof *formats)]);
    for (size_t i = 0; i < sizeof column->values; i++)
        column->values[i] = r->size > 0 ? take(r) : (uint8_t)(i / 8);
    memcpy(column->bytes, column->values, sizeof column->bytes);
    memcpy(column->validity, column->values + BYTES, sizeof column->validity);
    column->lengths[0] = BYTES;
    if (strchr("uUzZ", column->format[0]))
        place_offsets(column, column->format[0] == 'U' || column->format[0] == 'Z');
    column->column = (made_column){.format = column->format, .name = name};
    if (choice > 200 && !strchr("uUzZ", column->format[0])) { /* the values are indices too */
        column->dictionary = (made_column){.format = "C", .name = ""};
        fill_array(r, column, &column->dictionary, true);
        column->column.dictionary = &column->dictionary;
    }
    fill_array(r, column, &column->column, false);
}

static bool ingest(memory_env *memory, weir_ingest_options options, made_table *table,
                   weir_ingest_report *report) {
    weir_arrow_table given = {.name = "t", .open = made_open, .context = table};
    struct ArrowArrayStream stream = {0};
    weir_error error;
    options.arrow_tables = &given;
    options.arrow_table_count = 1;
    if (table->length & 1) { /* as a stream */
        require(made_open(table, &stream) == 0);
        given = (weir_arrow_table){.name = "t", .stream = &stream};
    }
    weir_status status = weir_ingest(&memory->env, &options, report, &error);
    if (stream.release)
        stream.release(&stream);
    require(table->live_schemas == 0 && table->live_batches == 0 && table->live_streams == 0);
    require(table->asked_too_often == 0);
    return is_ingested(memory, STORE, status, &error);
}

static void ingest_twice(memory_env *memory, made_table *table) {
    weir_ingest_options options = WEIR_INGEST_OPTIONS;
    weir_ingest_report first, second;
    weir_bytes draft;
    options.output = STORE;
    options.threads = 1;
    if (!ingest(memory, options, table, &first))
        return;
    weir_arrow_table given = {.name = "t", .open = made_open, .context = table};
    options.arrow_tables = &given;
    options.arrow_table_count = 1;
    require(weir_schema_draft(&memory->env, &options, &draft, NULL) == WEIR_OK);
    options.schema = draft.data;
    options.schema_size = draft.size;
    require(ingest(memory, options, table, &second));
    require(memcmp(first.store_hash, second.store_hash, WEIR_HASH_SIZE) == 0);
    weir_bytes_release(&draft);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[] = {"id", "at", "c", "d_id", "e", "id"};
    static fuzzed_column columns[COLUMNS_MAX];
    static memory_env memory;
    made_column shown[COLUMNS_MAX];
    recipe r = {data, size};
    made_table table = {.columns = shown, .column_count = 1 + take(&r) % COLUMNS_MAX, .batch_count = 2};
    table.length = take(&r) < 250 ? (int64_t)(take(&r) % 9) : -1;
    table.offset = take(&r) < 240 ? 0 : (int64_t)(take(&r) % 5);
    table.null_count = lie(&r, 0);
    table.n_children = take(&r) < 250 ? 0 : 7;
    for (int64_t i = 0; i < table.column_count; i++) {
        columns[i] = (fuzzed_column){0};
        fill_column(&r, &columns[i], names[i]);
        shown[i] = columns[i].column;
    }
    memory_env_init(&memory);
    memory.env.start_thread = refuse_thread;
    ingest_twice(&memory, &table);
    memory_env_close(&memory);
    return 0;
}
