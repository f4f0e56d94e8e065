/* See fields.h. */
#include "base/fields.h"
#include "base/ascii.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- Members --------------------------------------------------------------------------------- */

static uint64_t load(const weir__field *field, const void *object) {
    const char *at = (const char *)object + field->offset;
    switch (field->size) {
    case 1:
        return *(const uint8_t *)at;
    case 2:
        return *(const uint16_t *)at;
    case 4:
        return *(const uint32_t *)at;
    default:
        return *(const uint64_t *)at;
    }
}

static void store(const weir__field *field, void *object, uint64_t value) {
    char *at = (char *)object + field->offset;
    switch (field->size) {
    case 1:
        *(uint8_t *)at = WEIR__NARROW(uint8_t, value);
        break;
    case 2:
        *(uint16_t *)at = WEIR__NARROW(uint16_t, value);
        break;
    case 4:
        *(uint32_t *)at = WEIR__NARROW(uint32_t, value);
        break;
    default:
        *(uint64_t *)at = value;
    }
}

static void *place(const weir__field *field, void *object) {
    return (char *)object + field->offset;
}

static const void *place_of(const weir__field *field, const void *object) {
    return (const char *)object + field->offset;
}

static uint32_t count_of(const weir__field *field, const void *object) {
    return *(const uint32_t *)((const char *)object + field->count);
}

static uint32_t *place_of_count(const weir__field *field, void *object) {
    return (uint32_t *)((char *)object + field->count);
}

static bool has(const weir__field *field, const void *object) {
    return *(const bool *)((const char *)object + field->has);
}

void weir__fill_defaults(const weir__shape *shape, void *object) {
    for (size_t i = 0; i < shape->count; i++) {
        const weir__field *field = &shape->fields[i];
        if (field->kind == WEIR__KIND_OBJECT && !field->has) {
            weir__fill_defaults(field->shape, place(field, object));
        } else if (field->kind == WEIR__KIND_NUMBERS) {
            *(uint32_t *)place(field, object) = WEIR__NARROW(uint32_t, field->otherwise);
            *place_of_count(field, object) = 1;
        } else if (field->otherwise) {
            store(field, object, field->otherwise);
        }
    }
}

static bool is_default(const weir__field *field, const void *object) {
    if (field->is_absent)
        return field->is_absent(object);
    if (field->has)
        return !has(field, object);
    switch (field->kind) {
    case WEIR__KIND_UINT:
    case WEIR__KIND_INT:
    case WEIR__KIND_BOOL:
    case WEIR__KIND_WORD:
        return load(field, object) == field->otherwise;
    case WEIR__KIND_TEXT:
        return *(const char *const *)place_of(field, object) == NULL;
    case WEIR__KIND_VIEW:
        return ((const weir_text *)place_of(field, object))->data == NULL;
    case WEIR__KIND_TEXTS:
    case WEIR__KIND_NAMES:
    case WEIR__KIND_LIST:
    case WEIR__KIND_MAP:
        return count_of(field, object) == 0;
    case WEIR__KIND_OBJECT:
        return weir__is_default(field->shape, place_of(field, object));
    case WEIR__KIND_NUMBERS:
        return count_of(field, object) == 1 && *(const uint32_t *)place_of(field, object) == field->otherwise;
    default:
        return false;
    }
}

bool weir__is_default(const weir__shape *shape, const void *object) {
    for (size_t i = 0; i < shape->count; i++)
        if (!is_default(&shape->fields[i], object))
            return false;
    return true;
}

/* ---- Paths and faults ------------------------------------------------------------------------ */

size_t weir__enter(weir__reader *r, const void *key, size_t size) {
    size_t length = strlen(r->path);
    const char *text = key;
    bool is_plain = size > 0;
    for (size_t i = 0; i < size; i++)
        is_plain = is_plain && (weir__is_letter_or_digit(text[i]) || text[i] == '_');
    snprintf(r->path + length, sizeof r->path - length, is_plain ? ".%.*s" : "[\"%.*s\"]",
             WEIR__NARROW(int, size < 200 ? size : 200), text);
    return length;
}

