/* The planner: growth from 10^4 to 10^7 tensors, the published models (time, and how far the peak is from
 * the lower bound), what each effort buys, and other people's instances where WEIR_INSTANCES names their
 * folder.
 *
 * `bench_plan N` stops the growth at 10^N tensors. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "bench.h"
#include "weir/weir.h"
#include "weir_tool/plan_tools.h"

/* The program's own generators; they use the public headers only. */
#include "../cli/model_builder.c"
#include "../cli/models_plain.c"
#include "../cli/models_transformer.c"
#include "../cli/models_vision.c"

typedef struct job {
    const weir_graph *graph;
    const char *mode;
    uint32_t effort;
    weir_plan *plan;
} job;

static void make_plan(void *context) {
    job *j = context;
    weir_error error;
    weir_plan_options options = {.size = sizeof options, .mode = j->mode, .effort_plus_one = j->effort + 1};
    weir_plan_close(j->plan);
    j->plan = NULL;
    bench_check(weir_plan_make(NULL, j->graph, &options, &j->plan, &error), &error);
}

/* The largest peak over lower bound of the plan's arenas. */
static double worst_gap(const weir_plan *plan) {
    double worst = 1;
    for (size_t i = 0; i < weir_plan_describe(plan)->arena_count; i++) {
        weir_plan_arena arena = weir_plan_arena_at(plan, i);
        double gap = arena.lower_bound ? (double)arena.peak_bytes / (double)arena.lower_bound : 1;
        worst = gap > worst ? gap : worst;
    }
    return worst;
}

static double log_2(double x) {
    double bits = 0;
    for (; x >= 2; x /= 2)
        bits++;
    return bits + x - 1;
}

/* ---- Growth ---------------------------------------------------------------------------------- */

static void measure_growth(unsigned largest) {
    double first_ns = 0;
    uint64_t tensors = 10000;
    for (unsigned power = 4; power <= largest; power++, tensors *= 10) {
        weir_error error;
        weir_graph *graph = NULL;
        char name[64];
        bench_check(model_random(&(model_options){.nodes = tensors * 4 / 5, .seed = 1}, &graph, &error),
                    &error);
        job j = {.graph = graph, .mode = "forward", .effort = 0};
        double seconds = bench_best(power < 7 ? 3 : 1, make_plan, &j);
        double count = (double)weir_plan_describe(j.plan)->tensor_count;
        double ns = 1e9 * seconds / (count * log_2(count));
        first_ns = first_ns > 0 ? first_ns : ns;
        snprintf(name, sizeof name, "plan 10^%u tensors, effort 0", power);
        bench_report(name, seconds, "s", NULL, 0, power == 6 ? "< 1 s" : "");
        snprintf(name, sizeof name, "plan 10^%u tensors, per n log n", power);
        bench_report(name, ns, "ns", "10^4 tensors", first_ns, "about 1");
        weir_plan_close(j.plan);
        weir_graph_close(graph);
        if (power == 6) {
            struct rusage usage;
            getrusage(RUSAGE_SELF, &usage);
            bench_report("plan 10^6 tensors, memory of the process", (double)usage.ru_maxrss / 1024, "MiB",
                         NULL, 0, "< 1024");
        }
    }
}

/* ---- Models ---------------------------------------------------------------------------------- */

static void measure_model(const model_kind *kind, const char *size, const char *mode) {
    weir_error error;
    weir_graph *graph = NULL;
    char name[96];
    bench_check(kind->make(&(model_options){.size = size}, &graph, &error), &error);
    job j = {.graph = graph, .mode = mode, .effort = WEIR_EFFORT_DEFAULT};
    double seconds = bench_best(5, make_plan, &j);
    snprintf(name, sizeof name, "%s %s %s, %zu tensors", kind->name, size ? size : "", mode,
             weir_plan_describe(j.plan)->tensor_count);
    bench_report(name, 1000 * seconds, "ms", NULL, 0, "<= 10 ms");
    snprintf(name, sizeof name, "%s %s %s, peak / lower bound", kind->name, size ? size : "", mode);
    bench_report(name, worst_gap(j.plan), "x", NULL, 0, "1.0000");
    weir_plan_close(j.plan);
    weir_graph_close(graph);
}

