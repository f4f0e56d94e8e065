/* See time_format.h. */
#include "ingest/time_format.h"
#include "base/ascii.h"

#include <string.h>

#include "store/timestamp.h"

#define MICROS_PER_SECOND INT64_C(1000000)

/* ---- Patterns -------------------------------------------------------------------------------- */

/* What a directive decides: two of one part contradict each other. */
typedef enum time_part {
    YEAR,
    MONTH,
    DAY,
    DAY_OF_YEAR,
    HOUR,
    HALF, /* of the day: 1 is AM, 2 PM; 0: the hour has 24 */
    MINUTE,
    SECOND,
    MICROS,
    OFFSET, /* minutes */
    WEEKDAY,
    PARTS
} time_part;

typedef struct directive_rule {
    char letter;
    uint8_t digits; /* at most; 0: not digits */
    uint8_t least;  /* digits */
    time_part part;
} directive_rule;

static const directive_rule rules[] = {
    {'Y', 4, 4, YEAR},   {'y', 2, 2, YEAR},   {'m', 2, 1, MONTH},       {'b', 0, 0, MONTH},
    {'B', 0, 0, MONTH},  {'d', 2, 1, DAY},    {'j', 3, 3, DAY_OF_YEAR}, {'H', 2, 1, HOUR},
    {'I', 2, 1, HOUR},   {'p', 0, 0, HALF},   {'M', 2, 1, MINUTE},      {'S', 2, 1, SECOND},
    {'f', 9, 1, MICROS}, {'z', 0, 0, OFFSET}, {'a', 0, 0, WEEKDAY},     {'A', 0, 0, WEEKDAY},
};

static const directive_rule *rule_of(char letter) {
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (rules[i].letter == letter)
            return &rules[i];
    return NULL;
}

static bool has_part(const weir_ingest__time_format *format, time_part part) {
    for (uint32_t i = 0; i < format->count; i++)
        if (format->items[i].directive && rule_of(format->items[i].directive)->part == part)
            return true;
    return false;
}

static bool has_directive(const weir_ingest__time_format *format, char letter) {
    for (uint32_t i = 0; i < format->count; i++)
        if (format->items[i].directive == letter)
            return true;
    return false;
}

const char *weir_ingest__time_format_compile(const char *pattern, size_t size,
                                             weir_ingest__time_format *out) {
    uint32_t directives = 0;
    memset(out, 0, sizeof *out);
    if (size == 0 || size > WEIR_INGEST__FORMAT_SIZE_MAX)
        return "must be a pattern such as %d/%m/%Y, of at most 64 bytes";
    memcpy(out->pattern, pattern, size);
    for (size_t i = 0; i < size; i++) {
        weir_ingest__format_item item = {.character = pattern[i]};
        if (pattern[i] == '%' && i + 1 < size && pattern[i + 1] == '%') {
            i++;
        } else if (pattern[i] == '%') {
            const directive_rule *rule = i + 1 < size ? rule_of(pattern[i + 1]) : NULL;
            if (!rule)
                return "has a directive that is not one of %Y %y %m %b %B %d %j %H %I %p %M %S %f %z %a %A "
                       "%%";
            if (has_part(out, rule->part))
                return "has two directives for one part of the time";
            if (++directives > WEIR_INGEST__FORMAT_DIRECTIVES_MAX)
                return "has too many directives";
            item = (weir_ingest__format_item){.directive = rule->letter};
            weir_ingest__format_item *before = out->count > 0 ? &out->items[out->count - 1] : NULL;
            bool is_joined =
                rule->digits > 0 && before && before->directive && rule_of(before->directive)->digits > 0;
            if (is_joined)
                before->is_fixed = item.is_fixed = true;
            i++;
        }
        out->items[out->count++] = item;
    }
    if (!has_part(out, YEAR))
        return "has no year (%Y or %y)";
    if (has_part(out, DAY) && !has_part(out, MONTH))
        return "has a day without a month";
    if (has_part(out, DAY_OF_YEAR) && (has_part(out, MONTH) || has_part(out, DAY)))
        return "has %j beside a month or day";
    if (has_directive(out, 'I') != has_part(out, HALF))
        return "needs %I and %p together";
    return NULL;
}

/* ---- Matching -------------------------------------------------------------------------------- */

static bool read_digits(const char **at, const char *end, int least, int most, int *value, int *count) {
    int digits = 0, sum = 0;
    for (; digits < most && *at < end && weir__is_digit(**at); ++*at, digits++)
        sum = sum * 10 + (**at - '0');
    *value = sum;
    *count = digits;
    return digits >= least;
}

static bool starts_with(const char *at, const char *end, const char *word) {
    for (; *word; word++, at++)
        if (at == end || weir__lower(*at) != *word)
            return false;
    return true;
}

