/* Opening a store: maps the file, checks the frame and the metadata, and points into the sections. Nothing
 * else is read, so that opening costs the same at any size. All that is followed here is checked: offsets
 * against the file, counts against the sections' sizes. */
#include <string.h>

#include "base/bytes.h"
#include "base/file.h"
#include "base/floating.h"
#include "base/options.h"
#include "store/reader.h"
#include "weir_tool/store_tools.h"

static const char operator_name[] = WEIR_STORE__OPERATOR;

enum { FORMAT_BYTES = 1 << 16 }; /* how far what is no store is read to say what it is */

/* ---- The frame ------------------------------------------------------------------------------- */

/* A file that does not begin as a store does: what it is instead, or how much of one is left. */
static weir_status refuse_format(const weir_store *store, weir_error *error) {
    const char *path = store->path;
    size_t size = store->size < FORMAT_BYTES ? store->size : FORMAT_BYTES;
    const weir_file_format *format = weir_file_format_of(store->data, size);
    bool is_cut = size >= 8 && memcmp(store->data, WEIR_STORE__MAGIC, 8) == 0;
    if (is_cut || (!format && size < WEIR_STORE__PAGE))
        return weir__fail(error, WEIR_STORE_CORRUPT, operator_name,
                          "%s is not a weir store: it has only %zu bytes", path, store->size);
    return weir__fail(error, WEIR_STORE_CORRUPT, operator_name,
                      "%s is %s%sa weir store; 'weir ingest' makes one of a database", path,
                      format ? format->name : "", format ? ", not " : "not ");
}

static weir_status check_header(const weir_store *store, weir_error *error) {
    uint8_t frame[WEIR_STORE__FRAME_MOST];
    uint8_t root[WEIR_HASH_SIZE];
    const uint8_t *data = store->data;
    const char *path = store->path;
    if (store->size < WEIR_STORE__PAGE || memcmp(data, WEIR_STORE__MAGIC, 8) != 0)
        return refuse_format(store, error);
    uint32_t version = weir__load32(data + 8);
    if (version < WEIR_STORE__VERSION_LEAST || version > WEIR_STORE__VERSION_MOST)
        return weir__fail(error, WEIR_STORE_VERSION, operator_name,
                          "%s has format version %u, this program reads versions %d and %d; ingest it again",
                          path, version, WEIR_STORE__VERSION_LEAST, WEIR_STORE__VERSION_MOST);
    uint32_t count = weir__load32(data + 12);
    bool has_frame = count >= WEIR_STORE__SECTIONS_LEAST && count <= WEIR_STORE__SECTIONS_MOST;
    size_t size = weir_store__frame_size(has_frame ? count : WEIR_STORE__SECTIONS_LEAST);
    memcpy(frame, data, size);
    memset(frame + WEIR_STORE__ROOT_OFFSET, 0, WEIR_HASH_SIZE);
    weir__blake3_of(frame, size, root);
    if (!has_frame || memcmp(root, data + WEIR_STORE__ROOT_OFFSET, WEIR_HASH_SIZE) != 0)
        return weir__fail(error, WEIR_STORE_CORRUPT, operator_name,
                          "the header of %s is damaged; " WEIR_STORE__MEND, path);
    return WEIR_OK;
}

static weir_status wrong_size(const weir_store *store, uint64_t expected, weir_error *error) {
    weir_status status = weir__fail(error, WEIR_STORE_CORRUPT, operator_name,
                                    "%s has %zu bytes instead of %llu; " WEIR_STORE__MEND, store->path,
                                    store->size, (unsigned long long)expected);
    weir__note_uint(error, "file_size", store->size);
    weir__note_uint(error, "expected", expected);
    return status;
}

/* Places are determined by the sizes: anything else is refused, so that no byte lies outside of a section
 * unseen. */
