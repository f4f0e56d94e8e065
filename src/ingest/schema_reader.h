/* What the files that read a schema share. It is read by tables of fields (base/fields.h); the reader's
 * context is the schema. */
#ifndef WEIR_INGEST_SCHEMA_READER_H
#define WEIR_INGEST_SCHEMA_READER_H

#include "base/fields.h"
#include "ingest/schema.h"

extern const char *const weir_ingest__stypes[], *const weir_ingest__units[];
extern const weir__shape weir_ingest__schema_task_shape;

/* The fields "unit" and "format" of a struct that has a weir_ingest__time_form as `form`. */
#define WEIR_INGEST__FORM(type)                                                                              \
    {"unit", WEIR__WORD(type, form.unit, weir_ingest__units), .has = offsetof(type, form.says_unit)}, {      \
        "format", WEIR__OTHER(weir_ingest__schema_format, NULL), WEIR__AT(type, form)                        \
    }
WEIR_CHECKED weir_status weir_ingest__schema_format(weir__reader *r, const weir__field *field,
                                                    const weir_cbor_value *value, void *object);

/* ISO text, or an integer in `unit` if it is not NULL. */
WEIR_CHECKED weir_status weir_ingest__schema_moment(weir__reader *r, const char *key,
                                                    const weir_cbor_value *value,
                                                    const weir_ingest__unit *unit, int64_t *out);

/* A table and a column: a list of the two, or a text that is split at the first dot after the name of a
 * table. What it means is refused with `family`. */
WEIR_CHECKED weir_status weir_ingest__schema_joined(weir__reader *r, const char *key,
                                                    const weir_cbor_value *value, weir_status family,
                                                    weir_ingest__schema_name *out);

/* Foreign keys of all tables, and what needs them: when rows, cells and edges are known. The tables and
 * their columns have been read. */
WEIR_CHECKED weir_status weir_ingest__schema_join_tables(weir__reader *r, weir_ingest__schema *schema);

#endif
