/* Fuzzes the reader of plan files. The bytes are one, or (unless they begin as one does) the recipe of a
 * graph whose plan is made, written and changed at the places that the recipe names. A plan that is accepted
 * is written again as the same bytes, no two of its live tensors share a byte, and its arenas resolve every
 * address to the tensor that is meant. */
#include <string.h>

#include "base/bytes.h"
#include "require.h"
#include "weir/weir.h"
#include "weir_tool/plan_tools.h"

enum { PLAN_START = 0xA5, PLAN_START_LAST = 0xA8, NODES_MAX = 24, EDIT = 3, TENSORS_TRIED = 64 };
enum { ARENA_BYTES_TRIED = 1 << 20, ENDS_TRIED = 1 << 12 };

/* ---- What must hold of an accepted plan -------------------------------------------------------------- */

static void require_apart(const weir_plan *plan, size_t a, size_t b) {
    weir_plan_tensor left = weir_plan_tensor_at(plan, a), right = weir_plan_tensor_at(plan, b);
    bool are_together =
        left.arena == right.arena && left.birth < right.death && right.birth < left.death && a != b;
    if (!are_together || left.is_alias || right.is_alias)
        return;
    require(left.offset + left.size <= right.offset || right.offset + right.size <= left.offset ||
            left.size == 0 || right.size == 0);
    require(left.slot != right.slot && left.address != right.address);
}

static void require_inside(const weir_plan *plan, const weir_plan_tensor *alias) {
    size_t found;
    require(weir_plan_find(plan, alias->alias_of.data, alias->alias_of.size, &found));
    weir_plan_tensor owner = weir_plan_tensor_at(plan, found);
    require(!owner.is_alias && owner.arena == alias->arena && owner.slot == alias->slot);
    require(owner.offset <= alias->offset && alias->offset + alias->size <= owner.offset + owner.size);
    require(owner.birth <= alias->birth && alias->death <= owner.death);
}

static void check_tensors(const weir_plan *plan) {
    size_t count = weir_plan_describe(plan)->tensor_count;
    for (size_t a = 0; a < count && a < TENSORS_TRIED; a++) {
        weir_plan_tensor tensor = weir_plan_tensor_at(plan, a);
        size_t found;
        require(tensor.arena < weir_plan_describe(plan)->arena_count);
        weir_plan_arena arena = weir_plan_arena_at(plan, tensor.arena);
        require(tensor.slot < arena.slots && tensor.death <= weir_plan_end(plan));
        require(tensor.size <= arena.peak_bytes && tensor.offset <= arena.peak_bytes - tensor.size);
        require(weir_plan_slot_at(plan, tensor.arena, tensor.slot).address == tensor.address);
        require(weir_plan_find(plan, tensor.id.data, tensor.id.size, &found) && found == a);
        if (tensor.is_alias)
            require_inside(plan, &tensor);
        for (size_t b = 0; b < a; b++)
            require_apart(plan, a, b);
    }
}

static void check_live_bytes(const weir_plan *plan) {
    static uint64_t bytes[ENDS_TRIED];
    uint64_t end = weir_plan_end(plan);
    for (size_t a = 0; end <= ENDS_TRIED && a < weir_plan_describe(plan)->arena_count; a++) {
        uint64_t most = 0;
        weir_plan_live_bytes(plan, a, bytes);
        for (uint64_t i = 0; i < end; i++)
            most = bytes[i] > most ? bytes[i] : most;
        require(most == weir_plan_arena_at(plan, a).lower_bound);
    }
}

static void check_arenas(const weir_plan *plan) {
    weir_arenas *arenas = NULL;
    for (size_t a = 0; a < weir_plan_describe(plan)->arena_count; a++)
        if (weir_plan_arena_at(plan, a).peak_bytes > ARENA_BYTES_TRIED)
            return;
    require(weir_arenas_open(NULL, plan, NULL, &arenas, NULL) == WEIR_OK);
    for (size_t i = 0; i < weir_plan_describe(plan)->tensor_count; i++) {
        weir_plan_tensor tensor = weir_plan_tensor_at(plan, i);
        weir_text name = weir_plan_arena_at(plan, tensor.arena).name;
        void *memory, *resolved;
        size_t size, resolved_size;
        require(weir_arenas_tensor(arenas, tensor.id.data, tensor.id.size, &memory, &size, NULL) == WEIR_OK);
        require(size == tensor.size);
        if (size > 0)
            memset(memory, 0xA5, size);
        require(weir_arenas_resolve(arenas, name.data, name.size, tensor.address, tensor.birth, &resolved,
                                    &resolved_size, NULL) == WEIR_OK);
        require(tensor.is_alias || (resolved == memory && resolved_size == size));
    }
    weir_arenas_close(arenas);
}

static bool try_restore(const uint8_t *data, size_t size) {
    weir_plan *plan = NULL;
    weir_error error;
    weir_cbor_writer w;
    weir_status status = weir_plan_restore(NULL, data, size, "fuzz", &plan, &error);
    if (status != WEIR_OK) {
        require(plan == NULL && error.status == status && error.message[0] != 0);
        require(status == WEIR_CBOR_INVALID || status == WEIR_INVALID_IR ||
                status == WEIR_ALLOCATION_OVERFLOW || status == WEIR_ADDRESS_COLLISION ||
                status == WEIR_ALIGNMENT_VIOLATION || status == WEIR_ARENA_TOO_SMALL);
        return false;
    }
    weir_cbor_writer_memory(&w, NULL);
    weir_plan_write(plan, &w);
    require(weir_cbor_finish(&w, NULL) == WEIR_OK);
    require(w.size == size && memcmp(w.data, data, size) == 0);
    weir_cbor_release(&w);
    check_tensors(plan);
    check_live_bytes(plan);
    check_arenas(plan);
    weir_plan_close(plan);
    return true;
}

