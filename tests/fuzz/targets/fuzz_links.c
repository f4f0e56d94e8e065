/* Fuzzes link tasks: a small store with pairs, in either format, damaged at the places that the input names,
 * its hashes made to fit. Whatever opens gives groups or is refused: numbers point into their tables, no
 * destination stands in a group twice, and two ranks have what one has. The first bytes choose the manifest,
 * the others are edits. */
#include <string.h>

#include "batches.h"
#include "support/memory_env.h"
#include "support/memory_sqlite.h"

#define LOCATION "file:/weir-fuzz-links?vfs=memdb"
#define STORE    "s.weir"

enum { KNOBS = 8, GROUPS_MAX = 8 };

/* Things appear over time; people make deals about them, some of them twice. */
static const char sql[] =
    "CREATE TABLE people (id INTEGER PRIMARY KEY, born TEXT);"
    "CREATE TABLE things (id INTEGER PRIMARY KEY, made TEXT, price REAL);"
    "CREATE TABLE deals (id INTEGER PRIMARY KEY, person INTEGER, thing INTEGER, at TEXT);"
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9)"
    " INSERT INTO people SELECT i, CASE WHEN i % 3 = 0 THEN date('2024-01-01', i || ' days') END FROM n;"
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 17)"
    " INSERT INTO things SELECT i, CASE WHEN i % 4 > 0 THEN date('2024-01-01', i * 2 || ' days') END, i * "
    "1.5 "
    "FROM n;"
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60)"
    " INSERT INTO deals SELECT i, 1 + i * 7 % 9, 1 + i * i % 17, date('2024-01-01', i || ' days') FROM n;";

static const char schema[] =
    "{\"name\": \"world\", \"keys\": true, \"embedding\": {\"dim\": 4}, \"tables\": {"
    "\"people\": {\"primary_key\": \"id\", \"temporal_column\": \"born\", \"columns\": {\"born\": "
    "{\"stype\": "
    "\"timestamp\"}}}, "
    "\"things\": {\"primary_key\": \"id\", \"temporal_column\": \"made\", \"columns\": {\"made\": "
    "{\"stype\": "
    "\"timestamp\"}, \"price\": {\"stype\": \"numerical\"}}}, "
    "\"deals\": {\"primary_key\": \"id\", \"temporal_column\": \"at\", \"columns\": {\"at\": {\"stype\": "
    "\"timestamp\"}, \"person\": {\"stype\": \"identifier\", \"foreign_key\": \"people.id\"}, \"thing\": "
    "{\"stype\": \"identifier\", \"foreign_key\": \"things.id\"}}}}, "
    "\"tasks\": {\"deal\": {\"kind\": \"link\", \"query\": \"SELECT person, thing, seen FROM deals JOIN "
    "(SELECT "
    "'2024-01-10' AS seen UNION ALL SELECT '2024-01-25' UNION ALL SELECT '2024-02-10') ON at > seen AND at "
    "<= "
    "date(seen, '+15 days')\", \"anchor_table\": \"people\", \"anchor_key\": \"person\", "
    "\"destination_table\": "
    "\"things\", \"destination_key\": \"thing\", \"observation_time_column\": \"seen\", \"popularity\": "
    "\"deals.thing\", \"split\": {\"method\": \"temporal\", \"val\": \"2024-01-20\", \"test\": "
    "\"2024-02-01\"}}}}";

/* The sound store of a format, made once. */
static const memory_file *sound_store(uint32_t format) {
    static const char magic[16] = "SQLite format 3";
    static memory_env memories[2];
    static const memory_file *all_made[2];
    memory_env *memory = &memories[format - 1];
    if (all_made[format - 1])
        return all_made[format - 1];
    sqlite3 *database = memory_sqlite_open(LOCATION);
    require(sqlite3_exec(database, sql, NULL, NULL, NULL) == SQLITE_OK);
    memory_env_init(memory);
    memory->env.start_thread = refuse_thread;
    memory_env_put(memory, LOCATION, magic, sizeof magic);
    weir_ingest_options options = WEIR_INGEST_OPTIONS;
    weir_ingest_report report;
    options.source = LOCATION;
    options.output = STORE;
    options.threads = 1;
    options.format = format;
    options.schema = schema;
    options.schema_size = strlen(schema);
    require(weir_ingest(&memory->env, &options, &report, NULL) == WEIR_OK);
    sqlite3_close(database);
    all_made[format - 1] = memory_env_file(memory, STORE);
    require(all_made[format - 1]);
    return all_made[format - 1];
}

static weir_manifest *manifest_of(const weir_store *store, weir_split split, const uint8_t knobs[KNOBS]) {
    const weir_task *task = &weir_store_describe(store)->tasks[0];
    char text[640];
    weir_manifest *manifest = NULL;
    snprintf(
        text, sizeof text,
        "{\"seed\": %d, \"global_batch_size\": %d, \"datasets\": {\"world/deal/%s\": {\"id\": \"w\", "
        "\"version\": \"1\", \"cardinality\": %llu, \"hash\": \"%064d\"}}, \"data\": {\"epoch_boundary\": "
        "\"%s\"}, \"batch\": {\"sequence_length\": %d, \"max_rows\": %d, \"child_width\": %d, \"links\": "
        "{\"negatives\": %d, \"candidates\": %d, \"by\": \"%s\"}}}",
        knobs[0], 2 + knobs[1] % 2 * 2, weir_split_name(split),
        (unsigned long long)(task->split_start[split + 1] - task->split_start[split]), 0,
        knobs[1] & 2 ? "stream" : "strict", 1 + knobs[2] % 40, 1 + knobs[3] % 20, knobs[4] % 8, knobs[5] % 24,
        knobs[6] % 24, knobs[7] & 1 ? "popularity" : "uniform");
    require(weir_manifest_read(NULL, text, strlen(text), "fuzz", &manifest, NULL) == WEIR_OK);
    return manifest;
}

