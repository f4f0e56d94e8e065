/* See lanes.h. Lanes switch to the test and back, never to each other. */
#include "gpu_on_host/lanes.h"

#include <stdlib.h>
#include <string.h>

#include "support/testing.h"

enum { WARPS = LANES_OF_BLOCK / LANES_OF_WARP, LANE_STACK = 128 * 1024, COPIES_MAX = 128 };

typedef enum lane_state { LANE_READY, LANE_WAITS_FOR_WARP, LANE_WAITS_FOR_BLOCK, LANE_DONE } lane_state;

typedef struct lane_copy_given {
    void *to;
    const void *from;
    size_t size;
} lane_copy_given;

typedef struct lane {
    void *at;      /* where it goes on: its stack */
    uint32_t turn; /* of two places for the words of an exchange */
    uint32_t copies, committed;
    lane_copy_given given[COPIES_MAX];
    _Alignas(16) uint8_t stack[LANE_STACK];
} lane;

typedef struct warp {
    lane_instruction instruction;
    uint32_t arrived;
    lane_words words[2][LANES_OF_WARP];
} warp;

lane_index lane_thread, lane_block, lane_grid;
_Alignas(1024) unsigned char shared[SHARED_ROOM];

static struct {
    void *at; /* where the test goes on */
    lane_state states[LANES_OF_BLOCK];
    lane lanes[LANES_OF_BLOCK];
    warp warps[WARPS];
    uint32_t arrived; /* of the block */
    bool is_late;
    const char *failure;
    attention_kernel *kernel;
    const weir_attention__arguments *arguments;
} machine;

/* Keeps the stack that is in use in *from and goes on with another. Lanes switch by the million: swapcontext
 * would ask the system to keep signals each time. */
void lane_switch(void **from, void *to);
__asm__(".text\n"
        ".type lane_switch, @function\n"
        "lane_switch:\n"
        "push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
        "mov %rsp, (%rdi)\n mov %rsi, %rsp\n"
        "pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n"
        "ret\n"
        ".size lane_switch, . - lane_switch\n");

enum { SWITCH_WORDS = 8 }; /* six registers, where to return to, and one more, for the alignment */

static void leave(lane_state state) {
    machine.states[lane_thread.x] = state;
    lane_switch(&machine.lanes[lane_thread.x].at, machine.at);
}

static void run_lane(void) {
    machine.kernel(*machine.arguments);
    leave(LANE_DONE);
}

/* ---- What a lane calls ------------------------------------------------------------------------------ */

static void wake(uint32_t first, uint32_t count) {
    for (uint32_t i = first; i < first + count; i++)
        machine.states[i] = LANE_READY;
}

const lane_words *lane_exchange(lane_instruction instruction, const uint32_t *words, uint32_t count) {
    uint32_t thread = lane_thread.x, number = thread / LANES_OF_WARP;
    lane *self = &machine.lanes[thread];
    warp *w = &machine.warps[number];
    const lane_words *all = w->words[self->turn];
    if (w->arrived == 0)
        w->instruction = instruction;
    else if (w->instruction != instruction)
        machine.failure = "the lanes of a warp are in different instructions";
    for (uint32_t i = 0; i < count; i++)
        w->words[self->turn][thread % LANES_OF_WARP][i] = words[i];
    self->turn ^= 1;
    if (++w->arrived < LANES_OF_WARP) {
        leave(LANE_WAITS_FOR_WARP);
    } else {
        w->arrived = 0;
        wake(number * LANES_OF_WARP, LANES_OF_WARP);
    }
    return all;
}

void lane_sync_block(void) {
    if (++machine.arrived < LANES_OF_BLOCK) {
        leave(LANE_WAITS_FOR_BLOCK);
    } else {
        machine.arrived = 0;
        wake(0, LANES_OF_BLOCK);
    }
}

static void copy_now(const lane_copy_given *c) {
    if (c->from)
        memcpy(c->to, c->from, c->size);
    else
        memset(c->to, 0, c->size);
}

void lane_copy(void *to, const void *from, size_t size) {
    lane *self = &machine.lanes[lane_thread.x];
    lane_copy_given given = {to, from, size};
    if (!machine.is_late)
        copy_now(&given);
    else if (self->copies < COPIES_MAX)
        self->given[self->copies++] = given;
    else
        machine.failure = "there are too many copies that nobody waits for";
}

void lane_commit_copies(void) {
    lane *self = &machine.lanes[lane_thread.x];
    self->committed = self->copies;
}

void lane_await_copies(void) {
    lane *self = &machine.lanes[lane_thread.x];
    uint32_t left = self->copies - self->committed;
    for (uint32_t i = 0; i < self->committed; i++)
        copy_now(&self->given[i]);
    memmove(self->given, self->given + self->committed, left * sizeof self->given[0]);
    self->copies = left;
    self->committed = 0;
}

/* ---- A launch ---------------------------------------------------------------------------------------- */

static void begin_lane(lane *l) {
    void **top = (void **)(l->stack + LANE_STACK) - SWITCH_WORDS;
    memset(top, 0, SWITCH_WORDS * sizeof *top);
    top[6] = (void *)run_lane;
    l->at = top;
    l->turn = l->copies = l->committed = 0;
}

/* Lets every lane of a warp that can run have a turn; whether any could. */
static bool run_turn(uint32_t number) {
    bool ran = false;
    for (uint32_t i = 0; i < LANES_OF_WARP; i++) {
        uint32_t thread = number * LANES_OF_WARP + (machine.is_late ? LANES_OF_WARP - 1 - i : i);
        if (machine.states[thread] != LANE_READY)
            continue;
        lane_thread.x = thread;
        ran = true;
        lane_switch(&machine.at, machine.lanes[thread].at);
    }
    return ran;
}

/* Each warp runs as far ahead of the others as it can: whoever does not wait for them where he must is seen.
 */
static bool run_warps(void) {
    bool ran = false;
    for (uint32_t i = 0; i < WARPS; i++)
        while (!machine.failure && run_turn(machine.is_late ? WARPS - 1 - i : i))
            ran = true;
    return ran;
}

static void run_block(void) {
    memset(shared, 0xff, sizeof shared); /* not a number, of either type */
    memset(machine.warps, 0, sizeof machine.warps);
    machine.arrived = 0;
    for (uint32_t i = 0; i < LANES_OF_BLOCK; i++)
        begin_lane(&machine.lanes[i]);
    wake(0, LANES_OF_BLOCK);
    while (run_warps())
        ;
    for (uint32_t i = 0; i < LANES_OF_BLOCK && !machine.failure; i++)
        if (machine.states[i] != LANE_DONE)
            machine.failure = "a lane waits for others that have left";
    if (machine.failure)
        fail_msg("block %u: %s", lane_block.x, machine.failure);
}

void lanes_launch(attention_kernel *kernel, const weir_attention__arguments *arguments, uint32_t blocks,
                  bool is_late) {
    machine.kernel = kernel;
    machine.arguments = arguments;
    machine.is_late = is_late;
    machine.failure = NULL;
    lane_grid.x = blocks;
    for (lane_block.x = 0; lane_block.x < blocks; lane_block.x++)
        run_block();
}
