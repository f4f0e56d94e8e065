/* Arenas: the memory of each arena of a plan, the host's or a device's, and two ways into it: by tensor id,
 * and by address at a position. The set copies what it needs of the plan, so the plan may be closed. How the
 * memory comes to its addresses is in arena_pages.c. Only the set's weir_memory touches the bytes. */
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/options.h"
#include "plan/arenas.h"
#include "weir_tool/plan_tools.h"

#define ZERO_OPERATOR "UML_OS.TMMU.ZeroTensor_v1"
#define FILL_OPERATOR "UML_OS.TMMU.DebugFill_v1"

enum { FILL_CHUNK = 1 << 14 };

/* ---- Copying the plan -------------------------------------------------------------------------- */

static void *copy_of(weir__arena *memory, const void *data, size_t size) {
    void *copy = weir__arena_take(memory, size);
    if (copy && size > 0)
        memcpy(copy, data, size);
    return copy;
}

/* NULL: no memory. */
static weir_plan *copy_plan(const weir_env *env, const weir_plan *plan) {
    weir_plan *copy = weir__allocate_zero(env, 1, sizeof *copy);
    if (!copy)
        return NULL;
    size_t id_text = plan->count ? (size_t)plan->id_ends[plan->count - 1] : 0;
    *copy = (weir_plan){.env = env,
                        .count = plan->count,
                        .arena_count = plan->arena_count,
                        .slot_count = plan->slot_count,
                        .hashes = plan->hashes};
    weir__arena *memory = &copy->memory;
    weir__arena_init(memory, env);
    copy->id_text = copy_of(memory, plan->id_text, id_text);
    copy->id_ends = copy_of(memory, plan->id_ends, plan->count * sizeof *plan->id_ends);
    copy->sorted = copy_of(memory, plan->sorted, plan->count * sizeof *plan->sorted);
    copy->rows = copy_of(memory, plan->rows, plan->count * sizeof *plan->rows);
    copy->arenas = copy_of(memory, plan->arenas, plan->arena_count * sizeof *plan->arenas);
    copy->slots = copy_of(memory, plan->slots, plan->slot_count * sizeof *plan->slots);
    for (uint32_t a = 0; a < plan->arena_count && copy->arenas; a++)
        copy->arenas[a].name.data = copy_of(memory, plan->arenas[a].name.data, plan->arenas[a].name.size);
    if (!memory->is_short)
        return copy;
    weir_plan_close(copy);
    return NULL;
}

/* ---- Slots and addresses ----------------------------------------------------------------------- */

/* Lists every slot's tensors (no aliases) by birth: they do not overlap in time, so the last one born by a
 * position is the one that may be live then. */
static weir_status list_slots(weir_arenas *set, weir_error *error) {
    const weir_plan *plan = set->plan;
    weir__record *records = weir__allocate(set->env, plan->count, 2 * sizeof *records);
    set->slot_starts = weir__allocate_zero(set->env, plan->slot_count + 1, sizeof *set->slot_starts);
    set->slot_tensors = weir__allocate(set->env, plan->count, sizeof *set->slot_tensors);
    if (!records || !set->slot_starts || !set->slot_tensors) {
        weir__release(set->env, records);
        return weir__out_of_memory(error, WEIR_PLAN__ARENA_OPERATOR, plan->count * sizeof *records);
    }
    uint32_t used = 0;
    for (uint32_t i = 0; i < plan->count; i++) {
        size_t slot = plan->arenas[plan->rows[i].arena].first_slot + plan->rows[i].slot;
        if (weir_plan__is_alias(plan, i))
            continue;
        records[used++] = (weir__record){(uint64_t)slot << 32 | plan->rows[i].birth, i};
        set->slot_starts[slot + 1]++;
    }
    weir__sort_records(records, records + plan->count, used, NULL, NULL);
    for (uint32_t i = 0; i < used; i++)
        set->slot_tensors[i] = records[i].index;
    for (size_t s = 0; s < plan->slot_count; s++)
        set->slot_starts[s + 1] += set->slot_starts[s];
    weir__release(set->env, records);
    return WEIR_OK;
}

