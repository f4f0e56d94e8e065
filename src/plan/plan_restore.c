/* Restoring a plan from a file that may hold anything. The numbers are read with their types checked, then
 * everything that can be recomputed is, with the planner's own steps and with the independent validator,
 * and compared: what is accepted is a plan whose arenas can be mapped and whose live tensors never share a
 * byte. */
#include <string.h>

#include "base/file.h"
#include "plan/pack.h"
#include "plan/planning.h"

#define RESTORE_OPERATOR "weir.plan.restore"

enum { PLAN_SIZE_MAX_LOG2 = 36, PLAN_ITEMS = 3 };

typedef struct restorer {
    const char *name;
    weir_plan *plan;
    weir__arena scratch; /* of what is not the plan's */
    weir__names arena_names;
    weir_plan__planned_arena *claimed; /* what the file says of each arena, by name index */
    uint64_t *addresses;               /* what the file says of each tensor */
    weir__reader fields;
    weir_plan__file file;
} restorer;

static weir_status refuse(const restorer *r, const char *what, weir_text detail, weir_error *error) {
    return weir__fail(error, WEIR_INVALID_IR, RESTORE_OPERATOR,
                      "%s is not a usable plan: %s%.*s; make it again", r->name, what,
                      WEIR_PLAN__SHOW(detail));
}

static const weir_text nothing = {"", 0};

/* ---- The head and the arenas ------------------------------------------------------------------- */

static weir_status read_arenas(restorer *r, weir_error *error) {
    const weir_cbor_value *arenas = &r->file.arenas;
    weir_cbor_iterator it = weir_cbor_children(arenas);
    weir_cbor_value key, value;
    uint64_t room = weir__room_of_items(arenas, &weir_plan__arena_shape);
    r->claimed = weir__arena_take_zero(&r->scratch, (size_t)room, sizeof *r->claimed);
    if (!r->claimed)
        return weir__out_of_memory(error, RESTORE_OPERATOR, (size_t)room * sizeof *r->claimed);
    size_t top = weir__enter(&r->fields, "arenas", strlen("arenas"));
    while (weir_cbor_next(&it, &key, &value)) {
        uint32_t index;
        size_t list = weir__enter(&r->fields, key.data, (size_t)key.number);
        if (key.number == 0 || key.number > WEIR_PLAN__ARENA_NAME_MAX)
            return weir__refuse(&r->fields, NULL, "is no name of an arena, which has 1 to 64 bytes");
        if (weir__names_add(r->plan->env, &r->arena_names, (const char *)key.data, (size_t)key.number,
                            &index) == WEIR__NAME_NO_MEMORY)
            return weir__out_of_memory(error, RESTORE_OPERATOR, (size_t)key.number);
        WEIR__TRY(weir__read(&r->fields, &value, &weir_plan__arena_shape, &r->claimed[index]));
        weir__leave(&r->fields, list);
    }
    weir__leave(&r->fields, top);
    return WEIR_OK;
}

/* ---- Tensors ----------------------------------------------------------------------------------- */

static bool read_row(restorer *r, const weir_cbor_value *list, uint32_t index) {
    enum { ARENA, SLOT, ADDRESS, OFFSET, SIZE, BIRTH, DEATH, FIELDS };
    weir_cbor_iterator it = weir_cbor_children(list);
    weir_cbor_value item;
    uint64_t numbers[FIELDS] = {0};
    if (list->type != WEIR_CBOR_ARRAY || list->number != FIELDS)
        return false;
    for (unsigned i = 0; weir_cbor_next(&it, NULL, &item); i++) {
        if (item.type != (i == ARENA ? WEIR_CBOR_TEXT : WEIR_CBOR_UINT))
            return false;
        weir_text name = weir_plan__text_of(&item);
        numbers[i] = i == ARENA ? weir__names_find(&r->arena_names, name.data, name.size) : item.number;
    }
    bool is_good = numbers[ARENA] != WEIR__NO_NAME && numbers[SLOT] < r->plan->count &&
                   numbers[BIRTH] < numbers[DEATH] && numbers[DEATH] < UINT32_MAX;
    if (!is_good)
        return false;
    r->addresses[index] = numbers[ADDRESS];
    r->plan->rows[index] = (weir_plan__row){.size = numbers[SIZE],
                                            .offset = numbers[OFFSET],
                                            .birth = (uint32_t)numbers[BIRTH],
                                            .death = (uint32_t)numbers[DEATH],
                                            .slot = (uint32_t)numbers[SLOT],
                                            .arena = (uint32_t)numbers[ARENA],
                                            .owner = index};
    return true;
}

