/* See model_builder.h. */
#include "model_builder.h"

#include <stdio.h>
#include <string.h>

static weir_text text_of(const char *text) {
    return (weir_text){text, strlen(text)};
}

weir_status model_refuse(weir_error *error, const char *what, const char *given, const char *choices) {
    *error = (weir_error){.status = WEIR_CONTRACT_VIOLATION, .failure_operator = "weir.graph"};
    snprintf(error->message, sizeof error->message, "unknown %s '%.40s'; choose %s", what, given, choices);
    return error->status;
}

bool model_start(model *m, const char *name, const char *dtype, const char *usual_dtype, weir_error *error) {
    *m = (model){.status = WEIR_OK, .error = error};
    dtype = dtype ? dtype : usual_dtype;
    while (m->type < WEIR_TENSOR_UNKNOWN && strcmp(dtype, weir_tensor_type_name(m->type)) != 0)
        m->type++;
    if (m->type == WEIR_TENSOR_UNKNOWN) {
        m->status =
            model_refuse(error, "dtype", dtype, "f64, f32, f16, bf16 or another dtype of weir-graph/1");
        return false;
    }
    m->status = weir_graph_create(NULL, text_of(name), &m->graph, error);
    return m->status == WEIR_OK;
}

const void *model_start_size(model *m, const model_family *family, const model_options *options,
                             weir_error *error) {
    const char *wanted = options->size ? options->size : family->size;
    const char *size = family->sizes;
    char name[64];
    for (size_t i = 0; i < family->count; i++, size += family->stride)
        if (strcmp(wanted, *(const char *const *)(const void *)size) == 0) {
            snprintf(name, sizeof name, "%s-%s", family->name, wanted);
            return model_start(m, name, options->dtype, family->dtype, error) ? size : NULL;
        }
    m->status = model_refuse(error, "size", wanted, family->choices);
    return NULL;
}

void model_set_prefix(model *m, const char *prefix, uint64_t number) {
    snprintf(m->prefix, sizeof m->prefix, prefix, (unsigned long long)number);
}

model_id model_tensor(model *m, const char *name, weir_tensor_role role, weir_tensor_type type,
                      model_shape shape) {
    model_id id;
    size_t prefix = strlen(m->prefix);
    memcpy(id.text, m->prefix, prefix);
    snprintf(id.text + prefix, sizeof id.text - prefix, "%s", name);
    weir_tensor_info info = {
        .id = text_of(id.text), .type = type, .role = role, .shape = shape.dimension, .rank = shape.rank};
    if (m->status == WEIR_OK)
        m->status = weir_graph_add_tensor(m->graph, &info, m->error);
    return id;
}

model_id model_parameter(model *m, const char *name, model_shape shape) {
    return model_tensor(m, name, WEIR_ROLE_PARAMETER, m->type, shape);
}

model_id model_part(model *m, const char *name, const char *part, model_shape shape) {
    char whole[MODEL_NAME_MAX];
    snprintf(whole, sizeof whole, "%s.%s", name, part);
    return model_parameter(m, whole, shape);
}

model_id model_apply_with(model *m, model_traits traits, const char *name, const char *op, model_shape shape,
                          const model_id *const *inputs, size_t count) {
    weir_text names[8];
    model_id id = model_tensor(m, name, WEIR_ROLE_ACTIVATION, m->type, shape);
    weir_text output = text_of(id.text);
    for (size_t i = 0; i < count; i++)
        names[i] = text_of(inputs[i]->text);
    weir_node_info node = {.id = output,
                           .op = text_of(op),
                           .inputs = names,
                           .input_count = count,
                           .outputs = &output,
                           .output_count = 1,
                           .inplace = traits.inplace,
                           .saves = traits.saves};
    if (m->status == WEIR_OK)
        m->status = weir_graph_add_node(m->graph, &node, m->error);
    return id;
}

model_id model_apply(model *m, const char *name, const char *op, model_shape shape, const model_id *a,
                     const model_id *b, const model_id *c) {
    const model_id *inputs[] = {a, b, c};
    return model_apply_with(m, model_usual, name, op, shape, inputs, 1u + (b != NULL) + (c != NULL));
}

model_id model_linear(model *m, const char *name, model_shape shape, const model_id *x, uint64_t from,
                      uint64_t to, bool with_bias) {
    char inner[MODEL_NAME_MAX];
    model_id weight = model_part(m, name, "weight", SHAPE(from, to));
    if (!with_bias)
        return model_apply(m, name, "matmul", shape, x, &weight, NULL);
    model_id bias = model_part(m, name, "bias", SHAPE(to));
    snprintf(inner, sizeof inner, "%s.product", name);
    model_id product = model_apply(m, inner, "matmul", shape, x, &weight, NULL);
    return model_apply(m, name, "bias_add", shape, &product, &bias, NULL);
}

weir_status model_finish(model *m, const model_id *output, weir_graph **graph) {
    weir_text name = text_of(output->text);
    if (m->status == WEIR_OK)
        m->status = weir_graph_set_outputs(m->graph, &name, 1, m->error);
    if (m->status == WEIR_OK)
        m->status = weir_graph_finish(m->graph, m->error);
    if (m->status != WEIR_OK) {
        weir_graph_close(m->graph);
        return m->status;
    }
    *graph = m->graph;
    return WEIR_OK;
}

weir_status model_finish_logits(model *m, const model_options *options, const model_id *logits,
                                model_shape labels, weir_graph **graph) {
    if (options->logits)
        return model_finish(m, logits, graph);
    model_id given = model_tensor(m, "labels", WEIR_ROLE_INPUT, WEIR_TENSOR_I64, labels);
    model_id loss = model_apply(m, "loss", "cross_entropy", SCALAR, logits, &given, NULL);
    return model_finish(m, &loss, graph);
}
