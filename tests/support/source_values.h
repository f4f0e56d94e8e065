/* Values that sources decode, compared. */
#ifndef WEIR_TESTS_SOURCE_VALUES_H
#define WEIR_TESTS_SOURCE_VALUES_H

#include "ingest/source.h"
#include "support/testing.h"

static inline void assert_integer(weir_ingest__value value, weir_ingest__value_type type, int64_t expected) {
    assert_int_equal(value.type, type);
    assert_true(value.integer == expected);
}

/* Bit by bit: -0 is not 0. */
static inline void assert_real(weir_ingest__value value, double expected) {
    assert_int_equal(value.type, WEIR_INGEST__REAL);
    assert_memory_equal(&value.real, &expected, sizeof expected);
}

#endif
