/* Graphs of published models, operator by operator, with their true shapes. Public headers only: the
 * benchmarks use these too. */
#ifndef WEIR_CLI_MODELS_H
#define WEIR_CLI_MODELS_H

#include "weir/weir.h"

/* 0 or NULL is the model's own default. */
typedef struct model_options {
    const char *size;  /* "xl", "70b", "50" … */
    const char *dtype; /* of parameters and activations */
    uint64_t layers;
    uint64_t sequence;
    uint64_t batch;
    uint64_t image; /* pixels per side */
    uint64_t nodes;
    uint64_t seed;
    bool flash;  /* one fused attention operator instead of scores and probabilities */
    bool logits; /* end at the logits, without a loss */
} model_options;

typedef weir_status model_maker(const model_options *options, weir_graph **graph, weir_error *error);

typedef struct model_kind {
    const char *name;
    const char *sizes; /* the choices of --size, the default first; "" if there are none */
    const char *takes; /* the options that it has a use for, each with a space before and after */
    model_maker *make;
} model_kind;

/* Beyond these a graph would not end, or not fit. */
enum { MODEL_LAYERS_MAX = 100000, MODEL_NODES_MAX = 10000000, MODEL_UNET_LAYERS_MAX = 8 };

/* All kinds; a NULL name ends them. The caller owns the graph that `make` gives. CONTRACT_VIOLATION for an
 * unknown size or dtype. */
extern const model_kind model_kinds[];

WEIR_CHECKED weir_status model_gpt2(const model_options *options, weir_graph **graph, weir_error *error);
WEIR_CHECKED weir_status model_llama(const model_options *options, weir_graph **graph, weir_error *error);
WEIR_CHECKED weir_status model_resnet(const model_options *options, weir_graph **graph, weir_error *error);
WEIR_CHECKED weir_status model_unet(const model_options *options, weir_graph **graph, weir_error *error);
WEIR_CHECKED weir_status model_chain(const model_options *options, weir_graph **graph, weir_error *error);
WEIR_CHECKED weir_status model_random(const model_options *options, weir_graph **graph, weir_error *error);

#endif
