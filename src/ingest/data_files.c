/* Which files a path stands for, and which tables they are (docs/spec/04-values.md, "Which files"): a file, a
 * folder, a pattern; folders called key=value give columns. Everything that is not read is remembered, so
 * that it can be said. */
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "ingest/csv.h"

enum { DEPTH_MAX = 16, PATH_CAPACITY = 4096 };

typedef enum file_kind { NOT_DATA, CSV_FILE, PARQUET_FILE } file_kind;

static weir_status no_memory(weir_error *error) {
    return weir_ingest__source_no_memory(error, 1);
}

/* ---- Names ----------------------------------------------------------------------------------- */

/* What a name is, and how long it is without its ending. */
static file_kind kind_of(const char *name, size_t *stem) {
    static const struct {
        const char *ending;
        file_kind kind;
    } endings[] = {{".csv", CSV_FILE},         {".tsv", CSV_FILE},    {".tab", CSV_FILE},
                   {".csv.gz", CSV_FILE},      {".tsv.gz", CSV_FILE}, {".tab.gz", CSV_FILE},
                   {".parquet", PARQUET_FILE}, {".pq", PARQUET_FILE}};
    size_t size = strlen(name);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t ending = strlen(endings[i].ending);
        if (size > ending && strcasecmp(name + size - ending, endings[i].ending) == 0) {
            *stem = size - ending;
            return endings[i].kind;
        }
    }
    *stem = size;
    return NOT_DATA;
}

static bool is_pattern(const char *path) {
    return strpbrk(path, "*?[") != NULL;
}

static bool can_open(const weir_env *env, const char *path, int flags) {
    int file = env->open(env->context, path, O_RDONLY | flags, 0);
    if (file >= 0)
        env->close(env->context, file);
    return file >= 0;
}

static bool is_folder(const weir_env *env, const char *path) {
    return can_open(env, path, O_DIRECTORY);
}

static bool is_there(const weir_env *env, const char *path) {
    return can_open(env, path, 0);
}

bool weir_ingest__is_data_files(const weir_env *env, const char *location) {
    size_t stem;
    env = weir__env_or_default(env);
    if (strstr(location, "://"))
        return false;
    if (is_folder(env, location))
        return true;
    if (is_there(env, location))
        return kind_of(weir_ingest__last_name(location), &stem) != NOT_DATA;
    return is_pattern(location);
}

/* ---- Entries of a folder --------------------------------------------------------------------- */

typedef struct entry {
    char *name;
    bool is_folder;
    bool is_file;
} entry;

typedef struct entries {
    weir__arena memory;
    const char *pattern; /* NULL: all */
    entry *list;
    uint32_t count;
} entries;

static bool take_entry(void *argument, const char *name, bool is_folder, bool is_file) {
    entries *all = argument;
    if (name[0] == '.' || name[0] == '_' || (all->pattern && fnmatch(all->pattern, name, 0) != 0))
        return true;
    entry *added = weir__arena_append(&all->memory, &all->list, &all->count, sizeof *added);
    if (added)
        *added = (entry){weir__arena_text(&all->memory, name, strlen(name)), is_folder, is_file};
    return !all->memory.is_short;
}

