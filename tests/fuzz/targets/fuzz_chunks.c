/* Fuzzes the index of a remote store: what is accepted has chunks that fill the file, and is written and read
 * again as the same; all else is STORE_CORRUPT. */
#include <string.h>

#include "remote/remote.h"
#include "require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    weir_remote__chunks chunks = {.env = weir_env_default()}, again = {.env = weir_env_default()};
    weir_error error;
    weir_json_writer w;
    weir_status status = weir_remote__chunks_read(&chunks, (const char *)data, size, "the input", &error);
    if (status == WEIR_OK) {
        uint64_t end = 0;
        for (size_t i = 0; i < chunks.count; i++) {
            require(chunks.list[i].offset == end && chunks.list[i].size > 0);
            end += chunks.list[i].size;
        }
        require(end == chunks.size);
        weir_json_writer_memory(&w, NULL);
        weir_remote__chunks_write(&chunks, &w);
        require(weir_json_finish(&w, NULL) == WEIR_OK);
        require(weir_remote__chunks_read(&again, w.data, w.size, "again", NULL) == WEIR_OK);
        require(again.count == chunks.count && again.bits == chunks.bits && again.size == chunks.size);
        require(memcmp(again.store_hash, chunks.store_hash, WEIR_HASH_SIZE) == 0);
        weir_json_release(&w);
    } else {
        require(status == WEIR_STORE_CORRUPT && error.message[0] != 0);
    }
    weir_remote__chunks_release(&chunks);
    weir_remote__chunks_release(&again);
    return 0;
}
