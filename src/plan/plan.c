/* Making a plan: the steps of planning.h in the order in which faults are reported, and the plan's
 * accessors. */
#include <stdio.h>
#include <string.h>

#include "base/floating.h"
#include "base/hash.h"
#include "base/options.h"
#include "plan/pack.h"
#include "plan/planning.h"
#include "weir_tool/plan_tools.h"

/* A call: its graph, and what comes beside it, read and checked. */
typedef struct request {
    const weir_env *env;
    const weir_graph *graph;
    const weir_plan_options *options;
    weir_plan__graph_mode mode;
    weir_plan__document arenas;
    weir_plan__document order_document;
    weir_text *order_ids; /* NULL: not given */
    size_t order_count;
    weir_plan__limits limits;
    bool is_remat;
    bool has_versions; /* operators may run again although they write into places */
    uint32_t *order;   /* as in weir_plan__find_order */
    uint32_t *position;
    bool is_reordered; /* it is a better order that was found */
    uint8_t own_token[WEIR_TOKEN_SIZE];
    const uint8_t *token;
    size_t token_size;
} request;

enum { BUDGET_ROUNDS = 8, OVERLAP_STEP = 64 };

/* ---- The request ------------------------------------------------------------------------------- */

static weir_status load(const weir_env *env, const weir_document *given, weir_plan__document *out,
                        weir_error *error) {
    return given->data
               ? weir_plan__document_load(env, given->data, given->size, given->name, "JSON", out, error)
               : WEIR_OK;
}

static weir_status read_order(request *r, weir_error *error) {
    const weir_cbor_value *list = &r->order_document.root;
    weir_cbor_iterator it = weir_cbor_children(list);
    weir_cbor_value item;
    bool is_list = list->type == WEIR_CBOR_ARRAY;
    while (is_list && weir_cbor_next(&it, NULL, &item))
        is_list = item.type == WEIR_CBOR_TEXT;
    if (!is_list)
        return weir__fail(error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
                          "%s: the order must be a list of ids", r->options->order.name);
    r->order_ids = weir__allocate(r->env, (size_t)list->number, sizeof *r->order_ids);
    if (!r->order_ids)
        return weir__out_of_memory(error, WEIR_PLAN__PREPARE_OPERATOR,
                                   (size_t)list->number * sizeof *r->order_ids);
    it = weir_cbor_children(list);
    while (weir_cbor_next(&it, NULL, &item))
        r->order_ids[r->order_count++] = weir_plan__text_of(&item);
    return WEIR_OK;
}

static weir_status read_request(request *r, weir_error *error) {
    const weir_plan_options *options = r->options;
    weir_plan__limits *limits = &r->limits;
    bool has_capacity = !r->is_remat;
    WEIR__TRY(load(r->env, &options->arenas, &r->arenas, error));
    WEIR__TRY(load(r->env, &options->order, &r->order_document, error));
    if (options->arenas.data)
        WEIR__TRY(weir_plan__settings_read(r->env, &r->arenas.root, options->arenas.name, &limits->settings,
                                           &limits->setting_count, error));
    if (options->order.data)
        WEIR__TRY(read_order(r, error));
    if (limits->link.bytes && !r->is_remat)
        return weir__fail(error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
                          "a link pages tensors so that capacities are kept, which is preset remat_enabled; "
                          "give a capacity, such as --capacity activations=8GiB, or no link");
    for (size_t i = 0; i < limits->setting_count; i++)
        has_capacity |= limits->settings[i].has_capacity;
    if (has_capacity)
        return WEIR_OK;
    return weir__fail(
        error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
        "preset remat_enabled recomputes so that capacities are kept, and no arena has one; give "
        "it, such as --capacity activations=8GiB");
}

