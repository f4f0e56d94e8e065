/* The table of the manifest's `batch`: what a sequence holds. */
#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "sampler/manifest_fields.h"
#include "weir_tool/store_tools.h"

/* ---- label_visibility: a word, or a list of splits ------------------------------------------- */

/* A list that means a word is that word. */
static weir_status read_label_visibility(weir__reader *r, const weir__field *field,
                                         const weir_cbor_value *value, void *object) {
    weir_batch_config *batch = &((weir_manifest *)object)->batch;
    weir_cbor_iterator it = weir_cbor_children(value);
    weir_cbor_value item;
    unsigned splits = 0;
    if (value->type != WEIR_CBOR_ARRAY)
        return weir__read_plain(r, field, value, object);
    while (weir_cbor_next(&it, NULL, &item)) {
        unsigned split = 0;
        while (split < WEIR_SPLITS && !weir_cbor_is_text(&item, weir_split_name((weir_split)split)))
            split++;
        if (split == WEIR_SPLITS || splits >> split & 1)
            return weir__refuse(r, field->name,
                                "must be a list of \"train\", \"val\" and \"test\", each at most once");
        splits |= 1u << split;
    }
    if (splits == 0)
        return weir__refuse(r, field->name, "is an empty list; write \"none\" to show no labels");
    batch->label_visibility = splits == 1u << WEIR_TRAIN          ? WEIR_LABELS_TRAIN
                              : splits == (1u << WEIR_SPLITS) - 1 ? WEIR_LABELS_ALL
                                                                  : WEIR_LABELS_LISTED;
    batch->label_splits = batch->label_visibility == WEIR_LABELS_LISTED ? WEIR__NARROW(uint8_t, splits) : 0;
    return WEIR_OK;
}

static void write_label_visibility(weir_cbor_writer *w, const weir__field *field, const void *object) {
    const weir_batch_config *batch = &((const weir_manifest *)object)->batch;
    if (batch->label_visibility != WEIR_LABELS_LISTED) {
        weir__write_plain(w, field, object);
        return;
    }
    weir_cbor_array(w, (uint64_t)__builtin_popcount(batch->label_splits));
    for (int split = 0; split < WEIR_SPLITS; split++)
        if (batch->label_splits >> split & 1)
            weir_cbor_text(w, weir_split_name((weir_split)split));
}

/* ---- Times ----------------------------------------------------------------------------------- */

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

static weir_status read_context_until(weir__reader *r, const weir__field *field, const weir_cbor_value *value,
                                      void *object) {
    if (read_time(value, &((weir_manifest *)object)->batch.context_until))
        return WEIR_OK;
    return weir__refuse(r, field->name,
                        "must be a date such as \"2010-01-01\", a time such as \"2010-01-01T12:00:00Z\", or "
                        "microseconds since 1970");
}

static weir_status read_since(weir__reader *r, const weir__field *field, const weir_cbor_value *value,
                              void *object) {
    weir_batch_config *batch = &((weir_manifest *)object)->batch;
    if (value->type == WEIR_CBOR_TEXT &&
        weir__duration_parse((const char *)value->data, (size_t)value->number, &batch->since))
        batch->since_is = WEIR_SINCE_DURATION;
    else if (read_time(value, &batch->since))
        batch->since_is = WEIR_SINCE_TIME;
    else
        return weir__refuse(
            r, field->name,
            "must be a duration such as \"90d\" or \"12h\" (us, ms, s, m, h, d or w), a date such as "
            "\"2010-01-01\", a time such as \"2010-01-01T12:00:00Z\", or microseconds since 1970");
    return WEIR_OK;
}

static void write_since(weir_cbor_writer *w, const weir__field *field, const void *object) {
    const weir_batch_config *batch = &((const weir_manifest *)object)->batch;
    char text[32];
    if (batch->since_is == WEIR_SINCE_TIME) {
        weir__write_plain(w, field, object);
        return;
    }
    snprintf(text, sizeof text, "%lldus", (long long)batch->since);
    weir_cbor_text(w, text);
}

static bool has_no_since(const void *object) {
    return ((const weir_manifest *)object)->batch.since_is == WEIR_SINCE_EVER;
}

/* ---- tensors: optional ones by name; is_masked follows from another key ---------------------- */

#define NAME(id, name, ...) #name,
static const char *const tensor_names[] = {WEIR_OPTIONAL_TENSORS(NAME) NULL};
#undef NAME

static uint32_t listed_tensors(const void *object) {
    return ((const weir_manifest *)object)->batch.tensors & ~((uint32_t)1 << WEIR_IS_MASKED);
}

