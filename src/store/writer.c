/* See writer.h. Bytes go through one buffer; a section's hash is taken of what is put, the padding between
 * sections is not part of it. The header's page is written as zeros first and filled in before the rename. */
#include <string.h>

#include "base/bytes.h"
#include "store/writer.h"

enum { BUFFER_SIZE = 1 << 20 };

static const char operator_name[] = "weir.store.write";

static void flush(weir__store_writer *writer) {
    if (writer->status == WEIR_OK && writer->buffered > 0)
        writer->status = weir__atomic_write(&writer->file, writer->buffer, writer->buffered, writer->error);
    writer->buffered = 0;
}

/* Appends to the file, outside of any hash. */
static void append(weir__store_writer *writer, const void *data, size_t size) {
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

static void append_zeros_to(weir__store_writer *writer, uint64_t position) {
    static const uint8_t zeros[WEIR__PAGE];
    while (writer->position < position) {
        uint64_t missing = position - writer->position;
        append(writer, zeros, missing < sizeof zeros ? (size_t)missing : sizeof zeros);
    }
}

weir_status weir__store_writer_open(weir__store_writer *writer, const weir_env *env, const char *path,
                                    weir_error *error) {
    memset(writer, 0, sizeof *writer);
    writer->env = env;
    writer->error = error;
    writer->file.env = env;
    writer->file.file = -1;
    writer->buffer = weir__allocate(env, BUFFER_SIZE, 1);
    if (!writer->buffer)
        return weir__out_of_memory(error, operator_name, BUFFER_SIZE);
    weir_status status = weir__atomic_open(&writer->file, env, path, operator_name, error);
    if (status != WEIR_OK) {
        weir__release(env, writer->buffer);
        writer->buffer = NULL;
        return status;
    }
    append_zeros_to(writer, WEIR__PAGE);
    return WEIR_OK;
}

static void end_section(weir__store_writer *writer) {
    if (writer->section == 0)
        return;
    writer->sections[writer->section].size = weir__store_writer_size(writer);
    weir_blake3_final(&writer->hash, writer->sections[writer->section].hash, WEIR_HASH_SIZE);
    append_zeros_to(writer, weir__align(writer->position, WEIR__PAGE));
}

/* Kinds that are left out on the way are empty sections. */
void weir__store_writer_begin(weir__store_writer *writer, weir__section_kind kind) {
    while (writer->section < WEIR__NARROW(int, kind)) {
        end_section(writer);
        writer->section++;
        writer->sections[writer->section].offset = writer->position;
        weir_blake3_init(&writer->hash);
    }
}

void weir__store_writer_put(weir__store_writer *writer, const void *data, size_t size) {
    if (size == 0)
        return;
    weir_blake3_update(&writer->hash, data, size);
    append(writer, data, size);
}

uint64_t weir__store_writer_size(const weir__store_writer *writer) {
    return writer->position - writer->sections[writer->section].offset;
}

void weir__store_writer_align(weir__store_writer *writer, uint64_t to) {
    static const uint8_t zeros[WEIR__TABLE_ALIGNMENT];
    uint64_t size = weir__store_writer_size(writer);
    uint64_t missing = weir__align(size, to) - size;
    weir__store_writer_put(writer, zeros, (size_t)missing);
}

static void write_frame(const weir__store_writer *writer, uint8_t frame[WEIR__FRAME_SIZE]) {
    memset(frame, 0, WEIR__FRAME_SIZE);
    memcpy(frame, WEIR__STORE_MAGIC, 8);
    weir__store32(frame + 8, WEIR__STORE_VERSION);
    weir__store32(frame + 12, WEIR__SECTION_COUNT);
    weir__store64(frame + 16, writer->position);
    for (int kind = 1; kind <= WEIR__SECTION_COUNT; kind++) {
        uint8_t *entry = frame + WEIR__HEADER_SIZE + (kind - 1) * WEIR__SECTION_ENTRY_SIZE;
        weir__store32(entry, WEIR__NARROW(uint32_t, kind));
        weir__store64(entry + 8, writer->sections[kind].offset);
        weir__store64(entry + 16, writer->sections[kind].size);
        memcpy(entry + 24, writer->sections[kind].hash, WEIR_HASH_SIZE);
    }
    weir_blake3_of(frame, WEIR__FRAME_SIZE, frame + WEIR__ROOT_OFFSET);
}

static weir_status write_header(weir__store_writer *writer, const uint8_t *frame, weir_error *error) {
    const weir_env *env = writer->env;
    size_t done = 0;
    while (done < WEIR__FRAME_SIZE) {
        ssize_t written =
            env->pwrite(env->context, writer->file.file, frame + done, WEIR__FRAME_SIZE - done, done);
        if (written <= 0)
            return weir__io_error(error, operator_name, "write", writer->file.temporary);
        done += (size_t)written;
    }
    return WEIR_OK;
}

weir_status weir__store_writer_commit(weir__store_writer *writer, uint8_t store_hash[WEIR_HASH_SIZE],
                                      uint64_t *file_size, weir_error *error) {
    uint8_t frame[WEIR__FRAME_SIZE];
    weir__store_writer_begin(writer, WEIR__SECTION_COUNT);
    end_section(writer);
    flush(writer);
    weir_status status = writer->status;
    write_frame(writer, frame);
    if (status == WEIR_OK)
        status = write_header(writer, frame, error);
    if (status == WEIR_OK)
        status = weir__atomic_commit(&writer->file, error);
    if (status != WEIR_OK) {
        weir__store_writer_abandon(writer);
        return status;
    }
    memcpy(store_hash, frame + WEIR__ROOT_OFFSET, WEIR_HASH_SIZE);
    *file_size = writer->position;
    weir__release(writer->env, writer->buffer);
    writer->buffer = NULL;
    return WEIR_OK;
}

void weir__store_writer_abandon(weir__store_writer *writer) {
    weir__release(writer->env, writer->buffer);
    writer->buffer = NULL;
    weir__atomic_abandon(&writer->file);
}