/* The number of the name that stands here, in full or as its first three letters. */
static bool read_name(const char **at, const char *end, const char *const *names, int count, int *number) {
    for (int i = 0; i < count; i++) {
        char first[4] = {names[i][0], names[i][1], names[i][2], 0};
        if (!starts_with(*at, end, first))
            continue;
        *at += starts_with(*at, end, names[i]) ? strlen(names[i]) : 3;
        *number = i;
        return true;
    }
    return false;
}

/* Z, UTC, GMT, +05, +0530, +05:30. */
static bool read_offset(const char **at, const char *end, int *minutes) {
    static const char *const zeros[] = {"z", "utc", "gmt"};
    int hour, minute = 0, count;
    *minutes = 0;
    for (int i = 0; i < 3; i++)
        if (starts_with(*at, end, zeros[i])) {
            *at += strlen(zeros[i]);
            return true;
        }
    if (*at == end || (**at != '+' && **at != '-'))
        return false;
    bool is_negative = *(*at)++ == '-';
    if (!read_digits(at, end, 2, 2, &hour, &count))
        return false;
    const char *before = *at;
    if (*at < end && **at == ':')
        ++*at;
    if (!read_digits(at, end, 2, 2, &minute, &count)) {
        *at = before;
        minute = 0;
    }
    *minutes = (hour * 60 + minute) * (is_negative ? -1 : 1);
    return hour <= 23 && minute <= 59;
}

static bool read_item(const weir_ingest__format_item *item, const char **at, const char *end,
                      int parts[PARTS]) {
    static const char *const months[] = {"january",   "february", "march",    "april",
                                         "may",       "june",     "july",     "august",
                                         "september", "october",  "november", "december"};
    static const char *const weekdays[] = {"monday", "tuesday",  "wednesday", "thursday",
                                           "friday", "saturday", "sunday"};
    int value, count;
    if (!item->directive)
        return *at < end && *(*at)++ == item->character;
    const directive_rule *rule = rule_of(item->directive);
    if (rule->digits > 0) {
        int least = item->is_fixed && rule->letter != 'f' ? rule->digits : rule->least;
        if (!read_digits(at, end, least, rule->digits, &value, &count))
            return false;
        if (item->directive == 'y')
            value += value < 69 ? 2000 : 1900;
        for (; rule->part == MICROS && count < 6; count++)
            value *= 10;
        for (; rule->part == MICROS && count > 6; count--)
            value /= 10;
        parts[rule->part] = value;
        return true;
    }
    switch (rule->part) {
    case MONTH:
        if (!read_name(at, end, months, 12, &value))
            return false;
        parts[MONTH] = value + 1;
        return true;
    case WEEKDAY:
        return read_name(at, end, weekdays, 7, &value);
    case HALF:
        parts[HALF] = starts_with(*at, end, "pm") ? 2 : 1;
        if (parts[HALF] == 1 && !starts_with(*at, end, "am"))
            return false;
        *at += 2;
        return true;
    default:
        return read_offset(at, end, &parts[OFFSET]);
    }
}

static bool resolve(const int parts[PARTS], int64_t *micros) {
    int year = parts[YEAR], month = parts[MONTH], day = parts[DAY], hour = parts[HOUR];
    if (parts[HALF]) {
        if (hour < 1 || hour > 12)
            return false;
        hour = hour % 12 + (parts[HALF] == 2 ? 12 : 0);
    }
    if (hour > 23 || parts[MINUTE] > 59 || parts[SECOND] > 59 || month < 1 || month > 12 || day < 1 ||
        day > weir_store__days_in_month(year, month))
        return false;
    int64_t days = weir_store__days_from_civil(year, month, day);
    if (parts[DAY_OF_YEAR] != 1) {
        int64_t in_year = weir_store__days_from_civil(year + 1, 1, 1) - days;
        if (parts[DAY_OF_YEAR] < 1 || parts[DAY_OF_YEAR] > in_year)
            return false;
        days += parts[DAY_OF_YEAR] - 1;
    }
    int64_t seconds = days * 86400 + (hour * 60 + parts[MINUTE]) * 60 + parts[SECOND];
    *micros = (seconds - parts[OFFSET] * 60) * MICROS_PER_SECOND + parts[MICROS];
    return true;
}

bool weir_ingest__time_format_read(const weir_ingest__time_format *format, const char *text, size_t size,
                                   int64_t *micros) {
    const char *at = text;
    const char *end = text + size;
    int parts[PARTS] = {[MONTH] = 1, [DAY] = 1, [DAY_OF_YEAR] = 1};
    for (uint32_t i = 0; i < format->count; i++)
        if (!read_item(&format->items[i], &at, end, parts))
            return false;
    return at == end && resolve(parts, micros);
}
