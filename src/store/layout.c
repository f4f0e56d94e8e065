/* What writer and reader agree on beside the frame: section names and the layout of a record. */
#include <string.h>

#include "store/format.h"

const char *weir_store__section_name(weir_store__section_kind kind) {
    static const char *const names[] = {
        "metadata",
        "rows",
        "child_starts",
        "child_rows",
        "child_times",
        "seed_rows",
        "seed_times",
        "seed_targets",
        "seed_bits",
        "category_offsets",
        "category_bytes",
        "text_offsets",
        "text_bytes",
        "column_embeddings",
        "category_embeddings",
        "text_embeddings",
        "keys",
        "labels",
        "links",
    };
    _Static_assert(sizeof names / sizeof *names == WEIR_STORE__SECTIONS_MOST, "a name a section");
    assert(kind >= 1 && kind <= WEIR_STORE__SECTIONS_MOST && "a section that stores do not have");
    return names[kind - 1];
}

/* ---- Semantic types -------------------------------------------------------------------------- */

const char *weir_stype_name(weir_stype stype) {
#define NAME(id, number, name, ...) [number] = #name,
    static const char *const names[] = {WEIR_STYPES(NAME)};
#undef NAME
    return (unsigned)stype < sizeof names / sizeof *names ? names[stype] : "unknown";
}

bool weir_store__stype_can_be_target(weir_stype stype) {
#define CAN_BE(id, number, name, value, can_be_target) [number] = can_be_target,
    static const bool can_be[] = {WEIR_STYPES(CAN_BE)};
#undef CAN_BE
    return (unsigned)stype < sizeof can_be && can_be[stype];
}

/* Each with a comma, and without the first one. */
#define TARGET_true(name)                              ", " #name
#define TARGET_false(name)                             ""
#define TARGET(id, number, name, value, can_be_target) TARGET_##can_be_target(name)
const char *const weir_store__targets = &WEIR_STYPES(TARGET)[2];

weir_column weir_store__task_column(const char *name, uint32_t task, weir_stype stype) {
    return (weir_column){.name = name,
                         .description = "",
                         .table = WEIR_NONE,
                         .task = task,
                         .stype = stype,
                         .slot = WEIR_NONE,
                         .null_bit = WEIR_NONE,
                         .bool_bit = WEIR_NONE,
                         .known_at = WEIR_NONE,
                         .known_time = WEIR_NONE,
                         .known_slot = WEIR_NONE,
                         .statistics = {.std = 1}};
}

/* ---- Splits and records ---------------------------------------------------------------------- */

const char *weir_split_name(weir_split split) {
    static const char *const names[] = {"train", "val", "test"};
    return (unsigned)split < WEIR_SPLITS ? names[split] : "unknown";
}

const char *const weir_store__key_forms[] = {"none", "range", "packed", "cbor", NULL};
const char *const weir_store__before_anchors[] = {"keep", "show_known", "move", NULL};

void weir_store__number_rows(weir_store_info *info, weir_table *tables) {
    info->row_count = 0;
    for (uint32_t t = 0; t < info->table_count; t++) {
        tables[t].row_start = info->row_count;
        tables[t].first_number = info->format == 1 ? WEIR__NARROW(uint32_t, info->row_count) : 0;
        info->row_count += tables[t].row_count;
    }
    info->first_task_number = info->format == 1 ? WEIR__NARROW(uint32_t, info->row_count) : 0;
}

uint64_t weir_store__keys_size(const weir_table *table) {
    uint64_t offsets =
        ((uint64_t)table->row_count + WEIR_STORE__KEYS_A_BLOCK - 1) / WEIR_STORE__KEYS_A_BLOCK + 1;
    uint64_t size;
    switch (table->key_form) {
    case WEIR_KEYS_PACKED:
        return (uint64_t)table->row_count * table->key_width;
    case WEIR_KEYS_CBOR:
        return __builtin_add_overflow(offsets * 8, table->key_size, &size) ? UINT64_MAX : size;
    default:
        return 0;
    }
}

