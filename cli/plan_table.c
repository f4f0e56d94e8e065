/* A plan for people: what each arena needs and how far that is from what no layout can beat, then the
 * largest tensors that are live when it needs most, which are the ones to shrink. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "plan_output.h"

enum { SHOWN = 8, NAME_WIDTH = 40 };

static const char *format_bytes(uint64_t bytes, char *out) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    unsigned unit = 0;
    for (; value >= 1024 && unit < 6; unit++)
        value /= 1024;
    snprintf(out, 16, unit == 0 ? "%.0f %s" : "%.2f %s", value, units[unit]);
    return out;
}

static void print_text(weir_text text, int width) {
    char name[NAME_WIDTH + 1];
    int size = (int)(text.size < (size_t)width ? text.size : (size_t)width);
    assert(width <= NAME_WIDTH);
    snprintf(name, sizeof name, "%.*s", size, text.data);
    printf("%-*s", width, cli_shown(name));
}

static int by_size_descending(const void *a, const void *b) {
    const weir_plan_tensor *left = a;
    const weir_plan_tensor *right = b;
    if (left->size != right->size)
        return left->size < right->size ? 1 : -1;
    return left->id.data < right->id.data ? -1 : 1;
}

/* Keeps the largest tensors live at the position, in falling order; returns how many there are in all. */
static size_t largest_live(const weir_plan *plan, size_t arena, uint64_t position, weir_plan_tensor *largest,
                           size_t *kept) {
    size_t live = 0;
    *kept = 0;
    for (size_t i = 0; i < weir_plan_describe(plan)->tensor_count; i++) {
        weir_plan_tensor tensor = weir_plan_tensor_at(plan, i);
        if (tensor.arena != arena || position < tensor.birth || position >= tensor.death || tensor.is_alias)
            continue;
        live++;
        if (*kept < SHOWN)
            largest[(*kept)++] = tensor;
        else if (tensor.size > largest[SHOWN - 1].size)
            largest[SHOWN - 1] = tensor;
        else
            continue;
        qsort(largest, *kept, sizeof *largest, by_size_descending);
    }
    return live;
}

static void print_what_to_shrink(const weir_plan *plan, size_t index) {
    weir_plan_arena arena = weir_plan_arena_at(plan, index);
    weir_plan_tensor largest[SHOWN];
    size_t kept;
    uint64_t position = weir_plan_fullest(plan, index);
    char buffer[16];
    if (arena.peak_bytes == 0)
        return;
    size_t live = largest_live(plan, index, position, largest, &kept);
    char name[CLI_SHOWN_MAX];
    snprintf(name, sizeof name, "%.*s", (int)arena.name.size, arena.name.data);
    printf("\n%s is fullest at position %" PRIu64 ", with %s live; to shrink it, shrink the largest:\n",
           cli_shown(name), position, cli_number(live, "tensor", "tensors"));
    for (size_t i = 0; i < kept; i++) {
        printf("  %12s  ", format_bytes(largest[i].size, buffer));
        print_text(largest[i].id, NAME_WIDTH);
        printf(" [%" PRIu64 ", %" PRIu64 ")  ", largest[i].birth, largest[i].death);
        printf("%s[", weir_tensor_type_name(largest[i].type));
        for (size_t axis = 0; axis < largest[i].rank; axis++)
            printf("%s%" PRIu64, axis ? "," : "", largest[i].shape[axis]);
        printf("]\n");
    }
}

static void print_remat(const weir_plan *plan) {
    char buffer[16];
    const weir_plan_remat *remat = weir_plan_describe(plan)->remat;
    const weir_plan_paging *paging = weir_plan_describe(plan)->paging;
    if (remat->runs_again == 0 && paging->transfers == 0)
        return;
    double base = (double)remat->base_cost;
    printf("\nrecomputed: %s again", cli_number(remat->runs_again, "operator runs", "operators run"));
    if (paging->transfers > 0)
        printf("; paged: %s to the host, %s moved out and in",
               cli_number(paging->tensors, "tensor goes", "tensors go"), format_bytes(paging->moved, buffer));
    if (paging->overlaps)
        printf(" beside the computation, which waits for %.1f%% of that",
               100 * (double)paging->cost / ((double)paging->cost + (double)paging->hidden));
    printf(", which adds %.3g to a forward cost of %.3g (%.2f%%); ", (double)remat->added_cost, base,
           100 * (double)remat->added_cost / base);
    if (remat->optimal)
        printf("nothing adds less\n");
    else
        printf("no schedule adds less than %.3g (%.2f%%)\n", (double)remat->lower_bound,
               100 * (double)remat->lower_bound / base);
}

static void print_reorder(const weir_plan *plan) {
    char buffers[3][16];
    const weir_plan_reorder *reorder = weir_plan_describe(plan)->reorder;
    if (!reorder->is_tried || reorder->given_peak == 0)
        return;
    printf("\norder: %s", reorder->is_changed ? "changed" : "kept");
    if (reorder->is_changed)
        printf(", the arenas need %s instead of %s", format_bytes(reorder->peak, buffers[0]),
               format_bytes(reorder->given_peak, buffers[1]));
    if (reorder->peak == reorder->lower_bound)
        printf("; no order needs less\n");
    else
        printf("; no order needs less than %s\n", format_bytes(reorder->lower_bound, buffers[2]));
}

int cli_plan_print_table(const weir_plan *plan, const char *name) {
    char buffers[3][16];
    const weir_plan_metrics *metrics = weir_plan_describe(plan)->metrics;
    const weir_plan_hashes *hashes = weir_plan_describe(plan)->hashes;
    printf("%s, %s: %s in %s, at most %" PRIu64 " live, reuse %.1f%% (no assignment reuses more than %.1f%%)",
           name, weir_plan_describe(plan)->mode, cli_number(metrics->tensors, "tensor", "tensors"),
           cli_number(metrics->peak_logical_slots, "slot", "slots"), metrics->max_live,
           100 * metrics->memory_reuse_ratio, 100 * metrics->memory_reuse_bound);
    if (metrics->allocation_time_ns > 0)
        printf(", planned in %.3f s", (double)metrics->allocation_time_ns / 1e9);
    printf("\n\n");
    printf("%-16s %9s %8s %12s %12s %8s %12s  %s\n", "arena", "tensors", "slots", "lower bound", "peak",
           "gap", "slot layout", "optimal");
    for (size_t i = 0; i < weir_plan_describe(plan)->arena_count; i++) {
        weir_plan_arena arena = weir_plan_arena_at(plan, i);
        double gap = arena.lower_bound ? 100 * ((double)arena.peak_bytes / (double)arena.lower_bound - 1) : 0;
        print_text(arena.name, 16);
        printf(" %9" PRIu64 " %8" PRIu64 " %12s %12s %7.3f%% %12s  %s\n", arena.tensors, arena.slots,
               format_bytes(arena.lower_bound, buffers[0]), format_bytes(arena.peak_bytes, buffers[1]), gap,
               format_bytes(arena.slot_bytes, buffers[2]), arena.optimal ? "yes" : "not proven");
    }
    print_remat(plan);
    print_reorder(plan);
    for (size_t i = 0; i < weir_plan_describe(plan)->arena_count; i++)
        print_what_to_shrink(plan, i);
    putchar('\n');
    cli_print_hex("graph_hash      ", hashes->graph, WEIR_HASH_SIZE);
    cli_print_hex("assignment_hash ", hashes->assignment, WEIR_HASH_SIZE);
    cli_print_hex("plan_hash       ", hashes->plan, WEIR_HASH_SIZE);
    return cli_flush();
}
