/* See text_rows.h. */
#include <stdio.h>
#include <string.h>

#include "ingest/convert.h"
#include "ingest/text_rows.h"

enum { ROWS_MAX = 1 << 22, BYTES_MAX = 1 << 28 };

weir_status weir_ingest__text_rows_add(weir_ingest__text_rows *rows, const char *text, size_t size,
                                       weir_error *error) {
    char **cell = weir__arena_append(&rows->memory, &rows->cells, &rows->cell_count, sizeof *cell);
    if (cell)
        *cell = weir__arena_text(&rows->memory, text, size);
    rows->text_size += size + 1;
    return rows->memory.is_short ? weir_ingest__source_no_memory(error, size) : WEIR_OK;
}

const char *weir_ingest__text_rows_cell(const weir_ingest__text_rows *rows, size_t row, uint32_t column) {
    assert(row < rows->row_count && column < rows->column_count && "a cell that was not answered");
    return rows->cells[row * rows->column_count + column];
}

void weir_ingest__text_rows_join(const weir_ingest__text_rows *rows, char *out, size_t size) {
    size_t used = 0;
    snprintf(out, size, "none");
    for (size_t i = 0; i < rows->row_count && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%s", i ? ", " : "",
                                 weir_ingest__text_rows_cell(rows, i, 0));
}

bool weir_ingest__text_rows_are_full(const weir_ingest__text_rows *rows) {
    return rows->row_count >= ROWS_MAX || rows->text_size > BYTES_MAX;
}

void weir_ingest__text_rows_release(weir_ingest__text_rows *rows) {
    weir__arena_release(&rows->memory);
    *rows = (weir_ingest__text_rows){0};
}

uint64_t weir_ingest__text_rows_estimate(const weir_ingest__text_rows *rows, size_t row, uint32_t column) {
    const char *text = weir_ingest__text_rows_cell(rows, row, column);
    double estimate;
    bool is_one = weir_ingest__parse_real(text, strlen(text), &estimate) && estimate > 0 && estimate < 1e18;
    return is_one ? (uint64_t)estimate : 0;
}
