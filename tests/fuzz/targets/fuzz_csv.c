/* Any bytes as a CSV file, plain and compressed, with a guessed dialect and with a strange one: records have
 * the fields that splitting the text says, and nothing is read outside. Also as a pattern of times, and as a
 * time. */
#include <string.h>

#include "ingest/csv.h"
#include "ingest/time_format.h"
#include "require.h"
#include "support/memory_env.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_all(const weir_env *env, const char *path, const weir_ingest__csv_dialect *dialect) {
    static const weir_ingest__csv_options nothing;
    weir_error error;
    weir_ingest__csv_reader *reader;
    weir_ingest__csv_record record;
    weir_ingest__csv_profile profile = {0};
    uint64_t last_line = 0;
    if (weir_ingest__csv_open(env, path, dialect, &reader, &error) != WEIR_OK)
        return;
    while (weir_ingest__csv_next(reader, &record, &error) == WEIR_OK && record.field_count > 0) {
        require(record.line > last_line);
        last_line = record.line;
        for (uint32_t i = 0; i < record.field_count; i++) {
            volatile uint8_t sum = 0;
            for (size_t k = 0; k < record.fields[i].size; k++)
                sum = (uint8_t)(sum + (uint8_t)record.fields[i].data[k]);
            weir_ingest__csv_profile_see(&profile, record.fields[i], &nothing);
        }
    }
    (void)weir_ingest__csv_type_of(&profile, weir_ingest__csv_proven_markers(&profile));
    weir_ingest__csv_close(reader);
}

static void read_times(const uint8_t *data, size_t size) {
    weir_ingest__time_format format;
    int64_t micros;
    size_t pattern = size > 0 ? data[0] % WEIR_INGEST__FORMAT_SIZE_MAX : 0;
    if (size < 1 + pattern ||
        weir_ingest__time_format_compile((const char *)data + 1, pattern, &format) != NULL)
        return;
    if (weir_ingest__time_format_read(&format, (const char *)data + 1 + pattern, size - 1 - pattern, &micros))
        require(micros > -70000000000000000 && micros < 260000000000000000);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const weir_ingest__csv_options nothing;
    static memory_env memory;
    weir_ingest__csv_dialect dialect, strange = {.delimiter = 'a', .quote = '"', .has_header = true};
    weir_error error;
    memory_env_init(&memory);
    memory_env_put(&memory, "a.csv", data, size);
    memory_env_put(&memory, "a.csv.gz", data, size);
    if (weir_ingest__csv_find_dialect(&memory.env, "a.csv", &nothing, &dialect, &error) == WEIR_OK)
        read_all(&memory.env, "a.csv", &dialect);
    read_all(&memory.env, "a.csv", &strange);
    read_all(&memory.env, "a.csv.gz", &strange);
    memory_env_close(&memory);
    read_times(data, size);
    return 0;
}
