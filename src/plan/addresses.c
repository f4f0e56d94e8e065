/* Virtual addresses (MapToVirtualAddresses_v1): a slot's handle is a hash of the replay token, the arena's
 * name and the slot's number, so the same token gives the same handles on every machine. */
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "plan/planning.h"

#define ADDRESS_OPERATOR "UML_OS.TMMU.MapToVirtualAddresses_v1"

static const char address_label[] = "tmmu_va";
enum { LABEL_SIZE = sizeof address_label - 1, SLOT_SIZE = 8 };

weir_status weir_plan__check_addresses(const weir_plan *plan, weir_error *error) {
    weir_status status = WEIR_OK;
    uint32_t most = 0;
    for (uint32_t a = 0; a < plan->arena_count; a++)
        most = plan->arenas[a].slot_count > most ? plan->arenas[a].slot_count : most;
    weir__record *records = weir__allocate(plan->env, most, 2 * sizeof *records);
    if (!records)
        return weir__out_of_memory(error, ADDRESS_OPERATOR, most * 2 * sizeof *records);
    for (uint32_t a = 0; status == WEIR_OK && a < plan->arena_count; a++) {
        const weir_plan__planned_arena *arena = &plan->arenas[a];
        uint32_t count = arena->slot_count;
        for (uint32_t slot = 0; slot < count; slot++)
            records[slot] = (weir__record){plan->slots[arena->first_slot + slot].address, slot};
        weir__sort_records(records, records + count, count, NULL, NULL);
        for (uint32_t i = 1; status == WEIR_OK && i < count; i++) {
            if (records[i - 1].key != records[i].key)
                continue;
            status = weir__fail(error, WEIR_ADDRESS_COLLISION, ADDRESS_OPERATOR,
                                "arena '%.*s': slots %u and %u have one address; use another token, or a "
                                "smaller alignment",
                                WEIR_PLAN__SHOW(arena->name), records[i - 1].index, records[i].index);
            weir__note_uint(error, "address", records[i].key);
        }
    }
    weir__release(plan->env, records);
    return status;
}

weir_status weir_plan__map_addresses(weir_plan *plan, weir_error *error) {
    size_t size = plan->token_size + LABEL_SIZE + WEIR_PLAN__ARENA_NAME_MAX + SLOT_SIZE;
    uint8_t *message = weir__allocate(plan->env, size, 1);
    if (!message)
        return weir__out_of_memory(error, ADDRESS_OPERATOR, size);
    memcpy(message, plan->token, plan->token_size);
    memcpy(message + plan->token_size, address_label, LABEL_SIZE);
    for (uint32_t a = 0; a < plan->arena_count; a++) {
        const weir_plan__planned_arena *arena = &plan->arenas[a];
        uint8_t *at = message + plan->token_size + LABEL_SIZE;
        assert(arena->name.size <= WEIR_PLAN__ARENA_NAME_MAX && "the name fits the message");
        memcpy(at, arena->name.data, arena->name.size);
        at += arena->name.size;
        for (uint32_t slot = 0; slot < arena->slot_count; slot++) {
            uint8_t hash[32];
            weir__store64(at, slot);
            weir__blake3_of(message, (size_t)(at - message) + SLOT_SIZE, hash);
            plan->slots[arena->first_slot + slot].address = weir__load64(hash) & ~(arena->alignment - 1);
        }
    }
    weir__release(plan->env, message);
    return weir_plan__check_addresses(plan, error);
}
