/* Fuzzes the store's reader: the bytes are taken for a store whose hashes are made to fit, so that damage
 * gets past them; whatever opens is read and verified. */
#include <stdlib.h>

#include "support/damage.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *copy = malloc(size ? size : 1);
    weir_store *store = NULL;
    if (!copy)
        return 0;
    memcpy(copy, data, size);
    rehash_store(copy, size);
    if (weir_store_open_memory(NULL, copy, size, &store, NULL) == WEIR_OK) {
        volatile uint64_t sum = read_everything(store, 200);
        (void)sum;
        if (weir_store_verify(store, 1, NULL) == WEIR_OK) {
            weir_json_writer w;
            weir_json_writer_memory(&w, NULL);
            weir_store_info_json(store, &w);
            weir_json_release(&w);
        }
    }
    weir_store_close(store);
    free(copy);
    return 0;
}
