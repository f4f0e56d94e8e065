/* The safe accessors: each checks what it follows, so that a damaged store gives "none" and never a stray
 * read. */
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "store/link_pairs.h"
#include "store/reader.h"
#include "weir_tool/store_tools.h"

uint32_t weir_store_table_of(const weir_store *store, uint64_t row) {
    const weir_store_info *info = &store->info;
    uint32_t low = 0;
    uint32_t high = info->table_count;
    if (row >= info->row_count)
        return WEIR_NONE;
    while (high - low > 1) { /* the last table that begins at or before the row */
        uint32_t middle = low + (high - low) / 2;
        if (info->tables[middle].row_start <= row)
            low = middle;
        else
            high = middle;
    }
    return low;
}

uint64_t weir_store_row_of(const weir_store *store, uint32_t table, uint32_t number) {
    const weir_table *of = table < store->info.table_count ? &store->info.tables[table] : NULL;
    return of && weir_store__has_number(of, number) ? weir_store__row_at(of, number) : WEIR_NO_ROW;
}

uint32_t weir_store_number_of(const weir_store *store, uint64_t row) {
    uint32_t t = weir_store_table_of(store, row);
    if (t == WEIR_NONE)
        return WEIR_NONE;
    const weir_table *table = &store->info.tables[t];
    return table->first_number + WEIR__NARROW(uint32_t, row - table->row_start);
}

/* A row's record, verified; NULL if it is damaged. */
static const uint8_t *record_of(const weir_store *store, const weir_table *table, uint64_t row) {
    const uint8_t *record = table->records + (size_t)(row - table->row_start) * table->stride;
    bool is_whole =
        table->stride == 0 || weir_store__touch_in(store, WEIR_STORE__SECTION_ROWS, record, table->stride);
    return is_whole ? record : NULL;
}

const uint8_t *weir_store_record(const weir_store *store, uint64_t row) {
    uint32_t t = weir_store_table_of(store, row);
    return t == WEIR_NONE ? NULL : record_of(store, &store->info.tables[t], row);
}

static int64_t record_time(const weir_table *table, const uint8_t *record) {
    return table->time_offset == WEIR_NONE ? WEIR_TIME_ALWAYS
                                           : (int64_t)weir__load64(record + table->time_offset);
}

int64_t weir_store_row_time(const weir_store *store, uint64_t row) {
    uint32_t t = weir_store_table_of(store, row);
    const uint8_t *record = t == WEIR_NONE ? NULL : record_of(store, &store->info.tables[t], row);
    return record ? record_time(&store->info.tables[t], record) : WEIR_TIME_ALWAYS;
}

int64_t weir_store_time_at(const weir_store *store, uint64_t row, uint32_t slot) {
    uint32_t t = weir_store_table_of(store, row);
    if (t == WEIR_NONE || slot == WEIR_NONE || store->info.tables[t].stride < 8 ||
        slot > store->info.tables[t].stride - 8)
        return WEIR_TIME_ALWAYS;
    const uint8_t *record = weir_store_record(store, row);
    return record ? (int64_t)weir__load64(record + slot) : WEIR_TIME_ALWAYS;
}

void weir_store__cut_text_add(weir_store__cut_text *text, const char *bytes, size_t size) {
    for (size_t i = 0; i < size; i++, text->length++)
        if (text->length + 1 < text->size)
            text->out[text->length] = bytes[i];
    if (text->size > 0)
        text->out[text->length < text->size ? text->length : text->size - 1] = 0;
}

static void add_text(weir_store__cut_text *text, const char *more) {
    weir_store__cut_text_add(text, more, strlen(more));
}

static const weir_edge *find_edge(const weir_store_info *info, const weir_table *table, const char *name) {
    for (uint32_t e = table->edge_start; e < table->edge_start + table->edge_count; e++)
        if (strcmp(info->edges[e].name, name) == 0)
            return &info->edges[e];
    return NULL;
}

/* The names of a path, each behind the table that the key before it leads to (if there is such a key: a
 * damaged store may name anything). */
