/* Manifests: the golden ones with their identities, every golden fault, the path that a message names, and
 * the way back from the three documents that a trace keeps. */
#include <stdlib.h>
#include <string.h>

#include "base/internal.h"
#include "support/testing.h"

/* ---- Golden manifests ------------------------------------------------------------------------ */

static void assert_identities(const weir_manifest *manifest, json_t *expected) {
    const weir_manifest_info *info = weir_manifest_describe(manifest);
    assert_hex_equal(weir_manifest_describe(manifest)->hash, 32, member_text(expected, "manifest_hash"));
    assert_hex_equal(weir_manifest_describe(manifest)->token, 64, member_text(expected, "replay_token"));
    assert_hex_equal(weir_manifest_describe(manifest)->mix_hash, 32, member_text(expected, "mix_hash"));
    assert_hex_equal(weir_manifest_describe(manifest)->batch_config_hash, 32,
                     member_text(expected, "batch_config_hash"));
    assert_hex_equal(info->normalised, info->normalised_size, member_text(expected, "normalised"));
}

static weir_manifest *open_golden(json_t *vector) {
    json_t *text = member(vector, "text");
    weir_error error;
    weir_manifest *manifest = NULL;
    assert_ok(weir_manifest_read(NULL, json_string_value(text), json_string_length(text), "golden", &manifest,
                                 &error),
              &error);
    return manifest;
}

static void golden_manifests_have_their_identities(void **state) {
    (void)state;
    json_t *vectors = load_vectors("manifest.json");
    json_t *list = member(vectors, "valid");
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *vector = json_array_get(list, i);
        weir_manifest *manifest = open_golden(vector);
        assert_identities(manifest, member(vector, "expected"));
        const weir_dataset *dataset = weir_manifest_find(manifest, member_text(vector, "dataset"));
        assert_non_null(dataset);
        assert_string_equal(dataset->key, member_text(vector, "dataset"));
        weir_manifest_close(manifest);
    }
    json_decref(vectors);
}

static void golden_faults_are_refused(void **state) {
    (void)state;
    json_t *vectors = load_vectors("manifest.json");
    json_t *list = member(vectors, "invalid");
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *vector = json_array_get(list, i);
        json_t *text = member(vector, "text");
        weir_error error;
        weir_manifest *manifest = NULL;
        weir_status status = weir_manifest_read(NULL, json_string_value(text), json_string_length(text),
                                                "golden", &manifest, &error);
        if (status != WEIR_MANIFEST_INVALID)
            fail_msg("%s: %s: %s", weir_status_name(status), member_text(vector, "why"),
                     json_string_value(text));
        assert_null(manifest);
        assert_memory_equal(error.message, "golden:", 7);
    }
    json_decref(vectors);
}

/* ---- The documents of a trace ---------------------------------------------------------------- */

typedef struct document {
    weir_cbor_writer writer;
    weir_cbor_value value;
} document;

static void write_document(document *out, const weir_manifest *manifest,
                           void (*write)(const weir_manifest *manifest, weir_cbor_writer *w)) {
    weir_error error;
    weir_cbor_writer_memory(&out->writer, NULL);
    write(manifest, &out->writer);
    assert_ok(weir_cbor_finish(&out->writer, &error), &error);
    assert_ok(weir_cbor_check(out->writer.data, out->writer.size, NULL, &error), &error);
    out->value = weir_cbor_view(out->writer.data);
}

static void assert_datasets_equal(const weir_manifest *a, const weir_manifest *b) {
    assert_int_equal(weir_manifest_describe(a)->dataset_count, weir_manifest_describe(b)->dataset_count);
    for (size_t i = 0; i < weir_manifest_describe(a)->dataset_count; i++) {
        const weir_dataset *left = &weir_manifest_describe(a)->datasets[i],
                           *right = &weir_manifest_describe(b)->datasets[i];
        assert_string_equal(left->key, right->key);
        assert_string_equal(left->id, right->id);
        assert_string_equal(left->version, right->version);
        assert_true(left->cardinality == right->cardinality);
        assert_int_equal(left->weight, right->weight);
        assert_memory_equal(left->hash, right->hash, WEIR_HASH_SIZE);
        if (i > 0)
            assert_true(strcmp(weir_manifest_describe(a)->datasets[i - 1].key, left->key) < 0);
    }
}

