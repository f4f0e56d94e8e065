/* See population.h. Classes are sorted by counting. Weights become integers, scaled by a power of two, so
 * that the line's arithmetic is exact and whole numbers keep their ratios. */
#include "sampler/population.h"

#include <string.h>

#include "base/bytes.h"
#include "base/floating.h"
#include "base/internal.h"
#include "store/reader.h"

static const char operator_name[] = "weir.sampler.population";

enum { CLASSES_MAX = 1 << 27, PLACES_PER_GUIDE = 8 };

static weir_status refuse(const char *task, const char *why, weir_error *error) {
    weir_status status = weir__fail(error, WEIR_TASK_INVALID, operator_name, "task %s: %s", task, why);
    weir__note_text(error, "task", task, strlen(task));
    return status;
}

weir_seed weir_sampler__sampling_seed(const weir_manifest *manifest, const char *dataset, const void *token,
                                      size_t token_size) {
    uint8_t digest[WEIR_HASH_SIZE];
    weir__sha256 sha;
    weir_cbor_writer w;
    weir__sha256_init(&sha);
    weir__cbor_writer_hash(&w, &sha);
    weir_cbor_array(&w, 4);
    weir_cbor_text(&w, "sampling_seed_v1");
    weir_cbor_bytes(&w, token ? token : weir_manifest_describe(manifest)->token,
                    token ? token_size : WEIR_TOKEN_SIZE);
    weir_cbor_bytes(&w, weir_manifest_describe(manifest)->hash, WEIR_HASH_SIZE);
    weir_cbor_text(&w, dataset);
    weir__sha256_final(&sha, digest);
    return weir_seed_load(digest);
}

/* Samples have numbers of 32 bits here. */
static weir_status check_count(const char *task, uint64_t count, weir_error *error) {
    return count <= UINT32_MAX
               ? WEIR_OK
               : refuse(task, "it has more than 2^32 - 1 samples; sample it without data.sampling", error);
}

static weir_population *new_population(const weir_env *env, weir_seed seed, weir_sampling sampling,
                                       uint64_t count, weir_error *error) {
    weir_population *p = weir__allocate_zero(env, 1, sizeof *p);
    if (!p) {
        (void)!weir__out_of_memory(error, operator_name, sizeof *p);
        return NULL;
    }
    p->env = env;
    p->seed = seed;
    p->sampling = sampling;
    p->count = count;
    return p;
}

void weir_population_close(weir_population *p) {
    if (!p)
        return;
    weir__release(p->env, p->members);
    weir__release(p->env, p->starts);
    weir__release(p->env, p->line);
    weir__release(p->env, p->ends);
    weir__release(p->env, p->guide);
    weir__release(p->env, p);
}

/* Hands it over if all went well, else frees it. */
static weir_status complete(weir_population *p, weir_status status, weir_population **out) {
    if (status == WEIR_OK)
        *out = p;
    else
        weir_population_close(p);
    return status;
}

/* ---- Classes --------------------------------------------------------------------------------- */

static weir_status sort_by_class(weir_population *p, const char *task, const uint32_t *classes,
                                 uint64_t class_limit, weir_error *error) {
    uint64_t limit = class_limit < p->count ? class_limit : p->count; /* no more classes than samples */
    uint32_t *places = weir__allocate_zero(p->env, (size_t)class_limit, sizeof *places);
    p->members = weir__allocate(p->env, (size_t)p->count, sizeof *p->members);
    p->starts = weir__allocate_zero(p->env, (size_t)limit + 1, sizeof *p->starts);
    weir_status status = WEIR_OK;
    if (!places || !p->members || !p->starts)
        status = weir__out_of_memory(error, operator_name, (size_t)p->count * sizeof *p->members);
    for (uint64_t i = 0; status == WEIR_OK && i < p->count; i++)
        places[classes[i]]++;
    uint32_t end = 0; /* sizes become the places where each class's next member goes */
    for (uint64_t c = 0; status == WEIR_OK && c < class_limit; c++) {
        uint32_t size = places[c];
        places[c] = end;
        end += size;
        if (size > 0)
            p->starts[++p->class_count] = end;
    }
    assert((status != WEIR_OK || end == p->count) && "classes that do not hold every sample once");
    for (uint64_t i = 0; status == WEIR_OK && i < p->count; i++)
        p->members[places[classes[i]]++] = (uint32_t)i;
    weir__release(p->env, places);
    if (status == WEIR_OK && p->class_count > CLASSES_MAX)
        status =
            refuse(task, "its target has more than 2^27 classes; sample it without data.sampling", error);
    return status;
}

