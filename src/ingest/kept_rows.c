/* See kept_rows.h. */
#include "ingest/kept_rows.h"
#include "base/ascii.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "ingest/base_rows.h"
#include "weir_tool/documents.h"

enum { STEM_MAX = 100, DIGITS = 16 };

/* The greatest value of a column so far. */
typedef struct greatest {
    weir_ingest__value value;
    char *text;
    size_t capacity;
} greatest;

/* The file of a part. */
typedef struct kept_part {
    const weir_env *env;
    weir_ingest__run_writer out;
    int file; /* -1: none is open */
    const char *path;
    weir_row_run_file said;
    bool is_whole;
    greatest latest;
} kept_part;

typedef struct kept_table {
    weir_ingest__run_table run; /* name, columns; files are those of the parts */
    uint32_t time;              /* the column that is its time, or WEIR_NONE */
    kept_part *parts;
    uint32_t part_count;
    const weir_ingest__run_table *base; /* whose files are taken over, or NULL, */
    uint32_t base_parts;                /* and how many parts they are read in */
} kept_table;

struct weir_ingest__keeper {
    const weir_env *env;
    const char *folder, *list_path;
    weir__atomic_file list; /* holds the folder's lock while it is open */
    bool is_ours;           /* the folder may be swept */
    uint64_t bytes;         /* of the files that the list names */
    kept_table *tables;     /* as many as ingest has, from weir_ingest__keep_tables on */
    uint32_t table_count;
    weir__arena arena; /* of all of it */
};

typedef struct weir_ingest__keeper keeper;

/* ---- The folder ------------------------------------------------------------------------------ */

/* What a folder's list names, sorted. */
typedef struct sweep {
    keeper *keeper;
    const char **listed;
    size_t listed_count;
} sweep;

static bool remove_unlisted(void *context, const char *name, bool is_folder, bool is_file) {
    static const char ending[] = ".rows";
    const sweep *s = context;
    const weir_env *env = s->keeper->env;
    size_t size = strlen(name), tail = DIGITS + sizeof ending - 1;
    const char *digits = name + size - tail;
    (void)is_folder;
    if (!is_file || size <= tail + 1 || digits[-1] != '-' || strspn(digits, "0123456789abcdef") != DIGITS ||
        strcmp(digits + DIGITS, ending) != 0)
        return true; /* it is none of ingest's */
    if (s->listed_count > 0 &&
        bsearch(&name, s->listed, s->listed_count, sizeof *s->listed, weir__compare_by_name))
        return true;
    const char *path = weir__arena_format(&s->keeper->arena, "%s/%s", s->keeper->folder, name);
    if (path)
        (void)!env->remove(env->context, path);
    return path != NULL;
}

/* Removes files of kept rows that no list names; *list is the one that is there. */
static void sweep_with(keeper *k, const weir_ingest__run_list *list) {
    sweep s = {.keeper = k};
    size_t count = 0;
    for (uint32_t t = 0; t < list->table_count; t++)
        count += list->tables[t].file_count;
    s.listed = weir__arena_take_zero(&k->arena, count, sizeof *s.listed);
    if (!s.listed)
        return;
    for (uint32_t t = 0; t < list->table_count; t++)
        for (uint32_t f = 0; f < list->tables[t].file_count; f++)
            s.listed[s.listed_count++] = list->tables[t].files[f].path;
    weir__sort_by_name(s.listed, count, sizeof *s.listed);
    (void)!k->env->list(k->env->context, k->folder, remove_unlisted, &s);
}

/* The list that is there; without tables if there is none. Release it, also after a failure. */
static weir_status read_list(const keeper *k, weir_ingest__run_list *list, weir_error *error) {
    *list = (weir_ingest__run_list){0};
    int file = k->env->open(k->env->context, k->list_path, O_RDONLY | O_NONBLOCK, 0);
    if (file < 0 && errno == ENOENT)
        return WEIR_OK;
    if (file >= 0)
        k->env->close(k->env->context, file);
    return weir_ingest__run_list_open(list, k->env, k->folder, error);
}