static weir_status check_options(request *r, weir_error *error) {
    const weir_plan_options *options = r->options;
    const uint64_t most = ((uint64_t)1 << 56) - 1;
    if (!r->graph->is_finished)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_PLAN__PREPARE_OPERATOR,
                          "the graph is not finished; call weir_graph_finish first");
    if (options->effort_plus_one > WEIR_EFFORT_MAX + 1)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_PLAN__PREPARE_OPERATOR,
                          "the effort is a number from 0 to %d", WEIR_EFFORT_MAX);
    if (options->link > most || options->speed > most || (options->link > 0) != (options->speed > 0))
        return weir__fail(
            error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
            "paging takes the link's bytes per second and the cost that operators do per second "
            "(link and speed), each from 1 to 2^56-1; give both, such as --link 50GB/s --speed "
            "400T/s, or none");
    r->limits.effort = options->effort_plus_one ? options->effort_plus_one - 1 : WEIR_EFFORT_DEFAULT;
    r->limits.threads = options->threads;
    r->limits.link =
        (weir_plan__link){options->link, options->speed, options->link > 0 && !options->no_overlap};
    return weir_pack__choose(options->strategies, &r->limits.without, error);
}

static weir_status find_order(request *r, weir_error *error) {
    uint32_t nodes = weir_plan__node_count(r->graph);
    r->order = weir__allocate(r->env, nodes, sizeof *r->order);
    r->position = weir__allocate(r->env, nodes, sizeof *r->position);
    if (!r->order || !r->position)
        return weir__out_of_memory(error, WEIR_PLAN__PREPARE_OPERATOR, nodes * sizeof *r->order);
    return weir_plan__find_order(r->graph, r->order_ids, r->order_count, r->order, r->position, error);
}

static weir_status find_token(request *r, weir_error *error) {
    r->token = r->options->token;
    r->token_size = r->options->token_size;
    if (!r->token) {
        uint8_t encoded[64];
        weir_cbor_writer w;
        weir_cbor_writer_fixed(&w, encoded, sizeof encoded);
        weir_cbor_array(&w, 3);
        weir_cbor_text(&w, "replay_token_v1");
        weir_cbor_bytes(&w, r->graph->hash, WEIR_HASH_SIZE);
        weir_cbor_uint(&w, 0);
        weir__sha512_of(encoded, w.size, r->own_token);
        r->token = r->own_token;
        r->token_size = sizeof r->own_token;
    }
    if (r->token_size >= WEIR_TOKEN_SIZE)
        return WEIR_OK;
    weir_status status =
        weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_PLAN__PREPARE_OPERATOR,
                   "the replay token has %zu bytes; it needs at least %d", r->token_size, WEIR_TOKEN_SIZE);
    weir__note_uint(error, "token_size", r->token_size);
    return status;
}

/* A capacity of an arena that the graph does not have would limit nothing: most likely its name is misspelt.
 */
static weir_status check_capacities(const request *r, weir_error *error) {
    const weir__names *arenas = &r->graph->arenas;
    char known[256] = "";
    for (size_t i = 0; i < r->limits.setting_count; i++) {
        const weir_plan__arena_setting *setting = &r->limits.settings[i];
        bool is_host = r->limits.link.bytes > 0 && weir_plan__same_text(setting->name, WEIR_PLAN__HOST);
        if (!setting->has_capacity || is_host ||
            weir__names_find(arenas, setting->name.data, setting->name.size) != WEIR__NO_NAME)
            continue;
        for (uint32_t a = 0, used = 0; a < arenas->count && used < sizeof known - 1; a++)
            used += WEIR__LOW(uint32_t, snprintf(known + used, sizeof known - used, "%s%.*s", a ? ", " : "",
                                                 WEIR_PLAN__SHOW(weir__name(arenas, a))));
        return weir__fail(
            error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
            "there is a capacity for the arena '%.*s', which the graph does not have; it has %s",
            WEIR_PLAN__SHOW(setting->name), known);
    }
    return WEIR_OK;
}

/* ---- The steps --------------------------------------------------------------------------------- */