static weir_status list_addresses(weir_arenas *set, weir_error *error) {
    const weir_plan *plan = set->plan;
    weir__record *records = weir__allocate(set->env, plan->slot_count, 2 * sizeof *records);
    if (!records)
        return weir__out_of_memory(error, WEIR_PLAN__ARENA_OPERATOR, plan->slot_count * 2 * sizeof *records);
    set->addresses = records;
    for (uint32_t a = 0; a < set->arena_count; a++) {
        const weir_plan__planned_arena *arena = &plan->arenas[a];
        weir__record *own = records + arena->first_slot;
        for (uint32_t s = 0; s < arena->slot_count; s++)
            own[s] = (weir__record){plan->slots[arena->first_slot + s].address, s};
        weir__sort_records(own, records + plan->slot_count, arena->slot_count, NULL, NULL);
        set->arenas[a].addresses = own;
        set->arenas[a].slot_count = arena->slot_count;
        set->arenas[a].first_slot = arena->first_slot;
    }
    return WEIR_OK;
}

/* ---- Filling ----------------------------------------------------------------------------------- */

static weir_status check_token(const uint8_t *token, size_t size, weir_error *error) {
    if (token && size >= WEIR_TOKEN_SIZE)
        return WEIR_OK;
    return weir__fail(error, WEIR_CONTRACT_VIOLATION, FILL_OPERATOR,
                      "the replay token has %zu bytes; it needs at least %d", token ? size : 0,
                      WEIR_TOKEN_SIZE);
}

/* The stream of a handle: BLAKE3 keyed with the token's own hash, over the label and the handle. */
static weir_status fill(const weir_memory *memory, uint8_t *data, size_t size, uint64_t handle,
                        const uint8_t *token, size_t token_size, weir_error *error) {
    uint8_t key[32];
    uint8_t encoded[8];
    uint8_t chunk[FILL_CHUNK];
    weir__blake3 hasher;
    weir__blake3_of(token, token_size, key);
    weir__store64(encoded, handle);
    weir__blake3_init_keyed(&hasher, key);
    weir__blake3_update(&hasher, "tmmu_fill", 9);
    weir__blake3_update(&hasher, encoded, sizeof encoded);
    for (size_t at = 0; at < size; at += FILL_CHUNK) {
        size_t part = size - at < FILL_CHUNK ? size - at : FILL_CHUNK;
        weir__blake3_final_seek(&hasher, at, chunk, part);
        WEIR__TRY(weir__memory_write(memory, data + at, chunk, part, error));
    }
    return WEIR_OK;
}

static weir_status open_set(weir_arenas *set, const weir_arenas_options *options, weir_error *error) {
    set->arenas = weir__allocate_zero(set->env, set->arena_count, sizeof *set->arenas);
    if (!set->arenas)
        return weir__out_of_memory(error, WEIR_PLAN__ARENA_OPERATOR, set->arena_count * sizeof *set->arenas);
    WEIR__TRY(list_slots(set, error));
    WEIR__TRY(list_addresses(set, error));
    for (uint32_t a = 0; a < set->arena_count; a++)
        WEIR__TRY(weir_plan__arena_map(set, a, options, error));
    if (!options->fill_token || options->is_empty)
        return WEIR_OK;
    for (uint32_t a = 0; a < set->arena_count; a++)
        WEIR__TRY(fill(&set->memory, set->arenas[a].base, set->arenas[a].size, a, options->fill_token,
                       options->fill_token_size, error));
    return WEIR_OK;
}