static void release_list(weir_ingest__run_list *list) {
    if (list->arena.env)
        weir_ingest__run_list_release(list);
}

/* Removes what the list that is there does not name. */
static void sweep_folder(keeper *k) {
    weir_ingest__run_list list;
    if (read_list(k, &list, NULL) == WEIR_OK)
        sweep_with(k, &list);
    release_list(&list);
}

weir_status weir_ingest__keep_open(const weir_ingest__context *context, const char *store_path,
                                   weir_ingest__keeper **out, weir_error *error) {
    const weir_env *env = context->env;
    weir_ingest__run_list list;
    *out = NULL;
    if (!context->options->keep_rows)
        return WEIR_OK;
    keeper *k = *out = weir__allocate_zero(env, 1, sizeof *k);
    if (!k)
        return weir_ingest__no_memory(error, sizeof *k);
    k->env = k->list.env = env;
    k->list.file = -1;
    weir__arena_init(&k->arena, env);
    k->folder = weir__arena_format(&k->arena, "%s%s", store_path, WEIR_INGEST__KEPT_ENDING);
    k->list_path = k->folder ? weir__arena_format(&k->arena, "%s/%s", k->folder, WEIR_ROW_RUN_LIST) : NULL;
    if (!k->list_path)
        return weir_ingest__no_memory(error, strlen(store_path));
    if (env->make_folder(env->context, k->folder) != 0 && errno != EEXIST)
        return weir__io_error(error, WEIR_INGEST__OPERATOR, "make", k->folder);
    WEIR__TRY(weir__atomic_open(&k->list, env, k->list_path, WEIR_INGEST__OPERATOR, error));
    weir_status status = read_list(k, &list, error);
    if (status == WEIR_OK && list.table_count > 0 && !list.has_store)
        status = weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_INGEST__OPERATOR,
                            "%s has runs of rows that ingest did not keep: choose another output, or move "
                            "the folder away",
                            k->folder);
    k->is_ours = status == WEIR_OK;
    if (k->is_ours)
        sweep_with(k, &list);
    release_list(&list);
    return status;
}

/* ---- Tables ---------------------------------------------------------------------------------- */

/* A time that comes from a column as it is: text in another form has another order. */
uint32_t weir_ingest__keep_time(const weir_ingest__table_plan *plan) {
    uint32_t column = plan->temporal.column;
    return column == WEIR_NONE || plan->columns[column].form.format ? WEIR_NONE : column;
}

/* FOLDER/TABLE-0123456789abcdef.rows */
static weir_status choose_path(keeper *k, kept_part *part, const char *table, weir_error *error) {
    uint8_t random[DIGITS / 2];
    char digits[DIGITS + 1], stem[STEM_MAX + 1];
    size_t size = 0;
    if (k->env->random(k->env->context, random, sizeof random) != 0)
        return weir__io_error(error, WEIR_INGEST__OPERATOR, "name a file in", k->folder);
    weir__hex_encode(random, sizeof random, digits);
    for (; table[size] && size < STEM_MAX; size++)
        stem[size] = weir__is_letter_or_digit(table[size]) ? table[size] : '_';
    stem[size] = 0;
    part->path = weir__arena_format(&k->arena, "%s/%s-%s.rows", k->folder, stem, digits);
    return part->path ? WEIR_OK : weir_ingest__no_memory(error, strlen(k->folder));
}