static void a_manifest_is_restored_from_its_three_documents(void **state) {
    (void)state;
    json_t *vectors = load_vectors("manifest.json");
    json_t *list = member(vectors, "valid");
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *vector = json_array_get(list, i);
        weir_manifest *manifest = open_golden(vector), *restored = NULL;
        document mix, batch;
        weir_error error;
        write_document(&mix, manifest, weir_manifest_write_mix);
        write_document(&batch, manifest, weir_manifest_write_batch);
        weir_cbor_value normalised = weir_cbor_view(weir_manifest_describe(manifest)->normalised);
        assert_ok(weir_manifest_restore(NULL, &normalised, &mix.value, &batch.value, &restored, &error),
                  &error);
        assert_identities(restored, member(vector, "expected"));
        assert_datasets_equal(manifest, restored);
        assert_int_equal(weir_manifest_mix_total(restored), weir_manifest_mix_total(manifest));
        assert_true(weir_manifest_describe(restored)->seed == weir_manifest_describe(manifest)->seed);
        assert_true(weir_manifest_describe(restored)->global_batch_size ==
                    weir_manifest_describe(manifest)->global_batch_size);
        weir_manifest_close(restored);
        weir_manifest_close(manifest);
        weir_cbor_release(&mix.writer);
        weir_cbor_release(&batch.writer);
    }
    json_decref(vectors);
}

static void restoring_refuses_what_no_trace_holds(void **state) {
    (void)state;
    static const uint8_t empty_map[] = {0xA0}, number[] = {0x01};
    static const uint8_t unknown_weight[] = {0xA1, 0x61, 'z', 0x01}; /* {"z": 1} */
    weir_manifest *manifest = manifest_of_numbers(10, 2, &(weir_data_config){.sampler_block_size = 4}, 1);
    weir_manifest *restored = NULL;
    weir_error error;
    weir_cbor_value normalised = weir_cbor_view(weir_manifest_describe(manifest)->normalised);
    weir_cbor_value empty = weir_cbor_view(empty_map), one = weir_cbor_view(number);
    weir_cbor_value weight = weir_cbor_view(unknown_weight);
    assert_fails(weir_manifest_restore(NULL, &empty, &empty, &empty, &restored, &error),
                 WEIR_MANIFEST_INVALID, &error);
    assert_fails(weir_manifest_restore(NULL, &one, &empty, &empty, &restored, &error), WEIR_MANIFEST_INVALID,
                 &error);
    assert_fails(weir_manifest_restore(NULL, &normalised, &one, &empty, &restored, &error),
                 WEIR_MANIFEST_INVALID, &error);
    assert_fails(weir_manifest_restore(NULL, &normalised, &weight, &empty, &restored, &error),
                 WEIR_MANIFEST_INVALID, &error);
    assert_fails(weir_manifest_restore(NULL, &normalised, &empty, &one, &restored, &error),
                 WEIR_MANIFEST_INVALID, &error);
    assert_null(restored);
    weir_manifest_close(manifest);
}

/* ---- Paths in messages ----------------------------------------------------------------------- */

#define HASH    "\"hash\": \"0000000000000000000000000000000000000000000000000000000000000000\""
#define DATASET "{\"id\": \"a\", \"version\": \"1\", " HASH ", \"cardinality\": 9}"
#define START   "{\"global_batch_size\": 4, \"datasets\": {\"a\": " DATASET "}"

