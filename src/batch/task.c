/* See task.h. */
#include "batch/task.h"

#include <string.h>

#include "base/bytes.h"

static const char operator_name[] = "weir.batch.open";

static weir__cell_rule rule_of(const weir_store_info *info, uint32_t column) {
    const weir_column *c = &info->columns[column];
    uint32_t first_bit = 8 * info->tables[c->table].bits_offset;
    return (weir__cell_rule){
        .column = column,
        .slot = c->slot,
        .null_bit = first_bit + c->null_bit,
        .bool_bit = c->bool_bit == WEIR_NONE ? WEIR_NONE : first_bit + c->bool_bit,
        .known_slot = c->known_slot,
        .stype = WEIR__NARROW(uint8_t, c->stype),
    };
}

/* Everything lies in one block; a cursor hands out its parts, or only counts them. */
typedef struct arena {
    uint8_t *at; /* NULL while counting */
    size_t used;
} arena;

static void *take(arena *a, size_t count, size_t size) {
    void *part = a->at ? a->at + a->used : NULL;
    a->used += (count * size + 7) & ~(size_t)7;
    return part;
}

static void make_row_rules(arena *a, const weir__task_rules *rules, const weir_table *table,
                           uint32_t left_out, weir__row_rules *out) {
    out->cells = take(a, table->column_count, sizeof *out->cells);
    out->column_ids = take(a, (size_t)table->column_count + WEIR__RUN, sizeof *out->column_ids);
    out->stypes = take(a, (size_t)table->column_count + WEIR__RUN, sizeof *out->stypes);
    out->count = 0;
    if (!a->at)
        return;
    for (uint32_t i = 0; i < table->column_count; i++) {
        uint32_t column = table->column_start + i;
        if (column == left_out || rules->task->column_dropped[column])
            continue;
        out->cells[out->count] = rule_of(rules->info, column);
        weir__store32(&out->column_ids[out->count], column);
        out->stypes[out->count] = WEIR__NARROW(int8_t, rules->info->columns[column].stype);
        out->count++;
    }
}

static void make_parent_rules(arena *a, const weir__task_rules *rules, const weir_table *table,
                              weir__table_rules *out) {
    const weir_store_info *info = rules->info;
    out->parents = take(a, table->edge_count, sizeof *out->parents);
    out->inbound = take(a, table->inbound_count, sizeof *out->inbound);
    out->parent_count = out->inbound_count = 0;
    if (!a->at)
        return;
    for (uint32_t i = 0; i < table->edge_count; i++) {
        const weir_edge *edge = &info->edges[table->edge_start + i];
        uint32_t time_offset = info->tables[edge->parent_table].time_offset;
        if (rules->task->edge_hidden[table->edge_start + i])
            continue;
        out->parents[out->parent_count++] = (weir__parent_rule){
            .parent_table = edge->parent_table,
            .parent_slot = edge->parent_slot,
            .known_slot = edge->known_slot,
            .parent_time_offset = time_offset == WEIR_NONE ? 0 : time_offset,
        };
    }
    for (uint32_t i = 0; i < table->inbound_count; i++)
        if (!rules->task->edge_hidden[table->inbound[i]])
            out->inbound[out->inbound_count++] = table->inbound[i];
}

/* Whether two foreign keys of table `number` lead to one table; `last_child` has a place for each table, none
 * of them with this number. */
static bool repeats_parents(const weir__table_rules *rules, uint32_t number, uint32_t *last_child) {
    bool repeats = false;
    for (uint32_t i = 0; i < rules->parent_count; i++) {
        uint32_t *last = &last_child[rules->parents[i].parent_table];
        repeats |= *last == number;
        *last = number;
    }
    return repeats;
}

static void make_rules(arena *a, weir__task_rules *rules) {
    const weir_store_info *info = rules->info;
    weir__table_rules *tables = take(a, info->table_count, sizeof *tables);
    uint32_t target = rules->task->is_cell ? rules->task->column : WEIR_NONE;
    uint32_t shown_target = rules->task->drops_target ? target : WEIR_NONE;
    uint32_t blank_size = info->tables[rules->task->anchor_table].stride;
    uint32_t *last_child = take(a, info->table_count, sizeof *last_child);
    rules->tables = tables;
    rules->blank_record = take(a, blank_size, 1);
    if (rules->blank_record)
        memset(rules->blank_record, 0xFF, blank_size); /* null bits are set, parents WEIR_NONE */
    for (uint32_t t = 0; t < info->table_count; t++) {
        weir__table_rules counted;
        weir__table_rules *out = tables ? &tables[t] : &counted;
        make_row_rules(a, rules, &info->tables[t], shown_target, &out->plain);
        make_row_rules(a, rules, &info->tables[t], target, &out->unlabelled);
        make_parent_rules(a, rules, &info->tables[t], out);
        if (last_child)
            rules->may_repeat_parents |= repeats_parents(out, t + 1, last_child);
    }
}

weir_status weir__task_rules_open(weir__task_rules *rules, const weir_env *env, const weir_store *store,
                                  uint32_t task, weir_label_visibility visibility, weir_error *error) {
    const weir_store_info *info = weir_store_describe(store);
    *rules = (weir__task_rules){.info = info, .task = &info->tasks[task], .label_visibility = visibility};
    arena counting = {0};
    make_rules(&counting, rules);
    rules->memory = weir__allocate_zero(env, counting.used, 1);
    if (!rules->memory)
        return weir__out_of_memory(error, operator_name, counting.used);
    arena filling = {.at = rules->memory};
    make_rules(&filling, rules);
    return WEIR_OK;
}

void weir__task_rules_close(weir__task_rules *rules, const weir_env *env) {
    weir__release(env, rules->memory);
    rules->memory = NULL;
}
