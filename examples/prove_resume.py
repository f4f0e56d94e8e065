"""Shows that a killed and resumed training run is the run that was never killed, with one process and with two.

    python3 examples/prove_resume.py shop.weir late=2 churn rating category

Runs examples/train.py on these tasks four times: whole and killed, at world sizes 1 and 2 (torchrun, gloo). Then it
compares what they recorded: the same samples everywhere, and at one world size the same losses, bit for bit."""

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

import torch

TRAIN = Path(__file__).with_name("train.py")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def command(world_size: int, arguments: argparse.Namespace, record: Path) -> list[str]:
    launcher = [sys.executable]
    if world_size > 1:
        launcher += ["-m", "torch.distributed.run", f"--nproc_per_node={world_size}"]
        launcher += ["--master_addr=127.0.0.1", f"--master_port={free_port()}"]
        if torch.__version__.startswith("1."):  # cannot read its own defaults of these two under Python 3.11
            launcher += ["--redirects=1:1", "--tee=1:1", f"--log_dir={record.parent}"]
    # torchrun takes an option for its own if it is the beginning of one of its own: none of these is.
    options = [f"--steps={arguments.steps}", "--every=4", "--evaluate=1", f"--checkpoint={record}.pt", f"--record={record}"]
    return [*launcher, str(TRAIN), str(arguments.store), *arguments.tasks, *options]


def run(arguments: list[str]) -> None:
    """Runs it to its end; what it says is shown if it fails."""
    done = subprocess.run(arguments, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(arguments)} failed with status {done.returncode}:\n{done.stdout}{done.stderr}")


def lines_of(record: Path, rank: int) -> list[dict]:
    path = Path(f"{record}.rank{rank}")
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.splitlines() if line.endswith("}")]


def run_killed(arguments: list[str], record: Path, world_size: int, kill_after: int) -> None:
    """Starts the run, kills all of it after a step, and starts it again."""
    process = subprocess.Popen(arguments, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while min(len(lines_of(record, rank)) for rank in range(world_size)) < kill_after:
        if process.poll() is not None:
            raise SystemExit(f"the run ended by itself with status {process.returncode}")
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    run(arguments)


def last_of_each_step(record: Path, rank: int) -> list[dict]:
    """A resumed run repeats the steps after its checkpoint; what it says last counts, and must not differ."""
    by_step: dict[int, dict] = {}
    for line in lines_of(record, rank):
        if by_step.setdefault(line["step"], line) != line:
            raise SystemExit(f"step {line['step']} was repeated differently: {by_step[line['step']]} and {line}")
    return [by_step[step] for step in sorted(by_step)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path, help="a store that `weir ingest` or `weir demo` made")
    parser.add_argument("tasks", nargs="+", metavar="TASK[=WEIGHT]", help="as examples/train.py takes them")
    parser.add_argument("--steps", type=int, default=24)
    arguments = parser.parse_args()
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # the machine's name may lead nowhere
    samples = {}
    with tempfile.TemporaryDirectory() as scratch:
        for world_size in (1, 2):
            whole, killed = Path(scratch, f"whole{world_size}"), Path(scratch, f"killed{world_size}")
            run(command(world_size, arguments, whole))
            run_killed(command(world_size, arguments, killed), killed, world_size, arguments.steps // 2 + 1)
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
