/* See weir/step_memory.h. While steps are recorded, time is the number of requests so far. A request's
 * lifetime may reach into the next step (gradients live until they are set to none), so time is a circle of
 * one step's requests. It is cut where the fewest bytes cross; what crosses the cut all the same has its
 * place for itself. Then it is an ordinary packing.
 *
 * Nothing relies on the recording being right: a place is given out only while no live memory overlaps it. */
#include <assert.h>
#include <pthread.h>
#include <string.h>

#include "base/arena.h"
#include "base/options.h"
#include "base/sort.h"
#include "device/device.h"
#include "weir/plan.h"
#include "weir/step_memory.h"
#include "weir_tool/device_work.h"

static const char operator_name[] = "weir.step_memory";

/* Until there is a plan, large requests are allocations of their own, which the driver gives back whole: in a
 * pool what stays (an optimizer's state) would lie among what goes, and keep its chunks. */
enum { ALIGNMENT = 512, NO_REQUEST = -1, LARGE = 1 << 20, GRANULE = 2 << 20 };

typedef enum phase { WARMING_UP, RECORDING, CLOSING, SERVING, NOT_PLANNED } phase;

typedef struct request {
    uint64_t size;  /* rounded */
    uint64_t death; /* in requests since the recorded step began; 0: not freed */
    uint64_t offset;
    bool has_place;
} request;

/* The recorded requests of one size, in their order: places[first, end). */
typedef struct size_class {
    uint64_t size;
    size_t first, end;
    size_t next;   /* what the next request of this step gets … */
    uint64_t step; /* … if it was set in this step */
} size_class;

/* Live memory: what must be known when it is freed. */
typedef struct live {
    uintptr_t data; /* 0: an empty cell */
    uint64_t size;
    int64_t request;
    weir_stream shared_with;
    bool is_shared;
    bool is_own; /* an allocation of its own, not of the pool */
} live;

typedef struct span {
    uint64_t offset, end;
} span;

struct weir_step_memory {
    const weir_env *env;
    weir_device *device;
    pthread_mutex_t mutex;
    uint32_t warmup, effort_plus_one;
    phase phase;
    bool is_in_step;
    weir_stream stream; /* of the recorded step's first request */
    bool has_stream;

    request *requests;
    size_t request_count, request_capacity;
    uint64_t now; /* requests since the recorded step began */

    live *lives; /* a hash table by address */
    size_t live_count, live_capacity;

    uint32_t *places;
    size_class *classes;
    size_t class_count;
    uint8_t *block;
    span *occupied; /* by offset */
    size_t occupied_count;
    uint64_t own_bytes; /* of allocations of their own, as the driver rounds them */
    weir_step_memory_info info;
};

/* ---- Live memory by address -------------------------------------------------------------------- */

static size_t home_of(const weir_step_memory *m, uintptr_t data) {
    return (size_t)((data >> 9) * 0x9E3779B97F4A7C15u >> 20) & (m->live_capacity - 1);
}

static live *find_live(const weir_step_memory *m, uintptr_t data) {
    for (size_t at = home_of(m, data); m->live_capacity && m->lives[at].data;
         at = (at + 1) & (m->live_capacity - 1))
        if (m->lives[at].data == data)
            return &m->lives[at];
    return NULL;
}

static void put_live(weir_step_memory *m, const live *entry) {
    size_t at = home_of(m, entry->data);
    while (m->lives[at].data)
        at = (at + 1) & (m->live_capacity - 1);
    m->lives[at] = *entry;
    m->live_count++;
}

static bool add_live(weir_step_memory *m, const live *entry) {
    if (2 * m->live_count >= m->live_capacity) {
        live *old = m->lives;
        size_t count = m->live_capacity, wanted = count ? 2 * count : 1024;
        live *grown = weir__allocate_zero(m->env, wanted, sizeof *grown);
        if (!grown)
            return false;
        m->lives = grown;
        m->live_capacity = wanted;
        m->live_count = 0;
        for (size_t i = 0; i < count; i++)
            if (old[i].data)
                put_live(m, &old[i]);
        weir__release(m->env, old);
    }
    put_live(m, entry);
    return true;
}

