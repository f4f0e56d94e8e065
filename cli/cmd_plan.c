/* weir plan GRAPH: plans memory for a model graph, shows a saved plan, or packs bare lifetimes (--csv). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan_output.h"

typedef struct plan_call {
    const char *graph;
    const char *mode;
    const char *preset;
    const char *arenas;
    const char *order;
    const char *cbor;
    const char *html;
    const char *trace;
    const char *save;
    const char *show;
    const char *csv;
    const char *strategies;
    const char *capacity;
    const char *optimizer;
    const char *step;
    const char *link;
    const char *speed;
    cli_bytes token;
    uint64_t link_bytes; /* per second */
    uint64_t speed_cost;
    uint32_t effort;
    uint32_t threads;
    bool as_json;
    bool reorder;
    bool no_overlap;
} plan_call;

/* An ONNX model begins with its ir_version, which is a byte that no graph begins with. */
static bool is_onnx(const char *data, size_t size) {
    return size > 0 && data[0] == 0x08;
}

static bool is_named_onnx(const char *path) {
    size_t size = strlen(path);
    return size > 5 && strcmp(path + size - 5, ".onnx") == 0;
}

/* A weir-graph/1 file or an ONNX model, or standard input for "-". */
static weir_status read_graph(const char *path, weir_graph **graph, weir_error *error) {
    static const char archive[] = {'P', 'K', 3, 4};
    char head[sizeof archive] = {0}, *data = NULL;
    size_t size = 0;
    weir_status status;
    if (strcmp(path, "-") == 0) {
        status = cli_read_file(path, &data, &size, error);
        if (status == WEIR_OK && is_onnx(data, size))
            status = weir_graph_import_onnx(NULL, data, size, "standard input", graph, error);
        else if (status == WEIR_OK)
            status = weir_graph_read(NULL, data, size, "standard input", graph, error);
        free(data);
        return status;
    }
    FILE *file = fopen(path, "rb");
    size = file ? fread(head, 1, sizeof head, file) : 0;
    if (file)
        fclose(file);
    if (size == sizeof archive && memcmp(head, archive, sizeof archive) == 0)
        return cli_error(
            error, WEIR_INVALID_IR,
            "%s is a zip archive, such as torch.save and torch.export.save write; weir reads "
            "weir-graph/1 and ONNX: use torch.onnx.export, or weir.plan(model, inputs) in Python",
            path);
    if (is_named_onnx(path) || is_onnx(head, size))
        return weir_graph_import_onnx_file(NULL, path, graph, error);
    return weir_graph_read_file(NULL, path, graph, error);
}

/* "activations=8GiB,gradients=1GiB" as an arena configuration; false if it is not of this form. */
static bool write_capacities(const char *text, weir_json_writer *w) {
    weir_json_object(w);
    while (*text) {
        char size[32] = {0};
        uint64_t bytes;
        size_t name = strcspn(text, "=");
        size_t digits = text[name] ? strcspn(text + name + 1, ",") : 0;
        if (name == 0 || digits == 0 || digits >= sizeof size)
            return false;
        memcpy(size, text + name + 1, digits);
        if (!cli_size(size, &bytes))
            return false;
        weir_json_key_n(w, text, name);
        weir_json_object(w);
        weir_json_pair_uint(w, "capacity_bytes", bytes);
        weir_json_end_object(w);
        text += name + 1 + digits;
        text += *text == ',';
    }
    weir_json_end_object(w);
    return true;
}

/* "50GB/s", or without the "/s". */
static bool read_rate(const char *text, uint64_t *rate) {
    char size[32] = {0};
    size_t length = strlen(text);
    length -= length > 2 && strcmp(text + length - 2, "/s") == 0 ? 2 : 0;
    if (length >= sizeof size)
        return false;
    memcpy(size, text, length);
    return cli_size(size, rate) && *rate > 0;
}

/* Says what is wrong with --link and --speed, or returns CLI_OK. */
static int read_link(const cli_command *self, plan_call *call) {
    if (call->link && !read_rate(call->link, &call->link_bytes))
        return cli_usage(self, "--link takes what the link moves per second, such as 50GB/s, not '%s'",
                         call->link);
    if (call->speed && !read_rate(call->speed, &call->speed_cost))
        return cli_usage(self, "--speed takes what operators do per second, such as 400T/s, not '%s'",
                         call->speed);
    if (!call->link != !call->speed)
        return cli_usage(self,
                         "give --link and --speed together: what a transfer costs is bytes / link x speed");
    if (call->no_overlap && !call->link)
        return cli_usage(self,
                         "--no-overlap is about transfers, which there are only with --link and --speed");
    return CLI_OK;
}