static weir_status read_sections(weir_store *store, weir_error *error) {
    uint64_t end = weir__load64(store->data + 16);
    uint64_t position = WEIR_STORE__PAGE;
    if (end < WEIR_STORE__PAGE || end > store->size)
        return wrong_size(store, end, error);
    uint32_t count = weir__load32(store->data + 12);
    bool fits = true;
    for (uint32_t i = 0; i < count && fits; i++) {
        const uint8_t *entry = store->data + WEIR_STORE__HEADER_SIZE + i * WEIR_STORE__SECTION_ENTRY_SIZE;
        weir_section *section = &store->sections[i];
        section->name = weir_store__section_name((weir_store__section_kind)(i + 1));
        section->offset = weir__load64(entry + 8);
        section->size = weir__load64(entry + 16);
        memcpy(section->hash, entry + 24, WEIR_HASH_SIZE);
        fits = weir__load32(entry) == i + 1 && section->offset == position && section->size <= end - position;
        position = fits ? weir__align(position + section->size, WEIR_STORE__PAGE) : position;
        fits = fits && position <= end;
    }
    if (!fits || position != end)
        return weir__fail(error, WEIR_STORE_CORRUPT, operator_name,
                          "the section table of %s is damaged; " WEIR_STORE__MEND, store->path);
    store->info.sections = store->sections;
    store->info.section_count = count;
    store->info.file_size = store->size;
    store->info.format = weir__load32(store->data + 8);
    memcpy(store->info.store_hash, store->data + WEIR_STORE__ROOT_OFFSET, WEIR_HASH_SIZE);
    return WEIR_OK;
}

/* The block hashes behind the sections, if they are there: *tail is NULL if not. */
static weir_status find_tail(const weir_store *store, const uint8_t **tail, weir_error *error) {
    static const uint8_t zeros[40];
    uint64_t end = weir__load64(store->data + 16);
    uint64_t size = weir_store__tail_size(store->sections);
    const uint8_t *at = store->data + end;
    *tail = NULL;
    if (store->size == end)
        return WEIR_OK;
    if (size == 0 || store->size - end != size)
        return wrong_size(store, size && store->size - end > size ? end + size : end, error);
    if (memcmp(at, WEIR_STORE__TAIL_MAGIC, 8) != 0 || weir__load32(at + 8) != WEIR_STORE__TAIL_VERSION ||
        weir__load32(at + 12) != WEIR__SUBTREE_SIZE ||
        weir__load64(at + 16) != weir_store__value_count(store->sections) ||
        memcmp(at + 24, zeros, sizeof zeros) != 0)
        return weir__fail(error, WEIR_STORE_CORRUPT, operator_name,
                          "the block hashes of %s are damaged; " WEIR_STORE__MEND, store->path);
    *tail = at;
    return WEIR_OK;
}

static weir_status read_metadata(weir_store *store, weir_error *error) {
    const weir_section *section = weir_store__section(store, WEIR_STORE__SECTION_METADATA);
    const uint8_t *bytes = store->data + section->offset;
    uint8_t hash[WEIR_HASH_SIZE];
    weir__blake3_of(bytes, (size_t)section->size, hash);
    if (memcmp(hash, section->hash, sizeof hash) != 0 ||
        weir_cbor_check(bytes, (size_t)section->size, NULL, NULL) != WEIR_OK)
        return weir__fail(error, WEIR_STORE_CORRUPT, operator_name,
                          "the metadata of %s is damaged; " WEIR_STORE__MEND, store->path);
    weir_cbor_value metadata = weir_cbor_view(bytes);
    return weir_store__metadata_read(&metadata, &store->arena, &store->info, error);
}

/* ---- Pointing into the sections -------------------------------------------------------------- */

/* Hands out a section's parts one after the other; `fits` stays false once one did not fit. */
typedef struct section_parts {
    const uint8_t *base;
    uint64_t size;
    uint64_t used;
    bool fits;
} section_parts;

static section_parts parts_of(const weir_store *store, weir_store__section_kind kind) {
    const weir_section *section = weir_store__section(store, kind);
    return (section_parts){store->data + section->offset, section->size, 0, true};
}

