/* See turns.h. No size here is 0 but where the batch size is, which the callers refuse. */
#include "sampler/turns.h"

bool weir_sampler__turns_make(weir_sampler__turns *turns, uint64_t batch_size, const weir_choices *lengths) {
    uint32_t longest = 0;
    for (uint32_t i = 0; i < lengths->count; i++)
        longest = lengths->values[i] > longest ? lengths->values[i] : longest;
    unsigned __int128 cells = (unsigned __int128)batch_size * longest, end = 0;
    *turns = (weir_sampler__turns){.count = lengths->count};
    for (uint32_t i = 0; i < lengths->count; i++) {
        turns->lengths[i] = lengths->values[i];
        end += cells / lengths->values[i];
        if (cells % lengths->values[i] != 0 || end > UINT64_MAX)
            return false;
        turns->starts[i + 1] = (uint64_t)end;
    }
    return true;
}

uint64_t weir_sampler__largest_turn(const weir_sampler__turns *turns) {
    uint64_t largest = 0;
    for (uint32_t i = 0; i < turns->count; i++) {
        uint64_t size = weir_sampler__turn_size(turns, i);
        largest = size > largest ? size : largest;
    }
    return largest;
}

uint32_t weir_sampler__turn_at(const weir_sampler__turns *turns, uint64_t place) {
    uint32_t turn = 0;
    while (turn < turns->count && turns->starts[turn] != place)
        turn++;
    return turn;
}

unsigned __int128 weir_sampler__turns_start(const weir_sampler__turns *turns, uint64_t number) {
    return (unsigned __int128)(number / turns->count) * weir_sampler__round_size(turns) +
           turns->starts[number % turns->count];
}

/* Turns that fit into the last round of an epoch, of which `rest` positions are there; a partial one counts
 * unless it is dropped. */
static uint32_t turns_in_rest(const weir_sampler__turns *turns, uint64_t rest, bool drops_last) {
    uint32_t turn = 0;
    while (turn < turns->count && (drops_last ? turns->starts[turn + 1] <= rest : turns->starts[turn] < rest))
        turn++;
    return turn;
}

uint64_t weir_sampler__turns_in_epoch(const weir_sampler__turns *turns, uint64_t n, bool drops_last) {
    uint64_t round = weir_sampler__round_size(turns);
    return n / round * turns->count + turns_in_rest(turns, n % round, drops_last);
}

uint64_t weir_sampler__turns_limit(const weir_sampler__turns *turns, uint64_t n, bool drops_last) {
    uint64_t rest = n % weir_sampler__round_size(turns);
    return drops_last ? n - rest + turns->starts[turns_in_rest(turns, rest, true)] : n;
}
