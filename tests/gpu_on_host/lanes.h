/* A GPU's block on the host: each of its threads (lanes) is a fiber, which runs until it waits for its warp
 * or for its block. Whoever waits for lanes that never come, or in one instruction while another lane of the
 * warp is in a different one, fails the test. C, and C++ for kernels. */
#ifndef WEIR_TESTS_LANES_H
#define WEIR_TESTS_LANES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attention/pass_kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    LANES_OF_WARP = 32,
    LANES_OF_BLOCK = 128,
    LANE_WORDS = 12,
    SHARED_ROOM = 256 * 1024,
};

/* What a warp does together. */
typedef enum lane_instruction {
    LANE_SYNC,
    LANE_SHUFFLE,
    LANE_SHUFFLE_XOR,
    LANE_LOAD,
    LANE_LOAD_TRANSPOSED,
    LANE_MULTIPLY,
} lane_instruction;

typedef struct lane_index {
    uint32_t x;
} lane_index;

extern lane_index lane_thread, lane_block, lane_grid; /* of the lane that runs */
extern unsigned char shared[SHARED_ROOM];             /* as kernels name it */

typedef uint32_t lane_words[LANE_WORDS];

/* Waits until all lanes of the warp have given their words; returns these, by lane. They stay until the next
 * but one such call. */
const lane_words *lane_exchange(lane_instruction instruction, const uint32_t *words, uint32_t count);

void lane_sync_block(void);

/* Copies in the background; zeros if `from` is NULL. They arrive at once, or as late as they may. */
void lane_copy(void *to, const void *from, size_t size);
void lane_commit_copies(void);
void lane_await_copies(void);

typedef void attention_kernel(const weir_attention__arguments arguments);

/* Runs a kernel, block by block. `is_late`: copies arrive late, and the last warps and lanes go first; else
 * they arrive at once, and the first go first. */
void lanes_launch(attention_kernel *kernel, const weir_attention__arguments *arguments, uint32_t blocks,
                  bool is_late);

#ifdef __cplusplus
}
#endif

#endif
