/* weir plan --html OUT: the plan as one page that asks nothing of the network.
 *
 * The page itself is cli/plan_page/. This file writes the plan as JSON into it. What there is one of per
 * tensor goes in as a column: little-endian integers of the smallest width that holds them all, in base64.
 * Numbers that may pass 2^53 stand as decimal strings. */
#include <stdlib.h>

#include "page.h"
#include "plan_output.h"

/* ---- Columns ------------------------------------------------------------------------------------ */

typedef uint64_t (*column_value)(const weir_plan *plan, size_t arena, size_t index);

/* {"width": bytes a value, "data": base64}; the writer takes OUT_OF_MEMORY if there is none. */
static void write_values(weir_json_writer *w, const uint64_t *values, size_t count) {
    uint64_t largest = 0;
    for (size_t i = 0; i < count; i++)
        largest = values[i] > largest ? values[i] : largest;
    unsigned width = largest <= UINT8_MAX ? 1 : largest <= UINT16_MAX ? 2 : largest <= UINT32_MAX ? 4 : 8;
    size_t size = count * width;
    uint8_t *bytes = malloc(size + 1);
    if (!bytes) {
        w->status = WEIR_OUT_OF_MEMORY;
        return;
    }
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(values[i / width] >> 8 * (i % width));
    weir_json_object(w);
    weir_json_pair_uint(w, "width", width);
    weir_json_key(w, "data");
    cli_json_base64(w, bytes, size);
    weir_json_end_object(w);
    free(bytes);
}

static void write_column(weir_json_writer *w, const char *key, const weir_plan *plan, size_t arena,
                         size_t count, column_value value) {
    uint64_t *values = malloc((count + 1) * sizeof *values);
    weir_json_key(w, key);
    if (!values) {
        w->status = WEIR_OUT_OF_MEMORY;
        return;
    }
    for (size_t i = 0; i < count; i++)
        values[i] = value(plan, arena, i);
    write_values(w, values, count);
    free(values);
}

#define TENSOR_COLUMN(name, expression)                                                                      \
    static uint64_t tensor_##name(const weir_plan *plan, size_t arena, size_t index) {                       \
        weir_plan_tensor tensor = weir_plan_tensor_at(plan, index);                                          \
        (void)arena;                                                                                         \
        return (uint64_t)(expression);                                                                       \
    }
TENSOR_COLUMN(arena, tensor.arena)
TENSOR_COLUMN(type, tensor.type)
TENSOR_COLUMN(role, tensor.role)
TENSOR_COLUMN(slot, tensor.slot)
TENSOR_COLUMN(offset, tensor.offset)
TENSOR_COLUMN(size, tensor.size)
TENSOR_COLUMN(birth, tensor.birth)
TENSOR_COLUMN(death, tensor.death)
TENSOR_COLUMN(rank, tensor.rank)

/* Whose place it has: itself, if it is no alias. */
static uint64_t tensor_owner(const weir_plan *plan, size_t arena, size_t index) {
    weir_plan_tensor tensor = weir_plan_tensor_at(plan, index);
    size_t owner = index;
    (void)arena;
    if (tensor.is_alias)
        (void)weir_plan_find(plan, tensor.alias_of.data, tensor.alias_of.size, &owner);
    return owner;
}

static uint64_t slot_offset(const weir_plan *plan, size_t arena, size_t index) {
    return weir_plan_slot_at(plan, arena, index).offset;
}

static uint64_t slot_address(const weir_plan *plan, size_t arena, size_t index) {
    return weir_plan_slot_at(plan, arena, index).address;
}

/* The dimensions of all tensors, one tensor after the other. */
static void write_shapes(weir_json_writer *w, const weir_plan *plan) {
    size_t count = 0;
    for (size_t i = 0; i < weir_plan_describe(plan)->tensor_count; i++)
        count += weir_plan_tensor_at(plan, i).rank;
    uint64_t *dimensions = malloc((count + 1) * sizeof *dimensions);
    weir_json_key(w, "shape");
    if (!dimensions) {
        w->status = WEIR_OUT_OF_MEMORY;
        return;
    }
    size_t used = 0;
    for (size_t i = 0; i < weir_plan_describe(plan)->tensor_count; i++) {
        weir_plan_tensor tensor = weir_plan_tensor_at(plan, i);
        for (size_t axis = 0; axis < tensor.rank; axis++)
            dimensions[used++] = tensor.shape[axis];
    }
    write_values(w, dimensions, count);
    free(dimensions);
}

/* ---- The plan as JSON --------------------------------------------------------------------------- */

