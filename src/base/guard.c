/* A page of a mapped file that cannot be read, because the file was cut or its disk failed, is told by
 * SIGBUS, whose default is the end of the process. The handler here finds the guarded memory that the address
 * lies in, sets its flag, and puts zero pages in the place of the rest of it: the read that failed is done
 * again and gives zeros. All other signals go to whoever was there before.
 *
 * Signals belong to the process, so this file has the one state that the library shares between its handles:
 * a table of what is guarded, and the handler that was there before. The table is written under a lock and
 * read by the handler without one: an entry counts from the moment its address is set. The handler is
 * installed with the first entry and taken back with the last, unless somebody has put another in its place
 * meanwhile. A fork waits for the lock, since in the child nobody is there to let go of it. Whatever else the
 * process has once is used under the same lock. */
#include "base/guard.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

enum { GUARDS_MAX = 4096 };

typedef struct guarded {
    atomic_uintptr_t start; /* 0: free */
    atomic_size_t size;
    _Atomic(uint32_t *) failed;
} guarded;

static guarded table[GUARDS_MAX];
static atomic_size_t table_end; /* no entry was ever used from here on */
static size_t used;             /* under the lock */
static uintptr_t page_size;
static struct sigaction before;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t is_ready_for_forks = PTHREAD_ONCE_INIT;

/* Handlers that call each other in a circle are cut here. */
static _Thread_local volatile sig_atomic_t is_passing_on __attribute__((tls_model("initial-exec")));

static guarded *find(uintptr_t address) {
    size_t end = atomic_load_explicit(&table_end, memory_order_acquire);
    for (size_t i = 0; i < end; i++) {
        uintptr_t start = atomic_load_explicit(&table[i].start, memory_order_acquire);
        if (start && address - start < atomic_load_explicit(&table[i].size, memory_order_relaxed))
            return &table[i];
    }
    return NULL;
}

/* Zero pages from the one of the address to the end. */
static bool replace_rest(const guarded *memory, uintptr_t address) {
    uintptr_t end = atomic_load(&memory->start) + atomic_load(&memory->size);
    uintptr_t page = address & ~(page_size - 1);
    __atomic_store_n(atomic_load(&memory->failed), 1, __ATOMIC_RELAXED);
    return mmap((void *)page, end - page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE,
                -1, 0) != MAP_FAILED;
}

static void pass_on(int number, siginfo_t *info, void *context) {
    bool is_default = before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN;
    if (is_default || is_passing_on) {
        signal(number, SIG_DFL); /* what failed fails again, and ends the process as it would have */
        return;
    }
    is_passing_on = 1;
    if (before.sa_flags & SA_SIGINFO)
        before.sa_sigaction(number, info, context);
    else
        before.sa_handler(number);
    is_passing_on = 0;
}

static void on_bus_error(int number, siginfo_t *info, void *context) {
    int kept = errno;
    uintptr_t address = (uintptr_t)info->si_addr;
    guarded *memory = info->si_code > 0 ? find(address) : NULL;
    if (!memory || !replace_rest(memory, address))
        pass_on(number, info, context);
    errno = kept;
}

static bool is_installed(void) {
    struct sigaction now;
    return sigaction(SIGBUS, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) &&
           now.sa_sigaction == on_bus_error;
}

static bool install(void) {
    struct sigaction action = {.sa_sigaction = on_bus_error,
                               .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};
    long size = sysconf(_SC_PAGESIZE);
    sigemptyset(&action.sa_mask);
    page_size = size > 0 ? (uintptr_t)size : 4096;
    return is_installed() || sigaction(SIGBUS, &action, &before) == 0;
}

static void begin_fork(void) {
    pthread_mutex_lock(&lock);
}

void weir__process_unlock(void) {
    pthread_mutex_unlock(&lock);
}

/* Without memory for it, a child that is forked at a bad moment would wait; nothing else depends on it. */
static void prepare_for_forks(void) {
    (void)!pthread_atfork(begin_fork, weir__process_unlock, weir__process_unlock);
}

void weir__process_lock(void) {
    (void)pthread_once(&is_ready_for_forks, prepare_for_forks);
    pthread_mutex_lock(&lock);
}

int weir__guard_system(void *context, const void *memory, size_t size, uint32_t *failed) {
    size_t at = 0;
    int result = -1;
    (void)context;
    weir__process_lock();
    while (at < GUARDS_MAX && atomic_load(&table[at].start) != 0)
        at++;
    if (at < GUARDS_MAX && install()) {
        atomic_store(&table[at].size, size);
        atomic_store(&table[at].failed, failed);
        atomic_store_explicit(&table[at].start, (uintptr_t)memory, memory_order_release);
        if (at >= atomic_load(&table_end))
            atomic_store_explicit(&table_end, at + 1, memory_order_release);
        used++;
        result = 0;
    }
    weir__process_unlock();
    return result;
}

void weir__unguard_system(void *context, const void *memory) {
    (void)context;
    weir__process_lock();
    for (size_t i = 0; i < atomic_load(&table_end); i++)
        if (atomic_load(&table[i].start) == (uintptr_t)memory) {
            atomic_store(&table[i].start, 0);
            used--;
            break;
        }
    if (used == 0 && is_installed())
        sigaction(SIGBUS, &before, NULL);
    weir__process_unlock();
}