/* The graph's arenas, and the host's if something is there. */
static weir_status collect_arenas(weir_plan *plan, const weir_graph *graph, const weir_plan__limits *limits,
                                  weir_error *error) {
    weir__names names = {0};
    uint32_t index;
    weir_status status = WEIR_OK;
    if (plan->paging.transfers == 0)
        return weir_plan__collect_arenas(plan, &graph->arenas, limits->settings, limits->setting_count,
                                         error);
    for (uint32_t a = 0; status == WEIR_OK && a <= graph->arenas.count; a++) {
        weir_text host = {WEIR_PLAN__HOST, sizeof WEIR_PLAN__HOST - 1};
        weir_text name = a < graph->arenas.count ? weir__name(&graph->arenas, a) : host;
        if (weir__names_add(plan->env, &names, name.data, name.size, &index) == WEIR__NAME_NO_MEMORY)
            status = weir__out_of_memory(error, WEIR_PLAN__PREPARE_OPERATOR, name.size);
    }
    if (status == WEIR_OK)
        status = weir_plan__collect_arenas(plan, &names, limits->settings, limits->setting_count, error);
    weir__names_release(plan->env, &names);
    return status;
}

static bool writes_places(const weir_graph *graph) {
    for (uint32_t i = 0; i < weir_plan__node_count(graph); i++) {
        const weir_plan__node *node = &graph->nodes[i];
        for (uint32_t k = 0; k < node->output_count; k++)
            if (weir_plan__node_overwrites(graph, node, weir_plan__node_outputs(graph, node)[k]))
                return true;
    }
    return false;
}

/* Lives, then memory. */
static weir_status run_steps(weir_plan *plan, const weir_graph *graph, const request *r,
                             weir_plan__liveness *liveness, weir_error *error) {
    WEIR__TRY(weir_plan__analyze_liveness(graph, plan, liveness, error));
    if (r->is_remat)
        WEIR__TRY(weir_plan__recompute(graph, plan, liveness, &r->limits, error));
    if (r->is_reordered && !plan->schedule)
        WEIR__TRY(weir_plan__keep_order(plan, graph, liveness->order, error));
    WEIR__TRY(collect_arenas(plan, graph, &r->limits, error));
    WEIR__TRY(weir_plan__sort_by_time(plan, error));
    WEIR__TRY(weir_plan__measure_live(plan, error));
    WEIR__TRY(weir_plan__assign_slots(plan, error));
    WEIR__TRY(weir_plan__map_addresses(plan, error));
    WEIR__TRY(weir_plan__lay_out(plan, liveness, &r->limits, error));
    WEIR__TRY(weir_plan__seal(plan, error));
    weir_plan__fill_metrics(plan, liveness->retained, liveness->activations);
    return WEIR_OK;
}

/* ---- Attempts ---------------------------------------------------------------------------------- */

/* One plan with the budgets as they are. Where the packing does not fit, *made is kept all the same, so that
 * its peaks can be seen.
 *
 * Aliases share the place of their owner. If operators may run again and one of them writes into a place, its
 * old value could not be read again: then versions share it, or nothing does. */
