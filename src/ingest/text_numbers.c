/* Text numbers: distinct strings of the whole database by first appearance, scanning tables, then rows,
 * then columns. Cells hold numbers of one dictionary by now, so that this is a walk over small integers. */
#include <string.h>

#include "ingest/stages.h"

/* `columns` is room for a table's text columns, as arrays of numbers. */
static void number_table(weir_ingest__ordered *ordered, const weir_ingest__table *table, uint32_t **columns,
                         uint32_t *final) {
    uint32_t column_count = 0;
    for (uint32_t c = 0; c < table->plan->column_count; c++)
        if (weir_value_of(table->plan->columns[c].stype) == WEIR_VALUE_TEXT)
            columns[column_count++] = table->data[c].values;
    for (uint32_t r = 0; r < table->row_count && column_count > 0; r++)
        for (uint32_t c = 0; c < column_count; c++) {
            uint32_t number = columns[c][r];
            if (number == WEIR_NONE)
                continue;
            if (final[number] == WEIR_NONE) {
                final[number] = ordered->text_count;
                ordered->text_order[ordered->text_count++] = number;
            }
            columns[c][r] = final[number];
        }
}

weir_status weir_ingest__number_texts(weir_ingest__ordered *ordered, weir_error *error) {
    const weir_env *env = ordered->env;
    const weir_ingest__plan *plan = ordered->plan;
    uint32_t widest = 0, count = ordered->texts.count;
    for (uint32_t t = 0; t < plan->table_count; t++)
        widest = plan->tables[t].column_count > widest ? plan->tables[t].column_count : widest;
    ordered->text_order = weir__allocate(env, count, sizeof *ordered->text_order);
    uint32_t *final = weir__allocate(env, count, sizeof *final);
    uint32_t **columns = weir__allocate(env, widest, sizeof *columns);
    weir_status status = WEIR_OK;
    if (!ordered->text_order || !final || !columns) {
        status = weir_ingest__no_memory(error, count * sizeof *final);
    } else {
        memset(final, 0xFF, count * sizeof *final);
        for (uint32_t t = 0; t < plan->table_count; t++)
            number_table(ordered, &ordered->tables[t], columns, final);
    }
    weir__release(env, final);
    weir__release(env, columns);
    return status;
}
