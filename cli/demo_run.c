/* See demo_run.h. */
#include "demo_run.h"

#include <inttypes.h>
#include <unistd.h>

#include "run.h"

enum { STEPS = 200 };

typedef struct opened {
    weir_store *store;
    weir_manifest *manifest;
} opened;

/* One sitting, up to `steps`; from the checkpoint if there is one. */
static weir_status sit(const demo_run_files *files, const opened *o, uint64_t steps, uint32_t workers,
                       weir_error *error) {
    cli_running run = {.began_ns = cli_run_now_ns()};
    weir_run_options options = {.size = sizeof options,
                                .stores = &o->store,
                                .store_count = 1,
                                .manifest = o->manifest,
                                .world_size = 1,
                                .with_digests = true,
                                .steps = steps,
                                .workers = workers,
                                .trace = files->trace,
                                .checkpoint = files->checkpoint,
                                .resume = files->checkpoint};
    weir_status status = weir_run_open(NULL, &options, &run.run, error);
    if (status == WEIR_OK)
        status = cli_run_loop(&run, error);
    if (status == WEIR_OK) /* the files are named once, below */
        cli_run_print(&run, false, false);
    weir_run_close(run.run);
    return status;
}

weir_status demo_run(const demo_run_files *files, weir_error *error) {
    opened o = {0};
    unlink(files->trace);
    unlink(files->checkpoint);
    weir_status status = weir_store_open(NULL, files->store, &o.store, error);
    if (status == WEIR_OK)
        status = weir_manifest_open(NULL, files->manifest, &o.manifest, error);
    if (status == WEIR_OK) {
        printf("\nA run of %d steps, stopped at step %d, and resumed from %s with two workers:\n", STEPS,
               STEPS / 2, files->checkpoint);
        status = sit(files, &o, STEPS / 2, 1, error);
    }
    if (status == WEIR_OK)
        status = sit(files, &o, STEPS, 2, error);
    weir_replay_report report;
    weir_replay_options replaying = {.size = sizeof replaying, .stores = &o.store, .store_count = 1};
    if (status == WEIR_OK)
        status = weir_trace_replay(NULL, files->trace, &replaying, &report, error);
    if (status == WEIR_OK)
        printf("Replayed from %s: %" PRIu64 " steps, %" PRIu64
               " batches built again; every field and every digest is equal.\n",
               files->trace, report.steps, report.checked_digests);
    weir_manifest_close(o.manifest);
    weir_store_close(o.store);
    return status;
}