static weir_status read_tensors(restorer *r, weir_error *error) {
    weir_plan *plan = r->plan;
    const weir_cbor_value *tensors = &r->file.tensors;
    weir_cbor_iterator it = weir_cbor_children(tensors);
    weir_cbor_value key, value;
    size_t text = 0;
    uint64_t end = 0;
    while (weir_cbor_next(&it, &key, &value))
        text += (size_t)key.number;
    if (tensors->number >= WEIR__NO_NAME)
        return weir__out_of_memory(error, RESTORE_OPERATOR, (size_t)tensors->number * sizeof *plan->rows);
    plan->count = (uint32_t)tensors->number;
    plan->id_text = weir__arena_take(&plan->memory, text);
    plan->id_ends = weir__arena_take(&plan->memory, plan->count * sizeof *plan->id_ends);
    plan->rows = weir__arena_take(&plan->memory, plan->count * sizeof *plan->rows);
    r->addresses = weir__arena_take(&r->scratch, plan->count * sizeof *r->addresses);
    if (plan->memory.is_short || !r->addresses)
        return weir__out_of_memory(error, RESTORE_OPERATOR, plan->count * sizeof *plan->rows);
    it = weir_cbor_children(tensors);
    for (uint32_t i = 0; weir_cbor_next(&it, &key, &value); i++) {
        if (!read_row(r, &value, i))
            return refuse(r, "a value is missing, unknown or out of range in the tensor ",
                          weir_plan__text_of(&key), error);
        memcpy(plan->id_text + end, key.data, (size_t)key.number);
        end += key.number;
        plan->id_ends[i] = end;
        plan->end = plan->rows[i].death > plan->end ? plan->rows[i].death : plan->end;
    }
    return WEIR_OK;
}

/* ---- Aliases ----------------------------------------------------------------------------------- */

/* An alias lies inside the bytes and the life of its owner, in its slot and at its address. */
static weir_status read_aliases(restorer *r, weir_error *error) {
    weir_plan *plan = r->plan;
    const weir_cbor_value *aliases = &r->file.aliases;
    weir_cbor_value key, value;
    if (!r->file.has_aliases)
        return WEIR_OK;
    if (aliases->type != WEIR_CBOR_MAP || aliases->number == 0)
        return weir__refuse(&r->fields, "aliases", "must be an object of ids, with at least one");
    weir_cbor_iterator it = weir_cbor_children(aliases);
    while (weir_cbor_next(&it, &key, &value)) {
        uint32_t alias = 0, owner = 0;
        uint64_t end;
        bool holds = value.type == WEIR_CBOR_TEXT &&
                     weir_plan__find_id(plan, NULL, weir_plan__text_of(&key), nothing, &alias) &&
                     weir_plan__find_id(plan, NULL, weir_plan__text_of(&value), nothing, &owner) &&
                     alias != owner;
        const weir_plan__row *inner = &plan->rows[alias];
        const weir_plan__row *outer = &plan->rows[owner];
        holds = holds && inner->arena == outer->arena && inner->slot == outer->slot &&
                r->addresses[alias] == r->addresses[owner] && inner->birth >= outer->birth &&
                inner->death <= outer->death && inner->offset >= outer->offset &&
                !__builtin_add_overflow(inner->offset - outer->offset, inner->size, &end) &&
                end <= outer->size;
        if (!holds)
            return refuse(r, "it does not lie in its owner: the alias ", weir_plan__text_of(&key), error);
        plan->rows[alias].owner = owner;
        plan->alias_count++;
    }
    for (uint32_t i = 0; i < plan->count; i++)
        if (weir_plan__is_alias(plan, plan->rows[i].owner))
            return refuse(r, "it is owned by another alias: the alias ", weir_plan__id(plan, i), error);
    return WEIR_OK;
}

