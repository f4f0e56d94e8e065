/* From a schedule to a plan and back: rows of the instances that running operators again makes, the schedule
 * that the plan keeps, and reading one from a file that may hold anything. */
#include <stdio.h>
#include <string.h>

#include "plan/steps.h"

enum { SUFFIX_MAX = 6 + 10 }; /* ".again" and a number */

typedef struct applying {
    const weir_graph *graph;
    weir_plan *plan;
    const weir_plan__steps *steps;
    uint32_t *again_first; /* a tensor: row of its instance 1, less 1; the last entry is the end */
    uint32_t *overwritten; /* a row: the row that it overwrites; NULL if nothing is */
    bool shares_places;
} applying;

static bool is_alias(const applying *a, uint32_t tensor) {
    return a->shares_places && tensor < a->steps->tensor_count && a->graph->tensors[tensor].owner != tensor;
}

static bool is_copy(const applying *a, uint32_t tensor) {
    return tensor >= a->steps->tensor_count;
}

static uint32_t row_of(const applying *a, uint32_t tensor, uint32_t number) {
    if (is_copy(a, tensor))
        return a->again_first[tensor] + 1;
    return number == 0 ? tensor : a->again_first[tensor] + number;
}

/* ---- Counting, then filling --------------------------------------------------------------------- */

static void count_instance(void *context, const weir_plan__life *life) {
    applying *a = context;
    uint32_t rows = is_copy(a, life->tensor) ? 1 : is_alias(a, life->tensor) ? 0 : life->number;
    if (rows > a->again_first[life->tensor])
        a->again_first[life->tensor] = rows;
}

static void fill_instance(void *context, const weir_plan__life *life) {
    applying *a = context;
    if (is_alias(a, life->tensor))
        return;
    uint32_t row = row_of(a, life->tensor, life->number);
    uint32_t tensor = life->tensor % a->steps->tensor_count; /* of a copy, what it is of */
    a->plan->rows[row].size = a->graph->tensors[tensor].bytes;
    a->plan->rows[row].arena = a->steps->arena[life->tensor];
    a->plan->rows[row].birth = life->birth;
    a->plan->rows[row].death = life->death;
    a->plan->rows[row].owner = row;
    a->plan->looks[row] = a->plan->looks[tensor];
    if (a->overwritten && life->overwrites != WEIR__NO_NAME)
        a->overwritten[row] = row_of(a, life->overwrites, life->overwrites_number);
}

/* ---- Aliases ------------------------------------------------------------------------------------- */

/* An alias has a row for every instance of its owner in which it is made or read, from the first time to the
 * last, within the instance; one that stays to the end stays in the last instance. The first walk counts
 * rows; the second, after all instances have theirs, fills them. */
typedef struct alias_walk {
    applying *a;
    uint32_t *instance; /* a tensor: how many instances it has had */
    uint32_t *seen;     /* an alias: its owner's `instance` when it was last touched */
    uint32_t *rows;     /* an alias: how many it has */
    bool is_filling;
} alias_walk;

static void touch_alias(alias_walk *w, uint32_t alias, uint32_t place) {
    applying *a = w->a;
    const weir_plan__graph_tensor *tensor = &a->graph->tensors[alias];
    uint32_t instance = w->instance[tensor->owner];
    bool is_new = w->rows[alias] == 0 || w->seen[alias] != instance;
    w->seen[alias] = instance;
    w->rows[alias] += is_new;
    if (!w->is_filling) {
        a->again_first[alias] = w->rows[alias] - 1;
        return;
    }
    uint32_t row = row_of(a, alias, w->rows[alias] - 1);
    uint32_t owner = row_of(a, tensor->owner, instance - 1);
    uint32_t last = a->plan->rows[owner].death; /* at `place` if what runs there overwrites the owner */
    if (is_new) {
        a->plan->rows[row] = (weir_plan__row){.size = tensor->bytes,
                                              .offset = tensor->owner_offset,
                                              .birth = place < last ? place : last - 1,
                                              .arena = tensor->arena,
                                              .owner = owner};
        a->plan->looks[row] = a->plan->looks[alias];
    }
    a->plan->rows[row].death = place < last ? place + 1 : last;
}

