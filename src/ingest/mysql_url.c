/* mysql://user:password@host:port/database?name=value&… and mariadb:// the same. Every part may be left out,
 * and %XX stands for a byte. What cannot be read is refused, never guessed, and no message quotes it. */
#include <string.h>

#include "ingest/mysql.h"

static const char *const schemes[] = {"mysql://", "mariadb://"};

static const char *rest_of(const char *location) {
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (strncmp(location, schemes[i], strlen(schemes[i])) == 0)
            return location + strlen(schemes[i]);
    return NULL;
}

bool weir_ingest__my_url_accepts(const char *location) {
    return rest_of(location) != NULL;
}

/* Turns %XX into bytes, in place; false for what is none, and for zeros, which end texts. */
static bool decode(char *text) {
    char *to = text;
    for (const char *at = text; *at; at++) {
        uint8_t byte = WEIR__LOW(uint8_t, *at);
        if (*at == '%' && (!at[1] || !weir__hex_decode(at + 1, 2, &byte, 1) || byte == 0))
            return false;
        at += *at == '%' ? 2 : 0;
        *to++ = WEIR__LOW(char, byte);
    }
    *to = 0;
    return true;
}

/* Cuts a text at the first of some characters, which is returned; 0 at the end. */
static char cut(char **text, const char *at_any, char **rest) {
    size_t size = strcspn(*text, at_any);
    char mark = (*text)[size];
    (*text)[size] = 0;
    *rest = mark ? *text + size + 1 : *text + size;
    return mark;
}

static const char *read_host(char *text, weir_ingest__my_url *out) {
    /* Those of a name or an address. (The library takes some others for lists of hosts, and for plugins.) */
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:%";
    char *rest;
    uint64_t port = 0;
    bool is_bracketed = *text == '[';
    text += is_bracketed ? 1 : 0;
    if (cut(&text, is_bracketed ? "]" : ":", &rest) != ']' && is_bracketed)
        return "a [ has no ]";
    if (is_bracketed && *rest && *rest++ != ':')
        return "something follows the address in [ ]";
    if (*rest && (!weir__decimal_parse(rest, strlen(rest), &port) || port == 0 || port > UINT16_MAX))
        return "the port is no number from 1 to 65535";
    out->port = WEIR__NARROW(unsigned, port);
    out->host = *text ? text : NULL;
    return decode(text) && !text[strspn(text, plain)] ? NULL : "the host is no name and no address";
}

static const char *read_parameter(char *name, weir_ingest__my_url *out) {
    const struct {
        const char *name;
        char **to;
    } files[] = {{"socket", &out->socket},
                 {"ssl-ca", &out->ssl_ca},
                 {"ssl-cert", &out->ssl_cert},
                 {"ssl-key", &out->ssl_key}};
    char *value;
    if (cut(&name, "=", &value) != '=' || !decode(value) || !*value)
        return "what follows the ? is not name=value&name=value";
    if (strcmp(name, "ssl-mode") == 0) {
        out->verifies_tls = strcasecmp(value, "verify_identity") == 0;
        out->needs_tls = out->verifies_tls || strcasecmp(value, "required") == 0;
        return out->needs_tls ? NULL : "ssl-mode is neither required nor verify_identity";
    }
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (strcmp(name, files[i].name) == 0) {
            *files[i].to = value;
            return NULL;
        }
    return "the names that may follow the ? are socket, ssl-mode, ssl-ca, ssl-cert and ssl-key";
}

static const char *read_parts(char *text, weir_ingest__my_url *out) {
    char *path = NULL, *parameters = NULL;
    char mark = cut(&text, "/?", &path);
    if (mark == '?')
        parameters = path;
    else
        cut(&path, "?", &parameters);
    out->database = mark == '/' && *path ? path : NULL;
    char *at = strrchr(text, '@');
    if (at) {
        *at = 0;
        char colon = cut(&text, ":", &out->password);
        out->user = *text ? text : NULL;
        out->password = colon ? out->password : NULL;
    }
    if ((out->user && !decode(out->user)) || (out->password && !decode(out->password)) ||
        (out->database && (strchr(out->database, '/') || !decode(out->database))))
        return "a character that has a meaning in URLs must be written as %XX, such as %2F for /";
    const char *fault = read_host(at ? at + 1 : text, out);
    while (!fault && *parameters) {
        char *one = parameters;
        cut(&one, "&", &parameters);
        fault = read_parameter(one, out);
    }
    return fault;
}

weir_status weir_ingest__my_url_read(const weir_env *env, const char *location, weir_ingest__my_url *out,
                                     weir_error *error) {
    const char *rest = rest_of(location);
    *out = (weir_ingest__my_url){.memory = weir__copy_text(env, rest, strlen(rest))};
    if (!out->memory)
        return weir_ingest__source_no_memory(error, strlen(rest));
    const char *fault = read_parts(out->memory, out);
    return fault ? (WEIR_INGEST__SOURCE_ERROR(error,
                                              "the database's URL cannot be read: %s; it looks like "
                                              "mysql://user:password@host:3306/database?ssl-mode=required",
                                              fault))
                 : WEIR_OK;
}
