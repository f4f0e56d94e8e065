/* Rematerialisation as a step of making a plan: budgets from the arenas' settings, the search, and what is
 * said where nothing fits. */
#include <string.h>

#include "plan/steps.h"

/* ---- Budgets ------------------------------------------------------------------------------------ */

static weir_text name_of(const weir_graph *graph, uint32_t arena) {
    return arena < graph->arenas.count ? weir__name(&graph->arenas, arena)
                                       : (weir_text){WEIR_PLAN__HOST, sizeof WEIR_PLAN__HOST - 1};
}

/* In bytewise order of names. `with_slack`: budgets, else the capacities themselves. */
static weir_status find_budgets(const weir_graph *graph, const weir_plan__limits *limits, bool with_slack,
                                weir_plan__budgets *budgets, weir_error *error) {
    const weir_plan__arena_setting *settings = limits->settings;
    budgets->count = 0;
    for (size_t i = 0; i < limits->setting_count; i++) {
        uint32_t arena = weir_plan__arena_of_setting(graph, &settings[i]);
        if (arena == WEIR__NO_NAME || !settings[i].has_capacity)
            continue;
        if (budgets->count == WEIR_PLAN__BUDGETS_MAX)
            return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_PLAN__PREPARE_OPERATOR,
                              "preset remat_enabled takes capacities of at most %d arenas",
                              WEIR_PLAN__BUDGETS_MAX);
        unsigned at = budgets->count++;
        for (; at > 0; at--) {
            weir_text other = name_of(graph, budgets->items[at - 1].arena);
            if (weir_plan__compare_texts(settings[i].name, other) >= 0)
                break;
            budgets->items[at] = budgets->items[at - 1];
        }
        uint64_t slack = with_slack ? settings[i].slack : 0;
        budgets->items[at] = (weir_plan__budget){arena, settings[i].capacity - slack};
    }
    return WEIR_OK;
}

/* ---- Recomputing -------------------------------------------------------------------------------- */

typedef struct recomputing {
    const weir_graph *graph;
    weir_plan *plan;
    const weir_plan__limits *limits;
    weir_plan__steps steps;
    weir_plan__schedule schedule;
    weir_plan__remat_result result;
} recomputing;

static weir_status report_nothing(const recomputing *r, weir_error *error) {
    const weir_plan__budgets *budgets = &r->steps.budgets;
    unsigned at = 0;
    for (unsigned b = budgets->count; b-- > 0;)
        if (r->result.base[b] > budgets->items[b].bytes)
            at = b;
    for (unsigned b = budgets->count; b-- > 0;)
        if (r->result.least[b] > budgets->items[b].bytes)
            at = b;
    weir_text arena = name_of(r->graph, budgets->items[at].arena);
    uint64_t capacity = budgets->items[at].bytes;
    weir_status status = weir__fail(
        error, WEIR_ARENA_TOO_SMALL, WEIR_PLAN__PREPARE_OPERATOR,
        "arena '%.*s' needs %llu bytes and may have %llu, and recomputing %s not help enough: "
        "%llu bytes are "
        "live at one step in every schedule; %s",
        WEIR_PLAN__SHOW(arena), (unsigned long long)r->result.base[at], (unsigned long long)capacity,
        r->steps.link.bytes ? "and paging do" : "does", (unsigned long long)r->result.least[at],
        r->result.is_impossible ? "no schedule can fit: raise the capacity or shrink the tensors"
                                : "raise the capacity, or try a higher effort");
    weir__note_text(error, "arena", arena.data, arena.size);
    weir__note_uint(error, "required", r->result.base[at]);
    weir__note_uint(error, "capacity", capacity);
    weir__note_uint(error, "lower_bound", r->result.least[at]);
    weir__note_uint(error, "proven", r->result.is_impossible);
    return status;
}

