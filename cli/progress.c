/* See progress.h. */
#include <sys/ioctl.h>
#include <unistd.h>

#include "progress.h"
#include "signals.h"

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

void cli_progress_bar(FILE *out, double share) {
    enum { WIDTH = 24 };
    int filled = (int)(share * (double)WIDTH);
    fputc('[', out);
    for (int i = 0; i < WIDTH; i++)
        fputc(i < filled ? '#' : ' ', out);
    fprintf(out, "] %3d%% ", (int)(share * 100));
}

void cli_progress_line(const char *line) {
    struct winsize terminal;
    int width = CLI_PROGRESS_MAX;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &terminal) == 0 && terminal.ws_col > 0)
        width = terminal.ws_col - 1;
    fprintf(stderr, "\r\033[K%.*s", width, line);
    fflush(stderr);
}

/* The rows, and if it is known the bytes, that a phase has done; and what does not fit into memory. A total
 * that was passed was an estimate, or a draft that looks again: nobody knows what is left. */
bool cli_progress_show(void *context, const weir_progress *state) {
    cli_progress *progress = context;
    char line[CLI_PROGRESS_MAX], bytes[32], total[32];
    FILE *out = progress->is_shown ? fmemopen(line, sizeof line, "w") : NULL;
    if (!out)
        return cli_signals_caught() == 0;
    if (progress->phase != state->phase) {
        progress->phase = state->phase;
        progress->phase_began_ns = state->elapsed_ns;
    }
    double spent_s = (double)(state->elapsed_ns - progress->phase_began_ns) * 1e-9;
    fprintf(out, "%-6s ", state->phase);
    if (state->total > 0 && state->done <= state->total) {
        double share = (double)state->done / (double)state->total;
        cli_progress_bar(out, share);
        if (share > 0.01 && spent_s > 0.5)
            fprintf(out, "%.0f s left  ", spent_s * (1 - share) / share);
    }
    fprintf(out, "%llu rows", (unsigned long long)state->done);
    if (state->total_bytes > 0) {
        cli_format_bytes(state->done_bytes, bytes);
        cli_format_bytes(state->total_bytes, total);
        fprintf(out, "  %s of %s", bytes, total);
    }
    if (state->spilled_bytes > 0) {
        cli_format_bytes(state->spilled_bytes, bytes);
        fprintf(out, "  %s spilled", bytes);
    }
    fclose(out);
    cli_progress_line(line);
    return cli_signals_caught() == 0;
}

void cli_progress_wipe(void) {
    fputs("\r\033[K", stderr);
}

void cli_progress_end(cli_progress *progress) {
    if (progress->is_shown)
        cli_progress_wipe();
}
