/* See remote.h. */
#include "remote.h"

#include "progress.h"
#include "signals.h"

int cli_remote_run(cli_remote *remote,
                   weir_status (*run)(const weir_env *env, const char *from, const char *to,
                                      const weir_remote_options *options, weir_remote_report *report,
                                      weir_error *error),
                   const char *from, const char *to, const char *verb) {
    cli_progress progress;
    weir_error error;
    cli_progress_begin(&progress);
    remote->options.progress = cli_progress_show;
    remote->options.progress_context = &progress;
    cli_signals_catch(NULL, NULL);
    weir_status status = run(NULL, from, to, &remote->options, &remote->report, &error);
    cli_signals_release();
    cli_progress_end(&progress);
    if (status != WEIR_OK)
        return cli_fail(&error, remote->as_json);
    const weir_remote_report *report = &remote->report;
    if (remote->as_json) {
        weir_json_writer w;
        cli_json_begin(&w);
        weir_json_pair_hex(&w, "store_hash", report->store_hash, WEIR_HASH_SIZE);
        weir_json_pair_uint(&w, "bytes", report->bytes);
        weir_json_pair_uint(&w, "chunks", report->chunks);
        weir_json_pair_uint(&w, "moved_chunks", report->moved_chunks);
        weir_json_pair_uint(&w, "moved_bytes", report->moved_bytes);
        weir_json_pair_uint(&w, "total_ns", report->total_ns);
        return cli_print_object(&w);
    }
    char all[32], moved[32];
    cli_format_bytes(report->bytes, all);
    cli_format_bytes(report->moved_bytes, moved);
    printf("%s %s to %s: %s, of which %s travelled (%llu of %llu chunks)\n", verb, cli_shown(from),
           cli_shown(to), all, moved, (unsigned long long)report->moved_chunks,
           (unsigned long long)report->chunks);
    return cli_flush();
}
