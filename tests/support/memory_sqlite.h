/* SQLite databases that live in memory and that any connection of the process may open by name: for fuzz
 * targets, which open thousands a second. Needs SQLite's "memdb", which is in every build since 3.36. */
#ifndef WEIR_TESTS_MEMORY_SQLITE_H
#define WEIR_TESTS_MEMORY_SQLITE_H

#include <sqlite3.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/bytes.h"

enum { MEMORY_SQLITE_EDIT = 5 };

/* A new, empty database. `name` is "file:/NAME?vfs=memdb"; it is gone when the last connection is closed.
 * Must be the process's first use of SQLite, or come after another call of this. */
static inline sqlite3 *memory_sqlite_open(const char *name) {
    sqlite3 *database = NULL;
    sqlite3_config(SQLITE_CONFIG_URI, 1); /* refused, without harm, after the first time */
    if (sqlite3_open_v2(name, &database, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) != SQLITE_OK)
        abort();
    return database;
}

/* Changes bytes of the database's file. Each edit is a place (4 bytes, modulo the size) and what to turn
 * there. The connection must not read any more: its pages are as they were. */
static inline void memory_sqlite_edit(sqlite3 *database, const uint8_t *edits, size_t size) {
    sqlite3_file *file = NULL;
    sqlite3_int64 file_size = 0;
    if (sqlite3_file_control(database, "main", SQLITE_FCNTL_FILE_POINTER, &file) != SQLITE_OK ||
        file->pMethods->xFileSize(file, &file_size) != SQLITE_OK || file_size == 0)
        return;
    for (; size >= MEMORY_SQLITE_EDIT; edits += MEMORY_SQLITE_EDIT, size -= MEMORY_SQLITE_EDIT) {
        sqlite3_int64 at = weir__load32(edits) % file_size;
        uint8_t byte;
        if (file->pMethods->xRead(file, &byte, 1, at) != SQLITE_OK)
            return;
        byte ^= edits[4];
        file->pMethods->xWrite(file, &byte, 1, at);
    }
}

#endif
