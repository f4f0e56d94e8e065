/* See selection.h. */
#include "selection.h"

#include <stdlib.h>
#include <string.h>

void cli_selection_settle(cli_selection *selection, const weir_manifest *manifest) {
    if (!selection->stage)
        selection->stage = weir_manifest_describe(manifest)->stage == WEIR_STAGE_EVAL ? "eval" : "train";
}

weir_status cli_stores_open(cli_stores *stores, const cli_texts *paths, const weir_store_options *options,
                            weir_error *error) {
    weir_status status = WEIR_OK;
    for (stores->count = 0; stores->count < paths->count && status == WEIR_OK;) {
        status = weir_store_open_with(NULL, paths->list[stores->count], options, &stores->list[stores->count],
                                      error);
        if (status == WEIR_OK) {
            const weir_store_info *info = weir_store_describe(stores->list[stores->count]);
            memcpy(stores->hashes[stores->count++], info->store_hash, WEIR_HASH_SIZE);
        }
    }
    if (status != WEIR_OK)
        cli_stores_close(stores);
    return status;
}

void cli_stores_close(cli_stores *stores) {
    for (size_t i = 0; i < stores->count; i++)
        weir_store_close(stores->list[i]);
    stores->count = 0;
}

weir_status cli_stores_population(const cli_stores *stores, const weir_manifest *manifest,
                                  const cli_selection *selection, weir_stage stage, weir_population **out,
                                  weir_error *error) {
    weir_stored_dataset stored;
    *out = NULL;
    for (size_t i = 0; stage == WEIR_STAGE_TRAIN && i < stores->count; i++)
        if (weir_store_dataset(stores->list[i], selection->dataset, &stored, NULL) == WEIR_OK)
            return weir_population_open(NULL, manifest, stores->list[i], selection->dataset,
                                        selection->token.data, selection->token.size, out, error);
    return WEIR_OK;
}
