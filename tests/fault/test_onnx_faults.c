/* Import of ONNX under faults: every allocation and file operation fails once and from then on. The models
 * are those of the fuzz corpus. */
#include <stdlib.h>
#include <string.h>

#include "support/testing.h"
#include "weir/plan.h"

#define CORPUS WEIR_GOLDEN_DIR "/../fuzz/corpus/onnx/"

static weir_status import(const weir_env *env, void *context, weir_error *error) {
    weir_graph *graph;
    weir_status status = weir_graph_import_onnx_file(env, context, &graph, error);
    if (status == WEIR_OK)
        weir_graph_close(graph);
    return status;
}

static void test_import(void **state) {
    (void)state;
    assert_true(sweep_faults(import, NULL, CORPUS "mlp") >= 98);
    assert_true(sweep_faults(import, NULL, CORPUS "constants") >= 88);
    assert_true(sweep_faults(import, NULL, CORPUS "names") >= 94);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_import)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