size_t weir__enter_item(weir__reader *r, uint64_t number) {
    size_t length = strlen(r->path);
    snprintf(r->path + length, sizeof r->path - length, "[%llu]", (unsigned long long)number);
    return length;
}

void weir__leave(weir__reader *r, size_t length) {
    r->path[length] = 0;
}

weir_status weir__refuse(const weir__reader *r, const char *key, const char *format, ...) {
    assert(r->family != WEIR_OK && "a reader without a status for what it refuses");
    char what[400], path[WEIR__PATH_MAX + 64], label[160] = "";
    weir_cbor_value text;
    WEIR__FORMAT(what, format);
    snprintf(path, sizeof path, "%s%s%s", r->path, key ? "." : "", key ? key : "");
    if (r->label && r->map && weir_cbor_get(r->map, r->label, &text) && text.type == WEIR_CBOR_TEXT)
        snprintf(label, sizeof label, " of '%.*s'", WEIR__NARROW(int, text.number < 120 ? text.number : 120),
                 (const char *)text.data);
    weir_status status = weir__fail(r->error, r->family, r->failure_operator, "%s%s%s: %s%s %s", r->name,
                                    r->meant ? " is not " : "", r->meant ? r->meant : "", path, label, what);
    weir__note_text(r->error, "path", path, strlen(path));
    return status;
}

weir_status weir__reader_take(weir__reader *r, size_t count, size_t size, void *out) {
    assert(r->arena && "a table with lists is read without an arena");
    void *memory = weir__arena_take_zero(r->arena, count, size);
    memcpy(out, &memory, sizeof memory);
    return memory ? WEIR_OK : weir__out_of_memory(r->error, r->failure_operator, count * size);
}

weir_status weir__reader_copy(weir__reader *r, const weir_cbor_value *text, const char **out) {
    assert(r->arena && "a table with texts is read without an arena");
    *out = weir__arena_text(r->arena, (const char *)text->data, (size_t)text->number);
    return *out ? WEIR_OK : weir__out_of_memory(r->error, r->failure_operator, (size_t)text->number);
}

/* ---- Reading one value ----------------------------------------------------------------------- */

static weir_status read_uint(weir__reader *r, const weir__field *field, const weir_cbor_value *value,
                             void *object) {
    uint64_t number = value->number;
    if (r->is_json ? !weir_cbor_get_uint(value, &number) : value->type != WEIR_CBOR_UINT)
        return weir__refuse(r, field->name, "must be an integer from 0 to 2^64-1%s",
                            r->is_json && field->most > INT64_MAX ? " (above 2^63-1 as a decimal string)"
                                                                  : "");
    if (number < field->least || number > field->most)
        return weir__refuse(r, field->name, "is %llu; it must be from %llu to %llu",
                            (unsigned long long)number, (unsigned long long)field->least,
                            (unsigned long long)field->most);
    store(field, object, number);
    return WEIR_OK;
}

static weir_status read_int(weir__reader *r, const weir__field *field, const weir_cbor_value *value,
                            void *object) {
    bool is_negative = value->type == WEIR_CBOR_NEGATIVE;
    if ((value->type != WEIR_CBOR_UINT && !is_negative) || value->number > INT64_MAX)
        return weir__refuse(r, field->name, "must be an integer from -2^63 to 2^63-1");
    store(field, object, is_negative ? ~value->number : value->number);
    return WEIR_OK;
}

static weir_status read_real(weir__reader *r, const weir__field *field, const weir_cbor_value *value,
                             void *object) {
    double real = value->real;
    if (r->is_json && value->type == WEIR_CBOR_UINT)
        real = (double)value->number;
    else if (r->is_json && value->type == WEIR_CBOR_NEGATIVE)
        real = -1 - (double)value->number;
    else if (value->type != WEIR_CBOR_FLOAT || !isfinite(real))
        return weir__refuse(r, field->name, "must be a number");
    memcpy(place(field, object), &real, sizeof real);
    return WEIR_OK;
}