static weir_status read_tensors(weir__reader *r, const weir__field *field, const weir_cbor_value *list,
                                void *object) {
    bool is_fine = list->type == WEIR_CBOR_ARRAY;
    weir_cbor_iterator it = weir_cbor_children(list);
    weir_cbor_value item;
    uint32_t found = 0;
    while (is_fine && weir_cbor_next(&it, NULL, &item)) {
        uint32_t i = 0;
        while (tensor_names[i] && !weir_cbor_is_text(&item, tensor_names[i]))
            i++;
        uint32_t bit = (uint32_t)1 << (WEIR_FIRST_OPTIONAL + i);
        is_fine = tensor_names[i] && bit != (uint32_t)1 << WEIR_IS_MASKED && !(found & bit);
        found |= bit;
    }
    ((weir_manifest *)object)->batch.tensors |= found;
    return is_fine ? WEIR_OK
                   : weir__refuse(r, field->name,
                                  "must be a list of \"example_ids\", \"hops\" and \"ages\", each at most "
                                  "once");
}

static void write_tensors(weir_cbor_writer *w, const weir__field *field, const void *object) {
    (void)field;
    weir_cbor_array(w, (uint64_t)__builtin_popcount(listed_tensors(object)));
    for (int i = 0; tensor_names[i]; i++)
        if (listed_tensors(object) >> (WEIR_FIRST_OPTIONAL + i) & 1)
            weir_cbor_text(w, tensor_names[i]);
}

static bool lists_no_tensors(const void *object) {
    return listed_tensors(object) == 0;
}

/* ---- child_width: a number, or widths by edge type ------------------------------------------- */

enum { WIDTH_MAX = 4096, WIDTHS_MAX = 65536 };

/* In the order of CBOR, "*" always among them. */
static weir_status read_widths(weir__reader *r, const weir__field *field, const weir_cbor_value *map,
                               void *object) {
    weir_batch_config *batch = &((weir_manifest *)object)->batch;
    if (map->type != WEIR_CBOR_MAP)
        return weir__read_plain(r, field, map, object);
    if (map->number > WIDTHS_MAX) /* each takes much more memory than its bytes */
        return weir__refuse(r, field->name, "has more than %d foreign keys", WIDTHS_MAX);
    weir_edge_width *widths;
    weir_edge_width rest = {"*", {.count = 1, .values = {batch->child_width}}};
    WEIR__TRY(weir__reader_take(r, (size_t)map->number + 1, sizeof *widths, &widths));
    batch->widths = widths;
    weir_cbor_iterator it = weir_cbor_children(map);
    weir_cbor_value key, value;
    bool has_rest = false;
    size_t outer = weir__enter(r, field->name, strlen(field->name));
    while (weir_cbor_next(&it, &key, &value)) {
        bool comes_later = key.number > 1 || (key.number == 1 && key.data[0] > '*');
        if (!has_rest && comes_later)
            widths[batch->width_count++] = rest;
        has_rest |= comes_later | weir_cbor_is_text(&key, "*");
        weir_edge_width *width = &widths[batch->width_count++];
        size_t inner = weir__enter(r, key.data, (size_t)key.number);
        if (memchr(key.data, 0, (size_t)key.number))
            return weir__refuse(r, NULL, "has a NUL in its name");
        WEIR__TRY(weir__reader_copy(r, &key, &width->edge_type));
        WEIR__TRY(weir__read_numbers(r, NULL, &value, 0, WIDTH_MAX, width->widths.values, WEIR_CHOICES_MAX,
                                     &width->widths.count));
        weir__leave(r, inner);
    }
    weir__leave(r, outer);
    if (!has_rest)
        widths[batch->width_count++] = rest;
    return WEIR_OK;
}

static void write_widths(weir_cbor_writer *w, const weir__field *field, const void *object) {
    const weir_batch_config *batch = &((const weir_manifest *)object)->batch;
    if (batch->width_count == 0) {
        weir__write_plain(w, field, object);
        return;
    }
    weir_cbor_map(w, batch->width_count);
    for (uint32_t i = 0; i < batch->width_count; i++) {
        weir_cbor_text(w, batch->widths[i].edge_type);
        weir__write_numbers(w, batch->widths[i].widths.values, batch->widths[i].widths.count);
    }
}

/* ---- retrieval ------------------------------------------------------------------------------- */

static bool has_widths(const void *object) {
    return ((const weir_manifest *)object)->batch.width_count > 0;
}

static weir_status check_retrieval(weir__reader *r, void *object) {
    weir_cbor_value width;
    if (!((const weir_manifest *)object)->batch.labels)
        return weir__refuse(r, NULL, "needs \"labels\": true: what it finds are labels");
    if (has_widths(object) && weir_cbor_get(r->map, "width", &width))
        return weir__refuse(r, "width", "stands beside a child_width by edge type, which holds; remove it");
    return WEIR_OK;
}

static const char *const example_orders[] = {"visits", "latest", NULL};

