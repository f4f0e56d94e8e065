"""Programs that a test starts: what they find in their environment, and that they do not outlive the test, also if it is
killed by a time limit itself."""
import ctypes
import os
import signal
import subprocess

LAUNCHER_VARIABLES = ["RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE",
                      "SLURM_PROCID", "SLURM_NTASKS"]
PR_SET_PDEATHSIG = 1
libc = ctypes.CDLL(None, use_errno=True)

# A shell has its background jobs ignore SIGINT, and so would the tests there, and all that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)


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


def environment(**variables):
    """This process's, without what launchers of ranks set, and with these."""
    kept = {name: value for name, value in os.environ.items() if name not in LAUNCHER_VARIABLES}
    return {**kept, **{name: str(value) for name, value in variables.items()}}
