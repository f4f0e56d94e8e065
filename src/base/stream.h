/* A CBOR value too large to hold, written through a small buffer into a hash or into a file: the writer's
 * own memory is drained whenever it has grown enough, between two items. */
#ifndef WEIR_BASE_STREAM_H
#define WEIR_BASE_STREAM_H

#include "base/file.h"
#include "base/hash.h"
#include "weir_tool/documents.h"

typedef struct weir__cbor_stream {
    weir_cbor_writer writer;
    weir__sha256 sha;
    weir__atomic_file *file; /* NULL: only the hash */
    weir_status status;      /* the first failed write to the file */
    weir_error error;
} weir__cbor_stream;

void weir__cbor_stream_to_hash(weir__cbor_stream *stream, const weir_env *env);
void weir__cbor_stream_to_file(weir__cbor_stream *stream, const weir_env *env, weir__atomic_file *file);

/* Between two items: passes the bytes on if there are enough of them. NULL does nothing. */
void weir__cbor_stream_drain(weir__cbor_stream *stream);

/* Ends it, frees the buffer, and gives the SHA-256 of the whole value. */
WEIR_CHECKED weir_status weir__cbor_stream_finish_hash(weir__cbor_stream *stream,
                                                       uint8_t hash[WEIR_HASH_SIZE], weir_error *error);

#endif