static const uint8_t *next_part(section_parts *parts, uint64_t count, uint64_t item_size) {
    uint64_t size;
    if (__builtin_mul_overflow(count, item_size, &size) || size > parts->size - parts->used) {
        parts->fits = false;
        return NULL;
    }
    const uint8_t *part = parts->base + parts->used;
    parts->used += size;
    return part;
}

static void skip_to(section_parts *parts, uint64_t alignment) {
    next_part(parts, weir__align(parts->used, alignment) - parts->used, 1);
}

static bool is_used_up(const section_parts *parts) {
    return parts->fits && parts->used == parts->size;
}

static bool point_into_rows(weir_store *store) {
    section_parts rows = parts_of(store, WEIR_STORE__SECTION_ROWS);
    weir_table *tables = (weir_table *)store->info.tables;
    for (uint32_t t = 0; t < store->info.table_count && rows.fits; t++) {
        skip_to(&rows, WEIR_STORE__TABLE_ALIGNMENT);
        tables[t].records = next_part(&rows, tables[t].row_count, tables[t].stride);
    }
    return is_used_up(&rows);
}

static bool point_into_edges(weir_store *store) {
    section_parts starts = parts_of(store, WEIR_STORE__SECTION_CHILD_STARTS);
    section_parts rows = parts_of(store, WEIR_STORE__SECTION_CHILD_ROWS);
    section_parts times = parts_of(store, WEIR_STORE__SECTION_CHILD_TIMES);
    weir_edge *edges = (weir_edge *)store->info.edges;
    for (uint32_t e = 0; e < store->info.edge_count; e++) {
        uint64_t parents = store->info.tables[edges[e].parent_table].row_count;
        edges[e].starts = next_part(&starts, parents + 1, 4);
        edges[e].child_rows = next_part(&rows, edges[e].edges, 4);
        if (edges[e].child_times)
            edges[e].child_times = next_part(&times, edges[e].edges, 8);
    }
    return is_used_up(&starts) && is_used_up(&rows) && is_used_up(&times);
}

static bool point_into_seeds(weir_store *store) {
    section_parts rows = parts_of(store, WEIR_STORE__SECTION_SEED_ROWS);
    section_parts times = parts_of(store, WEIR_STORE__SECTION_SEED_TIMES);
    section_parts targets = parts_of(store, WEIR_STORE__SECTION_SEED_TARGETS);
    section_parts bits = parts_of(store, WEIR_STORE__SECTION_SEED_BITS);
    weir_task *tasks = (weir_task *)store->info.tasks;
    for (uint32_t t = 0; t < store->info.task_count; t++) {
        weir_task *task = &tasks[t];
        task->seed_rows = next_part(&rows, task->seed_count, 4);
        if (task->seed_times)
            task->seed_times = next_part(&times, task->seed_count, 8);
        if (task->is_cell) {
            task->held_out =
                next_part(&bits, weir__bits_size(store->info.tables[task->anchor_table].row_count), 1);
        } else {
            task->seed_targets = next_part(&targets, task->seed_count, 8);
            task->seed_nulls = next_part(&bits, weir__bits_size(task->seed_count), 1);
        }
        if (task->weight_column)
            task->seed_weights = next_part(&targets, task->seed_count, 8);
    }
    return is_used_up(&rows) && is_used_up(&times) && is_used_up(&targets) && is_used_up(&bits);
}

/* And into the embeddings, if there are any. */
static bool point_into_texts(weir_store *store) {
    weir_store_info *info = &store->info;
    section_parts category_offsets = parts_of(store, WEIR_STORE__SECTION_CATEGORY_OFFSETS);
    section_parts text_offsets = parts_of(store, WEIR_STORE__SECTION_TEXT_OFFSETS);
    store->category_offsets = next_part(&category_offsets, (uint64_t)info->category_count + 1, 8);
    store->text_offsets = next_part(&text_offsets, (uint64_t)info->text_count + 1, 8);
    section_parts columns = parts_of(store, WEIR_STORE__SECTION_COLUMN_EMBEDDINGS);
    section_parts categories = parts_of(store, WEIR_STORE__SECTION_CATEGORY_EMBEDDINGS);
    section_parts texts = parts_of(store, WEIR_STORE__SECTION_TEXT_EMBEDDINGS);
    if (!is_used_up(&category_offsets) || !is_used_up(&text_offsets))
        return false;
    uint64_t size = 2 * (uint64_t)info->embedding_dim;
    if (size == 0)
        return columns.size == 0 && categories.size == 0 && texts.size == 0;
    info->column_embeddings = next_part(&columns, info->column_count, size);
    info->category_embeddings = next_part(&categories, info->category_count, size);
    info->text_embeddings = next_part(&texts, info->text_count, size);
    return is_used_up(&columns) && is_used_up(&categories) && is_used_up(&texts);
}