/* ---- Checking it all --------------------------------------------------------------------------- */

/* One slot's tensors must not be live together, and have the slot's one address. */
static bool slots_hold(const restorer *r, const weir_plan__planned_arena *arena, uint32_t *last_death) {
    const weir_plan *plan = r->plan;
    const uint32_t *tensors = plan->by_birth + arena->first_tensor;
    for (uint32_t i = 0; i < arena->tensor_count; i++) {
        const weir_plan__row *row = &plan->rows[tensors[i]];
        weir_plan_slot *slot = &plan->slots[arena->first_slot + row->slot];
        uint32_t *free_from = &last_death[arena->first_slot + row->slot];
        uint64_t rounded = weir_plan__rounded(row->size, arena->alignment);
        if (*free_from > row->birth || (*free_from != 0 && slot->address != r->addresses[tensors[i]]) ||
            r->addresses[tensors[i]] % arena->alignment != 0)
            return false;
        *free_from = row->death;
        slot->address = r->addresses[tensors[i]];
        slot->size = rounded > slot->size ? rounded : slot->size;
    }
    uint64_t top = 0;
    for (uint32_t s = 0; s < arena->slot_count; s++) {
        weir_plan_slot *slot = &plan->slots[arena->first_slot + s];
        slot->offset = top;
        if (last_death[arena->first_slot + s] == 0 || __builtin_add_overflow(top, slot->size, &top))
            return false;
    }
    return top == arena->slot_bytes;
}

static weir_status check_offsets(const restorer *r, const weir_plan__planned_arena *arena,
                                 weir_buffer *buffers, uint64_t *offsets, weir_error *error) {
    const weir_plan *plan = r->plan;
    weir_pack__fault fault;
    bool is_valid, is_inside = true; /* the validator does not look at empty tensors */
    uint64_t peak;
    for (uint32_t i = 0; i < arena->tensor_count; i++) {
        const weir_plan__row *row = &plan->rows[plan->by_birth[arena->first_tensor + i]];
        is_inside = is_inside && row->offset <= arena->peak_bytes;
        buffers[i] = (weir_buffer){row->birth, row->death, weir_plan__rounded(row->size, arena->alignment)};
        offsets[i] = row->offset;
    }
    weir_status status = weir_pack__validate(plan->env, buffers, arena->tensor_count, arena->alignment,
                                             offsets, &is_valid, &peak, &fault, error);
    if (status == WEIR_OK && (!is_valid || !is_inside || peak != arena->peak_bytes))
        return refuse(r, "live tensors overlap, or the peak is wrong, in the arena ", arena->name, error);
    return status;
}

/* Takes over what the file says of the arenas, after it agrees with what was measured, and makes room for
 * slots. */
static weir_status take_claims(restorer *r, weir_error *error) {
    weir_plan *plan = r->plan;
    for (uint32_t a = 0; a < plan->arena_count; a++) {
        weir_plan__planned_arena *arena = &plan->arenas[a];
        uint32_t index = weir__names_find(&r->arena_names, arena->name.data, arena->name.size);
        const weir_plan__planned_arena *claim = &r->claimed[index];
        if (claim->lower_bound != arena->lower_bound || claim->max_live != arena->max_live ||
            claim->slot_count != (arena->reuses ? arena->max_live : arena->tensor_count) ||
            claim->peak_bytes < claim->lower_bound ||
            (!claim->optimal && claim->peak_bytes == claim->lower_bound) ||
            (claim->has_capacity && claim->peak_bytes > claim->capacity))
            return refuse(r, "the numbers are wrong of the arena ", arena->name, error);
        arena->optimal = claim->optimal;
        arena->peak_bytes = claim->peak_bytes;
        arena->slot_bytes = claim->slot_bytes;
        arena->slot_count = claim->slot_count;
        arena->first_slot = plan->slot_count;
        plan->slot_count += claim->slot_count;
    }
    for (uint32_t i = 0; i < plan->count; i++)
        if (plan->rows[i].slot >= plan->arenas[plan->rows[i].arena].slot_count)
            return refuse(r, "a slot is out of range of the tensor ", weir_plan__id(plan, i), error);
    plan->slots = weir__arena_take_zero(&plan->memory, plan->slot_count, sizeof *plan->slots);
    return plan->slots ? WEIR_OK : weir__out_of_memory(error, RESTORE_OPERATOR, plan->slot_count);
}

