/* See cli.h. */
#include "cli.h"
#include "signals.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

int cli_usage(const cli_command *command, const char *format, ...) {
    char text[CLI_SHOWN_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "weir %s: %s", command->name, cli_shown(text));
    fprintf(stderr, "\nusage: %s\n'weir help %s' says more.\n", command->usage, command->name);
    return CLI_USAGE;
}

static bool parse_uint(const char *text, uint64_t *out) {
    char *end = NULL;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && *end == 0 && errno == 0;
}

bool cli_integer(const char *text, int64_t *out) {
    const char *digits = text + (*text == '-');
    char *end = NULL;
    if (*digits < '0' || *digits > '9')
        return false;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return *end == 0 && errno == 0;
}

/* Digits, then perhaps k, M, G or T (thousands) or Ki, Mi, Gi or Ti (1024s), then perhaps a B. */
bool cli_size(const char *text, uint64_t *out) {
    static const char prefixes[] = "kMGT";
    char digits[24];
    size_t count = strspn(text, "0123456789");
    const char *unit = text + count;
    if (count >= sizeof digits)
        return false;
    memcpy(digits, text, count);
    digits[count] = 0;
    if (!parse_uint(digits, out))
        return false;
    const char *found = *unit ? strchr(prefixes, *unit == 'K' ? 'k' : *unit) : NULL;
    size_t power = found ? (size_t)(found - prefixes) + 1 : 0;
    uint64_t step = found && unit[1] == 'i' ? 1024 : 1000;
    if (found)
        unit += step == 1024 ? 2 : 1;
    if (*unit == 'B')
        unit++;
    for (; power > 0; power--)
        if (__builtin_mul_overflow(*out, step, out))
            return false;
    return *unit == 0;
}

/* Stores a value; CLI_USAGE after it has said why not. */
static int store_value(const cli_command *command, const cli_option *option, const char *value) {
    uint64_t number, limit = option->kind == CLI_UINT32 ? UINT32_MAX : UINT64_MAX;
    weir_error error;
    if (option->kind == CLI_TEXT) {
        *(const char **)option->target = value;
    } else if (option->kind == CLI_TEXTS) {
        cli_texts *texts = option->target;
        if (texts->count == CLI_TEXTS_MAX)
            return cli_usage(command, "%s is given more than %d times", option->name, CLI_TEXTS_MAX);
        texts->list[texts->count++] = value;
    } else if (option->kind == CLI_SIZE) {
        if (!cli_size(value, option->target))
            return cli_usage(command, "%s takes a number of bytes, such as 1000000, 512M or 2GiB, not '%s'",
                             option->name, value);
    } else if (option->kind == CLI_HEX) {
        if (!cli_hex(value, option->target))
            return cli_usage(command, "%s takes hex digits, two per byte", option->name);
    } else if (option->kind == CLI_VERIFY) {
        if (weir_verify_parse(value, option->target, &error) != WEIR_OK)
            return cli_usage(command, "%s takes none, touched or all, not '%s'", option->name, value);
    } else if (!parse_uint(value, &number) || number > limit) {
        return cli_usage(command, "%s takes a whole number from 0 to %llu, not '%s'", option->name,
                         (unsigned long long)limit, value);
    } else if (option->kind == CLI_UINT32) {
        *(uint32_t *)option->target = (uint32_t)number;
    } else {
        *(uint64_t *)option->target = number;
    }
    return CLI_OK;
}

/* Reads the option at argv[*at] and its value; CLI_USAGE after it has said what is wrong. */
static int read_option(const cli_command *command, cli_option *options, size_t count, int argc, char **argv,
                       int *at) {
    const char *argument = strcmp(argv[*at], "-o") == 0 ? "--output" : argv[*at];
    const char *equals = strchr(argument, '=');
    size_t size = equals ? (size_t)(equals - argument) : strlen(argument), i = 0;
    while (i < count && (strlen(options[i].name) != size || memcmp(options[i].name, argument, size) != 0))
        i++;
    if (i == count)
        return cli_usage(command, "unknown option %.*s", (int)strcspn(argv[*at], "="), argv[*at]);
    cli_option *option = &options[i];
    if (option->given && option->kind != CLI_TEXTS)
        return cli_usage(command, "%s is given twice", option->name);
    option->given = true;
    if (option->kind == CLI_FLAG) {
        if (equals)
            return cli_usage(command, "%s takes no value", option->name);
        *(bool *)option->target = true;
        return CLI_OK;
    }
    const char *value = equals ? equals + 1 : *at + 1 < argc ? argv[++*at] : NULL;
    return value ? store_value(command, option, value) : cli_usage(command, "%s needs a value", option->name);
}

