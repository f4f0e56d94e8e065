/* From a wide integer to a narrow one. There are three ways, and no others: a test refuses casts to narrower
 * integers anywhere else (tests/cli/test_structure.py), because a number that is cut without a word is how a
 * file or a server makes a program read or write past its memory.
 *
 *   weir__fits(value, &out)     a number from outside: false if the type of `out` cannot hold it
 *   WEIR__NARROW(type, value)   a number that earlier checks have bounded: asserted, in release builds too
 *   WEIR__LOW(type, value)      the low bits, on purpose: hashes, encodings, sign conversions, and inner
 * loops whose bounds are asserted before them */
#ifndef WEIR_BASE_NARROW_H
#define WEIR_BASE_NARROW_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

/* Sizes in files are 64-bit numbers that are used as size_t. */
static_assert(sizeof(size_t) >= sizeof(uint64_t), "weir needs a 64-bit machine");

#define weir__fits(value, out) (!__builtin_add_overflow((value), 0, (out)))

#define WEIR__NARROW(type, value)                                                                            \
    ({                                                                                                       \
        type narrow_;                                                                                        \
        const _Bool is_cut_ = __builtin_add_overflow((value), 0, &narrow_);                                  \
        assert(!is_cut_ && "a number does not fit " #type);                                                  \
        narrow_;                                                                                             \
    })

#define WEIR__LOW(type, value) ((type)(value))

#endif
