"""Programs that a test starts and that must not outlive it, also where the test itself is killed by a time limit."""
import ctypes
import os
import signal
import subprocess

PR_SET_PDEATHSIG = 1
libc = ctypes.CDLL(None, use_errno=True)


def start(command, *, at_death=signal.SIGKILL, preexec_fn=None, **options):
    """subprocess.Popen of a program that gets the signal `at_death` when this process ends, however that happens.
    (The thread that calls counts, not the process: call it from one that lasts.)"""
    parent = os.getpid()

    def die_with_parent():
        libc.prctl(PR_SET_PDEATHSIG, int(at_death))
        if os.getppid() != parent:
            os._exit(1)
        if preexec_fn:
            preexec_fn()

    return subprocess.Popen(command, preexec_fn=die_with_parent, **options)
