/* The guard of mapped memory and forks: a child guards memory of its own, whatever another thread of its
 * parent was doing. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/guard.h"
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

static void a_child_of_fork_waits_for_nobody(void **state) {
    (void)state;
    pthread_t thread;
    uint8_t memory[2];
    uint32_t failed = 0;
    assert_int_equal(pthread_create(&thread, NULL, guard_and_unguard, &memory[0]), 0);
    for (int i = 0; i < FORKS; i++) {
        int status;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            alarm(HANG_S);
            bool is_guarded = weir__guard_system(NULL, &memory[1], 1, &failed) == 0;
            weir__unguard_system(NULL, &memory[1]);
            _exit(is_guarded ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    atomic_store(&is_over, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_child_of_fork_waits_for_nobody)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
