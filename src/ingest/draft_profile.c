/* The first step of a draft: every row of every table is looked at once. A column keeps counts, flags that
 * only ever go out, and a sample of its values; where its name makes uniqueness matter, the hashes of all of
 * them until one comes twice. */
#include <stdio.h>
#include <string.h>

#include "base/sort.h"
#include "ingest/draft.h"
#include "weir_tool/store_tools.h"

/* What texts are tried for as times, in this order; the last also reads integers. */
static const char *const patterns[] = {"%Y-%m-%dT%H:%M:%S.%f%z",
                                       "%Y-%m-%d %H:%M:%S.%f%z",
                                       "%Y-%m-%dT%H:%M:%S.%f",
                                       "%Y-%m-%d %H:%M:%S.%f",
                                       "%Y-%m-%d %H:%M:%S %z",
                                       "%Y/%m/%d",
                                       "%Y/%m/%d %H:%M",
                                       "%Y/%m/%d %H:%M:%S",
                                       "%d/%m/%Y",
                                       "%d/%m/%Y %H:%M",
                                       "%d/%m/%Y %H:%M:%S",
                                       "%m/%d/%Y",
                                       "%m/%d/%Y %H:%M",
                                       "%m/%d/%Y %H:%M:%S",
                                       "%d.%m.%Y",
                                       "%d.%m.%Y %H:%M",
                                       "%d.%m.%Y %H:%M:%S",
                                       "%d-%m-%Y",
                                       "%d-%m-%Y %H:%M",
                                       "%d-%m-%Y %H:%M:%S",
                                       "%m-%d-%Y",
                                       "%m-%d-%Y %H:%M",
                                       "%m-%d-%Y %H:%M:%S",
                                       "%m/%d/%Y %I:%M %p",
                                       "%m/%d/%Y %I:%M:%S %p",
                                       "%d-%b-%Y",
                                       "%d-%b-%y",
                                       "%d %b %Y",
                                       "%b %d, %Y",
                                       "%a %b %d %H:%M:%S %z %Y",
                                       "%a, %d %b %Y %H:%M:%S %z",
                                       "%Y%m%d"};
static_assert(sizeof patterns / sizeof *patterns == WEIR_INGEST__FORMATS, "a format of each pattern");

/* ---- Values ---------------------------------------------------------------------------------- */

static bool is_date_number(const weir_ingest__draft *draft, int64_t value) {
    char digits[24];
    int64_t micros;
    if (value < 19000101 || value > 21001231)
        return false;
    int size = snprintf(digits, sizeof digits, "%lld", (long long)value);
    return weir_ingest__time_format_read(weir_ingest__draft_date_format(draft), digits, (size_t)size,
                                         &micros);
}

static void see_integer(const weir_ingest__draft *draft, weir_ingest__draft_column *column, int64_t value) {
    bool is_first = column->integers + column->whole_reals + column->times == 0;
    if (is_first || value < column->least)
        column->least = value;
    if (is_first || value > column->most)
        column->most = value;
    column->all_dates = column->all_dates && is_date_number(draft, value);
}

enum { TRUE_WORD = 1, FALSE_WORD = 2, T_WORD = 4, F_WORD = 8, YES_WORD = 16, NO_WORD = 32, OTHER_WORD = 64 };

static void see_text(const weir_ingest__draft *draft, weir_ingest__draft_column *column,
                     weir_ingest__bytes text) {
    static const struct {
        const char *word;
        uint32_t bit;
    } words[] = {{"true", TRUE_WORD}, {"false", FALSE_WORD}, {"t", T_WORD},
                 {"f", F_WORD},       {"yes", YES_WORD},     {"no", NO_WORD}};
    uint32_t truth = OTHER_WORD;
    int64_t micros;
    for (int i = 0; i < 6 && truth == OTHER_WORD; i++)
        if (strlen(words[i].word) == text.size && strncasecmp(words[i].word, text.data, text.size) == 0)
            truth = words[i].bit;
    column->truths |= truth;
    column->any_long = column->any_long || text.size > WEIR_INGEST__KEY_TEXT_MAX;
    if (!column->any_space)
        column->any_space = memchr(text.data, ' ', text.size) != NULL;
    column->iso_texts += weir_timestamp_parse(text.data, text.size, &micros);
    for (uint32_t i = 0; column->formats >> i; i++)
        if (column->formats >> i & 1 &&
            !weir_ingest__time_format_read(&draft->formats[i], text.data, text.size, &micros))
            column->formats &= ~((uint64_t)1 << i);
}

