/* What names of tables and columns say (docs/spec/04-draft.md, "Names"). */
#include <string.h>

#include "base/ascii.h"
#include "ingest/draft.h"

/* Letters, digits, and all that is not ASCII. */
static bool is_in_word(char c) {
    return weir__is_letter_or_digit(c) || (unsigned char)c >= 0x80;
}

static bool begins_word(const char *name, size_t at) {
    if (at == 0 || !weir__is_upper(name[at]))
        return false;
    bool follows_small = weir__is_lower(name[at - 1]) || weir__is_digit(name[at - 1]);
    return follows_small || (weir__is_upper(name[at - 1]) && weir__is_lower(name[at + 1]));
}

void weir_ingest__words_read(const char *name, weir_ingest__words *out) {
    size_t used = 0, joined = 0, size = strlen(name);
    memset(out, 0, sizeof *out);
    size = size < WEIR_INGEST__NAME_SIZE / 2 - 1 ? size : WEIR_INGEST__NAME_SIZE / 2 - 1;
    bool is_inside = false;
    for (size_t i = 0; i < size; i++)
        out->lower[i] = weir__lower(name[i]);
    for (size_t i = 0; i < size; i++) {
        bool is_cut = !is_in_word(name[i]) || begins_word(name, i);
        if (is_cut && is_inside) {
            out->text[used++] = 0;
            is_inside = false;
        }
        if (!is_in_word(name[i]))
            continue;
        if (!is_inside) {
            if (out->count == WEIR_INGEST__WORDS_MAX)
                break;
            out->list[out->count++] = out->text + used;
            is_inside = true;
        }
        out->text[used++] = weir__lower(name[i]);
        out->joined[joined++] = weir__lower(name[i]);
    }
}

/* The singular of an English plural, in place. */
static void make_singular(char *word) {
    size_t size = strlen(word);
    if (size > 4 && weir__ends_with(word, "ies")) {
        strcpy(word + size - 3, "y");
    } else if (size > 4 && (weir__ends_with(word, "sses") || weir__ends_with(word, "xes") ||
                            weir__ends_with(word, "ches") || weir__ends_with(word, "shes"))) {
        word[size - 2] = 0;
    } else if (size > 1 && word[size - 1] == 's' && !strchr("sui", word[size - 2])) {
        word[size - 1] = 0;
    }
}

void weir_ingest__words_stem(const char *table, weir_ingest__words *out) {
    static const char *const prefixes[] = {"dim", "fact", "tbl", "stg"};
    weir_ingest__words_read(table, out);
    for (int i = 0; i < 4 && out->count > 1; i++)
        if (strcmp(out->list[0], prefixes[i]) == 0) {
            out->count--;
            memmove(out->list, out->list + 1, out->count * sizeof *out->list);
            break;
        }
    if (out->count > 0)
        make_singular((char *)out->list[out->count - 1]);
    out->joined[0] = 0;
    for (uint32_t i = 0; i < out->count; i++)
        strcat(out->joined, out->list[i]);
}

/* ---- Lists ----------------------------------------------------------------------------------- */

static const char *const lists[] = {
    [WEIR_INGEST__KEY_WORDS] = " id uuid guid key pk fk oid code no nr num number sha ",
    [WEIR_INGEST__ID_WORDS] = " id uuid guid oid pk fk sha ",
    [WEIR_INGEST__GENERIC_NAMES] =
        " id uuid guid key pk fk oid code no nr num number sha name title date time year month day "
        "hour type status value index rank position hash ",
    [WEIR_INGEST__SELF_NAMES] =
        " parent manager supervisor boss reportsto referredby referrer replyto inreplyto previous "
        "prev ",
    [WEIR_INGEST__SECRET_WORDS] = " password passwd pwd secret token apikey salt passphrase pin cvv ssn ",
    [WEIR_INGEST__BIRTH_WORDS] = " birth birthday birthdate dob born ",
    [WEIR_INGEST__CHANGE_WORDS] =
        " update updated modified modification changed edited refreshed synced last latest mtime "
        "lastupdate lastupdated lastmodified death died deceased ",
    [WEIR_INGEST__FUTURE_WORDS] =
        " due required expected estimated eta planned deadline expires expire expiry expiration "
        "until next promised renewal maturity ",
    [WEIR_INGEST__LATE_WORDS] =
        " end ended ends finish finished close closed complete completed return returned ship "
        "shipped shipping deliver delivered delivery cancel cancelled canceled delete deleted "
        "resolved terminated termination paid left retired archived processed approved "
        "discontinued ",
    [WEIR_INGEST__MEASURELESS_WORDS] =
        " id code number no nr num lat lng lon latitude longitude year month day hour zip "
        "index ",
};