static void add_path(const weir_store_info *info, const weir_table *table, const weir_time_path *path,
                     weir_store__cut_text *text) {
    for (uint32_t i = 0; i < path->count; i++) {
        const weir_edge *edge = table && i > 0 ? find_edge(info, table, path->names[i - 1]) : NULL;
        if (i > 0) {
            table = edge ? &info->tables[edge->parent_table] : NULL;
            add_text(text, " -> ");
            add_text(text, table ? table->name : "?");
            add_text(text, ".");
        }
        add_text(text, path->names[i]);
    }
}

size_t weir_store_time_text(const weir_store *store, uint32_t table, uint32_t time, char *out, size_t size) {
    const weir_store_info *info = &store->info;
    weir_store__cut_text text = {out, size, 0};
    add_text(&text, "");
    if (table >= info->table_count || time >= info->tables[table].time_count)
        return 0;
    const weir_stored_time *stored = &info->tables[table].times[time];
    if (stored->path_count > 1)
        add_text(&text, "the latest of ");
    for (uint32_t p = 0; p < stored->path_count; p++) {
        add_text(&text, p > 0 ? ", " : "");
        add_path(info, &info->tables[table], &stored->paths[p], &text);
    }
    return text.length;
}

uint64_t weir_store_parent(const weir_store *store, uint64_t row, uint32_t edge) {
    const weir_store_info *info = &store->info;
    if (edge >= info->edge_count || weir_store_table_of(store, row) != info->edges[edge].table)
        return WEIR_NO_ROW;
    const uint8_t *record = record_of(store, &info->tables[info->edges[edge].table], row);
    return record ? weir_store_row_of(store, info->edges[edge].parent_table,
                                      weir__load32(record + info->edges[edge].parent_slot))
                  : WEIR_NO_ROW;
}

static float float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The value at a column's slot, if it is not null. */
static void read_value(const weir_store_info *info, const weir_table *table, const weir_column *column,
                       const uint8_t *record, weir_cell *out) {
    weir_value value = weir_value_of(column->stype);
    uint32_t word;
    switch (value) {
    case WEIR_VALUE_TIME:
        out->integer = (int64_t)weir__load64(record + column->slot);
        break;
    case WEIR_VALUE_TRUTH:
        out->integer = weir__bit(record + table->bits_offset, column->bool_bit) ? 1 : 0;
        break;
    case WEIR_VALUE_NUMBER:
        out->number = float_of_bits(weir__load32(record + column->slot));
        break;
    case WEIR_VALUE_CATEGORY:
    case WEIR_VALUE_TEXT:
        word = weir__load32(record + column->slot);
        out->integer = word;
        if (word >= (value == WEIR_VALUE_TEXT ? info->text_count : info->category_count))
            *out = (weir_cell){.stype = column->stype, .is_null = true};
        break;
    case WEIR_VALUE_PRESENCE:
    case WEIR_VALUE_NOTHING:
        break;
    }
}

bool weir_store_cell(const weir_store *store, uint64_t row, uint32_t column, weir_cell *out) {
    const weir_store_info *info = &store->info;
    *out = (weir_cell){.is_null = true};
    if (column >= info->table_column_count || weir_store_table_of(store, row) != info->columns[column].table)
        return false;
    const weir_column *described = &info->columns[column];
    const weir_table *table = &info->tables[described->table];
    const uint8_t *record = record_of(store, table, row);
    out->stype = described->stype;
    if (!record)
        return false;
    out->is_null = weir__bit(record + table->bits_offset, described->null_bit);
    if (!out->is_null)
        read_value(info, table, described, record, out);
    return true;
}

/* How many of the times[0, count), ascending, are at most `limit`: often all. Only the blocks that are looked
 * at are verified; 0 if one is damaged. */
static uint32_t count_known(const weir_store *store, const uint8_t *times, uint32_t count, int64_t limit) {
    uint32_t low = 0;
    uint32_t high = count;
    uint32_t middle = count - 1;
    while (low < high) {
        const uint8_t *time = times + 8 * (size_t)middle;
        if (!weir_store__touch_in(store, WEIR_STORE__SECTION_CHILD_TIMES, time, 8))
            return 0;
        if ((int64_t)weir__load64(time) <= limit)
            low = middle + 1;
        else
            high = middle;
        middle = low + (high - low) / 2;
    }
    return low;
}

