/* weir/stypes.h: the lists of semantic types and of what their values are, from which everything else that
 * lists them is made. */
#ifndef WEIR_STYPES_H
#define WEIR_STYPES_H

/* X(id, number, name, what its values are, whether a task can predict it). Numbers are those of the tensor
 * semantic_types. */
#define WEIR_STYPES(X)                                                                                       \
    X(IDENTIFIER, 0, identifier, PRESENCE, false)                                                            \
    X(NUMERICAL, 1, numerical, NUMBER, true)                                                                 \
    X(TIMESTAMP, 2, timestamp, TIME, true)                                                                   \
    X(BOOLEAN, 3, boolean, TRUTH, true)                                                                      \
    X(CATEGORICAL, 4, categorical, CATEGORY, true)                                                           \
    X(TEXT, 5, text, TEXT, false)                                                                            \
    X(IGNORED, 6, ignored, NOTHING, false)

/* What values are decides where they lie and what is done with them; types whose values are the same differ
 * in how they are read from a source. X(id, bytes of a slot in a record, how numpy calls what lies there, the
 * tensor that carries it). */
#define WEIR_VALUES(X)                                                                                       \
    X(NOTHING, 0, none, none)                     /* not in the store */                                     \
    X(PRESENCE, 0, none, none)                    /* that it is not null, and no more */                     \
    X(NUMBER, 4, float32, numeric_values)         /* normalised by its column's statistics */                \
    X(TIME, 8, int64, timestamp_values)           /* microseconds since 1970 */                              \
    X(TRUTH, 0, bool, bool_values)                /* a bit, beside those of the nulls */                     \
    X(CATEGORY, 4, uint32, categorical_embed_ids) /* its number among those of all columns */                \
    X(TEXT, 4, uint32, text_embed_ids)            /* its number among all texts */

#define WEIR_STYPE_NUMBER(id, number, ...) WEIR_##id = (number),
typedef enum weir_stype { WEIR_STYPES(WEIR_STYPE_NUMBER) } weir_stype;

#define WEIR_VALUE_NUMBERED(id, ...) WEIR_VALUE_##id,
typedef enum weir_value { WEIR_VALUES(WEIR_VALUE_NUMBERED) } weir_value;

/* What the values of a type are. */
static inline weir_value weir_value_of(weir_stype stype) {
#define WEIR_VALUE_CASE(id, number, name, value, ...)                                                        \
    case WEIR_##id:                                                                                          \
        return WEIR_VALUE_##value;
    switch (stype) { WEIR_STYPES(WEIR_VALUE_CASE) }
#undef WEIR_VALUE_CASE
    return WEIR_VALUE_NOTHING;
}

#endif
