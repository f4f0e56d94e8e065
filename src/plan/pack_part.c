/* A part and its sections.
 *
 * Events in time order, deaths before births at equal times, cut time into *maximal* sets of live buffers:
 * a new section starts at the first death after a birth, because only a birth can make a set that is not
 * contained in the one before. Non-maximal moments add no constraint. Lifetimes become section ranges;
 * buffers that differed only in moments of no consequence become equal, and buffers that span a whole part
 * become visible. */
#include "plan/pack_internal.h"

uint32_t weir_pack__number_sections(const weir_pack__row *rows, const uint32_t *deaths, uint32_t count,
                                    uint32_t *first, uint32_t *last) {
    uint32_t section = 0;
    uint32_t dead = 0;
    bool has_grown = false; /* something was born since the section began */
    for (uint32_t i = 0; i < count; i++) {
        while (rows[deaths[dead]].upper <= rows[i].lower) {
            section += has_grown;
            has_grown = false;
            last[deaths[dead++]] = section;
        }
        first[i] = section;
        has_grown = true;
    }
    section += has_grown;
    for (; dead < count; dead++)
        last[deaths[dead]] = section;
    return section;
}

/* Rows by upper. False: no memory. */
static bool sort_deaths(const weir_env *env, const weir_pack__row *rows, uint32_t count, uint32_t *deaths) {
    weir__record *records = weir__allocate(env, count, 2 * sizeof *records);
    if (!records)
        return false;
    for (uint32_t i = 0; i < count; i++)
        records[i] = (weir__record){rows[i].upper, i};
    weir__sort_records(records, records + count, count, NULL, NULL);
    for (uint32_t i = 0; i < count; i++)
        deaths[i] = records[i].index;
    weir__release(env, records);
    return true;
}

/* Loads, births and members of every section. */
static bool fill_sections(weir_pack__part *part) {
    size_t sections = part->section_count;
    part->born_at = weir__arena_take(&part->memory, (sections + 1) * sizeof *part->born_at);
    part->load = weir__arena_take_zero(&part->memory, sections, sizeof *part->load);
    part->members_at = weir__arena_take_zero(&part->memory, sections + 2, sizeof *part->members_at);
    if (part->memory.is_short)
        return false;
    uint32_t slots = 0;
    for (uint32_t i = 0; i < part->count; i++) {
        part->slots_at[i] = slots;
        slots += part->last[i] - part->first[i];
        for (uint32_t s = part->first[i]; s < part->last[i]; s++) {
            part->load[s] += part->size[i];
            part->members_at[s + 2]++;
        }
    }
    part->members = weir__arena_take(&part->memory, slots * sizeof *part->members);
    if (!part->members)
        return false;
    for (uint32_t i = 0, s = 0; s <= part->section_count; s++) {
        while (i < part->count && part->first[i] < s)
            i++;
        part->born_at[s] = i;
    }
    for (uint32_t s = 0; s < part->section_count; s++) {
        part->members_at[s + 2] += part->members_at[s + 1];
        part->lower_bound = part->load[s] > part->lower_bound ? part->load[s] : part->lower_bound;
    }
    for (uint32_t i = 0; i < part->count; i++)
        for (uint32_t s = part->first[i]; s < part->last[i]; s++)
            part->members[part->members_at[s + 1]++] = i;
    return true;
}

weir_status weir_pack__part_open(const weir_env *env, const weir_pack__row *rows, uint32_t count,
                                 weir_pack__part *part, weir_error *error) {
    *part = (weir_pack__part){.count = count};
    weir__arena_init(&part->memory, env);
    part->first = weir__arena_take(&part->memory, count * sizeof *part->first);
    part->last = weir__arena_take(&part->memory, count * sizeof *part->last);
    part->size = weir__arena_take(&part->memory, count * sizeof *part->size);
    part->slots_at = weir__arena_take(&part->memory, count * sizeof *part->slots_at);
    uint32_t *deaths = part->slots_at; /* until that is filled */
    bool has_memory = !part->memory.is_short && sort_deaths(env, rows, count, deaths);
    if (has_memory) {
        part->section_count = weir_pack__number_sections(rows, deaths, count, part->first, part->last);
        uint64_t memberships = 0;
        for (uint32_t i = 0, dead = 0; i < count; i++) {
            while (rows[deaths[dead]].upper <= rows[i].lower)
                dead++;
            part->live_max = i + 1 - dead > part->live_max ? i + 1 - dead : part->live_max;
            part->size[i] = rows[i].size;
            memberships += part->last[i] - part->first[i];
        }
        part->oversized = memberships > WEIR_PACK__MEMBERSHIPS_MAX;
        has_memory = part->oversized || fill_sections(part);
    }
    if (has_memory)
        return WEIR_OK;
    weir_pack__part_close(part);
    return weir__out_of_memory(error, WEIR_PACK__OPERATOR, count * sizeof *rows);
}

void weir_pack__part_close(weir_pack__part *part) {
    weir__arena_release(&part->memory);
    *part = (weir_pack__part){0};
}
