/* Reads the manifest's `batch`: what a sequence holds. */
#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "base/narrow.h"
#include "sampler/manifest_reader.h"

/* A word, or a list of splits; a list that means a word is that word. */
static weir_status read_label_visibility(const weir_sampler__manifest_reader *r, const weir_cbor_value *map) {
    weir_batch_config *batch = &r->manifest->batch;
    weir_cbor_value value, item;
    unsigned chosen = batch->label_visibility, splits = 0;
    if (!weir_cbor_get(map, "label_visibility", &value))
        return WEIR_OK;
    if (value.type != WEIR_CBOR_ARRAY) {
        weir_status status = weir_sampler__manifest_choice(r, "$.batch", map, "label_visibility",
                                                           weir_sampler__label_visibility_names, 3, &chosen);
        batch->label_visibility = (weir_label_visibility)chosen;
        return status;
    }
    weir_cbor_iterator it = weir_cbor_children(&value);
    while (weir_cbor_next(&it, NULL, &item)) {
        unsigned split = 0;
        while (split < WEIR_SPLITS && !weir_cbor_is_text(&item, weir_split_name((weir_split)split)))
            split++;
        if (split == WEIR_SPLITS || splits >> split & 1)
            return weir_sampler__manifest_invalid(
                r, "$.batch.label_visibility",
                "must be a list of \"train\", \"val\" and \"test\", each at most once");
        splits |= 1u << split;
    }
    if (splits == 0)
        return weir_sampler__manifest_invalid(r, "$.batch.label_visibility",
                                              "is an empty list; write \"none\" to show no labels");
    batch->label_visibility = splits == 1u << WEIR_TRAIN          ? WEIR_LABELS_TRAIN
                              : splits == (1u << WEIR_SPLITS) - 1 ? WEIR_LABELS_ALL
                                                                  : WEIR_LABELS_LISTED;
    batch->label_splits = batch->label_visibility == WEIR_LABELS_LISTED ? (uint8_t)splits : 0;
    return WEIR_OK;
}

/* A time as people write it, or microseconds since 1970. */
static bool read_time(const weir_cbor_value *value, int64_t *micros) {
    uint64_t number;
    if (value->type == WEIR_CBOR_TEXT &&
        weir_timestamp_parse((const char *)value->data, (size_t)value->number, micros))
        return true;
    if (weir_cbor_get_uint(value, &number) && number < INT64_MAX) {
        *micros = (int64_t)number;
        return true;
    }
    if (value->type != WEIR_CBOR_NEGATIVE || value->number >= INT64_MAX)
        return false;
    *micros = -1 - (int64_t)value->number;
    return true;
}

static weir_status read_context_until(const weir_sampler__manifest_reader *r, const weir_cbor_value *map) {
    weir_batch_config *batch = &r->manifest->batch;
    weir_cbor_value value;
    if (!weir_cbor_get(map, "context_until", &value) || value.type == WEIR_CBOR_NULL)
        return WEIR_OK;
    batch->has_context_until = read_time(&value, &batch->context_until);
    if (batch->has_context_until)
        return WEIR_OK;
    return weir_sampler__manifest_invalid(
        r, "$.batch.context_until",
        "must be a date such as \"2010-01-01\", a time such as \"2010-01-01T12:00:00Z\", or "
        "microseconds since 1970");
}

static weir_status read_since(const weir_sampler__manifest_reader *r, const weir_cbor_value *map) {
    weir_batch_config *batch = &r->manifest->batch;
    weir_cbor_value value;
    if (!weir_cbor_get(map, "since", &value) || value.type == WEIR_CBOR_NULL)
        return WEIR_OK;
    if (value.type == WEIR_CBOR_TEXT &&
        weir__duration_parse((const char *)value.data, (size_t)value.number, &batch->since))
        batch->since_is = WEIR_SINCE_DURATION;
    else if (read_time(&value, &batch->since))
        batch->since_is = WEIR_SINCE_TIME;
    else
        return weir_sampler__manifest_invalid(
            r, "$.batch.since",
            "must be a duration such as \"90d\" or \"12h\" (us, ms, s, m, h, d or w), a date such as "
            "\"2010-01-01\", a time such as \"2010-01-01T12:00:00Z\", or microseconds since 1970");
    return WEIR_OK;
}

