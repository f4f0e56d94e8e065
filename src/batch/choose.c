/* See choose.h. Up to 16, as is usual, numbers are compared all with all, which is a few vector instructions
 * and no branch (choose_kernel.h). Wider choices look them up in a small open table. */
#include "batch/choose.h"

#include <string.h>

#include "base/heap_sort.h"
#include "base/narrow.h"
#include "base/philox.h"
#include "base/vectors.h"

static weir_batch__narrow_choice *best_narrow_choice(void) {
#if defined(__x86_64__)
    weir__vectors vectors = weir__vectors_of_this_machine();
    if (vectors != WEIR__BASELINE)
        return vectors == WEIR__AVX512 ? weir_batch__choose_narrow_avx512 : weir_batch__choose_narrow_avx2;
#endif
    return weir_batch__choose_narrow_baseline;
}

void weir_batch__chooser_carve(weir_batch__chooser *chooser, weir__block *block, uint32_t width) {
    uint32_t places = 64;
    while (places < 2 * width)
        places *= 2;
    *chooser = (weir_batch__chooser){
        .width = width,
        .table_mask = places - 1,
        .taken = weir__carve(block, width > WEIR__DRAWS ? width : WEIR__DRAWS, sizeof *chooser->taken),
        .table = weir__carve(block, places, sizeof *chooser->table),
        .narrow = best_narrow_choice(),
    };
}

/* Adds a number to the table unless it is there; says whether it was not. */
static bool add_to_table(weir_batch__chooser *c, uint32_t number) {
    uint32_t place = (number * 0x9E3779B1u) >> 7 & c->table_mask;
    while (c->table[place] != 0) {
        if (c->table[place] == number + 1)
            return false;
        place = (place + 1) & c->table_mask;
    }
    c->table[place] = number + 1;
    return true;
}

static void choose_wide(weir_batch__chooser *c, weir_batch__walk_draws *draws, uint32_t n) {
    const weir__draws *block = NULL;
    for (uint32_t i = 0; i < c->width; i++) {
        if (i % WEIR__DRAWS == 0)
            block = weir_batch__draws_from(draws, draws->next + i);
        weir_random x = {block->k0[i % WEIR__DRAWS], block->k1[i % WEIR__DRAWS]};
        uint32_t j = n - c->width + i;
        uint32_t t = WEIR__LOW(uint32_t, weir__scale(x, (uint64_t)j + 1));
        if (!add_to_table(c, t))
            (void)add_to_table(c, t = j);
        c->taken[i] = t;
    }
    memset(c->table, 0, ((size_t)c->table_mask + 1) * sizeof *c->table);
    weir__heap_sort(c->taken, c->width);
}

void weir_batch__choose(weir_batch__chooser *c, weir_batch__walk_draws *draws, uint32_t n) {
    if (c->width <= WEIR__DRAWS)
        c->narrow(draws, c->width, n, c->taken);
    else
        choose_wide(c, draws, n);
    draws->next += c->width;
}
