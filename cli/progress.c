/* See progress.h. */
#include <unistd.h>

#include "progress.h"

void cli_progress_begin(cli_progress *progress) {
    *progress = (cli_progress){.is_shown = isatty(STDERR_FILENO) == 1};
}

void cli_format_bytes(uint64_t bytes, char out[32]) {
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    double value = (double)bytes;
    int unit = 0;
    while (value >= 1000 && unit < 5) {
        value /= 1000;
        unit++;
    }
    snprintf(out, 32, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
}

void cli_progress_bar(double share) {
    enum { WIDTH = 24 };
    int filled = (int)(share * WIDTH);
    fputc('[', stderr);
    for (int i = 0; i < WIDTH; i++)
        fputc(i < filled ? '#' : ' ', stderr);
    fprintf(stderr, "] %3d%% ", (int)(share * 100));
}

bool cli_progress_show(void *context, const weir_progress *state) {
    cli_progress *progress = context;
    char done_bytes[32], total_bytes[32];
    if (!progress->is_shown)
        return true;
    if (progress->phase != state->phase) {
        progress->phase = state->phase;
        progress->phase_began_ns = state->elapsed_ns;
    }
    fprintf(stderr, "\r\033[K%-6s ", state->phase);
    double spent_s = (double)(state->elapsed_ns - progress->phase_began_ns) * 1e-9;
    if (state->total > 0) {
        double share = state->done < state->total ? (double)state->done / (double)state->total : 1;
        cli_progress_bar(share);
        if (share > 0.01 && spent_s > 0.5)
            fprintf(stderr, "%.0f s left  ", spent_s * (1 - share) / share);
    }
    fprintf(stderr, "%llu rows", (unsigned long long)state->done);
    if (state->total_bytes > 0) {
        cli_format_bytes(state->done_bytes, done_bytes);
        cli_format_bytes(state->total_bytes, total_bytes);
        fprintf(stderr, "  %s of %s", done_bytes, total_bytes);
    }
    fflush(stderr);
    return true;
}

void cli_progress_wipe(void) {
    fputs("\r\033[K", stderr);
}

void cli_progress_end(cli_progress *progress) {
    if (progress->is_shown)
        cli_progress_wipe();
}
