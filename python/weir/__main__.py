"""The program weir: `weir demo`, or `python -m weir demo`.

It runs inside this process: the extension holds the whole program. What a C program expects of its surroundings is
restored first: Python takes Ctrl-C and a closed pipe for itself.
"""

import os
import signal
import sys

from weir import _weir
from weir._surroundings import prepare


def main() -> int:
    """Runs the command of the command line; its exit status."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # nohup's and a shell's background jobs stay as they are
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    prepare()
    return _weir._command([b"weir", *map(os.fsencode, sys.argv[1:])])


if __name__ == "__main__":
    sys.exit(main())
