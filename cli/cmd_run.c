/* weir run: iterates over a run's batches as a training loop would, and says how fast that goes; with a trace
 * and checkpoints, so that it can be stopped, killed, resumed, replayed and compared. */
#include <assert.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plan_output.h"
#include "run.h"

typedef struct request {
    cli_selection of;
    cli_texts stores;
    weir_run_options run;
    weir_store_options opening;
    bool no_digests, plan, as_json;
    uint64_t began_ns;
} request;

/* ---- The call -------------------------------------------------------------------------------- */

static bool is_same(const char *left, const char *right) {
    return left && right && (strcmp(left, right) == 0 || cli_is_same_file(left, right));
}

/* An output that would replace an input, or the other output, is a slip of the pen. */
static const char *find_clash(const request *r, const weir_run_info *info) {
    const char *const outputs[] = {info->trace, info->checkpoint};
    for (size_t i = 0; i < 2; i++) {
        for (size_t k = 0; k < r->stores.count; k++)
            if (is_same(outputs[i], r->stores.list[k]))
                return i ? "--checkpoint names the store" : "--trace names the store";
        if (is_same(outputs[i], r->of.manifest))
            return i ? "--checkpoint names the manifest" : "--trace names the manifest";
    }
    if (is_same(info->trace, info->checkpoint))
        return "--trace and --checkpoint name the same file";
    if (is_same(info->trace, info->resumed_from))
        return "--trace names the checkpoint";
    return NULL;
}

/* What an unset variable of a shell script leaves of a name. */
static bool is_empty(const char *name) {
    return name && !name[0];
}

static const char *find_fault(const request *r, bool has_rank, bool has_world_size, bool has_steps,
                              bool has_seconds) {
    const weir_run_options *o = &r->run;
    if (has_rank != has_world_size)
        return "--rank and --world-size belong together";
    if (has_world_size && r->of.world_size == 0)
        return "--world-size must be at least 1";
    if (has_steps && o->steps == 0)
        return "--steps must be at least 1; leave it out for a run that continues until it is stopped";
    if (is_empty(o->trace) || is_empty(o->checkpoint) || is_empty(o->resume))
        return "--trace, --checkpoint and --resume need the name of a file, and the name given is empty";
    if ((o->trace_indices || r->no_digests) && !o->trace)
        return o->trace_indices ? "--trace-indices belongs to --trace" : "--no-digests belongs to --trace";
    if (o->trace_memory && !o->trace)
        return "--trace-memory belongs to --trace";
    if (o->trace_contents && (!o->trace_memory || r->no_digests))
        return "--trace-contents belongs to --trace-memory, and cannot be used with --no-digests";
    if (!o->device && (o->depth || o->read_back))
        return "--depth and --read-back belong to --device";
    if (o->device && o->queue_size)
        return "with --device, give --depth instead of --queue";
    if ((o->checkpoint_steps > 0 || has_seconds) && !o->checkpoint)
        return has_seconds ? "--checkpoint-seconds belongs to --checkpoint"
                           : "--checkpoint-every belongs to --checkpoint";
    return NULL;
}

/* ---- Running --------------------------------------------------------------------------------- */

/* Takes all batches. A run that was stopped says how to resume it, and has the status that a shell expects of
 * a signal. */
static int loop(const request *r, weir_run *opened) {
    weir_error error;
    const weir_run_info *info = weir_run_describe(opened);
    size_t most = weir_manifest_describe(r->run.manifest)->dataset_count;
    cli_running run = {.run = opened,
                       .shows_progress = info->rank == 0 && isatty(STDERR_FILENO) == 1,
                       .datasets = calloc(most, sizeof(cli_run_dataset)),
                       .source_samples = calloc(most, sizeof(uint64_t)),
                       .began_ns = r->began_ns};
    weir_status status = cli_run_loop(&run, &error);
    int result = status == WEIR_OK ? cli_run_print(&run, r->as_json) : cli_fail(&error, r->as_json);
    free(run.datasets);
    free(run.source_samples);
    if (status != WEIR_OK || !run.signal || result != CLI_OK)
        return result;
    const char *name = run.signal == SIGINT ? "SIGINT" : "SIGTERM";
    unsigned long long step = weir_run_step(opened);
    if (info->checkpoint)
        fprintf(stderr, "weir: stopped by %s at step %llu; resume with the same command and --resume %s\n",
                name, step, info->checkpoint);
    else
        fprintf(stderr,
                "weir: stopped by %s at step %llu; without --checkpoint there is nothing to resume from\n",
                name, step);
    return 128 + run.signal;
}