/* Whether a section that not every store has is there if it is needed. Else it is not, or empty, where one
 * that follows it is there. */
static bool is_where_needed(const weir_store *store, weir_store__section_kind kind, bool is_needed) {
    uint32_t sections = store->info.section_count;
    return is_needed ? sections >= kind : sections != kind;
}

static bool point_into_keys(weir_store *store) {
    section_parts keys = parts_of(store, WEIR_STORE__SECTION_KEYS);
    weir_table *tables = (weir_table *)store->info.tables;
    bool keeps_keys = false;
    for (uint32_t t = 0; t < store->info.table_count && keys.fits; t++) {
        weir_table *table = &tables[t];
        if (table->key_form == WEIR_KEYS_NONE)
            continue;
        keeps_keys = true;
        skip_to(&keys, WEIR_STORE__KEY_ALIGNMENT);
        table->keys = next_part(&keys, weir_store__keys_size(table), 1);
    }
    return is_used_up(&keys) && is_where_needed(store, WEIR_STORE__SECTION_KEYS, keeps_keys);
}

static bool point_into_labels(weir_store *store) {
    section_parts labels = parts_of(store, WEIR_STORE__SECTION_LABELS);
    weir_task *tasks = (weir_task *)store->info.tasks;
    bool has_labels = false;
    for (uint32_t t = 0; t < store->info.task_count; t++) {
        weir_label_list *lists[WEIR_STORE__LABEL_LISTS] = {&tasks[t].labels, &tasks[t].train_labels};
        uint64_t anchors = store->info.tables[tasks[t].anchor_table].row_count;
        for (int i = 0; i < WEIR_STORE__LABEL_LISTS && tasks[t].has_label_times && labels.fits; i++) {
            has_labels = true;
            skip_to(&labels, WEIR_STORE__LABEL_ALIGNMENT);
            lists[i]->times = next_part(&labels, lists[i]->count, 8);
            lists[i]->starts = next_part(&labels, anchors + 1, 4);
            lists[i]->rows = next_part(&labels, lists[i]->count, 4);
        }
    }
    return is_used_up(&labels) && is_where_needed(store, WEIR_STORE__SECTION_LABELS, has_labels);
}

static bool point_into_links(weir_store *store) {
    section_parts links = parts_of(store, WEIR_STORE__SECTION_LINKS);
    weir_task *tasks = (weir_task *)store->info.tasks;
    bool has_links = false;
    for (uint32_t t = 0; t < store->info.task_count && links.fits; t++) {
        weir_link *link = &tasks[t].link;
        if (!link->is_link)
            continue;
        uint64_t places = store->info.tables[link->table].row_count;
        uint64_t references = link->edge == WEIR_NONE ? 0 : store->info.edges[link->edge].edges;
        has_links = true;
        skip_to(&links, WEIR_STORE__LINK_ALIGNMENT);
        link->times = next_part(&links, places, 8);
        link->reference_times = next_part(&links, references, 8);
        link->rows = next_part(&links, places, 4);
        link->reference_places = next_part(&links, references, 4);
    }
    return is_used_up(&links) && is_where_needed(store, WEIR_STORE__SECTION_LINKS, has_links);
}

/* ---- Opening --------------------------------------------------------------------------------- */

