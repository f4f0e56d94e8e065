/* Verifying a store: every section's hash, every padding byte, and that every number points to something.
 * The hashes alone find any damage; the rest finds a file that was written wrongly, hashes and all. */
#include <string.h>

#include "base/bytes.h"
#include "base/parallel.h"
#include "store/keys.h"
#include "store/reader.h"

static const char operator_name[] = "weir.store.verify";

/* ---- Hashes and padding ---------------------------------------------------------------------- */

typedef struct hash_check {
    const weir_store *store;
    bool is_damaged[WEIR_STORE__SECTIONS_MOST];
} hash_check;

static void check_section_hash(void *context, size_t index, uint32_t worker) {
    hash_check *check = context;
    const weir_section *section = &check->store->sections[index];
    uint8_t hash[WEIR_HASH_SIZE];
    (void)worker;
    weir__blake3_of(check->store->data + section->offset, (size_t)section->size, hash);
    check->is_damaged[index] = memcmp(hash, section->hash, sizeof hash) != 0;
}

static bool is_zero(const uint8_t *bytes, size_t size) {
    return size == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0);
}

static weir_status check_hashes(const weir_store *store, uint32_t threads, weir_error *error) {
    hash_check check = {.store = store};
    weir__parallel(store->env, weir__threads_or_processors(threads), store->info.section_count,
                   check_section_hash, &check);
    for (uint32_t i = 0; i < store->info.section_count; i++)
        if (check.is_damaged[i])
            return weir__fail(error, WEIR_STORE_CORRUPT, operator_name,
                              "the section %s of %s is damaged; " WEIR_STORE__MEND, store->sections[i].name,
                              store->path);
    for (int i = 0; i < WEIR_STORE__SECTIONS_MOST; i++)
        if (!weir_store__values_fit(&store->touched->sections[i]))
            return weir__fail(error, WEIR_STORE_CORRUPT, operator_name,
                              "the block hashes of the section %s of %s are damaged; " WEIR_STORE__MEND,
                              store->sections[i].name, store->path);
    size_t frame = weir_store__frame_size(store->info.section_count);
    bool is_clean = is_zero(store->data + frame, WEIR_STORE__PAGE - frame);
    for (uint32_t i = 0; i < store->info.section_count && is_clean; i++) {
        uint64_t end = store->sections[i].offset + store->sections[i].size;
        is_clean = is_zero(store->data + end, (size_t)(weir__align(end, WEIR_STORE__PAGE) - end));
    }
    uint64_t sections_end = weir__load64(store->data + 16);
    if (store->size > sections_end && is_clean) { /* there is a tail */
        uint64_t end = sections_end + WEIR_STORE__TAIL_HEADER_SIZE +
                       weir_store__value_count(store->sections) * WEIR__SUBTREE_VALUE;
        is_clean = is_zero(store->data + end, (size_t)(store->size - end));
    }
    return is_clean
               ? WEIR_OK
               : weir__fail(error, WEIR_STORE_CORRUPT, operator_name,
                            "the padding between sections of %s is not zero; " WEIR_STORE__MEND, store->path);
}

/* ---- Numbers --------------------------------------------------------------------------------- */

static weir_status refuse(weir_error *error, const char *what, const char *name, uint64_t index) {
    return weir__fail(error, WEIR_STORE_CORRUPT, operator_name, "%s %s has a wrong number at %llu", what,
                      name, (unsigned long long)index);
}