static void touch_list(alias_walk *w, weir_plan__list list, uint32_t place) {
    for (uint32_t i = 0; i < list.count; i++)
        if (is_alias(w->a, list.items[i]))
            touch_alias(w, list.items[i], place);
}

static void touch_execution(alias_walk *w, weir_plan__execution execution, uint32_t place) {
    const weir_plan__steps *s = w->a->steps;
    weir_plan__list reads = weir_plan__reads_of(s, execution);
    weir_plan__list makes = weir_plan__makes_of(s, execution);
    for (uint32_t i = 0; i < makes.count; i++)
        w->instance[makes.items[i]]++;
    touch_list(w, reads, place);
    touch_list(w, makes, place);
    for (uint32_t i = 0; i < makes.count; i++) { /* aliases that stay to the end, in an owner made again */
        uint32_t owner = makes.items[i];
        for (uint32_t t = 0; s->permanent[owner] && w->instance[owner] > 1 && t < s->tensor_count; t++)
            if (s->permanent[t] && w->rows[t] > 0 && is_alias(w->a, t) &&
                w->a->graph->tensors[t].owner == owner)
                touch_alias(w, t, place);
    }
}

/* False: no memory. */
static bool place_aliases(applying *a, const weir_plan__schedule *schedule, bool is_filling) {
    if (!a->shares_places)
        return true;
    const weir_plan__steps *s = a->steps;
    size_t tensors = s->all_tensors;
    alias_walk w = {.a = a, .is_filling = is_filling};
    w.instance = weir__allocate_zero(a->plan->env, 3 * tensors + 1, sizeof *w.instance);
    if (!w.instance)
        return false;
    w.seen = w.instance + tensors;
    w.rows = w.seen + tensors;
    for (uint32_t t = 0; t < s->tensor_count; t++)
        w.instance[t] = s->producer[t] == WEIR__NO_NAME;
    for (uint32_t t = 0; t < s->tensor_count; t++)
        if (is_alias(a, t) && s->producer[t] == WEIR__NO_NAME)
            touch_alias(&w, t, 0);
    for (size_t i = 0; i < schedule->count; i++)
        touch_execution(&w, schedule->items[i], (uint32_t)i + 1);
    for (uint32_t t = 0; is_filling && t < s->tensor_count; t++)
        if (is_alias(a, t) && s->permanent[t] && w.rows[t] > 0)
            a->plan->rows[row_of(a, t, w.rows[t] - 1)].death = (uint32_t)schedule->count + 1;
    weir__release(a->plan->env, w.instance);
    return true;
}

/* ---- Rows ---------------------------------------------------------------------------------------- */

/* The same with more room; NULL: no memory. */
static void *enlarge(weir_plan *plan, const void *old, size_t old_size, size_t size) {
    void *more = weir__arena_take(&plan->memory, size);
    if (more && old_size > 0)
        memcpy(more, old, old_size);
    return more;
}

/* From numbers of instances to rows, and room for all of them. False: no memory. */
static bool make_rows(applying *a, size_t *total) {
    weir_plan *plan = a->plan;
    size_t count = plan->count, row = count;
    size_t old_text = count ? (size_t)plan->id_ends[count - 1] : 0, text = old_text;
    for (uint32_t t = 0; t < a->steps->all_tensors; t++) {
        uint32_t instances = a->again_first[t];
        a->again_first[t] = (uint32_t)row - 1;
        row += instances;
        text += instances * (weir__name(&a->graph->tensor_ids, t % a->steps->tensor_count).size + SUFFIX_MAX);
    }
    a->again_first[a->steps->all_tensors] = (uint32_t)row - 1;
    *total = row;
    if (row >= WEIR__NO_NAME)
        return false;
    plan->id_text = enlarge(plan, plan->id_text, old_text, text);
    plan->id_ends = enlarge(plan, plan->id_ends, count * sizeof *plan->id_ends, row * sizeof *plan->id_ends);
    plan->rows = enlarge(plan, plan->rows, count * sizeof *plan->rows, row * sizeof *plan->rows);
    plan->looks = enlarge(plan, plan->looks, count * sizeof *plan->looks, row * sizeof *plan->looks);
    return !plan->memory.is_short;
}

