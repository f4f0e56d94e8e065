/* Graphs that are no model: a chain of in-place operators, and random graphs of any number of nodes, the
 * same for the same seed on every machine. And the list of all kinds. */
#include <stdio.h>

#include "model_builder.h"

const model_kind model_kinds[] = {
    {"gpt2", "small medium large xl", " --size --layers --seq --batch --dtype --flash --logits ", model_gpt2},
    {"llama", "7b 8b 13b 70b 405b", " --size --layers --seq --batch --dtype --flash --logits ", model_llama},
    {"resnet", "50 18 34 101 152", " --size --batch --dtype --image --logits ", model_resnet},
    {"unet", "", " --layers --batch --dtype --image --logits ", model_unet},
    {"chain", "", " --nodes --seq --batch --dtype ", model_chain},
    {"random", "", " --nodes --seed --dtype ", model_random},
    {NULL, NULL, NULL, NULL},
};

weir_status model_chain(const model_options *options, weir_graph **graph, weir_error *error) {
    uint64_t nodes = options->nodes ? options->nodes : 8;
    model_shape shape =
        SHAPE(options->batch ? options->batch : 32, options->sequence ? options->sequence : 64);
    char name[32];
    model m;
    if (!model_start(&m, "chain", options->dtype, "f32", error))
        return m.status;
    model_id x = model_tensor(&m, "t0", WEIR_ROLE_INPUT, m.type, shape);
    for (uint64_t i = 1; i <= nodes && m.status == WEIR_OK; i++) {
        snprintf(name, sizeof name, "t%llu", (unsigned long long)i);
        x = model_apply(&m, name, "relu", shape, &x, NULL, NULL);
    }
    return model_finish(&m, &x, graph);
}

/* ---- Random graphs ----------------------------------------------------------------------------- */

/* A random number by SplitMix64: small, and its stream never changes. */
static uint64_t below(uint64_t *state, uint64_t range) {
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (uint64_t)(((unsigned __int128)(z ^ (z >> 31)) * range) >> 64);
}

static model_shape random_shape(uint64_t *state) {
    uint64_t rows = (uint64_t)1 << below(state, 9);
    uint64_t columns = 1 + below(state, 255);
    return SHAPE(rows, columns);
}

weir_status model_random(const model_options *options, weir_graph **graph, weir_error *error) {
    static const char *const ops[] = {"add", "relu", "mul", "matmul", "softmax", "reshape", "gelu", "custom"};
    uint64_t nodes = options->nodes ? options->nodes : 64;
    uint64_t state = options->seed;
    model_id last = {""};
    model m;
    if (!model_start(&m, "random", options->dtype, "f32", error))
        return m.status;
    model_tensor(&m, "t0", WEIR_ROLE_INPUT, m.type, random_shape(&state));
    for (uint64_t i = 1; i <= nodes && m.status == WEIR_OK; i++) {
        model_id inputs[3];
        char own[MODEL_NAME_MAX];
        size_t count = 1 + below(&state, i > 1 ? 2 : 1);
        for (size_t k = 0; k < count; k++) { /* made lately, or long ago, as skip connections are */
            uint64_t window = below(&state, 16) == 0 ? i : i < 24 ? i : 24;
            snprintf(inputs[k].text, sizeof inputs[k].text, "t%llu",
                     (unsigned long long)(i - 1 - below(&state, window)));
        }
        if (below(&state, 4) == 0) {
            snprintf(own, sizeof own, "w%llu", (unsigned long long)i);
            inputs[count++] = model_parameter(&m, own, random_shape(&state));
        }
        const model_id *pointers[] = {&inputs[0], &inputs[1], &inputs[2]};
        snprintf(own, sizeof own, "t%llu", (unsigned long long)i);
        const char *op = ops[below(&state, 8)];
        model_shape shape = random_shape(&state);
        last = model_apply_with(&m, model_usual, own, op, shape, pointers, count);
    }
    return model_finish(&m, &last, graph);
}
