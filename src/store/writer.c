/* See writer.h. Bytes go through one buffer. A section's hash is taken of what is put, block by block: the
 * blocks' values are joined to it, and kept for the tail. A block waits until more follows, because a section
 * of one block has no values. The padding between sections is not part of it. The header's page is written as
 * zeros first and filled in before the rename. */
#include <string.h>

#include "base/bytes.h"
#include "store/writer.h"

enum { BUFFER_SIZE = 1 << 20, PIECE = WEIR__SUBTREE_SIZE };

static const char operator_name[] = "weir.store.write";

/* The system caches what one call writes as one piece, and maps a piece as a whole when a byte of it is read.
 */
static void flush(weir_store__writer *writer) {
    size_t most = writer->in_pieces ? PIECE : BUFFER_SIZE;
    for (size_t done = 0; done < writer->buffered && writer->status == WEIR_OK; done += most) {
        size_t rest = writer->buffered - done;
        writer->status = weir__atomic_write(&writer->file, writer->buffer + done, rest < most ? rest : most,
                                            writer->error);
    }
    writer->buffered = 0;
}

/* Appends to the file, outside of any hash. */
static void append(weir_store__writer *writer, const void *data, size_t size) {
    const uint8_t *at = data;
    writer->position += size;
    while (size > 0 && writer->status == WEIR_OK) {
        size_t room = BUFFER_SIZE - writer->buffered;
        size_t part = size < room ? size : room;
        memcpy(writer->buffer + writer->buffered, at, part);
        writer->buffered += part;
        at += part;
        size -= part;
        if (writer->buffered == BUFFER_SIZE)
            flush(writer);
    }
}

static void append_zeros_to(weir_store__writer *writer, uint64_t position) {
    static const uint8_t zeros[WEIR_STORE__PAGE];
    while (writer->position < position) {
        uint64_t missing = position - writer->position;
        append(writer, zeros, missing < sizeof zeros ? (size_t)missing : sizeof zeros);
    }
}

static void release_memory(weir_store__writer *writer) {
    weir__release(writer->env, writer->buffer);
    weir__release(writer->env, writer->block);
    weir__release(writer->env, writer->values);
    writer->buffer = writer->block = NULL;
    writer->values = NULL;
}

weir_status weir_store__writer_open(weir_store__writer *writer, const weir_env *env, const char *path,
                                    weir_error *error) {
    memset(writer, 0, sizeof *writer);
    writer->env = env;
    writer->format = 1;
    writer->error = error;
    writer->file.env = env;
    writer->file.file = -1;
    writer->buffer = weir__allocate(env, BUFFER_SIZE, 1);
    writer->block = weir__allocate(env, WEIR__SUBTREE_SIZE, 1);
    weir_status status = writer->buffer && writer->block
                             ? weir__atomic_open(&writer->file, env, path, operator_name, error)
                             : weir__out_of_memory(error, operator_name, BUFFER_SIZE);
    if (status != WEIR_OK) {
        release_memory(writer);
        return status;
    }
    append_zeros_to(writer, WEIR_STORE__PAGE);
    return WEIR_OK;
}

/* ---- Hashing --------------------------------------------------------------------------------- */

static uint8_t *value_at(const weir_store__writer *writer, size_t number) {
    return (uint8_t *)writer->values + number * WEIR__SUBTREE_VALUE;
}

static void hash_block(weir_store__writer *writer, const uint8_t *data, size_t size) {
    if (writer->status != WEIR_OK)
        return;
    if (!weir__grow(writer->env, &writer->values, &writer->value_capacity, writer->value_count + 1,
                    WEIR__SUBTREE_VALUE)) {
        writer->status = weir__out_of_memory(writer->error, operator_name, WEIR__SUBTREE_VALUE);
        return;
    }
    weir__blake3_subtree(data, size, writer->block_count++, value_at(writer, writer->value_count++));
}

static void hash_bytes(weir_store__writer *writer, const uint8_t *data, size_t size) {
    while (size > 0) {
        if (writer->block_size == WEIR__SUBTREE_SIZE) {
            hash_block(writer, writer->block, WEIR__SUBTREE_SIZE);
            writer->block_size = 0;
        }
        size_t part = WEIR__SUBTREE_SIZE - writer->block_size;
        part = size < part ? size : part;
        if (part == WEIR__SUBTREE_SIZE && size > part) { /* a whole block that more follows */
            hash_block(writer, data, part);
        } else {
            memcpy(writer->block + writer->block_size, data, part);
            writer->block_size += part;
        }
        data += part;
        size -= part;
    }
}

/* Bytes of the current section so far. */
static uint64_t size_so_far(const weir_store__writer *writer) {
    return writer->position - writer->sections[writer->section].offset;
}

static void end_section(weir_store__writer *writer) {
    weir__blake3 joiner;
    if (writer->section == 0)
        return;
    assert((writer->status != WEIR_OK ||
            writer->block_count * WEIR__SUBTREE_SIZE + writer->block_size == size_so_far(writer)) &&
           "a section's hash is of other bytes than were written");
    uint8_t *hash = writer->sections[writer->section].hash;
    writer->sections[writer->section].size = size_so_far(writer);
    if (writer->block_count == 0) {
        weir__blake3_of(writer->block, writer->block_size, hash);
    } else {
        hash_block(writer, writer->block, writer->block_size);
        if (writer->status == WEIR_OK) {
            weir__blake3_init(&joiner);
            weir__blake3_join(&joiner, value_at(writer, writer->value_count - writer->block_count),
                              writer->block_count);
            weir__blake3_final(&joiner, hash, WEIR_HASH_SIZE);
        }
    }
    append_zeros_to(writer, weir__align(writer->position, WEIR_STORE__PAGE));
}

