/* weir/base.h: statuses, error records and the door to the world (weir_env).
 *
 * Conventions that hold in every weir header:
 *   - A call that can fail returns a weir_status and, if it fails, fills the caller's weir_error (which
 *     may be NULL). On failure it has produced no output and changed no state.
 *   - Handles are opaque; X_open makes one, X_close frees it and takes NULL. A handle belongs to one thread
 *     at a time unless its comment says otherwise; distinct handles never share mutable state.
 *   - A weir_env is borrowed: it must outlive every handle opened with it. NULL means weir_env_default().
 *   - The library never writes to stdout or stderr, never exits, and has no global mutable state but the
 *     handler of SIGBUS that guards mapped stores (weir_store_open). */
#ifndef WEIR_BASE_H
#define WEIR_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "weir/errors.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_API     __attribute__((visibility("default")))
#define WEIR_CHECKED __attribute__((warn_unused_result))

#define WEIR_VERSION "0.1.0"

/* The same as a number that grows: 10000 * major + 100 * minor + patch. */
#define WEIR_VERSION_NUMBER 100

/* The version of the library that is linked, as "major.minor.patch". Static; any thread. */
WEIR_API const char *weir_version(void);

/* ---- Statuses -------------------------------------------------------------------------------- */

typedef enum weir_status {
    WEIR_OK = 0,
#define WEIR_ENUMERATE(code, id, subsystem, meaning) WEIR_##id = (code),
    WEIR_ERROR_TABLE(WEIR_ENUMERATE)
#undef WEIR_ENUMERATE
} weir_status;

/* "BATCH_SIZE_INCONSISTENT", and the meaning in words, of a status ("OK" and "success" for WEIR_OK; "UNKNOWN"
 * … for a number that is not a status). Static; any thread. */
WEIR_API const char *weir_status_name(weir_status status);
WEIR_API const char *weir_status_meaning(weir_status status);

/* Text that need not be terminated. What is given is borrowed for the call; what comes out of a handle lives
 * as long as the handle. */
typedef struct weir_text {
    const char *data;
    size_t size;
} weir_text;

/* ---- Error records (UML_OS.Error.Emit_v1) ---------------------------------------------------- */

enum {
    WEIR_MESSAGE_CAPACITY = 1024,
    WEIR_DIAGNOSTIC_CAPACITY = 192,
    WEIR_DIAGNOSTICS_MAX = 12,
    WEIR_HASH_SIZE = 32,
    WEIR_TOKEN_SIZE = 64,
};

typedef enum weir_diagnostic_kind {
    WEIR_DIAGNOSTIC_UINT,
    WEIR_DIAGNOSTIC_INT,
    WEIR_DIAGNOSTIC_TEXT
} weir_diagnostic_kind;

typedef struct weir_diagnostic {
    const char *name; /* static */
    weir_diagnostic_kind kind;
    uint64_t number; /* two's complement for WEIR_DIAGNOSTIC_INT */
    char text[WEIR_DIAGNOSTIC_CAPACITY];
} weir_diagnostic;

/* A plain value: no memory to free, copied by assignment. */
typedef struct weir_error {
    weir_status status;
    const char *failure_operator; /* static, e.g. "UML_OS.Data.NextBatch_v2" */
    uint64_t t;                   /* the step, 0 if there is none */
    uint32_t rank;
    uint32_t diagnostic_count;
    size_t replay_token_size; /* 0 or WEIR_HASH_SIZE */
    uint8_t replay_token[WEIR_HASH_SIZE];
    char message[WEIR_MESSAGE_CAPACITY]; /* one sentence: what is wrong, where, what to do; valid UTF-8 */
    weir_diagnostic diagnostics[WEIR_DIAGNOSTICS_MAX];
} weir_error;

/* Writes "weir: ID: message" without a newline, cut to size and always terminated. Returns the full length.
 * Any thread. */
WEIR_API size_t weir_error_line(const weir_error *error, char *out, size_t size);

/* ---- Warnings -------------------------------------------------------------------------------- */

/* What somebody should look at: it may be a mistake. A list of the codes is in docs/warnings.md. */
typedef struct weir_warning {
    const char *code;  /* such as "constant_label"; it does not change */
    const char *table; /* what it is about; or NULL, likewise */
    const char *column;
    const char *task;
    const char *message; /* one sentence: what was seen, and what to do */
    bool is_note;        /* worth knowing, and no mistake */
} weir_warning;

/* ---- The door to the world ------------------------------------------------------------------- */

/* What a path or an open file is. Two are one file if device and number are equal. */
typedef enum weir_file_kind { WEIR_FILE_REGULAR, WEIR_FILE_FOLDER, WEIR_FILE_OTHER } weir_file_kind;
typedef struct weir_file_info {
    weir_file_kind kind; /* OTHER: a pipe, a device, a socket, a link */
    uint64_t size;
    uint64_t device;
    uint64_t number;
} weir_file_info;

