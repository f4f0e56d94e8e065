/* See rules.h. */
#include "batch/rules.h"

#include <stdio.h>
#include <string.h>

#include "base/narrow.h"
#include "batch/expand_kernel.h"
#include "store/reader.h"

static const char operator_name[] = "weir.batch.open";

enum {
    TASK_CELLS = 3, /* of the two kinds of task rows */
};

/* ---- Widths ------------------------------------------------------------------------------------ */

/* Whether a name of the manifest is that of an edge type: of a store's, or (if `edge` is NULL) of task rows.
 */
static bool is_named(const weir_batch__rules *rules, const char *name, const weir_edge *edge,
                     const weir_task *task) {
    if (!edge)
        return strcmp(name, task->name) == 0;
    const char *table = rules->info->tables[edge->table].name;
    size_t size = strlen(table);
    return strncmp(name, table, size) == 0 && name[size] == '.' && strcmp(name + size + 1, edge->name) == 0;
}

/* The widths of an edge type; NULL if the manifest has one for all. */
static const weir_choices *widths_of(const weir_batch__rules *rules, const weir_edge *edge) {
    const weir_choices *rest = NULL;
    for (uint32_t i = 0; i < rules->width_count; i++) {
        const char *name = rules->named[i].edge_type;
        if (is_named(rules, name, edge, rules->task))
            return &rules->widths[i];
        rest = strcmp(name, "*") == 0 ? &rules->widths[i] : rest;
    }
    return rest;
}

/* Refuses widths of what the store does not have. */
static weir_status check_widths(const weir_batch__rules *rules, weir_error *error) {
    const weir_store_info *info = rules->info;
    char known[512] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < info->edge_count && used + 2 < sizeof known; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s.%s", i ? ", " : "",
                                 info->tables[info->edges[i].table].name, info->edges[i].name);
    for (uint32_t i = 0; i < rules->width_count; i++) {
        const char *name = rules->named[i].edge_type;
        bool is_known = strcmp(name, "*") == 0;
        for (uint32_t k = 0; k < info->edge_count && !is_known; k++)
            is_known = is_named(rules, name, &info->edges[k], NULL);
        for (uint32_t k = 0; k < info->task_count && !is_known; k++)
            is_known = is_named(rules, name, NULL, &info->tasks[k]);
        if (!is_known)
            return weir__fail(error, WEIR_MANIFEST_INVALID, operator_name,
                              "$.batch.child_width has a width for '%s', which is not an edge type of the "
                              "store '%s'; it has %s, and its tasks",
                              name, info->name, known);
    }
    return WEIR_OK;
}

/* ---- What is held out -------------------------------------------------------------------------- */

static bool is_omitted(const weir_batch__rules *rules, uint32_t column) {
    return rules->omits_identifiers && rules->info->columns[column].stype == WEIR_IDENTIFIER;
}

/* Whether rows of the anchor's table show their label and nothing else. */
static bool shows_label_alone(const weir_batch__rules *rules) {
    const weir_task *task = rules->task;
    const weir_table *anchor = &rules->info->tables[task->anchor_table];
    uint32_t shown = 0;
    if (!task->is_cell || task->drops_target)
        return false;
    for (uint32_t c = anchor->column_start; c < anchor->column_start + anchor->column_count; c++)
        shown += c != task->column && !task->column_dropped[c] && !is_omitted(rules, c);
    return shown == 0;
}

/* Marks the rows that are seeds of a split that is not listed. The store's own marks are for train alone. */
static void hold_out(weir_batch__rules *rules) {
    const weir_task *task = rules->task;
    const weir_table *anchor = &rules->info->tables[task->anchor_table];
    uint8_t *held_out = weir__carve(&rules->memory, anchor->row_count / 8 + 1, 1);
    rules->held_out = held_out;
    rules->held_out_in = 0;
    for (unsigned split = 0; split < WEIR_SPLITS && held_out && !rules->is_damaged; split++)
        for (uint64_t i = task->split_start[split];
             i < task->split_start[split + 1] && !(rules->label_splits >> split & 1); i++) {
            const uint8_t *row = task->seed_rows + 4 * (size_t)i;
            bool is_whole = weir_store__touch_in(rules->origin.store, WEIR_STORE__SECTION_SEED_ROWS, row, 4);
            uint32_t index = weir__load32(row) - anchor->first_number;
            rules->is_damaged = !is_whole || index >= anchor->row_count;
            if (rules->is_damaged)
                return;
            weir__set_bit(held_out, index);
        }
}