static weir_status name_rows(applying *a, weir_error *error) {
    weir_plan *plan = a->plan;
    for (uint32_t t = 0; t < a->steps->all_tensors; t++) {
        weir_text id = weir__name(&a->graph->tensor_ids, t % a->steps->tensor_count);
        for (uint32_t k = 1; k <= a->again_first[t + 1] - a->again_first[t]; k++) {
            uint64_t begin = plan->id_ends[plan->count - 1];
            char suffix[SUFFIX_MAX + 1];
            size_t size = (size_t)(is_copy(a, t) ? snprintf(suffix, sizeof suffix, ".host")
                                                 : snprintf(suffix, sizeof suffix, ".again%u", k));
            memcpy(plan->id_text + begin, id.data, id.size);
            memcpy(plan->id_text + begin + id.size, suffix, size);
            plan->id_ends[plan->count++] = begin + id.size + size;
            weir_text again = weir_plan__id(plan, plan->count - 1);
            if (weir__names_find(&a->graph->tensor_ids, again.data, again.size) != WEIR__NO_NAME)
                return weir__fail(error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
                                  "%s: tensor '%.*s' is %s as '%.*s', but the graph has a tensor of "
                                  "that id; rename it",
                                  a->graph->source, WEIR_PLAN__SHOW(id),
                                  is_copy(a, t) ? "copied to the host" : "made again",
                                  WEIR_PLAN__SHOW(again));
        }
    }
    return WEIR_OK;
}

static weir_status fill_plan(applying *a, const weir_plan__schedule *schedule, weir_plan__liveness *liveness,
                             weir_plan__lives_scratch *scratch, weir_error *error) {
    weir_plan *plan = a->plan;
    bool is_valid =
        weir_plan__schedule_lives(a->steps, schedule->items, schedule->count, scratch, count_instance, a);
    assert(is_valid && "a schedule that was chosen reads only what is there");
    if (!place_aliases(a, schedule, false))
        return weir__out_of_memory(error, WEIR_PLAN__PREPARE_OPERATOR,
                                   a->steps->tensor_count * sizeof(uint32_t));
    size_t total;
    if (!make_rows(a, &total))
        return weir__out_of_memory(error, WEIR_PLAN__PREPARE_OPERATOR, total * sizeof *plan->rows);
    if (liveness->overwritten) {
        a->overwritten = weir__arena_take(&liveness->memory, total * sizeof *a->overwritten);
        if (!a->overwritten)
            return weir__out_of_memory(error, WEIR_PLAN__PREPARE_OPERATOR, total * sizeof *a->overwritten);
        memset(a->overwritten, 0xFF, total * sizeof *a->overwritten);
        liveness->overwritten = a->overwritten;
    }
    WEIR__TRY(name_rows(a, error));
    weir_plan__schedule_lives(a->steps, schedule->items, schedule->count, scratch, fill_instance, a);
    if (!place_aliases(a, schedule, true))
        return weir__out_of_memory(error, WEIR_PLAN__PREPARE_OPERATOR,
                                   a->steps->tensor_count * sizeof(uint32_t));
    for (uint32_t i = 0; i < a->steps->gradient_count; i++) {
        weir_plan__row *row = &plan->rows[a->steps->tensor_count + i];
        row->birth = scratch->step_places[a->steps->gradients[i].first];
        row->death = scratch->step_places[a->steps->gradients[i].last] + 1;
    }
    plan->end = plan->alias_count = 0;
    for (uint32_t i = 0; i < plan->count; i++) {
        plan->alias_count += weir_plan__is_alias(plan, i);
        plan->end = plan->rows[i].death > plan->end ? plan->rows[i].death : plan->end;
    }
    return WEIR_OK;
}

/* ---- The schedule in the plan ------------------------------------------------------------------- */

