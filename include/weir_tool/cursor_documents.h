/* weir_tool/cursor_documents.h: cursors as a document. */
#ifndef WEIR_TOOL_CURSOR_DOCUMENTS_H
#define WEIR_TOOL_CURSOR_DOCUMENTS_H

#include "weir/cursors.h"

/* Writes all cursors as one canonical CBOR map that holds a hash of itself. */
void weir_cursors_write(const weir_cursors *cursors, weir_cbor_writer *w);

/* Takes over the cursors that were written, of any world size. CBOR_INVALID; CHECKPOINT_MISMATCH if they are
 * damaged or another manifest's or token's. Then all is as it was. */
WEIR_CHECKED weir_status weir_cursors_restore(weir_cursors *cursors, const void *data, size_t size,
                                              weir_error *error);

#endif
