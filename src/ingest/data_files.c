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
    const weir_env *env;
    const char *pattern; /* NULL: all */
    entry *list;
    size_t count;
    size_t capacity;
    bool is_short_of_memory;
} entries;

static bool take_entry(void *argument, const char *name, bool folder, bool file) {
    entries *all = argument;
    if (name[0] == '.' || name[0] == '_' || (all->pattern && fnmatch(all->pattern, name, 0) != 0))
        return true;
    char *copy = weir__copy_text(all->env, name, strlen(name));
    void *list = all->list;
    if (!copy || !weir__grow(all->env, &list, &all->capacity, all->count + 1, sizeof *all->list)) {
        weir__release(all->env, copy);
        all->is_short_of_memory = true;
        return false;
    }
    all->list = list;
    all->list[all->count++] = (entry){copy, folder, file};
    return true;
}

static int compare_entries(const void *a, const void *b) {
    return strcmp(((const entry *)a)->name, ((const entry *)b)->name);
}

static void entries_release(entries *all) {
    for (size_t i = 0; i < all->count; i++)
        weir__release(all->env, all->list[i].name);
    weir__release(all->env, all->list);
}

/* The entries of a folder, bytewise by name. */
static weir_status list_folder(const weir_env *env, const char *path, const char *pattern, entries *out,
                               weir_error *error) {
    *out = (entries){.env = env, .pattern = pattern};
    int failure = env->list ? env->list(env->context, path, take_entry, out) : (errno = ENOSYS, -1);
    if (out->is_short_of_memory)
        return no_memory(error);
    if (failure != 0)
        return WEIR_INGEST__SOURCE_ERROR(error, "%s cannot be listed: %m", path);
    if (out->count > 0)
        qsort(out->list, out->count, sizeof *out->list, compare_entries);
    return WEIR_OK;
}

/* ---- Tables ---------------------------------------------------------------------------------- */

typedef struct finder {
    weir_ingest__data_files *files;
    weir_error *error;
    weir_ingest__folder_value values[DEPTH_MAX]; /* of the folders on the way; not owned */
    size_t value_count;
} finder;

static weir_status skip(finder *f, const char *path) {
    weir_ingest__data_files *files = f->files;
    char *copy = weir__copy_text(files->env, path, strlen(path));
    void *list = files->skipped;
    if (!copy || !weir__grow(files->env, &list, &files->skipped_capacity, files->skipped_count + 1,
                             sizeof *files->skipped)) {
        weir__release(files->env, copy);
        return no_memory(f->error);
    }
    files->skipped = list;
    files->skipped[files->skipped_count++] = copy;
    return WEIR_OK;
}

static void release_values(const weir_env *env, weir_ingest__folder_value *values, size_t count) {
    for (size_t i = 0; i < count; i++) {
        weir__release(env, values[i].key);
        weir__release(env, values[i].value);
    }
}

static weir_ingest__data_table *add_table(finder *f, const char *name, size_t size, file_kind kind) {
    weir_ingest__data_files *files = f->files;
    void *list = files->tables;
    if (!weir__grow(files->env, &list, &files->capacity, files->count + 1, sizeof *files->tables))
        return NULL;
    files->tables = list;
    weir_ingest__data_table *table = &files->tables[files->count];
    *table = (weir_ingest__data_table){.is_csv = kind == CSV_FILE,
                                       .name = weir__copy_text(files->env, name, size)};
    if (!table->name)
        return NULL;
    files->count++;
    return table;
}

static weir_status add_file(finder *f, weir_ingest__data_table *table, const char *path) {
    const weir_env *env = f->files->env;
    void *list = table->files;
    if (!weir__grow(env, &list, &table->capacity, table->file_count + 1, sizeof *table->files))
        return no_memory(f->error);
    table->files = list;
    weir_ingest__data_file *file = &table->files[table->file_count++];
    *file =
        (weir_ingest__data_file){.path = weir__copy_text(env, path, strlen(path)),
                                 .values = weir__allocate_zero(env, f->value_count, sizeof *file->values)};
    bool is_fine = file->path && file->values;
    for (size_t i = 0; i < f->value_count && is_fine; i++) {
        file->value_count = i + 1;
        const weir_ingest__folder_value *from = &f->values[i];
        weir_ingest__folder_value *to = &file->values[i];
        to->key = weir__copy_text(env, from->key, strlen(from->key));
        to->value = from->value ? weir__copy_text(env, from->value, strlen(from->value)) : NULL;
        is_fine = to->key && (to->value || !from->value);
    }
    return is_fine ? WEIR_OK : no_memory(f->error);
}

/* ---- Folders that are one table -------------------------------------------------------------- */

