/* Fusion: a smaller problem whose layouts are layouts of the larger.
 *
 * Two buffers of one size, of which the second is born in the section where the first has just died, can
 * share their place: end to end they are one rectangle. Two of one lifetime can be stacked: they are one
 * rectangle too. Neither changes the load of any section, so the lower bound stays, and fused rectangles
 * fuse again. Fusing is a guess, not a reduction (the best layout may keep them apart), but if lifetimes
 * meet exactly, as in tight problems and in training steps, it is mostly right, and it leaves few
 * rectangles. End to end, only those are fused that are the only ones of their size at their moment.
 *
 * One wrong guess leaves its neighbours, and theirs, without a partner. So at the end each pair that was
 * joined and found no further partner is taken apart for a trial: if what is left then fuses into fewer
 * rectangles than before, it stays apart.
 *
 * Partners are found through hash chains by lifetime, by (birth, size) and by (death, size); what is new,
 * or has become the only one of its kind, waits in a queue. Linear in the number of buffers. */
#include <string.h>

#include "plan/pack_internal.h"

enum { STEPS_PER_LOOK = 24 };

typedef enum fuse_key {
    BY_LIFETIME, /* (first, last) */
    BY_BIRTH,    /* (first, size) */
    BY_DEATH,    /* (last, size) */
    FUSE_KEYS
} fuse_key;

/* A rectangle: a row of the sweep, or two rectangles, stacked or end to end. */
typedef struct rectangle {
    uint64_t size;
    uint64_t offset;
    uint32_t first, last;
    uint32_t children[2]; /* WEIR_PACK__NO_INDEX for a row */
    uint32_t barred;      /* what it must not be joined to, from its end */
    bool stacked;
    bool gone;   /* fused into another, or apart */
    bool apart;  /* was taken apart again: its halves are live or in others */
    bool queued; /* is to be looked at */
    uint32_t next[FUSE_KEYS], previous[FUSE_KEYS]; /* chains of what has one hash */
} rectangle;

struct weir_pack__fusion {
    weir__arena memory; /* of all arrays */
    rectangle *nodes;   /* the rows come first */
    uint32_t count;     /* of these */
    uint32_t node_count;
    uint32_t capacity;
    uint32_t live_count; /* nodes that are not gone */
    uint32_t *heads[FUSE_KEYS];
    unsigned hash_bits;
    uint32_t *queue; /* a ring */
    uint32_t queue_mask;
    uint32_t queue_from, queue_to;
    uint64_t steps;
};

/* ---- Chains -------------------------------------------------------------------------------------- */

typedef struct chain_key {
    uint64_t a, b;
} chain_key;

static chain_key key_of(const rectangle *node, fuse_key kind) {
    if (kind == BY_LIFETIME)
        return (chain_key){node->first, node->last};
    return (chain_key){kind == BY_BIRTH ? node->first : node->last, node->size};
}

static uint32_t *head_of(const weir_pack__fusion *fusion, fuse_key kind, chain_key key) {
    uint64_t hash = (key.a * UINT64_C(0x9e3779b97f4a7c15) ^ key.b) * UINT64_C(0xff51afd7ed558ccd);
    return &fusion
                ->heads[kind][(hash ^ hash >> 29) * UINT64_C(0x9e3779b97f4a7c15) >> (64 - fusion->hash_bits)];
}

static void link_node(weir_pack__fusion *fusion, uint32_t index) {
    rectangle *node = &fusion->nodes[index];
    for (fuse_key kind = 0; kind < FUSE_KEYS; kind++) {
        uint32_t *head = head_of(fusion, kind, key_of(node, kind));
        node->next[kind] = *head;
        node->previous[kind] = WEIR_PACK__NO_INDEX;
        if (*head != WEIR_PACK__NO_INDEX)
            fusion->nodes[*head].previous[kind] = index;
        *head = index;
    }
    node->gone = false;
    fusion->live_count++;
}

static void unlink_node(weir_pack__fusion *fusion, uint32_t index) {
    rectangle *node = &fusion->nodes[index];
    for (fuse_key kind = 0; kind < FUSE_KEYS; kind++) {
        if (node->previous[kind] != WEIR_PACK__NO_INDEX)
            fusion->nodes[node->previous[kind]].next[kind] = node->next[kind];
        else
            *head_of(fusion, kind, key_of(node, kind)) = node->next[kind];
        if (node->next[kind] != WEIR_PACK__NO_INDEX)
            fusion->nodes[node->next[kind]].previous[kind] = node->previous[kind];
    }
    node->gone = true;
    fusion->live_count--;
}

/* The next live node of a key, from `at` on. */
static uint32_t next_with(const weir_pack__fusion *fusion, fuse_key kind, chain_key key, uint32_t at) {
    for (; at != WEIR_PACK__NO_INDEX; at = fusion->nodes[at].next[kind]) {
        chain_key other = key_of(&fusion->nodes[at], kind);
        if (other.a == key.a && other.b == key.b)
            return at;
    }
    return WEIR_PACK__NO_INDEX;
}

