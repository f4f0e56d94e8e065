/* weir plan --csv FILE: lifetimes and sizes in, the same rows with offsets out. The result goes to stdout
 * and what was found to stderr, so that the CSV can be piped; with --json both are in one object. */
#include <inttypes.h>
#include <stdlib.h>

#include "plan_output.h"

static int print_result_json(const weir_packing_result *result, const char *csv, size_t size) {
    weir_json_writer w;
    cli_json_begin(&w);
    cli_json_uint(&w, "buffers", result->buffers);
    cli_json_uint(&w, "lower_bound", result->lower_bound);
    cli_json_uint(&w, "peak_bytes", result->peak_bytes);
    cli_json_bool(&w, "optimal", result->optimal);
    cli_json_uint(&w, "steps", result->steps);
    cli_json_uint(&w, "time_ns", result->time_ns);
    weir_json_key(&w, "csv");
    weir_json_text_n(&w, csv, size);
    return cli_print_object(&w);
}

static int print_result(const weir_packing_result *result, const char *csv, size_t size) {
    double gap = result->lower_bound ? (double)result->peak_bytes / (double)result->lower_bound : 1;
    fwrite(csv, 1, size, stdout);
    fprintf(stderr, "%" PRIu64 " buffers: peak %" PRIu64 ", lower bound %" PRIu64 " (%.4f), %s, %.3f s\n",
            result->buffers, result->peak_bytes, result->lower_bound, gap,
            result->optimal ? "optimal" : "not proven optimal", (double)result->time_ns / 1e9);
    return cli_flush();
}

static weir_status pack(const char *text, size_t size, const char *path, const weir_packing_options *options,
                        weir_packing **packing, weir_packing_result *result, weir_error *error) {
    weir_status status = weir_packing_read_csv(NULL, text, size, path, packing, error);
    if (status == WEIR_OK)
        status = weir_packing_solve(*packing, options, result, error);
    return status;
}

int cli_plan_csv(const char *path, const weir_packing_options *options, bool as_json) {
    weir_error error;
    char *text = NULL;
    size_t size = 0;
    weir_packing *packing = NULL;
    weir_packing_result result;
    const char *csv;
    size_t csv_size;
    weir_status status = cli_read_file(path, &text, &size, &error);
    if (status == WEIR_OK)
        status = pack(text, size, path, options, &packing, &result, &error);
    if (status == WEIR_OK)
        status = weir_packing_csv(packing, &csv, &csv_size, &error);
    int code = CLI_OK;
    if (status != WEIR_OK)
        code = cli_fail(&error, as_json);
    else if (as_json)
        code = print_result_json(&result, csv, csv_size);
    else
        code = print_result(&result, csv, csv_size);
    weir_packing_close(packing);
    free(text);
    return code;
}