int cli_parse(const cli_command *command, cli_option *options, size_t option_count, int argc, char **argv,
              const char **positional, int positional_max, const char *missing) {
    int found = 0;
    bool options_ended = false;
    for (int at = 0; at < argc; at++) {
        if (!options_ended && strcmp(argv[at], "--") == 0) {
            options_ended = true;
        } else if (!options_ended && argv[at][0] == '-' && argv[at][1] != 0) {
            if (read_option(command, options, option_count, argc, argv, &at) != CLI_OK)
                return -1;
        } else if (found == positional_max) {
            cli_usage(command, "unexpected argument '%s'", argv[at]);
            return -1;
        } else {
            positional[found++] = argv[at];
        }
    }
    for (size_t i = 0; i < option_count; i++)
        if (options[i].required && !options[i].given) {
            cli_usage(command, "%s is missing", options[i].name);
            return -1;
        }
    if (missing && found < positional_max) {
        cli_usage(command, "%s", missing);
        return -1;
    }
    return found;
}

weir_status cli_check_output(weir_error *error) {
    return fflush(stdout) == 0 && !ferror(stdout)
               ? WEIR_OK
               : cli_error(error, WEIR_IO_ERROR, "cannot write the output: %s", strerror(errno));
}

int cli_flush(void) {
    weir_error error;
    return cli_check_output(&error) == WEIR_OK ? CLI_OK : cli_fail(&error, false);
}

int cli_fail(const weir_error *error, bool as_json) {
    bool is_stopped = error->status == WEIR_CANCELLED && cli_signals_caught();
    int exit_status = is_stopped ? 128 + cli_signals_caught() : CLI_FAILED;
    if (!as_json) {
        char line[WEIR_MESSAGE_CAPACITY + 64];
        weir_error_line(error, line, sizeof line);
        fprintf(stderr, "%s\n", line);
        return exit_status;
    }
    weir_json_writer w;
    cli_json_begin(&w);
    weir_json_key(&w, "error");
    weir_error_json(error, &w);
    cli_print_object(&w);
    return exit_status;
}

int cli_print_json(weir_json_writer *w) {
    weir_error error;
    int result = CLI_OK;
    if (weir_json_finish(w, &error) != WEIR_OK) {
        result = cli_fail(&error, false);
    } else {
        fwrite(w->data, 1, w->size, stdout);
        fputc('\n', stdout);
        result = cli_flush();
    }
    weir_json_release(w);
    return result;
}

void cli_json_begin(weir_json_writer *w) {
    weir_json_writer_memory(w, NULL);
    weir_json_object(w);
}

int cli_print_object(weir_json_writer *w) {
    weir_json_end_object(w);
    return cli_print_json(w);
}

void cli_json_judged(weir_json_writer *w, weir_run_status status, uint64_t t, const char *code) {
    weir_json_pair_text(w, "status", weir_run_status_name(status));
    if (status != WEIR_RUN_FAILED)
        return;
    weir_json_pair_object(w, "failure");
    weir_json_pair_uint(w, "t", t);
    weir_json_pair_text(w, "failure_code", code);
    weir_json_end_object(w);
}

int cli_judged(weir_run_status status) {
    return status == WEIR_RUN_CUT ? CLI_TRACE_CUT : status == WEIR_RUN_FAILED ? CLI_RUN_FAILED : CLI_OK;
}

void cli_json_int(weir_json_writer *w, const char *key, int64_t value) {
    weir_json_key(w, key);
    weir_json_int(w, value);
}

void cli_json_text_n(weir_json_writer *w, const char *key, weir_text value) {
    weir_json_key(w, key);
    weir_json_text_n(w, value.data, value.size);
}

void cli_json_uint_text(weir_json_writer *w, const char *key, uint64_t value) {
    weir_json_key(w, key);
    weir_json_uint_text(w, value);
}

void cli_json_cursor(weir_json_writer *w, const char *key, weir_cursor cursor) {
    weir_json_pair_object(w, key);
    weir_json_pair_uint(w, "epoch", cursor.epoch);
    weir_json_pair_uint(w, "global_index", cursor.global_index);
    weir_json_end_object(w);
}

const char *cli_write_number(uint64_t count, const char *one, const char *many, char *out) {
    snprintf(out, CLI_NUMBER_MAX, "%" PRIu64 " %s", count, count == 1 ? one : many);
    return out;
}

const char *cli_printable(const char *text, char *out, size_t capacity) {
    size_t used = 0;
    for (const unsigned char *at = (const unsigned char *)text; *at && used + 1 < capacity; at++) {
        bool is_c1 = at[0] == 0xC2 && at[1] >= 0x80 && at[1] < 0xA0;
        bool is_control = *at < 0x20 || *at == 0x7F || is_c1;
        out[used++] = is_control ? '?' : (char)*at;
        at += is_c1;
    }
    out[used] = 0;
    return out;
}