uint32_t weir_store_children(const weir_store *store, uint32_t edge, uint64_t parent_row,
                             int64_t observation_time, uint32_t *count) {
    const weir_store_info *info = &store->info;
    *count = 0;
    if (edge >= info->edge_count)
        return 0;
    const weir_edge *e = &info->edges[edge];
    const weir_table *parents = &info->tables[e->parent_table];
    if (parent_row < parents->row_start || parent_row - parents->row_start >= parents->row_count)
        return 0;
    const uint8_t *at = e->starts + 4 * (size_t)(parent_row - parents->row_start);
    if (!weir_store__touch_in(store, WEIR_STORE__SECTION_CHILD_STARTS, at, 8))
        return 0;
    uint32_t start = weir__load32(at), end = weir__load32(at + 4);
    if (start > end || end > e->edges)
        return 0;
    int64_t limit = observation_time == WEIR_TIME_NEVER ? WEIR_TIME_NEVER - 1 : observation_time;
    uint32_t known = e->child_times
                         ? count_known(store, e->child_times + 8 * (size_t)start, end - start, limit)
                         : end - start;
    if (weir_store__touch_in(store, WEIR_STORE__SECTION_CHILD_ROWS, e->child_rows + 4 * (size_t)start,
                             4 * (size_t)known))
        *count = known;
    return start;
}

/* A derived task's target; false if it is damaged. */
static bool read_target(const weir_store *store, const weir_task *task, uint64_t index, weir_cell *out) {
    const uint8_t *at = task->seed_targets + 8 * (size_t)index;
    *out = (weir_cell){.stype = task->stype, .is_null = true};
    if (!weir_store__touch_in(store, WEIR_STORE__SECTION_SEED_TARGETS, at, 8) ||
        !weir_store__touch_in(store, WEIR_STORE__SECTION_SEED_BITS, task->seed_nulls + index / 8, 1))
        return false;
    uint64_t bits = task->link.is_link ? 1 : weir__load64(at);
    out->is_null = weir__bit(task->seed_nulls, index);
    if (out->is_null)
        return true;
    if (weir_value_of(task->stype) == WEIR_VALUE_NUMBER)
        out->number = float_of_bits(WEIR__LOW(uint32_t, bits));
    else
        out->integer = (int64_t)bits;
    if (weir_value_of(task->stype) == WEIR_VALUE_CATEGORY && bits >= store->info.category_count)
        *out = (weir_cell){.stype = task->stype, .is_null = true};
    return true;
}

bool weir_store_seed(const weir_store *store, uint32_t task_number, uint64_t index, weir_seed_row *out) {
    const weir_store_info *info = &store->info;
    memset(out, 0, sizeof *out);
    out->destination = WEIR_NO_ROW;
    if (task_number >= info->task_count || index >= info->tasks[task_number].seed_count)
        return false;
    const weir_task *task = &info->tasks[task_number];
    uint32_t place;
    if (task->link.is_link && !(weir_store__link_place(store, task_number, index, &place) &&
                                weir_store__link_row(store, task_number, place, &out->destination)))
        return false;
    const uint8_t *row = task->seed_rows + 4 * (size_t)index;
    const uint8_t *time = task->seed_times ? task->seed_times + 8 * (size_t)index : NULL;
    if (!weir_store__touch_in(store, WEIR_STORE__SECTION_SEED_ROWS, row, 4) ||
        (time && !weir_store__touch_in(store, WEIR_STORE__SECTION_SEED_TIMES, time, 8)))
        return false;
    out->row = weir_store_row_of(store, task->anchor_table, weir__load32(row));
    if (out->row == WEIR_NO_ROW)
        return false;
    const weir_table *anchor = &info->tables[task->anchor_table];
    const uint8_t *record = record_of(store, anchor, out->row);
    if (!record)
        return false;
    out->split = weir_store__split_of(task, index);
    out->observation_time = time ? (int64_t)weir__load64(time) : record_time(anchor, record);
    if (out->observation_time == WEIR_TIME_ALWAYS)
        out->observation_time = INT64_MAX;
    return task->is_cell ? weir_store_cell(store, out->row, task->column, &out->target)
                         : read_target(store, task, index, &out->target);
}

