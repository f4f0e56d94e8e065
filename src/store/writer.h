/* Writes a store file: sections one after the other in the order of their kinds, then the header.
 *
 *   weir_store__writer writer;
 *   status = weir_store__writer_open(&writer, env, path, error);
 *   weir_store__writer_begin(&writer, WEIR_STORE__SECTION_METADATA);
 *   weir_store__writer_put(&writer, data, size);                  any number of times
 *   …
 *   status = weir_store__writer_finish(&writer, store_hash, &file_size, error);
 *   status = weir_store__writer_commit(&writer, error);                            or …_abandon
 *
 * After them it writes the hashes of their blocks (docs/spec/04b-block-hashes.md). Sections that are not
 * begun are empty; those beyond the ones that every store has are not there. A fault sticks and is reported
 * by finish, after which the file is a store that can be opened under its temporary name
 * (writer.file.temporary). Commit renames it, abandon removes it. */
#ifndef WEIR_STORE_WRITER_H
#define WEIR_STORE_WRITER_H

#include "base/file.h"
#include "base/hash.h"
#include "store/format.h"

typedef struct weir_store__writer {
    weir__atomic_file file;
    uint32_t format; /* version; 1, unless somebody sets it before the end */
    bool in_pieces;  /* writes 64 KiB at a time: who maps the file next, and jumps about in it, has little
                        memory. May be set at any time; large pieces are mapped by fewer faults */
    const weir_env *env;
    weir_error *error;
    weir_status status;
    uint8_t *buffer;
    size_t buffered;
    uint64_t position; /* in the file, the buffer included */
    int section;       /* the current kind, 0 before the first */
    uint8_t *block;    /* of the current section: what is not hashed yet, up to 64 KiB */
    size_t block_size;
    uint64_t block_count; /* that are hashed, of the current section */
    void *values;         /* of the sections' blocks, for the tail */
    size_t value_count;
    size_t value_capacity;
    struct {
        uint64_t offset;
        uint64_t size;
        uint8_t hash[WEIR_HASH_SIZE];
    } sections[WEIR_STORE__SECTIONS_MOST + 1];
} weir_store__writer;

WEIR_CHECKED weir_status weir_store__writer_open(weir_store__writer *writer, const weir_env *env,
                                                 const char *path, weir_error *error);
void weir_store__writer_begin(weir_store__writer *writer, weir_store__section_kind kind);
void weir_store__writer_put(weir_store__writer *writer, const void *data, size_t size);
/* Rows, each by its place in its table, as the numbers that begin at `first`. */
void weir_store__writer_put_rows(weir_store__writer *writer, const uint32_t *rows, size_t count,
                                 uint32_t first);
/* Numbers, as little-endian bytes. */
void weir_store__writer_put_words(weir_store__writer *writer, const uint32_t *values, size_t count);
void weir_store__writer_put_longs(weir_store__writer *writer, const int64_t *values, size_t count);
void weir_store__writer_put_long(weir_store__writer *writer, uint64_t value);
/* Zeros up to a multiple of `to` bytes from the section's beginning. */
void weir_store__writer_align(weir_store__writer *writer, uint64_t to);
WEIR_CHECKED weir_status weir_store__writer_finish(weir_store__writer *writer,
                                                   uint8_t store_hash[WEIR_HASH_SIZE], uint64_t *file_size,
                                                   weir_error *error);
WEIR_CHECKED weir_status weir_store__writer_commit(weir_store__writer *writer, weir_error *error);
void weir_store__writer_abandon(weir_store__writer *writer);

#endif