/* Whether one column's cell in a record is sound: a null has no value, a number lies in its range. */
static bool cell_is_sound(const weir_store_info *info, const weir_table *table, const weir_column *column,
                          const uint8_t *record) {
    bool is_null = weir__bit(record + table->bits_offset, column->null_bit);
    weir_value kind = weir_value_of(column->stype);
    if (kind == WEIR_VALUE_TIME)
        return is_null == ((int64_t)weir__load64(record + column->slot) == WEIR_TIME_ALWAYS);
    if (kind == WEIR_VALUE_TRUTH)
        return !(is_null && weir__bit(record + table->bits_offset, column->bool_bit));
    if (column->slot == WEIR_NONE)
        return true;
    uint32_t word = weir__load32(record + column->slot);
    if (is_null)
        return word == 0;
    if (kind == WEIR_VALUE_TEXT)
        return word < info->text_count;
    if (kind == WEIR_VALUE_CATEGORY)
        return word >= column->category_start && word - column->category_start < column->category_count;
    return (word & 0x7F800000u) != 0x7F800000u; /* a finite float */
}

static weir_status check_table(const weir_store_info *info, const weir_table *table, weir_error *error) {
    for (uint32_t r = 0; r < table->row_count; r++) {
        const uint8_t *record = table->records + (size_t)r * table->stride;
        for (uint32_t c = 0; c < table->column_count; c++)
            if (!cell_is_sound(info, table, &info->columns[table->column_start + c], record))
                return refuse(error, "column", info->columns[table->column_start + c].name, r);
        for (uint32_t e = 0; e < table->edge_count; e++) {
            const weir_edge *edge = &info->edges[table->edge_start + e];
            uint32_t parent = weir__load32(record + edge->parent_slot);
            if (parent != WEIR_NONE && !weir_store__has_number(&info->tables[edge->parent_table], parent))
                return refuse(error, "foreign key", edge->name, r);
        }
    }
    return WEIR_OK;
}

static weir_status check_edge(const weir_store_info *info, const weir_edge *edge, weir_error *error) {
    uint64_t parents = info->tables[edge->parent_table].row_count;
    for (uint64_t p = 0; p <= parents; p++) {
        uint32_t start = weir__load32(edge->starts + 4 * p);
        uint32_t before = p > 0 ? weir__load32(edge->starts + 4 * (p - 1)) : 0;
        if (start < before || (p == 0 && start != 0) || (p == parents && start != edge->edges))
            return refuse(error, "the child list of", edge->name, p);
        for (uint64_t i = before; i < start && p > 0; i++) {
            uint32_t child = weir__load32(edge->child_rows + 4 * i);
            int64_t time = edge->child_times ? (int64_t)weir__load64(edge->child_times + 8 * i) : 0;
            if (!weir_store__has_number(&info->tables[edge->table], child))
                return refuse(error, "the child list of", edge->name, i);
            if (i == before)
                continue;
            uint32_t child_before = weir__load32(edge->child_rows + 4 * (i - 1));
            int64_t time_before =
                edge->child_times ? (int64_t)weir__load64(edge->child_times + 8 * (i - 1)) : 0;
            if (time < time_before || (time == time_before && child <= child_before))
                return refuse(error, "the child list of", edge->name, i);
        }
    }
    return WEIR_OK;
}

static weir_status check_task(const weir_store_info *info, const weir_task *task, weir_error *error) {
    const weir_column *column = &info->columns[task->column];
    for (uint64_t i = 0; i < task->seed_count; i++) {
        uint32_t row = weir__load32(task->seed_rows + 4 * (size_t)i);
        bool is_sound = weir_store__has_number(&info->tables[task->anchor_table], row);
        if (!task->is_cell && is_sound && weir_value_of(task->stype) == WEIR_VALUE_CATEGORY &&
            !weir__bit(task->seed_nulls, i)) {
            uint64_t category = weir__load64(task->seed_targets + 8 * (size_t)i);
            is_sound = category >= column->category_start &&
                       category - column->category_start < column->category_count;
        }
        if (task->seed_weights) /* neither negative nor infinite nor NaN */
            is_sound = is_sound && weir__load64(task->seed_weights + 8 * (size_t)i) < (uint64_t)0x7ff << 52;
        if (!is_sound)
            return refuse(error, "task", task->name, i);
    }
    return WEIR_OK;
}

