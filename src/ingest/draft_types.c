/* Semantic types of a draft, by the first rule that holds (docs/spec/04-draft.md, 4). */
#include <string.h>

#include "ingest/draft.h"

enum { INTEGER_CATEGORIES = 50, TEXT_CATEGORIES = 100, ROWS_PER_CATEGORY = 20, DATES_WITHOUT_A_NAME = 20 };

static const int64_t year_1990 = 631152000, year_2100 = 4102444800;

typedef struct column_at {
    weir_ingest__draft *draft;
    uint32_t table;
    uint32_t number;
    weir_ingest__draft_column *column;
} column_at;

static void decide_with(const column_at *at, weir_stype stype, bool is_doubtful, const char *why) {
    at->column->stype = stype;
    weir_ingest__draft_reason(at->draft, at->table, at->number, "stype", is_doubtful, weir_stype_name(stype),
                              "%s", why);
}

static void decide(const column_at *at, weir_stype stype, const char *why) {
    decide_with(at, stype, false, why);
}

static const char *say_few(const column_at *at, const char *what) {
    unsigned long long count = at->column->sample.count;
    if (count == 1)
        return "all values are the same";
    return weir_ingest__draft_text(at->draft, "%llu different %s, each in 20 rows or more on average", count,
                                   what);
}

/* Whether a column's values are few enough for categories. */
static bool has_few(const weir_ingest__draft_column *column, uint32_t most) {
    return column->sample.level == 0 && column->sample.count <= most &&
           column->values >= (uint64_t)column->sample.count * ROWS_PER_CATEGORY;
}

/* ---- Times ----------------------------------------------------------------------------------- */

static void use_format(weir_ingest__draft_column *column, const weir_ingest__time_format *format) {
    column->format = *format;
    column->form = (weir_ingest__time_form){.format = &column->format};
}

static bool decide_integer_time(const column_at *at) {
    static const char *const units[] = {"seconds", "milliseconds", "microseconds", "nanoseconds"};
    weir_ingest__draft_column *column = at->column;
    bool says_time =
        column->declared == WEIR_INGEST__DECLARED_TIME || weir_ingest__name_says_time(&column->words);
    bool are_many = column->sample.level > 0 || column->sample.count >= DATES_WITHOUT_A_NAME;
    if (column->all_dates && (says_time || are_many)) {
        use_format(column, weir_ingest__draft_date_format(at->draft));
        decide(at, WEIR_TIMESTAMP, "the integers are dates such as 20130102 (\"format\")");
        return true;
    }
    int64_t factor = 1;
    for (int unit = 0; unit < 4 && says_time; unit++, factor *= 1000) {
        int64_t last;
        if (__builtin_mul_overflow(year_2100, factor, &last))
            last = INT64_MAX;
        if (column->least < year_1990 * factor || column->most > last)
            continue;
        column->form = (weir_ingest__time_form){.unit = (weir_ingest__unit)unit, .says_unit = true};
        const char *why = weir_ingest__draft_text(
            at->draft, "the name says time, and as %s since 1970 all values lie between 1990 and 2100",
            units[unit]);
        decide(at, WEIR_TIMESTAMP, why);
        return true;
    }
    return false;
}

/* The first format that all texts have; two that differ in the order of day and month cannot be told apart.
 */
static bool decide_text_time(const column_at *at) {
    const weir_ingest__draft *draft = at->draft;
    weir_ingest__draft_column *column = at->column;
    const weir_ingest__time_format *first = NULL, *other = NULL;
    if (column->iso_texts == column->texts) {
        decide(at, WEIR_TIMESTAMP, "every text is a time in ISO 8601");
        return true;
    }
    for (uint32_t i = 0; i < WEIR_INGEST__FORMATS; i++) {
        const weir_ingest__time_format *format = &draft->formats[i];
        if (!(column->formats >> i & 1))
            continue;
        if (!first)
            first = format;
        else if (strlen(format->pattern) == strlen(first->pattern) && !strchr(format->pattern, 'b'))
            other = format;
    }
    if (!first)
        return false;
    if (other && column->is_key)
        return false;
    if (other) {
        const char *why = weir_ingest__draft_text(
            at->draft,
            "dates whose day and month cannot be told apart: make it a timestamp with "
            "\"format\": \"%s\" or \"%s\"",
            first->pattern, other->pattern);
        decide_with(at, WEIR_IGNORED, true, why);
        return true;
    }
    use_format(column, first);
    const char *why =
        weir_ingest__draft_text(at->draft, "every text is a time of the form %s", first->pattern);
    decide(at, WEIR_TIMESTAMP, why);
    return true;
}

/* ---- Numbers --------------------------------------------------------------------------------- */

static bool ends_in_id_of_table(const column_at *at) {
    const char *joined = at->column->words.joined;
    size_t size = strlen(joined);
    for (uint32_t t = 0; t < at->draft->table_count; t++) {
        const char *stem = at->draft->tables[t].stem.joined;
        size_t stem_size = strlen(stem);
        if (stem_size > 0 && size >= stem_size + 2 && strcmp(joined + size - 2, "id") == 0 &&
            memcmp(joined + size - 2 - stem_size, stem, stem_size) == 0)
            return true;
    }
    return false;
}

