/* A training loop in C that survives being killed: give the same command again and it resumes exactly where
 * it stood, until its steps are done. `weir replay run.trace --store STORE` then proves what it took.
 *
 *   cc run.c -lweir -o run && ./run shop.weir shop.manifest.json 1000
 */
#include <stdio.h>
#include <stdlib.h>
#include <weir/weir.h>

static void check(weir_status status, const weir_error *error) {
    if (status == WEIR_OK)
        return;
    fprintf(stderr, "%s: %s\n", weir_status_name(status), error->message);
    exit(1);
}

int main(int argc, char **argv) {
    weir_error error;
    weir_store *store;
    weir_manifest *manifest;
    weir_run *run;
    weir_taken taken;
    if (argc != 4)
        return fprintf(stderr, "usage: run STORE MANIFEST STEPS\n"), 2;
    check(weir_store_open(NULL, argv[1], &store, &error), &error);
    check(weir_manifest_open(NULL, argv[2], &manifest, &error), &error);
    weir_run_options options = {.size = sizeof options,
                                .stores = &store,
                                .store_count = 1,
                                .manifest = manifest,
                                .steps = strtoull(argv[3], NULL, 10),
                                .workers = 2,
                                .with_digests = true,
                                .trace = "run.trace",
                                .checkpoint = "run.checkpoint",
                                .resume = "run.checkpoint",
                                .checkpoint_steps = 10};
    check(weir_run_open(NULL, &options, &run, &error), &error);
    for (;;) {
        check(weir_run_next(run, &taken, &error), &error);
        if (!taken.batch)
            break;
        /* train(taken.batch) */
        check(weir_run_release(run, &taken, 0, &error), &error);
    }
    printf("%llu steps, of which %llu in this sitting\n", (unsigned long long)weir_run_step(run),
           (unsigned long long)(weir_run_step(run) - weir_run_describe(run)->first_step));
    weir_run_close(run);
    weir_manifest_close(manifest);
    weir_store_close(store);
    return 0;
}
