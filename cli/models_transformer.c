/* GPT-2 (small to XL) and Llama (7B to 405B) as their papers and published weights have them: every
 * projection, norm, residual and activation is an operator, so that a plan shows what a training step
 * keeps. */
#include "model_builder.h"

/* ---- What both share --------------------------------------------------------------------------- */

typedef struct attention_shape {
    uint64_t batch, sequence, heads, key_heads, head_size;
    bool flash;
} attention_shape;

/* softmax(q k' / sqrt(d)) v, fused or as four operators. */
static model_id attend(model *m, const attention_shape *a, const model_id *q, const model_id *k,
                       const model_id *v) {
    model_shape context = SHAPE(a->batch, a->heads, a->sequence, a->head_size);
    model_shape scores = SHAPE(a->batch, a->heads, a->sequence, a->sequence);
    if (a->flash)
        return model_apply(m, "attn.context", "attention", context, q, k, v);
    model_id products = model_apply(m, "attn.scores", "matmul", scores, q, k, NULL);
    model_id scaled = model_apply(m, "attn.scaled", "scale", scores, &products, NULL, NULL);
    model_id probabilities = model_apply(m, "attn.probs", "softmax", scores, &scaled, NULL, NULL);
    return model_apply(m, "attn.context", "matmul", context, &probabilities, v, NULL);
}

/* ---- GPT-2 ------------------------------------------------------------------------------------- */

typedef struct gpt2_size {
    const char *name;
    uint64_t layers, width, heads;
} gpt2_size;

static const gpt2_size gpt2_sizes[] = {
    {"small", 12, 768, 12}, {"medium", 24, 1024, 16}, {"large", 36, 1280, 20}, {"xl", 48, 1600, 25}};

static model_id gpt2_norm(model *m, const char *name, model_shape shape, const model_id *x, uint64_t width) {
    model_id weight = model_part(m, name, "weight", SHAPE(width));
    model_id bias = model_part(m, name, "bias", SHAPE(width));
    return model_apply(m, name, "layernorm", shape, x, &weight, &bias);
}

static model_id gpt2_block(model *m, const attention_shape *a, uint64_t width, const model_id *x) {
    model_shape hidden = SHAPE(a->batch, a->sequence, width);
    model_shape head = SHAPE(a->batch, a->heads, a->sequence, a->head_size);
    model_shape wide = SHAPE(a->batch, a->sequence, 4 * width);
    model_id norm = gpt2_norm(m, "ln_1", hidden, x, width);
    model_id qkv =
        model_linear(m, "attn.qkv", SHAPE(a->batch, a->sequence, 3 * width), &norm, width, 3 * width, true);
    model_id q = model_apply(m, "attn.q", "slice", head, &qkv, NULL, NULL);
    model_id k = model_apply(m, "attn.k", "slice", head, &qkv, NULL, NULL);
    model_id v = model_apply(m, "attn.v", "slice", head, &qkv, NULL, NULL);
    model_id context = attend(m, a, &q, &k, &v);
    model_id merged = model_apply(m, "attn.merged", "transpose", hidden, &context, NULL, NULL);
    model_id projected = model_linear(m, "attn.proj", hidden, &merged, width, width, true);
    model_id middle = model_apply(m, "attn.residual", "add", hidden, &projected, x, NULL);
    model_id norm2 = gpt2_norm(m, "ln_2", hidden, &middle, width);
    model_id expanded = model_linear(m, "mlp.fc", wide, &norm2, width, 4 * width, true);
    model_id active = model_apply(m, "mlp.gelu", "gelu", wide, &expanded, NULL, NULL);
    model_id shrunk = model_linear(m, "mlp.proj", hidden, &active, 4 * width, width, true);
    return model_apply(m, "mlp.residual", "add", hidden, &shrunk, &middle, NULL);
}

static const model_family gpt2 = {.name = "gpt2",
                                  .dtype = "f32",
                                  .size = "small",
                                  .choices = "small, medium, large or xl",
                                  MODEL_SIZES(gpt2_sizes)};

weir_status model_gpt2(const model_options *options, weir_graph **graph, weir_error *error) {
    model made, *m = &made;
    const gpt2_size *size = model_start_size(m, &gpt2, options, error);
    if (!size)
        return m->status;
    enum { VOCABULARY = 50257, CONTEXT = 1024 };
    uint64_t layers = or_default(options->layers, size->layers);
    uint64_t batch = or_default(options->batch, 1);
    uint64_t sequence = or_default(options->sequence, CONTEXT);
    attention_shape a = {batch,         sequence, size->heads, size->heads, size->width / size->heads,
                         options->flash};
    model_shape hidden = SHAPE(batch, sequence, size->width);
    model_id tokens = model_tensor(m, "tokens", WEIR_ROLE_INPUT, WEIR_TENSOR_I64, SHAPE(batch, sequence));
    model_id positions = model_tensor(m, "positions", WEIR_ROLE_INPUT, WEIR_TENSOR_I64, SHAPE(sequence));
    model_id wte = model_parameter(m, "wte", SHAPE(VOCABULARY, size->width));
    model_id wpe = model_parameter(m, "wpe", SHAPE(or_default(options->sequence, CONTEXT), size->width));
    model_id token = model_apply(m, "embed.token", "embedding", hidden, &tokens, &wte, NULL);
    model_id position =
        model_apply(m, "embed.position", "embedding", SHAPE(sequence, size->width), &positions, &wpe, NULL);
    model_id x = model_apply(m, "embed", "add", hidden, &token, &position, NULL);
    for (uint64_t layer = 0; layer < layers && m->status == WEIR_OK; layer++) {
        model_set_prefix(m, "h%llu.", layer);
        x = gpt2_block(m, &a, size->width, &x);
    }
    model_set_prefix(m, "", 0);
    x = gpt2_norm(m, "ln_f", hidden, &x, size->width);
    model_id logits = model_apply(m, "logits", "matmul", SHAPE(batch, sequence, VOCABULARY), &x, &wte, NULL);
    return model_finish_logits(m, options, &logits, SHAPE(batch, sequence), graph);
}

