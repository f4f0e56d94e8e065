/* See demo_keep.h. */
#include "demo_keep.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_plain_file(const char *path) {
    struct stat node;
    return lstat(path, &node) == 0 && S_ISREG(node.st_mode);
}

/* ---- The schema ------------------------------------------------------------------------------ */

weir_status demo_keep_schema(const char *path, const char *own, size_t own_size, char **edited,
                             size_t *edited_size, weir_error *error) {
    *edited = NULL;
    *edited_size = 0;
    if (is_plain_file(path)) {
        weir_status status = cli_read_file(path, edited, edited_size, error);
        if (status != WEIR_OK || *edited_size != own_size || memcmp(*edited, own, own_size) != 0)
            return status;
        free(*edited);
        *edited = NULL;
    }
    if (unlink(path) != 0 && errno != ENOENT)
        return cli_error(error, WEIR_IO_ERROR, "cannot replace %s: %s", path, strerror(errno));
    return cli_write_file(path, own, own_size, error);
}

/* ---- The manifest ---------------------------------------------------------------------------- */

bool demo_has_manifest(const char *path) {
    return is_plain_file(path);
}

static weir_status read_document(const char *path, weir_cbor_writer *out, weir_error *error) {
    char *text = NULL;
    size_t size = 0;
    weir_cbor_writer_memory(out, NULL);
    weir_status status = cli_read_file(path, &text, &size, error);
    if (status == WEIR_OK)
        status = weir_json_read(text, size, path, WEIR_MANIFEST_INVALID, out, error);
    free(text);
    return status;
}

static bool is_same_item(const uint8_t *left, const uint8_t *right) {
    size_t size = (size_t)(weir_cbor_skip(left) - left);
    return size == (size_t)(weir_cbor_skip(right) - right) && memcmp(left, right, size) == 0;
}

/* Whether two documents have the same members, the datasets aside; in *same_datasets, whether those too. */
static bool has_same_settings(const weir_cbor_value *left, const weir_cbor_value *right,
                              bool *same_datasets) {
    weir_cbor_value key, value, other_key, other;
    *same_datasets = false;
    if (left->type != WEIR_CBOR_MAP || right->type != WEIR_CBOR_MAP || left->number != right->number)
        return false;
    bool is_same = true;
    weir_cbor_iterator it = weir_cbor_children(left), other_it = weir_cbor_children(right);
    while (weir_cbor_next(&it, &key, &value) && weir_cbor_next(&other_it, &other_key, &other)) {
        bool is_equal = is_same_item(key.item, other_key.item) && is_same_item(value.item, other.item);
        if (weir_cbor_is_text(&key, "datasets") && weir_cbor_is_text(&other_key, "datasets"))
            *same_datasets = is_equal;
        else if (!is_equal)
            is_same = false;
    }
    return is_same;
}

/* Whether the manifest at `path` was edited. One that cannot be read was; OUT_OF_MEMORY if nobody can know.
 */
static weir_status compare_with(const char *path, const weir_cbor_value *fresh, demo_kept *out,
                                weir_error *error) {
    weir_cbor_writer old;
    bool same_settings = false, same_datasets = false;
    weir_status status = read_document(path, &old, error);
    if (status == WEIR_OK) {
        weir_cbor_value there = weir_cbor_view(old.data);
        same_settings = has_same_settings(&there, fresh, &same_datasets);
    }
    weir_cbor_release(&old);
    *out = same_settings ? DEMO_MADE_ANEW : same_datasets ? DEMO_KEPT : DEMO_KEPT_ASIDE;
    return status == WEIR_OUT_OF_MEMORY ? status : WEIR_OK;
}

weir_status demo_keep_manifest(const char *path, const char *fresh, demo_kept *out, weir_error *error) {
    weir_cbor_writer document;
    weir_status status = read_document(fresh, &document, error);
    if (status == WEIR_OK) {
        weir_cbor_value value = weir_cbor_view(document.data);
        status = compare_with(path, &value, out, error);
    }
    weir_cbor_release(&document);
    if (status != WEIR_OK)
        return status;
    if (*out == DEMO_MADE_ANEW && rename(fresh, path) != 0)
        return cli_error(error, WEIR_IO_ERROR, "cannot replace %s: %s", path, strerror(errno));
    if (*out == DEMO_KEPT && unlink(fresh) != 0)
        return cli_error(error, WEIR_IO_ERROR, "cannot remove %s: %s", fresh, strerror(errno));
    return WEIR_OK;
}