/* The cells after it are put again: each may have stood further on because of it. */
static void remove_live(weir_step_memory *m, live *entry) {
    size_t at = (size_t)(entry - m->lives);
    entry->data = 0;
    m->live_count--;
    for (at = (at + 1) & (m->live_capacity - 1); m->lives[at].data; at = (at + 1) & (m->live_capacity - 1)) {
        live moved = m->lives[at];
        m->lives[at].data = 0;
        m->live_count--;
        put_live(m, &moved);
    }
}

/* ---- Planning ---------------------------------------------------------------------------------- */

/* What can have a place: it was freed, before the same request of the next step. */
static bool is_plannable(const request *r, uint64_t birth, uint64_t period) {
    return r->size > 0 && r->death > birth && r->death <= birth + period;
}

/* The time at which the fewest bytes are live, on the circle. `load` has period + 1 entries. */
static uint64_t find_cut(const weir_step_memory *m, uint64_t *load, uint64_t period) {
    uint64_t least = 0, bytes = 0;
    for (size_t i = 0; i < m->request_count; i++) {
        const request *r = &m->requests[i];
        if (!is_plannable(r, i, period))
            continue;
        load[i] += r->size; /* modulo 2^64: a difference, summed up below */
        load[r->death % period] -= r->size;
        if (r->death >= period)
            bytes += r->size; /* live at 0 */
    }
    uint64_t smallest = UINT64_MAX;
    for (uint64_t t = 0; t < period; t++) {
        bytes += load[t];
        if (bytes < smallest) {
            smallest = bytes;
            least = t;
        }
    }
    return least;
}

/* Gives what can have a place one in the block. */
static weir_status pack_requests(weir_step_memory *m, weir__arena *scratch, weir_error *error) {
    uint64_t period = m->request_count;
    size_t count = 0;
    uint64_t *load = weir__arena_take_zero(scratch, period + 1, sizeof *load);
    weir_buffer *buffers = weir__arena_take(scratch, period * sizeof *buffers);
    uint32_t *of = weir__arena_take(scratch, period * sizeof *of); /* the request of each buffer */
    uint64_t *offsets = weir__arena_take(scratch, period * sizeof *offsets);
    if (scratch->is_short)
        return weir__out_of_memory(error, operator_name, period * sizeof *buffers);
    uint64_t cut = find_cut(m, load, period);
    for (size_t i = 0; i < period; i++) {
        const request *r = &m->requests[i];
        if (!is_plannable(r, i, period))
            continue;
        uint64_t birth = (i + period - cut) % period, death = birth + (r->death - i);
        bool crosses = death > period;
        buffers[count] = (weir_buffer){crosses ? 0 : birth, crosses ? period : death, r->size};
        of[count++] = WEIR__NARROW(uint32_t, i);
    }
    weir_packing_options options = {
        .size = sizeof options, .alignment = ALIGNMENT, .effort_plus_one = m->effort_plus_one};
    weir_packing_result result;
    WEIR__TRY(weir_pack(m->env, buffers, count, &options, offsets, &result, error));
    for (size_t i = 0; i < count; i++) {
        m->requests[of[i]].offset = offsets[i];
        m->requests[of[i]].has_place = true;
    }
    m->info.planned = count;
    m->info.block_bytes = result.peak_bytes;
    m->info.lower_bound = result.lower_bound;
    return WEIR_OK;
}

/* Requests by size: places has those of one size together, in their order. */
static weir_status make_classes(weir_step_memory *m, weir__arena *scratch, weir_error *error) {
    size_t count = m->request_count;
    weir__record *records = weir__arena_take(scratch, 2 * count * sizeof *records);
    m->places = weir__allocate(m->env, count, sizeof *m->places);
    m->classes = weir__allocate(m->env, count, sizeof *m->classes);
    m->occupied = weir__allocate(m->env, count, sizeof *m->occupied);
    if (!records || !m->places || !m->classes || !m->occupied)
        return weir__out_of_memory(error, operator_name, count * sizeof *records);
    for (size_t i = 0; i < count; i++)
        records[i] = (weir__record){m->requests[i].size, WEIR__NARROW(uint32_t, i)};
    weir__sort_records(records, records + count, count, NULL, NULL);
    for (size_t i = 0; i < count; i++) {
        m->places[i] = records[i].index;
        if (i == 0 || records[i].key != records[i - 1].key)
            m->classes[m->class_count++] = (size_class){.size = records[i].key, .first = i};
        m->classes[m->class_count - 1].end = i + 1;
    }
    return WEIR_OK;
}

