/* Bare packing: the plain CSV that planners of this field share, read, packed and written back with
 * offsets. */
#include <stdio.h>
#include <string.h>

#include "plan/pack.h"
#include "plan/planning.h"
#include "weir_tool/plan_tools.h"

#define CSV_OPERATOR "weir.plan.csv"

enum { COLUMN_ID, COLUMN_LOWER, COLUMN_UPPER, COLUMN_SIZE, COLUMN_OFFSET, COLUMNS, COLUMNS_MAX = 16 };

struct weir_packing {
    const weir_env *env;
    weir__names ids;
    weir_buffer *buffers;
    size_t capacity;
    uint64_t *offsets;
    bool is_solved;
    char *csv;
};

typedef struct csv_reader {
    const char *name;
    const char *at;
    const char *end;
    size_t line;
    unsigned column_kinds[COLUMNS_MAX];
    unsigned column_count;
} csv_reader;

static weir_status fault(const csv_reader *r, const char *what, weir_text detail, weir_error *error) {
    weir_status status = weir__fail(error, WEIR_INVALID_IR, CSV_OPERATOR, "%s:%zu: %s%.*s", r->name, r->line,
                                    what, WEIR_PLAN__SHOW(detail));
    weir__note_uint(error, "line", r->line);
    return status;
}

static const weir_text nothing = {"", 0};

/* ---- Lines and cells --------------------------------------------------------------------------- */

static bool next_line(csv_reader *r, weir_text *line) {
    while (r->at < r->end) {
        const char *newline = memchr(r->at, '\n', (size_t)(r->end - r->at));
        const char *stop = newline ? newline : r->end;
        *line = (weir_text){r->at, (size_t)(stop - r->at)};
        r->at = newline ? newline + 1 : r->end;
        r->line++;
        if (line->size > 0 && line->data[line->size - 1] == '\r')
            line->size--;
        if (line->size > 0)
            return true;
    }
    return false;
}

/* Splits at commas; false if there are more than COLUMNS_MAX cells. */
static bool split(weir_text line, weir_text *cells, unsigned *count) {
    *count = 0;
    for (;;) {
        const char *comma = memchr(line.data, ',', line.size);
        size_t size = comma ? (size_t)(comma - line.data) : line.size;
        if (*count == COLUMNS_MAX)
            return false;
        cells[(*count)++] = (weir_text){line.data, size};
        if (!comma)
            return true;
        line = (weir_text){comma + 1, line.size - size - 1};
    }
}

static weir_status read_header(csv_reader *r, weir_error *error) {
    static const char *const names[COLUMNS] = {"id", "lower", "upper", "size", "offset"};
    weir_text line;
    weir_text cells[COLUMNS_MAX];
    bool found[COLUMNS] = {false};
    if (!next_line(r, &line) || !split(line, cells, &r->column_count))
        return fault(r, "no header; the first line must be id,lower,upper,size", nothing, error);
    for (unsigned i = 0; i < r->column_count; i++) {
        unsigned kind = 0;
        while (kind < COLUMNS && !weir_plan__same_text(cells[i], names[kind]))
            kind++;
        if (kind == COLUMNS || found[kind])
            return fault(r, "unknown or doubled column ", cells[i], error);
        found[kind] = true;
        r->column_kinds[i] = kind;
    }
    for (unsigned kind = 0; kind < COLUMN_OFFSET; kind++)
        if (!found[kind])
            return fault(r, "no column ", (weir_text){names[kind], strlen(names[kind])}, error);
    return WEIR_OK;
}

static weir_status read_row(csv_reader *r, weir_text line, weir_packing *packing, weir_error *error) {
    weir_text cells[COLUMNS_MAX];
    uint64_t numbers[COLUMNS] = {0};
    weir_text id = nothing;
    unsigned count;
    uint32_t index;
    if (!split(line, cells, &count) || count != r->column_count)
        return fault(r, "not as many values as the header has columns", nothing, error);
    for (unsigned i = 0; i < count; i++) {
        unsigned kind = r->column_kinds[i];
        if (kind == COLUMN_ID)
            id = cells[i];
        else if (kind != COLUMN_OFFSET && !weir__decimal_parse(cells[i].data, cells[i].size, &numbers[kind]))
            return fault(r, "not an integer from 0 to 2^64-1: ", cells[i], error);
    }
    if (numbers[COLUMN_LOWER] >= numbers[COLUMN_UPPER])
        return fault(r, "lower is not below upper for ", id, error);
    bool grown = weir__grow(packing->env, (void **)&packing->buffers, &packing->capacity,
                            (size_t)packing->ids.count + 1, sizeof *packing->buffers);
    weir__name_result added =
        grown ? weir__names_add(packing->env, &packing->ids, id.data, id.size, &index) : WEIR__NAME_NO_MEMORY;
    if (added == WEIR__NAME_NO_MEMORY)
        return weir__out_of_memory(error, CSV_OPERATOR, sizeof *packing->buffers);
    if (added == WEIR__NAME_PRESENT)
        return fault(r, "the id stands twice: ", id, error);
    packing->buffers[index] =
        (weir_buffer){numbers[COLUMN_LOWER], numbers[COLUMN_UPPER], numbers[COLUMN_SIZE]};
    return WEIR_OK;
}

