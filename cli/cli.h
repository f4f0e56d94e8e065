/* The command line's own small frame: a table of commands, declared options, and one way to print results
 * and errors. A command is one file, cmd_NAME.c, that defines `const cli_command cli_NAME` and uses the
 * public headers only.
 *
 * Exit status: 0 success, 1 an error record (on stdout as JSON with --json, else one line on stderr) or a
 * difference found, 2 usage; of the commands that judge traces 3: equal, but a trace is cut, 4: equal, and
 * the run failed. */
#ifndef WEIR_CLI_H
#define WEIR_CLI_H

#include <stdio.h>

#include "weir/weir.h"
#include "weir_tool/tools.h"

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_TRACE_CUT = 3, CLI_RUN_FAILED = 4 };
enum { CLI_PATH_MAX = 4096 };

typedef struct cli_command {
    const char *name;
    const char *summary; /* one line for the list of commands */
    const char *usage;   /* "weir next --manifest M …" */
    const char *help;    /* options and what is printed, in full lines; NULL: print_help prints them */
    void (*print_help)(void);
    const char *example;                                               /* at least one call that works */
    int (*run)(const struct cli_command *self, int argc, char **argv); /* the arguments after the name */
} cli_command;

typedef enum cli_option_kind {
    CLI_FLAG,   /* bool */
    CLI_TEXT,   /* const char * */
    CLI_TEXTS,  /* cli_texts: may be given several times */
    CLI_UINT,   /* uint64_t */
    CLI_UINT32, /* uint32_t */
    CLI_SIZE,   /* uint64_t: bytes, as 1000000, 512M or 2GiB */
    CLI_HEX,    /* cli_bytes: two hex digits per byte */
    CLI_VERIFY  /* weir_verify: none, touched or all */
} cli_option_kind;

enum { CLI_TEXTS_MAX = 64 };

typedef struct cli_texts {
    const char *list[CLI_TEXTS_MAX];
    size_t count;
} cli_texts;

/* Bytes that stand where their hex text stood, in an argument of the program. */
typedef struct cli_bytes {
    const uint8_t *data; /* NULL: none were given */
    size_t size;
} cli_bytes;

typedef struct cli_option {
    const char *name; /* with its dashes */
    cli_option_kind kind;
    void *target;
    bool required;
    bool given; /* set by cli_parse */
} cli_option;

/* Entries of a list of options, of the kind that the target's type says. */
#define CLI_OPTION(name, target)                                                                             \
    { name, CLI_KIND_OF(target), target, false, false }
#define CLI_REQUIRED(name, target)                                                                           \
    { name, CLI_KIND_OF(target), target, true, false }
#define CLI_KIND_OF(target)                                                                                  \
    _Generic(*(target), bool: CLI_FLAG, const char *: CLI_TEXT, cli_texts: CLI_TEXTS, uint64_t: CLI_UINT,    \
             uint32_t: CLI_UINT32, cli_bytes: CLI_HEX)
#define CLI_COUNT(options) (sizeof(options) / sizeof *(options))

/* Reads options ("--name value", "--name=value", in any order, "-o" is "--output", "--" ends them) and at
 * most `positional_max` other arguments, or exactly so many if `missing` says what is asked for. Returns the
 * number of those, or -1 after it has said what is wrong; the caller returns CLI_USAGE then. */
int cli_parse(const cli_command *command, cli_option *options, size_t option_count, int argc, char **argv,
              const char **positional, int positional_max, const char *missing);

/* "-12" as a whole number; false for anything else. */
bool cli_integer(const char *text, int64_t *out);

/* "1000000", "512M", "2GiB" as a number of bytes; false for anything else. */
bool cli_size(const char *text, uint64_t *out);

