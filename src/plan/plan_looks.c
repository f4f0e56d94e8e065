/* What the tensors of a plan are: dtype, role and shape, as the second item of a plan file
 * (docs/spec/03b-plan-tensors.md). It is in no hash, and is read like the plan itself: it may hold anything.
 */
#include <string.h>

#include "base/stream.h"
#include "plan/planning.h"
#include "weir_tool/plan_tools.h"

#define LOOKS_OPERATOR "weir.plan.restore"
#define LOOKS_FORMAT   "weir-plan-tensors/1"

/* ---- Writing ----------------------------------------------------------------------------------- */

void weir_plan__write_looks(const weir_plan *plan, weir__cbor_stream *stream, weir_cbor_writer *w) {
    weir_cbor_map(w, 3);
    weir_cbor_pair_text(w, "format", LOOKS_FORMAT);
    weir_cbor_text(w, "tensors");
    weir_cbor_map(w, plan->count);
    for (uint32_t i = 0; i < plan->count; i++) {
        weir_text id = weir_plan__id(plan, plan->sorted[i]);
        const weir_plan__look *look = &plan->looks[plan->sorted[i]];
        weir_cbor_text_n(w, id.data, id.size);
        weir_cbor_array(w, 3);
        weir_cbor_text(w, weir_tensor_type_name((weir_tensor_type)look->type));
        weir_cbor_text(w, weir_tensor_role_name((weir_tensor_role)look->role));
        weir_cbor_array(w, look->rank);
        for (uint32_t k = 0; k < look->rank; k++)
            weir_cbor_uint(w, plan->dimensions[look->first_dimension + k]);
        weir__cbor_stream_drain(stream);
    }
    weir_cbor_pair_bytes(w, "plan_hash", plan->hashes.plan, WEIR_HASH_SIZE);
}

void weir_plan_write_tensors(const weir_plan *plan, weir_cbor_writer *w) {
    if (!plan->looks)
        return;
    weir_cbor_restart(w);
    weir_plan__write_looks(plan, NULL, w);
}

/* ---- Reading ----------------------------------------------------------------------------------- */

static weir_status refuse(const char *name, const char *what, weir_text detail, weir_error *error) {
    return weir__fail(error, WEIR_INVALID_IR, LOOKS_OPERATOR,
                      "%s: what its tensors are is not usable: %s%.*s", name, what, WEIR_PLAN__SHOW(detail));
}

/* The tensors, or false if the value is not this plan's second item. */
static bool find_tensors(const weir_plan *plan, const weir_cbor_value *root, weir_cbor_value *tensors) {
    weir_cbor_value format;
    weir_cbor_value hash;
    return root->type == WEIR_CBOR_MAP && root->number == 3 && weir_cbor_get(root, "format", &format) &&
           weir_cbor_is_text(&format, LOOKS_FORMAT) && weir_cbor_get(root, "plan_hash", &hash) &&
           hash.type == WEIR_CBOR_BYTES && hash.number == WEIR_HASH_SIZE &&
           memcmp(hash.data, plan->hashes.plan, WEIR_HASH_SIZE) == 0 &&
           weir_cbor_get(root, "tensors", tensors) && tensors->type == WEIR_CBOR_MAP &&
           tensors->number == plan->count;
}

/* One tensor's [dtype, role, [dimension, …]]; its dimensions go to plan->dimensions from *used on. */
static bool read_look(weir_plan *plan, uint32_t index, const weir_cbor_value *value, uint64_t *used) {
    weir_cbor_value parts[3], dimension;
    weir_tensor_type type;
    weir_tensor_role role;
    uint64_t bytes;
    weir_cbor_iterator it = weir_cbor_children(value);
    if (value->type != WEIR_CBOR_ARRAY || value->number != 3)
        return false;
    for (int i = 0; i < 3; i++)
        (void)weir_cbor_next(&it, NULL, &parts[i]);
    if (parts[0].type != WEIR_CBOR_TEXT || parts[1].type != WEIR_CBOR_TEXT ||
        parts[2].type != WEIR_CBOR_ARRAY || parts[2].number >= UINT32_MAX ||
        !weir_plan__type_named(weir_plan__text_of(&parts[0]), &type) ||
        !weir_plan__role_named(weir_plan__text_of(&parts[1]), &role))
        return false;
    weir_plan__look *look = &plan->looks[index];
    *look = (weir_plan__look){*used, (uint32_t)parts[2].number, (uint8_t)type, (uint8_t)role};
    it = weir_cbor_children(&parts[2]);
    while (weir_cbor_next(&it, NULL, &dimension)) {
        if (dimension.type != WEIR_CBOR_UINT)
            return false;
        plan->dimensions[(*used)++] = dimension.number;
    }
    return weir_plan__shape_bytes(type, plan->dimensions + look->first_dimension, look->rank, &bytes) &&
           bytes == plan->rows[index].size;
}

weir_status weir_plan__read_looks(weir_plan *plan, const weir_cbor_value *root, const char *name,
                                  weir_error *error) {
    static const weir_text nothing = {"", 0};
    weir_cbor_value tensors, key, value, part;
    uint64_t used = 0;
    if (!find_tensors(plan, root, &tensors))
        return refuse(name, "it is not a " LOOKS_FORMAT " of this plan", nothing, error);
    uint64_t dimensions = 0; /* of all tensors; those of a value that is none are refused one by one below */
    weir_cbor_iterator it = weir_cbor_children(&tensors);
    while (weir_cbor_next(&it, &key, &value)) {
        weir_cbor_iterator parts = weir_cbor_children(&value);
        while (value.type == WEIR_CBOR_ARRAY && weir_cbor_next(&parts, NULL, &part))
            dimensions += part.type == WEIR_CBOR_ARRAY ? part.number : 0;
    }
    plan->looks = weir__arena_take_zero(&plan->memory, plan->count, sizeof *plan->looks);
    plan->dimensions = weir__arena_take_zero(&plan->memory, (size_t)dimensions + 1, sizeof *plan->dimensions);
    if (!plan->looks || !plan->dimensions)
        return weir__out_of_memory(error, LOOKS_OPERATOR, (size_t)dimensions * sizeof *plan->dimensions);
    it = weir_cbor_children(&tensors);
    for (uint32_t i = 0; weir_cbor_next(&it, &key, &value); i++) {
        weir_text id = weir_plan__id(plan, plan->sorted[i]); /* both stand in the order of CBOR keys */
        if (key.number != id.size || memcmp(key.data, id.data, id.size) != 0)
            return refuse(name, "the plan has no such tensor: ", weir_plan__text_of(&key), error);
        if (!read_look(plan, plan->sorted[i], &value, &used))
            return refuse(name, "dtype, role or shape is wrong of the tensor ", id, error);
    }
    return WEIR_OK;
}