static weir_status keep_schedule(weir_plan *plan, const weir_graph *graph, const weir_plan__steps *steps,
                                 const weir_plan__schedule *schedule, weir_error *error) {
    const weir__names *ids = &graph->node_ids;
    size_t text = ids->count ? (size_t)ids->ends[ids->count - 1] : 0;
    plan->schedule = weir__arena_take(&plan->memory, (schedule->count + 1) * sizeof *plan->schedule);
    plan->nodes.text = weir__allocate(plan->env, text, 1);
    plan->nodes.ends = weir__allocate(plan->env, ids->count, sizeof *ids->ends);
    if (!plan->schedule || !plan->nodes.text || !plan->nodes.ends)
        return weir__out_of_memory(error, WEIR_PLAN__PREPARE_OPERATOR,
                                   schedule->count * sizeof *plan->schedule);
    for (size_t i = 0; i < schedule->count; i++) {
        weir_plan__execution e = schedule->items[i];
        plan->schedule[i] = (weir_plan__kept_step){e.node, e.is_back ? WEIR_STEP_BACK : WEIR_STEP_RUN,
                                                   .is_again = !e.is_base};
        if (steps && weir_plan__is_transfer(steps, e)) /* tensors are the first rows */
            plan->schedule[i] = (weir_plan__kept_step){
                weir_plan__moved_by(steps, e.node),
                (uint8_t)(WEIR_STEP_OUT + weir_plan__transfer_of(steps, e.node)), .is_again = false};
    }
    if (ids->count > 0) {
        memcpy(plan->nodes.text, ids->text, text);
        memcpy(plan->nodes.ends, ids->ends, ids->count * sizeof *ids->ends);
    }
    plan->schedule_count = schedule->count;
    plan->nodes.count = ids->count;
    return WEIR_OK;
}

weir_status weir_plan__keep_order(weir_plan *plan, const weir_graph *graph, const uint32_t *order,
                                  weir_error *error) {
    weir_plan__schedule schedule = {0};
    uint32_t nodes = weir_plan__node_count(graph);
    for (uint32_t i = 0; i < nodes; i++)
        weir_plan__schedule_add(plan->env, &schedule, (weir_plan__execution){order[i], false, true});
    for (uint32_t i = nodes; plan->mode == WEIR_PLAN__BACKWARD && i-- > 0;)
        weir_plan__schedule_add(plan->env, &schedule, (weir_plan__execution){order[i], true, true});
    weir_status status = schedule.is_short ? weir__out_of_memory(error, WEIR_PLAN__PREPARE_OPERATOR,
                                                                 nodes * sizeof *schedule.items)
                                           : keep_schedule(plan, graph, NULL, &schedule, error);
    weir_plan__schedule_release(plan->env, &schedule);
    return status;
}

weir_status weir_plan__remat_apply(const weir_graph *graph, weir_plan *plan, weir_plan__liveness *liveness,
                                   const weir_plan__steps *steps, const weir_plan__schedule *schedule,
                                   weir_error *error) {
    applying a = {.graph = graph, .plan = plan, .steps = steps, .shares_places = liveness->shares_places};
    weir_plan__lives_scratch scratch;
    if (schedule->count >= UINT32_MAX - 4)
        return weir__fail(error, WEIR_ALLOCATION_OVERFLOW, WEIR_PLAN__PREPARE_OPERATOR,
                          "%s: the schedule has more than 2^32 steps", graph->source);
    bool has_memory = weir_plan__lives_open(steps, &scratch);
    a.again_first = weir__allocate_zero(plan->env, (size_t)steps->all_tensors + 1, sizeof *a.again_first);
    weir_status status = has_memory && a.again_first
                             ? fill_plan(&a, schedule, liveness, &scratch, error)
                             : weir__out_of_memory(error, WEIR_PLAN__PREPARE_OPERATOR, steps->tensor_count);
    if (status == WEIR_OK)
        status = keep_schedule(plan, graph, steps, schedule, error);
    weir_plan__lives_close(plan->env, &scratch);
    weir__release(plan->env, a.again_first);
    return status;
}

weir_plan_step weir_plan_step_at(const weir_plan *plan, size_t place) {
    weir_plan__kept_step kept = plan->schedule[place];
    weir_plan_step step = {.kind = (weir_plan_step_kind)kept.kind};
    if (step.kind >= WEIR_STEP_OUT) {
        step.node = weir_plan__id(plan, kept.index);
        return step;
    }
    step.node = weir__name(&plan->nodes, kept.index);
    step.is_again = kept.is_again;
    return step;
}

