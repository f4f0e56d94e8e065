/* weir plan --csv FILE: lifetimes and sizes in, the same rows with offsets out. The result goes to stdout
 * and what was found to stderr, so that the CSV can be piped; with --json both are in one object. */
#include <inttypes.h>
#include <stdlib.h>

#include "plan_output.h"

int cli_plan_csv(const char *path, const weir_packing_options *options, bool as_json) {
    weir_error error;
    weir_json_writer w;
    weir_text csv = {0};
    char *text = NULL;
    size_t size = 0;
    weir_packing *packing = NULL;
    weir_packing_result result;
    int code;
    weir_status status = cli_read_file(path, &text, &size, &error);
    if (status == WEIR_OK)
        status = weir_packing_read_csv(NULL, text, size, path, &packing, &error);
    if (status == WEIR_OK)
        status = weir_packing_solve(packing, options, &result, &error);
    if (status == WEIR_OK)
        status = weir_packing_csv(packing, &csv.data, &csv.size, &error);
    if (status != WEIR_OK) {
        code = cli_fail(&error, as_json);
    } else if (as_json) {
        cli_json_begin(&w);
        cli_json_uint(&w, "buffers", result.buffers);
        cli_json_uint(&w, "lower_bound", result.lower_bound);
        cli_json_uint(&w, "peak_bytes", result.peak_bytes);
        cli_json_bool(&w, "optimal", result.optimal);
        cli_json_uint(&w, "steps", result.steps);
        cli_json_uint(&w, "time_ns", result.time_ns);
        cli_json_text_n(&w, "csv", csv);
        code = cli_print_object(&w);
    } else {
        double gap = result.lower_bound ? (double)result.peak_bytes / (double)result.lower_bound : 1;
        fwrite(csv.data, 1, csv.size, stdout);
        fprintf(stderr, "%" PRIu64 " buffers: peak %" PRIu64 ", lower bound %" PRIu64 " (%.4f), %s, %.3f s\n",
                result.buffers, result.peak_bytes, result.lower_bound, gap,
                result.optimal ? "optimal" : "not proven optimal", (double)result.time_ns / 1e9);
        code = cli_flush();
    }
    weir_packing_close(packing);
    free(text);
    return code;
}