/* A word of the list; of a constant, the only one. */
static weir_status read_word(weir__reader *r, const weir__field *field, const weir_cbor_value *value,
                             void *object) {
    char choices[200] = "must be";
    for (size_t i = field->least; field->words[i]; i++) {
        if (weir_cbor_is_text(value, field->words[i])) {
            if (field->kind == WEIR__KIND_WORD)
                store(field, object, i);
            return WEIR_OK;
        }
        size_t used = strlen(choices);
        const char *between = i == field->least ? "" : field->words[i + 1] ? "," : " or";
        snprintf(choices + used, sizeof choices - used, "%s \"%s\"", between, field->words[i]);
    }
    return weir__refuse(r, field->name, "%s", choices);
}

static bool is_text(const weir_cbor_value *value) {
    return value->type == WEIR_CBOR_TEXT && !memchr(value->data, 0, (size_t)value->number);
}

static weir_status read_text(weir__reader *r, const weir__field *field, const weir_cbor_value *value,
                             void *object) {
    if (!is_text(value)) /* a NUL inside would end it early for every C caller */
        return weir__refuse(r, field->name, "must be a string");
    if (value->number < field->least)
        return weir__refuse(r, field->name, "must be a string that is not empty");
    return weir__reader_copy(r, value, place(field, object));
}

/* Makes room for the items of a list or map. */
static weir_status begin_items(weir__reader *r, const weir__field *field, const weir_cbor_value *value,
                               size_t size, void *object, void *items) {
    if (value->number > INT32_MAX)
        return weir__refuse(r, field->name, "has too many items");
    *place_of_count(field, object) = WEIR__NARROW(uint32_t, value->number);
    return weir__reader_take(r, (size_t)value->number, size, items);
}

static weir_status read_texts(weir__reader *r, const weir__field *field, const weir_cbor_value *value,
                              void *object) {
    bool is_one = field->kind == WEIR__KIND_NAMES && value->type == WEIR_CBOR_TEXT;
    const char *wanted =
        field->kind == WEIR__KIND_NAMES ? "must be a name or a list of names" : "must be a list of strings";
    weir_cbor_value item = *value, list = *value;
    const char **texts;
    if (!is_one && value->type != WEIR_CBOR_ARRAY)
        return weir__refuse(r, field->name, "%s", wanted);
    list.number = is_one ? 1 : list.number;
    WEIR__TRY(begin_items(r, field, &list, sizeof *texts, object, &texts));
    weir_cbor_iterator it = weir_cbor_children(value);
    for (size_t i = 0; is_one ? i == 0 : weir_cbor_next(&it, NULL, &item); i++) {
        if (!is_text(&item))
            return weir__refuse(r, field->name, "%s", wanted);
        WEIR__TRY(weir__reader_copy(r, &item, &texts[i]));
    }
    memcpy(place(field, object), &texts, sizeof texts);
    return WEIR_OK;
}

weir_status weir__read_numbers(weir__reader *r, const char *key, const weir_cbor_value *value, uint64_t least,
                               uint64_t most, uint32_t *numbers, uint32_t capacity, uint32_t *count) {
    bool is_list = value->type == WEIR_CBOR_ARRAY, is_fine = !is_list || value->number > 0;
    weir_cbor_iterator it = weir_cbor_children(value);
    weir_cbor_value item = *value;
    uint64_t number = 0;
    *count = 0;
    while (is_fine && (is_list ? weir_cbor_next(&it, NULL, &item) : *count == 0)) {
        is_fine =
            weir_cbor_get_uint(&item, &number) && number >= least && number <= most && *count < capacity;
        if (is_fine)
            numbers[(*count)++] = WEIR__NARROW(uint32_t, number);
    }
    return is_fine
               ? WEIR_OK
               : weir__refuse(r, key,
                              "must be a whole number from %llu to %llu, or a list of 1 to %u such numbers",
                              (unsigned long long)least, (unsigned long long)most, capacity);
}

