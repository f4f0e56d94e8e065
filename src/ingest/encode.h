/* What the files that write a store share. */
#ifndef WEIR_INGEST_ENCODE_H
#define WEIR_INGEST_ENCODE_H

#include "ingest/embed.h"
#include "ingest/state.h"
#include "store/writer.h"

/* The three embedding sections: columns, categories, texts. */
WEIR_CHECKED weir_status weir_ingest__write_embeddings(weir_ingest__ingest *ingest,
                                                       weir_ingest__embedder *embedder, weir_store__writer *w,
                                                       weir_error *error);

/* The primary keys of the tables that keep them: how, before the metadata is written; and the section. */
WEIR_CHECKED weir_status weir_ingest__choose_key_forms(weir_ingest__ingest *ingest, weir_error *error);
WEIR_CHECKED weir_status weir_ingest__write_keys(weir_ingest__ingest *ingest, weir_store__writer *w,
                                                 weir_error *error);

/* The section of labels, if a task's have a time. */
void weir_ingest__write_labels(const weir_ingest__ingest *ingest, weir_store__writer *w);

/* The section of links, if there is a link task. */
void weir_ingest__write_links(const weir_ingest__ingest *ingest, weir_store__writer *w);

#endif