/* False if memory is short. */
static bool see_value(const weir_ingest__draft *draft, weir_ingest__draft_column *column,
                      const weir_ingest__value *value) {
    bool truth;
    if (weir_ingest__value_is_null(value))
        return true;
    int64_t number = 0;
    switch (value->type) {
    case WEIR_INGEST__INT:
        number = value->integer;
        see_integer(draft, column, number);
        column->integers++;
        break;
    case WEIR_INGEST__REAL:
        column->reals++;
        if (weir_ingest__is_whole(value->real)) {
            number = (int64_t)value->real;
            see_integer(draft, column, number);
            column->whole_reals++;
        }
        break;
    case WEIR_INGEST__TIMESTAMP:
        number = value->integer;
        see_integer(draft, column, number);
        column->times++;
        break;
    case WEIR_INGEST__BOOL:
        number = value->integer;
        column->booleans++;
        break;
    case WEIR_INGEST__BLOB:
        column->blobs++;
        break;
    default:
        column->texts++;
        see_text(draft, column, value->text);
    }
    column->values++;
    column->all_boolean = column->all_boolean && weir_ingest__to_boolean(value, &truth) == WEIR_INGEST__FITS;
    if (value->type == WEIR_INGEST__BLOB && !column->wants_unique)
        return true;
    uint64_t hash = weir_ingest__value_hash(value);
    if (column->wants_unique && !weir_ingest__hash_set_add(&column->unique, hash))
        return false;
    return weir_ingest__sample_add(&column->sample, hash, 1, number);
}

/* ---- Tables ---------------------------------------------------------------------------------- */

/* Uniqueness matters for what may be a primary key by its name or place, or an identifier. */
static bool wants_unique(const weir_ingest__draft_table *table, uint32_t c) {
    const weir_ingest__words *words = &table->columns[c].words;
    return c == 0 || weir_ingest__name_may_be_identifier(words) ||
           weir_ingest__word_is_in(WEIR_INGEST__KEY_WORDS, weir_ingest__words_last(words)) ||
           weir_ingest__words_are_key_of(words, &table->stem) ||
           strcmp(words->joined, table->stem.joined) == 0 ||
           weir_ingest__word_is_in(WEIR_INGEST__GENERIC_NAMES, words->joined);
}

static bool prepare_table(weir_ingest__draft *draft, weir_ingest__draft_table *table) {
    const weir_ingest__catalog_table *source = table->source;
    table->columns = weir__arena_take_zero(&draft->arena, source->column_count, sizeof *table->columns);
    if (!table->columns)
        return false;
    weir_ingest__words_stem(source->name, &table->stem);
    table->time = table->time_key = WEIR_NONE;
    weir_ingest__sample_init(&table->times, draft->env);
    table->column_count = source->column_count;
    for (uint32_t c = 0; c < source->column_count; c++) {
        weir_ingest__draft_column *column = &table->columns[c];
        column->name = source->columns[c].name;
        column->declared = source->columns[c].declared;
        weir_ingest__words_read(column->name, &column->words);
        column->wants_unique = wants_unique(table, c);
        column->all_dates = column->all_boolean = true;
        column->formats = ((uint64_t)1 << WEIR_INGEST__FORMATS) - 1;
        column->stype = WEIR_IGNORED;
        weir_ingest__sample_init(&column->sample, draft->env);
        weir_ingest__hash_set_init(&column->unique, draft->env);
    }
    return true;
}

typedef struct row_view {
    weir_ingest__draft *draft;
    weir_ingest__draft_table *table;
} row_view;

static bool see_row(void *context, const weir_ingest__value *cells) {
    row_view *view = context;
    for (uint32_t c = 0; c < view->table->column_count; c++)
        if (!see_value(view->draft, &view->table->columns[c], &cells[c]))
            return false;
    view->table->row_count++;
    return true;
}

static weir_ingest__draft_kind kind_of(const weir_ingest__draft_column *column) {
    uint64_t count = column->values;
    if (count == 0)
        return WEIR_INGEST__DRAFT_NOTHING;
    if (column->blobs > 0)
        return WEIR_INGEST__DRAFT_BLOB;
    if (column->booleans == count)
        return WEIR_INGEST__DRAFT_BOOLEAN;
    if (column->times == count)
        return WEIR_INGEST__DRAFT_TIME;
    if (column->integers == count)
        return WEIR_INGEST__DRAFT_INTEGER;
    if (column->integers + column->reals == count)
        return WEIR_INGEST__DRAFT_NUMBER;
    return column->texts == count ? WEIR_INGEST__DRAFT_TEXT : WEIR_INGEST__DRAFT_MIXED;
}

