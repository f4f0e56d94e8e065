/* Paging instead of running again, if transfers overlap (docs/spec/03k-overlap.md): runs of a schedule, the
 * dearest per byte first, are replaced by transfers if that is cheaper together with everything else that
 * the links move. */
#include <string.h>

#include "plan/steps.h"

typedef unsigned __int128 wide;

enum { SWAPPING_WORK_LOG2 = 24 };

typedef struct swapping {
    weir__arena memory; /* of all arrays */
    const weir_plan__steps *steps;
    weir_plan__marked *now; /* and where an execution stood at first, so that it can be found again */
    size_t count;
    weir_plan__marked *next;
    weir_plan__marked *scratch;
    weir_plan__schedule bare;
    weir_plan__schedule hidden;
    bool *wanted;     /* scratch of weir_plan__keep_useful */
    uint32_t *last;   /* a tensor: after which item its copy is made, + 1; 0: it has one, or needs none */
    uint8_t *is_read; /* a tensor: the run's output is read */
    weir__record *records;
} swapping;

static bool makes(const weir_plan__steps *steps, weir_plan__execution execution, uint32_t tensor) {
    return weir_plan__list_has(weir_plan__makes_of(steps, execution), tensor);
}

static bool reads(const weir_plan__steps *steps, weir_plan__execution execution, uint32_t tensor) {
    return weir_plan__list_has(weir_plan__reads_of(steps, execution), tensor);
}

/* Whether what item `at` makes of a tensor is read before it is made again. */
static bool is_read_after(const swapping *s, size_t at, uint32_t tensor) {
    for (size_t i = at + 1; i < s->count; i++) {
        weir_plan__execution e = s->now[i].execution;
        if (reads(s->steps, e, tensor))
            return true;
        if (makes(s->steps, e, tensor))
            return false;
    }
    return false;
}

/* Finds where a tensor's copy is made: `last`. False if there is a copy that comes too late. */
static bool find_copy(swapping *s, size_t at, uint32_t tensor) {
    uint32_t out = weir_plan__out_of(s->steps, tensor);
    s->last[tensor] = 0;
    for (size_t i = 0; i < s->count; i++)
        if (s->now[i].execution.node == out)
            return i < at;
    for (size_t i = at; i-- > 0;) {
        weir_plan__execution e = s->now[i].execution;
        if (reads(s->steps, e, tensor) || makes(s->steps, e, tensor)) {
            s->last[tensor] = (uint32_t)i + 1;
            return true;
        }
    }
    return false;
}

/* The list with transfers of what is read instead of the run at `at`; 0: that cannot be. */
static size_t replace(swapping *s, size_t at) {
    const weir_plan__steps *steps = s->steps;
    weir_plan__list outputs = weir_plan__list_at(&steps->outputs, s->now[at].execution.node);
    size_t count = 0;
    for (uint32_t k = 0; k < outputs.count; k++) {
        uint32_t t = outputs.items[k];
        s->is_read[t] = is_read_after(s, at, t);
        s->last[t] = 0;
        if (s->is_read[t] && (!weir_plan__can_be_paged(steps, t) || !find_copy(s, at, t)))
            return 0;
    }
    for (size_t i = 0; i < s->count; i++) {
        if (i != at)
            s->scratch[count++] = s->now[i];
        for (uint32_t k = 0; k < outputs.count; k++) {
            uint32_t t = outputs.items[k];
            if (i == at && s->is_read[t])
                s->scratch[count++] = (weir_plan__marked){{.node = weir_plan__in_of(steps, t)}, UINT32_MAX};
            if (s->last[t] == i + 1)
                s->scratch[count++] = (weir_plan__marked){{.node = weir_plan__out_of(steps, t)}, UINT32_MAX};
        }
    }
    return weir_plan__keep_useful(steps, s->wanted, s->scratch, count, SIZE_MAX, s->next);
}

/* What the first items of `next` cost, or 2^64-1 if they do not fit. False: no memory. */
static bool price(swapping *s, size_t count, uint64_t *cost) {
    uint64_t peaks[WEIR_PLAN__BUDGETS_MAX];
    *cost = UINT64_MAX;
    s->bare.count = 0;
    for (size_t i = 0; i < count; i++)
        weir_plan__schedule_add(s->steps->env, &s->bare, s->next[i].execution);
    if (s->bare.is_short || !weir_plan__schedule_peaks(s->steps, &s->bare, peaks, NULL))
        return false;
    return !weir_plan__within(s->steps, peaks) ||
           weir_plan__schedule_hide(s->steps, &s->bare, &s->hidden, cost);
}

