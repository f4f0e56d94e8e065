/* URLs of stores: s3://bucket/key and plain HTTP; and what signs the requests, from the variables that all
 * tools of S3 read. Addresses of objects hold no secrets; messages are searched for them all the same,
 * because a server may send back what it was sent. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "remote/remote.h"

enum { URL_MAX = 2048, CREDENTIAL_MAX = 8192, BUCKET_MIN = 3, BUCKET_MAX = 63 };

static weir_status refuse(weir_error *error, const char *what) {
    return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_REMOTE__OPERATOR, "%s", what);
}

/* ---- Variables ------------------------------------------------------------------------------- */

/* A copy of a variable's value, or NULL if it is not set or empty; a value that cannot stand in a header sets
 * the status. */
static char *variable(const weir_env *env, const char *name, weir_status *status, weir_error *error) {
    const char *value = getenv(name);
    if (*status != WEIR_OK || !value || !*value)
        return NULL;
    for (const char *at = value; *at; at++)
        if (*at <= ' ' || *at > '~' || at - value >= CREDENTIAL_MAX) {
            *status = weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_REMOTE__OPERATOR,
                                 "the variable %s has a character that it cannot have, or is too long", name);
            return NULL;
        }
    char *copy = weir__copy_text(env, value, strlen(value));
    if (!copy)
        *status = weir__out_of_memory(error, WEIR_REMOTE__OPERATOR, strlen(value));
    return copy;
}

static char *first_variable(const weir_env *env, const char *const *names, const char *otherwise,
                            weir_status *status, weir_error *error) {
    char *value = NULL;
    for (; *names && !value && *status == WEIR_OK; names++)
        value = variable(env, *names, status, error);
    if (!value && otherwise && *status == WEIR_OK) {
        value = weir__copy_text(env, otherwise, strlen(otherwise));
        if (!value)
            *status = weir__out_of_memory(error, WEIR_REMOTE__OPERATOR, strlen(otherwise));
    }
    return value;
}

static weir_status read_credentials(weir_remote__place *place, weir_error *error) {
    static const char *const regions[] = {"AWS_REGION", "AWS_DEFAULT_REGION", NULL};
    weir_status status = WEIR_OK;
    place->region = first_variable(place->env, regions, "us-east-1", &status, error);
    place->access_key = variable(place->env, "AWS_ACCESS_KEY_ID", &status, error);
    place->secret_key = variable(place->env, "AWS_SECRET_ACCESS_KEY", &status, error);
    place->session_token = variable(place->env, "AWS_SESSION_TOKEN", &status, error);
    if (status == WEIR_OK && !place->access_key != !place->secret_key)
        status =
            refuse(error, "of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY only one is set; set both, or none "
                          "for a public bucket");
    return status;
}

/* ---- Addresses ------------------------------------------------------------------------------- */

typedef struct text {
    char data[URL_MAX];
    size_t size;
    bool is_cut;
} text;

static void add(text *out, const char *data, size_t size) {
    if (size >= sizeof out->data - out->size) {
        out->is_cut = true;
        return;
    }
    memcpy(out->data + out->size, data, size);
    out->size += size;
    out->data[out->size] = '\0';
}

static void add_encoded(text *out, const char *key, size_t size) {
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";
    for (size_t i = 0; i < size; i++) {
        char code[4];
        if (key[i] && strchr(plain, key[i])) {
            add(out, key + i, 1);
            continue;
        }
        snprintf(code, sizeof code, "%%%02X", (unsigned)(unsigned char)key[i]);
        add(out, code, 3);
    }
}

static bool is_bucket(const char *name, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789.-_", name[i]))
            return false;
    return size >= BUCKET_MIN && size <= BUCKET_MAX;
}