/* Kinds that are left out on the way are empty sections. */
void weir_store__writer_begin(weir_store__writer *writer, weir_store__section_kind kind) {
    assert(WEIR__NARROW(int, kind) >= writer->section && kind <= WEIR_STORE__SECTIONS_MOST &&
           "sections are written in their order");
    while (writer->section < WEIR__NARROW(int, kind)) {
        end_section(writer);
        writer->section++;
        writer->sections[writer->section].offset = writer->position;
        writer->block_size = 0;
        writer->block_count = 0;
    }
}

void weir_store__writer_put(weir_store__writer *writer, const void *data, size_t size) {
    if (size == 0)
        return;
    assert(writer->section > 0 && "bytes outside of all sections");
    hash_bytes(writer, data, size);
    append(writer, data, size);
}

void weir_store__writer_put_rows(weir_store__writer *writer, const uint32_t *rows, size_t count,
                                 uint32_t first) {
    enum { TOGETHER = 1024 };
    uint8_t numbers[4 * TOGETHER];
    for (size_t done = 0; done < count;) {
        size_t some = count - done < TOGETHER ? count - done : TOGETHER;
        for (size_t i = 0; i < some; i++)
            weir__store32(numbers + 4 * i, rows[done + i] + first);
        weir_store__writer_put(writer, numbers, 4 * some);
        done += some;
    }
}

void weir_store__writer_put_words(weir_store__writer *writer, const uint32_t *values, size_t count) {
    weir_store__writer_put_rows(writer, values, count, 0);
}

void weir_store__writer_put_longs(weir_store__writer *writer, const int64_t *values, size_t count) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    weir_store__writer_put(writer, values, count * sizeof *values);
#else
    for (size_t i = 0; i < count; i++)
        weir_store__writer_put_long(writer, (uint64_t)values[i]);
#endif
}

void weir_store__writer_put_long(weir_store__writer *writer, uint64_t value) {
    uint8_t bytes[8];
    weir__store64(bytes, value);
    weir_store__writer_put(writer, bytes, sizeof bytes);
}

void weir_store__writer_align(weir_store__writer *writer, uint64_t to) {
    static const uint8_t zeros[WEIR_STORE__TABLE_ALIGNMENT];
    uint64_t size = size_so_far(writer);
    uint64_t missing = weir__align(size, to) - size;
    assert(missing <= sizeof zeros && "an alignment beyond that of tables");
    weir_store__writer_put(writer, zeros, (size_t)missing);
}

static size_t write_frame(const weir_store__writer *writer, uint64_t end,
                          uint8_t frame[WEIR_STORE__FRAME_MOST]) {
    size_t size = weir_store__frame_size(WEIR__NARROW(uint32_t, writer->section));
    memset(frame, 0, size);
    memcpy(frame, WEIR_STORE__MAGIC, 8);
    weir__store32(frame + 8, writer->format);
    weir__store32(frame + 12, WEIR__NARROW(uint32_t, writer->section));
    weir__store64(frame + 16, end);
    for (int kind = 1; kind <= writer->section; kind++) {
        uint8_t *entry = frame + WEIR_STORE__HEADER_SIZE + (kind - 1) * WEIR_STORE__SECTION_ENTRY_SIZE;
        weir__store32(entry, WEIR__NARROW(uint32_t, kind));
        weir__store64(entry + 8, writer->sections[kind].offset);
        weir__store64(entry + 16, writer->sections[kind].size);
        memcpy(entry + 24, writer->sections[kind].hash, WEIR_HASH_SIZE);
    }
    weir__blake3_of(frame, size, frame + WEIR_STORE__ROOT_OFFSET);
    return size;
}

weir_status weir_store__writer_finish(weir_store__writer *writer, uint8_t store_hash[WEIR_HASH_SIZE],
                                      uint64_t *file_size, weir_error *error) {
    uint8_t frame[WEIR_STORE__FRAME_MOST], tail[WEIR_STORE__TAIL_HEADER_SIZE] = {0};
    if (writer->section < WEIR_STORE__SECTIONS_LEAST)
        weir_store__writer_begin(writer, WEIR_STORE__SECTIONS_LEAST);
    end_section(writer);
    uint64_t end = writer->position;
    assert(end % WEIR_STORE__PAGE == 0 && "sections end inside of a page");
    if (writer->value_count > 0) { /* the block hashes */
        memcpy(tail, WEIR_STORE__TAIL_MAGIC, 8);
        weir__store32(tail + 8, WEIR_STORE__TAIL_VERSION);
        weir__store32(tail + 12, WEIR__SUBTREE_SIZE);
        weir__store64(tail + 16, writer->value_count);
        append(writer, tail, sizeof tail);
        append(writer, writer->values, writer->value_count * WEIR__SUBTREE_VALUE);
        append_zeros_to(writer, weir__align(writer->position, WEIR_STORE__PAGE));
    }
    flush(writer);
    weir_status status = writer->status;
    size_t frame_size = write_frame(writer, end, frame);
    if (status == WEIR_OK && !weir__write_at(writer->env, writer->file.file, frame, frame_size, 0))
        status = weir__io_error(error, operator_name, "write", writer->file.temporary);
    memcpy(store_hash, frame + WEIR_STORE__ROOT_OFFSET, WEIR_HASH_SIZE);
    *file_size = writer->position;
    return status;
}

weir_status weir_store__writer_commit(weir_store__writer *writer, weir_error *error) {
    weir_status status = weir__atomic_commit(&writer->file, error);
    if (status != WEIR_OK) {
        weir_store__writer_abandon(writer);
        return status;
    }
    release_memory(writer);
    return WEIR_OK;
}

void weir_store__writer_abandon(weir_store__writer *writer) {
    release_memory(writer);
    weir__atomic_abandon(&writer->file);
}
