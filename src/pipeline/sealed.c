/* See sealed.h. */
#include "pipeline/sealed.h"

#include <string.h>

static void begin(weir_cbor_writer *w, weir__sha256 *sha, const char *version) {
    weir__sha256_init(sha);
    weir__cbor_writer_hash(w, sha);
    weir_cbor_array(w, 2);
    weir_cbor_text(w, version);
}

void weir_pipeline__sealed_write(weir_cbor_writer *w, const char *version, const weir__shape *shape,
                                 const void *object) {
    uint8_t hash[WEIR_HASH_SIZE];
    weir__sha256 sha;
    weir_cbor_writer hashing;
    begin(&hashing, &sha, version);
    weir__write(&hashing, shape, object);
    weir__sha256_final(&sha, hash);
    weir__write_sealed(w, shape, object, hash);
}

bool weir_pipeline__sealed_is_whole(const weir_cbor_value *map, const char *version) {
    uint8_t hash[WEIR_HASH_SIZE];
    weir__sha256 sha;
    weir_cbor_writer w;
    weir_cbor_value sealed, key, value;
    if (!weir_cbor_get(map, "h", &sealed) || sealed.type != WEIR_CBOR_BYTES || sealed.number != sizeof hash)
        return false;
    begin(&w, &sha, version);
    weir_cbor_map(&w, map->number - 1);
    weir_cbor_iterator it = weir_cbor_children(map);
    while (weir_cbor_next(&it, &key, &value))
        if (!weir_cbor_is_text(&key, "h")) {
            weir_cbor_text_n(&w, (const char *)key.data, (size_t)key.number);
            weir_cbor_raw(&w, value.item, weir_cbor_size(&value));
        }
    weir__sha256_final(&sha, hash);
    return memcmp(sealed.data, hash, sizeof hash) == 0;
}