static weir_status read_bytes(weir__reader *r, const weir__field *field, const weir_cbor_value *value,
                              void *object) {
    if (value->type == WEIR_CBOR_BYTES && value->number == field->size) {
        memcpy(place(field, object), value->data, field->size);
        return WEIR_OK;
    }
    if (r->is_json && value->type == WEIR_CBOR_TEXT &&
        weir__hex_decode((const char *)value->data, (size_t)value->number, place(field, object), field->size))
        return WEIR_OK;
    return r->is_json ? weir__refuse(r, field->name, "must be %zu hex digits", 2 * field->size)
                      : weir__refuse(r, field->name, "must be %zu bytes", field->size);
}

uint64_t weir__room_of_items(const weir_cbor_value *list, const weir__shape *shape) {
    uint64_t least = 1; /* of an item: its head, and the keys, their heads and values */
    for (size_t i = 0; i < shape->count; i++)
        if ((shape->fields[i].flags & WEIR__REQUIRED) && !shape->fields[i].is_absent)
            least += strlen(shape->fields[i].name) + 2;
    uint64_t most = weir_cbor_size(list) / least + 1;
    return list->number < most ? list->number : most;
}

static weir_status read_items(weir__reader *r, const weir__field *field, const weir_cbor_value *value,
                              void *object) {
    bool is_map = field->kind == WEIR__KIND_MAP;
    weir_cbor_value key = {0}, item, list = *value;
    char *items;
    if (value->type != (is_map ? WEIR_CBOR_MAP : WEIR_CBOR_ARRAY))
        return weir__refuse(r, field->name, is_map ? "must be an object" : "must be a list");
    list.number = weir__room_of_items(value, field->shape);
    WEIR__TRY(begin_items(r, field, &list, field->shape->size, object, &items));
    memcpy(place(field, object), &items, sizeof items);
    size_t outer = weir__enter(r, field->name, strlen(field->name));
    weir_cbor_iterator it = weir_cbor_children(value);
    for (uint64_t i = 0; weir_cbor_next(&it, &key, &item); i++, items += field->shape->size) {
        assert(i < list.number && "items in fewer bytes than they need");
        size_t inner = is_map ? weir__enter(r, key.data, (size_t)key.number) : weir__enter_item(r, i);
        if (is_map && !is_text(&key))
            return weir__refuse(r, NULL, "has a NUL in its name");
        if (is_map)
            WEIR__TRY(weir__reader_copy(r, &key, (const char **)(void *)items));
        WEIR__TRY(weir__read(r, &item, field->shape, items));
        weir__leave(r, inner);
    }
    weir__leave(r, outer);
    return WEIR_OK;
}

weir_status weir__read_plain(weir__reader *r, const weir__field *field, const weir_cbor_value *value,
                             void *object) {
    size_t length;
    switch (field->kind) {
    case WEIR__KIND_UINT:
        return read_uint(r, field, value, object);
    case WEIR__KIND_INT:
        return read_int(r, field, value, object);
    case WEIR__KIND_REAL:
        return read_real(r, field, value, object);
    case WEIR__KIND_BOOL:
        if (value->type != WEIR_CBOR_BOOL)
            return weir__refuse(r, field->name, "must be true or false");
        store(field, object, value->number);
        return WEIR_OK;
    case WEIR__KIND_WORD:
    case WEIR__KIND_CONSTANT:
        return read_word(r, field, value, object);
    case WEIR__KIND_TEXT:
        return read_text(r, field, value, object);
    case WEIR__KIND_VIEW:
        if (value->type != WEIR_CBOR_TEXT)
            return weir__refuse(r, field->name, "must be a string");
        *(weir_text *)place(field, object) = (weir_text){(const char *)value->data, (size_t)value->number};
        return WEIR_OK;
    case WEIR__KIND_TEXTS:
    case WEIR__KIND_NAMES:
        return read_texts(r, field, value, object);
    case WEIR__KIND_NUMBERS:
        return weir__read_numbers(r, field->name, value, field->least, field->most, place(field, object),
                                  WEIR__NARROW(uint32_t, field->size / sizeof(uint32_t)),
                                  place_of_count(field, object));
    case WEIR__KIND_BYTES:
        return read_bytes(r, field, value, object);
    case WEIR__KIND_OBJECT:
        length = weir__enter(r, field->name, strlen(field->name));
        WEIR__TRY(weir__read(r, value, field->shape, place(field, object)));
        weir__leave(r, length);
        return WEIR_OK;
    case WEIR__KIND_LIST:
    case WEIR__KIND_MAP:
        return read_items(r, field, value, object);
    case WEIR__KIND_VALUE:
        memcpy(place(field, object), value, sizeof *value);
        return WEIR_OK;
    case WEIR__KIND_OTHER:
        break;
    }
    return WEIR_OK;
}

