/* The tree of a corner search: exact where it is exhausted.
 *
 * A *plateau* is a run of sections of one level between higher ones. What can lie at that level inside a
 * plateau lies wholly inside it, so for any section of it there is a complete choice: one of the unplaced
 * buffers at that level covers the section there, or none does, and then those buffers rest on something
 * yet to be placed. Packings that are pushed down as far as they go are enough, so no packing is lost, and
 * because the choices exclude each other none is met twice. Which plateau and which section are free to
 * choose: the ends of a plateau, its corners, have the fewest candidates, and a section without slack has
 * no "none". Where lifetimes are tight this forces most placements.
 *
 * Besides: components of unplaced buffers that share no section are solved one after another and fail
 * alone; a buffer that spans a level component goes to the bottom without alternative; of twins one is
 * tried; refuted states of a component are kept in a bounded table, with their full key. The stack is
 * explicit, its size bounded by memory only. */
#include "plan/pack_corner.h"

#include <string.h>

enum {
    SCAN_MAX = 192, /* wider components look for a corner near their lowest section only */
    SCAN_REACH = 48,
    REFUTED_BITS = 14,
    REFUTED_COUNT = 1 << REFUTED_BITS,
    REFUTED_WORDS = 1 << 20,   /* 8 MiB */
    REFUTED_BUFFERS_MAX = 512, /* larger states are not kept */
    TRAIL_START = 4096,
};

typedef enum outcome { SOLVED, REFUTED, ENTERED } outcome;

typedef struct corner_choice {
    uint64_t score; /* the least is taken */
    uint64_t height;
    uint32_t section;
    uint32_t from, to; /* its plateau */
} corner_choice;

/* ---- Refuted states -------------------------------------------------------------------------- */

static uint64_t hash_component(weir_pack__corner *x, uint32_t from, uint32_t to) {
    const weir_pack__part *part = x->part;
    uint64_t hash = 1;
    uint32_t end = part->born_at[to];
    for (uint32_t i = part->born_at[from]; i < end; i++)
        if (x->floor_of[i] != UINT64_MAX)
            hash += weir_pack__mix(x->floor_of[i] + i * UINT64_C(0x9e3779b97f4a7c15));
    x->steps += (end - part->born_at[from]) / 4;
    return hash;
}

static bool is_small_enough(const weir_pack__corner *x, uint32_t from, uint32_t to) {
    return !x->task->soft && x->part->born_at[to] - x->part->born_at[from] <= REFUTED_BUFFERS_MAX;
}

static bool is_refuted(const weir_pack__corner *x, uint64_t hash, uint32_t from, uint32_t to) {
    const weir_pack__refuted *entry = &x->refuted[hash >> (64 - REFUTED_BITS)];
    if (entry->generation != x->generation || entry->hash != hash)
        return false;
    const uint64_t *word = x->words + entry->words_at;
    const uint64_t *end = word + entry->word_count;
    for (uint32_t i = x->part->born_at[from]; i < x->part->born_at[to]; i++) {
        if (x->floor_of[i] == UINT64_MAX)
            continue;
        if (word == end || word[0] != i || word[1] != x->floor_of[i])
            return false;
        word += 2;
    }
    return word == end;
}

static void keep_refuted(weir_pack__corner *x, uint64_t hash, uint32_t from, uint32_t to) {
    size_t most = 2 * (size_t)(x->part->born_at[to] - x->part->born_at[from]);
    if (x->word_count + most > REFUTED_WORDS) {
        x->generation++;
        x->word_count = 0;
    }
    uint64_t *word = x->words + x->word_count;
    for (uint32_t i = x->part->born_at[from]; i < x->part->born_at[to]; i++)
        if (x->floor_of[i] != UINT64_MAX) {
            *word++ = i;
            *word++ = x->floor_of[i];
        }
    uint32_t count = (uint32_t)(word - (x->words + x->word_count));
    x->refuted[hash >> (64 - REFUTED_BITS)] =
        (weir_pack__refuted){hash, x->generation, (uint32_t)x->word_count, count};
    x->word_count += count;
}

/* ---- Which corner ---------------------------------------------------------------------------- */

