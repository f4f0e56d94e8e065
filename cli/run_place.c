/* Rank and world size from a launcher's environment variables. The first launcher that set both of its
 * variables counts: torchrun first, because it may itself have been started by one of the others. */
#include <errno.h>
#include <stdlib.h>

#include "run.h"

typedef struct launcher {
    const char *rank;
    const char *world_size;
} launcher;

static const launcher launchers[] = {
    {"RANK", "WORLD_SIZE"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"PMI_RANK", "PMI_SIZE"},
    {"SLURM_PROCID", "SLURM_NTASKS"},
};

static weir_status read_number(const char *name, const char *text, uint32_t *out, weir_error *error) {
    char *end = NULL;
    char shown[64];
    errno = 0;
    unsigned long long value = text[0] >= '0' && text[0] <= '9' ? strtoull(text, &end, 10) : 0;
    if (!end || *end || errno || value > UINT32_MAX)
        return cli_error(error, WEIR_CONTRACT_VIOLATION,
                         "the variable %s is '%s', not a number; correct or unset it, or give --rank and "
                         "--world-size",
                         name, cli_printable(text, shown, sizeof shown));
    *out = (uint32_t)value;
    return WEIR_OK;
}

static weir_status read_launcher(const launcher *from, const char *rank_text, const char *size_text,
                                 uint32_t *rank, uint32_t *world_size, weir_error *error) {
    uint32_t found_rank = 0, found_size = 0;
    weir_status status = read_number(from->rank, rank_text, &found_rank, error);
    if (status == WEIR_OK)
        status = read_number(from->world_size, size_text, &found_size, error);
    if (status != WEIR_OK)
        return status;
    if (found_rank >= found_size)
        return cli_error(error, WEIR_CONTRACT_VIOLATION,
                         "the variable %s is %u and %s is %u: a rank is below the world size; correct or "
                         "unset them, or give --rank and --world-size",
                         from->rank, found_rank, from->world_size, found_size);
    *rank = found_rank;
    *world_size = found_size;
    return WEIR_OK;
}

weir_status cli_run_find_place(uint32_t *rank, uint32_t *world_size, weir_error *error) {
    for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++) {
        const launcher *from = &launchers[i];
        const char *rank_text = getenv(from->rank);
        const char *size_text = getenv(from->world_size);
        if (rank_text && size_text)
            return read_launcher(from, rank_text, size_text, rank, world_size, error);
        if (rank_text || size_text)
            return cli_error(error, WEIR_CONTRACT_VIOLATION,
                             "the variable %s is set and %s is not; set both, unset both, or give --rank and "
                             "--world-size",
                             rank_text ? from->rank : from->world_size,
                             rank_text ? from->world_size : from->rank);
    }
    return WEIR_OK;
}
