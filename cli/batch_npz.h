/* A batch as an .npz file, which numpy.load opens: a zip of .npy files, stored without compression. */
#ifndef WEIR_CLI_BATCH_NPZ_H
#define WEIR_CLI_BATCH_NPZ_H

#include "weir/weir.h"

/* Writes all parts of a batch. IO_ERROR; a file that could not be written whole is removed. */
WEIR_CHECKED weir_status cli_write_npz(const weir_batch *batch, const char *path, weir_error *error);

#endif
