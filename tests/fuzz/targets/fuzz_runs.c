/* Fuzzes a folder of runs. The first byte says what the input is: the list; a file as it is; or the payloads
 * of a file's frames, which get sizes and hashes that are right, so that what lies behind the hashes is
 * reached. Ingest must end in a store that verifies, or in a documented error. */
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "ingest/row_run.h"
#include "ingested.h"
#include "recipe.h"

#define STORE "s.weir"
#define LIST  "r/row-runs.json"
#define FILE_ "r/f.rows"

enum { FILE_MAX = 1 << 16 };

typedef struct made_file {
    uint8_t data[FILE_MAX];
    size_t size;
    weir__blake3 heads;
} made_file;

static void add(made_file *file, const void *data, size_t size) {
    require(file->size + size <= FILE_MAX);
    memcpy(file->data + file->size, data, size);
    file->size += size;
}

static void add_frame(made_file *file, const void *payload, size_t size) {
    uint8_t head[WEIR_INGEST__RUN_HEAD_SIZE];
    weir__store32(head, (uint32_t)size);
    weir__blake3_of(payload, size, head + 4);
    weir__blake3_update(&file->heads, head, sizeof head);
    add(file, head, sizeof head);
    add(file, payload, size);
}

static void add_written(made_file *file, weir_cbor_writer *w) {
    require(weir_cbor_finish(w, NULL) == WEIR_OK);
    add_frame(file, w->data, w->size);
    weir_cbor_release(w);
}

/* A list of one file of a table with a key, and a query's result that is the same. */
static void put_list(memory_env *memory, const made_file *file, uint64_t rows) {
    char text[1024], hex[2 * WEIR_HASH_SIZE + 1];
    uint8_t hash[WEIR_HASH_SIZE];
    weir__blake3_final(&file->heads, hash, sizeof hash);
    weir__hex_encode(hash, sizeof hash, hex);
    int size =
        snprintf(text, sizeof text,
                 "{\"format\": \"weir-run/1\", \"name\": \"t\", \"tables\": {\"t\": {\"columns\": [[\"id\", "
                 "\"integer\"], [\"w\", \"text\"]], \"key\": [\"id\"], \"files\": [{\"path\": \"f.rows\", "
                 "\"rows\": %llu, \"size\": %zu, \"hash\": \"%s\"}]}}}",
                 (unsigned long long)rows, file->size, hex);
    memory_env_put(memory, LIST, text, (size_t)size);
}

/* Frames of payloads from the input, up to 255 bytes each; the end is true, as far as the recipe wants it. */
static void compose(memory_env *memory, recipe *r) {
    static made_file file;
    const char *names[] = {"id", "w"};
    weir_ingest__catalog_column columns[] = {
        {.name = (char *)names[0], .declared = WEIR_INGEST__DECLARED_INTEGER},
        {.name = (char *)names[1], .declared = WEIR_INGEST__DECLARED_TEXT}};
    const weir_ingest__run_table table = {
        .name = "t", .columns = columns, .column_count = 2, .key = (uint32_t[]){0}, .key_count = 1};
    weir_ingest__value first[2] = {{.type = WEIR_INGEST__INT, .integer = take(r)}}, last[2] = {first[0]};
    uint64_t rows = take(r);
    weir_cbor_writer w;
    last[0].integer = take(r);
    file.size = 0;
    weir__blake3_init(&file.heads);
    add(&file, WEIR_INGEST__RUN_MAGIC, WEIR_INGEST__RUN_MAGIC_SIZE);
    weir_cbor_writer_memory(&w, NULL);
    weir_ingest__run_write_header(&w, &table);
    add_written(&file, &w);
    while (r->size > 1 && file.size < FILE_MAX / 2) {
        size_t size = take(r);
        size = size == 0 ? 1 : size < r->size ? size : r->size;
        add_frame(&file, r->data, size);
        r->data += size;
        r->size -= size;
    }
    weir_cbor_writer_memory(&w, NULL);
    weir_ingest__run_write_end(&w, &table, rows ? first : NULL, rows ? last : NULL, rows);
    uint8_t trailer[4];
    weir__store32(trailer, (uint32_t)w.size);
    add_written(&file, &w);
    add(&file, trailer, sizeof trailer);
    memory_env_put(memory, FILE_, file.data, file.size);
    put_list(memory, &file, rows);
}

static void ingest(memory_env *memory) {
    weir_ingest_options options = WEIR_INGEST_OPTIONS;
    weir_error error;
    options.source = "r";
    options.output = STORE;
    options.threads = 1;
    weir_status status = weir_ingest(&memory->env, &options, NULL, &error);
    if (status != WEIR_OK) {
        require(status == WEIR_SCHEMA_INVALID || status == WEIR_SOURCE_ERROR || status == WEIR_TASK_INVALID ||
                status == WEIR_IO_ERROR);
        require(error.message[0] != 0 && !memory_env_file(memory, STORE));
        return;
    }
    require_sound(memory, STORE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static memory_env memory;
    static made_file raw;
    recipe r = {data, size};
    memory_env_init(&memory);
    memory.env.start_thread = refuse_thread;
    switch (take(&r) % 4) {
    case 0:
        memory_env_put(&memory, LIST, r.data, r.size);
        break;
    case 1:
        raw.size = r.size;
        weir__blake3_init(&raw.heads);
        memory_env_put(&memory, FILE_, r.data, r.size);
        put_list(&memory, &raw, 1);
        break;
    default:
        compose(&memory, &r);
    }
    ingest(&memory);
    memory_env_close(&memory);
    return 0;
}
