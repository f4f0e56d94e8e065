/* See commons.h. A list that only grows: who finds no entry puts one in front, and who is second gives its
 * own back. */
#include "store/commons.h"

#include "base/block.h"

struct weir_store__common {
    weir_store__common *next;
    uint64_t name;
    void *memory;
    weir__block block;
};

/* The entry of a name, from `first` on. */
static weir_store__common *find(weir_store__common *first, uint64_t name) {
    while (first && first->name != name)
        first = first->next;
    return first;
}

static weir_store__common *make(const weir_env *env, uint64_t name, uint64_t size) {
    weir__block block = {0};
    weir_store__common *made = NULL;
    void *memory = NULL;
    for (int pass = 0; pass < 2; pass++) {
        made = weir__carve(&block, 1, sizeof *made);
        memory = weir__carve(&block, size, 1);
        if (pass == 0 && !weir__block_open(&block, env))
            return NULL;
    }
    *made = (weir_store__common){.name = name, .memory = memory, .block = block};
    return made;
}

void *weir_store__share(weir_store__commons *commons, uint64_t name, uint64_t size) {
    weir_store__common *first = atomic_load_explicit(&commons->first, memory_order_acquire);
    weir_store__common *found = find(first, name), *made = NULL;
    if (!found)
        made = make(commons->env, name, size);
    while (!found && made) {
        made->next = first;
        if (atomic_compare_exchange_strong_explicit(&commons->first, &first, made, memory_order_acq_rel,
                                                    memory_order_acquire))
            return made->memory;
        found = find(first, name);
    }
    if (made) {
        weir__block block = made->block;
        weir__block_close(&block, commons->env);
    }
    return found ? found->memory : NULL;
}

void weir_store__commons_close(weir_store__commons *commons) {
    weir_store__common *at = atomic_load(&commons->first);
    while (at) {
        weir__block block = at->block;
        at = at->next;
        weir__block_close(&block, commons->env);
    }
}
