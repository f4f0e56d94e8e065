/* See number.h. A store keeps (x - mean) / std as float32. Computing x back from that gives 1.26747e-07
 * where the database has 0: the many doubles that normalise to the same float32 are equally good answers,
 * and the one with the fewest digits is what a person wrote. */
#include "number.h"
#include "weir_tool/store_tools.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_DIGITS = 17 };
static const double LARGEST_PLAIN = 1e15; /* beyond it, digits before the point are not all known */

static bool gives(double value, float normalised, const weir_statistics *statistics) {
    return isfinite(value) && weir_normalise(value, statistics) == normalised;
}

/* The decimal with the fewest digits that is as good as `value`. */
static double shortest(double value, float normalised, const weir_statistics *statistics,
                       char out[CLI_NUMBER_SIZE]) {
    for (int digits = 1; digits <= MOST_DIGITS; digits++) {
        snprintf(out, CLI_NUMBER_SIZE, "%.*g", digits, value);
        if (gives(strtod(out, NULL), normalised, statistics))
            break;
    }
    return strtod(out, NULL);
}

void cli_number_text(float normalised, const weir_statistics *statistics, char out[CLI_NUMBER_SIZE]) {
    double value = (double)normalised * statistics->std + statistics->mean;
    double whole = round(value);
    char digits[CLI_NUMBER_SIZE];
    if (fabs(whole) < LARGEST_PLAIN && gives(whole, normalised, statistics)) {
        if (gives(whole - 1, normalised, statistics) || gives(whole + 1, normalised, statistics))
            snprintf(out, CLI_NUMBER_SIZE, "\xe2\x89\x88 %.0f",
                     shortest(value, normalised, statistics, digits));
        else
            snprintf(out, CLI_NUMBER_SIZE, "%.0f", whole + 0.0); /* not -0 */
        return;
    }
    shortest(value, normalised, statistics, out);
}