weir_status weir_arenas_open(const weir_env *env, const weir_plan *plan, const weir_arenas_options *given,
                             weir_arenas **arenas, weir_error *error) {
    weir_arenas_options options;
    WEIR__TRY(WEIR__TAKE_OPTIONS(options, given, weir_arenas_options, WEIR_PLAN__ARENA_OPERATOR, error));
    if (options.fill_token)
        WEIR__TRY(check_token(options.fill_token, options.fill_token_size, error));
    env = weir__env_or_default(env);
    weir_arenas *set = weir__allocate_zero(env, 1, sizeof *set);
    if (!set)
        return weir__out_of_memory(error, WEIR_PLAN__ARENA_OPERATOR, sizeof *set);
    set->env = env;
    set->memory = options.memory.allocate ? options.memory : weir__host_memory(env);
    set->plan = copy_plan(env, plan);
    set->arena_count = plan->arena_count;
    weir_cbor_writer_memory(&set->sealed, env);
    weir_status status =
        set->plan ? open_set(set, &options, error)
                  : weir__out_of_memory(error, WEIR_PLAN__ARENA_OPERATOR, plan->count * sizeof *plan->rows);
    if (status != WEIR_OK) {
        weir_arenas_close(set);
        return status;
    }
    *arenas = set;
    return WEIR_OK;
}

void weir_arenas_close(weir_arenas *arenas) {
    if (!arenas)
        return;
    const weir_env *env = arenas->env;
    if (arenas->memory.pages && arenas->memory.settle) /* or work under way would lose its memory */
        (void)!arenas->memory.settle(arenas->memory.context, NULL);
    for (uint32_t a = 0; arenas->arenas && a < arenas->arena_count; a++)
        weir_plan__arena_unmap(arenas, &arenas->arenas[a]);
    weir__release(env, arenas->arenas);
    weir__release(env, arenas->addresses);
    weir__release(env, arenas->slot_starts);
    weir__release(env, arenas->slot_tensors);
    weir_cbor_release(&arenas->sealed);
    weir_plan_close(arenas->plan);
    weir__release(env, arenas);
}

/* ---- Resolving --------------------------------------------------------------------------------- */

weir_plan__mapped *weir_plan__arena_find(const weir_arenas *arenas, const char *name, size_t size) {
    for (uint32_t a = 0; a < arenas->arena_count; a++)
        if (arenas->arenas[a].name.size == size && memcmp(arenas->arenas[a].name.data, name, size) == 0)
            return &arenas->arenas[a];
    return NULL;
}

void *weir_arenas_base(const weir_arenas *arenas, const char *arena, size_t arena_size, size_t *size) {
    const weir_plan__mapped *found = weir_plan__arena_find(arenas, arena, arena_size);
    *size = found ? found->size : 0;
    return found ? found->base : NULL;
}

static void locate(const weir_arenas *arenas, uint32_t tensor, void **memory, size_t *size) {
    const weir_plan__row *row = &arenas->plan->rows[tensor];
    const weir_plan__mapped *arena = &arenas->arenas[row->arena];
    *memory = arena->base ? arena->base + row->offset : NULL;
    *size = (size_t)row->size;
}

weir_status weir_plan__arena_tensor(const weir_arenas *arenas, const char *id, size_t id_size,
                                    const char *operator_name, uint32_t *tensor, weir_error *error) {
    size_t place;
    if (!weir_plan_find(arenas->plan, id, id_size, &place))
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, operator_name, "the plan has no tensor '%.*s'",
                          (int)(id_size < 120 ? id_size : 120), id);
    *tensor = arenas->plan->sorted[place];
    return WEIR_OK;
}

weir_status weir_arenas_tensor(const weir_arenas *arenas, const char *id, size_t id_size, void **memory,
                               size_t *size, weir_error *error) {
    uint32_t tensor = 0;
    WEIR__TRY(weir_plan__arena_tensor(arenas, id, id_size, WEIR_PLAN__ARENA_OPERATOR, &tensor, error));
    locate(arenas, tensor, memory, size);
    return WEIR_OK;
}