static uint64_t score_corner(weir_pack__corner *x, uint32_t section, uint64_t height) {
    const uint32_t *members = x->members + x->part->members_at[section];
    uint64_t choices = 0;
    for (uint32_t k = 0; k < x->unplaced[section]; k++)
        choices += x->floor_of[members[k]] == height;
    x->steps += x->unplaced[section];
    uint64_t slack = x->capacity - height - x->rest[section];
    choices += slack > 0;
    choices = choices < 255 ? choices : 255;
    uint64_t slack_bits = slack >> x->shift;
    uint64_t height_bits = height >> x->shift;
    switch (x->task->rule) {
    case WEIR_PACK__RULE_FEWEST:
        return choices << 48 | slack_bits << 24 | height_bits;
    case WEIR_PACK__RULE_LOWEST:
        return height_bits << 16 | choices;
    case WEIR_PACK__RULE_TIGHTEST:
        return slack_bits >> 16 << 56 | choices << 48 | height_bits;
    default:
        return choices << 48 |
               (section > x->last_section ? section - x->last_section : x->last_section - section);
    }
}

static bool is_wall(const weir_pack__corner *x, uint32_t section, uint64_t height) {
    return !x->unplaced[section] || x->level[section] > height;
}

/* The corner with the least score, of all plateaus; if there are many, of those near the lowest section. */
static corner_choice choose_corner(weir_pack__corner *x, uint32_t from, uint32_t to) {
    uint32_t scan_from = from;
    uint32_t scan_to = to;
    if (x->lowest && to - from > SCAN_MAX) {
        uint32_t middle = weir_pack__corner_lowest(x, from, to);
        scan_from = middle - from > SCAN_REACH ? middle - SCAN_REACH : from;
        scan_to = to - middle > SCAN_REACH ? middle + SCAN_REACH : to;
        while (scan_from > from && x->unplaced[scan_from - 1] &&
               x->level[scan_from - 1] == x->level[scan_from])
            scan_from--;
    }
    corner_choice best = {.score = UINT64_MAX};
    for (uint32_t at = scan_from, end; at < scan_to; at = end) {
        end = at + 1;
        if (!x->unplaced[at])
            continue;
        uint64_t height = x->level[at];
        while (end < to && x->unplaced[end] && x->level[end] == height)
            end++;
        if ((at > from && !is_wall(x, at - 1, height)) || (end < to && !is_wall(x, end, height)))
            continue;
        for (unsigned side = 0; side < 2 && (side == 0 || end - at > 1); side++) {
            uint32_t section = side ? end - 1 : at;
            uint64_t score = score_corner(x, section, height);
            if (score < best.score)
                best = (corner_choice){score, height, section, at, end};
        }
    }
    x->steps += (scan_to - scan_from) / 4;
    return best;
}

/* ---- Which buffer ---------------------------------------------------------------------------- */

typedef struct plateau {
    uint32_t from, to;
    uint64_t height;
    uint64_t left, right; /* levels beside it, 0 if there is none */
} plateau;

static uint64_t choice_score(const weir_pack__corner *x, const plateau *p, uint32_t buffer) {
    const weir_pack__part *part = x->part;
    uint64_t score = x->key[buffer];
    uint64_t top = p->height + part->size[buffer];
    bool at_left = part->first[buffer] == p->from;
    bool at_right = part->last[buffer] == p->to;
    if ((x->task->fit & 1) && ((at_left && top == p->left) || (at_right && top == p->right)))
        score *= 4;
    if ((x->task->fit & 2) && at_left && at_right)
        score *= 4;
    return score;
}

static bool has_twin(const weir_pack__corner *x, uint32_t buffer, const uint32_t *chosen, uint32_t count) {
    const weir_pack__part *part = x->part;
    for (uint32_t i = 0; i < count; i++)
        if (part->first[chosen[i]] == part->first[buffer] && part->last[chosen[i]] == part->last[buffer] &&
            part->size[chosen[i]] == part->size[buffer])
            return true;
    return false;
}

