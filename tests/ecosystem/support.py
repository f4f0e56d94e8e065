"""What the tests of frameworks share: a framework that is not there is a test that is skipped, and shown so."""

import importlib.util
import os
import socket
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.support.processes import start  # noqa: E402


def require(*packages: str) -> None:
    """Skips the file that calls this first if one of these packages is not installed."""
    absent = [package for package in packages if importlib.util.find_spec(package) is None]
    if not absent:
        return
    reason = f"not installed: {', '.join(absent)} (pip install {' '.join(packages)})"
    if sys._getframe(1).f_globals["__name__"] != "__main__":
        raise unittest.SkipTest(reason)

    class Missing(unittest.TestCase):
        @unittest.skip(reason)
        def test_framework(self) -> None: ...

    unittest.TextTestRunner(verbosity=2).run(unittest.defaultTestLoader.loadTestsFromTestCase(Missing))
    sys.exit(0)


def run_ranks(world_size: int, code: str, timeout: int = 300) -> list[subprocess.CompletedProcess[str]]:
    """Runs a program on every rank of a world at once, as torchrun would; gloo, on this machine."""
    import weir

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    processes = []
    for rank in range(world_size):
        environment = {**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world_size),
                       "LOCAL_WORLD_SIZE": str(world_size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
                       "GLOO_SOCKET_IFNAME": "lo", "CUDA_VISIBLE_DEVICES": "",
                       "PYTHONPATH": f"{Path(weir.__file__).parents[1]}:{ROOT}"}
        command = [sys.executable, "-B", "-W", "ignore", "-c", code]
        processes.append(start(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    results = []
    for process in processes:
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
        results.append(subprocess.CompletedProcess(process.args, process.returncode, out, err))
    return results