/* ---- Reading a map --------------------------------------------------------------------------- */

/* Refuses a key, and says which there are, as far as there is room. */
static weir_status refuse_key(weir__reader *r, const weir_cbor_value *key, const weir__shape *shape) {
    char names[240];
    weir__list_names(names, sizeof names, &shape->fields[0].name, sizeof shape->fields[0], shape->count);
    (void)weir__enter(r, key->data, (size_t)key->number);
    return weir__refuse(r, NULL, "%s; the keys here are %s", r->unknown, names);
}

/* Finds each field's value, NULL data if there is none; refuses keys that no field has. */
static weir_status find_values(weir__reader *r, const weir_cbor_value *map, const weir__shape *shape,
                               weir_cbor_value values[WEIR__FIELDS_MAX], bool is_there[WEIR__FIELDS_MAX]) {
    weir_cbor_iterator it = weir_cbor_children(map);
    weir_cbor_value key, value;
    memset(is_there, 0, shape->count * sizeof *is_there);
    while (weir_cbor_next(&it, &key, &value)) {
        size_t i = 0;
        while (i < shape->count && !weir_cbor_is_text(&key, shape->fields[i].name))
            i++;
        if (i < shape->count) {
            values[i] = value;
            is_there[i] =
                !r->skips_nulls || value.type != WEIR_CBOR_NULL || shape->fields[i].kind == WEIR__KIND_VALUE;
        } else if (r->unknown) {
            return refuse_key(r, &key, shape);
        }
    }
    return WEIR_OK;
}

/* What is no text where one must be is the reader's family: the type is wrong, not what it means. */
static weir_status family_of(const weir__field *field, bool is_there, const weir_cbor_value *value,
                             weir_status family) {
    bool takes_text =
        field->kind == WEIR__KIND_WORD || field->kind == WEIR__KIND_TEXT || field->kind == WEIR__KIND_VIEW;
    bool is_meant = field->family && !(is_there && takes_text && value->type != WEIR_CBOR_TEXT);
    return is_meant ? field->family : family;
}

weir_status weir__read(weir__reader *r, const weir_cbor_value *value, const weir__shape *shape,
                       void *object) {
    weir_cbor_value values[WEIR__FIELDS_MAX];
    bool is_there[WEIR__FIELDS_MAX];
    assert(shape->count <= WEIR__FIELDS_MAX && "a table has too many fields");
    if (value->type != WEIR_CBOR_MAP)
        return weir__refuse(r, NULL, "must be an object");
    weir__fill_defaults(shape, object);
    const weir_cbor_value *outer = r->map;
    weir_status family = r->family;
    r->map = value;
    WEIR__TRY(find_values(r, value, shape, values, is_there));
    for (size_t i = 0; i < shape->count; i++) {
        const weir__field *field = &shape->fields[i];
        r->family = family_of(field, is_there[i], &values[i], family);
        bool is_null = is_there[i] && (field->flags & WEIR__NULLABLE) && values[i].type == WEIR_CBOR_NULL;
        if (!is_there[i] && (field->flags & WEIR__REQUIRED) &&
            !(field->is_absent && field->is_absent(object)))
            return weir__refuse(r, field->name, "is missing");
        if (!is_there[i] || is_null || (field->flags & WEIR__WRITE_ONLY))
            continue;
        WEIR__TRY((field->read ? field->read : weir__read_plain)(r, field, &values[i], object));
        if (field->has)
            *(bool *)((char *)object + field->has) = true;
    }
    r->family = family;
    if (shape->check)
        WEIR__TRY(shape->check(r, object));
    r->map = outer;
    return WEIR_OK;
}

