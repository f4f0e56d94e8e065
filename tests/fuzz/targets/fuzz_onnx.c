/* Any bytes as an ONNX model: what is accepted must be a graph that every notation holds, with the same
 * hash. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "weir/weir.h"
#include "weir_tool/plan_tools.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_same(const weir_graph *graph, const void *data, size_t size) {
    weir_error error;
    weir_graph *again;
    uint8_t hash[WEIR_HASH_SIZE];
    uint8_t hash_again[WEIR_HASH_SIZE];
    if (weir_graph_read(NULL, data, size, "fuzz", &again, &error) != WEIR_OK)
        abort();
    weir_graph_hash(graph, hash);
    weir_graph_hash(again, hash_again);
    if (memcmp(hash, hash_again, sizeof hash) != 0)
        abort();
    weir_graph_close(again);
}

static void check_notations(const weir_graph *graph) {
    weir_error error;
    weir_cbor_writer cbor;
    weir_json_writer json;
    weir_cbor_writer_memory(&cbor, NULL);
    weir_graph_write_cbor(graph, &cbor);
    weir_json_writer_memory(&json, NULL);
    weir_graph_write_json(graph, &json);
    if (weir_cbor_finish(&cbor, &error) != WEIR_OK || weir_json_finish(&json, &error) != WEIR_OK)
        abort();
    check_same(graph, cbor.data, cbor.size);
    check_same(graph, json.data, json.size);
    weir_cbor_release(&cbor);
    weir_json_release(&json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    weir_error error;
    weir_graph *graph;
    if (weir_graph_import_onnx(NULL, data, size, "fuzz", &graph, &error) == WEIR_OK) {
        check_notations(graph);
        weir_graph_close(graph);
    }
    return 0;
}
