/* See fake_cuda.h. What is given to a stream is queued there and done later, in the order of the stream,
 * reading host memory only then: so a wait that is missing shows as wrong data. A device's addresses are
 * not the host's, so the host cannot read them by mistake. Kernels are the C ones, run thread by thread,
 * backwards. */
#include "support/fake_cuda.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "batch/expand_kernel.h"
#include "support/fake_attention.h"
#include "support/fake_calls.h"

enum { CONTEXT = 0x77, STACK_MAX = 16, NAMES_MAX = 64 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* ---- What there is ------------------------------------------------------------------------------ */

typedef struct allocation {
    struct allocation *next;
    uint8_t *data;
    size_t size;
    bool is_pinned;
} allocation;

typedef enum work_kind { COPY_IN, COPY_OUT, COPY_WITHIN, CLEAR, WAIT, RECORD, LAUNCH } work_kind;

typedef struct stream stream;

typedef struct work {
    struct work *next;
    work_kind kind;
    uintptr_t to, from, rules;
    size_t size;
    uint8_t byte;
    stream *other; /* WAIT: for this stream … */
    uint64_t mark; /* … to have done that much */
    unsigned blocks_x, blocks_y, threads;
    void (*kernel)(const struct work *w);
    uint8_t given[FAKE_ATTENTION_SIZE]; /* the arguments of attention's kernels */
} work;

struct stream {
    struct stream *next;
    work *first, *last;
    uint64_t given, done; /* pieces of work */
    bool is_closed;       /* events may still name it */
};

typedef struct event {
    stream *recorded_on;
    uint64_t mark;
} event;

static allocation *allocations;
static stream default_stream;
static stream *streams;
static int64_t live_handles;
static int sticky_error;
static uint64_t schedule;
static int driver_version = 13000;
static int device_count = 1;
static int has_pages = 1;
static __thread int stack_depth;

/* ---- Faults ------------------------------------------------------------------------------------- */

static struct {
    const char *name;
    uint64_t calls;
} counters[NAMES_MAX];
static const char *failing;
static char failing_name[64];
static uint64_t failing_at;
static int failing_result;

static uint64_t *counter_of(const char *name) {
    size_t i = 0;
    while (counters[i].name && strcmp(counters[i].name, name) != 0)
        i++;
    if (i >= NAMES_MAX - 1)
        abort();
    counters[i].name = name;
    return &counters[i].calls;
}

static void progress(void);

bool fake_has_context(void) {
    return stack_depth > 0;
}

void fake_count(int64_t change) {
    live_handles += change;
}

void fake_lock(void) {
    pthread_mutex_lock(&mutex);
}

/* Begins a call: false where it is to fail with *result. */
bool fake_begin(const char *name, int *result) {
    pthread_mutex_lock(&mutex);
    uint64_t call = ++*counter_of(name);
    if (failing && call == failing_at && strcmp(failing, name) == 0) {
        *result = failing_result;
        pthread_mutex_unlock(&mutex);
        return false;
    }
    progress();
    return true;
}

int fake_end(int result) {
    if (result == SUCCESS && sticky_error)
        result = sticky_error;
    pthread_mutex_unlock(&mutex);
    return result;
}

/* ---- Doing work --------------------------------------------------------------------------------- */

/* The bytes behind an address of the device; NULL where they are not all of one allocation. */
static uint8_t *device_bytes(uintptr_t address, size_t size) {
    uint8_t *data = (uint8_t *)(address - FAR_AWAY);
    for (allocation *a = allocations; a; a = a->next)
        if (!a->is_pinned && data >= a->data && data < a->data + a->size &&
            size <= (size_t)(a->data + a->size - data))
            return data;
    if (fake_pages_have(data, size))
        return data;
    sticky_error = ILLEGAL_ADDRESS;
    return NULL;
}

static void run_kernel(const work *w) {
    uint8_t *rules = device_bytes(w->rules, 8 * (size_t)RULES_WORDS);
    uint8_t *compact = device_bytes(w->from, 8 * (size_t)COMPACT_WORDS);
    if (!rules || !compact || !device_bytes(w->rules, (size_t)rules_word(rules, RULES_SIZE)) ||
        !device_bytes(w->from, (size_t)compact_word(compact, COMPACT_SIZE)))
        return;
    uint8_t *out = device_bytes(w->to, (size_t)compact_word(compact, COMPACT_BATCH_SIZE));
    uint32_t threads = w->blocks_y * w->threads;
    for (uint32_t thread = threads; out && thread-- > 0;)
        for (uint32_t sequence = w->blocks_x; sequence-- > 0;)
            expand_share(rules, compact, out, sequence, thread, threads);
}

static void run_lists(const work *w) {
    fake_attention_lists(w->given, device_bytes);
}

static void run_pass(const work *w) {
    fake_attention_pass(w->given, device_bytes);
}

static void run_long(const work *w) {
    fake_attention_long(w->given, device_bytes);
}

static void run_until(stream *s, uint64_t mark);

static void do_work(const work *w) {
    uint8_t *data;
    switch (w->kind) {
    case COPY_IN:
        data = device_bytes(w->to, w->size);
        if (data)
            memcpy(data, (const void *)w->from, w->size);
        return;
    case COPY_OUT:
        data = device_bytes(w->from, w->size);
        if (data)
            memcpy((void *)w->to, data, w->size);
        return;
    case COPY_WITHIN:
        data = device_bytes(w->to, w->size);
        if (data && device_bytes(w->from, w->size))
            memcpy(data, (const void *)(w->from - FAR_AWAY), w->size);
        return;
    case CLEAR:
        data = device_bytes(w->to, w->size);
        if (data)
            memset(data, w->byte, w->size);
        return;
    case WAIT:
        run_until(w->other, w->mark);
        return;
    case LAUNCH:
        w->kernel(w);
        return;
    case RECORD:
        return;
    }
}

static void do_first(stream *s) {
    work *w = s->first;
    s->first = w->next;
    if (!s->first)
        s->last = NULL;
    do_work(w);
    s->done++;
    free(w);
}

static void run_until(stream *s, uint64_t mark) {
    while (s->done < mark && s->first)
        do_first(s);
}

/* With a schedule, some work of some streams. */
static void progress(void) {
    if (!schedule)
        return;
    for (stream *s = &default_stream; s; s = s == &default_stream ? streams : s->next) {
        schedule = schedule * 6364136223846793005u + 1442695040888963407u;
        for (uint64_t steps = schedule >> 60; steps > 8 && s->first; steps--)
            do_first(s);
    }
}

/* 1 and 2 are names of default streams too: the legacy one and the thread's. */
static stream *stream_of(uintptr_t handle) {
    return handle > 2 ? (stream *)handle : &default_stream;
}

static int give(uintptr_t handle, work w) {
    stream *s = stream_of(handle);
    work *copy = malloc(sizeof *copy);
    if (!copy)
        abort();
    *copy = w;
    copy->next = NULL;
    if (s->last)
        s->last->next = copy;
    else
        s->first = copy;
    s->last = copy;
    s->given++;
    return SUCCESS;
}

/* ---- Steering ----------------------------------------------------------------------------------- */

EXPORT void fake_cuda_reset(void);
EXPORT void fake_cuda_set_schedule(uint64_t seed);
EXPORT void fake_cuda_fail_call(const char *function, uint64_t nth, int result);
EXPORT uint64_t fake_cuda_calls(const char *function);
EXPORT int64_t fake_cuda_live(void);
EXPORT int fake_cuda_depth(void);
EXPORT void fake_cuda_set_version(int version);
EXPORT void fake_cuda_set_device_count(int count);
EXPORT void fake_cuda_set_pages(bool are_there);

void fake_cuda_reset(void) {
    memset(counters, 0, sizeof counters);
    failing = NULL;
    sticky_error = 0;
    schedule = 0;
    driver_version = 13000;
    device_count = 1;
    has_pages = 1;
    stack_depth = 0;
}

void fake_cuda_set_schedule(uint64_t seed) {
    schedule = seed;
}

void fake_cuda_fail_call(const char *function, uint64_t nth, int result) {
    snprintf(failing_name, sizeof failing_name, "%s", function);
    failing = nth ? failing_name : NULL;
    failing_at = nth;
    failing_result = result;
}

__attribute__((constructor)) static void read_environment(void) {
    const char *fails = getenv("WEIR_FAKE_CUDA_FAILS");
    char function[sizeof failing_name];
    unsigned long long nth = 0;
    if (fails && sscanf(fails, "%63s %llu", function, &nth) == 2)
        fake_cuda_fail_call(function, nth, 719);
}

uint64_t fake_cuda_calls(const char *function) {
    for (size_t i = 0; counters[i].name; i++)
        if (strcmp(counters[i].name, function) == 0)
            return counters[i].calls;
    return 0;
}

int64_t fake_cuda_live(void) {
    int64_t live = live_handles;
    for (allocation *a = allocations; a; a = a->next)
        live++;
    return live + fake_pages_live();
}

int fake_cuda_depth(void) {
    return stack_depth;
}

void fake_cuda_set_version(int version) {
    driver_version = version;
}

void fake_cuda_set_device_count(int count) {
    device_count = count;
}

void fake_cuda_set_pages(bool are_there) {
    has_pages = are_there;
}

/* ---- Devices and contexts ----------------------------------------------------------------------- */

DRIVER(cuGetErrorName, (int error, const char **name)) {
    *name = error == 2       ? "CUDA_ERROR_OUT_OF_MEMORY"
            : error == 100   ? "CUDA_ERROR_NO_DEVICE"
            : error == 700   ? "CUDA_ERROR_ILLEGAL_ADDRESS"
            : error == 12345 ? NULL
                             : "CUDA_ERROR_OF_THE_FAKE";
    return *name ? SUCCESS : INVALID_VALUE;
}

DRIVER(cuGetErrorString, (int error, const char **text)) {
    *text = error == 2       ? "out of memory"
            : error == 100   ? "no CUDA-capable device is detected"
            : error == 12345 ? NULL
                             : "as the test wanted it";
    return *text ? SUCCESS : INVALID_VALUE;
}

DRIVER(cuInit, (unsigned flags)) {
    (void)flags;
    BEGIN()
    return fake_end(SUCCESS);
}

DRIVER(cuDriverGetVersion, (int *version)) {
    BEGIN()
    *version = driver_version;
    return fake_end(SUCCESS);
}

DRIVER(cuDeviceGetCount, (int *count)) {
    BEGIN()
    *count = device_count;
    return fake_end(SUCCESS);
}

DRIVER(cuDeviceGet, (int *device, int ordinal)) {
    BEGIN()
    *device = ordinal;
    return fake_end(SUCCESS);
}

DRIVER(cuDeviceGetName, (char *name, int size, int device)) {
    BEGIN()
    snprintf(name, (size_t)size, "fake device %d", device);
    return fake_end(SUCCESS);
}

DRIVER(cuDeviceGetAttribute, (int *value, int attribute, int device)) {
    (void)device;
    BEGIN()
    *value = attribute == 75 ? 9 : attribute == 76 ? 0 : attribute == 102 ? has_pages : 4;
    return fake_end(SUCCESS);
}

DRIVER(cuDeviceTotalMem_v2, (size_t * size, int device)) {
    (void)device;
    BEGIN()
    *size = (size_t)1 << 30;
    return fake_end(SUCCESS);
}

DRIVER(cuDevicePrimaryCtxRetain, (uintptr_t * context, int device)) {
    (void)device;
    BEGIN()
    *context = CONTEXT;
    live_handles++;
    return fake_end(SUCCESS);
}

DRIVER(cuDevicePrimaryCtxRelease_v2, (int device)) {
    (void)device;
    BEGIN_GIVING_BACK()
    live_handles--;
    return fake_end(result_);
}

DRIVER(cuCtxGetCurrent, (uintptr_t * context)) {
    BEGIN()
    *context = stack_depth > 0 ? CONTEXT : 0;
    return fake_end(SUCCESS);
}

DRIVER(cuCtxPushCurrent_v2, (uintptr_t context)) {
    BEGIN()
    if (context != CONTEXT || stack_depth == STACK_MAX)
        return fake_end(INVALID_CONTEXT);
    stack_depth++;
    return fake_end(SUCCESS);
}

DRIVER(cuCtxPopCurrent_v2, (uintptr_t * context)) {
    BEGIN_IN_CONTEXT()
    stack_depth--;
    *context = CONTEXT;
    return fake_end(SUCCESS);
}

DRIVER(cuCtxSynchronize, (void)) {
    BEGIN_IN_CONTEXT()
    run_until(&default_stream, default_stream.given);
    for (stream *s = streams; s; s = s->next)
        run_until(s, s->given);
    return fake_end(SUCCESS);
}

/* ---- Memory ------------------------------------------------------------------------------------- */

static int allocate(uintptr_t *out, size_t size, bool is_pinned) {
    allocation *a = calloc(1, sizeof *a);
    if (!a || size == 0)
        return INVALID_VALUE;
    *a = (allocation){.next = allocations, .size = size, .is_pinned = is_pinned};
    if (posix_memalign((void **)&a->data, 512, size) != 0)
        abort();
    memset(a->data, 0xa5, size); /* the driver promises nothing */
    allocations = a;
    *out = (uintptr_t)a->data + (is_pinned ? 0 : FAR_AWAY);
    return SUCCESS;
}

static int give_back(uintptr_t address, bool is_pinned) {
    uint8_t *data = (uint8_t *)(address - (is_pinned ? 0 : FAR_AWAY));
    for (allocation **at = &allocations; *at; at = &(*at)->next)
        if ((*at)->data == data && (*at)->is_pinned == is_pinned) {
            allocation *found = *at;
            *at = found->next;
            free(found->data);
            free(found);
            return SUCCESS;
        }
    return INVALID_VALUE;
}

DRIVER(cuMemAlloc_v2, (uintptr_t * out, size_t size)) {
    BEGIN_IN_CONTEXT()
    return fake_end(allocate(out, size, false));
}

/* As the driver does, freeing waits for what is under way. */
DRIVER(cuMemFree_v2, (uintptr_t address)) {
    BEGIN_GIVING_BACK()
    run_until(&default_stream, default_stream.given);
    for (stream *s = streams; s; s = s->next)
        run_until(s, s->given);
    int result = give_back(address, false);
    return fake_end(result_ ? result_ : result);
}

DRIVER(cuMemHostAlloc, (uintptr_t * out, size_t size, unsigned flags)) {
    (void)flags;
    BEGIN_IN_CONTEXT()
    return fake_end(allocate(out, size, true));
}

DRIVER(cuMemFreeHost, (uintptr_t address)) {
    BEGIN_GIVING_BACK()
    int result = give_back(address, true);
    return fake_end(result_ ? result_ : result);
}

DRIVER(cuMemcpyHtoDAsync_v2, (uintptr_t to, const void *from, size_t size, uintptr_t on)) {
    BEGIN_IN_CONTEXT()
    return fake_end(give(on, (work){.kind = COPY_IN, .to = to, .from = (uintptr_t)from, .size = size}));
}

DRIVER(cuMemcpyDtoHAsync_v2, (void *to, uintptr_t from, size_t size, uintptr_t on)) {
    BEGIN_IN_CONTEXT()
    return fake_end(give(on, (work){.kind = COPY_OUT, .to = (uintptr_t)to, .from = from, .size = size}));
}

DRIVER(cuMemcpyDtoDAsync_v2, (uintptr_t to, uintptr_t from, size_t size, uintptr_t on)) {
    BEGIN_IN_CONTEXT()
    return fake_end(give(on, (work){.kind = COPY_WITHIN, .to = to, .from = from, .size = size}));
}

DRIVER(cuMemsetD8Async, (uintptr_t to, unsigned char byte, size_t size, uintptr_t on)) {
    BEGIN_IN_CONTEXT()
    return fake_end(give(on, (work){.kind = CLEAR, .to = to, .byte = byte, .size = size}));
}

enum { POOL = 0x99 };

DRIVER(cuDeviceGetDefaultMemPool, (uintptr_t * pool, int device)) {
    (void)device;
    BEGIN()
    *pool = POOL;
    return fake_end(SUCCESS);
}

DRIVER(cuMemPoolSetAttribute, (uintptr_t pool, int attribute, void *value)) {
    BEGIN()
    return fake_end(pool == POOL && attribute == 4 && value ? SUCCESS : INVALID_VALUE);
}

DRIVER(cuMemPoolGetAttribute, (uintptr_t pool, int attribute, uint64_t *value)) {
    BEGIN()
    *value = 0;
    return fake_end(pool == POOL && attribute == 5 ? SUCCESS : INVALID_VALUE);
}

DRIVER(cuMemPoolTrimTo, (uintptr_t pool, size_t size)) {
    (void)size;
    BEGIN()
    return fake_end(pool == POOL ? SUCCESS : INVALID_VALUE);
}

DRIVER(cuMemAllocAsync, (uintptr_t * out, size_t size, uintptr_t on)) {
    (void)on;
    BEGIN_IN_CONTEXT()
    return fake_end(allocate(out, size, false));
}

DRIVER(cuMemFreeAsync, (uintptr_t address, uintptr_t on)) {
    BEGIN_GIVING_BACK()
    run_until(stream_of(on), stream_of(on)->given);
    int result = give_back(address, false);
    return fake_end(result_ ? result_ : result);
}

/* ---- Streams and events -------------------------------------------------------------------------- */

DRIVER(cuStreamCreate, (uintptr_t * out, unsigned flags)) {
    (void)flags;
    BEGIN_IN_CONTEXT()
    stream *s = calloc(1, sizeof *s);
    if (!s)
        abort();
    s->next = streams;
    streams = s;
    live_handles++;
    *out = (uintptr_t)s;
    return fake_end(SUCCESS);
}

/* What the stream was given is done all the same. */
DRIVER(cuStreamDestroy_v2, (uintptr_t handle)) {
    BEGIN_GIVING_BACK()
    stream *s = stream_of(handle);
    if (s->is_closed)
        return fake_end(INVALID_HANDLE);
    run_until(s, s->given);
    s->is_closed = true;
    live_handles--;
    return fake_end(result_);
}

DRIVER(cuStreamSynchronize, (uintptr_t handle)) {
    BEGIN_IN_CONTEXT()
    stream *s = stream_of(handle);
    run_until(s, s->given);
    return fake_end(SUCCESS);
}

DRIVER(cuStreamWaitEvent, (uintptr_t handle, uintptr_t awaited, unsigned flags)) {
    (void)flags;
    BEGIN_IN_CONTEXT()
    event *e = (event *)awaited;
    return fake_end(e->recorded_on
                        ? give(handle, (work){.kind = WAIT, .other = e->recorded_on, .mark = e->mark})
                        : SUCCESS);
}

DRIVER(cuEventCreate, (uintptr_t * out, unsigned flags)) {
    (void)flags;
    BEGIN_IN_CONTEXT()
    event *e = calloc(1, sizeof *e);
    if (!e)
        abort();
    live_handles++;
    *out = (uintptr_t)e;
    return fake_end(SUCCESS);
}

DRIVER(cuEventDestroy_v2, (uintptr_t handle)) {
    BEGIN_GIVING_BACK()
    free((event *)handle);
    live_handles--;
    return fake_end(result_);
}

DRIVER(cuEventRecord, (uintptr_t handle, uintptr_t on)) {
    BEGIN_IN_CONTEXT()
    event *e = (event *)handle;
    give(on, (work){.kind = RECORD});
    *e = (event){stream_of(on), stream_of(on)->given};
    return fake_end(SUCCESS);
}

/* Asking does a little of what is asked for, so that who asks again and again gets there. */
DRIVER(cuEventQuery, (uintptr_t handle)) {
    BEGIN_IN_CONTEXT()
    event *e = (event *)handle;
    if (e->recorded_on && e->recorded_on->done < e->mark)
        do_first(e->recorded_on);
    return fake_end(e->recorded_on && e->recorded_on->done < e->mark ? NOT_READY : SUCCESS);
}

DRIVER(cuEventSynchronize, (uintptr_t handle)) {
    BEGIN_IN_CONTEXT()
    event *e = (event *)handle;
    if (e->recorded_on)
        run_until(e->recorded_on, e->mark);
    return fake_end(SUCCESS);
}

/* ---- Modules and the compiler -------------------------------------------------------------------- */

const char fake_image[FAKE_IMAGE_SIZE] = "an image of the fake";

DRIVER(cuModuleLoadData, (uintptr_t * out, const void *data)) {
    BEGIN_IN_CONTEXT()
    if (strcmp(data, fake_image) != 0)
        return fake_end(INVALID_VALUE);
    live_handles++;
    *out = (uintptr_t)fake_image;
    return fake_end(SUCCESS);
}

DRIVER(cuModuleUnload, (uintptr_t module)) {
    BEGIN_GIVING_BACK()
    live_handles--;
    return fake_end(module == (uintptr_t)fake_image ? result_ : INVALID_HANDLE);
}

DRIVER(cuModuleGetFunction, (uintptr_t * out, uintptr_t module, const char *name)) {
    BEGIN_IN_CONTEXT()
    void (*run)(const work *w) = strcmp(name, "weir_expand") == 0            ? run_kernel
                                 : strcmp(name, "weir_attention_lists") == 0 ? run_lists
                                 : strcmp(name, "weir_attention") == 0       ? run_pass
                                 : strcmp(name, "weir_attention_long") == 0  ? run_long
                                                                             : NULL;
    *out = (uintptr_t)run;
    return fake_end(run && module == (uintptr_t)fake_image ? SUCCESS : NOT_FOUND);
}

DRIVER(cuFuncSetAttribute, (uintptr_t function, int attribute, int value)) {
    BEGIN_IN_CONTEXT()
    return fake_end(function && attribute == 8 && value > 0 && value <= 227 * 1024 ? SUCCESS : INVALID_VALUE);
}

DRIVER(cuLaunchKernel, (uintptr_t function, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z,
                        unsigned threads_x, unsigned threads_y, unsigned threads_z, unsigned shared,
                        uintptr_t on, void **arguments, void **extra)) {
    BEGIN_IN_CONTEXT()
    work w = {.kind = LAUNCH, .blocks_x = blocks_x, .blocks_y = blocks_y, .threads = threads_x};
    memcpy(&w.kernel, &function, sizeof w.kernel);
    if (!function || blocks_x * blocks_y * blocks_z == 0 || blocks_y > 65535 ||
        threads_x * threads_y * threads_z == 0 || threads_x > 1024 || shared > 227 * 1024 || extra)
        return fake_end(INVALID_VALUE);
    if (w.kernel != run_kernel)
        fake_attention_copy(w.given, arguments, w.kernel == run_lists);
    for (size_t i = 0; w.kernel == run_kernel && i < 3; i++)
        memcpy((uintptr_t *[]){&w.rules, &w.from, &w.to}[i], arguments[i], sizeof w.to);
    return fake_end(give(on, w));
}