static weir_status attempt(const request *r, weir_plan **made, weir_error *error) {
    const weir_env *env = r->env;
    const weir_graph *graph = r->graph;
    weir_plan__liveness liveness = {.order = r->order, .position = r->position};
    weir_plan__versions versions = {0};
    weir_plan *plan = weir__allocate_zero(env, 1, sizeof *plan);
    *made = plan;
    if (!plan)
        return weir__out_of_memory(error, WEIR_PLAN__PREPARE_OPERATOR, sizeof *plan);
    *plan = (weir_plan){.env = env, .mode = r->mode, .token_size = r->token_size, .has_metrics = true};
    weir__arena_init(&plan->memory, env);
    memcpy(plan->hashes.graph, graph->hash, WEIR_HASH_SIZE);
    memcpy(plan->token_prefix, r->token, WEIR_PLAN__TOKEN_PREFIX);
    plan->token = weir__arena_take(&plan->memory, r->token_size);
    if (!plan->token)
        return weir__out_of_memory(error, WEIR_PLAN__PREPARE_OPERATOR, r->token_size);
    memcpy(plan->token, r->token, r->token_size);
    bool has_memory = true;
    liveness.shares_places = graph->has_aliases && !(r->is_remat && writes_places(graph));
    if (!liveness.shares_places && r->has_versions) {
        has_memory = weir_plan__versions_make(env, graph, r->order, &versions);
        liveness.shares_places = versions.is_whole;
        liveness.versions = versions.is_whole ? &versions : NULL;
    }
    weir_status status =
        has_memory ? run_steps(plan, liveness.versions ? &versions.graph : graph, r, &liveness, error)
                   : weir__out_of_memory(error, WEIR_PLAN__PREPARE_OPERATOR, sizeof *graph->tensors);
    weir__arena_release(&liveness.memory);
    weir_plan__versions_release(env, &versions);
    weir__release(env, plan->by_birth);
    weir__release(env, plan->by_death);
    plan->by_birth = plan->by_death = NULL;
    return status;
}

/* The error of a later attempt. */
static weir_status pass_on(weir_error *error, const weir_error *later) {
    if (error)
        *error = *later;
    return later->status;
}

static void drop(weir_plan **plan) {
    weir_plan_close(*plan);
    *plan = NULL;
}

static void forget_slack(request *r) {
    for (size_t i = 0; i < r->limits.setting_count; i++)
        r->limits.settings[i].slack = 0;
}

/* Lowers the budget of the arena whose packed peak passed its capacity. False if none did, or nothing is
 * left to lower. */
static bool tighten(request *r, const weir_plan *plan) {
    for (uint32_t a = 0; a < plan->arena_count; a++) {
        const weir_plan__planned_arena *arena = &plan->arenas[a];
        if (!arena->has_capacity || arena->peak_bytes <= arena->capacity)
            continue;
        for (size_t i = 0; i < r->limits.setting_count; i++) {
            weir_plan__arena_setting *setting = &r->limits.settings[i];
            uint64_t more = arena->peak_bytes - arena->capacity;
            uint64_t left = setting->capacity - setting->slack;
            uint64_t step = plan->paging.overlaps ? arena->capacity / OVERLAP_STEP : 0;
            more = more < step && step <= left ? step : more;
            if (weir__key_compare(setting->name.data, setting->name.size, arena->name.data,
                                  arena->name.size) == 0 &&
                more <= left) {
                setting->slack += more;
                return true;
            }
        }
    }
    return false;
}

/* A plan of one order: where operators may run again, as often as the packing needs more room. The error is
 * the first attempt's: it speaks of the capacities that were given. */
static weir_status fit(request *r, weir_plan **plan, weir_error *error) {
    weir_error later;
    weir_status first = WEIR_OK;
    forget_slack(r);
    for (unsigned round = 0; round <= BUDGET_ROUNDS; round++) {
        weir_status status = attempt(r, plan, round ? &later : error);
        if (status == WEIR_OK)
            return WEIR_OK;
        first = round ? first : status;
        bool is_worth_more = r->is_remat && status == WEIR_ARENA_TOO_SMALL && tighten(r, *plan);
        drop(plan);
        if (status != WEIR_ARENA_TOO_SMALL)
            return round ? pass_on(error, &later) : status;
        if (!is_worth_more)
            break;
    }
    return first;
}