/* Runs and transfers of the schedule, beyond the base steps. False: no memory. */
static bool count_executions(recomputing *r) {
    const weir_plan__steps *s = &r->steps;
    weir_plan_paging *paging = &r->plan->paging;
    for (size_t i = 0; i < r->schedule.count; i++) {
        uint32_t node = r->schedule.items[i].node;
        if (!weir_plan__is_transfer(s, r->schedule.items[i])) {
            r->plan->remat.runs_again += !r->schedule.items[i].is_base;
            continue;
        }
        unsigned kind = weir_plan__transfer_of(s, node);
        if (kind == WEIR_PLAN__WAIT) {
            paging->overlaps = true;
            continue;
        }
        paging->transfers++;
        paging->tensors += kind == WEIR_PLAN__OUT;
        paging->moved =
            weir_plan__add_capped(paging->moved, r->graph->tensors[weir_plan__moved_by(s, node)].bytes);
        paging->cost = weir_plan__add_capped(paging->cost, s->costs[node]);
    }
    if (paging->transfers == 0)
        return true;
    paging->link = s->link.bytes;
    paging->speed = s->link.speed;
    if (!paging->overlaps)
        return true;
    paging->hidden = paging->cost;
    if (!weir_plan__schedule_waits(s, &r->schedule, &paging->cost))
        return false;
    paging->hidden -= paging->cost;
    return true;
}

static weir_status solve(recomputing *r, weir_plan__liveness *liveness, weir_error *error) {
    weir_plan *plan = r->plan;
    bool has_memory = weir_plan__remat_solve(&r->steps, r->limits->effort, &r->schedule, &r->result);
    if (has_memory && weir_plan__has_slack(r->limits)) {
        /* The bound is that of the capacities, whatever the packing took from the budgets. */
        weir_plan__steps whole = r->steps;
        WEIR__TRY(find_budgets(r->graph, r->limits, false, &whole.budgets, error));
        has_memory = weir_plan__remat_bound(&whole, &r->result.lower_bound);
        r->result.is_optimal = r->result.lower_bound == r->result.added_cost;
    }
    if (!has_memory)
        return weir__out_of_memory(error, WEIR_PLAN__PREPARE_OPERATOR,
                                   r->steps.tensor_count * sizeof(uint64_t));
    if (!r->result.is_found)
        return report_nothing(r, error);
    if (r->schedule.count == r->steps.step_count)
        return WEIR_OK;
    plan->remat = (weir_plan_remat){.added_cost = r->result.added_cost,
                                    .base_cost = weir_plan__base_cost(&r->steps),
                                    .lower_bound = r->result.lower_bound,
                                    .optimal = r->result.is_optimal};
    if (!count_executions(r))
        return weir__out_of_memory(error, WEIR_PLAN__PREPARE_OPERATOR,
                                   r->steps.tensor_count * sizeof(uint64_t));
    return weir_plan__remat_apply(r->graph, plan, liveness, &r->steps, &r->schedule, error);
}

weir_status weir_plan__recompute(const weir_graph *graph, weir_plan *plan, weir_plan__liveness *liveness,
                                 const weir_plan__limits *limits, weir_error *error) {
    recomputing r = {.graph = graph, .plan = plan, .limits = limits};
    if (limits->link.bytes &&
        weir__names_find(&graph->arenas, WEIR_PLAN__HOST, sizeof WEIR_PLAN__HOST - 1) != WEIR__NO_NAME)
        return weir__fail(error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
                          "%s: it has an arena 'host', which is where tensors are paged to; rename it, or "
                          "plan without a link",
                          graph->source);
    weir_plan__budgets budgets;
    weir_status status = find_budgets(graph, limits, true, &budgets, error);
    if (status != WEIR_OK || budgets.count == 0)
        return status;
    status = weir_plan__steps_make(graph, plan, liveness, limits, &r.steps, error);
    r.steps.budgets = budgets;
    if (status == WEIR_OK)
        status = solve(&r, liveness, error);
    weir_plan__steps_release(&r.steps);
    weir_plan__schedule_release(plan->env, &r.schedule);
    return status;
}