static const struct {
    const char *json;
    const char *path;
} path_faults[] = {
    {"[]", "$"},
    {START ", \"extra\": 1}", "$.extra"},
    {START ", \"Extra key\": 1}", "$[\"Extra key\"]"},
    {START ", \"\": 1}", "$[\"\"]"},
    {START ", \"seed\": -1}", "$.seed"},
    {"{\"datasets\": {}}", "$.global_batch_size"},
    {"{\"datasets\": {}, \"global_batch_size\": 1.0}", "$.global_batch_size"},
    {"{\"global_batch_size\": 4}", "$.datasets"},
    {"{\"global_batch_size\": 4, \"datasets\": []}", "$.datasets"},
    {"{\"global_batch_size\": 4, \"datasets\": {\"a\": 1}}", "$.datasets.a"},
    {"{\"global_batch_size\": 4, \"datasets\": {\"a/b\": 1}}", "$.datasets[\"a/b\"]"},
    {"{\"global_batch_size\": 4, \"datasets\": {\"a\": {}}}", "$.datasets.a.id"},
    {"{\"global_batch_size\": 4, \"datasets\": {\"a\": {\"id\": \"a\"}}}", "$.datasets.a.version"},
    {"{\"global_batch_size\": 4, \"datasets\": {\"a\": {\"id\": \"a\", \"version\": \"\"}}}",
     "$.datasets.a.hash"},
    {"{\"global_batch_size\": 4, \"datasets\": {\"a\": {\"id\": \"a\", \"version\": \"\", " HASH "}}}",
     "$.datasets.a.cardinality"},
    {"{\"global_batch_size\": 4, \"datasets\": {\"a\": {\"id\": 1, \"version\": \"\", " HASH
     ", \"cardinality\": 1}}}",
     "$.datasets.a.id"},
    {"{\"global_batch_size\": 4, \"datasets\": {\"a\": {\"id\": \"\", \"version\": \"\", " HASH
     ", \"cardinality\": \"x\"}}}",
     "$.datasets.a.cardinality"},
    {"{\"global_batch_size\": 4, \"datasets\": {\"x-1\": {\"id\": \"\", \"version\": \"\", \"hash\": "
     "\"0\", "
     "\"cardinality\": 1}}}",
     "$.datasets[\"x-1\"].hash"},
    {"{\"global_batch_size\": 4, \"datasets\": {\"a\": {\"size\": 1}}}", "$.datasets.a.size"},
    {START ", \"data\": 1}", "$.data"},
    {START ", \"data\": {\"dropLast\": true}}", "$.data.dropLast"},
    {START ", \"data\": {\"drop_last\": 1}}", "$.data.drop_last"},
    {START ", \"data\": {\"rotate\": null}}", "$.data.rotate"},
    {START ", \"data\": {\"epoch_boundary\": \"wrap\"}}", "$.data.epoch_boundary"},
    {START ", \"data\": {\"intra_block\": 1}}", "$.data.intra_block"},
    {START ", \"data\": {\"sampler_block_size\": \"01\"}}", "$.data.sampler_block_size"},
    {START ", \"data\": {\"block_order\": \"feistel_v1\"}}", "$.data.block_order"},
    {START ", \"data\": {\"preset\": \"train\"}}", "$.data.preset"},
    {START ", \"data\": {\"preset\": \"streaming_infinite\", \"epoch_boundary\": \"strict\"}}",
     "$.data.epoch_boundary"},
    {START ", \"data\": {\"preset\": \"eval_sequential\", \"epoch_boundary\": \"stream\"}}",
     "$.data.epoch_boundary"},
    {START ", \"data\": {\"sampling\": \"weighted\"}}", "$.data.sampling"},
    {START ", \"data\": {\"sampling\": {}}}", "$.data.sampling.mode"},
    {START ", \"data\": {\"sampling\": {\"mode\": \"shuffled\"}}}", "$.data.sampling.mode"},
    {START ", \"data\": {\"sampling\": {\"mode\": \"weighted\"}}}", "$.data.sampling.column"},
    {START ", \"data\": {\"sampling\": {\"mode\": \"class_balanced\", \"column\": \"w\"}}}",
     "$.data.sampling.column"},
    {START ", \"data\": {\"sampling\": {\"mode\": \"weighted\", \"column\": 1}}}", "$.data.sampling.column"},
    {START ", \"data\": {\"sampling\": {\"mode\": \"class_balanced\", \"datasets\": []}}}",
     "$.data.sampling.datasets"},
    {START ", \"data\": {\"sampling\": {\"mode\": \"class_balanced\", \"datasets\": [\"b\"]}}}",
     "$.data.sampling.datasets"},
    {START ", \"data\": {\"sampling\": {\"mode\": \"class_balanced\", \"datasets\": [\"a\", \"a\"]}}}",
     "$.data.sampling.datasets"},
    {START ", \"data\": {\"sampling\": {\"mode\": \"class_balanced\", \"classes\": 2}}}",
     "$.data.sampling.classes"},
    {START ", \"accountant\": {}}", "$.accountant"},
    {START ", \"accountant\": {\"delta\": 1e-5}}", "$.accountant.delta"},
    {START ", \"accountant\": {\"subsampling_mode\": null}}", "$.accountant.subsampling_mode"},
    {START ", \"accountant\": {\"effective_q\": \"0.5\"}}", "$.accountant.effective_q"},
    {START ", \"mix\": []}", "$.mix"},
    {START ", \"mix\": {}}", "$.mix"},
    {START ", \"mix\": {\"a\": 0}}", "$.mix.a"},
    {START ", \"mix\": {\"b\": 1}}", "$.mix.b"},
    {START ", \"mix\": {\"a\": 65537}}", "$.mix"},
    {"{\"global_batch_size\": 4, \"datasets\": {\"a\": " DATASET ", \"b\": " DATASET
     "}, \"mix\": {\"a\": 2, \"b\": \"18446744073709551615\"}}", /* the sum is 2^64 + 1 */
     "$.mix"},
    {START ", \"batch\": {\"max_hops\": 65}}", "$.batch.max_hops"},
    {START ", \"batch\": {\"child_width\": 4097}}", "$.batch.child_width"},
    {START ", \"batch\": {\"sequence_length\": 0}}", "$.batch.sequence_length"},
    {START ", \"batch\": {\"max_rows\": 65536}}", "$.batch.max_rows"},
    {START ", \"batch\": {\"child_policy\": \"random\"}}", "$.batch.child_policy"},
    {START ", \"batch\": {\"label_visibility\": \"\"}}", "$.batch.label_visibility"},
    {START ", \"batch\": {\"pad_rows\": 0}}", "$.batch.pad_rows"},
    {START ", \"batch\": {\"x\": 0}}", "$.batch.x"},
};

