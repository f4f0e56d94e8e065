"""Shows that a killed and resumed training run is the run that was never killed, with one process and with two.

    python3 examples/prove_resume.py weir-demo

Runs examples/train_shop.py four times: whole and killed, at world sizes 1 and 2 (torchrun, gloo). Then it compares the logs:
the same samples everywhere, and at one world size the same losses, bit for bit."""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TRAIN = Path(__file__).with_name("train_shop.py")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def command(world_size: int, folder: Path, steps: int, checkpoint: Path, log: Path) -> list[str]:
    launcher = [sys.executable]
    if world_size > 1:
        launcher += ["-m", "torch.distributed.run", f"--nproc_per_node={world_size}"]
        launcher += ["--master_addr=127.0.0.1", f"--master_port={free_port()}"]
        # torch 1.13 cannot read its own defaults of these two under Python 3.11.
        launcher += ["--redirects=1:1", "--tee=1:1", f"--log_dir={log.parent}"]
    return [*launcher, str(TRAIN), str(folder), f"--steps={steps}", "--every=4", f"--checkpoint={checkpoint}", f"--log={log}"]


def lines_of(log: Path, rank: int) -> list[dict]:
    path = Path(f"{log}.rank{rank}")
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.splitlines() if line.endswith("}")]


def run_killed(arguments: list[str], log: Path, world_size: int, kill_behind: int) -> None:
    """Starts the run, kills all of it behind a step, and starts it again."""
    process = subprocess.Popen(arguments, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while min(len(lines_of(log, rank)) for rank in range(world_size)) < kill_behind:
        if process.poll() is not None:
            raise SystemExit(f"the run ended by itself with status {process.returncode}")
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def last_of_each_step(log: Path, rank: int) -> list[dict]:
    """A resumed run repeats the steps behind its checkpoint; what it says last counts, and must not differ."""
    by_step: dict[int, dict] = {}
    for line in lines_of(log, rank):
        if by_step.setdefault(line["step"], line) != line:
            raise SystemExit(f"step {line['step']} was repeated differently: {by_step[line['step']]} and {line}")
    return [by_step[step] for step in sorted(by_step)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where `weir demo` made the shop")
    parser.add_argument("--steps", type=int, default=24)
    arguments = parser.parse_args()
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # the machine's name may lead nowhere
    samples = {}
    with tempfile.TemporaryDirectory() as scratch:
        for world_size in (1, 2):
            whole, killed = Path(scratch, f"whole{world_size}"), Path(scratch, f"killed{world_size}")
            subprocess.run(command(world_size, arguments.folder, arguments.steps, whole.with_suffix(".pt"), whole),
                           check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            run_killed(command(world_size, arguments.folder, arguments.steps, killed.with_suffix(".pt"), killed),
                       killed, world_size, arguments.steps // 2 + 1)
            for rank in range(world_size):
                if last_of_each_step(whole, rank) != last_of_each_step(killed, rank):
                    raise SystemExit(f"world size {world_size}, rank {rank}: the resumed run differs")
            print(f"world size {world_size}: killed and resumed, {arguments.steps} steps: same samples, same losses, bit for bit")
            ranks = [last_of_each_step(whole, rank) for rank in range(world_size)]
            samples[world_size] = [sum((line["samples"] for line in step), []) for step in zip(*ranks)]
    if samples[1] != samples[2]:
        raise SystemExit("world sizes 1 and 2 saw different samples")
    print("world sizes 1 and 2: the same samples in the same order")


if __name__ == "__main__":
    main()
