/* An independent check of a layout. It shares nothing with the packer.
 *
 * Time is swept once; the live buffers hang in a balanced tree (a treap) ordered by offset. A birth that
 * overlaps its neighbour below or above in address is a fault. As long as no fault was found the live
 * buffers are disjoint, so looking at the two neighbours is enough. O(n log n). */
#include "base/internal.h"
#include "plan/pack.h"

#include <stdlib.h>

static const uint32_t none = UINT32_MAX;

typedef struct event {
    uint64_t time;
    uint32_t buffer;
    bool is_birth;
} event;

typedef struct live_tree {
    const uint64_t *offsets;
    uint32_t *left;
    uint32_t *right;
    uint32_t root;
} live_tree;

static int compare_events(const void *a, const void *b) {
    const event *x = a;
    const event *y = b;
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    if (x->is_birth != y->is_birth)
        return x->is_birth ? 1 : -1;
    return (x->buffer > y->buffer) - (x->buffer < y->buffer);
}

static uint32_t rank_of(uint32_t buffer) {
    return (buffer ^ buffer >> 15) * UINT32_C(0x2c1b3c6d) ^ buffer << 7;
}

static void insert(live_tree *t, uint32_t buffer) {
    uint64_t offset = t->offsets[buffer];
    uint32_t *link = &t->root;
    while (*link != none && rank_of(*link) >= rank_of(buffer))
        link = offset <= t->offsets[*link] ? &t->left[*link] : &t->right[*link];
    uint32_t rest = *link; /* goes below or above the buffer */
    uint32_t *below = &t->left[buffer];
    uint32_t *above = &t->right[buffer];
    *link = buffer;
    while (rest != none) {
        if (t->offsets[rest] < offset) {
            *below = rest;
            below = &t->right[rest];
            rest = *below;
        } else {
            *above = rest;
            above = &t->left[rest];
            rest = *above;
        }
    }
    *below = *above = none;
}

static void delete (live_tree *t, uint32_t buffer) {
    uint32_t *link = &t->root;
    while (*link != buffer)
        link = t->offsets[buffer] < t->offsets[*link] ? &t->left[*link] : &t->right[*link];
    uint32_t left = t->left[buffer];
    uint32_t right = t->right[buffer];
    while (left != none && right != none) {
        if (rank_of(left) >= rank_of(right)) {
            *link = left;
            link = &t->right[left];
            left = *link;
        } else {
            *link = right;
            link = &t->left[right];
            right = *link;
        }
    }
    *link = left != none ? left : right;
}

/* A live buffer that overlaps `buffer`, or none. */
static uint32_t find_overlap(const live_tree *t, const weir_buffer *buffers, uint32_t buffer) {
    uint32_t below = none;
    uint32_t above = none;
    for (uint32_t at = t->root; at != none;) {
        if (t->offsets[at] <= t->offsets[buffer]) {
            below = at;
            at = t->right[at];
        } else {
            above = at;
            at = t->left[at];
        }
    }
    if (below != none && t->offsets[buffer] - t->offsets[below] < buffers[below].size)
        return below;
    if (above != none && t->offsets[above] - t->offsets[buffer] < buffers[buffer].size)
        return above;
    return none;
}

static bool check_each(const weir_buffer *buffers, size_t count, uint64_t alignment, const uint64_t *offsets,
                       uint64_t *peak, weir_pack__fault *fault) {
    for (size_t i = 0; i < count; i++) {
        uint64_t top;
        if ((alignment > 1 && offsets[i] % alignment) ||
            __builtin_add_overflow(offsets[i], buffers[i].size, &top)) {
            *fault = (weir_pack__fault){i, i};
            return false;
        }
        if (buffers[i].size && top > *peak)
            *peak = top;
    }
    return true;
}

weir_status weir_pack__validate(const weir_env *env, const weir_buffer *buffers, size_t count,
                                uint64_t alignment, const uint64_t *offsets, bool *valid, uint64_t *peak,
                                weir_pack__fault *fault, weir_error *error) {
    env = weir__env_or_default(env);
    *peak = 0;
    *valid = check_each(buffers, count, alignment, offsets, peak, fault);
    if (!*valid)
        return WEIR_OK;
    event *events = weir__allocate(env, 2 * count, sizeof *events);
    live_tree tree = {.offsets = offsets, .root = none};
    tree.left = weir__allocate(env, count, sizeof *tree.left);
    tree.right = weir__allocate(env, count, sizeof *tree.right);
    weir_status status = WEIR_OK;
    size_t event_count = 0;
    if (!events || !tree.left || !tree.right)
        status = weir__out_of_memory(error, WEIR_PACK__OPERATOR, 2 * count * sizeof *events);
    for (size_t i = 0; status == WEIR_OK && i < count; i++) {
        if (!buffers[i].size || buffers[i].lower >= buffers[i].upper)
            continue;
        events[event_count++] = (event){buffers[i].lower, (uint32_t)i, true};
        events[event_count++] = (event){buffers[i].upper, (uint32_t)i, false};
    }
    if (event_count > 0)
        qsort(events, event_count, sizeof *events, compare_events);
    for (size_t i = 0; i < event_count && *valid; i++) {
        uint32_t buffer = events[i].buffer;
        if (!events[i].is_birth) {
            delete (&tree, buffer);
            continue;
        }
        uint32_t other = find_overlap(&tree, buffers, buffer);
        *valid = other == none;
        if (*valid)
            insert(&tree, buffer);
        else
            *fault = (weir_pack__fault){other, buffer};
    }
    weir__release(env, events);
    weir__release(env, tree.left);
    weir__release(env, tree.right);
    return status;
}