/* The same, and where transfers overlap and room was lacking, without that too: the cheaper plan. */
static weir_status make_fitting(request *r, weir_plan **plan, weir_error *error) {
    weir_error other_error;
    weir_plan *other = NULL;
    weir_status status = WEIR_OK;
    forget_slack(r);
    if (r->is_remat && r->graph->has_aliases) { /* places are shared, if that keeps the capacities as it is */
        request shared = *r;
        shared.is_remat = false;
        status = attempt(&shared, plan, error);
        if (status != WEIR_OK)
            drop(plan);
        if (status != WEIR_ARENA_TOO_SMALL && status != WEIR_INVALID_IR)
            return status;
    }
    r->has_versions = status == WEIR_ARENA_TOO_SMALL; /* else a write comes too early */
    request alone = *r;
    status = fit(r, plan, error);
    bool is_short = status == WEIR_ARENA_TOO_SMALL || (status == WEIR_OK && (*plan)->remat.added_cost > 0);
    if (!r->limits.link.overlaps || !is_short || !weir_plan__has_slack(&r->limits))
        return status;
    alone.limits.link.overlaps = false;
    weir_status second = fit(&alone, &other, &other_error);
    if (second != WEIR_OK && second != WEIR_ARENA_TOO_SMALL) {
        drop(plan);
        return pass_on(error, &other_error);
    }
    bool is_cheaper =
        second == WEIR_OK && (status != WEIR_OK || other->remat.added_cost < (*plan)->remat.added_cost);
    weir_plan *worse = is_cheaper ? *plan : other;
    *plan = is_cheaper ? other : *plan;
    weir_plan_close(worse);
    return is_cheaper ? WEIR_OK : status;
}

static uint64_t packed_peaks(const weir_plan *plan) {
    uint64_t sum = 0;
    for (uint32_t a = 0; a < plan->arena_count; a++)
        if (__builtin_add_overflow(sum, plan->arenas[a].peak_bytes, &sum))
            return UINT64_MAX;
    return sum;
}

/* Plans the better order too, if there is one, and takes the better plan: less added cost, then lower peaks.
 * *plan may be NULL: the given order does not fit. */
static weir_status make_reordered(request *r, weir_plan **plan, weir_error *error) {
    weir_error other_error;
    weir_plan *other = NULL;
    weir_plan_reorder found;
    uint32_t *better;
    WEIR__TRY(weir_plan__find_better_order(r->env, r->graph, r->mode, r->order, &r->limits, &better, &found,
                                           error));
    if (better) {
        weir__release(r->env, r->order);
        r->order = better;
        r->is_reordered = true;
        for (uint32_t p = 0; p < weir_plan__node_count(r->graph); p++)
            r->position[better[p]] = p + 1;
        weir_status status = make_fitting(r, &other, &other_error);
        if (status != WEIR_OK && status != WEIR_ARENA_TOO_SMALL)
            return pass_on(error, &other_error);
    }
    bool is_better = other && !*plan;
    if (other && *plan)
        is_better = other->remat.added_cost != (*plan)->remat.added_cost
                        ? other->remat.added_cost < (*plan)->remat.added_cost
                        : packed_peaks(other) < packed_peaks(*plan);
    if (is_better) {
        weir_plan_close(*plan);
        *plan = other;
    } else {
        weir_plan_close(other);
        found.is_changed = false;
        found.peak = found.given_peak;
    }
    if (*plan)
        (*plan)->reorder = found;
    return WEIR_OK;
}

static weir_status make_best(request *r, weir_plan **plan, weir_error *error) {
    weir_error later;
    WEIR__TRY(find_order(r, error));
    WEIR__TRY(find_token(r, error));
    WEIR__TRY(weir_plan__settings_check(r->limits.settings, r->limits.setting_count, error));
    WEIR__TRY(check_capacities(r, error));
    weir_status status = make_fitting(r, plan, error);
    if (!r->options->reorder || (status != WEIR_OK && status != WEIR_ARENA_TOO_SMALL))
        return status;
    weir_status second = make_reordered(r, plan, &later);
    if (second != WEIR_OK) {
        drop(plan);
        return pass_on(error, &later);
    }
    return *plan ? WEIR_OK : status;
}