/* Whether a row of the anchor's table, or a task row, has something to show: its label. */
static bool is_shown(const weir_batch__rules *rules, uint32_t index, bool is_task_row) {
    const uint64_t *start = rules->task->split_start;
    if (is_task_row) {
        uint32_t split = index < start[1] ? WEIR_TRAIN : index < start[2] ? WEIR_VAL : WEIR_TEST;
        return rules->label_splits >> split & 1;
    }
    return rules->label_visibility != WEIR_LABELS_NONE && !weir__bit(rules->held_out, index);
}

/* A list without the rows that have nothing to show: of task rows, or of rows of the anchor's table. */
static weir_batch__list show_some(weir_batch__rules *rules, weir_batch__list all, uint32_t parents,
                                  bool of_task_rows) {
    const weir_store *store = rules->origin.store;
    const weir_table *anchor = &rules->info->tables[rules->task->anchor_table];
    uint32_t first_number = of_task_rows ? rules->info->first_task_number : anchor->first_number;
    uint64_t row_count = of_task_rows ? rules->task->seed_count : anchor->row_count;
    uint8_t *starts = weir__carve(&rules->memory, (uint64_t)parents + 1, 4);
    uint8_t *rows = weir__carve(&rules->memory, all.count, 4);
    uint8_t *times = all.times ? weir__carve(&rules->memory, all.count, 8) : NULL;
    bool needs_marks = !of_task_rows && rules->label_visibility != WEIR_LABELS_NONE;
    uint32_t count = 0;
    if (!rules->memory.memory)
        return all;
    rules->is_damaged |=
        !weir_batch__verify(store, all.starts_in, all.starts, 4 * ((size_t)parents + 1)) ||
        !weir_batch__verify(store, all.rows_in, all.rows, 4 * (size_t)all.count) ||
        (times && !weir_batch__verify(store, all.times_in, all.times, 8 * (size_t)all.count)) ||
        (needs_marks && !weir_batch__verify(store, rules->held_out_in, rules->held_out,
                                            ((size_t)anchor->row_count + 7) / 8));
    for (uint32_t p = 0; p < parents && !rules->is_damaged; p++) {
        uint32_t start = weir__load32(all.starts + 4 * (size_t)p);
        uint32_t end = weir__load32(all.starts + 4 * ((size_t)p + 1));
        weir__store32(starts + 4 * (size_t)p, count);
        for (uint32_t i = start; i < end && end <= all.count && count < all.count; i++) {
            uint32_t row = weir__load32(all.rows + 4 * (size_t)i), index = row - first_number;
            rules->is_damaged |= index >= row_count;
            if (index >= row_count || !is_shown(rules, index, of_task_rows))
                continue;
            if (times)
                weir__store64(times + 8 * (size_t)count, weir__load64(all.times + 8 * (size_t)i));
            weir__store32(rows + 4 * (size_t)count++, row);
        }
    }
    weir__store32(starts + 4 * (size_t)parents, count);
    return (weir_batch__list){.starts = starts, .rows = rows, .times = times, .count = count};
}

/* The task rows that are shown. The store has the lists of all splits and of train; any other is made. */
static weir_batch__list list_labels(weir_batch__rules *rules) {
    const weir_task *task = rules->task;
    weir_label_visibility visibility = rules->label_visibility;
    const weir_label_list *stored = visibility == WEIR_LABELS_TRAIN ? &task->train_labels : &task->labels;
    weir_batch__lies_in in = WEIR_STORE__SECTION_LABELS;
    weir_batch__list all = {stored->starts, stored->rows, stored->times, stored->count, in, in, in};
    if (!rules->has_task_rows || visibility == WEIR_LABELS_NONE)
        return (weir_batch__list){0};
    if (visibility != WEIR_LABELS_LISTED)
        return all;
    return show_some(rules, all, rules->info->tables[task->anchor_table].row_count, true);
}

/* ---- For the walk ---------------------------------------------------------------------------- */

/* The rows of an edge type that are shown. */
static weir_batch__list list_children(weir_batch__rules *rules, const weir_edge *edge) {
    weir_batch__list all = {.starts = edge->starts,
                            .rows = edge->child_rows,
                            .times = edge->child_times,
                            .count = edge->edges,
                            .starts_in = WEIR_STORE__SECTION_CHILD_STARTS,
                            .rows_in = WEIR_STORE__SECTION_CHILD_ROWS,
                            .times_in = WEIR_STORE__SECTION_CHILD_TIMES};
    if (!rules->omits_blank_rows || edge->table != rules->task->anchor_table)
        return all;
    return show_some(rules, all, rules->info->tables[edge->parent_table].row_count, false);
}

