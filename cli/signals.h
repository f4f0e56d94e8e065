/* SIGINT and SIGTERM, for the commands that stop cleanly when they are told to. */
#ifndef WEIR_CLI_SIGNALS_H
#define WEIR_CLI_SIGNALS_H

/* From here on the first signal calls `stop` (or nothing, if that is NULL) inside the signal's handler, and
 * is remembered. A second one ends the program at once; but one within half a second is the first one's echo,
 * because `timeout`, mpirun and terminals tell the process and its group. What the caller has the program
 * ignore (nohup, a shell's background jobs) stays ignored. */
void cli_signals_catch(void (*stop)(void *context), void *context);

/* The signal that came, or 0. */
int cli_signals_caught(void);

/* The signals do again what they did before, at once. */
void cli_signals_release(void);

#endif