static int run_opened(const cli_command *self, request *r) {
    weir_error error;
    weir_run *opened;
    weir_run_options *o = &r->run;
    weir_run_info named = {.trace = o->trace, .checkpoint = o->checkpoint, .resumed_from = o->resume};
    const char *clash = find_clash(r, &named);
    if (clash)
        return cli_usage(self, "%s; choose another name for the output", clash);
    o->dataset = r->of.dataset;
    o->rank = r->of.rank;
    o->world_size = r->of.world_size;
    o->token = r->of.token.data;
    o->token_size = r->of.token.size;
    o->with_digests = o->trace && !r->no_digests;
    weir_status status = weir_stage_parse(r->of.stage, &o->stage, &error);
    if (status == WEIR_OK)
        status = weir_run_open(NULL, o, &opened, &error);
    if (status != WEIR_OK)
        return cli_fail(&error, r->as_json);
    const weir_run_info *info = weir_run_describe(opened);
    clash = find_clash(r, info); /* with the names of this rank's files */
    int result;
    if (r->plan && r->as_json)
        result = cli_plan_print_json(info->memory);
    else if (r->plan)
        result = cli_plan_print_table(info->memory, "weir run");
    else if (clash)
        result = cli_usage(self, "%s; choose another name for the output", clash);
    else
        result = loop(r, opened);
    weir_run_close(opened);
    return result;
}

static int run_request(const cli_command *self, request *r) {
    weir_error error;
    weir_manifest *manifest = NULL;
    cli_stores stores = {.count = 0};
    weir_status status = weir_manifest_open(NULL, r->of.manifest, &manifest, &error);
    if (status == WEIR_OK)
        status = cli_stores_open(&stores, &r->stores, &r->opening, &error);
    if (status == WEIR_OK)
        cli_selection_settle(&r->of, manifest);
    r->run.manifest = manifest;
    r->run.stores = stores.list;
    r->run.store_count = stores.count;
    int result = status == WEIR_OK ? run_opened(self, r) : cli_fail(&error, r->as_json);
    cli_stores_close(&stores);
    weir_manifest_close(manifest);
    return result;
}

/* ---- Options: the program's own, then those of the run's table ---------------------------------- */

enum { OPTIONS_MAX = 64 };

typedef struct option_list {
    cli_option items[OPTIONS_MAX];
    size_t count;
    const char *words[OPTIONS_MAX]; /* of settings that are words, at the place of the setting */
} option_list;

static void list_settings(option_list *list, weir_run_options *run) {
    static const cli_option_kind kinds[] = {
        [WEIR_RUN_VALUE_BOOL] = CLI_FLAG,   [WEIR_RUN_VALUE_UINT32] = CLI_UINT32,
        [WEIR_RUN_VALUE_UINT64] = CLI_UINT, [WEIR_RUN_VALUE_SIZE] = CLI_SIZE,
        [WEIR_RUN_VALUE_TEXT] = CLI_TEXT,   [WEIR_RUN_VALUE_FILE] = CLI_TEXT,
        [WEIR_RUN_VALUE_STAGE] = CLI_TEXT,  [WEIR_RUN_VALUE_POLICY] = CLI_TEXT,
        [WEIR_RUN_VALUE_SHARDS] = CLI_TEXT,
    };
    size_t count;
    const weir_run_setting *settings = weir_run_settings(&count);
    assert(count <= OPTIONS_MAX);
    for (size_t i = 0; i < count; i++) {
        bool is_word = settings[i].value >= WEIR_RUN_VALUE_STAGE;
        void *target = is_word ? (void *)&list->words[i] : (uint8_t *)run + settings[i].offset;
        assert(list->count < OPTIONS_MAX);
        if (settings[i].flag)
            list->items[list->count++] =
                (cli_option){settings[i].flag, kinds[settings[i].value], target, false, false};
    }
}

static weir_status set_words(const option_list *list, weir_run_options *run, weir_error *error) {
    size_t count;
    weir_status status = WEIR_OK;
    const weir_run_setting *settings = weir_run_settings(&count);
    for (size_t i = 0; i < count && status == WEIR_OK; i++)
        if (list->words[i])
            status = weir_run_set_word(run, &settings[i], list->words[i], error);
    return status;
}

static bool is_given(const option_list *list, const char *name) {
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i].name, name) == 0)
            return list->items[i].given;
    return false;
}