/* Whether an entry of a list of labels is what its seed gives: its anchor, its split, a target, and a time.
 */
static bool label_is_sound(const weir_store *store, uint32_t number, const weir_label_list *list,
                           uint32_t entry, uint64_t anchor_row) {
    const weir_task *task = &store->info.tasks[number];
    uint32_t seed = weir__load32(list->rows + 4 * (size_t)entry) - store->info.first_task_number;
    int64_t known = (int64_t)weir__load64(list->times + 8 * (size_t)entry), due;
    uint64_t end = list == &task->labels ? task->seed_count : task->split_start[WEIR_TRAIN + 1];
    weir_seed_row row;
    if (seed >= end || !weir_store_seed(store, number, seed, &row))
        return false;
    return row.row == anchor_row && !row.target.is_null && row.observation_time != INT64_MAX &&
           known != WEIR_TIME_NEVER &&
           (task->has_horizon
                ? !__builtin_add_overflow(row.observation_time, task->horizon, &due) && known == due
                : known >= row.observation_time);
}

/* A list of labels has every anchor's in order. */
static weir_status check_labels(const weir_store *store, uint32_t number, const weir_label_list *list,
                                weir_error *error) {
    const weir_task *task = &store->info.tasks[number];
    const weir_table *anchor = &store->info.tables[task->anchor_table];
    uint32_t start = 0;
    bool is_sound = weir__load32(list->starts) == 0;
    for (uint32_t a = 0; a < anchor->row_count && is_sound; a++) {
        uint32_t end = weir__load32(list->starts + 4 * ((size_t)a + 1));
        is_sound = end >= start && end <= list->count;
        for (uint32_t i = start; i < end && is_sound; i++) {
            int64_t before = i > start ? (int64_t)weir__load64(list->times + 8 * (size_t)(i - 1)) : INT64_MIN;
            int64_t known = (int64_t)weir__load64(list->times + 8 * (size_t)i);
            uint32_t row_before = i > start ? weir__load32(list->rows + 4 * (size_t)(i - 1)) : 0;
            is_sound = label_is_sound(store, number, list, i, anchor->row_start + a) &&
                       (known > before ||
                        (known == before && weir__load32(list->rows + 4 * (size_t)i) > row_before));
        }
        start = end;
    }
    return is_sound && start == list->count ? WEIR_OK
                                            : refuse(error, "the labels of task", task->name, start);
}

/* The places of destinations are in order and have their rows' times; references are in order of time. */
static weir_status check_places(const weir_store *store, const weir_task *task, weir_error *error) {
    const weir_link *link = &task->link;
    const weir_table *table = &store->info.tables[link->table];
    uint64_t references = link->edge == WEIR_NONE ? 0 : store->info.edges[link->edge].edges;
    for (uint32_t i = 0; i < table->row_count; i++) {
        uint32_t row = weir__load32(link->rows + 4 * (size_t)i);
        int64_t time = (int64_t)weir__load64(link->times + 8 * (size_t)i);
        uint32_t row_before = i > 0 ? weir__load32(link->rows + 4 * (size_t)(i - 1)) : 0;
        int64_t time_before = i > 0 ? (int64_t)weir__load64(link->times + 8 * (size_t)(i - 1)) : INT64_MIN;
        if (!weir_store__has_number(table, row) ||
            time != weir_store_row_time(store, weir_store__row_at(table, row)) || time < time_before ||
            (i > 0 && time == time_before && row <= row_before))
            return refuse(error, "the destinations of task", task->name, i);
    }
    for (uint64_t i = 0; i < references; i++) {
        int64_t time = (int64_t)weir__load64(link->reference_times + 8 * i);
        if (weir__load32(link->reference_places + 4 * i) >= table->row_count ||
            (i > 0 && time < (int64_t)weir__load64(link->reference_times + 8 * (i - 1))))
            return refuse(error, "the references to destinations of task", task->name, i);
    }
    return WEIR_OK;
}

