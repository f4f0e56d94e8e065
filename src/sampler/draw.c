/* Positions to samples where training draws from a population (docs/spec/02-sampling-modes.md). Each position
 * is found by itself; only the map of the period or epoch in use is kept. */
#include "sampler/sampler.h"

/* The map of number n under a domain: kept from the last call if it is the same. */
static const weir_sampler__place_map *use_map(weir_sampler *s, uint32_t domain, uint64_t n, uint64_t m) {
    if (!s->has_map || s->map_number != n) {
        s->map = weir_sampler__place_map_make(s->population->seed, domain, n, 0, m);
        s->map_number = n;
        s->has_map = true;
    }
    return &s->map;
}

static uint64_t draw_by_class(weir_sampler *s, uint64_t epoch, uint64_t position) {
    const weir_population *p = s->population;
    unsigned __int128 global = (unsigned __int128)epoch * s->epoch_limit + position;
    uint64_t period = (uint64_t)(global / p->class_count);
    uint64_t place = (uint64_t)(global - (unsigned __int128)period * p->class_count);
    uint32_t c =
        (uint32_t)weir_sampler__place_at(use_map(s, WEIR_DOMAIN_CLASSES, period, p->class_count), place);
    uint64_t size = p->starts[c + 1] - p->starts[c];
    weir_sampler__place_map members = weir_sampler__place_map_make(
        p->seed, WEIR_DOMAIN_MEMBERS, period / size, WEIR_SAMPLER__SHUFFLE_MAX * c, size);
    return p->members[p->starts[c] + weir_sampler__place_at(&members, period % size)];
}

/* From the epoch's bits in reverse. */
static uint64_t phase_of(const weir_population *p, uint64_t epoch) {
    uint64_t u = p->theta; /* sums are modulo 2^64, as the contract says */
    for (int i = 0; i < 64; i++)
        u += (epoch >> i & 1) << (63 - i);
    return (uint64_t)(((unsigned __int128)u * p->total) >> 64);
}

static uint64_t draw_by_weight(weir_sampler *s, uint64_t epoch, uint64_t position, uint64_t phase) {
    const weir_population *p = s->population;
    uint64_t used = s->epoch_limit;
    uint64_t place = weir_sampler__place_at(use_map(s, WEIR_DOMAIN_POINTS, epoch, used), position % used);
    unsigned __int128 point = ((unsigned __int128)place * p->total + phase) / used;
    return weir_sampler__population_find(p, (uint64_t)point);
}

void weir_sampler__draw(weir_sampler *s, uint64_t epoch, uint64_t position, uint64_t count, uint64_t *out) {
    if (s->population->sampling == WEIR_SAMPLING_CLASS_BALANCED) {
        for (uint64_t i = 0; i < count; i++)
            out[i] = draw_by_class(s, epoch, position + i);
        return;
    }
    uint64_t phase = phase_of(s->population, epoch);
    for (uint64_t i = 0; i < count; i++)
        out[i] = draw_by_weight(s, epoch, position + i, phase);
}

bool weir_sampler__can_draw(const weir_sampler *s, uint64_t epoch, unsigned __int128 last_position) {
    if (!s->population || s->population->sampling != WEIR_SAMPLING_CLASS_BALANCED)
        return true;
    unsigned __int128 start = (unsigned __int128)epoch * s->epoch_limit;
    unsigned __int128 limit = ((unsigned __int128)1 << 64) * s->population->class_count;
    return start < limit && last_position < limit - start;
}
