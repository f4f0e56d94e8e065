/* See stream.h. */
#include "base/stream.h"

enum { ENOUGH = 1 << 15 };

void weir__cbor_stream_to_hash(weir__cbor_stream *stream, const weir_env *env) {
    weir_cbor_writer_memory(&stream->writer, env);
    weir__sha256_init(&stream->sha);
    stream->file = NULL;
    stream->status = WEIR_OK;
}

void weir__cbor_stream_to_file(weir__cbor_stream *stream, const weir_env *env, weir__atomic_file *file) {
    weir__cbor_stream_to_hash(stream, env);
    stream->file = file;
}

static void pass_on(weir__cbor_stream *stream) {
    weir_cbor_writer *w = &stream->writer;
    weir__sha256_update(&stream->sha, w->data, w->size);
    if (stream->file && stream->status == WEIR_OK)
        stream->status = weir__atomic_write(stream->file, w->data, w->size, &stream->error);
    w->size = 0;
}

void weir__cbor_stream_drain(weir__cbor_stream *stream) {
    if (stream && stream->writer.size >= ENOUGH)
        pass_on(stream);
}

weir_status weir__cbor_stream_finish_hash(weir__cbor_stream *stream, uint8_t hash[WEIR_HASH_SIZE],
                                          weir_error *error) {
    weir_status status = weir_cbor_finish(&stream->writer, error);
    pass_on(stream);
    weir__sha256_final(&stream->sha, hash);
    weir_cbor_release(&stream->writer);
    if (status == WEIR_OK && stream->status != WEIR_OK) {
        if (error)
            *error = stream->error;
        status = stream->status;
    }
    return status;
}