/* The pairs of a split are in order, none twice, and each one's destination was there by then. */
static weir_status check_link(const weir_store *store, const weir_task *task, weir_error *error) {
    const weir_table *table = &store->info.tables[task->link.table];
    WEIR__TRY(check_places(store, task, error));
    for (int split = 0; split < WEIR_SPLITS; split++) {
        uint64_t before[3] = {0};
        for (uint64_t i = task->split_start[split]; i < task->split_start[split + 1]; i++) {
            uint64_t now[3] = {weir__load32(task->seed_rows + 4 * (size_t)i),
                               weir__load64(task->seed_times + 8 * (size_t)i) ^ (uint64_t)1 << 63,
                               weir__load64(task->seed_targets + 8 * (size_t)i)};
            bool is_first = i == task->split_start[split];
            bool is_later = now[0] != before[0]   ? now[0] > before[0]
                            : now[1] != before[1] ? now[1] > before[1]
                                                  : now[2] > before[2];
            bool is_sound = now[2] < table->row_count && (is_first || is_later) &&
                            !weir__bit(task->seed_nulls, i) &&
                            (int64_t)weir__load64(task->link.times + 8 * now[2]) <=
                                (int64_t)weir__load64(task->seed_times + 8 * (size_t)i);
            if (!is_sound)
                return refuse(error, "the pairs of task", task->name, i);
            memcpy(before, now, sizeof before);
        }
    }
    return WEIR_OK;
}

static weir_status check_offsets(const char *name, const uint8_t *offsets, uint64_t count, uint64_t size,
                                 weir_error *error) {
    uint64_t before = 0;
    for (uint64_t i = 0; i <= count; i++) {
        uint64_t offset = weir__load64(offsets + 8 * i);
        if (offset < before || (i == 0 && offset != 0) || (i == count && offset != size))
            return refuse(error, "section", name, i);
        before = offset;
    }
    return WEIR_OK;
}

static weir_status check_numbers(const weir_store *store, weir_error *error) {
    const weir_store_info *info = &store->info;
    for (uint32_t t = 0; t < info->table_count; t++) {
        uint32_t wrong = WEIR_NONE;
        WEIR__TRY(check_table(info, &info->tables[t], error));
        if (!weir_store__keys_are_sound(store, &info->tables[t], &wrong))
            return refuse(error, "the keys of table", info->tables[t].name, wrong);
    }
    for (uint32_t e = 0; e < info->edge_count; e++)
        WEIR__TRY(check_edge(info, &info->edges[e], error));
    for (uint32_t t = 0; t < info->task_count; t++)
        WEIR__TRY(check_task(info, &info->tasks[t], error));
    for (uint32_t t = 0; t < info->task_count; t++) {
        const weir_task *task = &info->tasks[t];
        if (task->link.is_link)
            WEIR__TRY(check_link(store, task, error));
        if (task->has_label_times) {
            WEIR__TRY(check_labels(store, t, &task->labels, error));
            WEIR__TRY(check_labels(store, t, &task->train_labels, error));
        }
    }
    WEIR__TRY(check_offsets("category_offsets", store->category_offsets, info->category_count,
                            weir_store__section(store, WEIR_STORE__SECTION_CATEGORY_BYTES)->size, error));
    return check_offsets("text_offsets", store->text_offsets, info->text_count,
                         weir_store__section(store, WEIR_STORE__SECTION_TEXT_BYTES)->size, error);
}

weir_status weir_store_verify(const weir_store *store, uint32_t threads, weir_error *error) {
    weir_status status = check_hashes(store, threads, error);
    if (status == WEIR_OK)
        status = check_numbers(store, error);
    if (status == WEIR_STORE_CORRUPT)
        weir__note_text(error, "path", store->path, strlen(store->path));
    if (weir_store__is_unreadable(store))
        return weir_store_status(store, error);
    if (status == WEIR_OK)
        weir_store__touched_trust(store->touched);
    return status;
}