static uint32_t anchor_of(const weir_batch *batch, uint32_t sequence) {
    return batch->anchor_rows[sequence];
}

static bool is_there(const weir_batch *batch, uint32_t sequence) {
    const weir_tensor *rows = &batch->tensors[WEIR_NUM_ROWS];
    return weir__load32(batch->data + rows->offset + 4 * (size_t)sequence) > 0;
}

/* Roles in their order, and no destination twice; those that are missing come last. */
static void check_groups(const weir_batch *batch) {
    uint32_t size = batch->group_size;
    require(size >= 2 && batch->sequence_count % size == 0);
    for (uint32_t i = 0; i < batch->sequence_count; i++) {
        uint32_t first = i - i % size;
        require(weir_batch_role(batch, i) == (i == first       ? WEIR_ROLE_SOURCE
                                              : i == first + 1 ? WEIR_ROLE_DESTINATION
                                                               : WEIR_ROLE_NEGATIVE));
        for (uint32_t k = first + 1; k < i && is_there(batch, i); k++)
            require(is_there(batch, k) && anchor_of(batch, k) != anchor_of(batch, i));
    }
}

/* Builds the first batch of a rank; false if that is refused. The groups' digests are kept. */
static bool build(const weir_store *store, const weir_manifest *manifest, weir_split split, weir_stage stage,
                  uint32_t world_size, uint32_t rank, bool is_sound, uint64_t digests[GROUPS_MAX],
                  uint32_t *count) {
    char dataset[32];
    weir_batch_builder *builder = NULL;
    weir_batch_buffer *buffer = NULL;
    snprintf(dataset, sizeof dataset, "world/deal/%s", weir_split_name(split));
    weir_batch_options options = {.size = sizeof options,
                                  .store = store,
                                  .manifest = manifest,
                                  .dataset = dataset,
                                  .stage = stage,
                                  .world_size = world_size,
                                  .rank = rank,
                                  .any_hash = true,
                                  .with_digests = true};
    weir_status status = weir_batch_builder_open(NULL, &options, &builder, NULL);
    if (status == WEIR_OK)
        status = weir_batch_buffer_open(&builder, 1, NULL, &buffer, NULL);
    if (status == WEIR_OK)
        status = weir_batch_build(builder, (weir_cursor){0, 0}, buffer, NULL);
    require(status == WEIR_OK || !is_sound);
    require(status == WEIR_OK || status == WEIR_STORE_CORRUPT || status == WEIR_CARDINALITY_MISMATCH ||
            status == WEIR_INVALID_DATASET_KEY || status == WEIR_CONTRACT_VIOLATION ||
            status == WEIR_OUT_OF_MEMORY);
    if (status == WEIR_OK) {
        const weir_batch *batch = weir_batch_view(buffer);
        check_batch(weir_store_describe(store), batch);
        check_expansion(batch);
        if (is_sound)
            check_groups(batch);
        for (uint32_t i = 0; i < batch->sequence_count / batch->group_size && *count < GROUPS_MAX; i++)
            digests[(*count)++] = batch->group_digests[i];
    }
    weir_batch_buffer_close(buffer);
    weir_batch_builder_close(builder);
    return status == WEIR_OK;
}

static void build_all(const weir_store *store, const uint8_t knobs[KNOBS], bool is_sound) {
    const weir_store_info *info = weir_store_describe(store);
    if (info->task_count == 0)
        return;
    for (int split = 0; split < WEIR_SPLITS; split++) {
        if (info->tasks[0].split_start[split] >= info->tasks[0].split_start[split + 1])
            continue;
        weir_manifest *manifest = manifest_of(store, (weir_split)split, knobs);
        for (int stage = WEIR_STAGE_TRAIN; stage <= WEIR_STAGE_EVAL; stage++) {
            uint64_t alone[GROUPS_MAX], together[GROUPS_MAX];
            uint32_t count = 0, ranks = 0;
            bool is_built =
                build(store, manifest, (weir_split)split, (weir_stage)stage, 1, 0, is_sound, alone, &count);
            for (uint32_t rank = 0; rank < 2 && is_built; rank++)
                is_built = build(store, manifest, (weir_split)split, (weir_stage)stage, 2, rank, is_sound,
                                 together, &ranks);
            require(!is_built || (count == ranks && memcmp(alone, together, count * sizeof *alone) == 0));
        }
        weir_manifest_close(manifest);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t knobs[KNOBS] = {0};
    weir_store *store = NULL;
    memcpy(knobs, data, size < KNOBS ? size : KNOBS);
    const memory_file *sound = sound_store(knobs[7] & 2 ? 2 : 1);
    uint8_t *bytes = malloc(sound->size);
    require(bytes);
    memcpy(bytes, sound->data, sound->size);
    if (size > KNOBS)
        damage(bytes, sound->size, data + KNOBS, size - KNOBS);
    rehash_store(bytes, sound->size);
    if (weir_store_open_memory(NULL, bytes, sound->size, &store, NULL) == WEIR_OK) {
        bool is_sound = size < KNOBS + EDIT;
        require(weir_store_verify(store, 1, NULL) == WEIR_OK || !is_sound);
        build_all(store, knobs, is_sound);
    }
    weir_store_close(store);
    free(bytes);
    return 0;
}
