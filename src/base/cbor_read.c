/* The strict CBOR reader, in two halves. weir_cbor_check walks untrusted bytes once, from left to right,
 * and accepts exactly the canonical profile; the views then read accepted bytes without any check that
 * could fail. */
#include <string.h>

#include "base/bytes.h"
#include "base/internal.h"
#include "weir_tool/documents.h"

typedef struct head {
    unsigned major;
    unsigned info;
    uint64_t argument;
    size_t size;
} head;

typedef struct open_container {
    uint64_t remaining; /* items or pairs to come, the pair under way included */
    size_t offset;
    const uint8_t *key;
    uint64_t key_size;
    bool is_map;
    bool wants_value; /* a map's key has been read, its value has not */
} open_container;

typedef struct checker {
    const uint8_t *data;
    size_t size;
    size_t at;
    uint32_t depth;
    open_container open[WEIR_CBOR_DEPTH_MAX];
    size_t fault_offset;
    const char *fault;
} checker;

static size_t argument_size(unsigned info) {
    return info < 24 ? 0 : (size_t)1 << (info - 24);
}

static uint64_t load_argument(const uint8_t *at, unsigned info) {
    switch (info) {
    case 24:
        return at[1];
    case 25:
        return weir__load16be(at + 1);
    case 26:
        return weir__load32be(at + 1);
    case 27:
        return weir__load64be(at + 1);
    default:
        return info;
    }
}

static head load_head(const uint8_t *at) {
    unsigned info = at[0] & 31;
    return (head){.major = at[0] >> 5,
                  .info = info,
                  .argument = load_argument(at, info),
                  .size = 1 + argument_size(info)};
}

static bool fault_at(checker *c, size_t offset, const char *fault) {
    c->fault_offset = offset;
    c->fault = fault;
    return false;
}

/* The input ends inside an item that has begun, or where the innermost open container wants one more. */
static bool ends_early(checker *c, bool item_has_begun) {
    size_t offset = item_has_begun ? c->at : c->depth ? c->open[c->depth - 1].offset : 0;
    return fault_at(c, offset, "the input ends too early");
}

/* Reads the head at c->at: complete, known, shortest. */
static bool check_head(checker *c, head *h) {
    static const uint64_t least[] = {24, 0x100, 0x10000, 0x100000000};
    uint8_t first = c->data[c->at];
    unsigned major = first >> 5;
    unsigned info = first & 31;
    if (major == 6)
        return fault_at(c, c->at, "a tag");
    if (info > 27)
        return fault_at(c, c->at, "an indefinite length, a break or a reserved head");
    if (major == 7 && info != 27 && (info < 20 || info > 22))
        return fault_at(c, c->at, "a simple value or float that is not false, true, null or binary64");
    if (c->size - c->at < 1 + argument_size(info))
        return ends_early(c, true);
    *h = load_head(c->data + c->at);
    bool is_nan = major == 7 && (h->argument & 0x7FFFFFFFFFFFFFFFu) > 0x7FF0000000000000u;
    if (is_nan && h->argument != 0x7FF8000000000000u)
        return fault_at(c, c->at, "a NaN other than 7ff8000000000000");
    if (major != 7 && info >= 24 && h->argument < least[info - 24])
        return fault_at(c, c->at, "an integer or length that is not in shortest form");
    return true;
}

static bool check_string(checker *c, const head *h) {
    size_t available = c->size - c->at - h->size;
    const uint8_t *content = c->data + c->at + h->size;
    if (h->argument > available)
        return ends_early(c, true);
    if (h->major == 3 && !weir__utf8_is_valid(content, (size_t)h->argument))
        return fault_at(c, c->at, "text that is not valid UTF-8");
    return true;
}

static bool check_key(checker *c, const head *h) {
    open_container *map = &c->open[c->depth - 1];
    const uint8_t *key = c->data + c->at + h->size;
    if (map->key && weir__key_compare(map->key, (size_t)map->key_size, key, (size_t)h->argument) >= 0)
        return fault_at(c, c->at, "map keys out of order or twice");
    map->key = key;
    map->key_size = h->argument;
    return true;
}

static bool check_item(checker *c) {
    open_container *parent = c->depth ? &c->open[c->depth - 1] : NULL;
    bool is_key = parent && parent->is_map && !parent->wants_value;
    head h;
    if (c->at == c->size)
        return ends_early(c, false);
    if (is_key && c->data[c->at] >> 5 != 3)
        return fault_at(c, c->at, "a map key that is not text");
    if (!check_head(c, &h))
        return false;
    bool is_string = h.major == 2 || h.major == 3;
    if (is_string && !check_string(c, &h))
        return false;
    if (is_key && !check_key(c, &h))
        return false;
    if (parent) {
        parent->wants_value = is_key;
        parent->remaining -= !is_key;
    }
    if (h.major == 4 || h.major == 5) {
        if (c->depth == WEIR_CBOR_DEPTH_MAX)
            return fault_at(c, c->at, "arrays and maps nested more than 64 deep");
        c->open[c->depth++] =
            (open_container){.remaining = h.argument, .offset = c->at, .is_map = h.major == 5};
    }
    c->at += h.size + (is_string ? (size_t)h.argument : 0);
    while (c->depth > 0 && c->open[c->depth - 1].remaining == 0)
        c->depth--;
    return true;
}