/* The plan of the graph with what the options add to it. */
static weir_status make_with_optimizer(request *r, weir_plan **plan, weir_error *error) {
    const weir_plan_options *options = r->options;
    weir_graph *with = NULL;
    if (!options->optimizer && !options->step)
        return make_best(r, plan, error);
    if (r->mode != WEIR_PLAN__BACKWARD)
        return weir__fail(error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
                          "an optimizer and its step belong to mode backward, not %s; leave them out",
                          weir_plan__modes[r->mode]);
    WEIR__TRY(
        weir_plan__graph_with_optimizer(r->env, r->graph, options->optimizer, options->step, &with, error));
    r->graph = with;
    weir_status status = make_best(r, plan, error);
    weir_graph_close(with);
    return status;
}

weir_status weir_plan_make(const weir_env *env, const weir_graph *graph, const weir_plan_options *given,
                           weir_plan **plan, weir_error *error) {
    weir_plan_options options;
    WEIR__TRY(WEIR__TAKE_OPTIONS(options, given, weir_plan_options, WEIR_PLAN__PREPARE_OPERATOR, error));
    options.arenas.name = options.arenas.name ? options.arenas.name : "arenas";
    options.order.name = options.order.name ? options.order.name : "order";
    env = weir__env_or_default(env);
    uint64_t start_ns = env->now_ns(env->context);
    request r = {.env = env, .graph = graph, .options = &options};
    weir_cbor_writer_memory(&r.arenas.converted, env);
    weir_cbor_writer_memory(&r.order_document.converted, env);
    weir_plan *made = NULL;
    WEIR__TRY(check_options(&r, error));
    WEIR__TRY(weir_plan__mode_find(&options, &r.mode, &r.is_remat, error));
    weir_status status = read_request(&r, error);
    if (status == WEIR_OK)
        status = make_with_optimizer(&r, &made, error);
    weir_plan__document_release(&r.arenas);
    weir_plan__document_release(&r.order_document);
    weir__release(env, r.order_ids);
    weir__release(env, r.limits.settings);
    weir__release(env, r.order);
    weir__release(env, r.position);
    if (status != WEIR_OK)
        return status;
    made->metrics.allocation_time_ns = env->now_ns(env->context) - start_ns;
    weir_plan__fill_info(made);
    *plan = made;
    return WEIR_OK;
}

void weir_plan_close(weir_plan *plan) {
    if (!plan)
        return;
    const weir_env *env = plan->env;
    weir__arena_release(&plan->memory);
    weir__names_release(env, &plan->nodes);
    weir__release(env, plan->by_birth);
    weir__release(env, plan->by_death);
    weir__release(env, plan);
}

/* ---- Metrics ----------------------------------------------------------------------------------- */

/* 1 - part / whole, 0 if that would be 0 / 0. */
static double what_is_missing(double part, double whole) {
    return whole > 0 ? 1 - part / whole : 0;
}

static __attribute__((noinline)) void fill_metrics(weir_plan *plan, uint64_t retained, uint64_t activations) {
    double reused_slots = 0;
    double reused_tensors = 0;
    double reused_live = 0;
    double lower_bound = 0;
    double peak = 0;
    for (uint32_t a = 0; a < plan->arena_count; a++) {
        const weir_plan__planned_arena *arena = &plan->arenas[a];
        reused_slots += arena->reuses ? arena->slot_count : 0;
        reused_tensors += arena->reuses ? arena->tensor_count : 0;
        reused_live += arena->reuses ? arena->max_live : 0;
        lower_bound += (double)arena->lower_bound;
        peak += (double)arena->peak_bytes;
    }
    plan->metrics.tensors = plan->count;
    plan->metrics.peak_logical_slots = plan->slot_count;
    plan->metrics.memory_reuse_ratio = what_is_missing(reused_slots, reused_tensors);
    plan->metrics.memory_reuse_bound = what_is_missing(reused_live, reused_tensors);
    plan->metrics.internal_fragmentation_ratio = what_is_missing(lower_bound, peak);
    plan->metrics.activation_retention_ratio = activations > 0 ? (double)retained / (double)activations : 0;
}

