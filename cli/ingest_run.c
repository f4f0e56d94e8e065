/* See ingest_run.h. */
#include "ingest_run.h"

#include <stdlib.h>
#include <string.h>

#include "page.h"
#include "progress.h"
#include "signals.h"

/* ---- What ingest tells ----------------------------------------------------------------------- */

static void release_warning(const weir_warning *warning) {
    const char *const texts[] = {warning->code, warning->table, warning->column, warning->task,
                                 warning->message};
    for (int i = 0; i < 5; i++)
        free((void *)texts[i]);
}

static char *copy_of(const char *text) {
    return text ? strdup(text) : NULL;
}

static void keep_warning(void *context, const weir_warning *warning) {
    cli_ingest_job *ingest = context;
    weir_warning *grown = realloc(ingest->warnings, (ingest->warning_count + 1) * sizeof *grown);
    weir_warning kept = {copy_of(warning->code), copy_of(warning->table),   copy_of(warning->column),
                         copy_of(warning->task), copy_of(warning->message), warning->is_note};
    if (grown)
        ingest->warnings = grown;
    if (!grown || !kept.code || !kept.message) {
        release_warning(&kept);
        ingest->is_short_of_memory = true;
        return;
    }
    ingest->warnings[ingest->warning_count++] = kept;
}

/* The report is made before the store takes its name, so that --strict can still refuse it. It keeps to the
 * memory that ingest may take. */
static weir_status inspect(void *context, const char *path, weir_warning_report tell, void *tell_context,
                           weir_error *error) {
    cli_ingest_job *ingest = context;
    weir_store_options opening = {.size = sizeof opening, .memory = ingest->options.memory};
    weir_status status = weir_store_open_with(NULL, path, &opening, &ingest->store, error);
    if (status == WEIR_OK)
        status = weir_report_open(NULL, ingest->store, &ingest->report, error);
    for (uint32_t i = 0; status == WEIR_OK && i < weir_report_look(ingest->report)->warning_count; i++)
        tell(tell_context, &weir_report_look(ingest->report)->warnings[i]);
    return status;
}

/* Warnings and notes as the members "warnings" and "notes". */
static void put_warnings(const cli_ingest_job *ingest, weir_json_writer *w) {
    static const char *const names[] = {"code", "table", "column", "task", "message"};
    for (int notes = 0; notes < 2; notes++) {
        weir_json_pair_array(w, notes ? "notes" : "warnings");
        for (size_t i = 0; i < ingest->warning_count; i++) {
            const weir_warning *warning = &ingest->warnings[i];
            const char *const texts[] = {warning->code, warning->table, warning->column, warning->task,
                                         warning->message};
            if (warning->is_note != (notes == 1))
                continue;
            weir_json_object(w);
            for (size_t k = 0; k < CLI_COUNT(texts); k++)
                if (texts[k])
                    weir_json_pair_text(w, names[k], texts[k]);
            weir_json_end_object(w);
        }
        weir_json_end_array(w);
    }
}

static void put_result(weir_json_writer *w, const weir_ingest_report *result) {
    weir_json_pair_text(w, "store", result->store_path);
    weir_json_pair_text(w, "manifest", result->manifest_path);
    weir_json_pair_bool(w, "manifest_kept", result->manifest_kept);
    weir_json_pair_hex(w, "store_hash", result->store_hash, WEIR_HASH_SIZE);
    weir_json_pair_bool(w, "drafted", result->drafted);
    weir_json_pair_uint(w, "tables", result->tables);
    weir_json_pair_uint(w, "ignored_columns", result->ignored_columns);
    weir_json_pair_uint(w, "rows", result->rows);
    weir_json_pair_uint(w, "edges", result->edges);
    weir_json_pair_uint(w, "dangling", result->dangling);
    weir_json_pair_uint(w, "not_finite", result->not_finite);
    weir_json_pair_uint(w, "seeds", result->seeds);
    weir_json_pair_uint(w, "dropped_seeds", result->dropped_seeds);
    weir_json_pair_uint(w, "texts", result->texts);
    weir_json_pair_uint(w, "source_bytes", result->source_bytes);
    weir_json_pair_uint(w, "store_bytes", result->store_bytes);
    weir_json_pair_uint(w, "embedding_bytes", result->embedding_bytes);
    weir_json_pair_uint(w, "spilled_bytes", result->spilled_bytes);
    weir_json_pair_uint(w, "kept_bytes", result->kept_bytes);
    weir_json_pair_object(w, "seconds");
    weir_json_pair_double(w, "total", (double)result->total_ns * 1e-9);
    weir_json_pair_double(w, "read", (double)result->read_ns * 1e-9);
    weir_json_pair_double(w, "order", (double)result->order_ns * 1e-9);
    weir_json_pair_double(w, "match", (double)result->match_ns * 1e-9);
    weir_json_pair_double(w, "tasks", (double)result->tasks_ns * 1e-9);
    weir_json_pair_double(w, "write", (double)result->write_ns * 1e-9);
    weir_json_pair_double(w, "embed", (double)result->embed_ns * 1e-9);
    weir_json_end_object(w);
}

