/* weir/cursors.h: where a caller that chooses datasets itself stands in each of them: the seed's
 * `data_cursors` (docs/spec/06-checkpoints.md).
 *
 * A run over a mix needs none of this: its step says it all (weir/run.h). A caller that decides for each
 * step which dataset it takes keeps a cursor for each, and saves and restores them together:
 *
 *   weir_cursors_open(NULL, manifest, NULL, 0, &cursors, &error);
 *   weir_cursors_get(cursors, "shop/churn/train", &cursor, &error);
 *   weir_batch_build(builder, cursor, buffer, &error);
 *   weir_cursors_advance(cursors, "shop/churn/train", &weir_batch_view(buffer)->step, &error);
 *   weir_cursors_save(cursors, "run.cursors", NULL, &error);
 *
 * One thread at a time. */
#ifndef WEIR_CURSORS_H
#define WEIR_CURSORS_H

#include "weir/sampler.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_cursors weir_cursors;

/* A cursor at (0, 0) for every dataset of the manifest, which may be closed after. `token` NULL: the
 * manifest's own. OUT_OF_MEMORY. */
WEIR_API WEIR_CHECKED weir_status weir_cursors_open(const weir_env *env, const weir_manifest *manifest,
                                                    const void *token, size_t token_size, weir_cursors **out,
                                                    weir_error *error);
WEIR_API void weir_cursors_close(weir_cursors *cursors);

/* Where a dataset stands. INVALID_DATASET_KEY. */
WEIR_API WEIR_CHECKED weir_status weir_cursors_get(const weir_cursors *cursors, const char *dataset,
                                                   weir_cursor *out, weir_error *error);

/* Puts a dataset somewhere else. INVALID_DATASET_KEY, GLOBAL_POSITION_EXCEEDS_CARDINALITY. */
WEIR_API WEIR_CHECKED weir_status weir_cursors_set(weir_cursors *cursors, const char *dataset,
                                                   weir_cursor cursor, weir_error *error);

/* Moves a dataset to the end of a step of it, which must begin where it stands: CONTRACT_VIOLATION if it does
 * not, so no batch is skipped or taken twice by mistake. INVALID_DATASET_KEY. */
WEIR_API WEIR_CHECKED weir_status weir_cursors_advance(weir_cursors *cursors, const char *dataset,
                                                       const weir_step *step, weir_error *error);

/* The same as a file that appears whole or not at all (`hash`, of its bytes, may be NULL), and back.
 * IO_ERROR. */
WEIR_API WEIR_CHECKED weir_status weir_cursors_save(const weir_cursors *cursors, const char *path,
                                                    uint8_t hash[WEIR_HASH_SIZE], weir_error *error);
WEIR_API WEIR_CHECKED weir_status weir_cursors_load(weir_cursors *cursors, const char *path,
                                                    weir_error *error);

#ifdef __cplusplus
}
#endif
#endif
