/* See time_format.h. */
#include "ingest/time_format.h"

#include <string.h>

#include "store/timestamp.h"

#define MICROS_PER_SECOND INT64_C(1000000)

/* ---- Patterns -------------------------------------------------------------------------------- */

/* What a text says. */
typedef struct time_parts {
    int year, month, day, hour, minute, second, micros;
    int day_of_year; /* -1: the format has none */
    int half;        /* of the day: 0 or 1; -1: hours are counted to 23 */
    int64_t offset_minutes;
} time_parts;

typedef struct directive_rule {
    char letter;
    uint8_t digits; /* at most; 0: not digits */
    uint8_t least;  /* digits */
    char part;      /* what it decides: two directives of one part contradict each other */
    size_t number;  /* where its digits go: an int of the parts */
} directive_rule;

#define TO(member) offsetof(time_parts, member)
static const directive_rule rules[] = {
    {'Y', 4, 4, 'y', TO(year)},   {'y', 2, 2, 'y', TO(year)},
    {'m', 2, 1, 'm', TO(month)},  {'d', 2, 1, 'd', TO(day)},
    {'H', 2, 1, 'h', TO(hour)},   {'I', 2, 1, 'h', TO(hour)},
    {'M', 2, 1, 'n', TO(minute)}, {'S', 2, 1, 's', TO(second)},
    {'f', 9, 1, 'f', TO(micros)}, {'j', 3, 3, 'j', TO(day_of_year)},
    {'b', 0, 0, 'm', 0},          {'B', 0, 0, 'm', 0},
    {'p', 0, 0, 'p', 0},          {'z', 0, 0, 'z', 0},
    {'a', 0, 0, 'a', 0},          {'A', 0, 0, 'a', 0},
};

static const directive_rule *rule_of(char letter) {
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (rules[i].letter == letter)
            return &rules[i];
    return NULL;
}

static bool has_part(const weir_ingest__time_format *format, char part) {
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
    if (!has_part(out, 'y'))
        return "has no year (%Y or %y)";
    if (has_part(out, 'd') && !has_part(out, 'm'))
        return "has a day without a month";
    if (has_part(out, 'j') && (has_part(out, 'm') || has_part(out, 'd')))
        return "has %j beside a month or day";
    if (has_directive(out, 'I') != has_part(out, 'p'))
        return "needs %I and %p together";
    return NULL;
}

/* ---- Matching -------------------------------------------------------------------------------- */

static bool read_digits(const char **at, const char *end, int least, int most, int *value, int *count) {
    int digits = 0, sum = 0;
    for (; digits < most && *at < end && **at >= '0' && **at <= '9'; ++*at, digits++)
        sum = sum * 10 + (**at - '0');
    *value = sum;
    *count = digits;
    return digits >= least;
}

static char lower(char c) {
    return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

static bool starts_with(const char *at, const char *end, const char *word) {
    for (; *word; word++, at++)
        if (at == end || lower(*at) != *word)
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
static bool read_offset(const char **at, const char *end, int64_t *minutes) {
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
                      time_parts *parts) {
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
        if (rule->letter == 'y')
            value += value < 69 ? 2000 : 1900;
        for (; rule->letter == 'f' && count < 6; count++)
            value *= 10;
        for (; rule->letter == 'f' && count > 6; count--)
            value /= 10;
        memcpy((char *)parts + rule->number, &value, sizeof value);
        return true;
    }
    switch (rule->part) {
    case 'm':
        if (!read_name(at, end, months, 12, &value))
            return false;
        parts->month = value + 1;
        return true;
    case 'a':
        return read_name(at, end, weekdays, 7, &value);
    case 'p':
        parts->half = starts_with(*at, end, "pm");
        if (parts->half == 0 && !starts_with(*at, end, "am"))
            return false;
        *at += 2;
        return true;
    default:
        return read_offset(at, end, &parts->offset_minutes);
    }
}

static bool resolve(time_parts *parts, int64_t *micros) {
    if (parts->half >= 0) {
        if (parts->hour < 1 || parts->hour > 12)
            return false;
        parts->hour = parts->hour % 12 + 12 * parts->half;
    }
    if (parts->hour > 23 || parts->minute > 59 || parts->second > 59 || parts->month < 1 ||
        parts->month > 12 || parts->day < 1 ||
        parts->day > weir_store__days_in_month(parts->year, parts->month))
        return false;
    int64_t days = weir_store__days_from_civil(parts->year, parts->month, parts->day);
    if (parts->day_of_year >= 0) {
        int64_t in_year = weir_store__days_from_civil(parts->year + 1, 1, 1) - days;
        if (parts->day_of_year < 1 || parts->day_of_year > in_year)
            return false;
        days += parts->day_of_year - 1;
    }
    int64_t seconds = days * 86400 + (parts->hour * 60 + parts->minute) * 60 + parts->second;
    *micros = (seconds - parts->offset_minutes * 60) * MICROS_PER_SECOND + parts->micros;
    return true;
}

bool weir_ingest__time_format_read(const weir_ingest__time_format *format, const char *text, size_t size,
                                   int64_t *micros) {
    const char *at = text;
    const char *end = text + size;
    time_parts parts = {.month = 1, .day = 1, .day_of_year = -1, .half = -1};
    for (uint32_t i = 0; i < format->count; i++)
        if (!read_item(&format->items[i], &at, end, &parts))
            return false;
    return at == end && resolve(&parts, micros);
}
