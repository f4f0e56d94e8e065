/* weir run --device: the batches of a run on a device, as a training loop there would take them: copied ahead
 * of it, given back behind it. What they are is compared with the host's where --read-back asks for it. */
#include <stdlib.h>
#include <string.h>

#include "run.h"

/* "host", "cuda", "cuda:1", or the path of a driver, which then is its compiler too. */
static weir_status parse_device(const char *name, weir_device_options *out, weir_error *error) {
    *out = (weir_device_options){.size = sizeof *out};
    if (strcmp(name, "host") == 0 || strchr(name, '/')) {
        out->library = name;
        out->compiler = strchr(name, '/') ? name : NULL;
        return WEIR_OK;
    }
    if (strcmp(name, "cuda") == 0)
        return WEIR_OK;
    if (strncmp(name, "cuda:", 5) == 0 && name[5] >= '0' && name[5] <= '9') {
        char *end;
        unsigned long ordinal = strtoul(name + 5, &end, 10);
        out->ordinal = (uint32_t)ordinal;
        if (*end == 0 && ordinal < UINT32_MAX)
            return WEIR_OK;
    }
    return cli_error(error, WEIR_CONTRACT_VIOLATION, "--device takes cuda, cuda:N or host, not '%.80s'",
                     name);
}

weir_status cli_run_open_device(cli_running *run, const weir_loader_options *loading,
                                const cli_run_device *wanted, weir_error *error) {
    weir_device_options device;
    weir_staging_options options = {.size = sizeof options,
                                    .loader = loading,
                                    .depth = wanted->depth,
                                    .with_checkpoints = run->files.checkpoint[0] != 0};
    weir_status status = parse_device(wanted->name, &device, error);
    if (status == WEIR_OK)
        status = weir_device_open(NULL, &device, &run->device, error);
    options.device = run->device;
    if (status == WEIR_OK)
        status = weir_staging_open(NULL, &options, &run->staging, error);
    if (status != WEIR_OK)
        return status;
    run->loader = weir_staging_loader(run->staging);
    run->verifies = wanted->verifies;
    return WEIR_OK;
}

void cli_run_close_device(cli_running *run) {
    weir_staging_close(run->staging);
    weir_device_close(run->device);
}

/* The device's default stream stands for the training loop's. */
weir_status cli_run_take_staged(cli_running *run, weir_trace_writer *trace, weir_loaded *out,
                                weir_error *error) {
    weir_staged staged;
    weir_status status = weir_staging_next(run->staging, &staged, error);
    if (status != WEIR_OK || !staged.batch)
        return status;
    *out = (weir_loaded){.step = staged.step, .dataset = staged.dataset, .batch = staged.batch};
    status = weir_staging_wait(run->staging, &staged, 0, error);
    if (status == WEIR_OK && run->verifies)
        status = weir_staging_verify(run->staging, &staged, error);
    run->verified += status == WEIR_OK && run->verifies;
    if (status == WEIR_OK && trace)
        status = weir_loader_record(run->loader, out, run->with_indices, trace, error);
    return status ? status : weir_staging_release(run->staging, &staged, 0, error);
}