static void make_walk_rules(weir_batch__rules *rules, uint32_t number, weir_batch__table_rules *out) {
    const weir_store_info *info = rules->info;
    const weir_table *table = &info->tables[number];
    weir_batch__table_rules made = {
        .records = table->records,
        .row_start = table->row_start,
        .row_count = table->row_count,
        .first_number = table->first_number,
        .first_key = weir_batch__has_many_rows(rules) ? 0 : WEIR__NARROW(uint32_t, table->row_start),
        .stride = table->stride,
        .record_size = WEIR__NARROW(uint32_t, weir__align(table->stride, 8)),
        .time_offset = table->time_offset,
        .number = number,
        .parents = weir__carve(&rules->memory, table->edge_count, sizeof *made.parents),
        .inbound = weir__carve(&rules->memory, table->inbound_count + 1, sizeof *made.inbound),
    };
    for (uint32_t i = 0; i < table->inbound_count; i++) {
        const weir_edge *edge = &info->edges[table->inbound[i]];
        if (rules->task->edge_hidden[table->inbound[i]])
            continue;
        weir_batch__list list = list_children(rules, edge);
        if (rules->memory.memory)
            made.inbound[made.inbound_count++] = (weir_batch__child_rule){
                .list = list, .children = &rules->tables[edge->table], .widths = widths_of(rules, edge)};
    }
    if (!rules->memory.memory)
        return;
    if (number == rules->task->anchor_table && rules->labels.count > 0)
        made.inbound[made.inbound_count++] =
            (weir_batch__child_rule){.list = rules->labels,
                                     .children = &rules->tables[info->table_count],
                                     .widths = widths_of(rules, NULL)};
    for (uint32_t i = 0; i < table->edge_count; i++) {
        const weir_edge *edge = &info->edges[table->edge_start + i];
        const weir_batch__table_rules *parents = &rules->tables[edge->parent_table];
        if (rules->task->edge_hidden[table->edge_start + i])
            continue;
        for (uint32_t k = 0; k < made.parent_count; k++)
            rules->may_repeat_parents |= made.parents[k].parents == parents;
        made.parents[made.parent_count++] = (weir_batch__parent_rule){
            .parents = parents, .slot = edge->parent_slot, .known_slot = edge->known_slot};
    }
    rules->most_parents = made.parent_count > rules->most_parents ? made.parent_count : rules->most_parents;
    rules->most_inbound = made.inbound_count > rules->most_inbound ? made.inbound_count : rules->most_inbound;
    *out = made;
}

/* Task rows are found through their anchor, which is also where they lead. */
static void make_task_row_rules(weir_batch__rules *rules, weir_batch__table_rules *out) {
    const weir_store_info *info = rules->info;
    weir_batch__parent_rule *parent = weir__carve(&rules->memory, 1, sizeof *parent);
    if (!rules->memory.memory)
        return;
    *parent = (weir_batch__parent_rule){.parents = &rules->tables[rules->task->anchor_table],
                                        .slot = WEIR_BATCH__TASK_ROW_ANCHOR,
                                        .known_slot = WEIR_NONE};
    *out = (weir_batch__table_rules){
        .row_start = info->row_count,
        .row_count = WEIR__NARROW(uint32_t, rules->task->seed_count + 1),
        .first_number = info->first_task_number,
        .first_key = weir_batch__has_many_rows(rules) ? 0 : WEIR__NARROW(uint32_t, info->row_count),
        .stride = WEIR_BATCH__TASK_ROW_SIZE,
        .record_size = WEIR_BATCH__TASK_ROW_SIZE,
        .time_offset = WEIR_NONE,
        .number = info->table_count,
        .parent_count = 1,
        .parents = parent};
    rules->most_parents = rules->most_parents > 1 ? rules->most_parents : 1;
}

/* ---- For the expansion ------------------------------------------------------------------------- */

static void put_bit(uint8_t *rule, enum cell_field byte, enum cell_field shift, uint32_t first,
                    uint32_t bit) {
    weir__store32(rule + byte, first + bit / 8);
    rule[shift] = bit % 8;
}

