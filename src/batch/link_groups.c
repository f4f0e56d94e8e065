/* See link_groups.h. Negatives are drawn by a bijection over what may be drawn, so that nothing is kept
 * between samples, and none comes twice. Whoever builds the sample draws the same. */
#include "batch/link_groups.h"

#include "base/narrow.h"
#include "sampler/place.h"
#include "store/link_pairs.h"
#include "weir_tool/batch_tools.h"

enum {
    DOMAIN_LINK = 0x6C696E6B,
    DOMAIN_POPULARITY = 0x706F7075,
    SOURCE = 0,
    DESTINATION = 1,
    FIRST_NEGATIVE = 2,
    TRIES_A_NEGATIVE = 16,
    TRIES_MORE = 64,
};

uint32_t weir_batch__group_size(const weir_task *task, const weir_batch_config *config, weir_stage stage) {
    if (!task->link.is_link)
        return 1;
    return FIRST_NEGATIVE + (stage == WEIR_STAGE_TRAIN ? config->links.negatives : config->links.candidates);
}

/* What the negatives of a sample are drawn from, and where to. */
typedef struct drawing {
    const weir_batch__recipe *recipe;
    weir_store__link_list list;
    weir_seed seed;
    uint64_t number; /* that draws count from: q in the contract */
    weir_batch__sample *negatives;
    uint32_t wanted;
    uint32_t taken;
} drawing;

static bool is_taken(const drawing *d, uint32_t place) {
    for (uint32_t i = 0; i < d->taken; i++)
        if (d->negatives[i].place == place)
            return true;
    return false;
}

static bool draw_uniformly(drawing *d) {
    const weir_batch__recipe *r = d->recipe;
    uint32_t count = d->list.existing - d->list.count; /* candidates */
    bool may_repeat = d->taken > 0;
    if (count == 0)
        return true;
    weir_sampler__place_map map = weir_sampler__place_map_make(d->seed, DOMAIN_LINK, d->number, 0, count);
    for (uint32_t k = 0; k < count && d->taken < d->wanted; k++) {
        uint32_t candidate = WEIR__NARROW(uint32_t, weir_sampler__place_at(&map, k)), place;
        if (!weir_store__link_candidate(r->store, r->task, &d->list, candidate, &place))
            return false;
        if (!may_repeat || !is_taken(d, place))
            d->negatives[d->taken++].place = place;
    }
    return true;
}

static bool draw_by_popularity(drawing *d) {
    const weir_batch__recipe *r = d->recipe;
    uint32_t count = d->list.references, most = TRIES_A_NEGATIVE * d->wanted + TRIES_MORE;
    if (count == 0)
        return true;
    weir_sampler__place_map map =
        weir_sampler__place_map_make(d->seed, DOMAIN_POPULARITY, d->number, 0, count);
    for (uint32_t f = 0; f < count && f < most && d->taken < d->wanted; f++) {
        uint32_t entry = WEIR__NARROW(uint32_t, weir_sampler__place_at(&map, f)), place;
        bool is_positive;
        if (!weir_store__link_reference(r->store, r->task, entry, &place) ||
            !weir_store__link_has(r->store, r->task, &d->list, place, &is_positive))
            return false;
        if (place < d->list.existing && !is_positive && !is_taken(d, place))
            d->negatives[d->taken++].place = place;
    }
    return true;
}

static void make_sequence(weir_batch__sample *out, const weir_batch__sample *of, uint64_t walk_position,
                          uint32_t table, uint64_t row, const weir_seed_row *pair, bool is_null,
                          bool is_linked) {
    uint32_t place = out->place;
    *out = (weir_batch__sample){.index = of->index,
                                .position = of->position,
                                .walk_seed = of->walk_seed,
                                .walk_position = walk_position,
                                .is_given = true,
                                .stored = WEIR_NO_ROW,
                                .table = table,
                                .place = place,
                                .seed = *pair};
    out->seed.row = row;
    out->seed.target = (weir_cell){.stype = WEIR_BOOLEAN, .is_null = is_null, .integer = is_linked};
}

bool weir_batch__list_group(const weir_batch__recipe *r, const weir_batch__sample *sample,
                            weir_batch__sample *group) {
    const weir_task *task = r->rules.task;
    uint64_t seed = r->first_seed + sample->index;
    uint64_t first = sample->walk_position * r->group_size;
    drawing d = {.recipe = r,
                 .seed = sample->walk_seed,
                 .negatives = group + FIRST_NEGATIVE,
                 .wanted = r->group_size - FIRST_NEGATIVE};
    weir_seed_row pair;
    if (!weir_store_seed(r->store, r->task, seed, &pair) ||
        !weir_store__link_list_of(r->store, r->task, seed, &d.list))
        return false;
    d.number = r->stage == WEIR_STAGE_TRAIN ? sample->position : d.list.first - r->first_seed;
    if ((r->config.links.by == WEIR_NEGATIVES_BY_POPULARITY && !draw_by_popularity(&d)) ||
        !draw_uniformly(&d))
        return false;
    make_sequence(&group[SOURCE], sample, first + SOURCE, task->anchor_table, pair.row, &pair, true, false);
    make_sequence(&group[DESTINATION], sample, first + DESTINATION, task->link.table, pair.destination, &pair,
                  false, true);
    for (uint32_t i = 0; i < d.wanted; i++) {
        uint64_t row = 0;
        if (i < d.taken && !weir_store__link_row(r->store, r->task, d.negatives[i].place, &row))
            return false;
        make_sequence(&d.negatives[i], sample, first + FIRST_NEGATIVE + i, task->link.table, row, &pair,
                      false, false);
        d.negatives[i].is_absent = i >= d.taken;
    }
    return true;
}

weir_role weir_batch_role(const weir_batch *batch, uint32_t sequence) {
    if (batch->group_size <= 1) /* 0: there is no batch */
        return WEIR_ROLE_SAMPLE;
    uint32_t number = sequence % batch->group_size;
    return number == SOURCE        ? WEIR_ROLE_SOURCE
           : number == DESTINATION ? WEIR_ROLE_DESTINATION
                                   : WEIR_ROLE_NEGATIVE;
}

const char *weir_role_name(weir_role role) {
    static const char *const names[] = {NULL, "source", "destination", "negative"};
    return names[role];
}

/* A sequence begins with the row that it is about, or with a task row, whose anchor is the task's. */
uint64_t weir_batch_anchor(const weir_store *store, uint32_t task, const weir_batch *batch, uint32_t sequence,
                           uint32_t number) {
    const weir_store_info *info = weir_store_describe(store);
    uint64_t first = batch->rows[(size_t)sequence * batch->row_stride];
    return first < info->row_count ? first : weir_store_row_of(store, info->tasks[task].anchor_table, number);
}