static bool list_choices(weir_pack__corner *x, const corner_choice *corner, uint32_t from, uint32_t to,
                         weir_pack__frame *frame) {
    const weir_pack__part *part = x->part;
    const uint32_t *members = x->members + part->members_at[corner->section];
    uint32_t most = x->unplaced[corner->section];
    if (!weir__grow(x->env, (void **)&x->choices, &x->choice_capacity, x->choice_count + most,
                    sizeof *x->choices)) {
        x->out_of_memory = true;
        return false;
    }
    plateau p = {corner->from, corner->to, corner->height, 0, 0};
    if (p.from > from && x->unplaced[p.from - 1])
        p.left = x->level[p.from - 1];
    if (p.to < to && x->unplaced[p.to])
        p.right = x->level[p.to];
    uint32_t *chosen = x->choices + x->choice_count;
    uint32_t count = 0;
    for (uint32_t k = 0; k < most; k++) {
        uint32_t buffer = members[k];
        if (x->floor_of[buffer] != corner->height || has_twin(x, buffer, chosen, count))
            continue;
        uint64_t score = choice_score(x, &p, buffer);
        uint32_t at = count++;
        for (; at > 0; at--) { /* the highest score first, of equals the first buffer */
            uint64_t other = choice_score(x, &p, chosen[at - 1]);
            if (other > score || (other == score && chosen[at - 1] < buffer))
                break;
            chosen[at] = chosen[at - 1];
        }
        chosen[at] = buffer;
    }
    x->steps += (uint64_t)count * count / 4;
    frame->choice_count = count;
    return true;
}

/* A buffer that spans a level component: everything else can be moved above it. */
static uint32_t find_spanning(const weir_pack__corner *x, uint32_t from, uint32_t to) {
    const weir_pack__part *part = x->part;
    const uint32_t *members = x->members + part->members_at[from];
    uint32_t spanning = WEIR_PACK__NO_INDEX;
    for (uint32_t k = 0; k < x->unplaced[from]; k++)
        if (part->last[members[k]] >= to && x->floor_of[members[k]] == x->level[from] &&
            members[k] < spanning)
            spanning = members[k];
    for (uint32_t s = from + 1; spanning != WEIR_PACK__NO_INDEX && s < to; s++)
        if (x->level[s] != x->level[from])
            return WEIR_PACK__NO_INDEX;
    return spanning;
}

/* ---- Nodes ----------------------------------------------------------------------------------- */

static weir_pack__frame *push_frame(weir_pack__corner *x) {
    if (!weir__grow(x->env, (void **)&x->frames, &x->frame_capacity, x->frame_count + 1, sizeof *x->frames)) {
        x->out_of_memory = true;
        return NULL;
    }
    weir_pack__frame *frame = &x->frames[x->frame_count++];
    *frame = (weir_pack__frame){.mark = x->trail_count, .choices_at = (uint32_t)x->choice_count};
    return frame;
}

static void pop_frame(weir_pack__corner *x) {
    x->choice_count = x->frames[--x->frame_count].choices_at;
}

/* One component, all of whose sections have unplaced buffers. */
static outcome enter_component(weir_pack__corner *x, uint32_t from, uint32_t to) {
    uint64_t hash = 0;
    if (is_small_enough(x, from, to)) {
        hash = hash_component(x, from, to);
        if (is_refuted(x, hash, from, to))
            return REFUTED;
    }
    weir_pack__frame *frame = push_frame(x);
    if (!frame)
        return REFUTED;
    frame->from = from;
    frame->to = to;
    frame->hash = hash;
    uint32_t spanning = find_spanning(x, from, to);
    if (spanning != WEIR_PACK__NO_INDEX) {
        if (!weir__grow(x->env, (void **)&x->choices, &x->choice_capacity, x->choice_count + 1,
                        sizeof *x->choices)) {
            x->out_of_memory = true;
            return REFUTED;
        }
        frame->is_forced = true;
        frame->choice_count = 1;
        x->choices[x->choice_count++] = spanning;
        return ENTERED;
    }
    corner_choice corner = choose_corner(x, from, to);
    frame->section = corner.section;
    frame->height = corner.height;
    if (!list_choices(x, &corner, from, to, frame))
        return REFUTED;
    x->choice_count += frame->choice_count;
    return ENTERED;
}

static uint32_t skip_finished(const weir_pack__corner *x, uint32_t from, uint32_t to) {
    while (from < to && !x->unplaced[from])
        from++;
    return from;
}

static uint32_t component_end(const weir_pack__corner *x, uint32_t from, uint32_t to) {
    while (from + 1 < to && x->crossing[from])
        from++;
    return from + 1;
}