weir_status weir_sampler__population_of_classes(const weir_env *env, weir_seed seed, const char *name,
                                                const uint32_t *classes, uint64_t count, uint64_t class_limit,
                                                weir_population **out, weir_error *error) {
    WEIR__TRY(check_count(name, count, error));
    weir_population *p = new_population(env, seed, WEIR_SAMPLING_CLASS_BALANCED, count, error);
    return p ? complete(p, sort_by_class(p, name, classes, class_limit, error), out) : WEIR_OUT_OF_MEMORY;
}

/* ---- Weights --------------------------------------------------------------------------------- */

/* A positive double as significand * 2^exponent. */
static uint64_t take_apart(double weight, int *exponent) {
    uint64_t bits;
    memcpy(&bits, &weight, sizeof bits);
    uint64_t fraction = bits & (((uint64_t)1 << 52) - 1);
    int biased = (int)(bits >> 52 & 0x7ff);
    *exponent = (biased ? biased : 1) - 1075;
    return biased ? fraction | (uint64_t)1 << 52 : fraction;
}

/* weight * 2^scale, rounded to an integer with ties to even, at least 1. */
static uint64_t integer_weight(double weight, int scale) {
    int exponent;
    if (weight <= 0)
        return 0;
    uint64_t significand = take_apart(weight, &exponent);
    int shift = exponent + scale; /* the result is below 2^33, so a shift to the left loses nothing */
    if (shift >= 0)
        return significand << shift;
    if (shift < -63)
        return 1;
    uint64_t kept = significand >> -shift, rest = significand & (((uint64_t)1 << -shift) - 1);
    uint64_t half = (uint64_t)1 << (-shift - 1);
    uint64_t rounded = kept + (rest > half || (rest == half && kept % 2 == 1));
    return rounded ? rounded : 1;
}

static weir_status find_largest(const double *weights, uint64_t count, const char *task, double *out,
                                weir_error *error) {
    double largest = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (!(weights[i] >= 0) || __builtin_isinf(weights[i]))
            return weir__fail(error, WEIR_STORE_CORRUPT, operator_name,
                              "task %s: the weight of sample %llu is not a number that is at least 0", task,
                              (unsigned long long)i);
        largest = weights[i] > largest ? weights[i] : largest;
    }
    *out = largest;
    return largest > 0
               ? WEIR_OK
               : refuse(task, "no sample of this split has a positive weight, so there is nothing to draw",
                        error);
}

/* One entry per stretch of the line that holds about PLACES_PER_GUIDE places, and one after the last. */
static bool make_guide(weir_population *p) {
    assert(p->total > 0 && "a line without weight");
    uint64_t wanted = p->count / PLACES_PER_GUIDE + 1;
    while (p->total >> p->guide_shift > wanted)
        p->guide_shift++;
    size_t entries = (size_t)((p->total - 1) >> p->guide_shift) + 2;
    p->guide = weir__allocate(p->env, entries, sizeof *p->guide);
    if (!p->guide)
        return false;
    uint64_t place = 0;
    for (size_t i = 0; i + 1 < entries; i++) {
        while (p->ends[place] <= (uint64_t)i << p->guide_shift)
            place++;
        p->guide[i] = (uint32_t)place;
    }
    p->guide[entries - 1] = (uint32_t)(p->count - 1);
    return true;
}

