/* weir/stypes.h: the list of semantic types, from which everything else that lists them is made.
 *
 * X(id, number, name, bytes of a value's slot in a record, whether a task can predict it). Numbers are those
 * of the tensor semantic_types. */
#ifndef WEIR_STYPES_H
#define WEIR_STYPES_H

#define WEIR_STYPES(X)                                                                                       \
    X(IDENTIFIER, 0, identifier, 0, false)                                                                   \
    X(NUMERICAL, 1, numerical, 4, true)                                                                      \
    X(TIMESTAMP, 2, timestamp, 8, true)                                                                      \
    X(BOOLEAN, 3, boolean, 0, true)                                                                          \
    X(CATEGORICAL, 4, categorical, 4, true)                                                                  \
    X(TEXT, 5, text, 4, false)                                                                               \
    X(IGNORED, 6, ignored, 0, false)

#define WEIR_STYPE_NUMBER(id, number, ...) WEIR_##id = (number),
typedef enum weir_stype { WEIR_STYPES(WEIR_STYPE_NUMBER) } weir_stype;

#endif