static const weir__field retrieval_fields[] = {
    {"walks", WEIR__NUMBERS(weir_manifest, batch.retrieval.walks, 0, 1000000), .otherwise = 10000},
    {"length", WEIR__NUMBERS(weir_manifest, batch.retrieval.length, 1, 1000), .otherwise = 20},
    {"local_cells", WEIR__NUMBERS(weir_manifest, batch.retrieval.local_cells, 1, 65536), .otherwise = 256},
    {"width", WEIR__NUMBERS(weir_manifest, batch.retrieval.width, 0, WIDTH_MAX), .otherwise = 32,
     .is_absent = has_widths},
    {"order", WEIR__WORD(weir_manifest, batch.retrieval.order, example_orders)},
    {"fill", WEIR__BOOL(weir_manifest, batch.retrieval.fill), .otherwise = true},
};
static const weir__shape retrieval_shape =
    WEIR__SHAPE(weir_manifest, retrieval_fields, .check = check_retrieval);

/* ---- links ----------------------------------------------------------------------------------- */

enum { NEGATIVES_MAX = 1024 };

static const char *const negatives_by[] = {"uniform", "popularity", NULL};

static const weir__field links_fields[] = {
    {"negatives", WEIR__UINT(weir_links_config, negatives, 0, NEGATIVES_MAX), .otherwise = 4},
    {"candidates", WEIR__UINT(weir_links_config, candidates, 0, NEGATIVES_MAX), .otherwise = 20},
    {"by", WEIR__WORD(weir_links_config, by, negatives_by)},
};
static const weir__shape links_shape = WEIR__SHAPE(weir_links_config, links_fields);

/* ---- batch ----------------------------------------------------------------------------------- */

static weir_status check_batch(weir__reader *r, void *object) {
    weir_batch_config *batch = &((weir_manifest *)object)->batch;
    (void)r;
    if (batch->mask_permille > 0)
        batch->tensors |= (uint32_t)1 << WEIR_IS_MASKED;
    return WEIR_OK;
}

static const char *const child_policies[] = {"uniform", "recent", "latest", NULL};
static const char *const visibilities[] = {"train", "all", "none", NULL};
static const char *const row_orders[] = {"rcm", "best", NULL};
static const char *const kept[] = {"keep", "omit", NULL};

/* Keys that came later than the first version are sparse: the hash of a manifest without them stays. */
static const weir__field fields[] = {
    {"sequence_length", WEIR__NUMBERS(weir_manifest, batch.lengths, 1, 65536), .otherwise = 1024},
    {"max_hops", WEIR__UINT(weir_manifest, batch.max_hops, 0, 64), .otherwise = 4},
    {"child_width", WEIR__UINT(weir_manifest, batch.child_width, 0, WIDTH_MAX), .otherwise = 16,
     .read = read_widths, .write = write_widths},
    {"child_policy", WEIR__WORD(weir_manifest, batch.child_policy, child_policies)},
    {"max_rows", WEIR__UINT(weir_manifest, batch.max_rows, 1, 65535), .otherwise = 256},
    {"pad_rows", WEIR__BOOL(weir_manifest, batch.pad_rows)},
    {"label_visibility", WEIR__WORD(weir_manifest, batch.label_visibility, visibilities),
     .read = read_label_visibility, .write = write_label_visibility},
    {"row_order", WEIR__WORD(weir_manifest, batch.row_order, row_orders), .flags = WEIR__SPARSE},
    {"identifiers", WEIR__WORD(weir_manifest, batch.omit_identifiers, kept), .flags = WEIR__SPARSE},
    {"blank_rows", WEIR__WORD(weir_manifest, batch.omit_blank_rows, kept), .flags = WEIR__SPARSE},
    {"context_until", WEIR__INT(weir_manifest, batch.context_until), .read = read_context_until,
     .has = offsetof(weir_manifest, batch.has_context_until), .flags = WEIR__SPARSE | WEIR__NULLABLE},
    {"strictly_before", WEIR__BOOL(weir_manifest, batch.strictly_before), .flags = WEIR__SPARSE},
    {"labels", WEIR__BOOL(weir_manifest, batch.labels), .flags = WEIR__SPARSE},
    {"mixed", WEIR__BOOL(weir_manifest, batch.mixed), .flags = WEIR__SPARSE},
    {"context_seed", WEIR__UINT(weir_manifest, batch.context_seed, 0, UINT64_MAX), .flags = WEIR__SPARSE},
    {"retrieval", WEIR__SPREAD(&retrieval_shape), .has = offsetof(weir_manifest, batch.has_retrieval),
     .flags = WEIR__SPARSE | WEIR__NULLABLE},
    {"since", WEIR__INT(weir_manifest, batch.since), .read = read_since, .write = write_since,
     .is_absent = has_no_since, .flags = WEIR__NULLABLE},
    {"tensors", WEIR__OTHER(read_tensors, write_tensors), .is_absent = lists_no_tensors},
    {"mask_permille", WEIR__UINT(weir_manifest, batch.mask_permille, 0, 1000), .flags = WEIR__SPARSE},
    {"links", WEIR__OBJECT(weir_manifest, batch.links, &links_shape), .flags = WEIR__SPARSE},
};
const weir__shape weir_sampler__batch_shape = WEIR__SHAPE(weir_manifest, fields, .check = check_batch);