static weir_status make_line(weir_population *p, const double *weights, double largest, weir_error *error) {
    int exponent, bits = 64 - __builtin_clzll(take_apart(largest, &exponent));
    int scale = 32 - (exponent + bits); /* the z of the contract: 2^31 <= largest * 2^z < 2^32 */
    weir_sampler__place_map map = weir_sampler__place_map_make(p->seed, WEIR_DOMAIN_LINE, 0, 0, p->count);
    p->line = weir__allocate(p->env, (size_t)p->count, sizeof *p->line);
    p->ends = weir__allocate(p->env, (size_t)p->count, sizeof *p->ends);
    if (!p->line || !p->ends)
        return weir__out_of_memory(error, operator_name, (size_t)p->count * sizeof *p->ends);
    for (uint64_t k = 0; k < p->count; k++) {
        p->line[k] = (uint32_t)weir_sampler__place_at(&map, k);
        p->total += integer_weight(weights[p->line[k]], scale);
        p->ends[k] = p->total;
    }
    p->theta = weir_sampler__draw_at(p->seed, WEIR_DOMAIN_PHASE, 0, 0).k0;
    return make_guide(p) ? WEIR_OK : weir__out_of_memory(error, operator_name, (size_t)p->count / 2);
}

uint64_t weir_sampler__population_find(const weir_population *p, uint64_t point) {
    uint64_t low = p->guide[point >> p->guide_shift], high = p->guide[(point >> p->guide_shift) + 1];
    while (low < high) { /* the first place that ends after the point */
        uint64_t middle = low + (high - low) / 2;
        if (p->ends[middle] > point)
            high = middle;
        else
            low = middle + 1;
    }
    return p->line[low];
}

weir_status weir_sampler__population_of_weights(const weir_env *env, weir_seed seed, const char *name,
                                                const double *weights, uint64_t count, weir_population **out,
                                                weir_error *error) {
    double largest = 0;
    WEIR__TRY(check_count(name, count, error));
    WEIR__TRY(find_largest(weights, count, name, &largest, error));
    weir_population *p = new_population(env, seed, WEIR_SAMPLING_WEIGHTED, count, error);
    return p ? complete(p, make_line(p, weights, largest, error), out) : WEIR_OUT_OF_MEMORY;
}

/* ---- From a store ---------------------------------------------------------------------------- */

/* The number of a target's class: the value, or the last one for a target that is missing. */
static bool class_of(const weir_column *column, const weir_cell *target, uint64_t limit, uint32_t *out) {
    uint64_t start = weir_value_of(column->stype) == WEIR_VALUE_CATEGORY ? column->category_start : 0;
    uint64_t number = target->is_null ? limit - 1 : (uint64_t)target->integer - start;
    *out = WEIR__LOW(uint32_t, number);
    return target->is_null || number < limit - 1;
}

static weir_status damaged(const weir_store *store, const weir_task *task, uint64_t seed, weir_error *error) {
    WEIR__TRY(weir_store_status(store, error));
    return weir__fail(error, WEIR_STORE_CORRUPT, operator_name,
                      "task %s: seed %llu is damaged; 'weir verify' finds what else is", task->name,
                      (unsigned long long)seed);
}

static weir_status read_classes(const weir_env *env, weir_seed seed, const weir_store *store,
                                const weir_stored_dataset *stored, weir_population **out, weir_error *error) {
    const weir_store_info *info = weir_store_describe(store);
    const weir_task *task = &info->tasks[stored->task];
    const weir_column *column = &info->columns[task->column];
    weir_value value = weir_value_of(task->stype);
    if (value != WEIR_VALUE_TRUTH && value != WEIR_VALUE_CATEGORY)
        return refuse(
            task->name,
            "its target is numerical or a time and has no classes; class_balanced needs a boolean or "
            "categorical one. List the datasets that it is for in data.sampling.datasets",
            error);
    WEIR__TRY(check_count(task->name, stored->cardinality, error));
    uint64_t limit = 1 + (value == WEIR_VALUE_TRUTH ? 2 : (uint64_t)column->category_count);
    uint32_t *classes = weir__allocate(env, (size_t)stored->cardinality, sizeof *classes);
    weir_status status = WEIR_OK;
    if (!classes)
        status = weir__out_of_memory(error, operator_name, (size_t)stored->cardinality * sizeof *classes);
    for (uint64_t i = 0; status == WEIR_OK && i < stored->cardinality; i++) {
        weir_seed_row row;
        uint64_t index = task->split_start[stored->split] + i;
        if (!weir_store_seed(store, stored->task, index, &row) ||
            !class_of(column, &row.target, limit, &classes[i]))
            status = damaged(store, task, index, error);
    }
    if (status == WEIR_OK)
        status = weir_sampler__population_of_classes(env, seed, task->name, classes, stored->cardinality,
                                                     limit, out, error);
    weir__release(env, classes);
    return status;
}

