/* weir info STORE: what is in it; with --key or --row, which row a key is and which key a row has. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "key_text.h"
#include "progress.h"

static void print_table(const weir_store *store, uint32_t number) {
    const weir_store_info *info = weir_store_describe(store);
    const weir_table *table = &info->tables[number];
    char time[512];
    printf("  %s: %s of %s", cli_shown(table->name), cli_number(table->row_count, "row", "rows"),
           cli_number(table->stride, "byte", "bytes"));
    for (uint32_t i = 0; i < table->primary_key_count; i++)
        printf("%s%s", i ? ", " : "; key ", cli_shown(table->primary_key[i]));
    if (table->temporal_column != WEIR_NONE)
        printf("; time %s", cli_shown(info->columns[table->temporal_column].name));
    if (table->temporal_time != WEIR_NONE) {
        weir_store_time_text(store, number, table->temporal_time, time, sizeof time);
        printf("; time %s", cli_shown(time));
        if (table->times[table->temporal_time].nulls > 0)
            printf(" (null in %" PRIu64 ")", table->times[table->temporal_time].nulls);
    }
    if (table->key_form != WEIR_KEYS_NONE)
        printf("; keys kept");
    printf("\n");
    for (uint32_t c = table->column_start; c < table->column_start + table->column_count; c++) {
        const weir_column *column = &info->columns[c];
        printf("    %-24s %-11s", cli_shown(column->name), weir_stype_name(column->stype));
        if (column->nulls > 0)
            printf(" %llu null", (unsigned long long)column->nulls);
        if (weir_value_of(column->stype) == WEIR_VALUE_NUMBER)
            printf(" mean %.6g std %.6g", column->statistics.mean, column->statistics.std);
        if (weir_value_of(column->stype) == WEIR_VALUE_CATEGORY)
            printf(" %s", cli_number(column->category_count, "category", "categories"));
        if (column->known_at != WEIR_NONE)
            printf(" known at %s", cli_shown(info->columns[column->known_at].name));
        if (column->known_time != WEIR_NONE) {
            weir_store_time_text(store, number, column->known_time, time, sizeof time);
            printf(" known at %s", cli_shown(time));
        }
        printf("\n");
    }
}

/* "30 days after its seed is observed". */
static void print_label_times(const weir_task *task) {
    static const struct {
        int64_t micros;
        const char *name;
    } units[] = {{86400000000, "day"}, {3600000000, "hour"}, {60000000, "minute"}, {1000000, "second"}};
    const char *labels = cli_number(task->labels.count, "label has", "labels have");
    if (task->label_known_column)
        printf("    %s a time: a label is known when %s says\n", labels, cli_shown(task->label_known_column));
    if (!task->has_horizon)
        return;
    size_t u = 0;
    while (u < sizeof units / sizeof *units && (task->horizon == 0 || task->horizon % units[u].micros != 0))
        u++;
    bool is_whole = u < sizeof units / sizeof *units;
    int64_t count = is_whole ? task->horizon / units[u].micros : task->horizon;
    printf("    %s a time: a label is known %" PRId64 " %s%s after its seed is observed\n", labels, count,
           is_whole ? units[u].name : "microsecond", count == 1 ? "" : "s");
}

static void print_tasks(const weir_store_info *info) {
    printf("tasks\n");
    for (uint32_t i = 0; i < info->task_count; i++) {
        const weir_task *task = &info->tasks[i];
        printf("  %-24s %-7s %-11s of %s: %" PRIu64 " train, %" PRIu64 " val, %" PRIu64 " test\n",
               cli_shown(task->name), weir_task_kind(task), weir_stype_name(task->stype),
               cli_shown(info->tables[task->anchor_table].name), task->split_start[1],
               task->split_start[2] - task->split_start[1], task->split_start[3] - task->split_start[2]);
        if (task->early_seeds > 0)
            printf("    %s observed before their anchor row: %s\n",
                   cli_number(task->early_seeds, "seed was", "seeds were"),
                   task->before_anchor == WEIR_BEFORE_ANCHOR_MOVE ? "their time was moved to it"
                                                                  : "they see what was known of it");
        if (task->has_train_statistics)
            printf("    the target's statistics are over the train split\n");
        if (task->has_label_times)
            print_label_times(task);
        const weir_link *link = &task->link;
        if (!link->is_link)
            continue;
        printf("    links to %s, %s", cli_shown(info->tables[link->table].name),
               cli_number(link->lists, "list", "lists"));
        if (link->late > 0)
            printf("; %s left out whose destination came later", cli_number(link->late, "pair", "pairs"));
        if (link->edge != WEIR_NONE)
            printf("; popularity by %s.%s", cli_shown(info->tables[info->edges[link->edge].table].name),
                   cli_shown(info->edges[link->edge].name));
        printf("\n");
    }
}

