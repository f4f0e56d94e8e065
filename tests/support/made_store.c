/* See made_store.h. Numbers are drawn, laid out by the library's own rules (weir_store__layout_record) and
 * written by its own writer into a file system in memory; what is here is the data: records, child lists,
 * seeds, texts. */
#include "support/made_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "store/writer.h"

enum { NAME = 24, CATEGORIES = 5, TEXTS = 7, TIMES = 40 };

typedef struct maker {
    uint64_t state;
    made_sizes sizes;
    weir_store_info info;
    weir_table *tables;
    weir_column *columns;
    weir_edge *edges;
    weir_task *tasks;
    char (*names)[NAME];
    uint32_t name_count;
    uint8_t **records;          /* by table */
    struct made_label **labels; /* by task: its seeds, if it says when labels are known */
    weir_store__writer writer;
    bool has_failed;
} maker;

typedef struct made_label {
    uint32_t anchor;
    uint32_t seed;
    int64_t time;  /* of observation */
    int64_t known; /* WEIR_TIME_NEVER: never */
} made_label;

static uint32_t below(maker *m, uint32_t range) {
    uint64_t z = m->state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return range ? (uint32_t)((z ^ z >> 31) % range) : 0;
}

static uint32_t how_many(maker *m, uint32_t most, uint32_t least) {
    return m->sizes.is_exact || most <= least ? most : least + below(m, most - least + 1);
}

static void *take(maker *m, size_t count, size_t size) {
    void *memory = calloc(count ? count : 1, size ? size : 1);
    m->has_failed |= !memory;
    return memory;
}

static const char *name_of(maker *m, const char *kind, uint32_t number) {
    char *name = m->names[m->name_count++];
    snprintf(name, NAME, "%s%u", kind, number);
    return name;
}

/* Tables stand in the order of their names. */
static const char *table_name(maker *m, uint32_t number) {
    char *name = m->names[m->name_count++];
    snprintf(name, NAME, "t%05u", number);
    return name;
}

/* ---- Describing ------------------------------------------------------------------------------ */

static void describe_column(maker *m, uint32_t table, uint32_t number, bool is_key) {
    weir_column *c = &m->columns[number];
    *c = (weir_column){.name = name_of(m, "c", number),
                       .description = below(m, 2) ? "described" : "",
                       .table = table,
                       .task = WEIR_NONE,
                       .stype = is_key ? WEIR_IDENTIFIER : (weir_stype)below(m, WEIR_IGNORED),
                       .known_at = WEIR_NONE,
                       .known_time = WEIR_NONE,
                       .statistics = {.mean = 0.5, .std = 2, .count = 3}};
    if (c->stype == WEIR_CATEGORICAL)
        c->category_count = CATEGORIES;
}

/* A timestamp column of a table, or WEIR_NONE. */
static uint32_t time_column(maker *m, const weir_table *table) {
    uint32_t count = table->column_count;
    uint32_t start = below(m, count);
    bool is_wanted = below(m, 3) > 0;
    for (uint32_t i = 0; i < count && is_wanted; i++) {
        uint32_t column = table->column_start + (start + i) % count;
        if (m->columns[column].stype == WEIR_TIMESTAMP)
            return column;
    }
    return WEIR_NONE;
}

static void describe_table(maker *m, uint32_t t) {
    weir_table *table = &m->tables[t];
    weir_store_info *info = &m->info;
    *table = (weir_table){.name = table_name(m, t),
                          .row_start = info->row_count,
                          .first_number = info->format == 1 ? (uint32_t)info->row_count : 0,
                          .row_count =
                              how_many(m, t == 0 && m->sizes.children ? m->sizes.children : m->sizes.rows, 0),
                          .temporal_time = WEIR_NONE,
                          .column_start = info->table_column_count,
                          .column_count = how_many(m, m->sizes.columns, 0),
                          .edge_start = info->edge_count,
                          .edge_count = how_many(m, m->sizes.edges, 0)};
    info->row_count += table->row_count;
    info->table_column_count += table->column_count;
    info->edge_count += table->edge_count;
    for (uint32_t c = 0; c < table->column_count; c++)
        describe_column(m, t, table->column_start + c, c < table->edge_count && below(m, 2));
    for (uint32_t c = 0; c < table->column_count; c++)
        m->columns[table->column_start + c].known_at = time_column(m, table);
    table->temporal_column = time_column(m, table);
    for (uint32_t e = 0; e < table->edge_count; e++) {
        bool has_column = e < table->column_count;
        m->edges[table->edge_start + e] = (weir_edge){
            .name = name_of(m, "e", e),
            .columns = &m->edges[table->edge_start + e].name,
            .column_count = 1,
            .table = t,
            .column = has_column ? table->column_start + e : WEIR_NONE,
            .parent_table = m->sizes.is_exact ? (t + 1) % m->sizes.tables : below(m, info->table_count),
            .known_at = time_column(m, table),
            .known_time = WEIR_NONE};
    }
    m->has_failed |=
        !weir_store__layout_record(table, m->columns + table->column_start, m->edges + table->edge_start);
}

