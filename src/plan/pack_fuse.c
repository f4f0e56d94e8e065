/* Fusion: a smaller problem whose layouts are layouts of the larger.
 *
 * Two buffers of one size, of which the second is born in the section where the first has just died, can
 * share their place: end to end they are one rectangle. Two of one lifetime can be stacked: they are one
 * rectangle too. Neither changes the load of any section, so the lower bound stays, and fused rectangles
 * fuse again. Fusing is a guess, not a reduction (the best layout may keep them apart), but where lifetimes
 * meet exactly, as in tight problems and in training steps, it is mostly right, and it leaves few
 * rectangles. Only end-to-end pairs that are the only ones of their size at their moment are fused; loose
 * fusion then also pairs what is ambiguous, in canonical order. Whether stacks or pairs come first makes
 * different guesses, so both are tried.
 *
 * A round sorts the live rectangles twice; rounds end when nothing changes. Each fusion removes one
 * rectangle, so there are fewer than n of them, in practice some tens of rounds. */
#include "plan/pack_fuse.h"

#include <string.h>

typedef int (*comparison)(const weir__fused *a, const weir__fused *b);

static int compare_u32(uint32_t a, uint32_t b) {
    return (a > b) - (a < b);
}

static int compare_u64(uint64_t a, uint64_t b) {
    return (a > b) - (a < b);
}

static int by_lifetime(const weir__fused *a, const weir__fused *b) {
    int order = compare_u32(a->first, b->first);
    return order ? order : compare_u32(a->last, b->last);
}

static int by_birth_and_size(const weir__fused *a, const weir__fused *b) {
    int order = compare_u32(a->first, b->first);
    return order ? order : compare_u64(a->size, b->size);
}

static int by_death_and_size(const weir__fused *a, const weir__fused *b) {
    int order = compare_u32(a->last, b->last);
    return order ? order : compare_u64(a->size, b->size);
}

/* Merge sort of node numbers; equals keep their order. */
static void sort_nodes(const weir__fused *nodes, uint32_t *list, uint32_t *spare, uint32_t count,
                       comparison compare) {
    for (size_t width = 1; width < count; width *= 2)
        for (size_t start = 0; start + width < count; start += 2 * width) {
            size_t middle = start + width;
            size_t end = middle + width < count ? middle + width : count;
            if (compare(&nodes[list[middle - 1]], &nodes[list[middle]]) <= 0)
                continue;
            memcpy(spare, list + start, width * sizeof *list);
            size_t left = 0, right = middle, out = start;
            while (left < width && right < end)
                list[out++] =
                    compare(&nodes[list[right]], &nodes[spare[left]]) < 0 ? list[right++] : spare[left++];
            memcpy(list + out, spare + left, (width - left) * sizeof *list);
        }
}

static uint32_t add_node(weir__fusion *fusion, uint32_t a, uint32_t b, bool stacked) {
    weir__fused *nodes = fusion->nodes;
    uint32_t index = fusion->node_count++;
    nodes[index] = (weir__fused){.first = nodes[a].first,
                                 .last = nodes[b].last,
                                 .size = nodes[a].size + (stacked ? nodes[b].size : 0),
                                 .children = {a, b},
                                 .stacked = stacked};
    nodes[a].gone = nodes[b].gone = true;
    return index;
}

static void drop_gone(weir__fusion *fusion) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < fusion->live_count; i++)
        if (!fusion->nodes[fusion->live[i]].gone)
            fusion->live[kept++] = fusion->live[i];
    fusion->live_count = kept;
}

static bool stack_equal_lifetimes(weir__fusion *fusion) {
    uint32_t before = fusion->node_count;
    sort_nodes(fusion->nodes, fusion->live, fusion->spare, fusion->live_count, by_lifetime);
    for (uint32_t i = 1; i < fusion->live_count; i++) {
        uint32_t last = fusion->live[i - 1];
        if (by_lifetime(&fusion->nodes[last], &fusion->nodes[fusion->live[i]]) == 0)
            fusion->live[i] = add_node(fusion, last, fusion->live[i], true);
    }
    drop_gone(fusion);
    return fusion->node_count > before;
}

static uint32_t run_end(const weir__fusion *fusion, const uint32_t *list, uint32_t from, comparison compare) {
    uint32_t to = from + 1;
    while (to < fusion->live_count && compare(&fusion->nodes[list[from]], &fusion->nodes[list[to]]) == 0)
        to++;
    return to;
}

/* Death (section, size) against birth (section, size). */
static int compare_meeting(const weir__fused *dying, const weir__fused *born) {
    int order = compare_u32(dying->last, born->first);
    return order ? order : compare_u64(dying->size, born->size);
}