/* The pool gives back first what the recorded steps have left there. */
static weir_status take_block(weir_step_memory *m, weir_error *error) {
    weir_memory memory = weir_device_memory(m->device);
    if (m->info.block_bytes == 0)
        return WEIR_OK;
    WEIR__TRY(weir__memory_settle(&memory, error));
    WEIR__TRY(m->device->operations->pool_trim(m->device, error));
    weir_error failure = {.status = WEIR_OUT_OF_MEMORY};
    m->block = memory.allocate(memory.context, (size_t)m->info.block_bytes, &failure);
    if (!m->block && error)
        *error = failure;
    return m->block ? WEIR_OK : failure.status;
}

static weir_status make_plan(weir_step_memory *m, weir_error *error) {
    weir__arena scratch;
    weir_status status = WEIR_OK;
    weir__arena_init(&scratch, m->env);
    m->info.requests = m->request_count;
    if (m->request_count > 0)
        status = pack_requests(m, &scratch, error);
    if (status == WEIR_OK)
        status = make_classes(m, &scratch, error);
    if (status == WEIR_OK)
        status = take_block(m, error);
    weir__arena_release(&scratch);
    m->info.is_planned = status == WEIR_OK;
    m->phase = status == WEIR_OK ? SERVING : NOT_PLANNED;
    return status;
}

/* ---- Serving ----------------------------------------------------------------------------------- */

/* Where a span would stand among the occupied ones; false if it overlaps one. */
static bool find_gap(const weir_step_memory *m, uint64_t offset, uint64_t end, size_t *at) {
    *at = weir__count_below(m->occupied, m->occupied_count, sizeof *m->occupied, offset);
    return (*at == 0 || m->occupied[*at - 1].end <= offset) &&
           (*at == m->occupied_count || m->occupied[*at].offset >= end);
}

/* NULL: the request falls through. */
static void *serve(weir_step_memory *m, uint64_t size, weir_stream stream) {
    size_class *c = m->classes + weir__count_below(m->classes, m->class_count, sizeof *c, size);
    if (c == m->classes + m->class_count || c->size != size || stream != m->stream)
        return NULL;
    if (c->step != m->info.steps + 1) {
        c->step = m->info.steps + 1;
        c->next = c->first;
    }
    if (c->next == c->end)
        return NULL;
    uint32_t index = m->places[c->next++];
    const request *r = &m->requests[index];
    size_t at;
    if (!r->has_place || !find_gap(m, r->offset, r->offset + size, &at))
        return NULL;
    live entry = {.data = (uintptr_t)(m->block + r->offset), .size = size, .request = index};
    if (!add_live(m, &entry))
        return NULL;
    memmove(&m->occupied[at + 1], &m->occupied[at], (m->occupied_count - at) * sizeof *m->occupied);
    m->occupied[at] = (span){r->offset, r->offset + size};
    m->occupied_count++;
    m->info.served++;
    m->info.used_bytes += size;
    if (m->info.used_bytes > m->info.peak_bytes)
        m->info.peak_bytes = m->info.used_bytes;
    return m->block + r->offset;
}

static void leave_place(weir_step_memory *m, const live *entry) {
    size_t at;
    (void)find_gap(m, m->requests[entry->request].offset, 0, &at);
    m->occupied_count--;
    memmove(&m->occupied[at], &m->occupied[at + 1], (m->occupied_count - at) * sizeof *m->occupied);
    m->info.used_bytes -= entry->size;
}

/* ---- The pool ---------------------------------------------------------------------------------- */