static weir_status check_arenas(restorer *r, weir_error *error) {
    weir_plan *plan = r->plan;
    uint32_t *last_death = weir__arena_take_zero(&r->scratch, plan->slot_count, sizeof *last_death);
    weir_buffer *buffers = weir__arena_take(&r->scratch, plan->count * sizeof *buffers);
    uint64_t *offsets = weir__arena_take(&r->scratch, plan->count * sizeof *offsets);
    if (r->scratch.is_short)
        return weir__out_of_memory(error, RESTORE_OPERATOR, plan->count * sizeof *buffers);
    for (uint32_t a = 0; a < plan->arena_count; a++) {
        const weir_plan__planned_arena *arena = &plan->arenas[a];
        if (!slots_hold(r, arena, last_death))
            return refuse(r, "slots or addresses contradict each other in the arena ", arena->name, error);
        WEIR__TRY(check_offsets(r, arena, buffers, offsets, error));
    }
    return weir_plan__check_addresses(plan, error);
}

/* The claims as settings, in the order of names, which is that of CBOR keys since the file has it. */
static weir_status collect_arenas(restorer *r, weir_error *error) {
    weir_plan *plan = r->plan;
    uint32_t count = r->arena_names.count;
    weir_plan__arena_setting *settings = weir__arena_take(&r->scratch, count * sizeof *settings);
    if (!settings)
        return weir__out_of_memory(error, RESTORE_OPERATOR, count * sizeof *settings);
    for (uint32_t i = 0; i < count; i++)
        settings[i] = (weir_plan__arena_setting){.name = weir__name(&r->arena_names, i),
                                                 .has_alignment = true,
                                                 .alignment = r->claimed[i].alignment,
                                                 .has_capacity = r->claimed[i].has_capacity,
                                                 .capacity = r->claimed[i].capacity};
    WEIR__TRY(weir_plan__collect_arenas(plan, &r->arena_names, settings, count, error));
    if (plan->arena_count != count)
        return refuse(r, "it has an arena without tensors", nothing, error);
    return WEIR_OK;
}

static weir_status read_schedule(restorer *r, weir_error *error) {
    weir_plan__file *file = &r->file;
    weir_status status = file->has_schedule ? weir_plan__read_schedule(r->plan, &file->schedule) : WEIR_OK;
    if (status == WEIR_INVALID_IR)
        return weir__refuse(
            &r->fields, "schedule",
            "must be a list of [\"run\" or \"back\", node] and [\"out\", \"in\" or \"wait\", tensor]");
    if (status == WEIR_OK)
        status = weir_plan__take_paging(r->plan, file->has_paging ? &file->paging : NULL);
    if (status == WEIR_INVALID_IR)
        return refuse(r, "what it says of paging contradicts its schedule or its tensors", nothing, error);
    if (status != WEIR_OK)
        return weir__out_of_memory(error, RESTORE_OPERATOR, sizeof *r->plan->schedule);
    if (file->has_remat != weir_plan__has_remat(r->plan))
        return refuse(r, "what it says of recomputing contradicts its schedule", nothing, error);
    if (!file->has_remat)
        return WEIR_OK;
    size_t top = weir__enter(&r->fields, "remat", strlen("remat"));
    WEIR__TRY(weir__read(&r->fields, &file->remat, &weir_plan__remat_shape, r->plan));
    weir__leave(&r->fields, top);
    return WEIR_OK;
}

