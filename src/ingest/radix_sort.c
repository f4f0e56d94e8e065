/* A stable sort by a 64-bit number: byte by byte from the lowest (skipping bytes that all items share),
 * then runs of equal numbers by a comparison. Sorted input costs one look. */
#include <string.h>

#include "ingest/key.h"

static bool is_sorted(const weir_ingest__sort_item *items, uint64_t count) {
    for (uint64_t i = 1; i < count; i++)
        if (items[i - 1].primary > items[i].primary)
            return false;
    return true;
}

static void sort_by_primary(weir_ingest__sort_item *items, weir_ingest__sort_item *scratch, uint64_t count,
                            uint64_t counts[8][256]) {
    weir_ingest__sort_item *from = items;
    weir_ingest__sort_item *to = scratch;
    memset(counts, 0, 8 * 256 * sizeof(uint64_t));
    for (uint64_t i = 0; i < count; i++)
        for (int byte = 0; byte < 8; byte++)
            counts[byte][items[i].primary >> (8 * byte) & 255]++;
    for (int byte = 0; byte < 8; byte++) {
        uint64_t next[256], sum = 0;
        if (counts[byte][items[0].primary >> (8 * byte) & 255] == count)
            continue;
        for (int i = 0; i < 256; i++) {
            next[i] = sum;
            sum += counts[byte][i];
        }
        for (uint64_t i = 0; i < count; i++)
            to[next[from[i].primary >> (8 * byte) & 255]++] = from[i];
        weir_ingest__sort_item *swap = from;
        from = to;
        to = swap;
    }
    if (from != items)
        memcpy(items, from, count * sizeof *items);
}

typedef int (*tie_compare)(const void *context, uint64_t a, uint64_t b);

static void merge(const weir_ingest__sort_item *from, weir_ingest__sort_item *to, uint64_t middle,
                  uint64_t end, tie_compare tie, const void *context) {
    uint64_t a = 0, b = middle;
    for (uint64_t i = 0; i < end; i++) {
        bool takes_a = b == end || (a < middle && tie(context, from[a].index, from[b].index) <= 0);
        to[i] = takes_a ? from[a++] : from[b++];
    }
}

/* Bottom-up: runs of 16 by insertion, then merged in pairs. */
static void sort_by_tie(weir_ingest__sort_item *items, weir_ingest__sort_item *scratch, uint64_t count,
                        tie_compare tie, const void *context) {
    enum { RUN = 16 };
    weir_ingest__sort_item *from = items;
    weir_ingest__sort_item *to = scratch;
    for (uint64_t i = 0; i < count; i++) {
        weir_ingest__sort_item item = items[i];
        uint64_t k = i, start = i - i % RUN;
        for (; k > start && tie(context, items[k - 1].index, item.index) > 0; k--)
            items[k] = items[k - 1];
        items[k] = item;
    }
    for (uint64_t width = RUN; width < count; width *= 2) {
        for (uint64_t start = 0; start < count; start += 2 * width) {
            uint64_t rest = count - start;
            uint64_t end = rest < 2 * width ? rest : 2 * width;
            uint64_t middle = rest < width ? rest : width;
            merge(from + start, to + start, middle, end, tie, context);
        }
        weir_ingest__sort_item *swap = from;
        from = to;
        to = swap;
    }
    if (from != items)
        memcpy(items, from, count * sizeof *items);
}

bool weir_ingest__sort(const weir_env *env, weir_ingest__sort_item *items, uint64_t count,
                       int (*tie)(const void *context, uint64_t a, uint64_t b), const void *context) {
    if (count < 2 || (!tie && is_sorted(items, count)))
        return true;
    size_t counts_size = 8 * 256 * sizeof(uint64_t);
    uint64_t(*counts)[256] = weir__allocate(env, 1, counts_size);
    weir_ingest__sort_item *scratch = weir__allocate(env, count, sizeof *scratch);
    bool has_memory = counts && scratch;
    if (has_memory && !is_sorted(items, count))
        sort_by_primary(items, scratch, count, counts);
    for (uint64_t start = 0, end; has_memory && tie && start < count; start = end) {
        end = start + 1;
        while (end < count && items[end].primary == items[start].primary)
            end++;
        if (end - start > 1)
            sort_by_tie(items + start, scratch, end - start, tie, context);
    }
    weir__release(env, counts);
    weir__release(env, scratch);
    return has_memory;
}