static weir_status begin_table(keeper *k, const weir_ingest__table_plan *plan, uint32_t part_count,
                               kept_table *table, weir_error *error) {
    table->time = weir_ingest__keep_time(plan);
    table->run = (weir_ingest__run_table){.name = plan->name,
                                          .sql = plan->source->is_given ? plan->source->query : NULL,
                                          .column_count = plan->column_count};
    table->run.columns = weir__arena_take_zero(&k->arena, plan->column_count, sizeof *table->run.columns);
    table->parts = weir__arena_take_zero(&k->arena, part_count, sizeof *table->parts);
    if (!table->run.columns || !table->parts)
        return weir_ingest__no_memory(error, part_count * sizeof *table->parts);
    for (uint32_t c = 0; c < plan->column_count; c++)
        table->run.columns[c] = plan->source->columns[plan->positions[c]];
    for (; table->part_count < part_count; table->part_count++) {
        kept_part *part = &table->parts[table->part_count];
        *part = (kept_part){.env = k->env, .file = -1};
        WEIR__TRY(choose_path(k, part, plan->name, error));
    }
    return WEIR_OK;
}

weir_status weir_ingest__keep_tables(weir_ingest__keeper *k, const struct weir_ingest__base *base,
                                     const weir_ingest__parts *parts, weir_error *error) {
    const weir_ingest__plan *plan = parts->plan;
    if (!k)
        return WEIR_OK;
    k->tables = weir__arena_take_zero(&k->arena, plan->table_count, sizeof *k->tables);
    if (!k->tables)
        return weir_ingest__no_memory(error, plan->table_count * sizeof *k->tables);
    k->table_count = plan->table_count;
    for (uint32_t t = 0; t < plan->table_count; t++) {
        k->tables[t].base = weir_ingest__base_files(base, t);
        k->tables[t].base_parts = weir_ingest__base_parts(base, t);
        WEIR__TRY(begin_table(k, &plan->tables[t], parts->tables[t].count, &k->tables[t], error));
    }
    return WEIR_OK;
}

/* ---- Files ----------------------------------------------------------------------------------- */

static int write_bytes(void *context, const void *data, size_t size) {
    const kept_part *part = context;
    return weir__write_all(part->env, part->file, data, size) ? 0 : errno;
}

static int note_end(void *context, const weir_row_run_file *file) {
    kept_part *part = context;
    part->said = *file;
    if (part->env->sync(part->env->context, part->file) != 0)
        return errno;
    part->env->close(part->env->context, part->file);
    part->file = -1;
    part->is_whole = true;
    return 0;
}

static bool note_greatest(const weir_env *env, greatest *g, const weir_ingest__value *value) {
    bool is_text = value->type == WEIR_INGEST__TEXT || value->type == WEIR_INGEST__BLOB;
    if (weir_ingest__run_compare_values(value, &g->value) <= 0)
        return true;
    if (is_text && !weir__grow(env, (void **)&g->text, &g->capacity, value->text.size + 1, 1))
        return false;
    g->value = *value;
    if (is_text)
        g->value.text.data = memcpy(g->text, value->text.data, value->text.size);
    return true;
}

weir_status weir_ingest__keep_row(weir_ingest__keeper *k, uint32_t table, uint32_t part_number,
                                  const weir_ingest__value *row, weir_error *error) {
    if (!k)
        return WEIR_OK;
    kept_table *to = &k->tables[table];
    kept_part *part = &to->parts[part_number];
    bool is_there = to->base && part_number < to->base_parts;
    if (to->run.column_count == 0 || is_there)
        return WEIR_OK;
    if (part->file < 0) {
        part->file =
            k->env->open(k->env->context, part->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0666);
        if (part->file < 0)
            return weir__io_error(error, WEIR_INGEST__OPERATOR, "create", part->path);
        part->out = (weir_ingest__run_writer){.env = k->env,
                                              .table = &to->run,
                                              .failure_operator = WEIR_INGEST__OPERATOR,
                                              .write = write_bytes,
                                              .end = note_end,
                                              .context = part};
        weir_ingest__run_writer_init(&part->out);
    }
    if (to->time != WEIR_NONE && !note_greatest(k->env, &part->latest, &row[to->time]))
        return weir_ingest__no_memory(error, row[to->time].text.size);
    WEIR__TRY(weir_ingest__run_writer_put(&part->out, row, error));
    return weir_ingest__run_writer_rest(&part->out, error);
}

