/* See batch_npz.h. A zip archive with stored entries is a local header and the data for each file, then a
 * directory of all of them. Entries of 4 GiB or more would need zip64 and are refused. */
#include "batch_npz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "cli.h"

enum {
    LOCAL_SIGNATURE = 0x04034B50,
    DIRECTORY_SIGNATURE = 0x02014B50,
    END_SIGNATURE = 0x06054B50,
    VERSION = 20,
    DATE_1980_01_01 = 0x21, /* no wall-clock time: the same batch gives the same file */
    NPY_ALIGNMENT = 64,
};

typedef struct entry {
    char name[64];
    uint32_t crc;
    uint32_t size;
    uint32_t offset;
} entry;

typedef struct archive {
    FILE *file;
    uint64_t offset;
    entry entries[WEIR_BATCH_PARTS];
    size_t entry_count;
} archive;

/* After a failure nothing more is tried, so that errno still tells of it at the end. */
static void put(archive *a, const void *data, size_t size) {
    if (!ferror(a->file))
        fwrite(data, 1, size, a->file);
    a->offset += size;
}

static void put16(archive *a, uint32_t value) {
    const uint8_t bytes[2] = {(uint8_t)value, (uint8_t)(value >> 8)};
    put(a, bytes, sizeof bytes);
}

static void put32(archive *a, uint32_t value) {
    put16(a, value & 0xFFFF);
    put16(a, value >> 16);
}

/* The header of a .npy file: magic, version, and a Python dictionary padded to a multiple of 64 bytes. */
static size_t npy_header(const weir_tensor *tensor, char out[256]) {
    static const char *const names[][2] = {{"int8", "|i1"},    {"uint8", "|u1"},  {"uint16", "<u2"},
                                           {"float16", "<f2"}, {"int32", "<i4"},  {"uint32", "<u4"},
                                           {"float32", "<f4"}, {"uint64", "<u8"}, {"int64", "<i8"}};
    const char *dtype = "|V1";
    char shape[80] = "";
    for (size_t i = 0; i < CLI_COUNT(names); i++)
        if (strcmp(names[i][0], tensor->dtype) == 0)
            dtype = names[i][1];
    for (uint32_t k = 0; k < tensor->rank; k++) {
        size_t used = strlen(shape);
        snprintf(shape + used, sizeof shape - used, "%llu,%s", (unsigned long long)tensor->shape[k],
                 k + 1 < tensor->rank ? " " : "");
    }
    memcpy(out, "\x93NUMPY\x01\x00", 8);
    int text =
        snprintf(out + 10, 200, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", dtype, shape);
    size_t size = 10 + (size_t)text;
    size_t padded = (size + 1 + NPY_ALIGNMENT - 1) / NPY_ALIGNMENT * NPY_ALIGNMENT;
    memset(out + size, ' ', padded - size);
    out[padded - 1] = '\n';
    out[8] = (char)((padded - 10) & 0xFF);
    out[9] = (char)((padded - 10) >> 8);
    return padded;
}

static void put_name_fields(archive *a, const entry *e) {
    put32(a, 0); /* no flags, stored */
    put32(a, (uint32_t)DATE_1980_01_01 << 16);
    put32(a, e->crc);
    put32(a, e->size);
    put32(a, e->size);
    put16(a, (uint32_t)strlen(e->name));
    put16(a, 0); /* no extra field */
}

static void put_tensor(archive *a, const weir_batch *batch, const weir_tensor *tensor) {
    char header[256];
    size_t header_size = npy_header(tensor, header);
    const uint8_t *data = batch->data + tensor->offset;
    entry *e = &a->entries[a->entry_count++];
    snprintf(e->name, sizeof e->name, "%s.npy", tensor->name);
    e->offset = (uint32_t)a->offset;
    e->size = (uint32_t)(header_size + tensor->size);
    e->crc = (uint32_t)crc32_z(crc32_z(0, (const uint8_t *)header, header_size), data, (size_t)tensor->size);
    put32(a, LOCAL_SIGNATURE);
    put16(a, VERSION);
    put_name_fields(a, e);
    put(a, e->name, strlen(e->name));
    put(a, header, header_size);
    put(a, data, (size_t)tensor->size);
}

static void put_directory(archive *a) {
    uint32_t start = (uint32_t)a->offset;
    for (size_t i = 0; i < a->entry_count; i++) {
        const entry *e = &a->entries[i];
        put32(a, DIRECTORY_SIGNATURE);
        put16(a, VERSION);
        put16(a, VERSION);
        put_name_fields(a, e);
        put32(a, 0); /* no comment, first disk */
        put16(a, 0); /* internal attributes */
        put32(a, 0); /* external attributes */
        put32(a, e->offset);
        put(a, e->name, strlen(e->name));
    }
    uint32_t size = (uint32_t)a->offset - start;
    put32(a, END_SIGNATURE);
    put32(a, 0); /* first disk, that of the directory too */
    put16(a, (uint32_t)a->entry_count);
    put16(a, (uint32_t)a->entry_count);
    put32(a, size);
    put32(a, start);
    put16(a, 0);
}

weir_status cli_write_npz(const weir_batch *batch, const char *path, weir_error *error) {
    if (batch->size > UINT32_MAX - 65536)
        return cli_error(error, WEIR_CONTRACT_VIOLATION,
                         "a batch of %llu bytes does not fit an .npz file; use more ranks",
                         (unsigned long long)batch->size);
    archive *a = calloc(1, sizeof *a);
    if (!a)
        return cli_error(error, WEIR_OUT_OF_MEMORY, "no memory to write %s", path);
    cli_output output;
    weir_status status = cli_output_open(&output, path, error);
    if (status == WEIR_OK) {
        a->file = output.stream;
        for (int id = 0; id < WEIR_BATCH_PARTS; id++)
            if (batch->tensors[id].name)
                put_tensor(a, batch, &batch->tensors[id]);
        put_directory(a);
        status = cli_output_finish(&output, error);
    }
    free(a);
    return status;
}
