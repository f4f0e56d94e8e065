/* Keys as people write them on the command line. */
#ifndef WEIR_CLI_KEY_TEXT_H
#define WEIR_CLI_KEY_TEXT_H

#include "cli.h"

enum { CLI_KEY_PARTS = 64 };

/* A whole number, a list in JSON of the values of several columns, or a text. Returns how many values it has.
 * They borrow the text and the document, which the caller has opened and releases after. */
uint32_t cli_key_read(const char *text, weir_cbor_writer *document, weir_key_value out[CLI_KEY_PARTS]);

/* The row of a table that has the key; digits may also be a text, and a text a real number, which `values`
 * then is. WEIR_NO_ROW if there is none. */
uint64_t cli_key_find(const weir_store *store, uint32_t table, weir_key_value *values, uint32_t count,
                      const char *text);

#endif