/* What is being written. */
typedef struct writing {
    weir_batch__rules *rules;
    uint8_t *kinds;
    uint8_t *cells;
    uint8_t *times;
    weir_batch__text_rule *texts;
    uint32_t cell_count;
    uint32_t time_count;
    uint32_t text_count;
} writing;

/* Adds a cell to a kind: where its value and its bits lie in a record whose bits begin at `bits`. Times and
 * texts are also listed, for what looks for cells of that type alone. */
static void add_cell(writing *w, weir_batch__kind *kind, const weir_column *c, uint32_t column,
                     uint32_t bits) {
    uint8_t *rule = w->cells + (size_t)w->cell_count++ * CELL_SIZE;
    memset(rule, 0, CELL_SIZE);
    weir__store32(rule + CELL_COLUMN, column + w->rules->origin.first_column);
    rule[CELL_STYPE] = WEIR__LOW(uint8_t, c->stype);
    put_bit(rule, CELL_NULL_BYTE, CELL_NULL_SHIFT, bits, c->null_bit);
    if (c->slot != WEIR_NONE)
        weir__store32(rule + CELL_SLOT, c->slot);
    if (c->known_slot != WEIR_NONE) {
        weir__store32(rule + CELL_KNOWN_SLOT, c->known_slot);
        rule[CELL_KNOWN_MASK] = 1;
    }
    switch (weir_value_of(c->stype)) {
    case WEIR_VALUE_NUMBER:
        weir__store32(rule + CELL_NUMBER_MASK, UINT32_MAX);
        break;
    case WEIR_VALUE_CATEGORY:
        weir__store32(rule + CELL_CATEGORY_MASK, UINT32_MAX);
        break;
    case WEIR_VALUE_TEXT:
        weir__store32(rule + CELL_TEXT_MASK, UINT32_MAX);
        w->texts[w->text_count++] =
            (weir_batch__text_rule){rule, weir__load32(rule + CELL_SLOT), kind->cells};
        kind->text_count++;
        break;
    case WEIR_VALUE_TRUTH:
        put_bit(rule, CELL_BOOL_BYTE, CELL_BOOL_SHIFT, bits, c->bool_bit);
        rule[CELL_BOOL_MASK] = 1;
        break;
    case WEIR_VALUE_TIME:
        weir__store32(w->times + 4 * (size_t)w->time_count++, kind->cells);
        break;
    case WEIR_VALUE_PRESENCE:
    case WEIR_VALUE_NOTHING: /* has no cells */
        break;
    }
    kind->before += column < w->rules->task->column;
    kind->label = column == w->rules->task->column ? kind->cells : kind->label;
    kind->cells++;
}

/* The two cells of a task row, or without its label the other. */
static void add_task_cells(writing *w, weir_batch__kind *kind, bool has_label) {
    const weir_task *task = w->rules->task;
    weir_column label = weir_store__task_column("", 0, task->stype),
                time = weir_store__task_column("", 0, WEIR_TIMESTAMP);
    label.slot = WEIR_BATCH__TASK_ROW_LABEL;
    label.null_bit = WEIR_BATCH__TASK_ROW_LABEL_NULL;
    label.bool_bit = WEIR_BATCH__TASK_ROW_TRUTH;
    time.slot = WEIR_BATCH__TASK_ROW_TIME;
    time.null_bit = WEIR_BATCH__TASK_ROW_TIME_NULL;
    if (has_label)
        add_cell(w, kind, &label, task->column, WEIR_BATCH__TASK_ROW_BITS);
    add_cell(w, kind, &time, task->observed_column, WEIR_BATCH__TASK_ROW_BITS);
}

/* A kind of rows of a table, with or without its label: all cells but the dropped ones. Returns how many. */
static uint32_t write_kind(writing *w, uint32_t number, uint32_t table, bool has_label) {
    const weir_batch__rules *rules = w->rules;
    const weir_store_info *info = rules->info;
    bool is_of_task = table == info->table_count;
    uint8_t *out = w->kinds + (size_t)number * KIND_SIZE;
    uint32_t first_cell = w->cell_count, first_time = w->time_count;
    weir_batch__kind kind = {.label = WEIR_NONE, .texts = w->texts + w->text_count};
    if (is_of_task)
        add_task_cells(w, &kind, has_label);
    for (uint32_t i = 0; !is_of_task && i < info->tables[table].column_count; i++) {
        const weir_table *t = &info->tables[table];
        uint32_t column = t->column_start + i;
        bool is_left_out = !has_label && column == rules->task->column;
        if (!is_left_out && !rules->task->column_dropped[column] && !is_omitted(rules, column))
            add_cell(w, &kind, &info->columns[column], column, t->bits_offset);
    }
    rules->kinds[number] = kind;
    memset(out, 0, KIND_SIZE);
    weir__store32(out + KIND_CELLS, kind.cells);
    weir__store32(out + KIND_FIRST_CELL, first_cell);
    weir__store32(out + KIND_TIMES, w->time_count - first_time);
    weir__store32(out + KIND_FIRST_TIME, first_time);
    weir__store32(out + KIND_TABLE, table);
    weir__store32(out + KIND_LABEL, kind.label);
    weir__store32(out + KIND_TURN, table == rules->label_table ? kind.before : NO_INDEX);
    weir__store32(out + KIND_TIME, is_of_task ? WEIR_BATCH__TASK_ROW_TIME : rules->tables[table].time_offset);
    return kind.cells;
}