/* "key=value", with %XX for a byte in the value; false if memory is short. */
static bool read_folder_value(const weir_env *env, const char *name, weir_ingest__folder_value *out) {
    const char *equals = strchr(name, '=');
    out->key = weir__copy_text(env, name, (size_t)(equals - name));
    out->value = NULL;
    if (!out->key || strcmp(equals + 1, "__HIVE_DEFAULT_PARTITION__") == 0)
        return out->key != NULL;
    char *value = weir__copy_text(env, equals + 1, strlen(equals + 1));
    if (!value)
        return false;
    char *to = value;
    for (const char *at = value; *at; at++) {
        uint8_t byte = 0;
        bool is_coded = at[0] == '%' && at[1] && weir__hex_decode(at + 1, 2, &byte, 1) && byte != 0;
        *to++ = is_coded ? WEIR__LOW(char, byte) : *at;
        at += is_coded ? 2 : 0;
    }
    *to = 0;
    out->value = value;
    return true;
}

static bool has_value_name(const char *name) {
    const char *equals = strchr(name, '=');
    return equals && equals > name;
}

static weir_status refuse(finder *f, const char *format, const char *a, const char *b) {
    char message[2 * PATH_CAPACITY];
    snprintf(message, sizeof message, format, a, b);
    return WEIR_INGEST__SOURCE_ERROR(f->error, "%s", message);
}

static weir_status join_path(finder *f, const char *folder, const char *name, char out[PATH_CAPACITY]) {
    size_t size = strlen(folder);
    bool has_slash = size > 0 && folder[size - 1] == '/';
    int needed = snprintf(out, PATH_CAPACITY, "%s%s%s", folder, has_slash || size == 0 ? "" : "/", name);
    return needed < PATH_CAPACITY ? WEIR_OK : refuse(f, "the path %.100s… is too long%s", out, "");
}

/* All files below a folder are one table's. `number` is the table's, or -1 until its first file is found. */
static weir_status collect(finder *f, const char *folder, const char *name, int depth, ptrdiff_t *number);

static weir_status collect_entry(finder *f, const char *folder, const entry *found, const char *name,
                                 int depth, ptrdiff_t *number) {
    char path[PATH_CAPACITY];
    size_t stem;
    weir_status status = join_path(f, folder, found->name, path);
    if (status != WEIR_OK)
        return status;
    if (found->is_folder) {
        bool is_value = has_value_name(found->name);
        if (is_value && !read_folder_value(f->files->env, found->name, &f->values[f->value_count])) {
            release_values(f->files->env, &f->values[f->value_count], 1);
            return no_memory(f->error);
        }
        f->value_count += is_value ? 1 : 0;
        status = collect(f, path, name, depth + 1, number);
        if (is_value)
            release_values(f->files->env, &f->values[--f->value_count], 1);
        return status;
    }
    file_kind kind = found->is_file ? kind_of(found->name, &stem) : NOT_DATA;
    if (kind == NOT_DATA)
        return skip(f, path);
    if (*number < 0) {
        if (!add_table(f, name, strlen(name), kind))
            return no_memory(f->error);
        *number = (ptrdiff_t)f->files->count - 1;
    }
    weir_ingest__data_table *table = &f->files->tables[*number];
    if (table->is_csv != (kind == CSV_FILE))
        return refuse(f, "table %s has both CSV and Parquet files, such as %s; keep one kind", name, path);
    return add_file(f, table, path);
}

static weir_status collect(finder *f, const char *folder, const char *name, int depth, ptrdiff_t *number) {
    entries found;
    if (depth >= DEPTH_MAX)
        return refuse(f, "%s: folders are nested too deep to be one table%s", folder, "");
    weir_status status = list_folder(f->files->env, folder, NULL, &found, f->error);
    for (size_t i = 0; i < found.count && status == WEIR_OK; i++)
        status = collect_entry(f, folder, &found.list[i], name, depth, number);
    entries_release(&found);
    return status;
}

/* ---- The source ------------------------------------------------------------------------------ */

/* One entry of the source's folder: a file that is a table, or a folder that is one. */
static weir_status take_top(finder *f, const char *folder, const entry *found) {
    char path[PATH_CAPACITY];
    size_t stem;
    ptrdiff_t number = -1;
    WEIR__TRY(join_path(f, folder, found->name, path));
    if (found->is_folder)
        return collect(f, path, found->name, 0, &number);
    file_kind kind = found->is_file ? kind_of(found->name, &stem) : NOT_DATA;
    if (kind == NOT_DATA)
        return skip(f, path);
    weir_ingest__data_table *table = add_table(f, found->name, stem, kind);
    return table ? add_file(f, table, path) : no_memory(f->error);
}