/* Notes a request of the recorded step; false if there is no memory for it. */
static bool note_request(weir_step_memory *m, uint64_t size, int64_t *index) {
    if (m->phase == CLOSING) {
        m->now++;
        return true;
    }
    if (m->request_count >= INT32_MAX || !weir__grow(m->env, (void **)&m->requests, &m->request_capacity,
                                                     m->request_count + 1, sizeof *m->requests))
        return false;
    *index = (int64_t)m->request_count;
    m->requests[m->request_count++] = (request){.size = size};
    m->now++;
    return true;
}

static uint64_t granules(uint64_t size) {
    return (size + GRANULE - 1) / GRANULE * GRANULE;
}

static void give_back(weir_step_memory *m, const live *entry, weir_stream stream) {
    const weir_device__operations *operations = m->device->operations;
    if (entry->is_own)
        operations->drop(m->device, WEIR_DEVICE__MEMORY, entry->data, (size_t)entry->size);
    else
        operations->pool_free(m->device, entry->data, (size_t)entry->size, stream);
}

static void *take_from_pool(weir_step_memory *m, uint64_t size, weir_stream stream, weir_error *error) {
    uintptr_t data = 0;
    live entry = {.size = size, .request = NO_REQUEST};
    bool is_recorded = m->is_in_step && (m->phase == RECORDING || m->phase == CLOSING);
    if (is_recorded && !m->has_stream) {
        m->stream = stream;
        m->has_stream = true;
    }
    if (is_recorded && stream == m->stream && !note_request(m, size, &entry.request)) {
        (void)weir__out_of_memory(error, operator_name, sizeof *m->requests);
        return NULL;
    }
    const weir_device__operations *operations = m->device->operations;
    entry.is_own = m->phase < SERVING && size >= LARGE;
    weir_status status = entry.is_own
                             ? operations->make(m->device, WEIR_DEVICE__MEMORY, (size_t)size, &data, error)
                             : operations->pool_allocate(m->device, (size_t)size, stream, &data, error);
    if (status != WEIR_OK)
        return NULL;
    entry.data = data;
    if (!add_live(m, &entry)) {
        give_back(m, &entry, stream);
        (void)weir__out_of_memory(error, operator_name, 2 * m->live_capacity * sizeof entry);
        return NULL;
    }
    m->own_bytes += entry.is_own ? granules(size) : 0;
    m->info.pool_bytes += size;
    return (void *)data;
}

void *weir_step_memory_allocate(weir_step_memory *memory, size_t size, weir_stream stream,
                                weir_error *error) {
    size_t rounded;
    if (__builtin_add_overflow(size ? size : 1, ALIGNMENT - 1, &rounded)) {
        (void)weir__out_of_memory(error, operator_name, size);
        return NULL;
    }
    rounded -= rounded % ALIGNMENT;
    pthread_mutex_lock(&memory->mutex);
    bool is_served = memory->phase == SERVING && memory->is_in_step;
    void *data = is_served ? serve(memory, rounded, stream) : NULL;
    if (!data) {
        memory->info.fell_through += is_served;
        data = take_from_pool(memory, rounded, stream, error);
    }
    pthread_mutex_unlock(&memory->mutex);
    return data;
}

void weir_step_memory_free(weir_step_memory *memory, void *data, weir_stream stream) {
    if (!data)
        return;
    pthread_mutex_lock(&memory->mutex);
    live *found = find_live(memory, (uintptr_t)data);
    assert(found && "memory that is freed was allocated here, and not freed before");
    live entry = *found;
    remove_live(memory, found);
    bool is_served = memory->block && (uint8_t *)data >= memory->block &&
                     (uint8_t *)data < memory->block + memory->info.block_bytes;
    if (entry.is_shared && weir_stream_sync(memory->device, entry.shared_with, NULL) != WEIR_OK)
        entry.is_shared = false; /* a device that fails here says so to whoever asks next */
    if (is_served) {
        leave_place(memory, &entry);
    } else {
        if (entry.request != NO_REQUEST && memory->phase <= CLOSING)
            memory->requests[entry.request].death =
                entry.is_shared ? 0
                                : memory->now; /* shared memory has no place: its end is not the stream's */
        memory->info.pool_bytes -= entry.size;
        memory->own_bytes -= entry.is_own ? granules(entry.size) : 0;
        give_back(memory, &entry, stream);
    }
    pthread_mutex_unlock(&memory->mutex);
}

