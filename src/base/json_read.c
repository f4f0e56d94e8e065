/* JSON text becomes canonical CBOR: jansson parses it strictly, the tree is written with sorted keys, and
 * everything above reads one kind of document, whatever notation it came in. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/floating.h"
#include "base/internal.h"
#include "weir/cbor.h"

static const char operator_name[] = "weir.json.read";

static int compare_keys(const void *a, const void *b) {
    const char *left = *(const char *const *)a;
    const char *right = *(const char *const *)b;
    return weir__key_compare(left, strlen(left), right, strlen(right));
}

static void write_value(json_t *value, weir_cbor_writer *w);

static void write_object(json_t *object, weir_cbor_writer *w) {
    size_t count = json_object_size(object);
    weir_cbor_map(w, count);
    if (w->status != WEIR_OK || count == 0)
        return;
    const weir_env *env = weir__env(w->env);
    const char **keys = weir__allocate(env, count, sizeof *keys);
    if (!keys) {
        w->status = WEIR_OUT_OF_MEMORY;
        w->fault = "no memory for the keys of an object";
        return;
    }
    size_t filled = 0;
    for (void *it = json_object_iter(object); it; it = json_object_iter_next(object, it))
        keys[filled++] = json_object_iter_key(it);
    qsort(keys, count, sizeof *keys, compare_keys);
    for (size_t i = 0; i < count && w->status == WEIR_OK; i++) {
        weir_cbor_text(w, keys[i]);
        write_value(json_object_get(object, keys[i]), w);
    }
    weir__release(env, keys);
}

/* Recursion ends where the writer refuses, at 64 levels. */
static void write_value(json_t *value, weir_cbor_writer *w) {
    if (w->status != WEIR_OK)
        return;
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        write_object(value, w);
        break;
    case JSON_ARRAY:
        weir_cbor_array(w, json_array_size(value));
        for (size_t i = 0; i < json_array_size(value) && w->status == WEIR_OK; i++)
            write_value(json_array_get(value, i), w);
        break;
    case JSON_STRING:
        weir_cbor_text_n(w, json_string_value(value), json_string_length(value));
        break;
    case JSON_INTEGER:
        weir_cbor_int(w, json_integer_value(value));
        break;
    case JSON_REAL:
        weir_cbor_double(w, json_real_value(value));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        weir_cbor_bool(w, json_is_true(value));
        break;
    case JSON_NULL:
        weir_cbor_null(w);
        break;
    }
}

/* jansson has a code for it, but mostly just gives up and says nothing, or calls it a syntax error: then
 * errno tells. */
static bool is_out_of_memory(const json_error_t *fault, int number) {
    return json_error_code(fault) == json_error_out_of_memory || fault->text[0] == 0 || number == ENOMEM;
}

static weir_status report_failure(const json_error_t *fault, int number, const char *name, weir_status family,
                                  weir_error *error) {
    if (is_out_of_memory(fault, number))
        return weir__fail(error, WEIR_OUT_OF_MEMORY, operator_name, "no memory to read %s", name);
    weir_status status = weir__fail(error, family, operator_name, "%s:%d:%d: not valid JSON: %s", name,
                                    fault->line, fault->column, fault->text);
    weir__note_uint(error, "line", fault->line < 0 ? 0 : (uint64_t)fault->line);
    weir__note_uint(error, "column", fault->column < 0 ? 0 : (uint64_t)fault->column);
    return status;
}

weir_status weir_json_read(const char *text, size_t size, const char *name, weir_status family,
                           weir_cbor_writer *w, weir_error *error) {
    json_error_t fault = {0};
    locale_t kept = weir__enter_c_locale();
    weir__floating floating = weir__enter_floating();
    errno = 0;
    json_t *tree = json_loadb(text ? text : "", size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &fault);
    int number = errno;
    weir__leave_floating(&floating);
    weir__leave_c_locale(kept);
    if (!tree)
        return report_failure(&fault, number, name, family, error);
    write_value(tree, w);
    json_decref(tree);
    if (w->status == WEIR_OK)
        return WEIR_OK;
    weir_status status = w->status == WEIR_OUT_OF_MEMORY ? WEIR_OUT_OF_MEMORY : family;
    return weir__fail(error, status, operator_name, "%s: %s", name, w->fault);
}