static weir_status read_tensors(const weir_sampler__manifest_reader *r, const weir_cbor_value *map) {
    weir_cbor_value list, item;
    uint32_t found = 0;
    if (!weir_cbor_get(map, "tensors", &list))
        return WEIR_OK;
    bool is_fine = list.type == WEIR_CBOR_ARRAY;
    weir_cbor_iterator it = is_fine ? weir_cbor_children(&list) : (weir_cbor_iterator){0};
    while (is_fine && weir_cbor_next(&it, NULL, &item)) {
        uint32_t i = 0;
        while (weir_sampler__optional_tensor_names[i] &&
               !weir_cbor_is_text(&item, weir_sampler__optional_tensor_names[i]))
            i++;
        uint32_t bit = (uint32_t)1 << (WEIR_FIRST_OPTIONAL + i);
        is_fine =
            weir_sampler__optional_tensor_names[i] && bit != (uint32_t)1 << WEIR_IS_MASKED && !(found & bit);
        found |= bit;
    }
    r->manifest->batch.tensors |= found;
    return is_fine ? WEIR_OK
                   : weir_sampler__manifest_invalid(
                         r, "$.batch.tensors",
                         "must be a list of \"example_ids\", \"hops\" and \"ages\", each "
                         "at most once");
}

/* A number, or a list of some. */
static weir_status read_choices(const weir_sampler__manifest_reader *r, const char *path,
                                const weir_cbor_value *value, uint32_t least, uint32_t most,
                                weir_choices *out) {
    char what[120];
    weir_cbor_value item = *value;
    uint64_t number = 0;
    bool is_list = value->type == WEIR_CBOR_ARRAY, is_fine = !is_list || value->number > 0;
    weir_cbor_iterator it = is_list ? weir_cbor_children(value) : (weir_cbor_iterator){0};
    out->count = 0;
    while (is_fine && (is_list ? weir_cbor_next(&it, NULL, &item) : out->count == 0)) {
        is_fine = weir_cbor_get_uint(&item, &number) && number >= least && number <= most &&
                  out->count < WEIR_CHOICES_MAX;
        if (is_fine)
            out->values[out->count++] = WEIR__LOW(uint32_t, number);
    }
    snprintf(what, sizeof what, "must be a whole number from %u to %u, or a list of 1 to %d such numbers",
             least, most, WEIR_CHOICES_MAX);
    return is_fine ? WEIR_OK : weir_sampler__manifest_invalid(r, path, what);
}

/* A member of `retrieval`. */
static weir_status read_budget(const weir_sampler__manifest_reader *r, const weir_cbor_value *map,
                               const char *key, uint32_t least, uint32_t most, uint32_t otherwise,
                               weir_choices *out) {
    char path[64];
    weir_cbor_value value;
    *out = (weir_choices){.count = 1, .values = {otherwise}};
    snprintf(path, sizeof path, "$.batch.retrieval.%s", key);
    return weir_cbor_get(map, key, &value) ? read_choices(r, path, &value, least, most, out) : WEIR_OK;
}