static void measure_models(void) {
    static const char *const modes[] = {"inference", "forward", "backward"};
    for (size_t k = 0; model_kinds[k].name; k++)
        for (size_t mode = 0; mode < 3; mode++) {
            char sizes[64];
            snprintf(sizes, sizeof sizes, "%s", model_kinds[k].sizes);
            char *rest = sizes;
            if (!*sizes)
                measure_model(&model_kinds[k], NULL, modes[mode]);
            for (char *size; *sizes && (size = strsep(&rest, " "));)
                measure_model(&model_kinds[k], size, modes[mode]);
        }
}

/* ---- Effort ---------------------------------------------------------------------------------- */

static void measure_efforts(void) {
    weir_error error;
    weir_graph *graph = NULL;
    bench_check(model_random(&(model_options){.nodes = 2000, .seed = 7}, &graph, &error), &error);
    for (uint32_t effort = 0; effort <= WEIR_EFFORT_MAX; effort++) {
        char name[64];
        job j = {.graph = graph, .mode = "forward", .effort = effort};
        double seconds = bench_best(1, make_plan, &j);
        snprintf(name, sizeof name, "random graph of 2000 nodes, effort %u", effort);
        bench_report(name, seconds, "s", NULL, 0, "");
        snprintf(name, sizeof name, "random graph of 2000 nodes, effort %u, peak", effort);
        bench_report(name, worst_gap(j.plan), "x", "lower bound", 1, "");
        weir_plan_close(j.plan);
    }
    weir_graph_close(graph);
}

/* ---- Instances ------------------------------------------------------------------------------- */

static char *read_whole(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    char *data = file ? malloc(64 << 20) : NULL;
    *size = data ? fread(data, 1, 64 << 20, file) : 0;
    if (file)
        fclose(file);
    return data;
}

/* NAME.CAPACITY.csv has its capacity in its name; 0 for all others. */
static uint64_t capacity_of(const char *name) {
    const char *end = strrchr(name, '.');
    const char *begin = end;
    uint64_t capacity = 0;
    while (begin > name && begin[-1] >= '0' && begin[-1] <= '9')
        begin--;
    if (begin == name || begin[-1] != '.')
        return 0;
    for (; begin < end; begin++)
        capacity = 10 * capacity + (uint64_t)(*begin - '0');
    return capacity;
}

static void measure_instance(const char *folder, const char *name, uint32_t effort) {
    weir_error error;
    char path[1024];
    char row[320];
    size_t size;
    weir_packing *packing = NULL;
    weir_packing_result result;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    char *text = read_whole(path, &size);
    if (!text)
        return;
    bench_check(weir_packing_read_csv(NULL, text, size, name, &packing, &error), &error);
    weir_packing_options options = {.size = sizeof options,
                                    .effort_plus_one = effort + 1,
                                    .has_capacity = capacity_of(name) > 0,
                                    .capacity = capacity_of(name)};
    double start = bench_now();
    weir_status status = weir_packing_solve(packing, &options, &result, &error);
    double seconds = bench_now() - start;
    snprintf(row, sizeof row, "%s, effort %u%s", name, effort, status == WEIR_OK ? "" : ": does not fit");
    bench_report(row, seconds, "s", NULL, 0, "");
    if (status == WEIR_OK) {
        snprintf(row, sizeof row, "%s, effort %u, peak", name, effort);
        bench_report(row, (double)result.peak_bytes, "bytes", "lower bound", (double)result.lower_bound, "");
    }
    weir_packing_close(packing);
    free(text);
}

static int is_csv(const struct dirent *entry) {
    size_t size = strlen(entry->d_name);
    return size > 4 && strcmp(entry->d_name + size - 4, ".csv") == 0;
}

static void measure_instances(const char *folder) {
    struct dirent **entries;
    int count = scandir(folder, &entries, is_csv, alphasort);
    for (int i = 0; i < count; i++) {
        measure_instance(folder, entries[i]->d_name, 3);
        measure_instance(folder, entries[i]->d_name, WEIR_EFFORT_DEFAULT);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
}

int main(int argc, char **argv) {
    unsigned largest = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 7;
    measure_growth(largest);
    measure_models();
    measure_efforts();
    if (getenv("WEIR_INSTANCES"))
        measure_instances(getenv("WEIR_INSTANCES"));
    return 0;
}
