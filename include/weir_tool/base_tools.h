/* weir_tool/base_tools.h: what weir was built with, and the table of errors. */
#ifndef WEIR_TOOL_BASE_TOOLS_H
#define WEIR_TOOL_BASE_TOOLS_H

#include "weir/base.h"

enum { WEIR_COMPONENT_CAPACITY = 32 };

/* What weir consists of beside its own code: the compiler, the C library, the libraries. */
typedef struct weir_component {
    const char *name;                      /* "gcc", "glibc", "openssl", …; static */
    char built[WEIR_COMPONENT_CAPACITY];   /* the version that weir was compiled with */
    char running[WEIR_COMPONENT_CAPACITY]; /* the version that is in the process; empty for the compiler */
} weir_component;

/* The i-th of them, the compiler first; false past the last. What a build left out (WEIR_POSTGRES=OFF,
 * WEIR_HTTP=OFF) is not among them. Any thread. */
bool weir_component_at(size_t index, weir_component *out);

/* What this library was built with: names and versions, in the order of CBOR keys (shorter names first, then
 * bytewise). Static; any thread. */
typedef struct weir_build_part {
    const char *name;
    const char *version;
} weir_build_part;
const weir_build_part *weir_build_info(size_t *count);

/* The i-th status of the table, WEIR_OK past its end: for programs that list them. */
weir_status weir_status_at(size_t index);

/* What a file seems to be by its bytes, for who was given the wrong one. */
typedef struct weir_file_format {
    const char *name; /* such as "a weir store" or "JSON" */
    bool is_data;     /* somebody's rows: an output does not replace it */
} weir_file_format;

/* Static; NULL for a format that weir does not know. The first bytes tell most formats, and all of them what
 * canonical CBOR holds. Any thread. */
const weir_file_format *weir_file_format_of(const void *data, size_t size);

/* "data" … of a status; "none" for WEIR_OK, "UNKNOWN" for a number that is not a status. Static; any thread.
 */
const char *weir_status_subsystem(weir_status status);

#endif
