/* Text numbers: distinct strings of the whole database by first appearance, scanning tables, then rows,
 * then columns. Cells hold numbers of one dictionary by now, so that this is a walk over small integers. */
#include <string.h>

#include "ingest/state.h"

/* The text columns of a table, as arrays of numbers. */
static uint32_t collect_columns(const weir_ingest__table_plan *table, uint32_t **out) {
    uint32_t count = 0;
    for (uint32_t c = 0; c < table->column_count; c++)
        if (table->columns[c].stype == WEIR_TEXT)
            out[count++] = table->data[c].values;
    return count;
}

static void number_table(weir_ingest__ingest *ingest, const weir_ingest__table_plan *table,
                         uint32_t **columns, uint32_t *final) {
    uint32_t column_count = collect_columns(table, columns);
    for (uint32_t r = 0; r < table->row_count && column_count > 0; r++)
        for (uint32_t c = 0; c < column_count; c++) {
            uint32_t number = columns[c][r];
            if (number == WEIR_NONE)
                continue;
            if (final[number] == WEIR_NONE) {
                final[number] = ingest->text_count;
                ingest->text_order[ingest->text_count++] = number;
            }
            columns[c][r] = final[number];
        }
}

weir_status weir_ingest__number_texts(weir_ingest__ingest *ingest, weir_error *error) {
    const weir_env *env = ingest->context.env;
    uint32_t widest = 0;
    for (uint32_t t = 0; t < ingest->table_count; t++)
        widest = ingest->tables[t].column_count > widest ? ingest->tables[t].column_count : widest;
    ingest->text_order = weir__allocate(env, ingest->texts.count, sizeof *ingest->text_order);
    uint32_t *final = weir__allocate(env, ingest->texts.count, sizeof *final);
    uint32_t **columns = weir__allocate(env, widest, sizeof *columns);
    weir_status status = WEIR_OK;
    if (!ingest->text_order || !final || !columns) {
        status = weir__out_of_memory(error, WEIR_INGEST__OPERATOR, ingest->texts.count * sizeof *final);
    } else {
        memset(final, 0xFF, ingest->texts.count * sizeof *final);
        for (uint32_t t = 0; t < ingest->table_count; t++)
            number_table(ingest, &ingest->tables[t], columns, final);
    }
    weir__release(env, final);
    weir__release(env, columns);
    ingest->info.text_count = ingest->text_count;
    return status;
}
