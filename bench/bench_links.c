/* Link tasks: what a group costs (a source, its positive and 20 negatives), against the same rows at the same
 * times asked for one by one, but in batches of as many: the limit, in which nothing is drawn and no list is
 * looked up. On the demo shop with a task of what customers will buy, 10^5 rows, made once beside the
 * program. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "batches.h"
#include "bench.h"

enum { ROWS = 100000, PAIRS = 16, NEGATIVES = 20, GROUP = 2 + NEGATIVES, BATCHES = 8, ROUNDS = 7 };

typedef struct links {
    weir_store *store;
    weir_manifest *manifest;
    weir_batch_builder *pairs, *alone;
    weir_batch_buffer *buffer, *answers;
    weir_context_request requests[BATCHES][PAIRS * GROUP];
    uint32_t counts[BATCHES];
} links;

static void open_links(links *l, const batches_store *at, const char *by) {
    static const char dataset[] = "shop/buys/train";
    char text[1024], hash[2 * WEIR_HASH_SIZE + 1];
    weir_error error;
    weir_stored_dataset stored;
    bench_check(weir_store_open(NULL, at->store, &l->store, &error), &error);
    bench_check(weir_store_dataset(l->store, dataset, &stored, &error), &error);
    for (int i = 0; i < WEIR_HASH_SIZE; i++)
        snprintf(hash + 2 * i, 3, "%02x", stored.hash[i]);
    snprintf(
        text, sizeof text,
        "{\"global_batch_size\": %d, \"datasets\": {\"%s\": {\"id\": \"a\", \"version\": \"1\", \"hash\": "
        "\"%s\", \"cardinality\": %llu}}, \"batch\": {\"sequence_length\": 256, \"max_rows\": 128, "
        "\"child_policy\": \"latest\", \"identifiers\": \"omit\", \"links\": {\"negatives\": %d, \"by\": "
        "\"%s\"}}}",
        PAIRS, dataset, hash, (unsigned long long)stored.cardinality, NEGATIVES, by);
    bench_check(weir_manifest_read(NULL, text, strlen(text), "the bench", &l->manifest, &error), &error);
    weir_batch_options options = {.size = sizeof options,
                                  .store = l->store,
                                  .manifest = l->manifest,
                                  .dataset = dataset,
                                  .stage = WEIR_STAGE_TRAIN,
                                  .world_size = 1};
    weir_context_options asking = {.size = sizeof asking,
                                   .store = l->store,
                                   .manifest = l->manifest,
                                   .task = "buys",
                                   .most_requests = PAIRS * GROUP};
    bench_check(weir_batch_builder_open(NULL, &options, &l->pairs, &error), &error);
    bench_check(weir_batch_buffer_open(&l->pairs, 1, NULL, &l->buffer, &error), &error);
    bench_check(weir_context_builder_open(NULL, &asking, &l->alone, &error), &error);
    bench_check(weir_batch_buffer_open(&l->alone, 1, NULL, &l->answers, &error), &error);
}

static void close_links(links *l) {
    weir_batch_buffer_close(l->buffer);
    weir_batch_buffer_close(l->answers);
    weir_batch_builder_close(l->pairs);
    weir_batch_builder_close(l->alone);
    weir_manifest_close(l->manifest);
    weir_store_close(l->store);
}

static void build(void *argument) {
    links *l = argument;
    weir_error error;
    weir_cursor at = {0, 0};
    for (int i = 0; i < BATCHES; i++) {
        bench_check(weir_batch_build(l->pairs, at, l->buffer, &error), &error);
        at = weir_batch_view(l->buffer)->step.cursor_next;
    }
}

/* The requests that have the rows of the groups. */
static void list_requests(links *l) {
    weir_error error;
    weir_cursor at = {0, 0};
    for (int i = 0; i < BATCHES; i++) {
        bench_check(weir_batch_build(l->pairs, at, l->buffer, &error), &error);
        const weir_batch *batch = weir_batch_view(l->buffer);
        const uint8_t *times = batch->data + batch->tensors[WEIR_OBSERVATION_TIME].offset;
        l->counts[i] = batch->sequence_count;
        for (uint32_t k = 0; k < batch->sequence_count; k++) {
            weir_context_request *request = &l->requests[i][k];
            *request =
                (weir_context_request){.row = batch->anchor_rows[k],
                                       .has_time = true,
                                       .is_destination = weir_batch_role(batch, k) != WEIR_ROLE_SOURCE};
            memcpy(&request->time, times + 8 * (size_t)k, sizeof request->time);
        }
        at = batch->step.cursor_next;
    }
}

static void ask(void *argument) {
    links *l = argument;
    weir_error error;
    for (int i = 0; i < BATCHES; i++)
        bench_check(weir_context_build(l->alone, l->requests[i], l->counts[i], l->answers, &error), &error);
}

static void bench(const batches_store *at, const char *by) {
    static links l;
    char name[96];
    l = (links){0};
    open_links(&l, at, by);
    list_requests(&l);
    ask(&l);
    double sequences = (double)BATCHES * PAIRS * GROUP;
    double alone = bench_best(ROUNDS, ask, &l) / sequences * 1e6;
    double grouped = bench_best(ROUNDS, build, &l) / sequences * 1e6;
    snprintf(name, sizeof name, "a sequence of a group of %d, negatives by %s", GROUP, by);
    bench_report(name, grouped, "us", "asked for by row", alone, "at most 1.15");
    close_links(&l);
}

int main(int argc, char **argv) {
    (void)argc;
    batches_store at = batches_make_links(argv[0], ROWS);
    bench(&at, "uniform");
    bench(&at, "popularity");
    return 0;
}