static weir_status scan_with(weir_ingest__draft *draft, weir_ingest__source *session,
                             const weir_ingest__draft_table *table, const uint32_t *columns,
                             uint32_t column_count,
                             bool (*see)(void *context, const weir_ingest__value *cells), void *context,
                             weir_error *error) {
    weir_ingest__cursor *cursor = NULL;
    weir_ingest__rows rows;
    uint64_t uncounted = 0;
    weir_status status =
        weir_ingest__source_scan(session, table->source, columns, column_count, 0, 1, &cursor, error);
    if (status != WEIR_OK)
        return status;
    while ((status = weir_ingest__next_rows(draft->context, cursor, &uncounted, &rows, error)) == WEIR_OK &&
           rows.row_count > 0) {
        for (size_t r = 0; r < rows.row_count && status == WEIR_OK; r++)
            if (!see(context, rows.cells + r * column_count))
                status = weir_ingest__no_memory(error, 1);
        if (status != WEIR_OK)
            break;
    }
    cursor->close(cursor);
    return status;
}

weir_status weir_ingest__draft_scan(weir_ingest__draft *draft, const weir_ingest__draft_table *table,
                                    const uint32_t *columns, uint32_t column_count,
                                    bool (*see)(void *context, const weir_ingest__value *cells),
                                    void *context, weir_error *error) {
    return scan_with(draft, draft->context->sessions[0], table, columns, column_count, see, context, error);
}

static weir_status profile_table(void *argument, size_t index, uint32_t worker, weir_error *error) {
    weir_ingest__draft *draft = argument;
    weir_ingest__draft_table *table = &draft->tables[index];
    row_view view = {draft, table};
    WEIR__TRY(scan_with(draft, draft->context->sessions[worker], table, draft->all_columns,
                        table->column_count, see_row, &view, error));
    for (uint32_t c = 0; c < table->column_count; c++) {
        weir_ingest__draft_column *column = &table->columns[c];
        column->kind = kind_of(column);
        column->is_whole = column->kind == WEIR_INGEST__DRAFT_NUMBER && column->whole_reals == column->reals;
    }
    return WEIR_OK;
}

weir_status weir_ingest__draft_profile(weir_ingest__draft *draft, weir_error *error) {
    const weir_ingest__catalog *catalog = draft->catalog;
    uint64_t total = 0;
    uint32_t widest = 0;
    for (uint32_t t = 0; t < catalog->table_count; t++) {
        total += catalog->tables[t].row_estimate;
        widest = catalog->tables[t].column_count > widest ? catalog->tables[t].column_count : widest;
    }
    draft->tables = weir__arena_take_zero(&draft->arena, catalog->table_count, sizeof *draft->tables);
    draft->all_columns = weir__arena_take_zero(&draft->arena, widest, sizeof *draft->all_columns);
    if (!draft->tables || !draft->all_columns)
        return weir_ingest__no_memory(error, catalog->table_count * sizeof *draft->tables);
    for (uint32_t c = 0; c < widest; c++)
        draft->all_columns[c] = c;
    for (uint32_t t = 0; t < catalog->table_count; t++)
        draft->tables[t] =
            (weir_ingest__draft_table){.name = catalog->tables[t].name, .source = &catalog->tables[t]};
    weir__sort_by_name(draft->tables, catalog->table_count, sizeof *draft->tables);
    for (; draft->table_count < catalog->table_count; draft->table_count++)
        if (!prepare_table(draft, &draft->tables[draft->table_count]))
            return weir_ingest__no_memory(error, widest * sizeof *draft->tables->columns);
    for (int i = 0; i < WEIR_INGEST__FORMATS; i++) {
        const char *wrong =
            weir_ingest__time_format_compile(patterns[i], strlen(patterns[i]), &draft->formats[i]);
        assert(!wrong && "a pattern of drafts is no format");
        (void)wrong;
    }
    weir_ingest__begin_phase(draft->context, "draft", total, catalog->size_bytes);
    return weir_ingest__for_each(draft->context, draft->context->session_count, draft->table_count,
                                 profile_table, draft, error);
}
