/* A thin layer over weir_graph's builder, so that a model reads like its paper: every operator makes one
 * tensor, named after itself. The first fault sticks; model_finish reports it. */
#ifndef WEIR_CLI_MODEL_BUILDER_H
#define WEIR_CLI_MODEL_BUILDER_H

#include "models.h"

enum { MODEL_RANK_MAX = 4, MODEL_NAME_MAX = 96, MODEL_ID_MAX = 160 };

typedef struct model_shape {
    uint64_t dimension[MODEL_RANK_MAX];
    size_t rank;
} model_shape;

#define SHAPE(...) ((model_shape){{__VA_ARGS__}, sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t)})
#define SCALAR     ((model_shape){{0}, 0})

/* A tensor's id, by value. */
typedef struct model_id {
    char text[MODEL_ID_MAX];
} model_id;

typedef struct model {
    weir_graph *graph;
    weir_tensor_type type;
    weir_status status;
    weir_error *error;
    char prefix[32]; /* before every name: "h3." */
} model;

/* What a node's operator table entry is overridden with. */
typedef struct model_traits {
    weir_choice inplace;
    weir_saves saves;
} model_traits;
static const model_traits model_usual = {WEIR_CHOICE_DEFAULT, WEIR_SAVES_DEFAULT};

static inline uint64_t or_default(uint64_t given, uint64_t usual) {
    return given ? given : usual;
}

/* Starts a graph; false if the dtype is unknown. */
bool model_start(model *m, const char *name, const char *dtype, const char *usual_dtype, weir_error *error);

/* A family of models that come in sizes. */
typedef struct model_family {
    const char *name;
    const char *dtype;   /* the usual one … */
    const char *size;    /* … and size */
    const char *choices; /* "small, medium or large" */
    const void *sizes;   /* structs that begin with their name, a const char * */
    size_t count;
    size_t stride;
} model_family;
#define MODEL_SIZES(list)                                                                                    \
    .sizes = (list), .count = sizeof(list) / sizeof((list)[0]), .stride = sizeof((list)[0])

/* Starts the graph of the size that is wanted and gives its struct; NULL, and *error says why, if there is
 * no such size or dtype. */
const void *model_start_size(model *m, const model_family *family, const model_options *options,
                             weir_error *error);
void model_set_prefix(model *m, const char *prefix, uint64_t number);

model_id model_tensor(model *m, const char *name, weir_tensor_role role, weir_tensor_type type,
                      model_shape shape);
model_id model_parameter(model *m, const char *name, model_shape shape);
/* The parameter "NAME.PART" of an operator. */
model_id model_part(model *m, const char *name, const char *part, model_shape shape);

/* An operator of one, two or three inputs; `c` and `b` are NULL if there are fewer. */
model_id model_apply(model *m, const char *name, const char *op, model_shape shape, const model_id *a,
                     const model_id *b, const model_id *c);
model_id model_apply_with(model *m, model_traits traits, const char *name, const char *op, model_shape shape,
                          const model_id *const *inputs, size_t count);

/* y = x W + b, as two operators. */
model_id model_linear(model *m, const char *name, model_shape shape, const model_id *x, uint64_t from,
                      uint64_t to, bool with_bias);

/* Names the output and gives the graph away, or frees it. */
WEIR_CHECKED weir_status model_finish(model *m, const model_id *output, weir_graph **graph);

/* The same at the logits, or at their loss against labels of that shape. */
WEIR_CHECKED weir_status model_finish_logits(model *m, const model_options *options, const model_id *logits,
                                             model_shape labels, weir_graph **graph);

WEIR_CHECKED weir_status model_refuse(weir_error *error, const char *what, const char *given,
                                      const char *choices);

#endif