static void write_tensors(weir_json_writer *w, const weir_plan *plan) {
    static const struct {
        const char *name;
        column_value value;
    } columns[] = {{"arena", tensor_arena}, {"type", tensor_type},     {"role", tensor_role},
                   {"slot", tensor_slot},   {"offset", tensor_offset}, {"size", tensor_size},
                   {"birth", tensor_birth}, {"death", tensor_death},   {"rank", tensor_rank},
                   {"owner", tensor_owner}};
    size_t count = weir_plan_describe(plan)->tensor_count;
    weir_json_pair_object(w, "tensors");
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++)
        write_column(w, columns[i].name, plan, 0, count, columns[i].value);
    write_shapes(w, plan);
    weir_json_end_object(w);
    weir_json_pair_array(w, "ids");
    for (size_t i = 0; i < count; i++) {
        weir_text id = weir_plan_tensor_at(plan, i).id;
        weir_json_text_n(w, id.data, id.size);
    }
    weir_json_end_array(w);
}

static void write_arena(weir_json_writer *w, const weir_plan *plan, size_t index) {
    weir_plan_arena arena = weir_plan_arena_at(plan, index);
    weir_json_object(w);
    cli_json_text_n(w, "name", arena.name);
    cli_json_uint_text(w, "alignment", arena.alignment);
    weir_json_key(w, "capacity");
    if (arena.has_capacity)
        weir_json_uint_text(w, arena.capacity);
    else
        weir_json_null(w);
    cli_json_uint_text(w, "budget", arena.budget);
    cli_json_uint_text(w, "lower_bound", arena.lower_bound);
    cli_json_uint_text(w, "peak_bytes", arena.peak_bytes);
    cli_json_uint_text(w, "slot_bytes", arena.slot_bytes);
    cli_json_uint_text(w, "slots", arena.slots);
    cli_json_uint_text(w, "max_live", arena.max_live);
    weir_json_pair_bool(w, "optimal", arena.optimal);
    write_column(w, "slot_offset", plan, index, arena.slots, slot_offset);
    write_column(w, "slot_address", plan, index, arena.slots, slot_address);
    weir_json_end_object(w);
}

/* What running operators again and paging cost, or null. */
static void write_remat(weir_json_writer *w, const weir_plan *plan) {
    const weir_plan_remat *remat = weir_plan_describe(plan)->remat;
    const weir_plan_paging *paging = weir_plan_describe(plan)->paging;
    weir_json_key(w, "remat");
    if (remat->runs_again == 0 && paging->transfers == 0) {
        weir_json_null(w);
        return;
    }
    weir_json_object(w);
    cli_json_uint_text(w, "runs_again", remat->runs_again);
    cli_json_uint_text(w, "added_cost", remat->added_cost);
    cli_json_uint_text(w, "base_cost", remat->base_cost);
    cli_json_uint_text(w, "paged_tensors", paging->tensors);
    cli_json_uint_text(w, "moved", paging->moved);
    cli_json_uint_text(w, "waited", paging->cost);
    cli_json_uint_text(w, "hidden", paging->hidden);
    weir_json_end_object(w);
}

weir_status cli_plan_write_html(const weir_plan *plan, weir_text title, const char *path, weir_error *error) {
    const weir_plan_hashes *hashes = weir_plan_describe(plan)->hashes;
    weir_json_writer w;
    cli_json_begin(&w);
    cli_json_text_n(&w, "title", title);
    weir_json_pair_text(&w, "version", weir_version());
    weir_json_pair_text(&w, "mode", weir_plan_describe(plan)->mode);
    cli_json_uint_text(&w, "end", weir_plan_end(plan));
    weir_json_pair_object(&w, "hashes");
    weir_json_pair_hex(&w, "graph", hashes->graph, sizeof hashes->graph);
    weir_json_pair_hex(&w, "assignment", hashes->assignment, sizeof hashes->assignment);
    weir_json_pair_hex(&w, "plan", hashes->plan, sizeof hashes->plan);
    weir_json_end_object(&w);
    write_remat(&w, plan);
    weir_json_pair_array(&w, "types");
    for (int type = 0; type <= WEIR_TENSOR_UNKNOWN; type++)
        weir_json_text(&w, weir_tensor_type_name((weir_tensor_type)type));
    weir_json_end_array(&w);
    weir_json_pair_array(&w, "roles");
    for (int role = 0; role <= WEIR_ROLE_UNKNOWN; role++)
        weir_json_text(&w, weir_tensor_role_name((weir_tensor_role)role));
    weir_json_end_array(&w);
    weir_json_pair_array(&w, "arenas");
    for (size_t i = 0; i < weir_plan_describe(plan)->arena_count; i++)
        write_arena(&w, plan, i);
    weir_json_end_array(&w);
    write_tensors(&w, plan);
    weir_json_end_object(&w);
    weir_status status = weir_json_finish(&w, error);
    if (status == WEIR_OK)
        status = cli_write_page(CLI_PAGE(plan), &(weir_text){w.data, w.size}, 1, path, error);
    weir_json_release(&w);
    return status;
}