/* https://bucket.s3.region.amazonaws.com/ or endpoint/bucket/ */
static weir_status add_bucket(const weir_remote__place *place, text *out, const char *bucket, size_t size,
                              weir_error *error) {
    static const char *const names[] = {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", NULL};
    weir_status status = WEIR_OK;
    char *endpoint = first_variable(place->env, names, NULL, &status, error);
    if (endpoint && !weir__begins_with(endpoint, "http://") && !weir__begins_with(endpoint, "https://"))
        status = refuse(error, "AWS_ENDPOINT_URL must begin with http:// or https://");
    if (status == WEIR_OK && endpoint && strchr(endpoint, '@'))
        status = refuse(error, "AWS_ENDPOINT_URL must not have a user or a password");
    bool is_path = endpoint || memchr(bucket, '.', size);
    if (status == WEIR_OK && endpoint) {
        size_t end = strlen(endpoint);
        while (end > 0 && endpoint[end - 1] == '/')
            end--;
        add(out, endpoint, end);
    } else if (status == WEIR_OK) {
        add(out, "https://", 8);
        if (!is_path) {
            add(out, bucket, size);
            add(out, ".", 1);
        }
        add(out, "s3.", 3);
        add(out, place->region, strlen(place->region));
        add(out, ".amazonaws.com", 14);
    }
    if (is_path) {
        add(out, "/", 1);
        add(out, bucket, size);
    }
    add(out, "/", 1);
    weir__release(place->env, endpoint);
    return status;
}

static weir_status read_s3(weir_remote__place *place, const char *url, text *out, weir_error *error) {
    const char *bucket = url + strlen("s3://");
    size_t size = strcspn(bucket, "/");
    if (size == 0 || bucket[size] != '/')
        return refuse(error, "a URL of S3 has a bucket and a name, such as s3://bucket/folder/shop.weir");
    if (!is_bucket(bucket, size))
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_REMOTE__OPERATOR,
                          "'%.*s' cannot be the name of a bucket: it must be %d to %d of the characters a-z, "
                          "0-9, '.', '-' and '_'",
                          size < BUCKET_MAX ? WEIR__NARROW(int, size) : BUCKET_MAX, bucket, BUCKET_MIN,
                          BUCKET_MAX);
    place->is_s3 = true;
    weir_status status = read_credentials(place, error);
    if (status == WEIR_OK)
        status = add_bucket(place, out, bucket, size, error);
    if (status == WEIR_OK)
        add_encoded(out, bucket + size + 1, strlen(bucket + size + 1));
    return status;
}

static weir_status read_http(const char *url, text *out, weir_error *error) {
    const char *host = strstr(url, "//") + 2;
    size_t host_size = strcspn(host, "/?#");
    if (host_size == 0 || host[host_size] != '/' || memchr(host, '@', host_size))
        return refuse(error, "a URL must have a host, a path, and no user or password, such as "
                             "https://host/folder/shop.weir");
    for (const char *at = url; *at; at++)
        if (*at <= ' ' || *at > '~' || *at == '?' || *at == '#')
            return refuse(error,
                          "a URL must be percent-encoded and have no query: a store is many objects in one "
                          "folder");
    add(out, url, strlen(url));
    return WEIR_OK;
}

weir_status weir_remote__place_read(weir_remote__place *place, const weir_env *env, const char *url,
                                    const char *name, weir_error *error) {
    *place = (weir_remote__place){.env = env};
    text *out = weir__allocate_zero(env, 1, sizeof *out);
    if (!out)
        return weir__out_of_memory(error, WEIR_REMOTE__OPERATOR, sizeof *out);
    weir_status status;
    if (weir__begins_with(url, "s3://"))
        status = read_s3(place, url, out, error);
    else if (weir__begins_with(url, "http://") || weir__begins_with(url, "https://"))
        status = read_http(url, out, error);
    else
        status =
            refuse(error, "a store is pushed to and pulled from s3://bucket/name, http:// or https:// URLs");
    if (status == WEIR_OK && out->size > 0 && out->data[out->size - 1] == '/') {
        if (name)
            add_encoded(out, name, strlen(name));
        else
            status = refuse(error, "the URL is that of a folder; give that of a store, such as "
                                   "s3://bucket/folder/shop.weir");
    }
    if (status == WEIR_OK && out->is_cut)
        status = refuse(error, "the URL is too long");
    if (status == WEIR_OK) {
        place->index_url = weir__copy_text(env, out->data, out->size);
        if (!place->index_url)
            status = weir__out_of_memory(error, WEIR_REMOTE__OPERATOR, out->size);
        else
            place->folder = (size_t)(strrchr(place->index_url, '/') - place->index_url) + 1;
    }
    weir__release(env, out);
    if (status != WEIR_OK)
        weir_remote__place_release(place);
    return status;
}

static void release_secret(const weir_env *env, char *secret) {
    if (secret)
        explicit_bzero(secret, strlen(secret));
    weir__release(env, secret);
}

void weir_remote__place_release(weir_remote__place *place) {
    if (!place->env)
        return;
    weir__release(place->env, place->index_url);
    weir__release(place->env, place->region);
    release_secret(place->env, place->access_key);
    release_secret(place->env, place->secret_key);
    release_secret(place->env, place->session_token);
    *place = (weir_remote__place){0};
}

char *weir_remote__place_chunk_url(const weir_remote__place *place, const uint8_t hash[WEIR_HASH_SIZE]) {
    static const char folder[] = "chunks/";
    size_t size = place->folder + strlen(folder) + WEIR_REMOTE__CHUNK_NAME_SIZE + 1;
    char *url = weir__allocate(place->env, size, 1), name[WEIR_REMOTE__CHUNK_NAME_SIZE + 1];
    if (!url)
        return NULL;
    weir__hex_encode(hash, WEIR_HASH_SIZE, name);
    memcpy(url, place->index_url, place->folder);
    snprintf(url + place->folder, size - place->folder, "%s%s", folder, name);
    return url;
}
