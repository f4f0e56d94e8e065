/* weir info STORE: what is in it. */
#include <string.h>

#include "progress.h"

static void print_column(const weir_store_info *info, const weir_column *column) {
    printf("    %-24s %-11s", column->name, weir_stype_name(column->stype));
    if (column->nulls > 0)
        printf(" %llu null", (unsigned long long)column->nulls);
    if (column->stype == WEIR_NUMERICAL)
        printf(" mean %.6g std %.6g", column->statistics.mean, column->statistics.std);
    if (column->stype == WEIR_CATEGORICAL)
        printf(" %u categories", column->category_count);
    if (column->known_at != WEIR_NONE)
        printf(" known at %s", info->columns[column->known_at].name);
    printf("\n");
}

static void print_table(const weir_store_info *info, const weir_table *table) {
    printf("  %s: %u rows of %u bytes", table->name, table->row_count, table->stride);
    for (uint32_t i = 0; i < table->primary_key_count; i++)
        printf("%s%s", i ? ", " : "; key ", table->primary_key[i]);
    if (table->temporal_column != WEIR_NONE)
        printf("; time %s", info->columns[table->temporal_column].name);
    printf("\n");
    for (uint32_t c = 0; c < table->column_count; c++)
        print_column(info, &info->columns[table->column_start + c]);
}

static void print_edges(const weir_store_info *info) {
    printf("edges\n");
    for (uint32_t e = 0; e < info->edge_count; e++) {
        const weir_edge *edge = &info->edges[e];
        printf("  %s.%s -> %s: %llu", info->tables[edge->table].name, edge->name,
               info->tables[edge->parent_table].name, (unsigned long long)edge->edges);
        if (edge->dangling > 0)
            printf(", %llu dangling", (unsigned long long)edge->dangling);
        printf("\n");
    }
}

static void print_tasks(const weir_store_info *info) {
    printf("tasks\n");
    for (uint32_t i = 0; i < info->task_count; i++) {
        const weir_task *task = &info->tasks[i];
        printf("  %-24s %-7s %-11s of %s: %u train, %u val, %u test\n", task->name,
               task->is_cell ? "cell" : "derived", weir_stype_name(task->stype),
               info->tables[task->anchor_table].name, task->split_start[1],
               task->split_start[2] - task->split_start[1], task->split_start[3] - task->split_start[2]);
    }
}

static void print_sections(const weir_store_info *info) {
    char size[32];
    printf("sections\n");
    for (uint32_t i = 0; i < info->section_count; i++) {
        cli_format_bytes(info->sections[i].size, size);
        if (info->sections[i].size > 0)
            printf("  %-20s %10s\n", info->sections[i].name, size);
    }
}

static int print_text(const weir_store_info *info) {
    char size[32];
    cli_format_bytes(info->file_size, size);
    printf(
        "%s: %u rows, %u columns, %u categories, %u texts, %s; embeddings %s of %u dimensions\nstore_hash ",
        info->name, info->row_count, info->column_count, info->category_count, info->text_count, size,
        info->embedding_provider, info->embedding_dim);
    for (int i = 0; i < WEIR_HASH_SIZE; i++)
        printf("%02x", info->store_hash[i]);
    printf("\ntables\n");
    for (uint32_t t = 0; t < info->table_count; t++)
        print_table(info, &info->tables[t]);
    print_edges(info);
    print_tasks(info);
    print_sections(info);
    return cli_flush();
}

static int run(const cli_command *self, int argc, char **argv) {
    bool as_json = false;
    cli_option options[] = {{"--json", CLI_FLAG, &as_json, false, false}};
    const char *path;
    weir_error error;
    weir_store *store;
    int count = cli_parse(self, options, 1, argc, argv, &path, 1);
    if (count < 0)
        return CLI_USAGE;
    if (count != 1)
        return cli_usage(self, "say which store");
    if (weir_store_open(NULL, path, &store, &error) != WEIR_OK)
        return cli_fail(&error, as_json);
    int result;
    if (as_json) {
        weir_json_writer w;
        weir_json_writer_memory(&w, NULL);
        weir_store_info_json(store, &w);
        result = cli_print_json(&w);
    } else {
        result = print_text(weir_store_describe(store));
    }
    weir_store_close(store);
    return result;
}

const cli_command cli_info = {
    .name = "info",
    .summary = "say what is in a store",
    .usage = "weir info STORE [--json]",
    .help = "  STORE    a file that weir ingest wrote\n"
            "  --json   everything, as one JSON object\n\n"
            "Tables, columns with statistics, edges, tasks, splits, sizes.\n",
    .example = "  weir info shop.weir\n",
    .run = run,
};
