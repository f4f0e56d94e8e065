/* See signals.h. */
#include "signals.h"

#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

static volatile sig_atomic_t caught_signal;
static void (*stop_work)(void *context);
static void *stop_context;
static int64_t caught_ns;

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void handle(int number) {
    enum { ECHO_NS = 500000000 };
    if (!caught_signal) {
        caught_ns = now_ns();
        caught_signal = number;
        if (stop_work)
            stop_work(stop_context);
    } else if (now_ns() - caught_ns >= ECHO_NS) {
        signal(number, SIG_DFL);
        raise(number);
    }
}

static void catch_signal(int number) {
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART}, before;
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGINT);
    sigaddset(&action.sa_mask, SIGTERM);
    if (sigaction(number, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(number, &action, NULL);
}

static void release_signal(int number) {
    struct sigaction now;
    if (sigaction(number, NULL, &now) == 0 && now.sa_handler == handle)
        signal(number, SIG_DFL);
}

void cli_signals_catch(void (*stop)(void *context), void *context) {
    caught_signal = 0;
    stop_work = stop;
    stop_context = context;
    catch_signal(SIGINT);
    catch_signal(SIGTERM);
}

int cli_signals_caught(void) {
    return caught_signal;
}

void cli_signals_release(void) {
    release_signal(SIGINT);
    release_signal(SIGTERM);
}
