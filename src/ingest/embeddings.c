/* The embedding sections: texts are handed to the embedder in batches, several at once, and the vectors
 * written in order. Memory is one batch a caller. */
#include <string.h>

#include "base/bytes.h"
#include "ingest/encode.h"

typedef struct embed_batch {
    weir_ingest__embedder *embedder;
    weir__arena texts; /* of texts that are made for the purpose */
    weir_ingest__bytes *list;
    size_t count;
    uint16_t *vectors;
    bool is_short_of_memory;
} embed_batch;

/* Text number i of a section; made in the arena where it does not lie somewhere already. False: no memory. */
typedef bool (*text_maker)(const weir_ingest__encoder *e, uint32_t index, weir__arena *arena,
                           weir_ingest__bytes *out);

static bool column_text(const weir_ingest__encoder *e, uint32_t index, weir__arena *arena,
                        weir_ingest__bytes *out) {
    const weir_column *column = &e->description->columns[index];
    const char *owner = column->task != WEIR_NONE ? e->description->tasks[column->task].name
                                                  : e->description->tables[column->table].name;
    const char *text = weir__arena_format(arena, "%s of %s%s%s", column->name, owner,
                                          *column->description ? ": " : "", column->description);
    *out = (weir_ingest__bytes){text, text ? strlen(text) : 0};
    return text != NULL;
}

static bool category_text(const weir_ingest__encoder *e, uint32_t index, weir__arena *arena,
                          weir_ingest__bytes *out) {
    const weir_ingest__string *value = e->category_texts[index];
    const char *name = e->description->columns[e->category_columns[index]].name;
    size_t before = strlen(name) + strlen(" is ");
    char *text = weir__arena_take(arena, before + value->size + 1);
    if (!text)
        return false;
    memcpy(stpcpy(stpcpy(text, name), " is "), value->bytes, value->size);
    *out = (weir_ingest__bytes){text, before + value->size};
    return true;
}

static bool text_text(const weir_ingest__encoder *e, uint32_t index, weir__arena *arena,
                      weir_ingest__bytes *out) {
    const weir_ingest__string *string = weir_ingest__text_of(e, index);
    (void)arena;
    *out = (weir_ingest__bytes){string->bytes, string->size};
    return true;
}

static weir_status run_batch(void *argument, size_t index, uint32_t worker, weir_error *error) {
    embed_batch *batch = &((embed_batch *)argument)[index];
    (void)worker;
    if (batch->is_short_of_memory)
        return weir__out_of_memory(error, WEIR_INGEST__EMBED_OPERATOR, 1);
    return batch->count > 0 ? batch->embedder->kind->embed(batch->embedder, batch->list, batch->count,
                                                           batch->vectors, error)
                            : WEIR_OK;
}

static weir_status write_section(const weir_ingest__encoder *e, embed_batch *batches, uint32_t callers,
                                 weir_store__section_kind kind, text_maker make, uint32_t count,
                                 weir_error *error) {
    weir_store__writer *w = e->writer;
    weir_store__writer_begin(w, kind);
    for (uint32_t first = 0; first < count;) {
        uint32_t start = first;
        for (uint32_t b = 0; b < callers; b++) {
            embed_batch *batch = &batches[b];
            weir__arena_release(&batch->texts);
            for (batch->count = 0; batch->count < batch->embedder->batch_max && first < count; first++)
                if (!make(e, first, &batch->texts, &batch->list[batch->count++]))
                    batch->is_short_of_memory = true;
        }
        WEIR__TRY(weir_ingest__for_each(e->context, callers, callers, run_batch, batches, error));
        for (uint32_t b = 0; b < callers; b++) {
            uint16_t *vectors = batches[b].vectors;
            size_t numbers = batches[b].count * batches[b].embedder->dim;
            for (size_t i = 0; i < numbers; i++)
                vectors[i] = WEIR__LE16(vectors[i]);
            weir_store__writer_put(w, vectors, numbers * sizeof *vectors);
        }
        if (!weir_ingest__advance(e->context, first - start))
            return weir_ingest__cancelled(error);
    }
    return WEIR_OK;
}

weir_status weir_ingest__write_embeddings(const weir_ingest__encoder *e, weir_ingest__embedder *embedder,
                                          weir_error *error) {
    const weir_store_info *info = &e->description->info;
    uint32_t callers = embedder->kind->callers ? embedder->kind->callers : e->context->threads;
    callers = callers < WEIR__THREADS_MAX ? callers : WEIR__THREADS_MAX;
    size_t numbers = embedder->batch_max * embedder->dim; /* gigabytes at worst: not to be zeroed */
    weir__arena memory;
    weir__arena_init(&memory, e->context->env);
    embed_batch *batches = weir__arena_take_zero(&memory, callers, sizeof *batches);
    for (uint32_t b = 0; b < callers && !memory.is_short; b++) {
        batches[b].embedder = embedder;
        weir__arena_init(&batches[b].texts, e->context->env);
        batches[b].list = weir__arena_take(&memory, embedder->batch_max * sizeof *batches[b].list);
        batches[b].vectors = weir__arena_take(&memory, numbers * sizeof *batches[b].vectors);
    }
    weir_status status = WEIR_OK;
    if (memory.is_short)
        status = weir__out_of_memory(error, WEIR_INGEST__EMBED_OPERATOR, numbers);
    else
        weir_ingest__begin_phase(e->context, "embed",
                                 (uint64_t)info->column_count + info->category_count + info->text_count, 0);
    if (status == WEIR_OK)
        status = write_section(e, batches, callers, WEIR_STORE__SECTION_COLUMN_EMBEDDINGS, column_text,
                               info->column_count, error);
    if (status == WEIR_OK)
        status = write_section(e, batches, callers, WEIR_STORE__SECTION_CATEGORY_EMBEDDINGS, category_text,
                               info->category_count, error);
    if (status == WEIR_OK)
        status = write_section(e, batches, callers, WEIR_STORE__SECTION_TEXT_EMBEDDINGS, text_text,
                               info->text_count, error);
    for (uint32_t b = 0; batches && b < callers; b++)
        weir__arena_release(&batches[b].texts);
    weir__arena_release(&memory);
    return status;
}
