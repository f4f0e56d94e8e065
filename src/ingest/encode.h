/* What the files that write a store share. */
#ifndef WEIR_INGEST_ENCODE_H
#define WEIR_INGEST_ENCODE_H

#include "ingest/embed.h"
#include "ingest/stages.h"
#include "store/writer.h"

/* What is written, and where. */
typedef struct weir_ingest__encoder {
    weir_ingest__context *context;
    const weir_ingest__plan *plan;
    const weir_ingest__ordered *ordered;
    const weir_ingest__linked *linked;
    const weir_ingest__tasks *tasks;
    weir_ingest__description *description;
    weir_store__writer *writer;
    const weir_ingest__string **category_texts; /* by CategoricalEmbeddingIdx: the value, */
    uint32_t *category_columns;                 /* and the ColumnIdx that it belongs to */
} weir_ingest__encoder;

/* Text number i of all tables. */
static inline const weir_ingest__string *weir_ingest__text_of(const weir_ingest__encoder *e, uint32_t i) {
    return e->ordered->texts.strings[e->ordered->text_order[i]];
}

/* The three embedding sections: columns, categories, texts. */
WEIR_CHECKED weir_status weir_ingest__write_embeddings(const weir_ingest__encoder *e,
                                                       weir_ingest__embedder *embedder, weir_error *error);

/* The primary keys of the tables that keep them: how, before the metadata is written; and the section. */
WEIR_CHECKED weir_status weir_ingest__choose_key_forms(const weir_ingest__encoder *e, weir_error *error);
WEIR_CHECKED weir_status weir_ingest__write_keys(const weir_ingest__encoder *e, weir_error *error);

/* The section of labels, if a task's have a time. */
void weir_ingest__write_labels(const weir_ingest__encoder *e);

/* The section of links, if there is a link task. */
void weir_ingest__write_links(const weir_ingest__encoder *e);

#endif
