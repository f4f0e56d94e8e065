/* Letters and digits of ASCII, whatever the locale is, and how texts begin and end. */
#ifndef WEIR_BASE_ASCII_H
#define WEIR_BASE_ASCII_H

#include <stdbool.h>
#include <string.h>

static inline bool weir__is_digit(char c) {
    return c >= '0' && c <= '9';
}

static inline bool weir__is_upper(char c) {
    return c >= 'A' && c <= 'Z';
}

static inline bool weir__is_lower(char c) {
    return c >= 'a' && c <= 'z';
}

static inline bool weir__is_letter_or_digit(char c) {
    return weir__is_lower(c) || weir__is_upper(c) || weir__is_digit(c);
}

static inline char weir__lower(char c) {
    return weir__is_upper(c) ? (char)(c - 'A' + 'a') : c;
}

static inline bool weir__begins_with(const char *text, const char *start) {
    return strncmp(text, start, strlen(start)) == 0;
}

static inline bool weir__ends_with(const char *text, const char *end) {
    size_t size = strlen(text), end_size = strlen(end);
    return size >= end_size && memcmp(text + size - end_size, end, end_size) == 0;
}

#endif
