/* Rows in canonical order, and the lower bound.
 *
 * The order (lower, longest first, largest first, rank) is total over what the caller's rows mean, so
 * everything that follows is the same for shuffled rows. Sorting is a radix sort on `lower` (digits that
 * are the same everywhere are skipped) and a merge sort inside runs of equal `lower`; deaths are sorted the
 * same way, by upper. A sweep over both lists gives the live sums: at equal times deaths come before
 * births, because lifetimes are half-open. */
#include "plan/pack_internal.h"

#include <string.h>

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS };

static bool row_before(const weir_pack__row *a, const weir_pack__row *b) {
    if (a->lower != b->lower)
        return a->lower < b->lower;
    if (a->upper != b->upper)
        return a->upper > b->upper;
    if (a->size != b->size)
        return a->size > b->size;
    return a->rank < b->rank;
}

static void merge_rows(weir_pack__row *rows, size_t count, weir_pack__row *spare) {
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t start = 0; start + width < count; start += 2 * width) {
            size_t middle = start + width;
            size_t end = middle + width < count ? middle + width : count;
            if (!row_before(&rows[middle], &rows[middle - 1]))
                continue;
            size_t left = 0, left_count = width, right = middle, out = start;
            memcpy(spare, rows + start, width * sizeof *rows);
            while (left < left_count && right < end)
                rows[out++] = row_before(&rows[right], &spare[left]) ? rows[right++] : spare[left++];
            memcpy(rows + out, spare + left, (left_count - left) * sizeof *rows);
        }
    }
}

static uint64_t differing_bits(const weir_pack__row *rows, uint32_t count) {
    uint64_t differing = 0;
    for (uint32_t i = 1; i < count; i++)
        differing |= rows[i].lower ^ rows[0].lower;
    return differing;
}

static weir_status sort_rows(const weir_env *env, weir_pack__row **rows, uint32_t count, weir_error *error) {
    weir_pack__row *from = *rows;
    weir_pack__row *to = weir__allocate(env, count, sizeof *to);
    if (!to)
        return weir__out_of_memory(error, WEIR_PACK__OPERATOR, count * sizeof *to);
    uint64_t differing = differing_bits(from, count);
    for (unsigned shift = 0; shift < 64; shift += DIGIT_BITS) {
        if (!(differing >> shift & (DIGITS - 1)))
            continue;
        uint32_t at[DIGITS] = {0};
        for (uint32_t i = 0; i < count; i++)
            at[from[i].lower >> shift & (DIGITS - 1)]++;
        for (uint32_t d = 0, sum = 0; d < DIGITS; d++) {
            uint32_t here = at[d];
            at[d] = sum;
            sum += here;
        }
        for (uint32_t i = 0; i < count; i++)
            to[at[from[i].lower >> shift & (DIGITS - 1)]++] = from[i];
        weir_pack__row *swap = from;
        from = to;
        to = swap;
    }
    for (uint32_t start = 0, end; start < count; start = end) {
        for (end = start + 1; end < count && from[end].lower == from[start].lower;)
            end++;
        if (end - start > 1)
            merge_rows(from + start, end - start, to);
    }
    weir__release(env, to);
    *rows = from;
    return WEIR_OK;
}

/* Stable radix sort of row numbers by upper, fed in descending order. */
static weir_status sort_deaths(const weir_env *env, weir_pack__sweep *sweep, weir_error *error) {
    uint32_t count = sweep->count;
    uint32_t *to = weir__allocate(env, count, sizeof *to);
    if (!to)
        return weir__out_of_memory(error, WEIR_PACK__OPERATOR, count * sizeof *to);
    uint32_t *from = sweep->deaths;
    uint64_t differing = 0;
    for (uint32_t i = 0; i < count; i++) {
        from[i] = count - 1 - i;
        differing |= sweep->rows[i].upper ^ sweep->rows[0].upper;
    }
    for (unsigned shift = 0; shift < 64; shift += DIGIT_BITS) {
        if (!(differing >> shift & (DIGITS - 1)))
            continue;
        uint32_t at[DIGITS] = {0};
        for (uint32_t i = 0; i < count; i++)
            at[sweep->rows[i].upper >> shift & (DIGITS - 1)]++;
        for (uint32_t d = 0, sum = 0; d < DIGITS; d++) {
            uint32_t here = at[d];
            at[d] = sum;
            sum += here;
        }
        for (uint32_t i = 0; i < count; i++)
            to[at[sweep->rows[from[i]].upper >> shift & (DIGITS - 1)]++] = from[i];
        uint32_t *swap = from;
        from = to;
        to = swap;
    }
    sweep->deaths = from;
    weir__release(env, to);
    return WEIR_OK;
}

static void find_lower_bound(weir_pack__sweep *sweep) {
    uint64_t live = 0;
    uint32_t dead = 0;
    for (uint32_t i = 0; i < sweep->count; i++) {
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
    weir_status status = check_buffers(buffers, count, sweep, error);
    if (status)
        return status;
    sweep->rows = weir__allocate(env, sweep->count, sizeof *sweep->rows);
    sweep->deaths = weir__allocate(env, sweep->count, sizeof *sweep->deaths);
    if (!sweep->rows || !sweep->deaths) {
        weir_pack__sweep_close(env, sweep);
        return weir__out_of_memory(error, WEIR_PACK__OPERATOR, sweep->count * sizeof *sweep->rows);
    }
    uint32_t next = 0;
    for (size_t i = 0; i < count; i++)
        if (buffers[i].size)
            sweep->rows[next++] =
                (weir_pack__row){buffers[i].lower, buffers[i].upper, buffers[i].size / sweep->unit,
                                 rank ? rank[i] : (uint32_t)i, (uint32_t)i};
    status = sort_rows(env, &sweep->rows, sweep->count, error);
    if (!status)
        status = sort_deaths(env, sweep, error);
    if (status) {
        weir_pack__sweep_close(env, sweep);
        return status;
    }
    find_lower_bound(sweep);
    return WEIR_OK;
}

uint32_t weir_pack__born_before(const weir_pack__sweep *sweep, uint64_t time) {
    uint32_t low = 0;
    uint32_t high = sweep->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (sweep->rows[middle].lower < time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void weir_pack__sweep_close(const weir_env *env, weir_pack__sweep *sweep) {
    weir__release(env, sweep->rows);
    weir__release(env, sweep->deaths);
    *sweep = (weir_pack__sweep){0};
}
