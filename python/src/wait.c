/* Waiting with signals. What a Python thread waits for in C may take long, and Python's signal handlers run
 * in Python alone: so the environment's `wait` here wakes up some times a second to let them run. If a
 * handler raises (Ctrl-C), what is waited for is cancelled, and the exception is there when the wait returns.
 */
#include "module.h"

enum { WAIT_SLICE_NS = 50 * 1000 * 1000 };

/* What this thread waits for, and whether a signal handler has raised meanwhile. */
static _Thread_local void (*cancel)(void *subject);
static _Thread_local void *waited_for;
static _Thread_local bool is_interrupted;

/* A handler may wait for something else meanwhile: what is waited for here is put back behind it. */
static bool signal_handlers_raise(void) {
    void (*own_cancel)(void *) = cancel;
    void *own_subject = waited_for;
    PyGILState_STATE gil = PyGILState_Ensure();
    bool raised = PyErr_CheckSignals() != 0;
    PyGILState_Release(gil);
    cancel = own_cancel;
    waited_for = own_subject;
    is_interrupted = raised;
    return raised;
}

static void wait_in_slices(void *context, const uint32_t *word, uint32_t expected, uint64_t timeout_ns) {
    const weir_env *system = weir_env_default();
    bool is_consumer = cancel && !is_interrupted;
    system->wait(context, word, expected, is_consumer && timeout_ns == 0 ? WAIT_SLICE_NS : timeout_ns);
    if (is_consumer && signal_handlers_raise())
        cancel(waited_for);
}

weir_env py_env(void) {
    weir_env env = *weir_env_default();
    env.wait = wait_in_slices;
    return env;
}

void py_wait_begin(void (*cancel_it)(void *subject), void *subject) {
    cancel = cancel_it;
    waited_for = subject;
    is_interrupted = false;
}

void py_wait_end(void) {
    cancel = NULL;
}