uint64_t weir_store__find_seed_in(const weir_store *store, uint32_t task_number, weir_split split,
                                  uint64_t row, int64_t observation_time) {
    const weir_task *task = &store->info.tasks[task_number];
    uint64_t low = task->split_start[split], high = task->split_start[split + 1], end = high;
    weir_seed_row seed;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (!weir_store_seed(store, task_number, middle, &seed))
            return WEIR_NO_ROW;
        if (seed.row < row || (seed.row == row && seed.observation_time < observation_time))
            low = middle + 1;
        else
            high = middle;
    }
    bool is_found = low < end && weir_store_seed(store, task_number, low, &seed) && seed.row == row &&
                    seed.observation_time == observation_time;
    return is_found ? low : WEIR_NO_ROW;
}

uint64_t weir_store_find_seed(const weir_store *store, uint32_t task, uint64_t row,
                              int64_t observation_time) {
    uint64_t found = WEIR_NO_ROW;
    for (int split = 0; task < store->info.task_count && split < WEIR_SPLITS && found == WEIR_NO_ROW; split++)
        found = weir_store__find_seed_in(store, task, (weir_split)split, row, observation_time);
    return found;
}

int64_t weir_store_label_time(const weir_store *store, uint32_t task_number, uint64_t index) {
    const weir_store_info *info = &store->info;
    weir_seed_row seed;
    if (!weir_store_seed(store, task_number, index, &seed) || !info->tasks[task_number].has_label_times)
        return WEIR_TIME_NEVER;
    const weir_task *task = &info->tasks[task_number];
    const weir_label_list *labels = &task->labels;
    uint64_t anchor = seed.row - info->tables[task->anchor_table].row_start;
    const uint8_t *starts = labels->starts + 4 * (size_t)anchor;
    if (!weir_store__touch_in(store, WEIR_STORE__SECTION_LABELS, starts, 8))
        return WEIR_TIME_NEVER;
    uint32_t start = weir__load32(starts), end = weir__load32(starts + 4);
    for (uint32_t i = start; i < end && end <= labels->count; i++) {
        const uint8_t *row = labels->rows + 4 * (size_t)i, *time = labels->times + 8 * (size_t)i;
        if (weir_store__touch_in(store, WEIR_STORE__SECTION_LABELS, row, 4) &&
            weir__load32(row) - info->first_task_number == index)
            return weir_store__touch_in(store, WEIR_STORE__SECTION_LABELS, time, 8)
                       ? (int64_t)weir__load64(time)
                       : WEIR_TIME_NEVER;
    }
    return WEIR_TIME_NEVER;
}

bool weir_store_is_held_out(const weir_store *store, uint32_t task_number, uint64_t row) {
    const weir_store_info *info = &store->info;
    if (task_number >= info->task_count || !info->tasks[task_number].is_cell)
        return false;
    const weir_task *task = &info->tasks[task_number];
    const weir_table *table = &info->tables[task->anchor_table];
    if (row < table->row_start || row - table->row_start >= table->row_count)
        return false;
    uint64_t index = row - table->row_start;
    return weir_store__touch_in(store, WEIR_STORE__SECTION_SEED_BITS, task->held_out + index / 8, 1) &&
           weir__bit(task->held_out, index);
}

/* ---- Texts ----------------------------------------------------------------------------------- */

/* The index-th text of a pair of sections: offsets, and behind them in the order of kinds, bytes. */
static weir_text text_at(const weir_store *store, weir_store__section_kind kind, uint32_t index,
                         uint32_t count) {
    weir_text none = {"", 0};
    const weir_section *section = weir_store__section(store, (weir_store__section_kind)(kind + 1));
    if (index >= count)
        return none;
    const uint8_t *offsets = store->data + weir_store__section(store, kind)->offset + 8 * (size_t)index;
    if (!weir_store__touch_in(store, kind, offsets, 16))
        return none;
    uint64_t start = weir__load64(offsets);
    uint64_t end = weir__load64(offsets + 8);
    if (start >= end || end > section->size)
        return none;
    const uint8_t *bytes = store->data + section->offset + start;
    if (!weir_store__touch_in(store, (weir_store__section_kind)(kind + 1), bytes, (size_t)(end - start)))
        return none;
    return (weir_text){(const char *)bytes, (size_t)(end - start)};
}