static void the_message_names_the_path(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof path_faults / sizeof path_faults[0]; i++) {
        weir_error error;
        weir_manifest *manifest = NULL;
        char expected[128];
        assert_fails(weir_manifest_read(NULL, path_faults[i].json, strlen(path_faults[i].json), "shop.json",
                                        &manifest, &error),
                     WEIR_MANIFEST_INVALID, &error);
        snprintf(expected, sizeof expected, "shop.json: %s ", path_faults[i].path);
        assert_memory_equal(error.message, expected, strlen(expected));
        assert_string_equal(error.diagnostics[0].name, "path");
        assert_string_equal(error.diagnostics[0].text, path_faults[i].path);
    }
}

/* When several things are wrong, which one is reported is defined: the document's own order of checks. */
static void of_several_faults_the_same_one_is_reported(void **state) {
    (void)state;
    static const char *const texts[] = {
        "{\"seed\": -1, \"x\": 1, \"batch\": 3, \"mix\": 3, \"data\": 3}",
        "{\"data\": 3, \"mix\": 3, \"batch\": 3, \"x\": 1, \"seed\": -1}",
    };
    for (size_t i = 0; i < 2; i++) {
        weir_error error;
        weir_manifest *manifest = NULL;
        assert_fails(weir_manifest_read(NULL, texts[i], strlen(texts[i]), "m", &manifest, &error),
                     WEIR_MANIFEST_INVALID, &error);
        assert_string_equal(error.diagnostics[0].text, "$.x");
    }
}