weir_status weir_arenas_tensor_at(const weir_arenas *arenas, const char *id, size_t id_size,
                                  uint64_t position, void **memory, size_t *size, weir_error *error) {
    uint32_t tensor = 0;
    WEIR__TRY(weir_plan__arena_tensor(arenas, id, id_size, WEIR_PLAN__ARENA_OPERATOR, &tensor, error));
    const weir_plan__row *row = &arenas->plan->rows[tensor];
    if (position < row->birth || position >= row->death) {
        weir_status status = weir__fail(
            error, WEIR_CONTRACT_VIOLATION, WEIR_PLAN__ARENA_OPERATOR,
            "the tensor '%.*s' is not live at position %llu: it is born at %u and dies at %u",
            (int)(id_size < 120 ? id_size : 120), id, (unsigned long long)position, row->birth, row->death);
        weir__note_uint(error, "position", position);
        return status;
    }
    locate(arenas, tensor, memory, size);
    return WEIR_OK;
}

static bool find_slot(const weir_plan__mapped *arena, uint64_t address, uint32_t *slot) {
    size_t at = weir__count_below(arena->addresses, arena->slot_count, sizeof *arena->addresses, address);
    if (at == arena->slot_count || arena->addresses[at].key != address)
        return false;
    *slot = arena->addresses[at].index;
    return true;
}

/* The slot's tensor that is live at a position, or WEIR__NO_NAME. */
static uint32_t live_at(const weir_arenas *arenas, size_t slot, uint64_t position) {
    uint32_t low = arenas->slot_starts[slot];
    uint32_t high = arenas->slot_starts[slot + 1];
    uint32_t first = low;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (arenas->plan->rows[arenas->slot_tensors[middle]].birth <= position)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == first)
        return WEIR__NO_NAME;
    uint32_t tensor = arenas->slot_tensors[low - 1];
    return position < arenas->plan->rows[tensor].death ? tensor : WEIR__NO_NAME;
}

/* The slot of an address, in one arena or (NULL) in the only one that has it. */
static weir_status find_address(const weir_arenas *arenas, const char *arena, size_t arena_size,
                                uint64_t address, const weir_plan__mapped **found, uint32_t *slot,
                                weir_error *error) {
    unsigned count = 0;
    for (uint32_t a = 0; a < arenas->arena_count; a++) {
        const weir_plan__mapped *each = &arenas->arenas[a];
        uint32_t place = 0;
        bool is_asked = !arena || weir_plan__arena_find(arenas, arena, arena_size) == each;
        if (is_asked && find_slot(each, address, &place)) {
            *found = each;
            *slot = place;
            count++;
        }
    }
    if (count == 1)
        return WEIR_OK;
    weir_status status =
        count > 1 ? weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_PLAN__ARENA_OPERATOR,
                               "the address %llu stands in %u arenas; name the one that is meant",
                               (unsigned long long)address, count)
        : arena   ? weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_PLAN__ARENA_OPERATOR,
                               "the plan has no address %llu in the arena '%.*s'", (unsigned long long)address,
                               (int)(arena_size < 64 ? arena_size : 64), arena)
                  : weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_PLAN__ARENA_OPERATOR,
                               "the plan has no address %llu", (unsigned long long)address);
    weir__note_uint(error, "address", address);
    return status;
}

weir_status weir_arenas_resolve(const weir_arenas *arenas, const char *arena, size_t arena_size,
                                uint64_t address, uint64_t position, void **memory, size_t *size,
                                weir_error *error) {
    const weir_plan__mapped *found = NULL;
    uint32_t slot = 0;
    WEIR__TRY(find_address(arenas, arena, arena_size, address, &found, &slot, error));
    uint32_t tensor = live_at(arenas, found->first_slot + slot, position);
    if (tensor == WEIR__NO_NAME) {
        weir_status status =
            weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_PLAN__ARENA_OPERATOR,
                       "slot %u of the arena '%.*s' has no live tensor at position %llu; it is used "
                       "before birth or after death",
                       slot, WEIR_PLAN__SHOW(found->name), (unsigned long long)position);
        weir__note_uint(error, "position", position);
        return status;
    }
    locate(arenas, tensor, memory, size);
    return WEIR_OK;
}

/* ---- ZeroTensor, DebugFill, CommitExecution ---------------------------------------------------- */

