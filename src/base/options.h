/* Options are structs whose first member is their size, so that they can grow. A caller that was compiled
 * against an older weir gives a shorter struct: what it lacks is zero, and zero is every option's default. A
 * longer struct is that of a newer caller: it is taken if all that this weir does not know is zero. */
#ifndef WEIR_BASE_OPTIONS_H
#define WEIR_BASE_OPTIONS_H

#include "base/internal.h"

/* Fills `own`, a variable of the struct's type, from what a caller gave; NULL gives the defaults. `type` is
 * the struct's name, for the CONTRACT_VIOLATION of a size that is not set or of options that are not known.
 */
#define WEIR__TAKE_OPTIONS(own, given, type, failure_operator, error)                                        \
    weir__take_options(&(own), sizeof(type), (given), #type, (failure_operator), (error))

WEIR_CHECKED weir_status weir__take_options(void *own, size_t own_size, const void *given, const char *type,
                                            const char *failure_operator, weir_error *error);

#endif