/* A file's name without its folder. */
static weir_text name_of_file(const char *path) {
    const char *slash = strrchr(path, '/');
    const char *name = slash && slash[1] ? slash + 1 : path;
    return (weir_text){name, strlen(name)};
}

/* What a function of the library writes, as a file that appears whole. */
static weir_status write_cbor(const weir_plan *plan, void (*write)(const weir_plan *, weir_cbor_writer *),
                              const char *path, weir_error *error) {
    weir_cbor_writer w;
    weir_cbor_writer_memory(&w, NULL);
    write(plan, &w);
    weir_status status = weir_cbor_finish(&w, error);
    if (status == WEIR_OK)
        status = cli_write_file(path, w.data, w.size, error);
    weir_cbor_release(&w);
    return status;
}

/* Writes the files that are wanted, then shows the plan. */
static int show(const plan_call *call, weir_text title, const weir_plan *plan) {
    weir_error error;
    weir_status status = WEIR_OK;
    if (call->cbor)
        status = write_cbor(plan, weir_plan_write, call->cbor, &error);
    if (status == WEIR_OK && call->save)
        status = weir_plan_save(NULL, plan, call->save, &error);
    if (status == WEIR_OK && call->trace)
        status = write_cbor(plan, weir_plan_write_trace, call->trace, &error);
    if (status == WEIR_OK && call->html)
        status = cli_plan_write_html(plan, title, call->html, &error);
    if (status != WEIR_OK)
        return cli_fail(&error, call->as_json);
    return call->as_json ? cli_plan_print_json(plan) : cli_plan_print_table(plan, call->graph);
}

/* `capacities` is --capacity as an arena configuration, or empty. */
static int plan_graph(const plan_call *call, weir_json_writer *capacities) {
    weir_error error;
    char *arenas = NULL, *order = NULL;
    weir_graph *graph = NULL;
    weir_plan *plan = NULL;
    weir_plan_options options = {.size = sizeof options,
                                 .mode = call->mode,
                                 .preset = call->preset,
                                 .effort_plus_one = call->effort + 1,
                                 .threads = call->threads,
                                 .strategies = call->strategies,
                                 .reorder = call->reorder,
                                 .optimizer = call->optimizer,
                                 .step = call->step,
                                 .link = call->link_bytes,
                                 .speed = call->speed_cost,
                                 .no_overlap = call->no_overlap,
                                 .token = call->token.data,
                                 .token_size = call->token.size};
    weir_status status = WEIR_OK;
    if (call->capacity) {
        status = weir_json_finish(capacities, &error);
        options.arenas = (weir_document){capacities->data, capacities->size, "--capacity"};
    }
    if (call->arenas) {
        status = cli_read_file(call->arenas, &arenas, &options.arenas.size, &error);
        options.arenas.data = arenas;
        options.arenas.name = call->arenas;
    }
    if (status == WEIR_OK && call->order) {
        status = cli_read_file(call->order, &order, &options.order.size, &error);
        options.order.data = order;
        options.order.name = call->order;
    }
    if (status == WEIR_OK)
        status = read_graph(call->graph, &graph, &error);
    if (status == WEIR_OK)
        status = weir_plan_make(NULL, graph, &options, &plan, &error);
    /* The graph of an ONNX model has the exporter's name, such as main_graph: its file says more. */
    weir_text title = graph ? weir_graph_name(graph) : (weir_text){0};
    if (title.size == 0 || is_named_onnx(call->graph))
        title = name_of_file(call->graph);
    int code = status == WEIR_OK ? show(call, title, plan) : cli_fail(&error, call->as_json);
    weir_plan_close(plan);
    weir_graph_close(graph);
    free(arenas);
    free(order);
    return code;
}

/* ---- A saved plan ------------------------------------------------------------------------------- */