/* By a text, or the text that a struct begins with. */
static int compare_texts(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The entries of a folder, bytewise by name. Their memory is to be released, also after a failure. */
static weir_status list_folder(const weir_env *env, const char *path, const char *pattern, entries *out,
                               weir_error *error) {
    *out = (entries){.memory = {.env = env}, .pattern = pattern};
    int failure = env->list ? env->list(env->context, path, take_entry, out) : (errno = ENOSYS, -1);
    if (out->memory.is_short)
        return no_memory(error);
    if (failure != 0)
        return WEIR_INGEST__SOURCE_ERROR(error, "%s cannot be listed: %m", path);
    if (out->count > 0)
        qsort(out->list, out->count, sizeof *out->list, compare_texts);
    return WEIR_OK;
}

/* ---- Tables ---------------------------------------------------------------------------------- */

typedef struct finder {
    const weir_env *env;
    weir_ingest__data_files *files;
    weir_error *error;
    weir_ingest__folder_value values[DEPTH_MAX]; /* of the folders on the way */
    uint32_t value_count;
} finder;

/* A file that was found. `*number` is its table's, or -1: then it begins one, called `table_name` or, if that
 * is NULL, like the file. What weir does not read is noted. */
static weir_status take_file(finder *f, const char *path, const entry *found, const char *table_name,
                             ptrdiff_t *number) {
    weir_ingest__data_files *files = f->files;
    weir__arena *memory = &files->memory;
    size_t stem;
    file_kind kind = found->is_file ? kind_of(found->name, &stem) : NOT_DATA;
    char *copy = weir__arena_text(memory, path, strlen(path));
    if (kind == NOT_DATA) {
        char **skipped = weir__arena_append(memory, &files->skipped, &files->skipped_count, sizeof *skipped);
        if (skipped)
            *skipped = copy;
        return memory->is_short ? no_memory(f->error) : WEIR_OK;
    }
    if (*number < 0) {
        weir_ingest__data_table *begun =
            weir__arena_append(memory, &files->tables, &files->count, sizeof *begun);
        if (!begun)
            return no_memory(f->error);
        begun->is_csv = kind == CSV_FILE;
        begun->name = weir__arena_text(memory, table_name ? table_name : found->name,
                                       table_name ? strlen(table_name) : stem);
        *number = (ptrdiff_t)files->count - 1;
    }
    weir_ingest__data_table *table = &files->tables[*number];
    if (table->is_csv != (kind == CSV_FILE))
        return WEIR_INGEST__SOURCE_ERROR(
            f->error, "table %s has both CSV and Parquet files, such as %s; keep one kind", table_name, path);
    weir_ingest__data_file *file =
        weir__arena_append(memory, &table->files, &table->file_count, sizeof *file);
    weir_ingest__folder_value *values = weir__arena_take_zero(memory, f->value_count, sizeof *values);
    if (memory->is_short)
        return no_memory(f->error);
    memcpy(values, f->values, f->value_count * sizeof *values);
    *file = (weir_ingest__data_file){.path = copy, .values = values, .value_count = f->value_count};
    return WEIR_OK;
}

static bool has_value_name(const char *name) {
    const char *equals = strchr(name, '=');
    return equals && equals > name;
}

/* "key=value", with %XX for a byte in the value. */
static weir_status enter_value(finder *f, const char *name) {
    weir__arena *memory = &f->files->memory;
    const char *equals = strchr(name, '=');
    weir_ingest__folder_value *out = &f->values[f->value_count++];
    out->key = weir__arena_text(memory, name, (size_t)(equals - name));
    out->value = NULL;
    if (strcmp(equals + 1, "__HIVE_DEFAULT_PARTITION__") != 0)
        out->value = weir__arena_text(memory, equals + 1, strlen(equals + 1));
    char *to = out->value;
    for (const char *at = out->value; at && *at; at++) {
        uint8_t byte = 0;
        bool is_coded = at[0] == '%' && at[1] && weir__hex_decode(at + 1, 2, &byte, 1) && byte != 0;
        *to++ = is_coded ? WEIR__LOW(char, byte) : *at;
        at += is_coded ? 2 : 0;
    }
    if (to)
        *to = 0;
    return memory->is_short ? no_memory(f->error) : WEIR_OK;
}

static weir_status join_path(finder *f, const char *folder, const char *name, char out[PATH_CAPACITY]) {
    size_t size = strlen(folder);
    bool has_slash = size > 0 && folder[size - 1] == '/';
    int needed = snprintf(out, PATH_CAPACITY, "%s%s%s", folder, has_slash || size == 0 ? "" : "/", name);
    if (needed < PATH_CAPACITY)
        return WEIR_OK;
    return WEIR_INGEST__SOURCE_ERROR(f->error, "the path %.100s… is too long", out);
}

/* All files below a folder are one table's. */
static weir_status collect(finder *f, const char *folder, const char *name, int depth, ptrdiff_t *number) {
    entries found;
    char path[PATH_CAPACITY];
    if (depth >= DEPTH_MAX)
        return WEIR_INGEST__SOURCE_ERROR(f->error, "%s: folders are nested too deep to be one table", folder);
    weir_status status = list_folder(f->env, folder, NULL, &found, f->error);
    for (uint32_t i = 0; i < found.count && status == WEIR_OK; i++) {
        const entry *one = &found.list[i];
        uint32_t value_count = f->value_count;
        status = join_path(f, folder, one->name, path);
        if (status == WEIR_OK && !one->is_folder)
            status = take_file(f, path, one, name, number);
        if (status == WEIR_OK && one->is_folder && has_value_name(one->name))
            status = enter_value(f, one->name);
        if (status == WEIR_OK && one->is_folder)
            status = collect(f, path, name, depth + 1, number);
        f->value_count = value_count;
    }
    weir__arena_release(&found.memory);
    return status;
}

/* ---- The source ------------------------------------------------------------------------------ */

/* One entry of the source's folder: a file that is a table, or a folder that is one. */
static weir_status take_top(finder *f, const char *folder, const entry *found) {
    char path[PATH_CAPACITY];
    ptrdiff_t number = -1;
    WEIR__TRY(join_path(f, folder, found->name, path));
    return found->is_folder ? collect(f, path, found->name, 0, &number)
                            : take_file(f, path, found, NULL, &number);
}

static weir_status take_folder(finder *f, const char *folder, const char *pattern) {
    entries found;
    bool has_values = false;
    ptrdiff_t number = -1;
    const char *shown = *folder ? folder : ".";
    weir_status status = list_folder(f->env, shown, pattern, &found, f->error);
    for (uint32_t i = 0; i < found.count; i++)
        has_values = has_values || (found.list[i].is_folder && has_value_name(found.list[i].name));
    if (has_values && status == WEIR_OK)
        status = collect(f, shown, f->files->name, 0, &number);
    for (uint32_t i = 0; i < found.count && status == WEIR_OK && !has_values; i++)
        status = take_top(f, folder, &found.list[i]);
    weir__arena_release(&found.memory);
    return status;
}

/* What a draft calls the source: the last name of the path that has no wildcard, without its ending. */
static void name_source(const weir_env *env, weir_ingest__data_files *files, const char *location) {
    size_t end = strlen(location), stem = 0;
    const char *wildcard = strpbrk(location, "*?[");
    bool has_wildcard = wildcard && !is_folder(env, location) && !is_there(env, location);
    if (has_wildcard)
        for (end = (size_t)(wildcard - location); end > 0 && location[end - 1] != '/';)
            end--;
    while (end > 1 && location[end - 1] == '/')
        end--;
    size_t start = end;
    while (start > 0 && location[start - 1] != '/')
        start--;
    files->name = weir__arena_text(&files->memory, location + start, end - start);
    if (!files->name)
        return;
    if (kind_of(files->name, &stem) != NOT_DATA)
        files->name[stem] = 0;
    if (*files->name == 0 || *files->name == '.') /* ".", "..", "/" or nothing */
        files->name = weir__arena_text(&files->memory, "data", 4);
}

/* Puts what was found in order, and looks at it as a whole. */
static weir_status check_found(weir_ingest__data_files *found, weir_error *error) {
    qsort(found->tables, found->count, sizeof *found->tables, compare_texts);
    if (found->skipped_count > 0)
        qsort(found->skipped, found->skipped_count, sizeof *found->skipped, compare_texts);
    for (uint32_t i = 0; i < found->count; i++) {
        weir_ingest__data_table *table = &found->tables[i];
        qsort(table->files, table->file_count, sizeof *table->files, compare_texts);
        found->has_csv = found->has_csv || table->is_csv;
        found->has_parquet = found->has_parquet || !table->is_csv;
        if (i > 0 && strcmp(table->name, table[-1].name) == 0)
            return WEIR_INGEST__SOURCE_ERROR(error, "%s and %s would both be table %s; rename one",
                                             table[-1].files[0].path, table->files[0].path, table->name);
        for (uint32_t k = 1; k < table->file_count; k++) {
            const weir_ingest__data_file *file = &table->files[k];
            bool is_alike = file->value_count == table->files[0].value_count;
            for (uint32_t v = 0; v < file->value_count && is_alike; v++)
                is_alike = strcmp(file->values[v].key, table->files[0].values[v].key) == 0;
            if (!is_alike)
                return WEIR_INGEST__SOURCE_ERROR(
                    error, "%s and %s are parts of one table, but their folders name other columns",
                    table->files[0].path, file->path);
        }
    }
    return WEIR_OK;
}

weir_status weir_ingest__find_data_files(const weir_env *env, const char *location,
                                         weir_ingest__data_files *out, weir_error *error) {
    finder f = {.env = env, .files = out, .error = error};
    *out = (weir_ingest__data_files){.memory = {.env = env}};
    name_source(env, out, location);
    if (!out->name)
        return no_memory(error);
    weir_status status;
    if (is_folder(env, location)) {
        status = take_folder(&f, location, NULL);
    } else if (errno != ENOTDIR && errno != ENOENT && errno != ENAMETOOLONG) {
        status = weir__io_error(error, WEIR_INGEST__SOURCE_OPERATOR, "open", location);
    } else {
        /* A file, or a pattern in the last name of a path. */
        const char *name = weir_ingest__last_name(location);
        char folder[PATH_CAPACITY];
        ptrdiff_t shown = name - location < PATH_CAPACITY ? name - location : PATH_CAPACITY;
        int size = snprintf(folder, sizeof folder, "%.*s", WEIR__NARROW(int, shown), location);
        bool is_file = is_there(env, location);
        if (size < 0 || size >= PATH_CAPACITY)
            status = WEIR_INGEST__SOURCE_ERROR(error, "the path %.100s… is too long", location);
        else if (is_file)
            status = take_top(&f, folder, &(entry){.name = (char *)name, .is_file = true});
        else if (is_pattern(folder))
            status = WEIR_INGEST__SOURCE_ERROR(
                error, "%s: a pattern may stand in the last name of a path only", location);
        else
            status = take_folder(&f, folder, name);
    }
    WEIR__TRY(status);
    if (out->count == 0)
        return WEIR_INGEST__SOURCE_ERROR(error, "%s has no .parquet, .csv or .tsv file", location);
    return check_found(out, error);
}

void weir_ingest__data_files_describe(const weir_ingest__data_files *files, weir_ingest__catalog *out) {
    weir_ingest__catalog_set_name(out, files->name);
    for (uint32_t i = 0; i < files->skipped_count; i++)
        weir_ingest__catalog_add_skipped(out, files->skipped[i]);
    for (uint32_t t = 0; t < files->count; t++)
        for (uint32_t i = 0; i < files->tables[t].file_count; i++)
            out->size_bytes += weir_ingest__file_size(files->memory.env, files->tables[t].files[i].path);
}

void weir_ingest__data_files_release(weir_ingest__data_files *files) {
    weir__arena_release(&files->memory);
    *files = (weir_ingest__data_files){0};
}