static weir_status read_store(weir_store *store, const weir_store_options *options, weir_error *error) {
    const uint8_t *tail = NULL;
    WEIR__TRY(check_header(store, error));
    WEIR__TRY(read_sections(store, error));
    WEIR__TRY(find_tail(store, &tail, error));
    WEIR__TRY(weir_store__touched_open(store->touched, store->env, store->sections, store->data, tail,
                                       options->verify == WEIR_VERIFY_NONE, error));
    weir__floating kept = weir__enter_floating();
    weir_status status = read_metadata(store, error);
    weir__leave_floating(&kept);
    if (status == WEIR_OK && !(point_into_rows(store) && point_into_edges(store) && point_into_seeds(store) &&
                               point_into_texts(store) && point_into_keys(store) &&
                               point_into_labels(store) && point_into_links(store)))
        return weir__fail(error, WEIR_STORE_CORRUPT, operator_name,
                          "the metadata of %s does not fit its sections", store->path);
    if (status == WEIR_OK && options->verify == WEIR_VERIFY_ALL)
        status = weir_store_verify(store, options->threads, error);
    return status;
}

weir_status weir_store_status(const weir_store *store, weir_error *error) {
    weir_store__touched *touched = store->touched;
    if (weir_store__is_unreadable(store))
        return weir__fail(error, WEIR_IO_ERROR, operator_name,
                          "%s cannot be read any more: it was cut while it was in use, or its disk failed",
                          store->path);
    unsigned damaged = atomic_load(&touched->damaged);
    if (damaged == 0)
        return WEIR_OK;
    weir_status status = weir__fail(
        error, WEIR_STORE_CORRUPT, operator_name,
        "the section %s of %s is damaged, in the 64 KiB from byte %llu of it on; " WEIR_STORE__MEND,
        weir_store__section_name((weir_store__section_kind)damaged), store->path,
        (unsigned long long)atomic_load(&touched->at));
    weir__note_text(error, "path", store->path, strlen(store->path));
    return status;
}

bool weir_store_touch(const weir_store *store, const void *data, size_t size) {
    for (int i = 0; i < WEIR_STORE__SECTIONS_MOST; i++) {
        const weir_store__blocks *blocks = &store->touched->sections[i];
        uintptr_t offset = (uintptr_t)data - (uintptr_t)blocks->base;
        if (size > 0 && offset < blocks->size && size <= blocks->size - offset)
            return weir_store__touch_in(store, (weir_store__section_kind)(i + 1), data, size);
    }
    return size == 0;
}

weir_status weir_verify_parse(const char *text, weir_verify *out, weir_error *error) {
    static const char *const verify_names[] = {"touched", "none", "all"};
    for (int i = 0; i <= WEIR_VERIFY_ALL; i++)
        if (strcmp(text, verify_names[i]) == 0) {
            *out = (weir_verify)i;
            return WEIR_OK;
        }
    return weir__fail(error, WEIR_CONTRACT_VIOLATION, operator_name,
                      "verify is none, touched or all, not '%s'", text);
}

/* The mapping outlives the descriptor. */
static weir_status map_file(weir_store *store, const weir_store_options *options, weir_error *error) {
    const weir_env *env = store->env;
    const char *path = store->path;
    uint64_t size = 0;
    int file;
    weir_status status = weir__file_open(env, path, &file, operator_name, error);
    if (status != WEIR_OK)
        return status;
    if (env->size(env->context, file, &size) != 0)
        status = weir__io_error(error, operator_name, "read the size of", path);
    else if (size == 0)
        status =
            weir__fail(error, WEIR_STORE_CORRUPT, operator_name, "%s is not a weir store: it is empty", path);
    if (status == WEIR_OK) {
        store->data = env->map(env->context, file, (size_t)size);
        store->size = (size_t)size;
        store->is_mapped = store->data != NULL;
        if (!store->data)
            status = weir__io_error(error, operator_name, "map", path);
    }
    env->close(env->context, file);
    if (status != WEIR_OK)
        return status;
    store->is_guarded = env->guard(env->context, store->data, store->size, &store->touched->unreadable) == 0;
    /* Batches read rows that lie anywhere. What the system would read around them helps a store that stays in
     * memory; in one that does not, it pushes out what will be read again. */
    uint64_t memory = options->memory ? options->memory : env->memory_size(env->context);
    store->touched->is_scattered = size > memory / 2;
    if (store->touched->is_scattered)
        env->scatter(env->context, store->data, store->size);
    store->reads_ahead = options->reads_ahead || size > memory;
    return WEIR_OK;
}