static weir_status read_retrieval(const weir_sampler__manifest_reader *r, const weir_cbor_value *batch_map) {
    static const char *const keys[] = {"walks", "length", "local_cells", "width", "order", "fill", NULL};
    static const char path[] = "$.batch.retrieval";
    weir_batch_config *batch = &r->manifest->batch;
    weir_retrieval_config *retrieval = &batch->retrieval;
    weir_cbor_value map, width;
    unsigned order = WEIR_EXAMPLES_BY_VISITS;
    if (!weir_cbor_get(batch_map, "retrieval", &map) || map.type == WEIR_CBOR_NULL)
        return WEIR_OK;
    weir_status status = weir_sampler__manifest_expect_map(r, path, &map);
    if (status == WEIR_OK)
        status = weir_sampler__manifest_refuse_unknown(r, path, &map, keys);
    if (status == WEIR_OK)
        status = read_budget(r, &map, "walks", 0, 1000000, 10000, &retrieval->walks);
    if (status == WEIR_OK)
        status = read_budget(r, &map, "length", 1, 1000, 20, &retrieval->length);
    if (status == WEIR_OK)
        status = read_budget(r, &map, "local_cells", 1, 65536, 256, &retrieval->local_cells);
    if (status == WEIR_OK)
        status = read_budget(r, &map, "width", 0, 4096, 32, &retrieval->width);
    if (status == WEIR_OK)
        status = weir_sampler__manifest_choice(r, path, &map, "order", weir_sampler__example_order_names, 2,
                                               &order);
    retrieval->fill = true;
    if (status == WEIR_OK)
        status = weir_sampler__manifest_bool(r, path, &map, "fill", &retrieval->fill);
    if (status == WEIR_OK && !batch->labels)
        status = weir_sampler__manifest_invalid(r, path, "needs \"labels\": true: what it finds are labels");
    if (status == WEIR_OK && batch->width_count > 0 && weir_cbor_get(&map, "width", &width))
        status = weir_sampler__manifest_invalid(
            r, "$.batch.retrieval.width", "stands beside a child_width by edge type, which holds; remove it");
    retrieval->order = (weir_example_order)order;
    batch->has_retrieval = status == WEIR_OK;
    return status;
}

/* Adds the widths of an edge type. */
static void add_width(const weir_sampler__manifest_reader *r, const void *name, size_t size,
                      const weir_choices *widths) {
    weir_manifest *manifest = r->manifest;
    weir_batch_config *batch = &manifest->batch;
    weir_edge_width *last = batch->width_count ? &manifest->widths[batch->width_count - 1] : NULL;
    char *text =
        last ? (char *)(uintptr_t)last->edge_type + strlen(last->edge_type) + 1 : manifest->width_texts;
    memcpy(text, name, size);
    text[size] = 0;
    manifest->widths[batch->width_count++] = (weir_edge_width){text, *widths};
}

/* By edge type: in the order of CBOR, "*" always among them. */
static weir_status read_widths(const weir_sampler__manifest_reader *r, const weir_cbor_value *map) {
    weir_manifest *manifest = r->manifest;
    weir_choices widths = {.count = 1, .values = {manifest->batch.child_width}};
    size_t count = (size_t)map->number + 1,
           size = (size_t)(weir_cbor_skip(map->item) - map->item) + 2 * count;
    manifest->widths = weir__allocate_zero(manifest->env, count, sizeof *manifest->widths);
    manifest->width_texts = weir__allocate(manifest->env, size, 1);
    manifest->batch.widths = manifest->widths;
    if (!manifest->widths || !manifest->width_texts)
        return weir__out_of_memory(r->error, "weir.manifest", size);
    weir_cbor_iterator it = weir_cbor_children(map);
    weir_cbor_value key, value;
    bool has_rest = false;
    while (weir_cbor_next(&it, &key, &value)) {
        char path[WEIR_SAMPLER__MANIFEST_PATH];
        weir_sampler__manifest_join(path, "$.batch.child_width", &key);
        if (memchr(key.data, 0, (size_t)key.number))
            return weir_sampler__manifest_invalid(r, path, "has a NUL in its name");
        bool is_rest = weir_cbor_is_text(&key, "*");
        bool comes_later = key.number > 1 || (key.number == 1 && key.data[0] > '*');
        if (!has_rest && comes_later)
            add_width(r, "*", 1, &widths);
        has_rest |= is_rest | comes_later;
        weir_choices read;
        WEIR__TRY(read_choices(r, path, &value, 0, 4096, &read));
        add_width(r, key.data, (size_t)key.number, &read);
    }
    if (!has_rest)
        add_width(r, "*", 1, &widths);
    return WEIR_OK;
}

static weir_status read_child_width(const weir_sampler__manifest_reader *r, const weir_cbor_value *map) {
    weir_cbor_value value;
    if (weir_cbor_get(map, "child_width", &value) && value.type == WEIR_CBOR_MAP)
        return read_widths(r, &value);
    return weir_sampler__manifest_uint32(r, "$.batch", map, "child_width", 0, 4096,
                                         &r->manifest->batch.child_width);
}

