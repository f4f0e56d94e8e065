/* Forks: a child guards memory of its own and reads the stores that it has, whatever another thread of its
 * parent was doing. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/guard.h"
#include "store/reader.h"
#include "support/made_store.h"
#include "support/testing.h"

enum { FORKS = 200, HANG_S = 60 };

static atomic_bool is_over;

static void *guard_and_unguard(void *memory) {
    uint32_t failed = 0;
    while (!atomic_load(&is_over)) {
        if (weir__guard_system(NULL, memory, 1, &failed) == 0)
            weir__unguard_system(NULL, memory);
    }
    return NULL;
}

/* Forks often while a thread goes on with `busy`; what each child does must end, and succeed. */
static void fork_beside(void *(*busy)(void *), bool (*works)(uint8_t *memory)) {
    pthread_t thread;
    uint8_t memory[2];
    atomic_store(&is_over, false);
    assert_int_equal(pthread_create(&thread, NULL, busy, &memory[0]), 0);
    for (int i = 0; i < FORKS; i++) {
        int status;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            alarm(HANG_S);
            _exit(works(&memory[1]) ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    atomic_store(&is_over, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static bool can_guard(uint8_t *memory) {
    uint32_t failed = 0;
    bool is_guarded = weir__guard_system(NULL, memory, 1, &failed) == 0;
    weir__unguard_system(NULL, memory);
    return is_guarded;
}

static void a_child_of_fork_waits_for_nobody(void **state) {
    (void)state;
    fork_beside(guard_and_unguard, can_guard);
}

static void *hold_and_let_go(void *nothing) {
    (void)nothing;
    while (!atomic_load(&is_over)) {
        weir__process_lock();
        (void)sched_yield();
        weir__process_unlock();
    }
    return NULL;
}

static bool can_lock(uint8_t *memory) {
    (void)memory;
    weir__process_lock();
    weir__process_unlock();
    return true;
}

/* As MariaDB's client library is prepared: the lock is held nearly always. */
static void a_child_of_fork_has_the_lock(void **state) {
    (void)state;
    fork_beside(hold_and_let_go, can_lock);
}

/* A thread of the parent was about to verify a section when it forked: in the child nobody goes on with it.
 */
static void a_child_of_fork_verifies_for_itself(void **state) {
    static const made_sizes sizes = {.tables = 2, .columns = 3, .edges = 1, .rows = 100, .dim = 2};
    size_t size;
    weir_error error;
    weir_store *store;
    int status;
    (void)state;
    uint8_t *bytes = make_store_bytes(1, &sizes, &size);
    assert_non_null(bytes);
    assert_ok(weir_store_open_memory(NULL, bytes, size, &store, &error), &error);
    atomic_store(&store->touched->sections[WEIR_STORE__SECTION_ROWS - 1].state, WEIR_STORE__UNDER_WAY);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(HANG_S);
        bool is_read = weir_store_record(store, 0) && weir_store_status(store, &error) == WEIR_OK;
        _exit(is_read ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    weir_store_close(store);
    free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_of_fork_waits_for_nobody),
        cmocka_unit_test(a_child_of_fork_has_the_lock),
        cmocka_unit_test(a_child_of_fork_verifies_for_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