bool cli_ingest_read_base(const cli_ingest_job *ingest, weir_cbor_writer *out) {
    const weir_bytes *told = &ingest->base_report;
    weir_cbor_writer_memory(out, NULL);
    return ingest->options.base && told->size > 0 &&
           weir_json_read(told->data, told->size, "the report", WEIR_CBOR_INVALID, out, NULL) == WEIR_OK;
}

int cli_ingest_finish(const cli_ingest_job *ingest, weir_status status, const weir_error *error,
                      bool as_json) {
    weir_cbor_writer told;
    weir_json_writer w;
    if (status == WEIR_OK && !as_json)
        return cli_ingest_print(ingest);
    if (status != WEIR_OK && !as_json && ingest->report) {
        cli_ingest_print_warnings(ingest);
        cli_flush();
    }
    if (status != WEIR_OK && (!as_json || !ingest->report))
        return cli_fail(error, as_json);
    cli_json_begin(&w);
    if (status == WEIR_OK) {
        put_result(&w, &ingest->result);
        if (cli_ingest_read_base(ingest, &told)) {
            weir_cbor_value value = weir_cbor_view(told.data);
            weir_json_key(&w, "base");
            weir_json_value(&w, &value);
        }
        weir_cbor_release(&told);
    } else {
        weir_json_key(&w, "error");
        weir_error_json(error, &w);
    }
    put_warnings(ingest, &w);
    if (status == WEIR_OK) {
        weir_json_key(&w, "report");
        weir_report_json(ingest->report, ingest->store, &w);
    }
    int result = cli_print_object(&w);
    return status == WEIR_OK ? result : CLI_FAILED;
}

/* ---- As a page ------------------------------------------------------------------------------- */

static weir_status write_page(const cli_ingest_job *ingest, weir_error *error) {
    char source[CLI_PATH_MAX];
    weir_json_writer w;
    if (cli_is_same_file(ingest->page, ingest->result.manifest_path))
        return cli_error(error, WEIR_CONTRACT_VIOLATION, "%s is the manifest; the page must be another file",
                         ingest->page);
    weir_location_text(ingest->options.source, source, sizeof source);
    cli_json_begin(&w);
    put_result(&w, &ingest->result);
    weir_json_pair_text(&w, "source", source);
    weir_json_pair_text(&w, "version", weir_version());
    put_warnings(ingest, &w);
    weir_json_key(&w, "report");
    weir_report_json(ingest->report, ingest->store, &w);
    weir_json_end_object(&w);
    weir_status status = weir_json_finish(&w, error);
    if (status == WEIR_OK)
        status = cli_write_page(CLI_PAGE(report), &(weir_text){w.data, w.size}, 1, ingest->page, error);
    weir_json_release(&w);
    return status;
}

/* ---- All of it ------------------------------------------------------------------------------- */

weir_status cli_ingest_run(cli_ingest_job *ingest, weir_error *error) {
    cli_progress progress;
    cli_progress_begin(&progress);
    ingest->options.progress = cli_progress_show;
    ingest->options.progress_context = &progress;
    ingest->options.warning = keep_warning;
    ingest->options.warning_context = ingest;
    ingest->options.inspect = inspect;
    ingest->options.inspect_context = ingest;
    ingest->options.base_report = &ingest->base_report;
    cli_signals_catch(NULL, NULL);
    weir_status status = weir_ingest(NULL, &ingest->options, &ingest->result, error);
    cli_signals_release();
    cli_progress_end(&progress);
    if (status == WEIR_OK && ingest->is_short_of_memory)
        status = cli_error(error, WEIR_OUT_OF_MEMORY, "no memory for the warnings");
    if (status == WEIR_OK && ingest->page)
        status = write_page(ingest, error);
    return status;
}

void cli_ingest_release(cli_ingest_job *ingest) {
    for (size_t i = 0; i < ingest->warning_count; i++)
        release_warning(&ingest->warnings[i]);
    free(ingest->warnings);
    weir_bytes_release(&ingest->base_report);
    weir_report_close(ingest->report);
    weir_store_close(ingest->store);
}
