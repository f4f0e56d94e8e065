/* Strings that are kept once, and hash tables over them. */
#ifndef WEIR_INGEST_DICTIONARY_H
#define WEIR_INGEST_DICTIONARY_H

#include "ingest/source.h"
#include "store/format.h"

typedef struct weir_ingest__string {
    uint64_t hash; /* XXH3-64 of the bytes */
    uint32_t size;
    char bytes[];
} weir_ingest__string;

enum { WEIR_INGEST__STRING_MAX = INT32_MAX };

/* A copy of bytes in an arena; NULL if memory is short. */
weir_ingest__string *weir_ingest__string_new(weir__arena *arena, const char *bytes, size_t size);
int weir_ingest__string_compare(const weir_ingest__string *a, const weir_ingest__string *b); /* bytewise */

typedef struct weir_ingest__dictionary_slot {
    uint32_t number; /* of the string, plus 1; 0: free */
    uint32_t hash;   /* the low half: most strangers are told apart without a look at the string */
} weir_ingest__dictionary_slot;

/* Distinct strings, numbered from 0 in the order in which they came. Strings live in the arena that
 * interning is given, not in the dictionary. */
typedef struct weir_ingest__dictionary {
    const weir_env *env;
    const weir_ingest__string **strings;
    size_t capacity;
    uint32_t count;
    struct weir_ingest__dictionary_slot *slots;
    size_t slot_mask;
} weir_ingest__dictionary;

void weir_ingest__dictionary_init(weir_ingest__dictionary *dictionary, const weir_env *env);
void weir_ingest__dictionary_release(weir_ingest__dictionary *dictionary);
/* Forgets all strings, and keeps its memory for others. */
void weir_ingest__dictionary_empty(weir_ingest__dictionary *dictionary);
/* The number of a string, copied into the arena where it is new. False if memory is short or 2^32-2 are
 * there. */
bool weir_ingest__dictionary_intern(weir_ingest__dictionary *dictionary, weir__arena *arena,
                                    const char *bytes, size_t size, uint32_t *number);
/* The same with a string whose hash is known. */
bool weir_ingest__dictionary_copy(weir_ingest__dictionary *dictionary, weir__arena *arena,
                                  const weir_ingest__string *string, uint32_t *number);
/* The same with one that lives elsewhere long enough. */
bool weir_ingest__dictionary_adopt(weir_ingest__dictionary *dictionary, const weir_ingest__string *string,
                                   uint32_t *number);

#endif