weir_status weir_ingest__keep_end(weir_ingest__keeper *k, uint32_t table, uint32_t part_number,
                                  weir_error *error) {
    kept_part *part = k ? &k->tables[table].parts[part_number] : NULL;
    if (!part || part->file < 0)
        return WEIR_OK;
    weir_status status = weir_ingest__run_writer_end(&part->out, error);
    weir_ingest__run_writer_release(&part->out);
    part->out = (weir_ingest__run_writer){0};
    return status;
}

/* ---- The list -------------------------------------------------------------------------------- */

static void put_file(weir_json_writer *w, keeper *k, const char *path, const weir_row_run_file *said) {
    k->bytes += said->size;
    weir_json_object(w);
    weir_json_pair_text(w, "path", path);
    weir_json_pair_uint(w, "rows", said->rows);
    weir_json_pair_uint(w, "size", said->size);
    weir_json_pair_hex(w, "hash", said->hash, sizeof said->hash);
    weir_json_end_object(w);
}

static void put_table(weir_json_writer *w, keeper *k, const kept_table *table) {
    const weir_ingest__run_table *run = &table->run;
    weir_ingest__value latest = {.type = WEIR_INGEST__NULL};
    if (table->base)
        latest = table->base->latest;
    weir_json_pair_object(w, run->name);
    if (run->sql)
        weir_json_pair_text(w, "sql", run->sql);
    weir_json_pair_array(w, "columns");
    for (uint32_t c = 0; c < run->column_count; c++) {
        weir_json_array(w);
        weir_json_text(w, run->columns[c].name);
        weir_json_text(w, weir_ingest__run_type_name(&run->columns[c]));
        weir_json_end_array(w);
    }
    weir_json_end_array(w);
    weir_json_pair_texts(w, "key", NULL, 0);
    weir_json_pair_array(w, "files");
    for (uint32_t f = 0; table->base && f < table->base->file_count; f++)
        put_file(w, k, table->base->files[f].path, &table->base->files[f].said);
    for (uint32_t p = 0; p < table->part_count; p++) {
        const kept_part *part = &table->parts[p];
        if (part->is_whole)
            put_file(w, k, weir_ingest__last_name(part->path), &part->said);
        if (weir_ingest__run_compare_values(&part->latest.value, &latest) > 0)
            latest = part->latest.value;
    }
    weir_json_end_array(w);
    if (!run->sql && table->time != WEIR_NONE && weir_ingest__run_can_be_latest(&latest)) {
        weir_json_pair_object(w, "latest");
        weir_json_pair_text(w, "column", run->columns[table->time].name);
        weir_json_key(w, "value");
        if (latest.type == WEIR_INGEST__TIMESTAMP)
            weir_json_array(w);
        if (latest.type == WEIR_INGEST__TEXT)
            weir_json_text_n(w, latest.text.data, latest.text.size);
        else if (latest.type == WEIR_INGEST__NULL)
            weir_json_null(w);
        else
            weir_json_int(w, latest.integer);
        if (latest.type == WEIR_INGEST__TIMESTAMP)
            weir_json_end_array(w);
        weir_json_end_object(w);
    }
    weir_json_end_object(w);
}

static void put_tables(weir_json_writer *w, keeper *k, const char *key, bool are_queries) {
    weir_json_pair_object(w, key);
    for (uint32_t t = 0; t < k->table_count; t++)
        if ((k->tables[t].run.sql != NULL) == are_queries && k->tables[t].run.column_count > 0)
            put_table(w, k, &k->tables[t]);
    weir_json_end_object(w);
}

/* ---- The base's files -------------------------------------------------------------------------- */