bool weir_store__marks_fit(const weir_store_info *info) {
    uint64_t marks_of_each = (uint64_t)info->column_count + info->edge_count;
    return info->task_count == 0 || marks_of_each <= WEIR_STORE__MARKS_MAX / info->task_count;
}

bool weir_store__names_target(const weir_store_info *info, const weir_task *task) {
    if (!task->is_cell)
        return false;
    const char *table = info->tables[task->anchor_table].name;
    size_t table_size = strlen(table);
    for (uint32_t i = 0; i < task->drop_column_count; i++) {
        const char *dropped = task->drop_columns[i];
        if (strncmp(dropped, table, table_size) == 0 && dropped[table_size] == '.' &&
            strcmp(dropped + table_size + 1, info->columns[task->column].name) == 0)
            return true;
    }
    return false;
}

/* Places the columns' slots of one size; returns the offset after them. */
static uint64_t place_slots(weir_column *columns, uint32_t count, uint32_t size, uint64_t offset) {
#define SIZE(id, size, ...) size,
    static const uint32_t sizes[] = {WEIR_VALUES(SIZE)};
#undef SIZE
    for (uint32_t i = 0; i < count; i++)
        if (sizes[weir_value_of(columns[i].stype)] == size) {
            columns[i].slot = WEIR__NARROW(uint32_t, offset);
            offset += size;
        }
    return offset;
}

/* Where a time lies that is a column, a stored time, or none. */
static uint32_t slot_of_time(const weir_table *table, const weir_column *columns, uint32_t column,
                             uint32_t time) {
    if (time != WEIR_NONE)
        return table->times[time].slot;
    return column == WEIR_NONE ? WEIR_NONE : columns[column - table->column_start].slot;
}

bool weir_store__layout_record(weir_table *table, weir_column *columns, weir_edge *edges) {
    if (table->column_count > WEIR_STORE__TABLE_COLUMNS_MAX ||
        table->edge_count > WEIR_STORE__TABLE_EDGES_MAX || table->time_count > WEIR_STORE__TABLE_COLUMNS_MAX)
        return false;
    for (uint32_t i = 0; i < table->column_count; i++)
        columns[i].slot = WEIR_NONE;
    uint64_t after_times = place_slots(columns, table->column_count, 8, 0);
    for (uint32_t i = 0; i < table->time_count; i++, after_times += 8)
        ((weir_stored_time *)table->times)[i].slot = WEIR__NARROW(uint32_t, after_times);
    uint64_t offset = place_slots(columns, table->column_count, 4, after_times);
    for (uint32_t i = 0; i < table->edge_count; i++, offset += 4)
        edges[i].parent_slot = WEIR__NARROW(uint32_t, offset);
    uint64_t alignment = after_times > 0 ? 8 : offset > 0 ? 4 : 1;
    table->bits_offset = WEIR__NARROW(uint32_t, offset);
    uint32_t bit = 0;
    for (uint32_t i = 0; i < table->column_count; i++)
        columns[i].null_bit = bit++;
    for (uint32_t i = 0; i < table->column_count; i++)
        columns[i].bool_bit = weir_value_of(columns[i].stype) == WEIR_VALUE_TRUTH ? bit++ : WEIR_NONE;
    offset += weir__align(bit, 8) / 8;
    table->stride = WEIR__NARROW(uint32_t, weir__align(offset, alignment));
    table->time_offset = slot_of_time(table, columns, table->temporal_column, table->temporal_time);
    for (uint32_t i = 0; i < table->column_count; i++)
        columns[i].known_slot = slot_of_time(table, columns, columns[i].known_at, columns[i].known_time);
    for (uint32_t i = 0; i < table->edge_count; i++)
        edges[i].known_slot = slot_of_time(table, columns, edges[i].known_at, edges[i].known_time);
    return true;
}