static int print_text(const weir_store *store) {
    const weir_store_info *info = weir_store_describe(store);
    char size[32], time[40];
    cli_format_bytes(info->file_size, size);
    printf("%s: %s, %s, %s, %s, %s; embeddings %s of %s\nstore_hash ", cli_shown(info->name),
           cli_number(info->row_count, "row", "rows"), cli_number(info->column_count, "column", "columns"),
           cli_number(info->category_count, "category", "categories"),
           cli_number(info->text_count, "text", "texts"), size, info->embedding_provider,
           cli_number(info->embedding_dim, "dimension", "dimensions"));
    for (int i = 0; i < WEIR_HASH_SIZE; i++)
        printf("%02x", info->store_hash[i]);
    if (info->format > 1)
        printf(", format %u", info->format);
    weir_timestamp_format(info->statistics_until, time);
    if (info->has_statistics_until)
        printf("\nstatistics over rows up to %s, and rows without a time\n", time);
    else
        printf("\nstatistics over all rows\n");
    printf("tables\n");
    for (uint32_t t = 0; t < info->table_count; t++)
        print_table(store, t);
    printf("edges\n");
    for (uint32_t e = 0; e < info->edge_count; e++) {
        const weir_edge *edge = &info->edges[e];
        printf("  %s.%s -> %s: %llu", cli_shown(info->tables[edge->table].name), cli_shown(edge->name),
               cli_shown(info->tables[edge->parent_table].name), (unsigned long long)edge->edges);
        if (edge->dangling > 0)
            printf(", %llu dangling", (unsigned long long)edge->dangling);
        printf("\n");
    }
    print_tasks(info);
    printf("sections\n");
    for (uint32_t i = 0; i < info->section_count; i++) {
        cli_format_bytes(info->sections[i].size, size);
        if (info->sections[i].size > 0)
            printf("  %-20s %10s\n", info->sections[i].name, size);
    }
    return cli_flush();
}

/* ---- One row --------------------------------------------------------------------------------- */

static int print_row(const weir_store *store, uint64_t row, bool as_json) {
    const weir_store_info *info = weir_store_describe(store);
    uint32_t table = weir_store_table_of(store, row);
    int64_t time = weir_store_row_time(store, row);
    char key[1024], printable[1024], when[40];
    if (as_json) {
        weir_json_writer w;
        cli_json_begin(&w);
        weir_json_pair_text(&w, "table", info->tables[table].name);
        weir_json_pair_uint(&w, "row", row);
        if (info->format > 1)
            weir_json_pair_uint(&w, "number", weir_store_number_of(store, row));
        weir_json_key(&w, "key");
        weir_store_key_json(store, row, &w);
        weir_json_key(&w, "time");
        if (time == WEIR_TIME_ALWAYS)
            weir_json_null(&w);
        else
            weir_json_int(&w, time);
        return cli_print_object(&w);
    }
    printf("%s", cli_shown(info->tables[table].name));
    if (weir_store_key_text(store, row, key, sizeof key) > 0)
        printf(" %s", cli_printable(key, printable, sizeof printable));
    printf(": row %" PRIu64 " of the store, %" PRIu64 " of the table", row,
           row - info->tables[table].row_start);
    if (time != WEIR_TIME_ALWAYS) {
        weir_timestamp_format(time, when);
        printf(", there since %s", when);
    }
    printf("\n");
    return cli_flush();
}

