/* Where ingest writes: the paths of store and manifest, and the refusal of any path whose file somebody may
 * still need. Both files take their names by a rename, which replaces whatever stands there without asking,
 * so everything is asked here, before the source is read.
 *
 * What must hold: store, manifest, source and schema are four different files, by device and inode and not
 * by spelling; and a file that is replaced is one that ingest could have written. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "ingest/kept_rows.h"
#include "store/format.h"

static weir_status refuse(weir_error *error, const char *path, const char *what) {
    return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_INGEST__OPERATOR, "%s %s", path, what);
}

/* ---- Which file a path is -------------------------------------------------------------------- */

static bool is_same_node(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* The folder that a path's last name is in. */
static bool look_at_folder(const char *path, struct stat *out) {
    char folder[sizeof((weir_ingest_report *)0)->store_path];
    const char *slash = strrchr(path, '/');
    size_t size = slash ? (size_t)(slash - path) + 1 : 0;
    if (size >= sizeof folder)
        return false;
    memcpy(folder, path, size);
    folder[size] = 0;
    return stat(size ? folder : ".", out) == 0;
}

/* Files that are not there yet are the same one where name and folder are. */
static bool is_same_file(const char *a, const char *b) {
    struct stat of_a, of_b;
    bool has_a = stat(a, &of_a) == 0, has_b = stat(b, &of_b) == 0;
    if (has_a || has_b)
        return has_a && has_b && is_same_node(&of_a, &of_b);
    return strcmp(weir_ingest__last_name(a), weir_ingest__last_name(b)) == 0 && look_at_folder(a, &of_a) &&
           look_at_folder(b, &of_b) && is_same_node(&of_a, &of_b);
}

/* ---- What is there already ------------------------------------------------------------------- */

enum { HEAD_SIZE = 64 };

/* The first bytes of a regular file; -1 if nothing is there, and a refusal for anything else. */
static weir_status read_head(const weir_env *env, const char *path, char head[HEAD_SIZE], ssize_t *size,
                             weir_error *error) {
    struct stat node;
    *size = -1;
    if (stat(path, &node) != 0)
        return WEIR_OK;
    if (!S_ISREG(node.st_mode))
        return refuse(error, path, "is no regular file; ingest does not replace it");
    int file = env->open(env->context, path, O_RDONLY, 0);
    if (file < 0)
        return weir__io_error(error, WEIR_INGEST__OPERATOR, "open", path);
    ssize_t got = env->read(env->context, file, head, HEAD_SIZE);
    weir_status status = got < 0 ? weir__io_error(error, WEIR_INGEST__OPERATOR, "read", path) : WEIR_OK;
    env->close(env->context, file);
    *size = got;
    return status;
}

/* ---- All of it ------------------------------------------------------------------------------- */

weir_status weir_ingest__choose_targets(const weir_env *env, const weir_ingest_options *options,
                                        const char *name, weir_ingest_report *report, weir_error *error) {
    const char *store = report->store_path, *manifest = report->manifest_path;
    size_t capacity = sizeof report->store_path;
    int size = options->output ? snprintf(report->store_path, capacity, "%s", options->output)
                               : snprintf(report->store_path, capacity, "%s.weir", name);
    if (size < 0 || (size_t)size >= capacity)
        return weir__fail(error, WEIR_IO_ERROR, WEIR_INGEST__OPERATOR, "the output's path is too long");
    size_t stem = (size_t)size;
    if (stem > 5 && strcmp(report->store_path + stem - 5, ".weir") == 0)
        stem -= 5;
    size = options->manifest ? snprintf(report->manifest_path, capacity, "%s", options->manifest)
                             : snprintf(report->manifest_path, capacity, "%.*s.manifest.json",
                                        WEIR__NARROW(int, stem), report->store_path);
    if (size < 0 || (size_t)size >= capacity)
        return weir__fail(error, WEIR_IO_ERROR, WEIR_INGEST__OPERATOR, "the manifest's path is too long");
    /* A source in the folder of the rows that are to be kept would be removed under ingest's eyes. */
    char folder[sizeof((weir_ingest_report *)0)->store_path + sizeof WEIR_INGEST__KEPT_ENDING];
    snprintf(folder, sizeof folder, "%s%s", store, WEIR_INGEST__KEPT_ENDING);
    const char *schema = options->schema ? options->schema_name : NULL;
    const struct {
        const char *needed, *target, *what;
    } clashes[] = {
        {manifest, store, "cannot be both the store and the manifest"},
        {options->source, store, "is the source; the store must be another file"},
        {options->source, manifest, "is the source; the manifest must be another file"},
        {schema, store, "is the schema; the store must be another file"},
        {schema, manifest, "is the schema; the manifest must be another file"},
        {options->like, store, "is the store of --like; the new store must be another file"},
        {options->like, manifest, "is the store of --like; the manifest must be another file"},
        {options->keep_rows ? options->source : NULL, folder,
         "is the source; rows cannot be kept there: choose another output"},
    };
    for (size_t i = 0; i < sizeof clashes / sizeof *clashes; i++)
        if (clashes[i].needed && is_same_file(clashes[i].needed, clashes[i].target))
            return refuse(error, clashes[i].target, clashes[i].what);
    enum { MAGIC_SIZE = sizeof WEIR_STORE__MAGIC - 1 };
    char head[HEAD_SIZE];
    ssize_t got, at = 0;
    WEIR__TRY(read_head(env, store, head, &got, error));
    if (got >= 0 && (got < MAGIC_SIZE || memcmp(head, WEIR_STORE__MAGIC, MAGIC_SIZE) != 0))
        return refuse(error, store,
                      "is there already and is not a store; delete it or choose another output");
    WEIR__TRY(read_head(env, manifest, head, &got, error));
    while (at < got && (head[at] == ' ' || head[at] == '\t' || head[at] == '\r' || head[at] == '\n'))
        at++;
    if (got >= 0 && (at == got || head[at] != '{'))
        return refuse(error, manifest,
                      "is there already and is no manifest; delete it or choose another manifest");
    return WEIR_OK;
}