static weir_status take_folder(finder *f, const char *folder, const char *pattern) {
    entries found;
    bool has_values = false;
    ptrdiff_t number = -1;
    weir_status status = list_folder(f->files->env, *folder ? folder : ".", pattern, &found, f->error);
    for (size_t i = 0; i < found.count; i++)
        has_values = has_values || (found.list[i].is_folder && has_value_name(found.list[i].name));
    if (has_values && status == WEIR_OK)
        status = collect(f, *folder ? folder : ".", f->files->name, 0, &number);
    for (size_t i = 0; i < found.count && status == WEIR_OK && !has_values; i++)
        status = take_top(f, folder, &found.list[i]);
    entries_release(&found);
    return status;
}

/* What a draft calls the source: the last name of the path that has no wildcard, without its ending. */
static bool name_source(weir_ingest__data_files *files, const char *location) {
    size_t end = strlen(location), stem = 0;
    const char *wildcard = strpbrk(location, "*?[");
    bool has_wildcard = wildcard && !is_folder(files->env, location) && !is_there(files->env, location);
    if (has_wildcard)
        for (end = (size_t)(wildcard - location); end > 0 && location[end - 1] != '/';)
            end--;
    while (end > 1 && location[end - 1] == '/')
        end--;
    size_t start = end;
    while (start > 0 && location[start - 1] != '/')
        start--;
    char *name = weir__copy_text(files->env, location + start, end - start);
    if (!name)
        return false;
    if (kind_of(name, &stem) != NOT_DATA)
        name[stem] = 0;
    if (*name == 0 || *name == '.') { /* ".", "..", "/" or nothing */
        weir__release(files->env, name);
        name = weir__copy_text(files->env, "data", 4);
    }
    files->name = name;
    return name != NULL;
}

static int compare_tables(const void *a, const void *b) {
    return strcmp(((const weir_ingest__data_table *)a)->name, ((const weir_ingest__data_table *)b)->name);
}

static int compare_files(const void *a, const void *b) {
    return strcmp(((const weir_ingest__data_file *)a)->path, ((const weir_ingest__data_file *)b)->path);
}

static int compare_texts(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

weir_status weir_ingest__find_data_files(const weir_env *env, const char *location,
                                         weir_ingest__data_files *out, weir_error *error) {
    finder f = {.files = out, .error = error};
    env = weir__env_or_default(env);
    *out = (weir_ingest__data_files){.env = env};
    if (!name_source(out, location))
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
            status = refuse(&f, "the path %.100s… is too long%s", location, "");
        else if (is_file)
            status = take_top(&f, folder, &(entry){.name = (char *)name, .is_file = true});
        else if (is_pattern(folder))
            status = refuse(&f, "%s: a pattern may stand in the last name of a path only%s", location, "");
        else
            status = take_folder(&f, folder, name);
    }
    WEIR__TRY(status);
    if (out->count == 0)
        return refuse(&f, "%s has no .parquet, .csv or .tsv file%s", location, "");
    qsort(out->tables, out->count, sizeof *out->tables, compare_tables);
    if (out->skipped_count > 0)
        qsort(out->skipped, out->skipped_count, sizeof *out->skipped, compare_texts);
    for (size_t i = 0; i < out->count; i++) {
        weir_ingest__data_table *table = &out->tables[i];
        qsort(table->files, table->file_count, sizeof *table->files, compare_files);
        out->has_csv = out->has_csv || table->is_csv;
        out->has_parquet = out->has_parquet || !table->is_csv;
        if (i > 0 && strcmp(table->name, table[-1].name) == 0)
            return WEIR_INGEST__SOURCE_ERROR(f.error, "%s and %s would both be table %s; rename one",
                                             table[-1].files[0].path, table->files[0].path, table->name);
        for (size_t k = 1; k < table->file_count; k++) {
            const weir_ingest__data_file *file = &table->files[k];
            bool is_alike = file->value_count == table->files[0].value_count;
            for (size_t v = 0; v < file->value_count && is_alike; v++)
                is_alike = strcmp(file->values[v].key, table->files[0].values[v].key) == 0;
            if (!is_alike)
                return refuse(&f, "%s and %s are parts of one table, but their folders name other columns",
                              table->files[0].path, file->path);
        }
    }
    return WEIR_OK;
}

void weir_ingest__data_files_release(weir_ingest__data_files *files) {
    const weir_env *env = files->env;
    if (!env)
        return;
    for (size_t i = 0; i < files->count; i++) {
        weir_ingest__data_table *table = &files->tables[i];
        for (size_t k = 0; k < table->file_count; k++) {
            release_values(env, table->files[k].values, table->files[k].value_count);
            weir__release(env, table->files[k].values);
            weir__release(env, table->files[k].path);
        }
        weir__release(env, table->files);
        weir__release(env, table->name);
    }
    for (size_t i = 0; i < files->skipped_count; i++)
        weir__release(env, files->skipped[i]);
    weir__release(env, files->tables);
    weir__release(env, files->skipped);
    weir__release(env, files->name);
    *files = (weir_ingest__data_files){0};
}