static const char *const kind_names[] = {"run", "back", "out", "in", "wait"};

const char *weir_plan_step_kind_name(weir_plan_step_kind kind) {
    return kind_names[kind];
}

/* ---- From a file -------------------------------------------------------------------------------- */

/* One [kind, node or tensor id]; the first run of a node and its backward step are base steps. */
static weir_status read_step(const weir_cbor_value *list, weir_plan *plan, weir_plan__kept_step *step) {
    weir_cbor_iterator it = weir_cbor_children(list);
    weir_cbor_value kind;
    weir_cbor_value id;
    *step = (weir_plan__kept_step){.kind = WEIR_STEP_RUN};
    if (list->type != WEIR_CBOR_ARRAY || list->number != 2 || !weir_cbor_next(&it, NULL, &kind) ||
        !weir_cbor_next(&it, NULL, &id) || id.type != WEIR_CBOR_TEXT)
        return WEIR_INVALID_IR;
    while (step->kind <= WEIR_STEP_WAIT && !weir_cbor_is_text(&kind, kind_names[step->kind]))
        step->kind++;
    if (step->kind > WEIR_STEP_WAIT)
        return WEIR_INVALID_IR;
    weir_text text = weir_plan__text_of(&id);
    if (step->kind >= WEIR_STEP_OUT)
        return weir_plan__find_id(plan, NULL, text, (weir_text){0}, &step->index) ? WEIR_OK : WEIR_INVALID_IR;
    weir__name_result found = weir__names_add(plan->env, &plan->nodes, text.data, text.size, &step->index);
    bool is_back = step->kind == WEIR_STEP_BACK;
    step->is_again = !is_back && found == WEIR__NAME_PRESENT;
    if (found == WEIR__NAME_NO_MEMORY)
        return WEIR_OUT_OF_MEMORY;
    return is_back && found != WEIR__NAME_PRESENT ? WEIR_INVALID_IR : WEIR_OK;
}

weir_status weir_plan__read_schedule(weir_plan *plan, const weir_cbor_value *list) {
    weir_cbor_iterator it = weir_cbor_children(list);
    weir_cbor_value item;
    if (list->type != WEIR_CBOR_ARRAY || list->number >= UINT32_MAX - 4)
        return WEIR_INVALID_IR;
    plan->schedule = weir__arena_take(&plan->memory, ((size_t)list->number + 1) * sizeof *plan->schedule);
    if (!plan->schedule)
        return WEIR_OUT_OF_MEMORY;
    while (weir_cbor_next(&it, NULL, &item)) {
        weir_plan__kept_step *step = &plan->schedule[plan->schedule_count];
        WEIR__TRY(read_step(&item, plan, step));
        plan->schedule_count++;
        plan->remat.runs_again += step->is_again;
    }
    return WEIR_OK;
}

/* The row whose id is that of a row and a suffix. */
static bool find_suffixed(const weir_plan *plan, uint32_t row, const char *suffix, uint32_t *found) {
    return weir_plan__find_id(plan, NULL, weir_plan__id(plan, row), (weir_text){suffix, strlen(suffix)},
                              found);
}

/* The row of the copy of a row on the host, which must be there. */
static bool find_copy(const weir_plan *plan, uint32_t row, uint32_t *copy) {
    return find_suffixed(plan, row, ".host", copy) &&
           weir_plan__same_text(plan->arenas[plan->rows[*copy].arena].name, WEIR_PLAN__HOST) &&
           plan->rows[*copy].size == plan->rows[row].size;
}

/* What is known of a row whose transfers have waits, while the schedule is read. */
typedef struct moving {
    uint32_t begun;    /* the position of the transfer that is not complete, or 0 */
    uint32_t instance; /* the row of the instance that is there, or was last */
    uint32_t number;   /* of the instance */
} moving;

static bool lives_at(const weir_plan__row *row, uint32_t position) {
    return row->birth <= position && position < row->death;
}

