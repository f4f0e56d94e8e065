/* weir batch --html OUT: the page itself is cli/batch_page/; what it knows (batch_page_data.h) is written
 * into it as one document, or of mixed batches as {"parts": [...]}, one for each dataset. */
#include "batch_html.h"

#include <stdlib.h>
#include <string.h>

#include "batch_page_data.h"
#include "cli.h"
#include "page.h"

/* What the page says of one dataset. */
typedef struct page_part {
    weir_json_writer writer;
    cli_batch_context context;
    cli_labels labels;
} page_part;

struct cli_batch_html {
    page_part *parts;
    uint32_t count; /* of them: 1, or the datasets of a mixed batch */
    bool is_mixed;
};

weir_status cli_batch_html_open(const cli_batch_context *context, const weir_batch *first,
                                cli_batch_html **out, weir_error *error) {
    uint32_t count = first->source_count;
    cli_batch_html *page = calloc(1, sizeof *page);
    page_part *parts = calloc(count ? count : 1, sizeof *parts);
    *out = NULL;
    if (!page || !parts) {
        free(page);
        free(parts);
        return cli_error(error, WEIR_OUT_OF_MEMORY, "no memory for a page");
    }
    *page = (cli_batch_html){.parts = parts, .count = count ? count : 1, .is_mixed = count > 0};
    weir_status status = WEIR_OK;
    for (uint32_t i = 0; i < page->count && status == WEIR_OK; i++) {
        page_part *part = &parts[i];
        weir_json_writer *w = &part->writer;
        weir_stored_dataset dataset;
        part->context = *context;
        if (page->is_mixed) {
            part->context.store = first->sources[i].store;
            part->context.dataset = first->sources[i].dataset;
        }
        const weir_store *store = part->context.store;
        cli_json_begin(w);
        status = weir_store_dataset(store, part->context.dataset, &dataset, error);
        if (status == WEIR_OK)
            status = cli_labels_count(store, dataset.task, dataset.split, dataset.cardinality, &part->labels,
                                      error);
        if (status != WEIR_OK)
            break;
        cli_batch_write_page_head(w, &part->context, &weir_store_describe(store)->tasks[dataset.task],
                                  &part->labels);
        cli_json_array(w, "steps");
    }
    if (status == WEIR_OK)
        *out = page;
    else
        cli_batch_html_close(page);
    return status;
}

void cli_batch_html_add(cli_batch_html *page, const weir_batch *batch) {
    for (uint32_t i = 0; i < page->count; i++)
        cli_batch_write_page_step(&page->parts[i].writer, batch, &page->parts[i].context, i,
                                  &page->parts[i].labels);
}

/* All parts as one document: {"parts": [...]}. */
static weir_status join_parts(const cli_batch_html *page, char **out, size_t *size, weir_error *error) {
    static const char before[] = "{\"parts\":[", after[] = "]}";
    size_t used = sizeof before - 1;
    *size = sizeof before + sizeof after + page->count;
    for (uint32_t i = 0; i < page->count; i++)
        *size += page->parts[i].writer.size;
    *out = malloc(*size);
    if (!*out)
        return cli_error(error, WEIR_OUT_OF_MEMORY, "no memory for a page");
    memcpy(*out, before, used);
    for (uint32_t i = 0; i < page->count; i++) {
        const weir_json_writer *w = &page->parts[i].writer;
        if (i > 0)
            (*out)[used++] = ',';
        memcpy(*out + used, w->data, w->size);
        used += w->size;
    }
    memcpy(*out + used, after, sizeof after - 1);
    *size = used + sizeof after - 1;
    return WEIR_OK;
}

weir_status cli_batch_html_write(cli_batch_html *page, const char *path, weir_error *error) {
    weir_status status = WEIR_OK;
    const weir_json_writer *only = &page->parts[0].writer;
    char *joined = NULL;
    size_t size = 0;
    for (uint32_t i = 0; i < page->count && status == WEIR_OK; i++) {
        weir_json_writer *w = &page->parts[i].writer;
        weir_json_end_array(w);
        weir_json_end_object(w);
        status = weir_json_finish(w, error);
    }
    if (status == WEIR_OK && page->is_mixed)
        status = join_parts(page, &joined, &size, error);
    if (status == WEIR_OK)
        status = cli_write_page(CLI_PAGE(batch), joined ? joined : only->data, joined ? size : only->size,
                                path, error);
    free(joined);
    return status;
}

void cli_batch_html_close(cli_batch_html *page) {
    if (!page)
        return;
    for (uint32_t i = 0; i < page->count; i++)
        weir_json_release(&page->parts[i].writer);
    free(page->parts);
    free(page);
}