/* ---- Llama ------------------------------------------------------------------------------------- */

typedef struct llama_size {
    const char *name;
    uint64_t layers, width, heads, key_heads, ffn, vocabulary, context;
} llama_size;

static const llama_size llama_sizes[] = {{"7b", 32, 4096, 32, 32, 11008, 32000, 4096},
                                         {"8b", 32, 4096, 32, 8, 14336, 128256, 8192},
                                         {"13b", 40, 5120, 40, 40, 13824, 32000, 4096},
                                         {"70b", 80, 8192, 64, 8, 28672, 32000, 4096},
                                         {"405b", 126, 16384, 128, 8, 53248, 128256, 8192}};

static model_id llama_norm(model *m, const char *name, model_shape shape, const model_id *x, uint64_t width) {
    model_id weight = model_part(m, name, "weight", SHAPE(width));
    return model_apply(m, name, "rmsnorm", shape, x, &weight, NULL);
}

/* A rotation by a fixed angle: its backward step is the rotation back, and needs nothing saved. */
static model_id rotate(model *m, const char *name, model_shape shape, const model_id *x) {
    model_traits traits = {WEIR_CHOICE_TRUE, WEIR_SAVES_NONE};
    return model_apply_with(m, traits, name, "rope", shape, &x, 1);
}

static model_id llama_attention(model *m, const attention_shape *a, uint64_t width, const model_id *x) {
    model_shape hidden = SHAPE(a->batch, a->sequence, width);
    model_shape queries = SHAPE(a->batch, a->heads, a->sequence, a->head_size);
    model_shape keys = SHAPE(a->batch, a->key_heads, a->sequence, a->head_size);
    uint64_t key_width = a->key_heads * a->head_size;
    model_id q = model_linear(m, "attn.q", queries, x, width, width, false);
    model_id k = model_linear(m, "attn.k", keys, x, width, key_width, false);
    model_id v = model_linear(m, "attn.v", keys, x, width, key_width, false);
    model_id q_rotated = rotate(m, "attn.q_rope", queries, &q);
    model_id k_rotated = rotate(m, "attn.k_rope", keys, &k);
    model_id context = attend(m, a, &q_rotated, &k_rotated, &v);
    model_id merged = model_apply(m, "attn.merged", "transpose", hidden, &context, NULL, NULL);
    return model_linear(m, "attn.o", hidden, &merged, width, width, false);
}

static model_id llama_block(model *m, const attention_shape *a, const llama_size *size, const model_id *x) {
    model_shape hidden = SHAPE(a->batch, a->sequence, size->width);
    model_shape wide = SHAPE(a->batch, a->sequence, size->ffn);
    model_id norm = llama_norm(m, "attn_norm", hidden, x, size->width);
    model_id attended = llama_attention(m, a, size->width, &norm);
    model_id middle = model_apply(m, "attn.residual", "add", hidden, &attended, x, NULL);
    model_id norm2 = llama_norm(m, "ffn_norm", hidden, &middle, size->width);
    model_id gate = model_linear(m, "ffn.gate", wide, &norm2, size->width, size->ffn, false);
    model_id up = model_linear(m, "ffn.up", wide, &norm2, size->width, size->ffn, false);
    model_id active = model_apply(m, "ffn.silu", "silu", wide, &gate, NULL, NULL);
    model_id gated = model_apply(m, "ffn.gated", "mul", wide, &active, &up, NULL);
    model_id down = model_linear(m, "ffn.down", hidden, &gated, size->ffn, size->width, false);
    return model_apply(m, "ffn.residual", "add", hidden, &down, &middle, NULL);
}

static const model_family llama = {.name = "llama",
                                   .dtype = "bf16",
                                   .size = "7b",
                                   .choices = "7b, 8b, 13b, 70b or 405b",
                                   MODEL_SIZES(llama_sizes)};

weir_status model_llama(const model_options *options, weir_graph **graph, weir_error *error) {
    model made, *m = &made;
    const llama_size *size = model_start_size(m, &llama, options, error);
    if (!size)
        return m->status;
    uint64_t layers = or_default(options->layers, size->layers);
    uint64_t batch = or_default(options->batch, 1);
    uint64_t sequence = or_default(options->sequence, size->context);
    attention_shape a = {batch,         sequence, size->heads, size->key_heads, size->width / size->heads,
                         options->flash};
    model_shape hidden = SHAPE(batch, sequence, size->width);
    model_id tokens = model_tensor(m, "tokens", WEIR_ROLE_INPUT, WEIR_TENSOR_I64, SHAPE(batch, sequence));
    model_id table = model_parameter(m, "embed.weight", SHAPE(size->vocabulary, size->width));
    model_id x = model_apply(m, "embed", "embedding", hidden, &tokens, &table, NULL);
    for (uint64_t layer = 0; layer < layers && m->status == WEIR_OK; layer++) {
        model_set_prefix(m, "layers.%llu.", layer);
        x = llama_block(m, &a, size, &x);
    }
    model_set_prefix(m, "", 0);
    x = llama_norm(m, "norm", hidden, &x, size->width);
    model_id logits = model_linear(m, "lm_head", SHAPE(batch, sequence, size->vocabulary), &x, size->width,
                                   size->vocabulary, false);
    return model_finish_logits(m, options, &logits, SHAPE(batch, sequence), graph);
}