static weir_status read_links(const weir_sampler__manifest_reader *r, const weir_cbor_value *batch_map) {
    static const char *const keys[] = {"negatives", "candidates", "by", NULL};
    static const char path[] = "$.batch.links";
    enum { MOST = 1024 };
    weir_links_config *links = &r->manifest->batch.links;
    weir_cbor_value map;
    unsigned by = links->by;
    if (!weir_cbor_get(batch_map, "links", &map))
        return WEIR_OK;
    weir_status status = weir_sampler__manifest_expect_map(r, path, &map);
    if (status == WEIR_OK)
        status = weir_sampler__manifest_refuse_unknown(r, path, &map, keys);
    if (status == WEIR_OK)
        status = weir_sampler__manifest_uint32(r, path, &map, "negatives", 0, MOST, &links->negatives);
    if (status == WEIR_OK)
        status = weir_sampler__manifest_uint32(r, path, &map, "candidates", 0, MOST, &links->candidates);
    if (status == WEIR_OK)
        status = weir_sampler__manifest_choice(r, path, &map, "by", weir_sampler__negatives_by_names, 2, &by);
    links->by = (weir_negatives_by)by;
    return status;
}

weir_status weir_sampler__manifest_read_batch(const weir_sampler__manifest_reader *r,
                                              const weir_cbor_value *value) {
    static const char *const keys[] = {"sequence_length",
                                       "max_hops",
                                       "child_width",
                                       "child_policy",
                                       "max_rows",
                                       "pad_rows",
                                       "label_visibility",
                                       "row_order",
                                       "identifiers",
                                       "context_until",
                                       "strictly_before",
                                       "labels",
                                       "context_seed",
                                       "retrieval",
                                       "since",
                                       "tensors",
                                       "mask_permille",
                                       "links",
                                       NULL};
    static const char *const identifiers[] = {"keep", "omit"};
    static const char path[] = "$.batch";
    weir_batch_config *batch = &r->manifest->batch;
    unsigned policy = batch->child_policy;
    unsigned row_order = batch->row_order;
    unsigned omits = batch->omit_identifiers;
    WEIR__TRY(weir_sampler__manifest_expect_map(r, path, value));
    WEIR__TRY(weir_sampler__manifest_refuse_unknown(r, path, value, keys));
    WEIR__TRY(
        weir_sampler__manifest_uint32(r, path, value, "sequence_length", 1, 65536, &batch->sequence_length));
    WEIR__TRY(weir_sampler__manifest_uint32(r, path, value, "max_hops", 0, 64, &batch->max_hops));
    WEIR__TRY(read_child_width(r, value));
    WEIR__TRY(weir_sampler__manifest_choice(r, path, value, "child_policy", weir_sampler__child_policy_names,
                                            3, &policy));
    WEIR__TRY(weir_sampler__manifest_uint32(r, path, value, "max_rows", 1, 65535, &batch->max_rows));
    WEIR__TRY(weir_sampler__manifest_bool(r, path, value, "pad_rows", &batch->pad_rows));
    WEIR__TRY(read_label_visibility(r, value));
    WEIR__TRY(weir_sampler__manifest_choice(r, path, value, "row_order", weir_sampler__row_order_names, 2,
                                            &row_order));
    WEIR__TRY(weir_sampler__manifest_choice(r, path, value, "identifiers", identifiers, 2, &omits));
    WEIR__TRY(read_context_until(r, value));
    WEIR__TRY(weir_sampler__manifest_bool(r, path, value, "strictly_before", &batch->strictly_before));
    WEIR__TRY(weir_sampler__manifest_bool(r, path, value, "labels", &batch->labels));
    WEIR__TRY(
        weir_sampler__manifest_uint(r, path, value, "context_seed", 0, UINT64_MAX, &batch->context_seed));
    WEIR__TRY(read_retrieval(r, value));
    WEIR__TRY(read_since(r, value));
    WEIR__TRY(read_tensors(r, value));
    WEIR__TRY(weir_sampler__manifest_uint32(r, path, value, "mask_permille", 0, 1000, &batch->mask_permille));
    if (batch->mask_permille > 0)
        batch->tensors |= (uint32_t)1 << WEIR_IS_MASKED;
    batch->child_policy = (weir_child_policy)policy;
    batch->omit_identifiers = omits == 1;
    batch->row_order = (weir_row_order)row_order;
    return read_links(r, value);
}
