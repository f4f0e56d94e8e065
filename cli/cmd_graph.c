/* weir graph KIND: prints the graph of a published model, a made-up one, or one made of another format's
 * file, as weir-graph/1. */
#include <string.h>

#include "cli.h"
#include "models.h"

/* The options of a model come first in the list. */
enum { MODEL_OPTION_COUNT = 10, OPTION_COUNT = 12 };

/* Whether the kind has a use for every option that is given, and every number is in its range; false after
 * it has said what is wrong. An unknown kind is somebody else's to say, and 'import' takes none of these. */
static bool options_fit(const cli_command *self, const char *name, const model_kind *kind,
                        const cli_option *options) {
    bool is_import = strcmp(name, "import") == 0;
    for (size_t i = 0; i < MODEL_OPTION_COUNT && (kind || is_import); i++) {
        const cli_option *option = &options[i];
        char word[16];
        snprintf(word, sizeof word, " %s ", option->name);
        if (!option->given)
            continue;
        if (is_import || !strstr(kind->takes, word)) {
            cli_usage(self, "%s has no use for %s", name, option->name);
            return false;
        }
        bool is_free = option->kind != CLI_UINT || strcmp(option->name, "--seed") == 0;
        uint64_t value = is_free ? 1 : *(const uint64_t *)option->target;
        uint64_t most = is_free                                 ? 1
                        : strcmp(option->name, "--nodes") == 0  ? MODEL_NODES_MAX
                        : strcmp(option->name, "--layers") != 0 ? INT32_MAX
                        : kind->make == model_unet              ? MODEL_UNET_LAYERS_MAX
                                                                : MODEL_LAYERS_MAX;
        if (value == 0 || value > most) {
            cli_usage(self, "%s takes 1 to %llu for %s, not %llu", option->name, (unsigned long long)most,
                      name, (unsigned long long)value);
            return false;
        }
    }
    return true;
}

static int run(const cli_command *self, int argc, char **argv) {
    model_options model = {0};
    const char *arguments[2];
    const char *cbor = NULL;
    bool as_json = false;
    cli_option options[OPTION_COUNT] = {
        CLI_OPTION("--size", &model.size),    CLI_OPTION("--layers", &model.layers),
        CLI_OPTION("--seq", &model.sequence), CLI_OPTION("--batch", &model.batch),
        CLI_OPTION("--dtype", &model.dtype),  CLI_OPTION("--image", &model.image),
        CLI_OPTION("--nodes", &model.nodes),  CLI_OPTION("--seed", &model.seed),
        CLI_OPTION("--flash", &model.flash),  CLI_OPTION("--logits", &model.logits),
        CLI_OPTION("--cbor", &cbor),          CLI_OPTION("--json", &as_json),
    };
    weir_error error;
    weir_graph *graph;
    int count = cli_parse(self, options, OPTION_COUNT, argc, argv, arguments, 2, NULL);
    if (count < 0)
        return CLI_USAGE;
    if (count == 0)
        return cli_usage(self, "say which graph");
    weir_status status;
    const model_kind *kind = model_kinds;
    while (kind->name && strcmp(kind->name, arguments[0]) != 0)
        kind++;
    kind = kind->name ? kind : NULL;
    if (!options_fit(self, arguments[0], kind, options))
        return CLI_USAGE;
    if (count == 2 && strcmp(arguments[0], "import") == 0)
        status = weir_graph_import_onnx_file(NULL, arguments[1], &graph, &error);
    else if (count == 1 && kind)
        status = kind->make(&model, &graph, &error);
    else
        return cli_usage(self, "there is no graph '%s'%s", arguments[0],
                         count == 2 ? " of a file; 'import MODEL.onnx' reads one" : "");
    if (status != WEIR_OK)
        return cli_fail(&error, as_json);
    int code = CLI_OK;
    if (cbor) {
        weir_cbor_writer w;
        weir_cbor_writer_memory(&w, NULL);
        weir_graph_write_cbor(graph, &w);
        status = weir_cbor_finish(&w, &error);
        if (status == WEIR_OK)
            status = cli_write_file(cbor, w.data, w.size, &error);
        if (status != WEIR_OK)
            code = cli_fail(&error, as_json);
        weir_cbor_release(&w);
    } else {
        weir_json_writer w;
        weir_json_writer_memory(&w, NULL);
        weir_graph_write_json(graph, &w);
        code = cli_print_json(&w);
    }
    weir_graph_close(graph);
    return code;
}

const cli_command cli_graph = {
    .name = "graph",
    .summary = "print the graph of a known model, or of an ONNX file",
    .usage = "weir graph gpt2|llama|resnet|unet|chain|random [--size S] [--layers N] [--seq N] [--batch N] "
             "[--dtype T]\n"
             "                  [--image N] [--nodes N] [--seed N] [--flash] [--logits] [--cbor OUT]\n"
             "       weir graph import MODEL.onnx [--cbor OUT]",
    .help =
        "  gpt2     --size small (default), medium, large, xl\n"
        "  llama    --size 7b (default), 8b, 13b, 70b, 405b: grouped-query attention and FFN as published\n"
        "  resnet   --size 50 (default), 18, 34, 101, 152; --image pixels per side (224)\n"
        "  unet     --layers depth (4), --image (512)\n"
        "  chain    --nodes in-place operators one after the other (8)\n"
        "  random   --nodes operators (64) with --seed (0)\n"
        "  import   an ONNX model ('-': standard input) whose tensors all have full shapes; weights are not "
        "read\n\n"
        "  --size S   which of the published models\n"
        "  --layers N layers (at most 100000), or the depth of a unet (at most 8)\n"
        "  --seq N    tokens of a sequence\n"
        "  --batch N  sequences or images\n"
        "  --dtype T  of parameters and activations: f32, bf16, f16 …\n"
        "  --image N  pixels per side\n"
        "  --nodes N  operators of a chain or a random graph (at most 10000000)\n"
        "  --seed N   of a random graph\n"
        "  --flash    attention as one operator that keeps no scores\n"
        "  --logits   end at the logits, without a loss\n"
        "  --cbor OUT write canonical CBOR to a file instead of JSON to stdout; better for large graphs\n"
        "  --json     errors as JSON (the graph is JSON anyway)\n",
    .example = "  weir graph llama --size 70b --seq 4096 --batch 1 > llama.json\n"
               "  weir graph gpt2 --size xl | weir plan - --mode backward\n"
               "  weir graph import model.onnx | weir plan - --preset inference\n",
    .run = run,
};