static void long_and_hostile_names_do_not_break_the_message(void **state) {
    (void)state;
    char text[4096], key[1500];
    memset(key, 0, sizeof key);
    for (size_t i = 0; i + 2 < sizeof key; i += 2)
        memcpy(key + i, "\xC3\xA9", 2);
    snprintf(text, sizeof text,
             "{\"global_batch_size\": 4, \"datasets\": {\"%s\": {\"id\": \"a\", "
             "\"version\": \"1\", " HASH "}}}",
             key);
    weir_error error;
    weir_manifest *manifest = NULL;
    assert_fails(weir_manifest_read(NULL, text, strlen(text), "m", &manifest, &error), WEIR_MANIFEST_INVALID,
                 &error);
    assert_true(weir__utf8_is_valid(error.message, strlen(error.message)));
    assert_non_null(strstr(error.message, ".cardinality is missing"));
    static const char hostile[] = "{\"\\u001b[2J\\u009b1m\": 1}";
    assert_fails(weir_manifest_read(NULL, hostile, strlen(hostile), "m", &manifest, &error),
                 WEIR_MANIFEST_INVALID, &error);
    assert_null(strchr(error.message, '\x1b'));
    assert_null(strstr(error.message, "\xC2\x9B"));
}

/* ---- Presets, modes, the operator ------------------------------------------------------------ */

