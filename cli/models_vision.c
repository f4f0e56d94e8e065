/* ResNet-18 to 152 and the U-Net of Ronneberger et al. (with padding, so that sizes halve exactly). */
#include <stdio.h>

#include "model_builder.h"

/* A feature map: its id and its size. */
typedef struct map {
    model_id id;
    uint64_t batch, channels, side;
} map;

static model_shape shape_of(const map *x) {
    return SHAPE(x->batch, x->channels, x->side, x->side);
}

static uint64_t shrunk(uint64_t side, uint64_t stride) {
    return (side + stride - 1) / stride;
}

static map convolve(model *m, const char *name, const map *x, uint64_t channels, uint64_t kernel,
                    uint64_t stride) {
    map y = {.batch = x->batch, .channels = channels, .side = shrunk(x->side, stride)};
    model_id weight = model_part(m, name, "weight", SHAPE(channels, x->channels, kernel, kernel));
    y.id = model_apply(m, name, "conv", shape_of(&y), &x->id, &weight, NULL);
    return y;
}

static map apply_to(model *m, const char *name, const char *op, const map *x) {
    map y = *x;
    y.id = model_apply(m, name, op, shape_of(x), &x->id, NULL, NULL);
    return y;
}

/* ---- ResNet ------------------------------------------------------------------------------------ */

/* Its backward step needs the input and the statistics, not the output. */
static map normalise(model *m, const char *name, const map *x) {
    static const char *const parts[] = {"weight", "bias", "mean", "variance"};
    model_traits traits = {WEIR_CHOICE_FALSE, WEIR_SAVES_INPUTS};
    model_id tensors[4];
    char part[MODEL_NAME_MAX];
    for (unsigned i = 0; i < 4; i++) {
        snprintf(part, sizeof part, "%s.%s", name, parts[i]);
        tensors[i] =
            model_tensor(m, part, i < 2 ? WEIR_ROLE_PARAMETER : WEIR_ROLE_STATE, m->type, SHAPE(x->channels));
    }
    const model_id *inputs[] = {&x->id, &tensors[0], &tensors[1], &tensors[2], &tensors[3]};
    map y = *x;
    y.id = model_apply_with(m, traits, name, "batchnorm", shape_of(x), inputs, 5);
    return y;
}

static map conv_norm(model *m, const char *conv, const char *norm, const map *x, uint64_t channels,
                     uint64_t kernel, uint64_t stride) {
    map y = convolve(m, conv, x, channels, kernel, stride);
    return normalise(m, norm, &y);
}

static map add_shortcut(model *m, const map *x, const map *y, uint64_t stride) {
    map shortcut = *x;
    map sum = *y;
    if (stride != 1 || x->channels != y->channels)
        shortcut = conv_norm(m, "down.conv", "down.bn", x, y->channels, 1, stride);
    sum.id = model_apply(m, "sum", "add", shape_of(y), &y->id, &shortcut.id, NULL);
    return apply_to(m, "out", "relu", &sum);
}

static map basic_block(model *m, const map *x, uint64_t width, uint64_t stride) {
    map y = conv_norm(m, "conv1", "bn1", x, width, 3, stride);
    y = apply_to(m, "relu1", "relu", &y);
    y = conv_norm(m, "conv2", "bn2", &y, width, 3, 1);
    return add_shortcut(m, x, &y, stride);
}

static map bottleneck(model *m, const map *x, uint64_t width, uint64_t stride) {
    map y = conv_norm(m, "conv1", "bn1", x, width, 1, 1);
    y = apply_to(m, "relu1", "relu", &y);
    y = conv_norm(m, "conv2", "bn2", &y, width, 3, stride);
    y = apply_to(m, "relu2", "relu", &y);
    y = conv_norm(m, "conv3", "bn3", &y, 4 * width, 1, 1);
    return add_shortcut(m, x, &y, stride);
}

typedef struct resnet_size {
    const char *name;
    uint64_t blocks[4];
    bool is_deep;
} resnet_size;

static const resnet_size resnet_sizes[] = {{"50", {3, 4, 6, 3}, true},
                                           {"18", {2, 2, 2, 2}, false},
                                           {"34", {3, 4, 6, 3}, false},
                                           {"101", {3, 4, 23, 3}, true},
                                           {"152", {3, 8, 36, 3}, true}};

static const model_family resnet = {.name = "resnet",
                                    .dtype = "f32",
                                    .size = "50",
                                    .choices = "18, 34, 50, 101 or 152",
                                    MODEL_SIZES(resnet_sizes)};

