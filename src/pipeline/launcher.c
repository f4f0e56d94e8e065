/* Rank and world size from a launcher's environment variables. The first launcher that has set one of
 * its variables counts: torchrun first, because it may itself have been started by one of the others. */
#include <errno.h>
#include <stdlib.h>

#include "base/ascii.h"
#include "base/internal.h"
#include "weir_tool/pipeline_tools.h"

static const char operator_name[] = "weir.launcher";

static const char *const launchers[][2] = {
    {"RANK", "WORLD_SIZE"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"PMI_RANK", "PMI_SIZE"},
    {"SLURM_PROCID", "SLURM_NTASKS"},
};

static weir_status read_number(const char *name, const char *text, uint32_t *out, weir_error *error) {
    char *end = NULL;
    errno = 0;
    unsigned long long value = weir__is_digit(text[0]) ? strtoull(text, &end, 10) : 0;
    if (!end || *end || errno || value > UINT32_MAX)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, operator_name,
                          "the variable %s is '%.60s', not a number; correct or unset it, or give rank and "
                          "world size",
                          name, text);
    *out = WEIR__NARROW(uint32_t, value);
    return WEIR_OK;
}

weir_status weir_launcher_read(uint32_t *rank, uint32_t *world_size, weir_error *error) {
    uint32_t found[2] = {0, 1};
    for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++) {
        const char *const *names = launchers[i];
        const char *texts[2] = {getenv(names[0]), getenv(names[1])};
        if (!texts[0] && !texts[1])
            continue;
        if (!texts[0] || !texts[1])
            return weir__fail(error, WEIR_CONTRACT_VIOLATION, operator_name,
                              "the variable %s is set and %s is not; set both, unset both, or give rank and "
                              "world size",
                              names[texts[0] ? 0 : 1], names[texts[0] ? 1 : 0]);
        for (size_t k = 0; k < 2; k++) {
            WEIR__TRY(read_number(names[k], texts[k], &found[k], error));
        }
        if (found[0] >= found[1])
            return weir__fail(error, WEIR_CONTRACT_VIOLATION, operator_name,
                              "the variable %s is %u and %s is %u: a rank is below the world size; correct "
                              "or unset them, or give rank and world size",
                              names[0], found[0], names[1], found[1]);
        break;
    }
    *rank = found[0];
    *world_size = found[1];
    return WEIR_OK;
}