/* Sections [from, to) may have fallen apart, or be done. */
static outcome enter_range(weir_pack__corner *x, uint32_t from, uint32_t to) {
    from = skip_finished(x, from, to);
    if (from == to)
        return SOLVED;
    uint32_t end = component_end(x, from, to);
    if (skip_finished(x, end, to) < to) {
        weir_pack__frame *frame = push_frame(x);
        if (!frame)
            return REFUTED;
        frame->is_split = true;
        frame->from = end;
        frame->to = to;
    }
    return enter_component(x, from, end);
}

static bool has_fallen_apart(const weir_pack__corner *x, uint32_t buffer) {
    uint32_t last = x->part->last[buffer];
    for (uint32_t s = x->part->first[buffer]; s < last; s++)
        if (!x->unplaced[s] || (s + 1 < last && !x->crossing[s]))
            return true;
    return false;
}

static outcome advance_split(weir_pack__corner *x, outcome last) {
    weir_pack__frame *frame = &x->frames[x->frame_count - 1];
    if (last == REFUTED) {
        weir_pack__corner_undo(x, frame->mark);
        pop_frame(x);
        return REFUTED;
    }
    uint32_t from = skip_finished(x, frame->from, frame->to);
    if (from == frame->to) {
        pop_frame(x);
        return SOLVED;
    }
    uint32_t end = component_end(x, from, frame->to);
    frame->from = end;
    return enter_component(x, from, end);
}

/* The next choice of the top frame that is not refuted at once. REFUTED with the frame still on top: none
 * is left. */
static outcome try_next_choice(weir_pack__corner *x) {
    size_t depth = x->frame_count;
    for (;;) {
        weir_pack__frame *frame = &x->frames[depth - 1];
        outcome entered = REFUTED;
        if (frame->next < frame->choice_count) {
            uint32_t buffer = x->choices[frame->choices_at + frame->next++];
            if (weir_pack__corner_place(x, buffer))
                entered = has_fallen_apart(x, buffer) ? enter_range(x, frame->from, frame->to)
                                                      : enter_component(x, frame->from, frame->to);
        } else if (frame->next++ == frame->choice_count && !frame->is_forced &&
                   x->capacity - frame->height > x->rest[frame->section]) {
            if (weir_pack__corner_leave(x, frame->section, frame->height))
                entered = enter_component(x, frame->from, frame->to);
        } else {
            return REFUTED;
        }
        if (entered != REFUTED || x->frame_count != depth || x->out_of_memory)
            return entered;
        weir_pack__corner_undo(x, x->frames[depth - 1].mark);
    }
}

/* Soft searches give way by 1/1024 at a time. */
static void raise_capacity(weir_pack__corner *x) {
    uint64_t step = x->capacity / 1024 + 1;
    weir_pack__corner_set_capacity(x, x->capacity < UINT64_MAX - step ? x->capacity + step : UINT64_MAX);
}

static outcome advance_corner(weir_pack__corner *x, outcome last, uint32_t *refuted_count) {
    if (last == SOLVED) {
        pop_frame(x);
        return SOLVED;
    }
    size_t depth = x->frame_count;
    if (last == REFUTED)
        weir_pack__corner_undo(x, x->frames[depth - 1].mark);
    outcome now = try_next_choice(x);
    if (now != REFUTED || x->frame_count != depth || x->out_of_memory)
        return now;
    weir_pack__frame *frame = &x->frames[depth - 1];
    if (++*refuted_count >= x->task->patience && x->task->soft) {
        *refuted_count = 0;
        raise_capacity(x);
        frame->next = 0;
        return ENTERED;
    }
    if (is_small_enough(x, frame->from, frame->to) && !frame->is_forced)
        keep_refuted(x, frame->hash, frame->from, frame->to);
    pop_frame(x);
    return REFUTED;
}

static outcome search_tree(weir_pack__corner *x) {
    uint32_t refuted_count = 0;
    outcome last = enter_range(x, 0, x->part->section_count);
    while (x->frame_count > 0 && !x->out_of_memory) {
        if (x->steps > x->budget)
            return ENTERED;
        last = x->frames[x->frame_count - 1].is_split ? advance_split(x, last)
                                                      : advance_corner(x, last, &refuted_count);
    }
    return last;
}