/* Everything that the library asks of the system: memory, files, time, threads. Calls return what their
 * POSIX namesakes do and set errno. A test replaces single entries to inject faults. `context` is passed to
 * each call; every call may come from any thread. (SQLite, libpq, libcurl and CUDA use the
 * system's own.) */
typedef struct weir_env {
    void *context;

    void *(*allocate)(void *context, size_t size);
    void *(*resize)(void *context, void *memory, size_t size); /* memory may be NULL */
    void (*release)(void *context, void *memory);              /* memory may be NULL */

    int (*open)(void *context, const char *path, int flags, unsigned mode);
    int (*close)(void *context, int file);
    ssize_t (*read)(void *context, int file, void *out, size_t size);
    ssize_t (*pread)(void *context, int file, void *out, size_t size, uint64_t offset);
    ssize_t (*write)(void *context, int file, const void *data, size_t size);
    ssize_t (*pwrite)(void *context, int file, const void *data, size_t size, uint64_t offset);
    int (*sync)(void *context, int file);
    int (*truncate)(void *context, int file, uint64_t size);
    int (*size)(void *context, int file, uint64_t *size);
    int (*rename)(void *context, const char *from, const char *to);
    int (*remove)(void *context, const char *path);

    /* file >= 0: the first `size` bytes, read-only and shared; file < 0: zeroed, writable, private memory.
     * NULL on failure. */
    void *(*map)(void *context, int file, size_t size);
    int (*unmap)(void *context, void *memory, size_t size);

    uint64_t (*now_ns)(void *context); /* monotonic */

    int (*start_thread)(void *context, void *(*run)(void *), void *argument,
                        uintptr_t *thread); /* 0 or an errno */
    int (*join_thread)(void *context, uintptr_t thread);

    /* Sleeps while *word is `expected`, at most timeout_ns (0: without limit); may return early for no
     * reason. `wake` ends the sleep of every thread that sleeps on the word. */
    void (*wait)(void *context, const uint32_t *word, uint32_t expected, uint64_t timeout_ns);
    void (*wake)(void *context, const uint32_t *word);

    /* Makes mapped memory (of `map`) read as zeros in a child of fork. 0 or -1. */
    int (*wipe_on_fork)(void *context, void *memory, size_t size);

    /* Calls `each` for every entry of a folder but "." and "..", in any order, until it returns false; an
     * entry is a folder, a regular file (links are followed) or neither. 0 or -1. */
    int (*list)(void *context, const char *path,
                bool (*each)(void *argument, const char *name, bool is_folder, bool is_file), void *argument);

    /* While mapped file memory is guarded, a page of it that cannot be read (the file was cut, the disk
     * failed) gives zeros, from there to the end, and sets *failed to 1; without the guard the process
     * would die. `failed` must outlive the guard. 0 or -1. */
    int (*guard)(void *context, const void *memory, size_t size, uint32_t *failed);
    void (*unguard)(void *context, const void *memory);

    /* An open file, or, if `file` is negative, what is at a path: a link itself, not what it leads to. */
    int (*inspect)(void *context, int file, const char *path, weir_file_info *out);

    /* Locks an open file until it is unlocked, or until nobody has it open: a child of fork has it open too.
     * -1 with EWOULDBLOCK if it is locked already, with another number if this file system has no locks. */
    int (*lock)(void *context, int file);
    int (*unlock)(void *context, int file);

    /* Unpredictable bytes, for keys and names. */
    int (*random)(void *context, void *out, size_t size);

    /* Bytes of memory that this process may have: the machine's, or its control group's if that is less. */
    uint64_t (*memory_size)(void *context);

    /* Mapped file memory is read here and there: the system reads nothing around what is asked for. */
    void (*scatter)(void *context, const void *memory, size_t size);

    /* Mapped file memory that will be read soon: what of it is not in memory is asked for, and nobody waits
     * for it. False if all of it is there. */
    bool (*expect)(void *context, const void *memory, size_t size);

    /* Addresses without memory: whoever touches them dies, until `map_at` puts memory there. NULL on failure;
     * `unmap` gives them back with what they have. Sizes and addresses are multiples of `page_size`. */
    void *(*reserve)(void *context, size_t size);
    size_t (*page_size)(void *context);

    /* Replaces what is at reserved addresses, at once or not at all: by a file from `offset` on, writable and
     * shared with all who map it (file >= 0), by zeroed memory (WEIR_MAP_ZEROED), which is private as that of
     * `map` is, or by nothing, as reserved (WEIR_MAP_NOTHING). 0 or -1. */
    int (*map_at)(void *context, void *at, size_t size, int file, uint64_t offset);

    /* A file that is nothing but memory, zeroed, without a path: it lives until it is closed and nobody maps
     * it. -1 on failure. */
    int (*memory_file)(void *context, uint64_t size);

    /* Makes sure that a disk has room for these bytes of a file, which may lie after its end. 0, or -1 with
     * ENOSPC if it has not. */
    int (*claim)(void *context, int file, uint64_t offset, uint64_t size);

    /* Takes mapped file memory out of the process: the file keeps it, and it is read again when it is
     * touched. `for_good`: nobody needs it any more, nor its place on the disk; its contents are undefined
     * then.
     */
    void (*forget)(void *context, const void *memory, size_t size, bool for_good);

    /* A new folder; a second name for a file. 0 or -1. */
    int (*make_folder)(void *context, const char *path);
    int (*link)(void *context, const char *from, const char *to);

    /* The name that a symbolic link holds, without a byte of 0 after it, cut to `size`; what it leads to need
     * not be there. Its length, or -1 (EINVAL: not a link). */
    ssize_t (*read_link)(void *context, const char *path, char *out, size_t size);
} weir_env;