weir_status weir_packing_read_csv(const weir_env *env, const void *data, size_t size, const char *name,
                                  weir_packing **packing, weir_error *error) {
    env = weir__env_or_default(env);
    csv_reader r = {.name = name ? name : "csv", .at = data, .end = (const char *)data + size};
    weir_text line;
    weir_packing *made = weir__allocate_zero(env, 1, sizeof *made);
    if (!made)
        return weir__out_of_memory(error, CSV_OPERATOR, sizeof *made);
    made->env = env;
    weir_status status = read_header(&r, error);
    while (status == WEIR_OK && next_line(&r, &line))
        status = read_row(&r, line, made, error);
    if (status != WEIR_OK) {
        weir_packing_close(made);
        return status;
    }
    *packing = made;
    return WEIR_OK;
}

void weir_packing_close(weir_packing *packing) {
    if (!packing)
        return;
    const weir_env *env = packing->env;
    weir__names_release(env, &packing->ids);
    weir__release(env, packing->buffers);
    weir__release(env, packing->offsets);
    weir__release(env, packing->csv);
    weir__release(env, packing);
}

/* ---- Packing ----------------------------------------------------------------------------------- */

weir_status weir_packing_solve(weir_packing *packing, const weir_packing_options *options,
                               weir_packing_result *result, weir_error *error) {
    const weir_env *env = packing->env;
    const weir__names *ids = &packing->ids;
    size_t count = ids->count;
    uint32_t *sorted = weir__allocate(env, count, 2 * sizeof *sorted);
    uint32_t *rank = sorted ? sorted + count : NULL;
    weir_status status = WEIR_OK;
    if (!packing->offsets)
        packing->offsets = weir__allocate(env, count, sizeof *packing->offsets);
    if (!sorted || !packing->offsets || !weir__names_sort(env, ids->text, ids->ends, ids->count, sorted))
        status = weir__out_of_memory(error, CSV_OPERATOR, count * sizeof *packing->offsets);
    /* Where the search begins must not depend on the order of the rows: ids rank buffers that are otherwise
     * equal. */
    for (uint32_t i = 0; status == WEIR_OK && i < count; i++)
        rank[sorted[i]] = i;
    if (status == WEIR_OK)
        status =
            weir_pack__ranked(env, packing->buffers, count, rank, options, packing->offsets, result, error);
    weir__release(env, sorted);
    packing->is_solved = status == WEIR_OK;
    return status;
}

/* ---- Writing ----------------------------------------------------------------------------------- */

enum { NUMBERS_SIZE = 4 * 21 + 2 };

weir_status weir_packing_csv(weir_packing *packing, const char **text, size_t *size, weir_error *error) {
    static const char header[] = "id,lower,upper,size,offset\n";
    const weir__names *ids = &packing->ids;
    if (!packing->is_solved)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, CSV_OPERATOR, "the packing is not solved");
    size_t id_bytes = ids->count ? (size_t)ids->ends[ids->count - 1] : 0;
    size_t capacity = sizeof header + id_bytes + (size_t)ids->count * NUMBERS_SIZE;
    weir__release(packing->env, packing->csv);
    packing->csv = weir__allocate(packing->env, capacity, 1);
    if (!packing->csv)
        return weir__out_of_memory(error, CSV_OPERATOR, capacity);
    char *at = packing->csv;
    memcpy(at, header, sizeof header);
    at += sizeof header - 1;
    for (uint32_t i = 0; i < ids->count; i++) {
        weir_text id = weir__name(ids, i);
        const weir_buffer *b = &packing->buffers[i];
        memcpy(at, id.data, id.size);
        at += id.size;
        at +=
            sprintf(at, ",%llu,%llu,%llu,%llu\n", (unsigned long long)b->lower, (unsigned long long)b->upper,
                    (unsigned long long)b->size, (unsigned long long)packing->offsets[i]);
    }
    *text = packing->csv;
    *size = (size_t)(at - packing->csv);
    return WEIR_OK;
}