void weir_plan__fill_metrics(weir_plan *plan, uint64_t retained, uint64_t activations) {
    weir__floating kept = weir__enter_floating();
    fill_metrics(plan, retained, activations);
    weir__leave_floating(&kept);
}

/* ---- Accessors --------------------------------------------------------------------------------- */

void weir_plan__fill_info(weir_plan *plan) {
    plan->info = (weir_plan_info){.mode = weir_plan__modes[plan->mode],
                                  .token = plan->token,
                                  .token_size = plan->token_size,
                                  .arena_count = plan->arena_count,
                                  .tensor_count = plan->count,
                                  .step_count = plan->schedule_count,
                                  .hashes = &plan->hashes,
                                  .metrics = &plan->metrics,
                                  .remat = &plan->remat,
                                  .paging = &plan->paging,
                                  .reorder = &plan->reorder};
}

const weir_plan_info *weir_plan_describe(const weir_plan *plan) {
    return &plan->info;
}

weir_plan_arena weir_plan_arena_at(const weir_plan *plan, size_t index) {
    const weir_plan__planned_arena *arena = &plan->arenas[index];
    return (weir_plan_arena){.name = arena->name,
                             .tensors = arena->tensor_count,
                             .alignment = arena->alignment,
                             .page_size = arena->page_size,
                             .has_capacity = arena->has_capacity,
                             .capacity = arena->capacity,
                             .budget = arena->budget,
                             .lower_bound = arena->lower_bound,
                             .peak_bytes = arena->peak_bytes,
                             .slot_bytes = arena->slot_bytes,
                             .slots = arena->slot_count,
                             .max_live = arena->max_live,
                             .optimal = arena->optimal};
}

weir_plan_tensor weir_plan_tensor_at(const weir_plan *plan, size_t index) {
    uint32_t at = plan->sorted[index];
    const weir_plan__row *row = &plan->rows[at];
    weir_plan_tensor tensor = {.id = weir_plan__id(plan, at),
                               .arena = row->arena,
                               .type = WEIR_TENSOR_UNKNOWN,
                               .role = WEIR_ROLE_UNKNOWN,
                               .slot = row->slot,
                               .address =
                                   plan->slots[plan->arenas[row->arena].first_slot + row->slot].address,
                               .offset = row->offset,
                               .size = row->size,
                               .birth = row->birth,
                               .death = row->death,
                               .is_alias = weir_plan__is_alias(plan, at)};
    if (tensor.is_alias)
        tensor.alias_of = weir_plan__id(plan, row->owner);
    if (plan->looks) {
        const weir_plan__look *look = &plan->looks[at];
        tensor.type = (weir_tensor_type)look->type;
        tensor.role = (weir_tensor_role)look->role;
        tensor.shape = plan->dimensions + look->first_dimension;
        tensor.rank = look->rank;
    }
    return tensor;
}

weir_plan_slot weir_plan_slot_at(const weir_plan *plan, size_t arena, uint64_t slot) {
    return plan->slots[plan->arenas[arena].first_slot + slot];
}

uint64_t weir_plan_end(const weir_plan *plan) {
    return plan->end;
}

uint64_t weir_plan_fullest(const weir_plan *plan, size_t arena) {
    return plan->arenas[arena].fullest;
}

void weir_plan_live_bytes(const weir_plan *plan, size_t arena, uint64_t *bytes) {
    uint64_t alignment = plan->arenas[arena].alignment;
    memset(bytes, 0, (size_t)plan->end * sizeof *bytes);
    for (uint32_t i = 0; i < plan->count; i++) {
        const weir_plan__row *row = &plan->rows[i];
        if (row->arena != arena || weir_plan__is_alias(plan, i))
            continue;
        bytes[row->birth] += weir_plan__rounded(row->size, alignment);
        if (row->death < plan->end)
            bytes[row->death] -= weir_plan__rounded(row->size, alignment);
    }
    for (uint64_t p = 1; p < plan->end; p++)
        bytes[p] += bytes[p - 1];
}