/* A preset is the keys that it stands for: no hash tells them apart. */
static void presets_are_what_they_stand_for(void **state) {
    (void)state;
    static const struct {
        const char *preset;
        const char *spelt;
        weir_stage stage;
    } cases[] = {
        {"\"preset\": \"train_shuffle\"", "", WEIR_STAGE_TRAIN},
        {"\"preset\": \"train_shuffle\", \"epoch_boundary\": \"strict\", \"drop_last\": true",
         "\"drop_last\": true", WEIR_STAGE_TRAIN},
        {"\"preset\": \"streaming_infinite\"", "\"epoch_boundary\": \"stream\"", WEIR_STAGE_TRAIN},
        {"\"preset\": \"streaming_infinite\", \"rotate\": true",
         "\"epoch_boundary\": \"stream\", \"rotate\": true", WEIR_STAGE_TRAIN},
        {"\"preset\": \"eval_sequential\"", "", WEIR_STAGE_EVAL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[512];
        snprintf(text, sizeof text, START ", \"data\": {%s}}", cases[i].preset);
        weir_manifest *named = manifest_of_text(text);
        snprintf(text, sizeof text, START ", \"data\": {%s}}", cases[i].spelt);
        weir_manifest *spelt = manifest_of_text(text);
        assert_memory_equal(weir_manifest_describe(named)->hash, weir_manifest_describe(spelt)->hash,
                            WEIR_HASH_SIZE);
        assert_int_equal(weir_manifest_describe(named)->stage, cases[i].stage);
        assert_int_equal(weir_manifest_describe(spelt)->stage, WEIR_STAGE_TRAIN);
        weir_manifest_close(named);
        weir_manifest_close(spelt);
    }
}

static void another_order_is_another_operator(void **state) {
    (void)state;
    static const struct {
        const char *data;
        bool is_v2;
    } cases[] = {{"", true},
                 {"\"drop_last\": true, \"epoch_boundary\": \"stream\", \"sampler_block_size\": 3", true},
                 {"\"intra_block\": \"feistel_v1\"", false},
                 {"\"rotate\": true", false},
                 {"\"block_order\": \"stateless_v1\"", false},
                 {"\"sampling\": {\"mode\": \"class_balanced\"}", false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[512];
        snprintf(text, sizeof text, START ", \"data\": {%s}}", cases[i].data);
        weir_manifest *manifest = manifest_of_text(text);
        assert_string_equal(weir_manifest_operator(manifest, WEIR_STAGE_TRAIN),
                            cases[i].is_v2 ? "UML_OS.Data.NextBatch_v2" : "UML_OS.Data.NextBatch_v3");
        assert_string_equal(weir_manifest_operator(manifest, WEIR_STAGE_EVAL), "UML_OS.Data.NextBatch_v2");
        assert_string_equal(weir_manifest_operator(manifest, WEIR_STAGE_INFER), "UML_OS.Data.NextBatch_v2");
        weir_manifest_close(manifest);
    }
}

/* The list of sampled datasets is sorted, is kept apart from "all of them", and survives a trace's header. */
static void sampling_is_part_of_the_identity(void **state) {
    (void)state;
    static const char *const samplings[] = {
        "",
        "\"sampling\": {\"mode\": \"class_balanced\"}",
        "\"sampling\": {\"mode\": \"weighted\", \"column\": \"w\"}",
        "\"sampling\": {\"mode\": \"weighted\", \"column\": \"v\"}",
        "\"sampling\": {\"mode\": \"class_balanced\", \"datasets\": [\"b\", \"a\"]}",
        "\"sampling\": {\"mode\": \"class_balanced\", \"datasets\": [\"b\"]}",
    };
    enum { COUNT = sizeof samplings / sizeof samplings[0] };
    uint8_t hashes[COUNT][WEIR_HASH_SIZE];
    for (size_t i = 0; i < COUNT; i++) {
        char text[768];
        document mix, batch;
        weir_error error;
        weir_manifest *restored = NULL;
        snprintf(text, sizeof text,
                 "{\"global_batch_size\": 4, \"datasets\": {\"a\": " DATASET ", \"b\": " DATASET
                 "}, \"data\": {%s}}",
                 samplings[i]);
        weir_manifest *manifest = manifest_of_text(text);
        memcpy(hashes[i], weir_manifest_describe(manifest)->hash, WEIR_HASH_SIZE);
        for (size_t k = 0; k < i; k++)
            assert_memory_not_equal(hashes[i], hashes[k], WEIR_HASH_SIZE);
        write_document(&mix, manifest, weir_manifest_write_mix);
        write_document(&batch, manifest, weir_manifest_write_batch);
        weir_cbor_value normalised = weir_cbor_view(weir_manifest_describe(manifest)->normalised);
        assert_ok(weir_manifest_restore(NULL, &normalised, &mix.value, &batch.value, &restored, &error),
                  &error);
        assert_memory_equal(weir_manifest_describe(restored)->hash, hashes[i], WEIR_HASH_SIZE);
        for (size_t k = 0; k < 2; k++)
            assert_int_equal(weir_manifest_describe(restored)->datasets[k].sampling,
                             weir_manifest_describe(manifest)->datasets[k].sampling);
        assert_int_equal(weir_manifest_describe(manifest)->datasets[0].sampling != WEIR_SAMPLING_SHUFFLED,
                         i >= 1 && i <= 4);
        weir_manifest_close(restored);
        weir_manifest_close(manifest);
        weir_cbor_release(&mix.writer);
        weir_cbor_release(&batch.writer);
    }
}

/* What an accountant assumes does not change the samples. */
static void an_accountant_is_in_no_hash(void **state) {
    (void)state;
    weir_manifest *plain = manifest_of_text(START "}");
    weir_manifest *watched = manifest_of_text(START ", \"accountant\": {\"effective_q\": 0.5}}");
    assert_memory_equal(weir_manifest_describe(plain)->hash, weir_manifest_describe(watched)->hash,
                        WEIR_HASH_SIZE);
    weir_manifest_close(plain);
    weir_manifest_close(watched);
}

/* ---- Reading and looking up ------------------------------------------------------------------ */

static void defaults_are_those_of_the_contract(void **state) {
    (void)state;
    weir_manifest *manifest = manifest_of_text(START "}");
    const weir_data_config *data = weir_manifest_describe(manifest)->data;
    const weir_batch_config *batch = weir_manifest_describe(manifest)->batch;
    assert_int_equal(weir_manifest_describe(manifest)->seed, 0);
    assert_int_equal(data->sampler_block_size, 1048576);
    assert_false(data->drop_last || data->rotate);
    assert_int_equal(data->epoch_boundary, WEIR_BOUNDARY_STRICT);
    assert_int_equal(data->intra_block, WEIR_INTRA_AFFINE_V1);
    assert_int_equal(batch->sequence_length, 1024);
    assert_int_equal(batch->max_hops, 4);
    assert_int_equal(batch->child_width, 16);
    assert_int_equal(batch->max_rows, 256);
    assert_int_equal(batch->child_policy, WEIR_CHILDREN_UNIFORM);
    assert_int_equal(batch->label_visibility, WEIR_LABELS_TRAIN);
    assert_false(batch->pad_rows);
    assert_int_equal(weir_manifest_mix_total(manifest), 0);
    weir_manifest_close(manifest);
    weir_manifest_close(NULL);
}

static void datasets_are_found_by_key(void **state) {
    (void)state;
    weir_manifest *manifest =
        manifest_of_text("{\"global_batch_size\": 4, \"datasets\": {\"b\": " DATASET ", \"\": " DATASET
                         ", \"aa\": " DATASET ", \"\xC3\xA9\": " DATASET ", \"a\": " DATASET "}}");
    static const char *const keys[] = {"", "a", "aa", "b", "\xC3\xA9"};
    assert_int_equal(weir_manifest_describe(manifest)->dataset_count, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_string_equal(weir_manifest_describe(manifest)->datasets[i].key, keys[i]);
        assert_ptr_equal(weir_manifest_find(manifest, keys[i]),
                         &weir_manifest_describe(manifest)->datasets[i]);
    }
    assert_null(weir_manifest_find(manifest, "ab"));
    assert_null(weir_manifest_find(manifest, "A"));
    assert_null(weir_manifest_find(manifest, "\xff"));
    weir_manifest_close(manifest);
}

static void a_manifest_is_read_from_a_file(void **state) {
    (void)state;
    static const char text[] = START "}";
    char folder[SCRATCH_PATH], path[SCRATCH_PATH + 16];
    weir_error error;
    weir_manifest *manifest = NULL, *same = manifest_of_text(text);
    scratch_make(folder);
    snprintf(path, sizeof path, "%s/manifest.json", folder);
    assert_fails(weir_manifest_open(NULL, path, &manifest, &error), WEIR_IO_ERROR, &error);
    assert_non_null(strstr(error.message, path));
    write_whole_file(path, text, strlen(text));
    assert_ok(weir_manifest_open(NULL, path, &manifest, &error), &error);
    assert_memory_equal(weir_manifest_describe(manifest)->hash, weir_manifest_describe(same)->hash,
                        WEIR_HASH_SIZE);
    weir_manifest_close(manifest);
    weir_manifest_close(same);
    manifest = NULL;
    write_whole_file(path, text, strlen(text) - 1);
    assert_fails(weir_manifest_open(NULL, path, &manifest, &error), WEIR_MANIFEST_INVALID, &error);
    assert_memory_equal(error.message, path, strlen(path));
    assert_null(manifest);
    scratch_remove(folder);
}

/* Each takes hundreds of bytes, of a document's five. */
static void more_widths_than_any_schema_needs_are_refused(void **state) {
    enum { MOST = 65536 };
    static char text[MOST * 12 + 400];
    (void)state;
    for (int more = 0; more < 2; more++) {
        weir_error error;
        weir_manifest *manifest = NULL;
        char *to = text + sprintf(text, "%s", START ", \"batch\": {\"child_width\": {");
        for (int i = 0; i < MOST + more; i++)
            to += sprintf(to, "%s\"%d\":1", i ? "," : "", i);
        strcpy(to, "}}}");
        weir_status status = weir_manifest_read(NULL, text, strlen(text), "it", &manifest, &error);
        assert_int_equal(status, more ? WEIR_MANIFEST_INVALID : WEIR_OK);
        if (more)
            assert_non_null(strstr(error.message, "$.batch.child_width has more than 65536 foreign keys"));
        weir_manifest_close(manifest);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_manifests_have_their_identities),
        cmocka_unit_test(golden_faults_are_refused),
        cmocka_unit_test(a_manifest_is_restored_from_its_three_documents),
        cmocka_unit_test(restoring_refuses_what_no_trace_holds),
        cmocka_unit_test(the_message_names_the_path),
        cmocka_unit_test(of_several_faults_the_same_one_is_reported),
        cmocka_unit_test(long_and_hostile_names_do_not_break_the_message),
        cmocka_unit_test(presets_are_what_they_stand_for),
        cmocka_unit_test(another_order_is_another_operator),
        cmocka_unit_test(sampling_is_part_of_the_identity),
        cmocka_unit_test(an_accountant_is_in_no_hash),
        cmocka_unit_test(defaults_are_those_of_the_contract),
        cmocka_unit_test(datasets_are_found_by_key),
        cmocka_unit_test(more_widths_than_any_schema_needs_are_refused),
        cmocka_unit_test(a_manifest_is_read_from_a_file),
    };
    return cmocka_run_group_tests_name("manifest", tests, NULL, NULL);
}