static int show_saved(const cli_command *self, const plan_call *call) {
    if (call->arenas || call->token.data || call->order || call->cbor || call->save || call->reorder ||
        call->capacity || call->mode || call->preset || call->optimizer || call->step || call->link ||
        call->speed)
        return cli_usage(
            self, "%s is a saved plan: it can be shown, with --html, --trace or --json, and not changed",
            call->graph);
    weir_error error;
    weir_plan *plan = NULL;
    weir_status status = weir_plan_restore_file(NULL, call->graph, &plan, &error);
    int code =
        status == WEIR_OK ? show(call, name_of_file(call->graph), plan) : cli_fail(&error, call->as_json);
    weir_plan_close(plan);
    return code;
}

/* Neither --mode nor --preset is given: a file that holds the words "format": "weir-plan/1", as CBOR writes
 * them, is a plan. One that cannot be read is none, unless memory is short. */
static int show_without_mode(const cli_command *self, const plan_call *call) {
    static const char format[] = "\x66"
                                 "format\x6bweir-plan/1";
    weir_error error;
    char *data = NULL;
    size_t size = 0;
    if (strcmp(call->graph, "-") != 0 &&
        cli_read_file(call->graph, &data, &size, &error) == WEIR_OUT_OF_MEMORY)
        return cli_fail(&error, call->as_json);
    bool is_plan = data && memmem(data, size, format, sizeof format - 1) != NULL;
    free(data);
    if (is_plan)
        return show_saved(self, call);
    return cli_usage(self, "say what the plan is for: --mode inference, forward or backward, or --preset "
                           "train_full, inference or remat_enabled");
}

/* ---- Bare lifetimes ------------------------------------------------------------------------------ */

/* The CSV goes to stdout and what was found to stderr, so that the CSV can be piped; with --json both are in
 * one object. */
static int print_packing(const weir_packing_result *result, weir_text csv, bool as_json) {
    weir_json_writer w;
    if (as_json) {
        cli_json_begin(&w);
        weir_json_pair_uint(&w, "buffers", result->buffers);
        weir_json_pair_uint(&w, "lower_bound", result->lower_bound);
        weir_json_pair_uint(&w, "peak_bytes", result->peak_bytes);
        weir_json_pair_bool(&w, "optimal", result->optimal);
        weir_json_pair_uint(&w, "steps", result->steps);
        weir_json_pair_uint(&w, "time_ns", result->time_ns);
        cli_json_text_n(&w, "csv", csv);
        return cli_print_object(&w);
    }
    double gap = result->lower_bound ? (double)result->peak_bytes / (double)result->lower_bound : 1;
    fwrite(csv.data, 1, csv.size, stdout);
    fprintf(stderr, "%s: peak %" PRIu64 ", lower bound %" PRIu64 " (%.4f), %s, %.3f s\n",
            cli_number(result->buffers, "buffer", "buffers"), result->peak_bytes, result->lower_bound, gap,
            result->optimal ? "optimal" : "not proven optimal", (double)result->time_ns / 1e9);
    return cli_flush();
}

static int pack_csv(const cli_command *self, const plan_call *call) {
    uint64_t capacity = 0;
    if (call->mode || call->preset || call->arenas || call->token.data || call->order || call->cbor ||
        call->html || call->trace || call->reorder || call->save || call->optimizer || call->step ||
        call->link || call->speed)
        return cli_usage(self, "--csv takes only --capacity, --effort, --threads, --strategies and --json");
    if (call->capacity && !cli_size(call->capacity, &capacity))
        return cli_usage(self,
                         "with --csv, --capacity takes a number of bytes, such as 1000000 or 2GiB, not '%s'",
                         call->capacity);
    weir_packing_options options = {.size = sizeof options,
                                    .effort_plus_one = call->effort + 1,
                                    .threads = call->threads,
                                    .has_capacity = call->capacity != NULL,
                                    .capacity = capacity,
                                    .strategies = call->strategies};
    weir_error error;
    weir_text csv = {0};
    char *text = NULL;
    size_t size = 0;
    weir_packing *packing = NULL;
    weir_packing_result result;
    weir_status status = cli_read_file(call->csv, &text, &size, &error);
    if (status == WEIR_OK)
        status = weir_packing_read_csv(NULL, text, size, call->csv, &packing, &error);
    if (status == WEIR_OK)
        status = weir_packing_solve(packing, &options, &result, &error);
    if (status == WEIR_OK)
        status = weir_packing_csv(packing, &csv.data, &csv.size, &error);
    int code =
        status == WEIR_OK ? print_packing(&result, csv, call->as_json) : cli_fail(&error, call->as_json);
    weir_packing_close(packing);
    free(text);
    return code;
}