static weir_status read_weights(const weir_env *env, weir_seed seed, const weir_store *store,
                                const weir_stored_dataset *stored, const char *weight_column,
                                weir_population **out, weir_error *error) {
    const weir_task *task = &weir_store_describe(store)->tasks[stored->task];
    if (!task->weight_column || strcmp(task->weight_column, weight_column) != 0) {
        weir_status status = weir__fail(
            error, WEIR_TASK_INVALID, operator_name,
            "task %s: data.sampling draws by the column '%.100s', and the store has %s%.100s; name it as "
            "weight_column of the task in the schema and ingest again, or list the datasets that it is for "
            "in "
            "data.sampling.datasets",
            task->name, weight_column, task->weight_column ? "the weights of " : "no weights of this task",
            task->weight_column ? task->weight_column : "");
        weir__note_text(error, "task", task->name, strlen(task->name));
        return status;
    }
    WEIR__TRY(check_count(task->name, stored->cardinality, error));
    const uint8_t *from = task->seed_weights + 8 * task->split_start[stored->split];
    if (!weir_store__touch_in(store, WEIR_STORE__SECTION_SEED_TARGETS, from, 8 * (size_t)stored->cardinality))
        return damaged(store, task, task->split_start[stored->split], error);
    double *weights = weir__allocate(env, (size_t)stored->cardinality, sizeof *weights);
    if (!weights)
        return weir__out_of_memory(error, operator_name, (size_t)stored->cardinality * sizeof *weights);
    for (uint64_t i = 0; i < stored->cardinality; i++) {
        uint64_t bits = weir__load64(from + 8 * i);
        memcpy(&weights[i], &bits, sizeof bits);
    }
    weir_status status =
        weir_sampler__population_of_weights(env, seed, task->name, weights, stored->cardinality, out, error);
    weir__release(env, weights);
    return status;
}

static __attribute__((noinline)) weir_status open_population(const weir_env *env,
                                                             const weir_manifest *manifest,
                                                             const weir_store *store, const char *dataset,
                                                             const void *token, size_t token_size,
                                                             weir_population **out, weir_error *error) {
    const weir_dataset *described = weir_manifest_find(manifest, dataset);
    weir_stored_dataset stored;
    env = weir__env_or_default(env);
    *out = NULL;
    if (!described || described->sampling == WEIR_SAMPLING_SHUFFLED)
        return WEIR_OK;
    weir_status status = weir_store_dataset(store, dataset, &stored, error);
    if (status != WEIR_OK || stored.cardinality == 0) /* an empty one is the sampler's to refuse */
        return status;
    weir_seed seed = weir_sampler__sampling_seed(manifest, dataset, token, token_size);
    if (described->sampling == WEIR_SAMPLING_CLASS_BALANCED)
        return read_classes(env, seed, store, &stored, out, error);
    return read_weights(env, seed, store, &stored, weir_manifest_describe(manifest)->data->weight_column, out,
                        error);
}

weir_status weir_population_open(const weir_env *env, const weir_manifest *manifest, const weir_store *store,
                                 const char *dataset, const void *token, size_t token_size,
                                 weir_population **out, weir_error *error) {
    weir__floating kept = weir__enter_floating();
    weir_status status = open_population(env, manifest, store, dataset, token, token_size, out, error);
    weir__leave_floating(&kept);
    return status;
}
