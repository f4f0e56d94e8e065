/* Rows in canonical order, and the lower bound.
 *
 * The order (lower, longest first, largest first, rank) is total over what the caller's rows mean, so
 * everything that follows is the same for shuffled rows. Sorting is a radix sort on `lower` (digits that
 * are the same everywhere are skipped) and a merge sort inside runs of equal `lower`; deaths are sorted by
 * `upper`. A sweep over both lists gives the live sums: at equal times deaths come before births, because
 * lifetimes are half-open. */
#include "base/sort.h"
#include "plan/pack_internal.h"

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS };

/* A stable radix sort; returns which of the two lists has the records then. */
static weir__record *sort_by_key(weir__record *from, weir__record *to, uint32_t count) {
    uint64_t differing = 0;
    for (uint32_t i = 1; i < count; i++)
        differing |= from[i].key ^ from[0].key;
    for (unsigned shift = 0; shift < 64; shift += DIGIT_BITS) {
        if (!(differing >> shift & (DIGITS - 1)))
            continue;
        uint32_t at[DIGITS] = {0};
        for (uint32_t i = 0; i < count; i++)
            at[from[i].key >> shift & (DIGITS - 1)]++;
        for (uint32_t d = 0, sum = 0; d < DIGITS; d++) {
            uint32_t here = at[d];
            at[d] = sum;
            sum += here;
        }
        for (uint32_t i = 0; i < count; i++)
            to[at[from[i].key >> shift & (DIGITS - 1)]++] = from[i];
        weir__record *swap = from;
        from = to;
        to = swap;
    }
    return from;
}

/* The caller's buffers; a rank for each, or NULL. */
typedef struct given {
    const weir_buffer *buffers;
    const uint32_t *rank;
} given;

/* Of buffers that are born together: the longest first, then the largest, then by rank. */
static int compare_given(const void *context, uint32_t a, uint32_t b) {
    const given *g = context;
    const weir_buffer *x = &g->buffers[a];
    const weir_buffer *y = &g->buffers[b];
    if (x->upper != y->upper)
        return x->upper > y->upper ? -1 : 1;
    if (x->size != y->size)
        return x->size > y->size ? -1 : 1;
    uint32_t rank_a = g->rank ? g->rank[a] : a;
    uint32_t rank_b = g->rank ? g->rank[b] : b;
    return (rank_a > rank_b) - (rank_a < rank_b);
}

/* Fills rows and deaths. `records` has room for twice as many as there are rows. */
static void sort_rows(const given *g, size_t given_count, weir__record *records, weir_pack__sweep *sweep) {
    uint32_t count = sweep->count;
    uint32_t next = 0;
    for (size_t i = 0; i < given_count; i++)
        if (g->buffers[i].size)
            records[next++] = (weir__record){g->buffers[i].lower, (uint32_t)i};
    weir__record *sorted = sort_by_key(records, records + count, count);
    weir__record *spare = sorted == records ? records + count : records;
    for (uint32_t start = 0, end; start < count; start = end) {
        for (end = start + 1; end < count && sorted[end].key == sorted[start].key;)
            end++;
        if (end - start > 1)
            weir__sort_records(sorted + start, spare, end - start, compare_given, g);
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t origin = sorted[i].index;
        const weir_buffer *buffer = &g->buffers[origin];
        sweep->rows[i] = (weir_pack__row){buffer->lower, buffer->upper, buffer->size / sweep->unit, origin};
    }
    for (uint32_t i = 0; i < count; i++)
        records[i] = (weir__record){sweep->rows[count - 1 - i].upper, count - 1 - i};
    sorted = sort_by_key(records, records + count, count);
    for (uint32_t i = 0; i < count; i++)
        sweep->deaths[i] = sorted[i].index;
}

static uint64_t greatest_common_divisor(uint64_t a, uint64_t b) {
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static weir_status check_buffers(const weir_buffer *buffers, size_t count, weir_pack__sweep *sweep,
                                 weir_error *error) {
    uint64_t sum = 0;
    uint64_t unit = 0;
    for (size_t i = 0; i < count; i++) {
        if (buffers[i].lower >= buffers[i].upper)
            return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_PACK__OPERATOR,
                              "buffer %zu lives in [%llu, %llu), which is empty", i,
                              (unsigned long long)buffers[i].lower, (unsigned long long)buffers[i].upper);
        if (!buffers[i].size)
            continue;
        if (__builtin_add_overflow(sum, buffers[i].size, &sum))
            return weir__fail(error, WEIR_ALLOCATION_OVERFLOW, WEIR_PACK__OPERATOR,
                              "the sizes of the first %zu buffers add up to more than 64 bits hold", i + 1);
        if (unit != 1 && (unit == 0 || buffers[i].size % unit))
            unit = greatest_common_divisor(buffers[i].size, unit);
        sweep->count++;
    }
    sweep->unit = unit ? unit : 1;
    return WEIR_OK;
}

weir_status weir_pack__sweep_open(const weir_env *env, const weir_buffer *buffers, size_t count,
                                  const uint32_t *rank, weir_pack__sweep *sweep, weir_error *error) {
    *sweep = (weir_pack__sweep){0};
    WEIR__TRY(check_buffers(buffers, count, sweep, error));
    sweep->rows = weir__allocate(env, sweep->count, sizeof *sweep->rows);
    sweep->deaths = weir__allocate(env, sweep->count, sizeof *sweep->deaths);
    weir__record *records = weir__allocate(env, sweep->count, 2 * sizeof *records);
    if (!sweep->rows || !sweep->deaths || !records) {
        weir__release(env, records);
        weir_pack__sweep_close(env, sweep);
        return weir__out_of_memory(error, WEIR_PACK__OPERATOR, sweep->count * sizeof *sweep->rows);
    }
    sort_rows(&(given){buffers, rank}, count, records, sweep);
    weir__release(env, records);
    uint64_t live = 0;
    for (uint32_t i = 0, dead = 0; i < sweep->count; i++) {
        while (sweep->rows[sweep->deaths[dead]].upper <= sweep->rows[i].lower)
            live -= sweep->rows[sweep->deaths[dead++]].size;
        live += sweep->rows[i].size;
        if (i + 1 - dead > sweep->live_max)
            sweep->live_max = i + 1 - dead;
        if (live > sweep->lower_bound) {
            sweep->lower_bound = live;
            sweep->peak_row = i;
        }
    }
    return WEIR_OK;
}

uint32_t weir_pack__born_before(const weir_pack__sweep *sweep, uint64_t time) {
    _Static_assert(offsetof(weir_pack__row, lower) == 0, "rows begin with what they are sorted by");
    return (uint32_t)weir__count_below(sweep->rows, sweep->count, sizeof *sweep->rows, time);
}

void weir_pack__sweep_close(const weir_env *env, weir_pack__sweep *sweep) {
    weir__release(env, sweep->rows);
    weir__release(env, sweep->deaths);
    *sweep = (weir_pack__sweep){0};
}