static void decide_integer(const column_at *at) {
    const weir_ingest__draft_column *column = at->column;
    bool is_few = has_few(column, INTEGER_CATEGORIES);
    if (decide_integer_time(at))
        return;
    if (column->least == 0 && column->most == 1) {
        decide(at, WEIR_BOOLEAN, "all values are 0 or 1");
    } else if (weir_ingest__word_is_in(WEIR_INGEST__ID_WORDS, weir_ingest__words_last(&column->words)) ||
               ends_in_id_of_table(at)) {
        decide(at, is_few ? WEIR_CATEGORICAL : WEIR_IDENTIFIER,
               is_few ? weir_ingest__draft_text(at->draft,
                                                "the name says id, and there are %u different ones only",
                                                column->sample.count)
                      : "the name says id: its size means nothing");
    } else if (is_few && column->kind == WEIR_INGEST__DRAFT_INTEGER) {
        decide(at, WEIR_CATEGORICAL, say_few(at, "values"));
    } else if (column->declared == WEIR_INGEST__DECLARED_TIME) {
        decide_with(at, WEIR_NUMERICAL, true,
                    "declared as a time, but the integers are none in s, ms, us or ns, and no dates");
    } else {
        decide(at, WEIR_NUMERICAL, "integers with many values");
    }
}

/* ---- Text ------------------------------------------------------------------------------------ */

enum { TRUE_OR_FALSE = 3, T_AND_F = 12, YES_AND_NO = 48 };

/* What some values keep a column from being, for a person to see; NULL if nothing. */
static const char *say_near_miss(const column_at *at) {
    const weir_ingest__draft_column *column = at->column;
    uint64_t numbers = column->integers + column->reals;
    bool is_time = 2 * column->iso_texts > column->values;
    if (is_time || 2 * numbers > column->values)
        return weir_ingest__draft_text(
            at->draft, "%llu of %llu values are %s, the others are not: make those NULL with a query",
            (unsigned long long)(is_time ? column->iso_texts : numbers), (unsigned long long)column->values,
            is_time ? "times in ISO 8601" : "numbers");
    return column->declared == WEIR_INGEST__DECLARED_TIME && column->kind == WEIR_INGEST__DRAFT_TEXT
               ? "declared as a time, but the texts are of no form of times that all of them have"
               : NULL;
}

static void decide_text(const column_at *at) {
    const weir_ingest__draft_column *column = at->column;
    bool is_text = column->kind == WEIR_INGEST__DRAFT_TEXT;
    bool is_distinct = column->wants_unique && !column->unique.has_doubles;
    if (is_text && decide_text_time(at))
        return;
    const char *miss = say_near_miss(at);
    weir_stype stype = WEIR_TEXT;
    const char *why = "text of many kinds";
    if (is_text && ((column->truths & ~WEIR__LOW(uint32_t, TRUE_OR_FALSE)) == 0 ||
                    column->truths == T_AND_F || column->truths == YES_AND_NO)) {
        stype = WEIR_BOOLEAN;
        why = "all texts are words for true and false";
    } else if (has_few(column, TEXT_CATEGORIES)) {
        stype = WEIR_CATEGORICAL;
        why = say_few(at, "texts");
    } else if (is_distinct && !column->any_space && weir_ingest__name_may_be_identifier(&column->words)) {
        stype = WEIR_IDENTIFIER;
        why = "all values are different, none has a space, and the name is that of an identifier";
    }
    decide_with(at, stype, miss != NULL, miss ? miss : why);
}

/* ---- All ------------------------------------------------------------------------------------- */

/* A key is presence alone, unless it is a time: an hour by which weather is found is still an hour. */
static void decide_key(const column_at *at) {
    const weir_ingest__draft_column *column = at->column;
    bool is_time = column->kind == WEIR_INGEST__DRAFT_TIME;
    if (is_time)
        decide(at, WEIR_TIMESTAMP, "a key, of the source's own type for times");
    else if (weir_ingest__draft_is_integral(column) &&
             (column->declared == WEIR_INGEST__DECLARED_TIME || weir_ingest__name_says_time(&column->words)))
        is_time = decide_integer_time(at);
    else if (column->kind == WEIR_INGEST__DRAFT_TEXT)
        is_time = decide_text_time(at);
    if (!is_time)
        decide(at, WEIR_IDENTIFIER, "a key");
}

static void decide_column(const column_at *at) {
    const weir_ingest__draft_column *column = at->column;
    bool is_blob = column->kind == WEIR_INGEST__DRAFT_BLOB || column->declared == WEIR_INGEST__DECLARED_BLOB;
    if (column->is_key)
        decide_key(at);
    else if (column->values == 0)
        decide(at, WEIR_IGNORED, "it has no values");
    else if ((column->kind == WEIR_INGEST__DRAFT_TEXT || is_blob) &&
             weir_ingest__words_are_secret(&column->words))
        decide_with(at, WEIR_IGNORED, true, "its name says that it is a secret");
    else if (is_blob)
        decide(at, WEIR_IGNORED, "blobs");
    else if (column->declared == WEIR_INGEST__DECLARED_BOOLEAN && column->all_boolean)
        decide(at, WEIR_BOOLEAN, "declared, and every value is one");
    else if (column->declared == WEIR_INGEST__DECLARED_ENUM)
        decide(at, WEIR_CATEGORICAL, "an enum");
    else if (column->kind == WEIR_INGEST__DRAFT_BOOLEAN)
        decide(at, WEIR_BOOLEAN, "the source's own type");
    else if (column->kind == WEIR_INGEST__DRAFT_TIME)
        decide(at, WEIR_TIMESTAMP, "the source's own type");
    else if (weir_ingest__draft_is_integral(column))
        decide_integer(at);
    else if (column->kind == WEIR_INGEST__DRAFT_NUMBER)
        decide(at, WEIR_NUMERICAL, "real numbers");
    else
        decide_text(at);
}

void weir_ingest__draft_types(weir_ingest__draft *draft) {
    for (uint32_t t = 0; t < draft->table_count; t++)
        for (uint32_t c = 0; c < draft->tables[t].column_count; c++)
            decide_column(&(column_at){draft, t, c, &draft->tables[t].columns[c]});
}