weir_status weir_store_open_with(const weir_env *env, const char *path, const weir_store_options *given,
                                 weir_store **out, weir_error *error) {
    weir_store_options options;
    *out = NULL;
    WEIR__TRY(WEIR__TAKE_OPTIONS(options, given, weir_store_options, operator_name, error));
    if ((unsigned)options.verify > WEIR_VERIFY_ALL)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, operator_name, "there is no such way to verify: %d",
                          WEIR__LOW(int, options.verify));
    env = weir__env_or_default(env);
    weir_store *store = weir__allocate_zero(env, 1, sizeof *store);
    if (!store)
        return weir__out_of_memory(error, operator_name, sizeof *store);
    store->env = env;
    store->data = options.data;
    store->size = options.data_size;
    weir__arena_init(&store->arena, env);
    store->path = weir__arena_text(&store->arena, path, strlen(path));
    store->touched = weir__arena_take_zero(&store->arena, 1, sizeof *store->touched);
    store->commons = weir__arena_take_zero(&store->arena, 1, sizeof *store->commons);
    if (store->arena.is_short) {
        weir_store_close(store);
        return weir__out_of_memory(error, operator_name, sizeof *store->touched);
    }
    store->commons->env = env;
    weir_status status = options.data ? WEIR_OK : map_file(store, &options, error);
    if (status == WEIR_OK)
        status = read_store(store, &options, error);
    if (weir_store__is_unreadable(store)) /* that is what is wrong, whatever else seems to be */
        status = weir_store_status(store, error);
    if (status == WEIR_OK)
        *out = store;
    else
        weir_store_close(store);
    return status;
}

void weir_store__expect(const weir_store *store, const uint8_t *at) {
    weir_store__touched *touched = store->touched;
    size_t size = 1;
    for (int i = 0; i < WEIR_STORE__SECTIONS_MOST; i++) {
        const weir_store__blocks *blocks = &touched->sections[i];
        uint64_t offset = (uint64_t)(at - blocks->base);
        if (at < blocks->base || offset >= blocks->size || atomic_load(&blocks->left) == 0)
            continue;
        uint64_t block = offset >> WEIR_STORE__BLOCK_SHIFT, first = block << WEIR_STORE__BLOCK_SHIFT;
        if (weir_store__block_is_whole(blocks, block))
            break;
        at = blocks->base + first; /* it is read as a whole, to be verified */
        size =
            (size_t)(blocks->size - first < WEIR__SUBTREE_SIZE ? blocks->size - first : WEIR__SUBTREE_SIZE);
        break;
    }
    weir_store__ask_for(touched, at, size);
}

void weir_store__let_go(const weir_store *store) {
    if (store->is_mapped)
        store->env->forget(store->env->context, store->data, store->size, false);
}

weir_status weir_store_open(const weir_env *env, const char *path, weir_store **out, weir_error *error) {
    return weir_store_open_with(env, path, NULL, out, error);
}

weir_status weir_store_open_memory(const weir_env *env, const void *data, size_t size, weir_store **out,
                                   weir_error *error) {
    weir_store_options options = {.size = sizeof options, .data = data, .data_size = size};
    return weir_store_open_with(env, "the store", &options, out, error);
}

void weir_store_close(weir_store *store) {
    if (!store)
        return;
    const weir_env *env = store->env;
    if (store->is_guarded)
        env->unguard(env->context, store->data);
    if (store->is_mapped)
        env->unmap(env->context, (void *)store->data, store->size);
    if (store->touched)
        weir_store__touched_close(store->touched);
    if (store->commons)
        weir_store__commons_close(store->commons);
    weir__arena_release(&store->arena);
    weir__release(env, store);
}

const weir_store_info *weir_store_describe(const weir_store *store) {
    return &store->info;
}
