"""Runs the program tests/dist/dist_tool in several processes by torchrun. TENON_DIST_TOOL is its path."""
import dataclasses
import os
import re
import socket
import subprocess
import sys

TOOL = os.environ.get("TENON_DIST_TOOL", "dist_tool")


def torchrun(ranks, *options):
    """The beginning of a command that starts a program in so many processes."""
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--no-python", "--nproc-per-node", str(ranks), *options]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


@dataclasses.dataclass
class Result:
    losses: list
    digests: list
    state_bytes: list


def environment(**more):
    return {**os.environ, "OMP_NUM_THREADS": "1", "TENON_INTERNAL_ERRORS": "raise", **more}


def train(ranks, timeout=120, **settings):
    """Trains in so many processes. Returns the losses, and the digests of the weights by rank."""
    command = [TOOL, "train", *(f"{name}={value}" for name, value in settings.items())]
    done = subprocess.run((torchrun(ranks) if ranks > 1 else []) + command, capture_output=True, text=True, timeout=timeout, env=environment())
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    found = sorted(re.findall(r"rank (\d+) digest (\w+) state (\d+)", done.stdout))
    assert len(found) == ranks, done.stdout
    return Result([float(x) for x in re.findall(r"loss (\S+)", done.stdout)], [d for _, d, _ in found], [int(s) for _, _, s in found])
