/* Text at the byte level: UTF-8, hex and decimal, strict in what they accept; the C locale for floats;
 * and messages of others, as one line and without secrets. */
#include <stdio.h>
#include <string.h>

#include "base/floating.h"
#include "base/internal.h"

size_t weir__utf8_sequence(const uint8_t *text, size_t size) {
    if (size == 0)
        return 0;
    uint8_t lead = text[0];
    if (lead < 0x80)
        return 1;
    if (lead < 0xC2 || lead > 0xF4)
        return 0;
    size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (size < length)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((text[i] & 0xC0) != 0x80) /* it does not continue a sequence */
            return 0;
    /* The second byte rules out overlong forms, surrogates and what lies beyond U+10FFFF. */
    uint8_t second = text[1];
    if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F) ||
        (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F))
        return 0;
    return length;
}

bool weir__utf8_is_valid(const void *text, size_t size) {
    const uint8_t *at = text ? text : "";
    const uint8_t *end = at + size;
    while (at < end) {
        uint64_t eight;
        if (end - at >= 8 && (memcpy(&eight, at, 8), (eight & 0x8080808080808080u) == 0)) {
            at += 8;
            continue;
        }
        size_t length = weir__utf8_sequence(at, (size_t)(end - at));
        if (length == 0)
            return false;
        at += length;
    }
    return true;
}

void weir__hex_encode(const void *data, size_t size, char *out) {
    static const char digits[] = "0123456789abcdef";
    const uint8_t *bytes = data;
    for (size_t i = 0; i < size; i++) {
        *out++ = digits[bytes[i] >> 4];
        *out++ = digits[bytes[i] & 15];
    }
    *out = 0;
}

static int hex_digit(char digit) {
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    if (digit >= 'a' && digit <= 'f')
        return digit - 'a' + 10;
    if (digit >= 'A' && digit <= 'F')
        return digit - 'A' + 10;
    return -1;
}

bool weir__hex_decode(const char *text, size_t text_size, uint8_t *out, size_t size) {
    if (text_size / 2 != size || text_size % 2 != 0)
        return false;
    for (size_t i = 0; i < size; i++) {
        int high = hex_digit(text[2 * i]);
        int low = hex_digit(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        out[i] = WEIR__LOW(uint8_t, high << 4 | low);
    }
    return true;
}

bool weir__decimal_parse(const char *text, size_t size, uint64_t *out) {
    if (size == 0 || size > 20 || (size > 1 && text[0] == '0'))
        return false;
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        if (__builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (uint64_t)(text[i] - '0'), &value))
            return false;
    }
    *out = value;
    return true;
}

int weir__key_compare(const void *a, size_t a_size, const void *b, size_t b_size) {
    if (a_size != b_size)
        return a_size < b_size ? -1 : 1;
    return a_size == 0 ? 0 : memcmp(a, b, a_size);
}

/* glibc's C locale is static: this neither allocates nor fails. */
locale_t weir__enter_c_locale(void) {
    return uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0));
}

void weir__leave_c_locale(locale_t kept) {
    uselocale(kept);
}

void weir__print_real(double value, char out[WEIR__REAL_TEXT]) {
    locale_t locale = weir__enter_c_locale();
    weir__floating floating = weir__enter_floating();
    snprintf(out, WEIR__REAL_TEXT, "%.17g", value);
    weir__leave_floating(&floating);
    weir__leave_c_locale(locale);
}

/* ---- Lists of names --------------------------------------------------------------------------- */

void weir__list_names(char *out, size_t size, const void *names, size_t stride, size_t count) {
    enum { MORE = 32 }; /* room for how many are left */
    size_t used = 0, i = 0;
    for (; i < count; i++) {
        const char *name;
        memcpy(&name, (const char *)names + i * stride, sizeof(char *));
        if (used + strlen(name) + MORE > size)
            break;
        used += (size_t)snprintf(out + used, size - used, "%s%s", i ? ", " : "", name);
    }
    if (count == 0)
        snprintf(out, size, "none");
    else if (i < count)
        snprintf(out + used, size - used, i ? " and %zu more" : "%zu, with long names", count - i);
}

/* ---- Messages of others ----------------------------------------------------------------------- */

void weir__one_line(const char *message, char *out, size_t size) {
    snprintf(out, size, "%s", message);
    size_t length = strlen(out);
    while (length > 0 && (out[length - 1] == '\n' || out[length - 1] == ' '))
        out[--length] = '\0';
    for (char *at = out; *at; at++)
        if (*at == '\n' || *at == '\r' || *at == '\t')
            *at = ' ';
}

void weir__redact(char *text, size_t capacity, const char *secret, size_t secret_size) {
    static const char mask[] = "***";
    enum { MASK_SIZE = sizeof mask - 1 };
    if (secret_size == 0 || capacity == 0)
        return;
    char *at = text;
    while ((at = memmem(at, strlen(at), secret, secret_size)) != NULL) {
        size_t tail = strlen(at + secret_size);
        size_t room = capacity - 1 - (size_t)(at - text);
        size_t mask_size = room < MASK_SIZE ? room : MASK_SIZE;
        if (tail > room - mask_size)
            tail = room - mask_size;
        memmove(at + mask_size, at + secret_size, tail);
        memcpy(at, mask, mask_size);
        at += mask_size;
        at[tail] = '\0';
    }
}