/* Says what is wrong with the call and returns CLI_USAGE. */
int cli_usage(const cli_command *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints the record ({"error": …} on stdout, or a line on stderr) and returns CLI_FAILED. */
int cli_fail(const weir_error *error, bool as_json);

/* Prints what the writer holds and a newline, and releases it. Returns CLI_OK, or CLI_FAILED if it could
 * not be written or made. */
int cli_print_json(weir_json_writer *w);

/* The same for one object: begins the writer with it, and ends it before it is printed. */
void cli_json_begin(weir_json_writer *w);
int cli_print_object(weir_json_writer *w);

/* Fills a record for what fails in the command line itself, and returns its status. */
weir_status cli_error(weir_error *error, weir_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Copies text from a file or the command line for a person's eyes: '?' for every control character, which a
 * terminal would obey. Cut to capacity; returns out. */
const char *cli_printable(const char *text, char *out, size_t capacity);

/* The same, for an argument of printf: the copy lives as long as the block that the call stands in. Every
 * name and text that comes from data is shown by it. */
#define cli_shown(text) cli_printable((text), (char[CLI_SHOWN_MAX]){0}, CLI_SHOWN_MAX)

/* The most of a text's bytes, up to `most`, that do not end within a character. */
size_t cli_cut(const char *text, size_t size, size_t most);

/* "1 row", "2 rows": cli_number is for an argument of printf, as cli_shown is. */
const char *cli_write_number(uint64_t count, const char *one, const char *many, char *out);
#define cli_number(count, one, many) cli_write_number((count), (one), (many), (char[CLI_NUMBER_MAX]){0})

enum { CLI_SHOWN_MAX = 4352 /* a path at its longest */, CLI_NUMBER_MAX = 64 };

/* More pairs of an object, beside weir_json_pair_…: a number that JavaScript could not hold is a decimal
 * text; a cursor is {"epoch": …, "global_index": …}. */
void cli_json_int(weir_json_writer *w, const char *key, int64_t value);
void cli_json_text_n(weir_json_writer *w, const char *key, weir_text value);
void cli_json_uint_text(weir_json_writer *w, const char *key, uint64_t value);
void cli_json_cursor(weir_json_writer *w, const char *key, weir_cursor cursor);

/* How a judged run ended: its "status", of one that failed also {"failure": {"t": …, "failure_code": …}}; and
 * the exit status that says so. */
void cli_json_judged(weir_json_writer *w, weir_run_status status, uint64_t t, const char *code);
int cli_judged(weir_run_status status);

/* Flushes stdout; CLI_FAILED (said on stderr) if that fails, so that a full disk or a closed pipe is not
 * taken for success. The other leaves it to its caller to say so: IO_ERROR. */
int cli_flush(void);
WEIR_CHECKED weir_status cli_check_output(weir_error *error);

/* The bytes of a hex text from the command line, which they replace; false if it is not hex. */
bool cli_hex(const char *text, cli_bytes *out);

/* "name 0a1b…", and a newline. */
void cli_print_hex(const char *name, const void *data, size_t size);

/* A whole file of at most 2 GiB, or standard input for "-", into memory that the caller frees with free(). */
WEIR_CHECKED weir_status cli_read_file(const char *path, char **data, size_t *size, weir_error *error);

/* A file that a command writes. It is written under a temporary name beside its own and takes its name when
 * it is whole; until then, and after any failure, what was there stands. A device or a pipe is written in
 * place, a link stays one, and a directory is refused. */
typedef struct cli_output {
    FILE *stream;
    const char *path;
    char *target;    /* where the path's links lead, */
    char *temporary; /* and what will be renamed to it; NULL if the path is written in place */
} cli_output;

/* CONTRACT_VIOLATION if a database, a store or a file of rows is there: an output replaces none. */
WEIR_CHECKED weir_status cli_output_check(const char *path, weir_error *error);

/* Opens it after that check; the path must outlive it. IO_ERROR, OUT_OF_MEMORY. */
WEIR_CHECKED weir_status cli_output_open(cli_output *output, const char *path, weir_error *error);

/* Closes the stream and gives the file its name. If that fails, or anything before it did on the stream,
 * the temporary file is removed; IO_ERROR. */
WEIR_CHECKED weir_status cli_output_finish(cli_output *output, weir_error *error);

/* Writes a whole file at once, as cli_output does. */
WEIR_CHECKED weir_status cli_write_file(const char *path, const void *data, size_t size, weir_error *error);

/* Whether both paths lead to one file that exists. A NULL leads nowhere. */
bool cli_is_same_file(const char *left, const char *right);

/* The program: runs the command that argv[1] names and returns the exit status. */
int cli_main(int argc, char **argv);

/* All commands, in the order of the help; a NULL ends them. */
extern const cli_command *const cli_commands[];

#endif