/* ---- Writing --------------------------------------------------------------------------------- */

static void write_items(weir_cbor_writer *w, const weir__field *field, const void *object) {
    uint32_t count = count_of(field, object);
    bool is_map = field->kind == WEIR__KIND_MAP;
    const char *items = *(const char *const *)place_of(field, object);
    if (is_map)
        weir_cbor_map(w, count);
    else
        weir_cbor_array(w, count);
    for (uint32_t i = 0; i < count; i++, items += field->shape->size) {
        if (is_map)
            weir_cbor_text(w, *(const char *const *)(const void *)items);
        weir__write(w, field->shape, items);
    }
}

void weir__write_numbers(weir_cbor_writer *w, const uint32_t *numbers, uint32_t count) {
    if (count > 1)
        weir_cbor_array(w, count);
    for (uint32_t i = 0; i < count; i++)
        weir_cbor_uint(w, numbers[i]);
}

static bool is_word(const char *const *words, uint64_t number) {
    while (number > 0 && *words) {
        words++;
        number--;
    }
    return *words != NULL;
}

void weir__write_plain(weir_cbor_writer *w, const weir__field *field, const void *object) {
    const void *at = place_of(field, object);
    switch (field->kind) {
    case WEIR__KIND_UINT:
        weir_cbor_uint(w, load(field, object));
        break;
    case WEIR__KIND_INT:
        weir_cbor_int(w, *(const int64_t *)at);
        break;
    case WEIR__KIND_REAL:
        weir_cbor_double(w, *(const double *)at);
        break;
    case WEIR__KIND_BOOL:
        weir_cbor_bool(w, *(const bool *)at);
        break;
    case WEIR__KIND_WORD:
        assert(is_word(field->words, load(field, object)) && "a number without a word");
        weir_cbor_text(w, field->words[load(field, object)]);
        break;
    case WEIR__KIND_CONSTANT:
        weir_cbor_text(w, field->words[0]);
        break;
    case WEIR__KIND_TEXT:
        weir_cbor_text(w, *(const char *const *)at);
        break;
    case WEIR__KIND_VIEW:
        weir_cbor_text_n(w, ((const weir_text *)at)->data, ((const weir_text *)at)->size);
        break;
    case WEIR__KIND_TEXTS:
    case WEIR__KIND_NAMES:
        weir_cbor_array(w, count_of(field, object));
        for (uint32_t i = 0; i < count_of(field, object); i++)
            weir_cbor_text(w, (*(const char *const *const *)at)[i]);
        break;
    case WEIR__KIND_NUMBERS:
        weir__write_numbers(w, at, count_of(field, object));
        break;
    case WEIR__KIND_BYTES:
        weir_cbor_bytes(w, at, field->size);
        break;
    case WEIR__KIND_OBJECT:
        weir__write(w, field->shape, at);
        break;
    case WEIR__KIND_LIST:
    case WEIR__KIND_MAP:
        write_items(w, field, object);
        break;
    case WEIR__KIND_VALUE: {
        const weir_cbor_value *value = at;
        weir_cbor_raw(w, value->item, weir_cbor_size(value));
        break;
    }
    case WEIR__KIND_OTHER:
        break;
    }
}

/* An insertion sort: tables are short, and those that are written often stand in canonical order. */
static void write_map(weir_cbor_writer *w, const weir__shape *shape, const void *object,
                      const uint8_t *hash) {
    const weir__field *sorted[WEIR__FIELDS_MAX];
    size_t sizes[WEIR__FIELDS_MAX]; /* of their names */
    size_t count = 0;
    assert(shape->count <= WEIR__FIELDS_MAX && "a table has too many fields");
    for (size_t i = 0; i < shape->count; i++) {
        const weir__field *field = &shape->fields[i];
        if ((field->flags & WEIR__READ_ONLY) || (field->is_absent && field->is_absent(object)) ||
            ((field->flags & WEIR__SPARSE) && is_default(field, object)))
            continue;
        size_t size = strlen(field->name), at = count++;
        for (; at > 0 && size <= sizes[at - 1] &&
               weir__key_compare(field->name, size, sorted[at - 1]->name, sizes[at - 1]) < 0;
             at--) {
            sorted[at] = sorted[at - 1];
            sizes[at] = sizes[at - 1];
        }
        sorted[at] = field;
        sizes[at] = size;
    }
    weir_cbor_map(w, count + (hash != NULL));
    if (hash) {
        weir_cbor_pair_bytes(w, "h", hash, WEIR_HASH_SIZE);
    }
    for (size_t i = 0; i < count; i++) {
        weir_cbor_text_n(w, sorted[i]->name, sizes[i]);
        if ((sorted[i]->flags & WEIR__NULLABLE) && is_default(sorted[i], object))
            weir_cbor_null(w);
        else
            (sorted[i]->write ? sorted[i]->write : weir__write_plain)(w, sorted[i], object);
    }
}