static uint32_t anchor_of(maker *m) {
    return m->sizes.is_exact ? m->info.table_count - 2 : below(m, m->info.table_count);
}

static void describe_task(maker *m, uint32_t number) {
    static const weir_stype targets[] = {WEIR_NUMERICAL, WEIR_TIMESTAMP, WEIR_BOOLEAN, WEIR_CATEGORICAL};
    weir_task *task = &m->tasks[number];
    *task = (weir_task){.name = name_of(m, "k", number),
                        .target_column = "target",
                        .anchor_table = anchor_of(m),
                        .stype = targets[below(m, 4)]};
    const weir_table *anchor = &m->tables[task->anchor_table];
    uint32_t column = anchor->column_start + below(m, anchor->column_count);
    weir_stype stype = anchor->column_count ? m->columns[column].stype : WEIR_IGNORED;
    task->is_cell = stype == WEIR_NUMERICAL || stype == WEIR_TIMESTAMP || stype == WEIR_BOOLEAN ||
                    stype == WEIR_CATEGORICAL;
    task->stype = task->is_cell ? stype : task->stype;
    task->column = task->is_cell ? column : m->info.column_count++;
    if (!task->is_cell)
        m->columns[task->column] = (weir_column){.name = "target",
                                                 .table = WEIR_NONE,
                                                 .known_time = WEIR_NONE,
                                                 .statistics = {.mean = 0, .std = 1, .count = 1},
                                                 .category_count = CATEGORIES};
    for (int split = 0; split < WEIR_SPLITS; split++)
        task->split_start[split + 1] =
            task->split_start[split] + (anchor->row_count ? how_many(m, m->sizes.seeds, 0) : 0);
    task->seed_count = task->split_start[WEIR_SPLITS];
    static const uint8_t has_times = 0;
    task->seed_times = below(m, 2) ? &has_times : NULL;
}

/* Marks are made when all columns and edges are known. */
static void mark_dropped(maker *m, weir_task *task) {
    uint8_t *dropped = take(m, m->info.column_count, 1);
    uint8_t *hidden = take(m, m->info.edge_count, 1);
    for (uint32_t c = 0; dropped && c < m->info.column_count; c++)
        dropped[c] = c != task->column && below(m, 8) == 0;
    for (uint32_t e = 0; hidden && e < m->info.edge_count; e++)
        hidden[e] = !m->sizes.is_exact && below(m, 8) == 0;
    task->column_dropped = dropped;
    task->edge_hidden = hidden;
}

/* The seeds of a task that says when its labels are known, and what it says of them. */
static void describe_labels(maker *m, uint32_t number) {
    weir_task *task = &m->tasks[number];
    const weir_table *anchor = &m->tables[task->anchor_table];
    task->observed_column = WEIR_NONE;
    if (!m->sizes.has_labels || task->is_cell || !task->seed_times)
        return;
    made_label *labels = m->labels[number] = take(m, task->seed_count, sizeof *labels);
    task->has_label_times = true;
    task->has_horizon = below(m, 2);
    task->horizon = task->has_horizon ? below(m, TIMES / 4) : 0;
    task->label_known_column = task->has_horizon ? NULL : "known";
    task->observed_column = m->info.column_count++;
    m->columns[task->observed_column] = weir_store__task_column("observed", number, WEIR_TIMESTAMP);
    for (uint32_t i = 0; labels && i < task->seed_count; i++) {
        int64_t time = below(m, 8) ? below(m, TIMES) : INT64_MAX;
        int64_t later = task->has_horizon ? task->horizon : below(m, TIMES / 4);
        bool is_known = time != INT64_MAX && (task->has_horizon || below(m, 5) > 0);
        labels[i] = (made_label){.anchor = anchor->first_number + below(m, anchor->row_count),
                                 .seed = i,
                                 .time = time,
                                 .known = is_known ? time + later : WEIR_TIME_NEVER};
        task->labels.count += is_known;
        task->train_labels.count += is_known && i < task->split_start[WEIR_TRAIN + 1];
    }
}

