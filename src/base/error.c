/* Error records: filled in place, never allocated, so that they can report that memory is gone. All their
 * text is printable, valid UTF-8, because it may quote hostile input and end up in a terminal, in JSON or
 * in CBOR. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/internal.h"
#include "weir_tool/base_tools.h"

const char *weir_version(void) {
    return WEIR_VERSION;
}

typedef struct status_row {
    weir_status status;
    const char *name;
    const char *subsystem;
    const char *meaning;
} status_row;

static const status_row status_table[] = {
#define ROW(code, id, subsystem, meaning) {WEIR_##id, #id, subsystem, meaning},
    WEIR_ERROR_TABLE(ROW)
#undef ROW
};
enum { STATUS_COUNT = sizeof status_table / sizeof status_table[0] };

static const status_row *find_status(weir_status status) {
    static const status_row ok = {WEIR_OK, "OK", "none", "success"};
    static const status_row unknown = {WEIR_OK, "UNKNOWN", "none", "not a status of this version"};
    if (status == WEIR_OK)
        return &ok;
    for (size_t i = 0; i < STATUS_COUNT; i++)
        if (status_table[i].status == status)
            return &status_table[i];
    return &unknown;
}

const char *weir_status_name(weir_status status) {
    return find_status(status)->name;
}

const char *weir_status_subsystem(weir_status status) {
    return find_status(status)->subsystem;
}

const char *weir_status_meaning(weir_status status) {
    return find_status(status)->meaning;
}

weir_status weir_status_at(size_t index) {
    return index < STATUS_COUNT ? status_table[index].status : WEIR_OK;
}

/* Not a control character: neither an ASCII one nor U+0080 to U+009F, which terminals obey as well. */
static bool is_printable(const uint8_t *character, size_t length) {
    if (length == 1)
        return *character >= 0x20 && *character != 0x7F;
    return length > 1 && !(character[0] == 0xC2 && character[1] < 0xA0);
}

/* Copies text, '?' for every control character and every byte that is not UTF-8, and cuts between
 * characters. */
static void copy_printable(char *out, size_t capacity, const char *text, size_t size) {
    const uint8_t *at = (const uint8_t *)(text ? text : "");
    const uint8_t *end = at + size;
    size_t used = 0;
    while (at < end) {
        size_t length = weir__utf8_sequence(at, (size_t)(end - at));
        bool printable = is_printable(at, length);
        size_t step = length ? length : 1;
        size_t needed = printable ? length : 1;
        if (used + needed >= capacity)
            break;
        if (printable)
            memcpy(out + used, at, length);
        else
            out[used] = '?';
        used += needed;
        at += step;
    }
    out[used] = 0;
}

weir_status weir__fail(weir_error *error, weir_status status, const char *failure_operator,
                       const char *format, ...) {
    if (!error)
        return status;
    char text[WEIR_MESSAGE_CAPACITY];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length < 0)
        length = 0;
    size_t size = (size_t)length < sizeof text ? (size_t)length : sizeof text - 1;
    *error = (weir_error){.status = status, .failure_operator = failure_operator};
    copy_printable(error->message, sizeof error->message, text, size);
    return status;
}

weir_status weir__out_of_memory(weir_error *error, const char *failure_operator, size_t size) {
    static const char advice[] = "free some or make the problem smaller";
    weir_status status =
        size > 1 ? weir__fail(error, WEIR_OUT_OF_MEMORY, failure_operator,
                              "out of memory: %zu bytes could not be allocated; %s", size, advice)
                 : weir__fail(error, WEIR_OUT_OF_MEMORY, failure_operator, "out of memory; %s", advice);
    weir__note_uint(error, "bytes", size);
    return status;
}

weir_status weir__io_error(weir_error *error, const char *failure_operator, const char *verb,
                           const char *path) {
    int number = errno;
    char buffer[128];
    const char *reason = strerror_r(number, buffer, sizeof buffer);
    weir_status status =
        weir__fail(error, WEIR_IO_ERROR, failure_operator, "cannot %s %s: %s", verb, path, reason);
    weir__note_int(error, "errno", number);
    weir__note_text(error, "path", path, strlen(path));
    return status;
}

static weir_diagnostic *next_diagnostic(weir_error *error, const char *name, weir_diagnostic_kind kind) {
    if (!error || error->diagnostic_count == WEIR_DIAGNOSTICS_MAX)
        return NULL;
    weir_diagnostic *diagnostic = &error->diagnostics[error->diagnostic_count++];
    diagnostic->name = name;
    diagnostic->kind = kind;
    return diagnostic;
}

void weir__note_uint(weir_error *error, const char *name, uint64_t value) {
    weir_diagnostic *diagnostic = next_diagnostic(error, name, WEIR_DIAGNOSTIC_UINT);
    if (diagnostic)
        diagnostic->number = value;
}

void weir__note_int(weir_error *error, const char *name, int64_t value) {
    weir_diagnostic *diagnostic = next_diagnostic(error, name, WEIR_DIAGNOSTIC_INT);
    if (diagnostic)
        diagnostic->number = (uint64_t)value;
}

void weir__note_text(weir_error *error, const char *name, const char *text, size_t size) {
    weir_diagnostic *diagnostic = next_diagnostic(error, name, WEIR_DIAGNOSTIC_TEXT);
    if (diagnostic)
        copy_printable(diagnostic->text, sizeof diagnostic->text, text, size);
}

size_t weir_error_line(const weir_error *error, char *out, size_t size) {
    int length = snprintf(out, size, "weir: %s: %s", weir_status_name(error->status), error->message);
    return length < 0 ? 0 : (size_t)length;
}