enum { WEIR_MAP_ZEROED = -1, WEIR_MAP_NOTHING = -2 };

/* The system itself. Static and immutable; any thread. */
WEIR_API const weir_env *weir_env_default(void);

/* Bytes that a call made for its caller, who releases them; a byte of 0 follows a text. Releasing bytes that
 * are all zero does nothing. */
typedef struct weir_bytes {
    void *data;
    size_t size;
    const weir_env *env; /* whose memory it is */
} weir_bytes;
WEIR_API void weir_bytes_release(weir_bytes *bytes);

/* ---- Progress --------------------------------------------------------------------------------- */

/* How far long work is: an ingest, a push, a pull. */
typedef struct weir_progress {
    const char *phase;    /* of ingest "draft", "read", "order", "match", "tasks", "write", "embed"; static */
    uint64_t done;        /* rows, texts in "embed", chunks */
    uint64_t total;       /* an estimate; 0: unknown */
    uint64_t done_bytes;  /* read, written or moved in this phase, if known */
    uint64_t total_bytes; /* 0: unknown */
    uint64_t elapsed_ns;  /* since the call began */
    uint64_t spilled_bytes; /* of ingest: what lies in a file now, because memory is not enough */
} weir_progress;

/* Called a few times per second from the thread that called (of ingest, if no second thread can be started,
 * from one of its own, one at a time). Returning false stops the work with CANCELLED, also inside a source's
 * query. */
typedef bool (*weir_progress_report)(void *context, const weir_progress *progress);

/* ---- Memory of other kinds -------------------------------------------------------------------- */

/* Memory whose addresses are taken apart from its bytes, so that what lies at an address can be replaced and
 * the address stays. Sizes, offsets and addresses are multiples of *unit. A handle names bytes: a file of
 * memory (its number) on the host, an allocation of the driver on a GPU. They live while the handle is kept
 * or something maps them. All calls take the memory's context; those that fail change nothing. */
typedef struct weir_pages {
    bool is_divisible; /* a part of what was mapped can be unmapped, or replaced in one call */
    weir_status (*measure)(void *context, size_t *unit, weir_error *error);
    weir_status (*reserve)(void *context, size_t size, void **out, weir_error *error);
    void (*unreserve)(void *context, void *range, size_t size); /* nothing is mapped there */
    weir_status (*make)(void *context, size_t size, uint64_t *handle, weir_error *error); /* zeroed */
    void (*drop)(void *context, uint64_t handle);
    weir_status (*map)(void *context, void *at, size_t size, uint64_t handle, uint64_t offset,
                       weir_error *error);
    weir_status (*back)(void *context, void *at, size_t size, weir_error *error); /* by new, zeroed memory */
    weir_status (*unmap)(void *context, void *at, size_t size, weir_error *error);
} weir_pages;

/* Memory that is not the environment's: pinned for a device, or the device's own. Close every
 * handle that uses this memory before the device that owns it. The functions from `clear` to `copy` are NULL
 * if the processor can access the memory. */
typedef struct weir_memory {
    void *context;
    void *(*allocate)(void *context, size_t size, weir_error *error); /* zeroed, 256-byte aligned; or NULL */
    void (*release)(void *context, void *memory, size_t size);        /* `size` as it was asked for */

    weir_status (*clear)(void *context, void *memory, size_t size, weir_error *error);
    weir_status (*write)(void *context, void *memory, const void *data, size_t size, weir_error *error);
    weir_status (*settle)(void *context, weir_error *error); /* waits for all work on the device */
    weir_status (*read)(void *context, void *out, const void *memory, size_t size, weir_error *error);
    weir_status (*copy)(void *context, void *to, const void *from, size_t size, weir_error *error);

    const weir_pages *pages; /* NULL: addresses and bytes come together */
} weir_memory;

#ifdef __cplusplus
}
#endif
#endif