/* The only live node of a key, WEIR_PACK__NO_INDEX if there are none or several. */
static uint32_t only_with(const weir_pack__fusion *fusion, fuse_key kind, chain_key key) {
    uint32_t found = next_with(fusion, kind, key, *head_of(fusion, kind, key));
    if (found == WEIR_PACK__NO_INDEX)
        return found;
    uint32_t second = next_with(fusion, kind, key, fusion->nodes[found].next[kind]);
    return second == WEIR_PACK__NO_INDEX ? found : WEIR_PACK__NO_INDEX;
}

/* ---- Fusing -------------------------------------------------------------------------------------- */

static void enqueue(weir_pack__fusion *fusion, uint32_t index) {
    if (fusion->nodes[index].queued)
        return;
    fusion->nodes[index].queued = true;
    fusion->queue[fusion->queue_to++ & fusion->queue_mask] = index;
}

/* A death and a birth of one size at one moment may have become the only ones. */
static void look_again(weir_pack__fusion *fusion, uint32_t moment, uint64_t size) {
    uint32_t dying = only_with(fusion, BY_DEATH, (chain_key){moment, size});
    if (dying != WEIR_PACK__NO_INDEX)
        enqueue(fusion, dying);
}

static void look_around(weir_pack__fusion *fusion, uint32_t index) {
    const rectangle *node = &fusion->nodes[index];
    look_again(fusion, node->first, node->size);
    look_again(fusion, node->last, node->size);
}

static void fuse(weir_pack__fusion *fusion, uint32_t a, uint32_t b, bool stacked) {
    rectangle *nodes = fusion->nodes;
    uint32_t index = fusion->node_count++;
    unlink_node(fusion, a);
    unlink_node(fusion, b);
    nodes[index] = (rectangle){.first = nodes[a].first,
                               .last = nodes[b].last,
                               .size = nodes[a].size + (stacked ? nodes[b].size : 0),
                               .children = {a, b},
                               .barred = WEIR_PACK__NO_INDEX,
                               .stacked = stacked};
    link_node(fusion, index);
    enqueue(fusion, index);
    look_around(fusion, a);
    look_around(fusion, b);
}

static bool try_stack(weir_pack__fusion *fusion, uint32_t index) {
    chain_key key = key_of(&fusion->nodes[index], BY_LIFETIME);
    uint32_t other = next_with(fusion, BY_LIFETIME, key, *head_of(fusion, BY_LIFETIME, key));
    if (other == index)
        other = next_with(fusion, BY_LIFETIME, key, fusion->nodes[index].next[BY_LIFETIME]);
    if (other == WEIR_PACK__NO_INDEX)
        return false;
    fuse(fusion, index < other ? index : other, index < other ? other : index, true);
    return true;
}

static bool try_join(weir_pack__fusion *fusion, uint32_t moment, uint64_t size) {
    chain_key key = {moment, size};
    uint32_t dying = only_with(fusion, BY_DEATH, key);
    uint32_t born = dying == WEIR_PACK__NO_INDEX ? dying : only_with(fusion, BY_BIRTH, key);
    if (born == WEIR_PACK__NO_INDEX || fusion->nodes[dying].barred == born)
        return false;
    fuse(fusion, dying, born, false);
    return true;
}

/* Works the queue off; false if there is no more room for nodes. */
static bool run_queue(weir_pack__fusion *fusion) {
    while (fusion->queue_from != fusion->queue_to) {
        uint32_t index = fusion->queue[fusion->queue_from++ & fusion->queue_mask];
        const rectangle *node = &fusion->nodes[index];
        fusion->nodes[index].queued = false;
        if (node->gone)
            continue;
        if (fusion->node_count == fusion->capacity)
            return false;
        fusion->steps += STEPS_PER_LOOK;
        if (!try_stack(fusion, index) && !try_join(fusion, node->last, node->size))
            try_join(fusion, node->first, node->size);
    }
    return true;
}

/* ---- Taking apart -------------------------------------------------------------------------------- */

/* Whether fewer rectangles are left if a joined pair is kept apart; then it stays apart. */
static bool take_apart(weir_pack__fusion *fusion, uint32_t index) {
    rectangle *nodes = fusion->nodes;
    uint32_t before = fusion->live_count;
    uint32_t mark = fusion->node_count;
    uint32_t a = nodes[index].children[0];
    uint32_t b = nodes[index].children[1];
    unlink_node(fusion, index);
    link_node(fusion, a);
    link_node(fusion, b);
    nodes[a].barred = b;
    enqueue(fusion, a);
    enqueue(fusion, b);
    look_around(fusion, a);
    look_around(fusion, b);
    run_queue(fusion);
    if (fusion->live_count < before) {
        nodes[index].apart = true;
        return true;
    }
    while (fusion->queue_from != fusion->queue_to)
        nodes[fusion->queue[fusion->queue_from++ & fusion->queue_mask]].queued = false;
    while (fusion->node_count > mark) { /* the newest fusion is undone first */
        uint32_t newest = --fusion->node_count;
        unlink_node(fusion, newest);
        link_node(fusion, nodes[newest].children[0]);
        link_node(fusion, nodes[newest].children[1]);
    }
    nodes[a].barred = WEIR_PACK__NO_INDEX;
    unlink_node(fusion, a);
    unlink_node(fusion, b);
    link_node(fusion, index);
    return false;
}