weir_status weir_pack__corner_run(weir_pack__corner *x, const weir_pack__search_task *task, uint64_t *offsets,
                                  weir_pack__search_end *end, uint64_t *steps, weir_error *error) {
    x->out_of_memory = false;
    weir_pack__corner_reset(x, task);
    outcome last = x->part->lower_bound > x->capacity ? REFUTED : search_tree(x);
    while (last == REFUTED && task->soft && x->part->lower_bound <= x->capacity && !x->out_of_memory) {
        weir_pack__corner_undo(x, 0);
        raise_capacity(x);
        last = search_tree(x);
    }
    *end = last == SOLVED    ? WEIR_PACK__SEARCH_SOLVED
           : last == REFUTED ? WEIR_PACK__SEARCH_REFUTED
                             : WEIR_PACK__SEARCH_SPENT;
    *steps += x->steps;
    if (x->out_of_memory)
        return weir__out_of_memory(error, WEIR_PACK__OPERATOR, x->trail_capacity * 2 * sizeof *x->trail);
    if (*end == WEIR_PACK__SEARCH_SOLVED)
        memcpy(offsets, x->offset, x->part->count * sizeof *offsets);
    return WEIR_OK;
}

/* ---- Opening --------------------------------------------------------------------------------- */

weir_status weir_pack__corner_open(const weir_env *env, const weir_pack__part *part,
                                   weir_pack__corner **corner, weir_error *error) {
    size_t count = part->count;
    size_t sections = part->section_count;
    assert(!part->oversized && "what is searched is listed by section");
    size_t memberships = part->members_at[sections];
    weir_pack__corner *x = *corner ? *corner : weir__allocate_zero(env, 1, sizeof *x);
    if (!x)
        return weir__out_of_memory(error, WEIR_PACK__OPERATOR, sizeof *x);
    *corner = x;
    x->env = env;
    x->part = part;
    weir__arena *memory = &x->memory;
    weir__arena_release(memory);
    weir__arena_init(memory, env);
    x->floor_of = weir__arena_take(memory, count * sizeof *x->floor_of);
    x->offset = weir__arena_take(memory, count * sizeof *x->offset);
    x->limit = weir__arena_take(memory, count * sizeof *x->limit);
    x->key = weir__arena_take(memory, count * sizeof *x->key);
    x->witnessed = weir__arena_take(memory, count * sizeof *x->witnessed);
    x->level = weir__arena_take(memory, sections * sizeof *x->level);
    x->rest = weir__arena_take(memory, sections * sizeof *x->rest);
    x->unplaced = weir__arena_take(memory, sections * sizeof *x->unplaced);
    x->crossing = weir__arena_take(memory, sections * sizeof *x->crossing);
    x->witness = weir__arena_take(memory, sections * sizeof *x->witness);
    x->members = weir__arena_take(memory, memberships * sizeof *x->members);
    x->place_of = weir__arena_take(memory, memberships * sizeof *x->place_of);
    x->moved = weir__arena_take(memory, sections * sizeof *x->moved);
    x->moved_in = weir__arena_take(memory, sections * sizeof *x->moved_in);
    x->lowest = NULL;
    if (sections > SCAN_MAX) {
        for (x->leaves = 1; x->leaves < sections;)
            x->leaves *= 2;
        x->lowest = weir__arena_take(memory, 2 * (size_t)x->leaves * sizeof *x->lowest);
    }
    /* The large table stays: what an earlier search wrote into it is of another generation. */
    if (!x->words)
        x->words = weir__allocate(env, REFUTED_WORDS, sizeof *x->words);
    if (!x->refuted)
        x->refuted = weir__allocate_zero(env, REFUTED_COUNT, sizeof *x->refuted);
    if (!memory->is_short && x->words && x->refuted &&
        weir__grow(env, (void **)&x->trail, &x->trail_capacity, TRAIL_START, sizeof *x->trail))
        return WEIR_OK;
    weir_pack__corner_close(x);
    *corner = NULL;
    return weir__out_of_memory(error, WEIR_PACK__OPERATOR, count * sizeof *x->floor_of);
}

void weir_pack__corner_close(weir_pack__corner *x) {
    if (!x)
        return;
    const weir_env *env = x->env;
    weir__arena_release(&x->memory);
    weir__release(env, x->words);
    weir__release(env, x->refuted);
    weir__release(env, x->trail);
    weir__release(env, x->frames);
    weir__release(env, x->choices);
    weir__release(env, x);
}