weir_status weir_cbor_check(const void *data, size_t size, size_t *item_size, weir_error *error) {
    checker c = {.data = data, .size = size};
    bool accepted;
    do
        accepted = check_item(&c);
    while (accepted && c.depth > 0);
    if (accepted && !item_size && c.at < size)
        accepted = fault_at(&c, c.at, "bytes after the value");
    if (accepted) {
        if (item_size)
            *item_size = c.at;
        return WEIR_OK;
    }
    weir_status status =
        weir__fail(error, WEIR_CBOR_INVALID, "weir.cbor.decode",
                   "%s at byte %zu; only canonical CBOR is accepted", c.fault, c.fault_offset);
    weir__note_uint(error, "offset", c.fault_offset);
    weir__note_text(error, "fault", c.fault, strlen(c.fault));
    return status;
}

/* ---- Views of accepted bytes ----------------------------------------------------------------- */

static weir_cbor_value view_simple(const head *h, const uint8_t *at) {
    weir_cbor_value value = {.type = WEIR_CBOR_NULL, .item = at};
    if (h->info == 27) {
        value.type = WEIR_CBOR_FLOAT;
        value.number = h->argument;
        memcpy(&value.real, &h->argument, sizeof value.real);
    } else if (h->info != 22) {
        value.type = WEIR_CBOR_BOOL;
        value.number = h->info == 21;
    }
    return value;
}

weir_cbor_value weir_cbor_view(const void *item) {
    static const weir_cbor_type types[] = {WEIR_CBOR_UINT, WEIR_CBOR_NEGATIVE, WEIR_CBOR_BYTES,
                                           WEIR_CBOR_TEXT, WEIR_CBOR_ARRAY,    WEIR_CBOR_MAP};
    const uint8_t *at = item;
    head h = load_head(at);
    if (h.major == 7)
        return view_simple(&h, at);
    return (weir_cbor_value){.type = types[h.major], .number = h.argument, .data = at + h.size, .item = at};
}

const uint8_t *weir_cbor_skip(const uint8_t *item) {
    uint64_t pending = 1;
    while (pending > 0) {
        head h = load_head(item);
        item += h.size;
        pending--;
        if (h.major == 2 || h.major == 3)
            item += h.argument;
        else if (h.major == 4)
            pending += h.argument;
        else if (h.major == 5)
            pending += 2 * h.argument;
    }
    return item;
}

/* Canonical values are equal iff their bytes are. */
bool weir_cbor_is_same(const weir_cbor_value *left, const weir_cbor_value *right) {
    size_t size = weir_cbor_size(left);
    return size == weir_cbor_size(right) && memcmp(left->item, right->item, size) == 0;
}

weir_cbor_iterator weir_cbor_children(const weir_cbor_value *container) {
    bool is_map = container->type == WEIR_CBOR_MAP;
    bool has_children = is_map || container->type == WEIR_CBOR_ARRAY;
    return (weir_cbor_iterator){
        .next = container->data, .remaining = has_children ? container->number : 0, .is_map = is_map};
}

bool weir_cbor_next(weir_cbor_iterator *it, weir_cbor_value *key, weir_cbor_value *child) {
    if (it->remaining == 0)
        return false;
    it->remaining--;
    if (it->is_map) {
        weir_cbor_value found = weir_cbor_view(it->next);
        it->next = found.data + found.number;
        if (key)
            *key = found;
    }
    *child = weir_cbor_view(it->next);
    it->next = weir_cbor_skip(it->next);
    return true;
}

bool weir_cbor_is_text(const weir_cbor_value *value, const char *text) {
    size_t size = strlen(text);
    return value->type == WEIR_CBOR_TEXT && value->number == size && memcmp(value->data, text, size) == 0;
}

bool weir_cbor_get(const weir_cbor_value *map, const char *key, weir_cbor_value *out) {
    if (map->type != WEIR_CBOR_MAP)
        return false;
    weir_cbor_iterator it = weir_cbor_children(map);
    weir_cbor_value name, value;
    while (weir_cbor_next(&it, &name, &value))
        if (weir_cbor_is_text(&name, key)) {
            *out = value;
            return true;
        }
    return false;
}

bool weir_cbor_get_uint(const weir_cbor_value *value, uint64_t *out) {
    if (value->type == WEIR_CBOR_TEXT)
        return weir__decimal_parse((const char *)value->data, (size_t)value->number, out);
    if (value->type == WEIR_CBOR_UINT)
        *out = value->number;
    return value->type == WEIR_CBOR_UINT;
}