static weir_status restore(restorer *r, const weir_cbor_value *root, weir_error *error) {
    weir_plan__file *file = &r->file;
    WEIR__TRY(weir__read(&r->fields, root, &weir_plan__file_shape, file));
    if (file->arenas.type != WEIR_CBOR_MAP || file->tensors.type != WEIR_CBOR_MAP)
        return weir__refuse(&r->fields, file->arenas.type != WEIR_CBOR_MAP ? "arenas" : "tensors",
                            "must be an object");
    r->plan->mode = file->mode;
    memcpy(r->plan->hashes.graph, file->graph_hash, WEIR_HASH_SIZE);
    WEIR__TRY(read_arenas(r, error));
    WEIR__TRY(read_tensors(r, error));
    WEIR__TRY(read_aliases(r, error));
    WEIR__TRY(collect_arenas(r, error));
    WEIR__TRY(read_schedule(r, error));
    WEIR__TRY(weir_plan__sort_by_time(r->plan, error));
    WEIR__TRY(weir_plan__measure_live(r->plan, error));
    WEIR__TRY(take_claims(r, error));
    WEIR__TRY(check_arenas(r, error));
    WEIR__TRY(weir_plan__seal(r->plan, error));
    weir_plan__fill_metrics(r->plan, 0, 0);
    return WEIR_OK;
}

static weir_status read_items(const weir_env *env, const void *data, size_t size, const char *name,
                              weir_plan **plan, weir_error *error) {
    restorer r = {.name = name};
    size_t ends[PLAN_ITEMS] = {0}; /* a plan, perhaps what its tensors are, perhaps its metrics */
    unsigned items = 0;
    for (size_t at = 0; items == 0 || (at < size && items < PLAN_ITEMS); at = ends[items++]) {
        size_t used = size - at;
        bool is_last = items + 1 == PLAN_ITEMS;
        WEIR__TRY(
            weir__cbor_check_in(name, (const uint8_t *)data + at, size - at, is_last ? NULL : &used, error));
        ends[items] = at + used;
    }
    r.plan = weir__allocate_zero(env, 1, sizeof *r.plan);
    if (!r.plan)
        return weir__out_of_memory(error, RESTORE_OPERATOR, sizeof *r.plan);
    r.plan->env = env;
    weir__arena_init(&r.plan->memory, env);
    weir__arena_init(&r.scratch, env);
    r.fields = (weir__reader){.error = error,
                              .family = WEIR_INVALID_IR,
                              .failure_operator = RESTORE_OPERATOR,
                              .name = r.name,
                              .meant = "a usable plan; make it again",
                              .unknown = "is not a key of weir-plan/1",
                              .path = "$"};
    weir_cbor_value root = weir_cbor_view(data);
    weir_status status = restore(&r, &root, error);
    for (unsigned i = 1; status == WEIR_OK && i < items; i++) {
        weir_cbor_value item = weir_cbor_view((const uint8_t *)data + ends[i - 1]);
        if (i + 1 == items && weir_plan__is_plan_metrics(&item))
            status = weir_plan__read_metrics(r.plan, &item, ends[i] - ends[i - 1], r.name, error);
        else if (r.plan->looks)
            status = refuse(&r, "it has a third item that is not weir-plan-metrics/1", nothing, error);
        else
            status = weir_plan__read_looks(r.plan, &item, r.name, error);
    }
    weir__names_release(env, &r.arena_names);
    weir__arena_release(&r.scratch);
    weir__release(env, r.plan->by_birth);
    weir__release(env, r.plan->by_death);
    r.plan->by_birth = r.plan->by_death = NULL;
    if (status != WEIR_OK) {
        weir_plan_close(r.plan);
        return status;
    }
    weir_plan__fill_info(r.plan);
    *plan = r.plan;
    return WEIR_OK;
}

weir_status weir_plan_restore(const weir_env *env, const void *data, size_t size, const char *name,
                              weir_plan **plan, weir_error *error) {
    name = name ? name : "the plan";
    weir_status status = read_items(weir__env_or_default(env), data, size, name, plan, error);
    return weir__explain_format(status, data, size, name, "a saved plan", error);
}

weir_status weir_plan_restore_file(const weir_env *env, const char *path, weir_plan **plan,
                                   weir_error *error) {
    uint8_t *data;
    size_t size;
    env = weir__env_or_default(env);
    WEIR__TRY(
        weir__file_read(env, path, (size_t)1 << PLAN_SIZE_MAX_LOG2, &data, &size, RESTORE_OPERATOR, error));
    weir_status status = weir_plan_restore(env, data, size, path, plan, error);
    weir__release(env, data);
    return status;
}