static uint64_t bits_of_double(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static void write_expansion(writing *w, uint64_t size) {
    weir_batch__rules *rules = w->rules;
    const weir_task *task = rules->task;
    uint64_t words[RULES_WORDS] = {
        [RULES_SIZE] = size,
        [RULES_MEAN] = bits_of_double(rules->info->timestamps.mean),
        [RULES_STD] = bits_of_double(rules->info->timestamps.std),
        [RULES_CATEGORIES] = rules->info->category_count,
        [RULES_TARGET_COLUMN] = task->column + rules->origin.first_column,
        [RULES_TARGET_STYPE] = (uint64_t)task->stype,
        [RULES_KINDS] = (uint64_t)(w->kinds - rules->expansion),
        [RULES_CELLS] = (uint64_t)(w->cells - rules->expansion),
        [RULES_TIMES] = (uint64_t)(w->times - rules->expansion),
        [RULES_FIRST_CATEGORY] = rules->origin.first_category,
    };
    for (uint32_t i = 0; i < RULES_WORDS; i++)
        weir__store64(rules->expansion + 8 * (size_t)i, words[i]);
    /* If it drops its target, no other row shows it either, whatever the labels' visibility. */
    for (uint32_t t = 0; t < rules->table_count; t++)
        rules->tables[t].cells = write_kind(w, t, t, !task->drops_target);
    if (rules->label_table != WEIR_NONE)
        (void)write_kind(w, rules->unlabelled, rules->label_table, false);
}

/* ---- All of it --------------------------------------------------------------------------------- */

/* A record whose null bits are set, parents WEIR_NONE, and nothing tells its time. */
static void write_blank(uint8_t *record, const weir_table *table) {
    memset(record, 0xFF, table->stride);
    if (table->time_offset != WEIR_NONE)
        weir__store64(record + table->time_offset, (uint64_t)WEIR_TIME_ALWAYS);
}

/* Counts the memory, or fills it. */
static void make_rules(weir_batch__rules *rules) {
    const weir_store_info *info = rules->info;
    const weir_task *task = rules->task;
    const weir_table *anchor = &info->tables[task->anchor_table];
    uint64_t cells = (uint64_t)info->table_column_count + (task->is_cell ? anchor->column_count : 0) +
                     (rules->has_task_rows ? TASK_CELLS : 0);
    uint64_t kinds_at = 8 * (uint64_t)RULES_WORDS;
    uint64_t cells_at = kinds_at + (uint64_t)rules->kind_count * KIND_SIZE;
    uint64_t times_at = cells_at + cells * CELL_SIZE;
    rules->tables = weir__carve(&rules->memory, rules->table_count, sizeof *rules->tables);
    rules->widths = weir__carve(&rules->memory, rules->width_count, sizeof *rules->widths);
    for (uint32_t i = 0; i < rules->width_count && rules->memory.memory; i++)
        rules->widths[i] = rules->named[i].widths;
    rules->kinds = weir__carve(&rules->memory, rules->kind_count, sizeof *rules->kinds);
    rules->blank_record = weir__carve(&rules->memory, anchor->stride, 1);
    if (task->link.is_link)
        rules->blank_destination = weir__carve(&rules->memory, info->tables[task->link.table].stride, 1);
    rules->expansion_size = (times_at + 4 * cells + 7) & ~(uint64_t)7;
    rules->expansion = weir__carve(&rules->memory, rules->expansion_size, 1);
    weir_batch__text_rule *texts = weir__carve(&rules->memory, cells, sizeof *texts);
    if (task->is_cell && rules->label_visibility == WEIR_LABELS_LISTED)
        hold_out(rules);
    rules->labels = list_labels(rules);
    for (uint32_t t = 0; t < info->table_count; t++)
        make_walk_rules(rules, t, rules->tables ? &rules->tables[t] : NULL);
    if (rules->has_task_rows)
        make_task_row_rules(rules, rules->tables ? &rules->tables[info->table_count] : NULL);
    if (!rules->memory.memory)
        return;
    write_blank(rules->blank_record, anchor);
    if (task->link.is_link)
        write_blank(rules->blank_destination, &info->tables[task->link.table]);
    writing w = {.rules = rules,
                 .kinds = rules->expansion + kinds_at,
                 .cells = rules->expansion + cells_at,
                 .times = rules->expansion + times_at,
                 .texts = texts};
    write_expansion(&w, rules->expansion_size);
}

/* What the store and the manifest say, before memory is taken. */
static void describe(weir_batch__rules *rules, const weir_batch__origin *origin, uint32_t task,
                     const weir_batch_config *config) {
    const weir_store_info *info = weir_store_describe(origin->store);
    const weir_task *t = &info->tasks[task];
    static const uint8_t splits[] = {[WEIR_LABELS_TRAIN] = 1u << WEIR_TRAIN,
                                     [WEIR_LABELS_ALL] = (1u << WEIR_SPLITS) - 1,
                                     [WEIR_LABELS_NONE] = 0};
    bool is_listed = config->label_visibility == WEIR_LABELS_LISTED;
    bool has_task_rows = config->labels && t->has_label_times;
    uint32_t table_count = info->table_count + has_task_rows;
    *rules = (weir_batch__rules){
        .info = info,
        .origin = *origin,
        .task = t,
        .task_number = task,
        .label_visibility = config->label_visibility,
        .label_splits = is_listed ? config->label_splits : splits[config->label_visibility],
        .held_out = t->held_out,
        .held_out_in = WEIR_STORE__SECTION_SEED_BITS,
        .picks_best_order = config->row_order == WEIR_ROWS_BEST,
        .omits_identifiers = config->omit_identifiers,
        .shows_early_anchors = t->before_anchor == WEIR_BEFORE_ANCHOR_SHOW_KNOWN,
        .has_task_rows = has_task_rows,
        .table_count = table_count,
        .row_count = info->row_count + (has_task_rows ? t->seed_count + 1 : 0),
        .label_table = has_task_rows ? info->table_count
                       : t->is_cell  ? t->anchor_table
                                     : WEIR_NONE,
        .kind_count = table_count + (has_task_rows || t->is_cell),
        .unlabelled = table_count,
        .most_width = config->width_count > 0 ? 0 : config->child_width,
        .named = config->widths,
        .width_count = config->width_count,
    };
    for (uint32_t i = 0; i < config->width_count; i++) {
        uint32_t most = weir_batch__most_of(&config->widths[i].widths);
        rules->most_width = most > rules->most_width ? most : rules->most_width;
    }
    rules->omits_blank_rows =
        config->omit_blank_rows && shows_label_alone(rules) && config->label_visibility != WEIR_LABELS_ALL;
}

weir_status weir_batch__rules_open(weir_batch__rules *rules, const weir_env *env,
                                   const weir_batch__origin *origin, uint32_t task,
                                   const weir_batch_config *config, weir_error *error) {
    describe(rules, origin, task, config);
    if (rules->kind_count > UINT16_MAX)
        return weir__fail(error, WEIR_STORE_CORRUPT, operator_name,
                          "the store has %u tables; %u are the most that a batch can tell apart",
                          rules->info->table_count, UINT16_MAX - 2);
    if (rules->width_count > 0)
        WEIR__TRY(check_widths(rules, error));
    make_rules(rules);
    if (!weir__block_open(&rules->memory, env))
        return weir__out_of_memory(error, operator_name, (size_t)rules->memory.size);
    make_rules(rules);
    rules->named = NULL;
    if (!rules->is_damaged)
        return WEIR_OK;
    WEIR__TRY(weir_store_status(origin->store, error));
    return weir__fail(error, WEIR_STORE_CORRUPT, operator_name,
                      "task %s has a seed or an edge that is not of its anchor table; run weir verify",
                      rules->task->name);
}

void weir_batch__rules_close(weir_batch__rules *rules, const weir_env *env) {
    weir__block_close(&rules->memory, env);
    *rules = (weir_batch__rules){0};
}