static weir_status copy_file(const weir_env *env, const char *from, const char *to, weir_error *error) {
    enum { PIECE = 1 << 18 };
    int in, out;
    ssize_t got = -1;
    WEIR__TRY(weir__file_open(env, from, &in, WEIR_INGEST__OPERATOR, error));
    weir_status status = WEIR_OK;
    uint8_t *piece = weir__allocate(env, PIECE, 1);
    out = env->open(env->context, to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0666);
    if (out < 0)
        status = weir__io_error(error, WEIR_INGEST__OPERATOR, "create", to);
    else if (!piece)
        status = weir_ingest__no_memory(error, PIECE);
    while (status == WEIR_OK && (got = env->read(env->context, in, piece, PIECE)) != 0)
        if (got < 0 || !weir__write_all(env, out, piece, (size_t)got))
            status = weir__io_error(error, WEIR_INGEST__OPERATOR, "copy to", to);
    if (status == WEIR_OK && env->sync(env->context, out) != 0)
        status = weir__io_error(error, WEIR_INGEST__OPERATOR, "copy to", to);
    weir__release(env, piece);
    env->close(env->context, in);
    if (out >= 0)
        env->close(env->context, out);
    return status;
}

/* A name is given once, so a file that is there is the one that is meant: base and store are one path, or
 * share files already. */
static weir_status take_files(keeper *k, const char *folder, weir_error *error) {
    const weir_env *env = k->env;
    for (uint32_t t = 0; t < k->table_count; t++) {
        const weir_ingest__run_table *table = k->tables[t].base;
        for (uint32_t f = 0; table && f < table->file_count; f++) {
            const char *from = weir__arena_format(&k->arena, "%s/%s", folder, table->files[f].path);
            const char *to = weir__arena_format(&k->arena, "%s/%s", k->folder, table->files[f].path);
            if (!from || !to)
                return weir_ingest__no_memory(error, strlen(folder));
            if (env->link(env->context, from, to) != 0 && errno != EEXIST)
                WEIR__TRY(copy_file(env, from, to, error));
        }
    }
    return WEIR_OK;
}

weir_status weir_ingest__keep_prepare(weir_ingest__keeper *k, const struct weir_ingest__base *base,
                                      const char *name, const weir_store_info *info, weir_error *error) {
    weir_json_writer w;
    if (!k)
        return WEIR_OK;
    WEIR__TRY(take_files(k, weir_ingest__base_folder(base), error));
    weir_json_writer_memory(&w, k->env);
    weir_json_object(&w);
    weir_json_pair_text(&w, "format", WEIR_INGEST__RUN_FORMAT);
    weir_json_pair_text(&w, "name", name && *name ? name : info->name);
    weir_json_pair_hex(&w, "store", info->store_hash, WEIR_HASH_SIZE);
    put_tables(&w, k, "tables", false);
    put_tables(&w, k, "queries", true);
    weir_json_end_object(&w);
    weir_bytes text;
    WEIR__TRY(weir_json_give(&w, &text, error));
    weir_status status = weir_json_indent(&text, 3, error);
    if (status == WEIR_OK)
        status = weir__atomic_write(&k->list, text.data, text.size, error);
    weir_bytes_release(&text);
    return status;
}

uint64_t weir_ingest__keep_bytes(const weir_ingest__keeper *k) {
    return k ? k->bytes : 0;
}

/* Whoever calls this holds the manifest's lock: no other ingest of this store begins before the folder is
 * swept. */
weir_status weir_ingest__keep_commit(weir_ingest__keeper *k, weir_error *error) {
    if (!k)
        return WEIR_OK;
    WEIR__TRY(weir__atomic_commit(&k->list, error));
    sweep_folder(k);
    k->is_ours = false;
    return WEIR_OK;
}

void weir_ingest__keep_close(weir_ingest__keeper *k) {
    if (!k)
        return;
    for (uint32_t t = 0; t < k->table_count; t++)
        for (uint32_t p = 0; p < k->tables[t].part_count; p++) {
            kept_part *part = &k->tables[t].parts[p];
            if (part->file >= 0)
                k->env->close(k->env->context, part->file);
            if (part->out.env)
                weir_ingest__run_writer_release(&part->out);
            weir__release(k->env, part->latest.text);
        }
    if (k->is_ours)
        sweep_folder(k);
    weir__atomic_abandon(&k->list);
    weir__arena_release(&k->arena);
    weir__release(k->env, k);
}