size_t cli_cut(const char *text, size_t size, size_t most) {
    if (size <= most)
        return size;
    while (most > 0 && ((unsigned char)text[most] & 0xC0) == 0x80)
        most--;
    return most;
}

weir_status cli_error(weir_error *error, weir_status status, const char *format, ...) {
    char text[WEIR_MESSAGE_CAPACITY];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    *error = (weir_error){.status = status, .failure_operator = "weir.cli"};
    cli_printable(text, error->message, sizeof error->message);
    return status;
}

static int hex_digit(char digit) {
    const char *digits = "0123456789abcdef";
    char lower = digit >= 'A' && digit <= 'F' ? (char)(digit - 'A' + 'a') : digit;
    const char *found = lower ? strchr(digits, lower) : NULL;
    return found ? (int)(found - digits) : -1;
}

bool cli_hex(const char *text, cli_bytes *out) {
    uint8_t *bytes = (uint8_t *)(uintptr_t)text;
    size_t size = strlen(text) / 2;
    for (size_t i = 0; text[i]; i++)
        if (hex_digit(text[i]) < 0)
            return false;
    if (text[2 * size])
        return false;
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(hex_digit(text[2 * i]) << 4 | hex_digit(text[2 * i + 1]));
    *out = (cli_bytes){bytes, size};
    return true;
}

void cli_print_hex(const char *name, const void *data, size_t size) {
    const uint8_t *bytes = data;
    printf("%s", name);
    for (size_t i = 0; i < size; i++)
        printf("%02x", bytes[i]);
    putchar('\n');
}

static weir_status read_failure(const char *path, weir_error *error) {
    return cli_error(error, errno == ENOMEM ? WEIR_OUT_OF_MEMORY : WEIR_IO_ERROR, "cannot read %s: %s", path,
                     strerror(errno));
}

/* What is larger is not what was meant: a store, a device. Reading it would take all memory before that is
 * said. */
static const size_t read_max = (size_t)1 << 31;

/* Standard input, or a file that is neither a directory nor a stream, which may have no end and which opening
 * may wait for. A file that is too large is refused before any of it is read. */
static FILE *open_input(const char *path, weir_error *error) {
    struct stat about;
    bool is_stdin = strcmp(path, "-") == 0;
    int file = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    bool is_known = file >= 0 && fstat(file, &about) == 0;
    bool is_large = is_known && S_ISREG(about.st_mode) && about.st_size > (off_t)read_max;
    if (is_stdin && !is_large)
        return stdin; /* what else is wrong, reading says */
    int wrong = !is_known ? errno : S_ISDIR(about.st_mode) ? EISDIR : is_large ? EFBIG : 0;
    if (is_known && !S_ISREG(about.st_mode) && !S_ISDIR(about.st_mode)) {
        (void)cli_error(error, WEIR_IO_ERROR,
                        "%s is a device or a pipe, not a file; '-' reads standard input", path);
    } else {
        FILE *stream = wrong ? NULL : fdopen(file, "rb");
        if (stream)
            return stream;
        errno = wrong ? wrong : errno;
        (void)read_failure(path, error);
    }
    if (file >= 0 && !is_stdin)
        close(file);
    return NULL;
}

weir_status cli_read_file(const char *path, char **data, size_t *size, weir_error *error) {
    FILE *file = open_input(path, error);
    if (!file)
        return error->status;
    char *bytes = NULL;
    size_t used = 0;
    size_t capacity = 0;
    do {
        if (used > read_max) {
            errno = EFBIG;
            break;
        }
        if (capacity - used < 4096) {
            capacity = capacity ? 2 * capacity : 65536;
            char *grown = realloc(bytes, capacity);
            if (!grown)
                break;
            bytes = grown;
        }
        used += fread(bytes + used, 1, capacity - used - 1, file);
    } while (!feof(file) && !ferror(file));
    bool complete = bytes && feof(file) && !ferror(file);
    weir_status status = complete ? WEIR_OK : read_failure(path, error);
    if (file != stdin)
        fclose(file);
    if (!complete) {
        free(bytes);
        return status;
    }
    bytes[used] = 0;
    *data = bytes;
    *size = used;
    return WEIR_OK;
}

/* ---- Output files ------------------------------------------------------------------------------ */

static weir_status write_failure(const char *path, int number, weir_error *error) {
    return cli_error(error, number == ENOMEM ? WEIR_OUT_OF_MEMORY : WEIR_IO_ERROR, "cannot write %s: %s",
                     path, strerror(number));
}

enum { RANDOM_DIGITS = 16 };