static uint64_t made_bytes(const weir_plan__steps *steps, uint32_t node) {
    weir_plan__list outputs = weir_plan__list_at(&steps->outputs, node);
    uint64_t sum = 0;
    for (uint32_t k = 0; k < outputs.count; k++)
        sum += steps->sizes[outputs.items[k]];
    return sum;
}

/* By cost per byte, the dearest first, then by place. */
static int by_ratio(const void *context, uint32_t x, uint32_t y) {
    const swapping *s = context;
    uint32_t a = s->now[x].execution.node;
    uint32_t b = s->now[y].execution.node;
    wide left = (wide)s->steps->costs[a] * made_bytes(s->steps, b);
    wide right = (wide)s->steps->costs[b] * made_bytes(s->steps, a);
    if (left != right)
        return left > right ? -1 : 1;
    return x < y ? -1 : 1;
}

static bool swap_runs(swapping *s, uint64_t *cost) {
    size_t tries = ((size_t)1 << SWAPPING_WORK_LOG2) / (s->count + s->steps->tensor_count);
    size_t runs = 0;
    for (size_t i = 0; i < s->count; i++)
        if (!s->now[i].execution.is_base && !weir_plan__is_transfer(s->steps, s->now[i].execution) &&
            made_bytes(s->steps, s->now[i].execution.node) > 0)
            s->records[runs++] = (weir__record){0, (uint32_t)i};
    weir__sort_records(s->records, s->records + s->count, runs, by_ratio, s);
    for (size_t r = 0; r < runs && r < tries; r++) {
        size_t at = 0;
        uint64_t other;
        while (at < s->count && s->now[at].from != s->records[r].index)
            at++;
        size_t count = at < s->count ? replace(s, at) : 0;
        if (count == 0)
            continue;
        if (!price(s, count, &other))
            return false;
        if (other >= *cost)
            continue;
        weir_plan__marked *worse = s->now;
        s->now = s->next;
        s->next = worse;
        s->count = count;
        *cost = other;
    }
    return true;
}

static bool open_swapping(swapping *s, const weir_plan__schedule *schedule) {
    size_t tensors = s->steps->all_tensors + (size_t)1;
    size_t most = schedule->count + 1; /* every output of every run may get an `out` and an `in` */
    for (size_t i = 0; i < schedule->count; i++)
        if (!weir_plan__is_transfer(s->steps, schedule->items[i]))
            most += 2 * (size_t)weir_plan__list_at(&s->steps->outputs, schedule->items[i].node).count;
    weir__arena_init(&s->memory, s->steps->env);
    s->now = weir__arena_take_zero(&s->memory, most, sizeof *s->now);
    s->next = weir__arena_take_zero(&s->memory, most, sizeof *s->next);
    s->scratch = weir__arena_take_zero(&s->memory, most, sizeof *s->scratch);
    s->wanted = weir__arena_take_zero(&s->memory, tensors, sizeof *s->wanted);
    s->last = weir__arena_take_zero(&s->memory, tensors, sizeof *s->last);
    s->is_read = weir__arena_take_zero(&s->memory, tensors, sizeof *s->is_read);
    s->records = weir__arena_take_zero(&s->memory, 2 * most, sizeof *s->records);
    if (s->memory.is_short)
        return false;
    for (size_t i = 0; i < schedule->count; i++)
        s->now[i] = (weir_plan__marked){schedule->items[i], (uint32_t)i};
    s->count = schedule->count;
    return true;
}

bool weir_plan__schedule_swap(const weir_plan__steps *steps, weir_plan__schedule *schedule, uint64_t *cost) {
    swapping s = {.steps = steps};
    bool has_memory = open_swapping(&s, schedule) && swap_runs(&s, cost);
    schedule->count = has_memory ? 0 : schedule->count;
    for (size_t i = 0; has_memory && i < s.count; i++)
        weir_plan__schedule_add(steps->env, schedule, s.now[i].execution);
    weir__arena_release(&s.memory);
    weir_plan__schedule_release(steps->env, &s.bare);
    weir_plan__schedule_release(steps->env, &s.hidden);
    return has_memory && !schedule->is_short;
}