/* Both ends live from a transfer to its wait, and nothing else moves the tensor until then. */
static bool follow_transfer(const weir_plan *plan, size_t place, moving *m) {
    const weir_plan__kept_step *step = &plan->schedule[place];
    uint32_t position = (uint32_t)place + 1;
    uint32_t copy;
    if (step->kind == WEIR_STEP_WAIT) {
        bool is_begun = m->begun != 0;
        m->begun = 0;
        return is_begun && find_copy(plan, step->index, &copy) && lives_at(&plan->rows[copy], position) &&
               lives_at(&plan->rows[m->instance], position);
    }
    if (m->begun != 0)
        return false;
    m->begun = position;
    while (plan->rows[m->instance].death <= position) { /* goes on to the instance that lives there */
        char suffix[SUFFIX_MAX + 1];
        snprintf(suffix, sizeof suffix, ".again%u", ++m->number);
        if (!find_suffixed(plan, step->index, suffix, &m->instance))
            return false;
    }
    return lives_at(&plan->rows[m->instance], position) &&
           (step->kind == WEIR_STEP_OUT || plan->rows[m->instance].birth == position);
}

static weir_status check_waits(const weir_plan *plan) {
    moving *all = weir__allocate_zero(plan->env, (size_t)plan->count + 1, sizeof *all);
    bool is_good = true;
    if (!all)
        return WEIR_OUT_OF_MEMORY;
    for (uint32_t i = 0; is_good && i < plan->count; i++)
        all[i].instance = i;
    for (size_t i = 0; is_good && i < plan->schedule_count; i++)
        if (plan->schedule[i].kind >= WEIR_STEP_OUT)
            is_good = follow_transfer(plan, i, &all[plan->schedule[i].index]);
    for (uint32_t i = 0; is_good && i < plan->count; i++)
        is_good = all[i].begun == 0;
    weir__release(plan->env, all);
    return is_good ? WEIR_OK : WEIR_INVALID_IR;
}

static bool add_transfer(weir_plan *plan, size_t place, const weir_plan_paging *said) {
    const weir_plan__kept_step *step = &plan->schedule[place];
    const weir_plan__row *row = &plan->rows[step->index];
    weir_plan__link link = {.bytes = said->link, .speed = said->speed};
    uint32_t copy;
    bool is_out = step->kind == WEIR_STEP_OUT;
    if (!find_copy(plan, step->index, &copy))
        return false;
    uint32_t birth = plan->rows[copy].birth; /* where its tensor goes out, which a second `out` is not */
    if (birth == 0 || birth > plan->schedule_count || plan->schedule[birth - 1].kind != WEIR_STEP_OUT ||
        plan->schedule[birth - 1].index != step->index || (is_out && birth != place + 1) ||
        !lives_at(&plan->rows[copy], (uint32_t)place + 1))
        return false;
    weir_plan_paging *p = &plan->paging;
    p->transfers++;
    p->tensors += is_out;
    uint64_t rounded = weir_plan__rounded(row->size, plan->arenas[row->arena].alignment);
    p->moved = weir_plan__add_capped(p->moved, row->size);
    p->cost = weir_plan__add_capped(p->cost, weir_plan__move_cost(link, rounded));
    return true;
}

weir_status weir_plan__take_paging(weir_plan *plan, const weir_plan_paging *said) {
    weir_plan_paging *own = &plan->paging;
    for (size_t i = 0; i < plan->schedule_count; i++) {
        own->overlaps |= plan->schedule[i].kind == WEIR_STEP_WAIT;
        if ((plan->schedule[i].kind == WEIR_STEP_OUT || plan->schedule[i].kind == WEIR_STEP_IN) &&
            !(said && add_transfer(plan, i, said)))
            return WEIR_INVALID_IR;
    }
    if (!said)
        return own->overlaps ? WEIR_INVALID_IR : WEIR_OK;
    if (own->transfers == 0 || own->moved != said->moved || own->overlaps != said->overlaps)
        return WEIR_INVALID_IR;
    if (own->overlaps)
        WEIR__TRY(check_waits(plan));
    uint64_t moving_cost = own->cost;
    own->cost = said->cost;
    own->hidden = said->hidden;
    own->link = said->link;
    own->speed = said->speed;
    bool is_true = said->hidden <= moving_cost && said->cost == moving_cost - said->hidden;
    return is_true ? WEIR_OK : WEIR_INVALID_IR;
}