/* ---- Plans of recipes -------------------------------------------------------------------------------- */

static weir_text name_of(char name[8], char kind, unsigned number) {
    return (weir_text){name, (size_t)snprintf(name, 8, "%c%u", kind, number)};
}

/* A byte of the kind 2 makes an alias of the tensor before, as far as that is large enough. */
static void add_tensor(weir_graph *graph, unsigned number, uint8_t before, uint8_t byte) {
    static const char *const arenas[] = {"", "", "", "scratch"};
    char name[8], original[8];
    uint64_t shape[1] = {byte >> 2};
    weir_text arena = {arenas[byte & 3], strlen(arenas[byte & 3])};
    weir_tensor_info info = {.id = name_of(name, 't', number),
                             .type = WEIR_TENSOR_F32,
                             .role = number == 0 ? WEIR_ROLE_INPUT : WEIR_ROLE_ACTIVATION,
                             .arena = arena,
                             .shape = shape,
                             .rank = 1};
    if (number > 0 && (byte & 3) == 2 && byte >> 2 <= before >> 2) {
        info.is_alias = true;
        info.alias_of = name_of(original, 't', number - 1);
        info.alias_offset = (uint64_t)((before >> 2) - (byte >> 2)) * 4;
    }
    require(weir_graph_add_tensor(graph, &info, NULL) == WEIR_OK);
}

/* A chain, in which every node also reads a tensor some steps back. */
static weir_graph *make_graph(const uint8_t *recipe, unsigned nodes) {
    weir_graph *graph = NULL;
    char names[4][8];
    require(weir_graph_create(NULL, (weir_text){"made", 4}, &graph, NULL) == WEIR_OK);
    for (unsigned i = 0; i <= nodes; i++)
        add_tensor(graph, i, i > 0 ? recipe[i - 1] : 0, recipe[i]);
    for (unsigned i = 1; i <= nodes; i++) {
        unsigned back = 1 + recipe[i] % 7;
        weir_text inputs[] = {name_of(names[0], 't', i - 1), name_of(names[1], 't', i > back ? i - back : 0)};
        weir_text output = name_of(names[2], 't', i);
        weir_node_info node = {.id = name_of(names[3], 'n', i),
                               .op = {"custom", 6},
                               .inputs = inputs,
                               .input_count = 2,
                               .outputs = &output,
                               .output_count = 1,
                               .inplace = recipe[i] % 5 == 0 ? WEIR_CHOICE_TRUE : WEIR_CHOICE_DEFAULT};
        require(weir_graph_add_node(graph, &node, NULL) == WEIR_OK);
    }
    weir_text last = name_of(names[0], 't', nodes);
    require(weir_graph_set_outputs(graph, &last, 1, NULL) == WEIR_OK);
    require(weir_graph_finish(graph, NULL) == WEIR_OK);
    return graph;
}

/* The plan, or one that recomputes to keep its first arena below a part of what that needs. */
static weir_plan *limited(const weir_graph *graph, weir_plan_options *options, weir_plan *plan, uint8_t part,
                          char arenas[80]) {
    weir_plan *other = NULL;
    weir_plan_arena first = weir_plan_arena_at(plan, 0);
    unsigned long long capacity = first.peak_bytes / 256 * part;
    snprintf(arenas, 80, "{\"%.*s\": {\"capacity_bytes\": %llu}}", (int)first.name.size, first.name.data,
             capacity);
    options->preset = "remat_enabled";
    options->reorder = part % 2 == 0;
    options->link = options->speed = part % 3 == 0; /* a byte costs 1 */
    options->no_overlap = part % 9 == 0;
    options->arenas = (weir_document){arenas, strlen(arenas), NULL};
    weir_status status = weir_plan_make(NULL, graph, options, &other, NULL);
    require(status == WEIR_OK || status == WEIR_ARENA_TOO_SMALL);
    if (status != WEIR_OK)
        return plan;
    weir_plan_close(plan);
    return other;
}

static void try_recipe(const uint8_t *data, size_t size) {
    static const char *const modes[] = {"inference", "forward", "backward"};
    uint8_t recipe[1 + NODES_MAX + 1] = {0};
    memcpy(recipe, data, size < sizeof recipe ? size : sizeof recipe);
    unsigned nodes = 1 + recipe[0] / 3 % NODES_MAX;
    size_t used = 2 + (size_t)nodes;
    weir_graph *graph = make_graph(recipe + 1, nodes);
    weir_plan_options options = {.size = sizeof options, .mode = modes[recipe[0] % 3], .effort_plus_one = 1};
    weir_plan *plan = NULL;
    weir_cbor_writer w;
    char arenas[80];
    weir_status status = weir_plan_make(NULL, graph, &options, &plan, NULL);
    if (status == WEIR_INVALID_IR) { /* a place is overwritten too early */
        weir_graph_close(graph);
        return;
    }
    require(status == WEIR_OK);
    plan = limited(graph, &options, plan, recipe[nodes + 1], arenas);
    weir_cbor_writer_memory(&w, NULL);
    weir_plan_write(plan, &w);
    require(weir_cbor_finish(&w, NULL) == WEIR_OK);
    require(try_restore(w.data, w.size));
    for (; used + EDIT <= size; used += EDIT)
        w.data[weir__load16(data + used) % w.size] ^= data[used + 2];
    try_restore(w.data, w.size);
    weir_cbor_release(&w);
    weir_plan_close(plan);
    weir_graph_close(graph);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > 0 && data[0] >= PLAN_START && data[0] <= PLAN_START_LAST)
        try_restore(data, size);
    else
        try_recipe(data, size);
    return 0;
}