/* Prints the row of a key; digits may also be a text. */
static int print_key(const weir_store *store, const char *table_name, const char *text, bool as_json) {
    const weir_store_info *info = weir_store_describe(store);
    weir_error error;
    weir_cbor_writer document;
    weir_key_value values[CLI_KEY_PARTS];
    uint32_t table = 0;
    while (table < info->table_count && strcmp(info->tables[table].name, table_name) != 0)
        table++;
    if (table == info->table_count) {
        (void)cli_error(&error, WEIR_CONTRACT_VIOLATION, "the store has no table %s", table_name);
        return cli_fail(&error, as_json);
    }
    if (info->tables[table].key_form == WEIR_KEYS_NONE) {
        (void)cli_error(&error, WEIR_CONTRACT_VIOLATION,
                        "the store keeps no keys of %s; ingest with \"keys\": true in the schema, and a "
                        "primary_key",
                        table_name);
        return cli_fail(&error, as_json);
    }
    weir_cbor_writer_memory(&document, NULL);
    uint32_t count = cli_key_read(text, &document, values);
    uint64_t row = cli_key_find(store, table, values, count, text);
    weir_cbor_release(&document);
    if (row != WEIR_NO_ROW)
        return print_row(store, row, as_json);
    uint32_t columns = info->tables[table].primary_key_count;
    if (count == columns)
        (void)cli_error(&error, WEIR_KEY_NOT_FOUND,
                        "table %s has no row with the key %s; check the key and its type, or ingest the "
                        "database again if the row is new",
                        table_name, text);
    else
        (void)cli_error(
            &error, WEIR_CONTRACT_VIOLATION, "a key of %s is given, but the key of table %s has %s%s",
            cli_number(count, "value", "values"), table_name, cli_number(columns, "column", "columns"),
            columns == 1 ? "" : ": write it as a list, [1, \"x\"]");
    return cli_fail(&error, as_json);
}

static int run(const cli_command *self, int argc, char **argv) {
    bool as_json = false;
    const char *table = NULL;
    uint64_t row = 0;
    cli_option options[] = {CLI_OPTION("--json", &as_json), CLI_OPTION("--key", &table),
                            CLI_OPTION("--row", &row)};
    const char *given[2] = {NULL, NULL};
    weir_error error;
    weir_store *store;
    int count = cli_parse(self, options, 3, argc, argv, given, 2, NULL);
    if (count < 0)
        return CLI_USAGE;
    if (count == 0)
        return cli_usage(self, "say which store");
    if (table ? count != 2 : count != 1)
        return cli_usage(self, table ? "--key needs a table and a key" : "unexpected argument '%s'",
                         given[1]);
    if (weir_store_open(NULL, given[0], &store, &error) != WEIR_OK)
        return cli_fail(&error, as_json);
    int result;
    weir_json_writer w;
    uint64_t row_count = weir_store_describe(store)->row_count;
    if (table) {
        result = print_key(store, table, given[1], as_json);
    } else if (options[2].given && row < row_count) {
        result = print_row(store, row, as_json);
    } else if (options[2].given) {
        (void)cli_error(&error, WEIR_CONTRACT_VIOLATION, "the store has no row %" PRIu64 "; it has %" PRIu64,
                        row, row_count);
        result = cli_fail(&error, as_json);
    } else if (as_json) {
        weir_json_writer_memory(&w, NULL);
        weir_store_info_json(store, &w);
        result = cli_print_json(&w);
    } else {
        result = print_text(store);
    }
    weir_store_close(store);
    return result;
}

const cli_command cli_info = {
    .name = "info",
    .summary = "say what is in a store",
    .usage = "weir info STORE [--key TABLE KEY | --row N] [--json]",
    .help =
        "  STORE             a file that weir ingest wrote\n"
        "  --key TABLE KEY   the row of a key: 27005, AA, or a list of several columns: \'[1, \"x\"]\'\n"
        "  --row N           the table, key and time of a row, by its number in the whole store\n"
        "  --json            everything, as one JSON object\n\n"
        "Tables, columns with statistics and the rows that they are over, edges, tasks, splits, sizes. Keys "
        "are there\n"
        "if the schema says \"keys\": true.\n",
    .example = "  weir info shop.weir\n",
    .run = run,
};