static bool join_end_to_end(weir__fusion *fusion, bool loose) {
    uint32_t before = fusion->node_count;
    uint32_t *births = fusion->live;
    uint32_t *deaths = fusion->spare + fusion->capacity;
    memcpy(deaths, births, fusion->live_count * sizeof *deaths);
    sort_nodes(fusion->nodes, births, fusion->spare, fusion->live_count, by_birth_and_size);
    sort_nodes(fusion->nodes, deaths, fusion->spare, fusion->live_count, by_death_and_size);
    uint32_t count = fusion->live_count;
    for (uint32_t d = 0, b = 0, d_end, b_end; d < count && b < count;) {
        int order = compare_meeting(&fusion->nodes[deaths[d]], &fusion->nodes[births[b]]);
        d_end = order <= 0 ? run_end(fusion, deaths, d, by_death_and_size) : d;
        b_end = order >= 0 ? run_end(fusion, births, b, by_birth_and_size) : b;
        uint32_t pairs = d_end - d < b_end - b ? d_end - d : b_end - b;
        if (order == 0 && (loose || (d_end - d == 1 && b_end - b == 1)))
            for (uint32_t i = 0; i < pairs; i++)
                if (!fusion->nodes[deaths[d + i]].gone && !fusion->nodes[births[b + i]].gone)
                    fusion->live[fusion->live_count++] =
                        add_node(fusion, deaths[d + i], births[b + i], false);
        d = d_end;
        b = b_end;
    }
    drop_gone(fusion);
    return fusion->node_count > before;
}

static int by_canonical_order(const weir__fused *a, const weir__fused *b) {
    int order = compare_u32(a->first, b->first);
    if (!order)
        order = compare_u32(b->last, a->last);
    return order ? order : compare_u64(b->size, a->size);
}

weir_status weir__fuse(const weir_env *env, const weir__part *part, weir__fuse_mode mode,
                       weir__fusion *fusion, weir_error *error) {
    uint32_t count = part->count;
    *fusion = (weir__fusion){.capacity = 2 * count, .count = count};
    fusion->nodes = weir__allocate(env, 2 * (size_t)count, sizeof *fusion->nodes);
    fusion->live = weir__allocate(env, 2 * (size_t)count, sizeof *fusion->live);
    fusion->spare = weir__allocate(env, 4 * (size_t)count, sizeof *fusion->spare);
    if (!fusion->nodes || !fusion->live || !fusion->spare) {
        weir__fusion_close(env, fusion);
        return weir__out_of_memory(error, WEIR__PACK_OPERATOR, count * sizeof *fusion->nodes);
    }
    for (uint32_t i = 0; i < count; i++) {
        fusion->nodes[i] =
            (weir__fused){.first = part->first[i], .last = part->last[i], .size = part->size[i]};
        fusion->live[i] = i;
    }
    fusion->node_count = fusion->live_count = count;
    bool changed = true;
    while (changed) {
        changed = mode != WEIR__FUSE_JOIN_FIRST && stack_equal_lifetimes(fusion);
        changed |= join_end_to_end(fusion, false);
        if (!changed && mode == WEIR__FUSE_JOIN_FIRST)
            changed = stack_equal_lifetimes(fusion);
        if (!changed && mode == WEIR__FUSE_LOOSE)
            changed = join_end_to_end(fusion, true);
    }
    sort_nodes(fusion->nodes, fusion->live, fusion->spare, fusion->live_count, by_canonical_order);
    return WEIR_OK;
}

weir_status weir__fusion_part(const weir_env *env, const weir__fusion *fusion, weir__part *part,
                              weir_error *error) {
    weir__item *items = weir__allocate(env, fusion->live_count, sizeof *items);
    if (!items)
        return weir__out_of_memory(error, WEIR__PACK_OPERATOR, fusion->live_count * sizeof *items);
    for (uint32_t i = 0; i < fusion->live_count; i++) {
        const weir__fused *node = &fusion->nodes[fusion->live[i]];
        items[i] = (weir__item){
            .lower = node->first, .upper = node->last, .size = node->size, .origin = fusion->live[i]};
    }
    weir_status status = weir__part_open(env, items, fusion->live_count, part, error);
    weir__release(env, items);
    return status;
}

void weir__fusion_expand(weir__fusion *fusion, const weir__part *fused, const uint64_t *offsets,
                         uint64_t *expanded) {
    for (uint32_t i = 0; i < fused->count; i++)
        fusion->nodes[fused->origin[i]].offset = offsets[i];
    for (uint32_t i = fusion->node_count; i-- > fusion->count;) {
        const weir__fused *node = &fusion->nodes[i];
        fusion->nodes[node->children[0]].offset = node->offset;
        fusion->nodes[node->children[1]].offset =
            node->offset + (node->stacked ? fusion->nodes[node->children[0]].size : 0);
    }
    for (uint32_t i = 0; i < fusion->count; i++)
        expanded[i] = fusion->nodes[i].offset;
}

void weir__fusion_close(const weir_env *env, weir__fusion *fusion) {
    weir__release(env, fusion->nodes);
    weir__release(env, fusion->live);
    weir__release(env, fusion->spare);
    *fusion = (weir__fusion){0};
}