bool weir_ingest__word_is_in(weir_ingest__word_list list, const char *word) {
    char wanted[WEIR_INGEST__NAME_SIZE + 2];
    size_t size = strlen(word);
    if (size == 0 || size + 3 > sizeof wanted || strchr(word, ' '))
        return false;
    wanted[0] = ' ';
    memcpy(wanted + 1, word, size);
    strcpy(wanted + 1 + size, " ");
    return strstr(lists[list], wanted) != NULL;
}

bool weir_ingest__words_have(const weir_ingest__words *words, weir_ingest__word_list list) {
    for (uint32_t i = 0; i < words->count; i++)
        if (weir_ingest__word_is_in(list, words->list[i]))
            return true;
    return weir_ingest__word_is_in(list, words->joined);
}

const char *weir_ingest__words_last(const weir_ingest__words *words) {
    return words->count > 0 ? words->list[words->count - 1] : "";
}

bool weir_ingest__words_end_in(const weir_ingest__words *words, const weir_ingest__words *end,
                               const char *and_word) {
    uint32_t length = end->count + (and_word ? 1 : 0);
    if (end->count == 0 || words->count <= length)
        return false;
    uint32_t start = words->count - length;
    for (uint32_t i = 0; i < end->count; i++)
        if (strcmp(words->list[start + i], end->list[i]) != 0)
            return false;
    return !and_word || strcmp(words->list[words->count - 1], and_word) == 0;
}

bool weir_ingest__words_are_key_of(const weir_ingest__words *words, const weir_ingest__words *stem) {
    size_t size = strlen(stem->joined);
    return size > 0 && strncmp(words->joined, stem->joined, size) == 0 &&
           weir_ingest__word_is_in(WEIR_INGEST__KEY_WORDS, words->joined + size);
}

bool weir_ingest__words_are_secret(const weir_ingest__words *words) {
    static const char *const before_key[] = {"api", "private", "access"};
    for (uint32_t i = 0; i + 1 < words->count; i++)
        for (int k = 0; k < 3; k++)
            if (strcmp(words->list[i], before_key[k]) == 0 && strcmp(words->list[i + 1], "key") == 0)
                return true;
    return weir_ingest__words_have(words, WEIR_INGEST__SECRET_WORDS);
}

bool weir_ingest__words_are_self(const weir_ingest__words *words) {
    char name[WEIR_INGEST__NAME_SIZE];
    const char *last = weir_ingest__words_last(words);
    size_t size = strlen(words->joined);
    if (words->count > 1 && weir_ingest__word_is_in(WEIR_INGEST__ID_WORDS, last))
        size -= strlen(last);
    memcpy(name, words->joined, size);
    name[size] = 0;
    return weir_ingest__word_is_in(WEIR_INGEST__SELF_NAMES, name);
}

/* ---- Times and identifiers ------------------------------------------------------------------- */

static bool starts_or_ends_like_time(const weir_ingest__words *words) {
    static const char *const parts[] = {"created", "date", "time", "at", "timestamp", "on"};
    for (int i = 0; i < 6; i++)
        if (weir__ends_with(words->lower, parts[i]) || weir__begins_with(words->lower, parts[i]))
            return true;
    return false;
}

static bool last_is_one_of(const weir_ingest__words *words, const char *const *list) {
    for (; *list; list++)
        if (strcmp(weir_ingest__words_last(words), *list) == 0)
            return true;
    return false;
}

bool weir_ingest__name_sounds_like_row_time(const weir_ingest__words *words) {
    static const char *const more[] = {"ts", "day", NULL};
    return starts_or_ends_like_time(words) || last_is_one_of(words, more);
}

bool weir_ingest__name_says_time(const weir_ingest__words *words) {
    static const char *const more[] = {"ts", "day", "hour", "epoch", "created", "modified", NULL};
    return starts_or_ends_like_time(words) || last_is_one_of(words, more);
}

bool weir_ingest__name_may_be_identifier(const weir_ingest__words *words) {
    static const char *const ends[] = {"id", "uuid", "email", "url", "phone", "hash", "code"};
    for (int i = 0; i < 7; i++)
        if (weir__ends_with(words->lower, ends[i]))
            return true;
    return weir_ingest__word_is_in(WEIR_INGEST__ID_WORDS, weir_ingest__words_last(words));
}