void weir__write(weir_cbor_writer *w, const weir__shape *shape, const void *object) {
    write_map(w, shape, object, NULL);
}

void weir__write_sealed(weir_cbor_writer *w, const weir__shape *shape, const void *object,
                        const uint8_t hash[WEIR_HASH_SIZE]) {
    write_map(w, shape, object, hash);
}

/* ---- Comparing ------------------------------------------------------------------------------- */

void weir__show(const weir_env *env, const weir_cbor_value *value, char out[WEIR__SHOWN_MAX]) {
    weir_json_writer w;
    weir_json_writer_memory(&w, env);
    if (!value)
        snprintf(out, WEIR__SHOWN_MAX, "(absent)");
    else if (weir_json_value(&w, value), weir_json_finish(&w, NULL) != WEIR_OK)
        snprintf(out, WEIR__SHOWN_MAX, "(no memory to show it)");
    else
        snprintf(out, WEIR__SHOWN_MAX, w.size < WEIR__SHOWN_MAX ? "%s" : "%.240s…", w.data);
    weir_json_release(&w);
}

bool weir__same(const weir_cbor_value *left, const weir_cbor_value *right, const char *key) {
    weir_cbor_value a, b;
    bool has_left = weir_cbor_get(left, key, &a), has_right = weir_cbor_get(right, key, &b);
    return has_left == has_right && (!has_left || weir_cbor_is_same(&a, &b));
}

static bool is_ignored(const weir_cbor_value *key, const char *const *ignored) {
    for (; ignored && *ignored; ignored++)
        if (weir_cbor_is_text(key, *ignored))
            return true;
    return false;
}

/* Both maps are sorted: one pass of a merge. */
bool weir__compare(const weir_env *env, const weir_cbor_value *left, const weir_cbor_value *right,
                   const char *const *ignored, weir__difference *difference) {
    weir_cbor_iterator left_it = weir_cbor_children(left), right_it = weir_cbor_children(right);
    weir_cbor_value left_key, left_value, right_key, right_value;
    bool has_left = weir_cbor_next(&left_it, &left_key, &left_value);
    bool has_right = weir_cbor_next(&right_it, &right_key, &right_value);
    while (has_left || has_right) {
        int order = !has_left    ? 1
                    : !has_right ? -1
                                 : weir__key_compare(left_key.data, (size_t)left_key.number, right_key.data,
                                                     (size_t)right_key.number);
        const weir_cbor_value *key = order <= 0 ? &left_key : &right_key;
        bool is_equal =
            is_ignored(key, ignored) || (order == 0 && weir_cbor_is_same(&left_value, &right_value));
        if (!is_equal) {
            size_t most = sizeof difference->field - 1;
            snprintf(difference->field, sizeof difference->field, "%.*s",
                     WEIR__NARROW(int, key->number < most ? key->number : most), (const char *)key->data);
            weir__show(env, order <= 0 ? &left_value : NULL, difference->left);
            weir__show(env, order >= 0 ? &right_value : NULL, difference->right);
            return true;
        }
        if (order <= 0)
            has_left = weir_cbor_next(&left_it, &left_key, &left_value);
        if (order >= 0)
            has_right = weir_cbor_next(&right_it, &right_key, &right_value);
    }
    return false;
}