/* Where a tensor's bytes are to be written. CONTRACT_VIOLATION if they have no memory. */
static weir_status locate_memory(const weir_arenas *arenas, uint32_t tensor, const char *operator_name,
                                 void **memory, size_t *size, weir_error *error) {
    const weir_plan__row *row = &arenas->plan->rows[tensor];
    locate(arenas, tensor, memory, size);
    if (row->size == 0 || (arenas->arenas[row->arena].base &&
                           weir_plan__arena_is_backed(&arenas->arenas[row->arena], row->offset, row->size)))
        return WEIR_OK;
    weir_text id = weir_plan__id(arenas->plan, tensor);
    return weir__fail(
        error, WEIR_CONTRACT_VIOLATION, operator_name,
        "the tensor '%.*s' has no memory: that of its pages in the arena '%.*s' was given back; "
        "map some with weir_arenas_remap",
        (int)(id.size < 120 ? id.size : 120), id.data, WEIR_PLAN__SHOW(arenas->arenas[row->arena].name));
}

static weir_status zero_tensor(weir_arenas *arenas, uint32_t tensor, weir_error *error) {
    void *memory = NULL;
    size_t size = 0;
    WEIR__TRY(locate_memory(arenas, tensor, ZERO_OPERATOR, &memory, &size, error));
    weir_plan__arena_note_write(arenas, tensor);
    return weir__memory_clear(&arenas->memory, memory, size, error);
}

weir_status weir_arenas_zero(weir_arenas *arenas, const char *id, size_t id_size, weir_error *error) {
    uint32_t tensor = 0;
    WEIR__TRY(weir_plan__arena_tensor(arenas, id, id_size, ZERO_OPERATOR, &tensor, error));
    return zero_tensor(arenas, tensor, error);
}

weir_status weir_arenas_debug_fill(weir_arenas *arenas, const char *id, size_t id_size, const uint8_t *token,
                                   size_t token_size, weir_error *error) {
    uint32_t tensor = 0;
    void *memory = NULL;
    size_t size = 0;
    WEIR__TRY(check_token(token, token_size, error));
    WEIR__TRY(weir_plan__arena_tensor(arenas, id, id_size, FILL_OPERATOR, &tensor, error));
    WEIR__TRY(locate_memory(arenas, tensor, FILL_OPERATOR, &memory, &size, error));
    const weir_plan__row *row = &arenas->plan->rows[tensor];
    size_t slot = arenas->plan->arenas[row->arena].first_slot + row->slot;
    weir_plan__arena_note_write(arenas, tensor);
    return fill(&arenas->memory, memory, size, arenas->plan->slots[slot].address, token, token_size, error);
}

weir_status weir_arenas_commit(weir_arenas *arenas, uint64_t batch, uint8_t state_hash[WEIR_HASH_SIZE],
                               weir_error *error) {
    uint8_t encoded[96];
    weir_cbor_writer w;
    WEIR__TRY(weir_plan__arena_barriers(arenas, error));
    weir_cbor_writer_fixed(&w, encoded, sizeof encoded);
    weir_cbor_array(&w, 3);
    weir_cbor_text(&w, "tmmu_commit_v1");
    weir_cbor_bytes(&w, arenas->plan->hashes.plan, WEIR_HASH_SIZE);
    weir_cbor_uint(&w, batch);
    weir__sha256_of(encoded, w.size, state_hash);
    return WEIR_OK;
}

weir_status weir_arenas_prepare(weir_arenas *arenas, uint64_t batch, uint8_t state_hash[WEIR_HASH_SIZE],
                                weir_error *error) {
    const weir_plan *plan = arenas->plan;
    void *memory;
    size_t size;
    for (uint32_t i = 0; i < plan->count; i++)
        WEIR__TRY(locate_memory(arenas, plan->sorted[i], ZERO_OPERATOR, &memory, &size, error));
    for (uint32_t i = 0; i < plan->count; i++)
        if (!weir_plan__is_alias(plan, plan->sorted[i]))
            WEIR__TRY(zero_tensor(arenas, plan->sorted[i], error));
    return weir_arenas_commit(arenas, batch, state_hash, error);
}
