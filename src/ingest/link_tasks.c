/* Link tasks: the destinations in the order in which they came to be, so that those that existed by some time
 * are the first so many places, and the references to them in the order of time, so that popularity at some
 * time is a prefix too. Docs: docs/spec/05f-links.md. */
#include "ingest/encode.h"

/* ---- Making the lists -------------------------------------------------------------------------- */

static bool order_destinations(const weir_ingest__linked *linked, uint32_t table, weir__arena *arena,
                               weir_ingest__links *link) {
    const weir_env *env = arena->env;
    uint32_t count = linked->ordered->tables[table].row_count;
    weir_ingest__sort_item *items = weir__allocate(env, count, sizeof *items);
    link->rows = weir__arena_take(arena, count * sizeof *link->rows);
    link->places = weir__arena_take(arena, count * sizeof *link->places);
    link->times = weir__arena_take(arena, count * sizeof *link->times);
    bool is_fine = items && link->rows && link->places && link->times;
    for (uint32_t row = 0; is_fine && row < count; row++)
        items[row] =
            (weir_ingest__sort_item){weir_ingest__rank_of(weir_ingest__row_time(linked, table, row)), row};
    is_fine = is_fine && weir_ingest__sort(env, items, count, NULL, NULL);
    for (uint32_t place = 0; is_fine && place < count; place++) {
        link->rows[place] = WEIR__NARROW(uint32_t, items[place].index);
        link->places[items[place].index] = place;
        link->times[place] = weir_ingest__of_rank(items[place].primary);
    }
    weir__release(env, items);
    return is_fine;
}

static int compare_children(const void *context, uint64_t a, uint64_t b) {
    const uint32_t *rows = context;
    return (rows[a] > rows[b]) - (rows[a] < rows[b]);
}

static bool order_references(const weir_ingest__edge *edge, uint32_t parents, weir__arena *arena,
                             weir_ingest__links *link) {
    const weir_env *env = arena->env;
    uint32_t count = WEIR__NARROW(uint32_t, edge->count);
    weir_ingest__sort_item *items = weir__allocate(env, count, sizeof *items);
    uint32_t *places = weir__allocate(env, count, sizeof *places); /* by entry of the children's lists */
    link->reference_times = weir__arena_take(arena, count * sizeof *link->reference_times);
    link->reference_places = weir__arena_take(arena, count * sizeof *link->reference_places);
    bool is_fine = items && places && link->reference_times && link->reference_places;
    for (uint32_t p = 0; is_fine && p < parents; p++)
        for (uint32_t i = edge->starts[p]; i < edge->starts[p + 1]; i++) {
            int64_t time = edge->child_times ? edge->child_times[i] : WEIR_TIME_ALWAYS;
            items[i] = (weir_ingest__sort_item){weir_ingest__rank_of(time), i};
            places[i] = link->places[p];
        }
    is_fine = is_fine && weir_ingest__sort(env, items, count, compare_children, edge->child_rows);
    for (uint32_t i = 0; is_fine && i < count; i++) {
        link->reference_times[i] = weir_ingest__of_rank(items[i].primary);
        link->reference_places[i] = places[items[i].index];
    }
    weir__release(env, items);
    weir__release(env, places);
    return is_fine;
}

weir_status weir_ingest__make_links(const weir_ingest__linked *linked, weir_ingest__task *task,
                                    weir_error *error) {
    const weir_ingest__task_plan *plan = task->plan;
    uint32_t count = linked->ordered->tables[plan->link_table].row_count;
    if (order_destinations(linked, plan->link_table, &task->memory, &task->links) &&
        (plan->link_edge == WEIR_NONE ||
         order_references(&linked->edges[plan->link_edge], count, &task->memory, &task->links)))
        return WEIR_OK;
    return weir_ingest__no_memory(error, count * sizeof *task->links.times);
}

/* ---- Writing them ------------------------------------------------------------------------------ */

void weir_ingest__write_links(const weir_ingest__encoder *e) {
    weir_store__writer *w = e->writer;
    for (uint32_t t = 0; t < e->plan->task_count; t++) {
        const weir_ingest__task_plan *plan = &e->plan->tasks[t];
        const weir_ingest__links *link = &e->tasks->list[t].links;
        if (!weir_ingest__is_link(plan->schema))
            continue;
        uint32_t count = e->ordered->tables[plan->link_table].row_count;
        uint64_t references = plan->link_edge == WEIR_NONE ? 0 : e->linked->edges[plan->link_edge].count;
        weir_store__writer_begin(w, WEIR_STORE__SECTION_LINKS);
        weir_store__writer_align(w, WEIR_STORE__LINK_ALIGNMENT);
        weir_store__writer_put_longs(w, link->times, count);
        weir_store__writer_put_longs(w, link->reference_times, references);
        weir_store__writer_put_rows(w, link->rows, count,
                                    e->description->tables[plan->link_table].first_number);
        weir_store__writer_put_words(w, link->reference_places, references);
    }
}