/* The output that names one of the inputs, or NULL. */
static const char *output_over_input(const plan_call *call) {
    const char *const outputs[] = {call->cbor, call->html, call->trace, call->save};
    const char *const inputs[] = {call->graph, call->arenas, call->order};
    for (size_t o = 0; o < 4; o++)
        for (size_t i = 0; i < 3; i++)
            if (cli_is_same_file(outputs[o], inputs[i]))
                return outputs[o];
    return NULL;
}

static int run(const cli_command *self, int argc, char **argv) {
    plan_call call = {.effort = WEIR_EFFORT_DEFAULT, .threads = 1};
    cli_option options[] = {
        CLI_OPTION("--mode", &call.mode),
        CLI_OPTION("--preset", &call.preset),
        CLI_OPTION("--arenas", &call.arenas),
        CLI_OPTION("--token", &call.token),
        CLI_OPTION("--order", &call.order),
        CLI_OPTION("--effort", &call.effort),
        CLI_OPTION("--threads", &call.threads),
        CLI_OPTION("--json", &call.as_json),
        CLI_OPTION("--cbor", &call.cbor),
        CLI_OPTION("--html", &call.html),
        CLI_OPTION("--trace", &call.trace),
        CLI_OPTION("--csv", &call.csv),
        CLI_OPTION("--strategies", &call.strategies),
        CLI_OPTION("--capacity", &call.capacity),
        CLI_OPTION("--reorder", &call.reorder),
        CLI_OPTION("--optimizer", &call.optimizer),
        CLI_OPTION("--step", &call.step),
        CLI_OPTION("--link", &call.link),
        CLI_OPTION("--speed", &call.speed),
        CLI_OPTION("--no-overlap", &call.no_overlap),
        CLI_OPTION("--save", &call.save),
        CLI_OPTION("--show", &call.show),
    };
    size_t option_count = CLI_COUNT(options);
    int count = cli_parse(self, options, option_count, argc, argv, &call.graph, 1, NULL);
    if (count < 0)
        return CLI_USAGE;
    if (count + (call.csv != NULL) + (call.show != NULL) != 1)
        return cli_usage(self, "give a graph, --show FILE or --csv FILE");
    if (call.show)
        call.graph = call.show;
    if (call.effort > WEIR_EFFORT_MAX)
        return cli_usage(self, "--effort takes 0 to %d, not %u", WEIR_EFFORT_MAX, call.effort);
    if (call.csv)
        return pack_csv(self, &call);
    if (output_over_input(&call))
        return cli_usage(self, "%s is read here and would be replaced; name another output",
                         output_over_input(&call));
    if (call.show)
        return show_saved(self, &call);
    if (call.capacity && call.arenas)
        return cli_usage(self, "give capacities with --capacity or in the file of --arenas, not both");
    if (call.capacity && !call.preset)
        call.preset = "remat_enabled";
    if (read_link(self, &call) != CLI_OK)
        return CLI_USAGE;
    if (!call.mode && !call.preset)
        return show_without_mode(self, &call);
    weir_json_writer capacities;
    weir_json_writer_memory(&capacities, NULL);
    int code = call.capacity && !write_capacities(call.capacity, &capacities)
                   ? cli_usage(self,
                               "--capacity takes arenas and their bytes, such as activations=8GiB or "
                               "activations=8GiB,gradients=2GiB, not '%s'",
                               call.capacity)
                   : plan_graph(&call, &capacities);
    weir_json_release(&capacities);
    return code;
}

