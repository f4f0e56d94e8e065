/* What the files that write a store share. */
#ifndef WEIR_INGEST_ENCODE_H
#define WEIR_INGEST_ENCODE_H

#include "ingest/embed.h"
#include "ingest/state.h"
#include "store/writer.h"

/* The three embedding sections: columns, categories, texts. */
WEIR_CHECKED weir_status weir__write_embeddings(weir__ingest *ingest, weir__embedder *embedder,
                                                weir__store_writer *w, weir_error *error);

/* The primary keys of the tables that keep them: how, before the metadata is written; and the section. */
WEIR_CHECKED weir_status weir__choose_key_forms(weir__ingest *ingest, weir_error *error);
WEIR_CHECKED weir_status weir__write_keys(weir__ingest *ingest, weir__store_writer *w, weir_error *error);

/* The section of labels, if a task's have a time. */
void weir__write_labels(const weir__ingest *ingest, weir__store_writer *w);

/* The section of links, if there is a link task. */
void weir__write_links(const weir__ingest *ingest, weir__store_writer *w);

#endif