weir_status model_resnet(const model_options *options, weir_graph **graph, weir_error *error) {
    model made, *m = &made;
    const resnet_size *size = model_start_size(m, &resnet, options, error);
    if (!size)
        return m->status;
    enum { CLASSES = 1000 };
    model_traits pooling = {WEIR_CHOICE_FALSE, WEIR_SAVES_INPUTS};
    model_traits averaging = {WEIR_CHOICE_FALSE, WEIR_SAVES_NONE};
    map x = {.batch = or_default(options->batch, 32), .channels = 3, .side = or_default(options->image, 224)};
    x.id = model_tensor(m, "image", WEIR_ROLE_INPUT, m->type, shape_of(&x));
    x = conv_norm(m, "conv1", "bn1", &x, 64, 7, 2);
    x = apply_to(m, "relu1", "relu", &x);
    const model_id *input = &x.id;
    x.side = shrunk(x.side, 2);
    x.id = model_apply_with(m, pooling, "maxpool", "maxpool", shape_of(&x), &input, 1);
    for (uint64_t stage = 0; stage < 4; stage++)
        for (uint64_t block = 0; block < size->blocks[stage]; block++) {
            uint64_t stride = stage > 0 && block == 0 ? 2 : 1;
            uint64_t width = (uint64_t)64 << stage;
            model_set_prefix(m, "block%llu.", 100 * (stage + 1) + block);
            x = size->is_deep ? bottleneck(m, &x, width, stride) : basic_block(m, &x, width, stride);
        }
    model_set_prefix(m, "", 0);
    input = &x.id;
    model_id pooled =
        model_apply_with(m, averaging, "avgpool", "avgpool", SHAPE(x.batch, x.channels), &input, 1);
    model_id logits = model_linear(m, "fc", SHAPE(x.batch, CLASSES), &pooled, x.channels, CLASSES, true);
    return model_finish_logits(m, options, &logits, SHAPE(x.batch), graph);
}

/* ---- U-Net ------------------------------------------------------------------------------------- */

enum { UNET_DEPTH = 4, UNET_WIDTH = 64, UNET_CLASSES = 2 };

static map double_conv(model *m, const map *x, uint64_t channels) {
    map y = convolve(m, "conv1", x, channels, 3, 1);
    y = apply_to(m, "relu1", "relu", &y);
    y = convolve(m, "conv2", &y, channels, 3, 1);
    return apply_to(m, "relu2", "relu", &y);
}

static map rise(model *m, const map *x, const map *skip) {
    model_traits traits = {WEIR_CHOICE_FALSE, WEIR_SAVES_INPUTS};
    map up = {.batch = x->batch, .channels = skip->channels, .side = skip->side};
    map both = {.batch = x->batch, .channels = 2 * skip->channels, .side = skip->side};
    model_id weight = model_parameter(m, "up.weight", SHAPE(x->channels, skip->channels, 2, 2));
    const model_id *inputs[] = {&x->id, &weight};
    up.id = model_apply_with(m, traits, "up", "conv_transpose", shape_of(&up), inputs, 2);
    both.id = model_apply(m, "joined", "concat", shape_of(&both), &skip->id, &up.id, NULL);
    return double_conv(m, &both, skip->channels);
}

weir_status model_unet(const model_options *options, weir_graph **graph, weir_error *error) {
    uint64_t depth = or_default(options->layers, UNET_DEPTH);
    model_traits pooling = {WEIR_CHOICE_FALSE, WEIR_SAVES_INPUTS};
    map skips[MODEL_UNET_LAYERS_MAX];
    model m;
    if (depth > MODEL_UNET_LAYERS_MAX) {
        char given[24];
        snprintf(given, sizeof given, "%llu", (unsigned long long)depth);
        return model_refuse(error, "depth", given, "1 to 8");
    }
    if (!model_start(&m, "unet", options->dtype, "f32", error))
        return m.status;
    map x = {.batch = or_default(options->batch, 1), .channels = 3, .side = or_default(options->image, 512)};
    x.id = model_tensor(&m, "image", WEIR_ROLE_INPUT, m.type, shape_of(&x));
    for (uint64_t level = 0; level < depth; level++) {
        model_set_prefix(&m, "down%llu.", level);
        skips[level] = double_conv(&m, &x, (uint64_t)UNET_WIDTH << level);
        const model_id *input = &skips[level].id;
        x = skips[level];
        x.side = shrunk(x.side, 2);
        x.id = model_apply_with(&m, pooling, "pool", "maxpool", shape_of(&x), &input, 1);
    }
    model_set_prefix(&m, "bottom.", 0);
    x = double_conv(&m, &x, (uint64_t)UNET_WIDTH << depth);
    for (uint64_t level = depth; level-- > 0;) {
        model_set_prefix(&m, "up%llu.", level);
        x = rise(&m, &x, &skips[level]);
    }
    model_set_prefix(&m, "", 0);
    map logits = convolve(&m, "logits", &x, UNET_CLASSES, 1, 1);
    return model_finish_logits(&m, options, &logits.id, SHAPE(x.batch, x.side, x.side), graph);
}