weir_text weir_store_category(const weir_store *store, uint32_t index) {
    return text_at(store, WEIR_STORE__SECTION_CATEGORY_OFFSETS, index, store->info.category_count);
}

weir_text weir_store_text(const weir_store *store, uint32_t index) {
    return text_at(store, WEIR_STORE__SECTION_TEXT_OFFSETS, index, store->info.text_count);
}

size_t weir_store_column_text(const weir_store *store, uint32_t column, char *out, size_t size) {
    const weir_store_info *info = &store->info;
    int length = 0;
    if (size > 0)
        out[0] = 0;
    if (column >= info->column_count)
        return 0;
    const weir_column *c = &info->columns[column];
    if (c->task != WEIR_NONE)
        length = snprintf(out, size, "%s of %s", c->name, info->tasks[c->task].name);
    else
        length = snprintf(out, size, "%s of %s%s%s", c->name, info->tables[c->table].name,
                          *c->description ? ": " : "", c->description);
    return length > 0 ? (size_t)length : 0;
}

size_t weir_store_category_text(const weir_store *store, uint32_t index, char *out, size_t size) {
    weir_text value = weir_store_category(store, index);
    weir_store__cut_text text = {out, size, 0};
    add_text(&text, "");
    for (uint32_t c = 0; c < store->info.column_count; c++) {
        const weir_column *column = &store->info.columns[c]; /* perhaps a derived task's */
        if (index < column->category_start || index - column->category_start >= column->category_count)
            continue;
        add_text(&text, column->name);
        add_text(&text, " is ");
        weir_store__cut_text_add(&text, value.data, value.size);
        break;
    }
    return text.length;
}

/* ---- Datasets -------------------------------------------------------------------------------- */

weir_status weir_store__dataset_hash(const uint8_t store_hash[WEIR_HASH_SIZE], const char *task,
                                     weir_split split, uint8_t hash[WEIR_HASH_SIZE], weir_error *error) {
    weir__sha256 sha;
    weir_cbor_writer w;
    weir__sha256_init(&sha);
    weir__cbor_writer_hash(&w, &sha);
    weir_cbor_array(&w, 4);
    weir_cbor_text(&w, "dataset_v1");
    weir_cbor_bytes(&w, store_hash, WEIR_HASH_SIZE);
    weir_cbor_text(&w, task);
    weir_cbor_text(&w, weir_split_name(split));
    weir_status status = weir_cbor_finish(&w, error);
    weir__sha256_final(&sha, hash);
    return status;
}

/* Whether key is "<name>/<task>/<split>" of this task and split. */
static bool is_dataset_key(const char *key, const char *name, const char *task, const char *split) {
    size_t name_size = strlen(name);
    size_t task_size = strlen(task);
    return strncmp(key, name, name_size) == 0 && key[name_size] == '/' &&
           strncmp(key + name_size + 1, task, task_size) == 0 && key[name_size + 1 + task_size] == '/' &&
           strcmp(key + name_size + task_size + 2, split) == 0;
}

weir_status weir_store_dataset(const weir_store *store, const char *key, weir_stored_dataset *out,
                               weir_error *error) {
    const weir_store_info *info = &store->info;
    for (uint32_t t = 0; t < info->task_count; t++)
        for (int split = 0; split < WEIR_SPLITS; split++) {
            const weir_task *task = &info->tasks[t];
            if (!is_dataset_key(key, info->name, task->name, weir_split_name((weir_split)split)))
                continue;
            out->task = t;
            out->split = (weir_split)split;
            out->cardinality = task->split_start[split + 1] - task->split_start[split];
            return weir_store__dataset_hash(info->store_hash, task->name, out->split, out->hash, error);
        }
    return weir__fail(error, WEIR_INVALID_DATASET_KEY, "weir.store.dataset",
                      "the store %s has no dataset '%s'; `weir info` lists them", info->name, key);
}