static int run(const cli_command *self, int argc, char **argv) {
    request r = {.of = CLI_SELECTION_DEFAULT,
                 .run = {.size = sizeof r.run},
                 .opening = {.size = sizeof r.opening},
                 .began_ns = cli_run_now_ns()};
    weir_run_options *o = &r.run;
    option_list list = {.items = {{"--store", CLI_TEXTS, &r.stores, true, false},
                                  CLI_SELECTION_OPTIONS(r.of, false),
                                  {"--no-digests", CLI_FLAG, &r.no_digests, false, false},
                                  {"--verify", CLI_VERIFY, &r.opening.verify, false, false},
                                  {"--read-ahead", CLI_FLAG, &r.opening.reads_ahead, false, false},
                                  {"--plan", CLI_FLAG, &r.plan, false, false},
                                  {"--json", CLI_FLAG, &r.as_json, false, false}}};
    weir_error error;
    while (list.items[list.count].name)
        list.count++;
    list_settings(&list, o);
    if (cli_parse(self, list.items, list.count, argc, argv, NULL, 0, NULL) < 0)
        return CLI_USAGE;
    bool has_place = is_given(&list, "--rank");
    bool has_seconds = is_given(&list, "--checkpoint-seconds");
    const char *fault =
        find_fault(&r, has_place, is_given(&list, "--world-size"), is_given(&list, "--steps"), has_seconds);
    if (fault)
        return cli_usage(self, "%s", fault);
    if (set_words(&list, o, &error) != WEIR_OK)
        return cli_fail(&error, r.as_json);
    if (!has_place) /* the launcher says */
        r.of.world_size = 0;
    if (has_seconds && o->checkpoint_seconds == 0)
        o->checkpoint_seconds = UINT64_MAX;
    return run_request(self, &r);
}

/* ---- Help ------------------------------------------------------------------------------------ */

/* "  --name VALUE     text", the text broken into lines of at most 100 columns. */
static void print_setting(const weir_run_setting *setting) {
    enum { INDENT = 19, WIDTH = 100 };
    int column =
        printf("  %s%s%s", setting->flag, setting->takes ? " " : "", setting->takes ? setting->takes : "");
    column += printf("%*s", column < INDENT ? INDENT - column - 1 : 2, "");
    for (const char *word = setting->help; *word; word += strspn(word, " ")) {
        int length = (int)strcspn(word, " ");
        if (column + 1 + length > WIDTH)
            column = printf("\n%*s", INDENT - 1, "") - 1;
        column += printf(" %.*s", length, word);
        word += length;
    }
    putchar('\n');
}

static void print_help(void) {
    size_t count;
    const weir_run_setting *settings = weir_run_settings(&count);
    fputs("  --store S        a store; give --store once for each store that the datasets are in\n"
          "  --manifest M     the manifest; 'weir ingest' writes one beside the store\n"
          "  --dataset K      use only this dataset of the manifest; without it, the datasets are mixed as\n"
          "                   the manifest says (train only)\n"
          "  --stage S        train, eval, infer or eval_seeded (default: what the manifest's preset says,\n"
          "                   else train). All but train end after one pass over the dataset; eval_seeded\n"
          "                   goes through it in a shuffled order that is always the same\n",
          stdout);
    for (size_t i = 0; i < count; i++)
        if (settings[i].flag)
            print_setting(&settings[i]);
    fputs(
        "  --no-digests     with --trace: do not record digests, which take some time to compute\n"
        "  --rank R         the number of this rank, from 0\n"
        "  --world-size W   how many ranks there are. Without --rank and --world-size, weir takes both from\n"
        "                   the launcher, the first of these that is there: torchrun (RANK, WORLD_SIZE),\n"
        "                   Open MPI (OMPI_COMM_WORLD_RANK, …_SIZE), MPICH and other PMI launchers\n"
        "                   (PMI_RANK, PMI_SIZE), Slurm (SLURM_PROCID, SLURM_NTASKS)\n"
        "  --read-ahead     read pages of the stores from the disk some time before they are needed, also\n"
        "                   if the stores fit into memory: makes the first steps from a slow disk faster\n"
        "  --plan           show how much memory the run would need, and do not run it\n" CLI_VERIFY_HELP
            CLI_TOKEN_HELP "  --json           print the summary as JSON; with --plan, the plan\n\n"
        "If there is more than one rank, each writes its own trace and checkpoint, F.rankN; --resume F "
        "reads\n"
        "F if it exists, else F.rankN. Without --trace and --checkpoint nothing is written. SIGINT and\n"
        "SIGTERM stop a run after it has completed its checkpoint and trace; the exit status is 130 or "
        "143.\n",
        stdout);
}

const cli_command cli_run = {
    .name = "run",
    .summary = "iterate over a run's batches as a training loop would",
    .usage = "weir run --store S… --manifest M [--dataset K] [--stage S] [--rank R --world-size W]\n"
             "                [--plan] [--json] [OPTION]...",
    .print_help = print_help,
    .example =
        "  weir run --store shop.weir --manifest shop.manifest.json --steps 1000 --workers 4\n"
        "  weir run --store shop.weir --manifest shop.manifest.json --steps 1000 --trace run.trace \\\n"
        "           --checkpoint run.checkpoint --checkpoint-every 100 --resume run.checkpoint\n"
        "  weir run --store shop.weir --manifest shop.manifest.json --steps 100 --device host --read-back\n"
        "  mpirun -n 8 weir run --store shop.weir --manifest shop.manifest.json --steps 1000\n",
    .run = run,
};
