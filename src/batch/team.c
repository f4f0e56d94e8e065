/* See team.h. A unit is as many walks as go abreast. A helper readies its retriever with the first unit of a
 * sequence that it takes, so that one that comes late costs the others nothing. */
#include "batch/team.h"

#include "base/parallel.h"
#include "batch/neighbours.h"

static const char operator_name[] = "weir.context";

enum {
    ABREAST = WEIR_BATCH__WALKS_ABREAST,
    MANY_STEPS = 50000, /* about a millisecond */
};

/* A helper's retriever is as the lead's; its memory is the team's. */
static void carve(weir_batch__team *team, const weir_batch__recipe *recipe) {
    team->helpers = weir__carve(&team->block, team->helper_count, sizeof *team->helpers);
    for (uint32_t i = 0; i < team->helper_count; i++) {
        weir_batch__retriever counted, *helper = team->block.memory ? &team->helpers[i] : &counted;
        weir_batch__retriever_carve(helper, &team->block, recipe->store, &recipe->rules, &recipe->config);
        helper->links = team->lead->links;
    }
}

uint32_t weir_batch__team_size(const weir_batch__recipe *recipe, uint32_t threads) {
    const weir_retrieval_config *retrieval = &recipe->config.retrieval;
    if (!weir_batch__retrieves(&recipe->rules, &recipe->config))
        return 1;
    uint64_t steps =
        (uint64_t)weir_batch__most_of(&retrieval->walks) * weir_batch__most_of(&retrieval->length);
    if (threads > 0 || steps < MANY_STEPS)
        return threads > 0 ? threads : 1;
    return weir__threads_or_processors(0) < 2 ? 1 : 2;
}

weir_status weir_batch__team_open(weir_batch__team *team, const weir_batch__recipe *recipe,
                                  weir_batch__retriever *lead, uint32_t threads, weir_error *error) {
    threads = weir_batch__team_size(recipe, threads);
    if (threads == 1)
        return WEIR_OK;
    *team = (weir_batch__team){.env = recipe->env, .helper_count = threads - 1, .lead = lead};
    carve(team, recipe);
    if (!weir__block_open(&team->block, team->env))
        return weir__out_of_memory(error, operator_name, (size_t)team->block.size);
    carve(team, recipe);
    WEIR__TRY(weir__crew_open(&team->crew, team->env, 1, team->helper_count, team, error));
    lead->team = team;
    return WEIR_OK;
}

void weir_batch__team_close(weir_batch__team *team) {
    if (!team->env)
        return;
    weir__crew_close(&team->crew);
    weir__block_close(&team->block, team->env);
}

/* Walks of the sequence, as one of the team. */
static void walk_some(void *context, void *job, uint32_t unit, uint32_t thread) {
    const weir_batch__team *team = context;
    weir_batch__retriever *r = thread == 0 ? team->lead : &team->helpers[thread - 1];
    (void)job;
    if (thread > 0 && r->sequence != team->sequence) {
        r->sequence = team->sequence;
        weir_batch__begin_walks(r, team->outlook);
    }
    weir_batch__take_walks(r, team->budget, unit * ABREAST);
}

void weir_batch__walk_together(weir_batch__team *team, const weir_batch__outlook *outlook,
                               const weir_batch__budget *budget) {
    team->outlook = outlook;
    team->budget = budget;
    team->sequence++;
    weir__crew_share(&team->crew, 0, team->sequence, (budget->walks + ABREAST - 1) / ABREAST, walk_some,
                     NULL);
    for (uint32_t i = 0; i < team->helper_count; i++)
        if (team->helpers[i].sequence == team->sequence)
            weir_batch__bring_visits(team->lead, &team->helpers[i]);
}