/* Fuses what can be fused, then takes pairs apart as long as that leaves less. */
static void fuse_all(weir_pack__fusion *fusion) {
    for (uint32_t i = 0; i < fusion->count; i++)
        link_node(fusion, i);
    for (uint32_t i = 0; i < fusion->count; i++)
        if (!fusion->nodes[i].gone)
            try_stack(fusion, i);
    for (uint32_t i = 0; i < fusion->count; i++)
        if (!fusion->nodes[i].gone)
            enqueue(fusion, i);
    fusion->steps += STEPS_PER_LOOK * (uint64_t)fusion->count;
    run_queue(fusion);
    for (bool changed = true; changed;) {
        changed = false;
        uint32_t end = fusion->node_count;
        for (uint32_t i = fusion->count; i < end && fusion->node_count < fusion->capacity; i++)
            if (!fusion->nodes[i].gone && !fusion->nodes[i].stacked)
                changed |= take_apart(fusion, i);
    }
}

/* ---- There and back ------------------------------------------------------------------------------ */

weir_pack__fusion *weir_pack__fuse(const weir_env *env, const weir_pack__sweep *sweep, uint32_t *left,
                                   uint64_t *steps) {
    uint32_t count = sweep->count;
    weir_pack__fusion *fusion = weir__allocate(env, 1, sizeof *fusion);
    if (!fusion)
        return NULL;
    *fusion = (weir_pack__fusion){.count = count, .node_count = count, .hash_bits = 4};
    weir__arena_init(&fusion->memory, env);
    fusion->capacity = 2 * count + count / 4 + 16;
    while (fusion->hash_bits < 31 && (uint32_t)1 << fusion->hash_bits < count)
        fusion->hash_bits++;
    for (fusion->queue_mask = 15; fusion->queue_mask < fusion->capacity;)
        fusion->queue_mask = 2 * fusion->queue_mask + 1;
    fusion->nodes = weir__arena_take(&fusion->memory, fusion->capacity * sizeof *fusion->nodes);
    fusion->queue =
        weir__arena_take(&fusion->memory, ((size_t)fusion->queue_mask + 1) * sizeof *fusion->queue);
    size_t bytes = sizeof **fusion->heads << fusion->hash_bits;
    for (fuse_key kind = 0; kind < FUSE_KEYS; kind++) {
        fusion->heads[kind] = weir__arena_take(&fusion->memory, bytes);
        if (fusion->heads[kind])
            memset(fusion->heads[kind], 0xff, bytes);
    }
    uint32_t *sections = weir__arena_take(&fusion->memory, 2 * (size_t)count * sizeof *sections);
    if (fusion->memory.is_short) {
        weir_pack__fusion_close(fusion);
        return NULL;
    }
    weir_pack__number_sections(sweep->rows, sweep->deaths, count, sections, sections + count);
    for (uint32_t i = 0; i < count; i++)
        fusion->nodes[i] = (rectangle){.first = sections[i],
                                       .last = sections[count + i],
                                       .size = sweep->rows[i].size,
                                       .children = {WEIR_PACK__NO_INDEX, WEIR_PACK__NO_INDEX},
                                       .barred = WEIR_PACK__NO_INDEX};
    fuse_all(fusion);
    *left = fusion->live_count;
    *steps += fusion->steps;
    return fusion;
}

void weir_pack__fusion_buffers(const weir_pack__fusion *fusion, weir_buffer *buffers) {
    const weir_buffer *end = buffers + fusion->live_count;
    for (uint32_t i = 0; i < fusion->node_count; i++) {
        const rectangle *node = &fusion->nodes[i];
        if (!node->gone)
            *buffers++ = (weir_buffer){node->first, node->last, node->size};
    }
    assert(buffers == end && "as many rectangles are live as were counted");
}

void weir_pack__fusion_expand(weir_pack__fusion *fusion, const uint64_t *offsets, uint64_t *expanded) {
    for (uint32_t i = 0; i < fusion->node_count; i++)
        if (!fusion->nodes[i].gone)
            fusion->nodes[i].offset = *offsets++;
    for (uint32_t i = fusion->node_count; i-- > fusion->count;) {
        const rectangle *node = &fusion->nodes[i];
        if (node->apart)
            continue;
        fusion->nodes[node->children[0]].offset = node->offset;
        fusion->nodes[node->children[1]].offset =
            node->offset + (node->stacked ? fusion->nodes[node->children[0]].size : 0);
    }
    for (uint32_t i = 0; i < fusion->count; i++)
        expanded[i] = fusion->nodes[i].offset;
}

void weir_pack__fusion_close(weir_pack__fusion *fusion) {
    if (!fusion)
        return;
    const weir_env *env = fusion->memory.env;
    weir__arena_release(&fusion->memory);
    weir__release(env, fusion);
}