static void describe(maker *m) {
    weir_store_info *info = &m->info;
    *info = (weir_store_info){.name = "made",
                              .format = m->sizes.format == 2 ? 2 : 1,
                              .embedding_dim = how_many(m, m->sizes.dim, 0),
                              .embedding_provider = "made",
                              .table_count = how_many(m, m->sizes.tables, 1),
                              .category_count = CATEGORIES,
                              .text_count = TEXTS,
                              .timestamps = {.mean = 10, .std = 3, .count = 9}};
    for (uint32_t t = 0; t < info->table_count; t++)
        describe_table(m, t);
    info->column_count = info->table_column_count;
    info->task_count = how_many(m, m->sizes.tasks, 1);
    for (uint32_t k = 0; k < info->task_count; k++)
        describe_task(m, k);
    for (uint32_t k = 0; k < info->task_count; k++)
        describe_labels(m, k);
    for (uint32_t k = 0; k < info->task_count; k++)
        mark_dropped(m, &m->tasks[k]);
    info->tables = m->tables;
    info->columns = m->columns;
    info->edges = m->edges;
    info->tasks = m->tasks;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

static void fill_record(maker *m, const weir_table *table, uint8_t *record) {
    for (uint32_t i = 0; i < table->column_count; i++) {
        const weir_column *c = &m->columns[table->column_start + i];
        bool is_null = below(m, 6) == 0;
        if (is_null)
            weir__set_bit(record + table->bits_offset, c->null_bit);
        if (c->stype == WEIR_TIMESTAMP)
            weir__store64(record + c->slot, is_null ? (uint64_t)WEIR_TIME_ALWAYS : below(m, TIMES));
        else if (c->stype == WEIR_BOOLEAN && !is_null && below(m, 2))
            weir__set_bit(record + table->bits_offset, c->bool_bit);
        else if (c->slot != WEIR_NONE && !is_null)
            weir__store32(record + c->slot, c->stype == WEIR_TEXT          ? below(m, TEXTS)
                                            : c->stype == WEIR_CATEGORICAL ? below(m, CATEGORIES)
                                                                           : 0x3F800000u + below(m, 1 << 20));
    }
    for (uint32_t e = 0; e < table->edge_count; e++) {
        const weir_edge *edge = &m->edges[table->edge_start + e];
        const weir_table *parents = &m->tables[edge->parent_table];
        bool has_parent = parents->row_count > 0 && (m->sizes.is_exact || below(m, 5) > 0);
        bool has_hubs = m->sizes.hubs > 0 && m->sizes.hubs < parents->row_count;
        uint32_t range = has_hubs ? m->sizes.hubs : parents->row_count;
        weir__store32(record + edge->parent_slot,
                      has_parent ? parents->first_number + below(m, range) : WEIR_NONE);
    }
}

static void fill_tables(maker *m) {
    for (uint32_t t = 0; t < m->info.table_count && !m->has_failed; t++) {
        const weir_table *table = &m->tables[t];
        m->records[t] = take(m, table->row_count, table->stride);
        for (uint32_t r = 0; m->records[t] && r < table->row_count; r++)
            fill_record(m, table, m->records[t] + (size_t)r * table->stride);
    }
}

/* ---- Children -------------------------------------------------------------------------------- */

typedef struct child {
    uint32_t parent;
    uint32_t row;
    int64_t time;
} child;

static int compare_children(const void *a, const void *b) {
    const child *left = a, *right = b;
    if (left->parent != right->parent)
        return left->parent < right->parent ? -1 : 1;
    if (left->time != right->time)
        return left->time < right->time ? -1 : 1;
    return left->row < right->row ? -1 : left->row > right->row;
}

static int64_t slot_time(const uint8_t *record, uint32_t slot) {
    return slot == WEIR_NONE ? WEIR_TIME_ALWAYS : (int64_t)weir__load64(record + slot);
}

static int64_t edge_time(const maker *m, const weir_table *table, const weir_edge *edge,
                         const uint8_t *record) {
    int64_t row = slot_time(record, table->time_offset);
    if (edge->known_at == WEIR_NONE)
        return row;
    int64_t known = slot_time(record, m->columns[edge->known_at].slot);
    return known == WEIR_TIME_ALWAYS ? WEIR_TIME_NEVER : known > row ? known : row;
}

/* The children of every edge type, sorted; counts them and says whether they have times. */
static child **find_children(maker *m) {
    static const uint8_t has_times = 0;
    child **children = take(m, m->info.edge_count, sizeof *children);
    for (uint32_t e = 0; children && e < m->info.edge_count; e++) {
        weir_edge *edge = &m->edges[e];
        const weir_table *table = &m->tables[edge->table];
        children[e] = take(m, table->row_count, sizeof **children);
        for (uint32_t r = 0; children[e] && r < table->row_count; r++) {
            const uint8_t *record = m->records[edge->table] + (size_t)r * table->stride;
            uint32_t parent = weir__load32(record + edge->parent_slot);
            if (parent == WEIR_NONE)
                continue;
            int64_t time = edge_time(m, table, edge, record);
            children[e][edge->edges++] = (child){parent, table->first_number + r, time};
            edge->child_times = time != WEIR_TIME_ALWAYS ? &has_times : edge->child_times;
        }
        if (children[e])
            qsort(children[e], edge->edges, sizeof **children, compare_children);
    }
    return children;
}

/* ---- Writing --------------------------------------------------------------------------------- */

static void put32(maker *m, uint32_t value) {
    uint8_t bytes[4];
    weir__store32(bytes, value);
    weir_store__writer_put(&m->writer, bytes, sizeof bytes);
}

static void put64(maker *m, uint64_t value) {
    uint8_t bytes[8];
    weir__store64(bytes, value);
    weir_store__writer_put(&m->writer, bytes, sizeof bytes);
}

static void write_metadata(maker *m) {
    weir_cbor_writer w;
    weir_cbor_writer_memory(&w, NULL);
    weir_store__metadata_write(&m->info, &w);
    m->has_failed |= weir_cbor_finish(&w, NULL) != WEIR_OK;
    weir_store__writer_begin(&m->writer, WEIR_STORE__SECTION_METADATA);
    weir_store__writer_put(&m->writer, w.data, w.size);
    weir_cbor_release(&w);
}

static void write_children(maker *m, child *const *children) {
    weir_store__writer_begin(&m->writer, WEIR_STORE__SECTION_CHILD_STARTS);
    for (uint32_t e = 0; e < m->info.edge_count; e++) {
        const weir_table *parents = &m->tables[m->edges[e].parent_table];
        uint64_t at = 0;
        for (uint32_t p = 0; p <= parents->row_count; p++) {
            while (at < m->edges[e].edges && children[e][at].parent < parents->first_number + p)
                at++;
            put32(m, (uint32_t)at);
        }
    }
    weir_store__writer_begin(&m->writer, WEIR_STORE__SECTION_CHILD_ROWS);
    for (uint32_t e = 0; e < m->info.edge_count; e++)
        for (uint64_t i = 0; i < m->edges[e].edges; i++)
            put32(m, children[e][i].row);
    weir_store__writer_begin(&m->writer, WEIR_STORE__SECTION_CHILD_TIMES);
    for (uint32_t e = 0; e < m->info.edge_count; e++)
        for (uint64_t i = 0; m->edges[e].child_times && i < m->edges[e].edges; i++)
            put64(m, (uint64_t)children[e][i].time);
}

static void write_seeds(maker *m) {
    weir_store__writer_begin(&m->writer, WEIR_STORE__SECTION_SEED_ROWS);
    for (uint32_t k = 0; k < m->info.task_count; k++)
        for (uint32_t i = 0; i < m->tasks[k].seed_count; i++) {
            const weir_table *anchor = &m->tables[m->tasks[k].anchor_table];
            put32(m,
                  m->labels[k] ? m->labels[k][i].anchor : anchor->first_number + below(m, anchor->row_count));
        }
    weir_store__writer_begin(&m->writer, WEIR_STORE__SECTION_SEED_TIMES);
    for (uint32_t k = 0; k < m->info.task_count; k++)
        for (uint32_t i = 0; m->tasks[k].seed_times && i < m->tasks[k].seed_count; i++)
            put64(m, m->labels[k]  ? (uint64_t)m->labels[k][i].time
                     : below(m, 4) ? below(m, TIMES)
                                   : (uint64_t)INT64_MAX);
    weir_store__writer_begin(&m->writer, WEIR_STORE__SECTION_SEED_TARGETS);
    for (uint32_t k = 0; k < m->info.task_count; k++)
        for (uint32_t i = 0; !m->tasks[k].is_cell && i < m->tasks[k].seed_count; i++)
            put64(m, m->tasks[k].stype == WEIR_BOOLEAN ? below(m, 2) : below(m, CATEGORIES));
    weir_store__writer_begin(&m->writer, WEIR_STORE__SECTION_SEED_BITS);
    for (uint32_t k = 0; k < m->info.task_count; k++) {
        const weir_task *task = &m->tasks[k];
        uint64_t bits = task->is_cell ? m->tables[task->anchor_table].row_count : task->seed_count;
        for (uint64_t word = 0; word < weir__bits_size(bits) / 8; word++)
            put64(m, task->is_cell ? below(m, UINT32_MAX) : 0);
    }
}

static int compare_labels(const void *a, const void *b) {
    const made_label *x = a, *y = b;
    if (x->anchor != y->anchor)
        return x->anchor < y->anchor ? -1 : 1;
    if (x->known != y->known)
        return x->known < y->known ? -1 : 1;
    return x->seed < y->seed ? -1 : 1;
}

/* A list of the labels of seeds below `end`; `labels` are in its order. */
static void write_label_list(maker *m, const weir_task *task, const made_label *labels, uint64_t end) {
    const weir_table *anchor = &m->tables[task->anchor_table];
    uint32_t at = 0, listed = 0;
    weir_store__writer_begin(&m->writer, WEIR_STORE__SECTION_LABELS);
    weir_store__writer_align(&m->writer, WEIR_STORE__LABEL_ALIGNMENT);
    for (uint32_t i = 0; i < task->seed_count; i++)
        if (labels[i].seed < end && labels[i].known != WEIR_TIME_NEVER)
            put64(m, (uint64_t)labels[i].known);
    for (uint32_t a = 0; a <= anchor->row_count; a++) {
        for (; at < task->seed_count && labels[at].anchor < anchor->first_number + a; at++)
            listed += labels[at].seed < end && labels[at].known != WEIR_TIME_NEVER;
        put32(m, listed);
    }
    for (uint32_t i = 0; i < task->seed_count; i++)
        if (labels[i].seed < end && labels[i].known != WEIR_TIME_NEVER)
            put32(m, m->info.first_task_number + labels[i].seed);
}

static void write_labels(maker *m) {
    for (uint32_t k = 0; k < m->info.task_count; k++) {
        const weir_task *task = &m->tasks[k];
        if (!m->labels[k])
            continue;
        qsort(m->labels[k], task->seed_count, sizeof *m->labels[k], compare_labels);
        write_label_list(m, task, m->labels[k], task->seed_count);
        write_label_list(m, task, m->labels[k], task->split_start[WEIR_TRAIN + 1]);
    }
}

/* Texts "xxxx…" of 1, 2, 3 … bytes. */
static void write_texts(maker *m, weir_store__section_kind offsets, uint32_t count) {
    weir_store__writer_begin(&m->writer, offsets);
    for (uint64_t i = 0; i <= count; i++)
        put64(m, i * (i + 1) / 2);
    weir_store__writer_begin(&m->writer, (weir_store__section_kind)(offsets + 1));
    for (uint64_t i = 0; i < (uint64_t)count * (count + 1) / 2; i++)
        weir_store__writer_put(&m->writer, "x", 1);
}

static void write_embeddings(maker *m, weir_store__section_kind kind, uint32_t count) {
    weir_store__writer_begin(&m->writer, kind);
    for (uint64_t i = 0; i < (uint64_t)count * m->info.embedding_dim; i++) {
        uint8_t half[2] = {(uint8_t)below(m, 256), 0x38};
        weir_store__writer_put(&m->writer, half, sizeof half);
    }
}

static void write_sections(maker *m, child *const *children) {
    write_metadata(m);
    weir_store__writer_begin(&m->writer, WEIR_STORE__SECTION_ROWS);
    for (uint32_t t = 0; t < m->info.table_count; t++) {
        weir_store__writer_align(&m->writer, WEIR_STORE__TABLE_ALIGNMENT);
        weir_store__writer_put(&m->writer, m->records[t],
                               (size_t)m->tables[t].row_count * m->tables[t].stride);
    }
    write_children(m, children);
    write_seeds(m);
    write_texts(m, WEIR_STORE__SECTION_CATEGORY_OFFSETS, CATEGORIES);
    write_texts(m, WEIR_STORE__SECTION_TEXT_OFFSETS, TEXTS);
    write_embeddings(m, WEIR_STORE__SECTION_COLUMN_EMBEDDINGS, m->info.column_count);
    write_embeddings(m, WEIR_STORE__SECTION_CATEGORY_EMBEDDINGS, CATEGORIES);
    write_embeddings(m, WEIR_STORE__SECTION_TEXT_EMBEDDINGS, TEXTS);
    write_labels(m);
}

/* ---- From beginning to end ------------------------------------------------------------------- */

static uint8_t *write_store(maker *m, child *const *children, size_t *size) {
    static const char path[] = "made.weir";
    memory_env files;
    uint8_t hash[WEIR_HASH_SIZE];
    uint8_t *bytes = NULL;
    uint64_t file_size;
    memory_env_init(&files);
    if (!m->has_failed && weir_store__writer_open(&m->writer, &files.env, path, NULL) == WEIR_OK) {
        m->writer.format = m->info.format;
        write_sections(m, children);
        if (m->has_failed || weir_store__writer_finish(&m->writer, hash, &file_size, NULL) != WEIR_OK) {
            weir_store__writer_abandon(&m->writer);
        } else if (weir_store__writer_commit(&m->writer, NULL) == WEIR_OK) {
            memory_file *file = memory_env_file(&files, path);
            bytes = file->data;
            *size = file->size;
            file->data = NULL; /* the caller's now */
        }
    }
    memory_env_close(&files);
    return bytes;
}

uint8_t *make_store_bytes(uint64_t seed, const made_sizes *sizes, size_t *size) {
    maker m = {.state = seed, .sizes = *sizes};
    size_t columns = (size_t)sizes->tables * sizes->columns + 2 * (size_t)sizes->tasks;
    size_t edges = (size_t)sizes->tables * sizes->edges;
    m.tables = take(&m, sizes->tables, sizeof *m.tables);
    m.columns = take(&m, columns, sizeof *m.columns);
    m.edges = take(&m, edges, sizeof *m.edges);
    m.tasks = take(&m, sizes->tasks, sizeof *m.tasks);
    m.records = take(&m, sizes->tables, sizeof *m.records);
    m.labels = take(&m, sizes->tasks, sizeof *m.labels);
    m.names = take(&m, sizes->tables + columns + edges + sizes->tasks, sizeof *m.names);
    child **children = NULL;
    if (!m.has_failed) {
        describe(&m);
        m.info.first_task_number = m.info.format == 1 ? (uint32_t)m.info.row_count : 0;
        fill_tables(&m);
        children = m.has_failed ? NULL : find_children(&m);
    }
    uint8_t *bytes = write_store(&m, children, size);
    for (uint32_t e = 0; children && e < m.info.edge_count; e++)
        free(children[e]);
    for (uint32_t t = 0; m.records && t < m.info.table_count; t++)
        free(m.records[t]);
    for (uint32_t k = 0; m.tasks && k < m.info.task_count; k++) {
        free((void *)m.tasks[k].column_dropped);
        free((void *)m.tasks[k].edge_hidden);
        free(m.labels ? m.labels[k] : NULL);
    }
    free(children);
    free(m.labels);
    free(m.records);
    free(m.names);
    free(m.tasks);
    free(m.edges);
    free(m.columns);
    free(m.tables);
    return bytes;
}

weir_manifest *make_store_manifest(const weir_store *store, uint32_t task, weir_split split,
                                   uint64_t batch_size, const char *batch) {
    const weir_store_info *info = weir_store_describe(store);
    char text[1024];
    weir_manifest *manifest = NULL;
    uint64_t cardinality = info->tasks[task].split_start[split + 1] - info->tasks[task].split_start[split];
    int size = snprintf(
        text, sizeof text,
        "{\"seed\": 3, \"global_batch_size\": %llu, \"batch\": {%s}, \"datasets\": {\"made/k%u/%s\": "
        "{\"id\": \"made\", \"version\": \"1\", \"cardinality\": %llu, \"hash\": \"%064d\"}}}",
        (unsigned long long)batch_size, batch, task, weir_split_name(split), (unsigned long long)cardinality,
        0);
    if (size < 0 || (size_t)size >= sizeof text ||
        weir_manifest_read(NULL, text, (size_t)size, "made", &manifest, NULL) != WEIR_OK)
        return NULL;
    return manifest;
}