void weir_step_memory_share(weir_step_memory *memory, void *data, weir_stream stream) {
    pthread_mutex_lock(&memory->mutex);
    live *found = find_live(memory, (uintptr_t)data);
    if (found && found->is_shared && found->shared_with != stream &&
        weir_stream_sync(memory->device, found->shared_with, NULL) != WEIR_OK)
        found->is_shared = false;
    if (found) {
        found->is_shared = true;
        found->shared_with = stream;
    }
    pthread_mutex_unlock(&memory->mutex);
}

/* ---- Steps ------------------------------------------------------------------------------------- */

weir_status weir_step_memory_begin(weir_step_memory *memory, weir_error *error) {
    pthread_mutex_lock(&memory->mutex);
    weir_status status = WEIR_OK;
    if (memory->is_in_step)
        status = weir__fail(error, WEIR_CONTRACT_VIOLATION, operator_name,
                            "a step begins before the one before it has ended");
    memory->is_in_step = true;
    if (memory->phase == RECORDING)
        memory->phase = CLOSING;
    else if (memory->phase == WARMING_UP && memory->info.steps >= memory->warmup)
        memory->phase = RECORDING;
    pthread_mutex_unlock(&memory->mutex);
    return status;
}

weir_status weir_step_memory_end(weir_step_memory *memory, weir_error *error) {
    pthread_mutex_lock(&memory->mutex);
    weir_status status = WEIR_OK;
    if (!memory->is_in_step)
        status = weir__fail(error, WEIR_CONTRACT_VIOLATION, operator_name, "a step ends that has not begun");
    else
        memory->info.steps++;
    if (memory->is_in_step && memory->phase == CLOSING)
        status = make_plan(memory, error);
    memory->is_in_step = false;
    pthread_mutex_unlock(&memory->mutex);
    return status;
}

weir_step_memory_info weir_step_memory_describe(weir_step_memory *memory) {
    pthread_mutex_lock(&memory->mutex);
    weir_step_memory_info info = memory->info;
    info.pool_reserved = memory->own_bytes + memory->device->operations->pool_reserved(memory->device);
    pthread_mutex_unlock(&memory->mutex);
    return info;
}

weir_status weir_step_memory_open(const weir_env *env, weir_device *device,
                                  const weir_step_memory_options *given, weir_step_memory **memory,
                                  weir_error *error) {
    weir_step_memory_options options;
    WEIR__TRY(WEIR__TAKE_OPTIONS(options, given, weir_step_memory_options, operator_name, error));
    if (options.effort_plus_one > WEIR_EFFORT_MAX + 1)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, operator_name,
                          "the effort is a number from 0 to %d", WEIR_EFFORT_MAX);
    WEIR__TRY(device->operations->pool_open(device, error));
    env = weir__env_or_default(env);
    weir_step_memory *m = weir__allocate_zero(env, 1, sizeof *m);
    if (!m)
        return weir__out_of_memory(error, operator_name, sizeof *m);
    m->env = env;
    m->device = device;
    m->warmup = options.warmup_plus_one ? options.warmup_plus_one - 1 : 1;
    m->effort_plus_one = options.effort_plus_one;
    pthread_mutex_init(&m->mutex, NULL);
    *memory = m;
    return WEIR_OK;
}

void weir_step_memory_close(weir_step_memory *memory) {
    if (!memory)
        return;
    const weir_env *env = memory->env;
    weir_memory device = weir_device_memory(memory->device);
    if (memory->block)
        device.release(device.context, memory->block, (size_t)memory->info.block_bytes);
    pthread_mutex_destroy(&memory->mutex);
    weir__release(env, memory->requests);
    weir__release(env, memory->lives);
    weir__release(env, memory->places);
    weir__release(env, memory->classes);
    weir__release(env, memory->occupied);
    weir__release(env, memory);
}