/* Removes what killed programs left of the same output: temporary files whose lock nobody holds. */
static void remove_leftovers(const char *target) {
    char pattern[CLI_PATH_MAX];
    glob_t found;
    size_t size = 0;
    for (const char *at = target; *at && size + RANDOM_DIGITS + 8 < sizeof pattern; at++) {
        if (strchr("\\*?[]", *at))
            pattern[size++] = '\\';
        pattern[size++] = *at;
    }
    snprintf(pattern + size, sizeof pattern - size, ".????????????????.tmp");
    if (glob(pattern, GLOB_NOSORT, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const char *digits = found.gl_pathv[i] + strlen(target) + 1;
        int file = strspn(digits, "0123456789abcdef") == RANDOM_DIGITS
                       ? open(found.gl_pathv[i], O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
                       : -1;
        if (file >= 0 && flock(file, LOCK_EX | LOCK_NB) == 0)
            unlink(found.gl_pathv[i]);
        if (file >= 0)
            close(file);
    }
    globfree(&found);
}

static void release_names(cli_output *output) {
    free(output->target);
    free(output->temporary);
    output->target = output->temporary = NULL;
}

/* A descriptor to write to; -1 with errno set. Of a file that is to be replaced, that is a new one beside it,
 * under a name that nobody can foresee and never through a link: what is there may be somebody's. It stays
 * locked while it is written. */
static int open_target(cli_output *output) {
    struct stat found;
    uint64_t random;
    bool exists = stat(output->path, &found) == 0;
    if (!exists && errno != ENOENT)
        return -1;
    if (exists && !S_ISREG(found.st_mode))
        return open(output->path, O_WRONLY | O_CLOEXEC);
    output->target = exists ? realpath(output->path, NULL) : strdup(output->path);
    if (!output->target)
        return -1;
    size_t capacity = strlen(output->target) + RANDOM_DIGITS + 8;
    output->temporary = malloc(capacity);
    if (!output->temporary) {
        errno = ENOMEM;
        return -1;
    }
    remove_leftovers(output->target);
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return -1;
    snprintf(output->temporary, capacity, "%s.%016llx.tmp", output->target, (unsigned long long)random);
    int file = open(output->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (file >= 0)
        (void)flock(file, LOCK_EX | LOCK_NB);
    return file;
}

/* What a file is that somebody would miss: nobody means a database or a store when an output is named. */
static const char *find_data(const char *path) {
    char head[16];
    struct stat found;
    FILE *file = stat(path, &found) == 0 && S_ISREG(found.st_mode) ? fopen(path, "rb") : NULL;
    size_t size = file ? fread(head, 1, sizeof head, file) : 0;
    if (file)
        fclose(file);
    const weir_file_format *format = weir_file_format_of(head, size);
    return format && format->is_data ? format->name : NULL;
}

weir_status cli_output_check(const char *path, weir_error *error) {
    const char *data = find_data(path);
    if (!data)
        return WEIR_OK;
    return cli_error(error, WEIR_CONTRACT_VIOLATION,
                     "%s is %s, which would be replaced; delete it or choose another output", path, data);
}

weir_status cli_output_open(cli_output *output, const char *path, weir_error *error) {
    *output = (cli_output){.path = path};
    weir_status status = cli_output_check(path, error);
    if (status != WEIR_OK)
        return status;
    int file = open_target(output);
    int number = errno;
    if (file >= 0 && (output->stream = fdopen(file, "wb")) == NULL) {
        number = errno;
        close(file);
        if (output->temporary)
            unlink(output->temporary);
    }
    if (output->stream)
        return WEIR_OK;
    release_names(output);
    return write_failure(path, number, error);
}

weir_status cli_output_finish(cli_output *output, weir_error *error) {
    bool is_whole = fflush(output->stream) == 0 && !ferror(output->stream);
    if (is_whole && output->temporary)
        is_whole = fsync(fileno(output->stream)) == 0;
    int number = errno;
    if (is_whole && output->temporary && rename(output->temporary, output->target) != 0) {
        is_whole = false;
        number = errno;
    }
    if (fclose(output->stream) != 0 && is_whole && !output->temporary) {
        is_whole = false;
        number = errno;
    }
    if (!is_whole && output->temporary)
        unlink(output->temporary);
    release_names(output);
    return is_whole ? WEIR_OK : write_failure(output->path, number, error);
}

weir_status cli_write_file(const char *path, const void *data, size_t size, weir_error *error) {
    cli_output output;
    weir_status status = cli_output_open(&output, path, error);
    if (status != WEIR_OK)
        return status;
    fwrite(data, 1, size, output.stream);
    return cli_output_finish(&output, error);
}

bool cli_is_same_file(const char *left, const char *right) {
    struct stat a, b;
    return left && right && stat(left, &a) == 0 && stat(right, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}