const cli_command cli_plan = {
    .name = "plan",
    .summary = "place every tensor of a model graph in memory",
    .usage = "weir plan GRAPH --mode M | --preset P [--arenas FILE | --capacity ARENA=SIZE] [--reorder]\n"
             "                 [--link RATE --speed RATE [--no-overlap]] [--optimizer NAME[:DTYPE]] [--step "
             "end|backward]\n"
             "                 [--token HEX] [--order FILE] [--effort N] [--threads N] [--strategies LIST]\n"
             "                 [--json] [--save OUT] [--cbor OUT] [--html OUT] [--trace OUT]\n"
             "       weir plan --show PLAN [--html OUT] [--trace OUT] [--json]\n"
             "       weir plan --csv FILE [--capacity N] [--effort N] [--threads N] [--strategies LIST]\n"
             "                 [--json]",
    .help =
        "  GRAPH          a weir-graph/1 file, JSON or CBOR, or an ONNX model ('-': standard input)\n"
        "  --show PLAN    show a plan that --save, --cbor or Python's plan.save wrote ('weir plan PLAN' does "
        "too)\n"
        "  --mode M       inference (inputs may be overwritten), forward, or backward (a whole training "
        "step)\n"
        "  --preset P     train_full is backward mode, inference is inference mode; remat_enabled (any "
        "mode,\n"
        "                 backward without one) recomputes tensors so that capacities are kept\n"
        "  --capacity A=N how many bytes an arena may take, such as activations=8GiB; several: A=N,B=M. "
        "Without\n"
        "                 a preset it is remat_enabled: what does not fit is dropped and recomputed, at the\n"
        "                 least added cost that is found (flops, or each node's \"cost\")\n"
        "  --link RATE    what does not fit may also go to the arena host and come back, over a link that "
        "moves so\n"
        "                 many bytes per second, such as 50GB/s; with --speed\n"
        "  --speed RATE   how much cost operators do per second: 400T/s for 400 TFLOP/s, 1G/s if costs are\n"
        "                 nanoseconds. A transfer takes bytes / link x speed, beside the computation: it "
        "begins "
        "early,\n"
        "                 and only what is waited for counts\n"
        "  --no-overlap   nothing runs while a tensor is moved: all that transfers take counts\n"
        "  --reorder      look for an order of the operators that needs less memory; never one that needs "
        "more\n"
        "  --optimizer NAME[:DTYPE]  what training holds too: sgd (nothing), momentum, adam; with a dtype, "
        "such as\n"
        "                 adam:f32, its state has that, and parameters of another one have a copy in it\n"
        "  --step S       end: parameters are updated after the backward pass; backward: each as soon as "
        "its\n"
        "                 gradient is complete, which then goes\n"
        "  --arenas FILE  {\"activations\": {\"capacity_bytes\": n, \"alignment_bytes\": 128, "
        "\"page_size\": 4096}}\n"
        "  --token HEX    the replay token, 64 bytes or more (default: the graph's own)\n"
        "  --order FILE   a JSON list of node ids (default: the graph's own order, or Kahn's)\n"
        "  --effort N     0 (one greedy pass) to 9 (default: 5). Counted in steps: the same plan on "
        "every machine\n"
        "  --threads N    how many threads to use (default: 1); the plan is the same for any number\n"
        "  --strategies LIST  packing strategies to use, separated by commas, to measure what one is "
        "worth:\n"
        "                 fits, cores, ends, fusion, corners, sizes, slants, windows (default: all)\n"
        "  --save OUT     write the plan file: the plan, what its tensors are, its metrics\n"
        "  --cbor OUT     write the plan alone (weir-plan/1)\n"
        "  --trace OUT    write the allocation trace, a CBOR sequence\n"
        "  --html OUT     write one self-contained page that shows the plan\n"
        "  --csv FILE     pack bare lifetimes (id,lower,upper,size) and print them with a column offset\n"
        "                 (with --capacity N the search tries to fit N bytes)\n"
        "  --json         print the plan as JSON\n\n"
        "Prints, for each arena: tensors, slots, the lower bound that no layout can beat, the peak of "
        "this layout,\n"
        "and the largest tensors live at the fullest moment.\n",
    .example = "  weir graph gpt2 --size small > gpt2.json\n  weir plan gpt2.json --mode backward\n"
               "  weir plan gpt2.json --preset inference --json\n  weir plan model.onnx --preset inference\n"
               "  weir plan gpt2.json --capacity activations=700MiB\n"
               "  weir plan gpt2.json --capacity activations=300MiB --link 50GB/s --speed 20T/s\n"
               "  weir plan gpt2.json --mode backward --optimizer adam:f32 --step backward\n",
    .run = run,
};
