/* Any bytes as a graph: read, planned in every mode, restored, and packed as CSV. What is accepted must
 * hold. */
#include <stdint.h>
#include <stdlib.h>

#include "weir/weir.h"
#include "weir_tool/plan_tools.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_restored(const weir_plan *plan) {
    weir_error error;
    weir_cbor_writer w;
    weir_plan *restored;
    weir_cbor_writer_memory(&w, NULL);
    weir_plan_write(plan, &w);
    weir_plan_write_tensors(plan, &w);
    if (weir_cbor_finish(&w, &error) != WEIR_OK ||
        weir_plan_restore(NULL, w.data, w.size, "fuzz", &restored, &error) != WEIR_OK)
        abort();
    weir_plan_close(restored);
    weir_cbor_release(&w);
}

static void plan_graph(const weir_graph *graph) {
    static const char *const modes[] = {"inference", "forward", "backward"};
    for (int mode = 0; mode < 3; mode++) {
        weir_error error;
        weir_plan *plan;
        weir_plan_options options = {.size = sizeof options, .mode = modes[mode], .effort_plus_one = 2};
        if (weir_plan_make(NULL, graph, &options, &plan, &error) != WEIR_OK)
            continue;
        check_restored(plan);
        weir_plan_close(plan);
    }
}

static void pack_csv(const uint8_t *data, size_t size) {
    weir_error error;
    weir_packing *packing;
    weir_packing_result result;
    weir_packing_options options = {.size = sizeof options, .effort_plus_one = 2};
    if (weir_packing_read_csv(NULL, data, size, "fuzz", &packing, &error) != WEIR_OK)
        return;
    if (weir_packing_solve(packing, &options, &result, &error) == WEIR_OK &&
        result.peak_bytes < result.lower_bound)
        abort();
    weir_packing_close(packing);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    weir_error error;
    weir_graph *graph;
    weir_plan *plan;
    if (weir_graph_read(NULL, data, size, "fuzz", &graph, &error) == WEIR_OK) {
        plan_graph(graph);
        weir_graph_close(graph);
    }
    if (weir_plan_restore(NULL, data, size, "fuzz", &plan, &error) == WEIR_OK)
        weir_plan_close(plan);
    pack_csv(data, size);
    return 0;
}
