"""Processes that end, hang, or run another program."""
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest
from conftest import TOOL, environment, free_port, torchrun


class Job:
    """A training in several processes with a pause in each step. Without a launcher, nobody but Tenon ends the others."""

    def __init__(self, ranks, launcher, timeout=60, **settings):
        self.ranks = ranks
        command = [TOOL, "train", "epochs=1000", "pause=20", f"timeout={timeout}", *(f"{name}={value}" for name, value in settings.items())]
        pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if launcher:
            self.processes = [subprocess.Popen(torchrun(ranks) + command, env=environment(), **pipes)]
        else:
            port = free_port()
            self.processes = [subprocess.Popen(command, env=environment(RANK=str(r), LOCAL_RANK=str(r), WORLD_SIZE=str(ranks), MASTER_PORT=port), **pipes)
                              for r in range(ranks)]

    def wait_for_steps(self):
        """Returns when the training runs; rank 0 prints the losses."""
        for line in self.processes[0].stdout:
            if line.startswith("loss"):
                return
        raise AssertionError("the training did not begin")

    def pids(self):
        """The processes by rank."""
        if len(self.processes) > 1:
            return [p.pid for p in self.processes]
        found = {}
        for pid in subprocess.run(["pgrep", "-P", str(self.processes[0].pid)], capture_output=True, text=True).stdout.split():
            text = open(f"/proc/{pid}/environ").read()
            found[int(re.search(r"(?:^|\0)RANK=(\d+)", text)[1])] = int(pid)
        return [found[r] for r in range(self.ranks)]

    def end(self, seconds):
        """The output of all processes; all must have ended by then."""
        deadline, outputs = time.time() + seconds, []
        try:
            for process in self.processes:
                outputs.append(process.communicate(timeout=max(0.1, deadline - time.time()))[0])
        finally:
            for process in self.processes:
                process.kill()
        return outputs


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("victim", [0, 1])
def test_killed_rank_is_named_by_the_others(ranks, victim):
    job = Job(ranks, launcher=False)
    job.wait_for_steps()
    os.kill(job.processes[victim].pid, signal.SIGKILL)
    outputs = job.end(20)
    for rank in set(range(ranks)) - {victim}:
        assert f"rank {victim} (process {job.processes[victim].pid} on" in outputs[rank], outputs[rank]
        assert job.processes[rank].returncode not in (0, None)


def test_killed_rank_under_torchrun():
    job = Job(3, launcher=True)
    job.wait_for_steps()
    pids = job.pids()
    os.kill(pids[1], signal.SIGKILL)
    output = job.end(60)[0]
    for rank in (0, 2):
        assert f"rank {rank}: rank 1 (process {pids[1]} on" in output, output


@pytest.mark.parametrize("victim", [0, 2])  # Rank 0 serves the store when there is no launcher.
def test_stopped_rank_is_named_and_killed(victim):
    job = Job(3, launcher=False, timeout=3)
    job.wait_for_steps()
    start = time.time()
    os.kill(job.processes[victim].pid, signal.SIGSTOP)
    outputs = job.end(20)
    assert time.time() - start < 3 + 8
    assert job.processes[victim].returncode == -signal.SIGKILL
    for rank in set(range(3)) - {victim}:
        assert re.search(rf"rank {victim} \(process {job.processes[victim].pid} on .*\) (is stopped|has not answered|has ended)", outputs[rank]), outputs[rank]


def test_recovery():
    """Trainings with a fault end with the bits of an undisturbed one; tests/dist/faults.py makes more of them."""
    done = subprocess.run([sys.executable, pathlib.Path(__file__).with_name("faults.py"), "5", "1", "10"], capture_output=True, text=True, env={**os.environ, "TENON_DIST_TOOL": TOOL})
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def test_other_model_is_reported_before_the_first_step():
    port = free_port()
    processes = [subprocess.Popen([TOOL, "train", f"net={net}"], env=environment(RANK=str(r), WORLD_SIZE="2", MASTER_PORT=port), stderr=subprocess.PIPE, text=True)
                 for r, net in enumerate(["mlp", "cnn"])]
    errors = [p.communicate(timeout=60)[1] for p in processes]
    assert all(p.returncode == 1 for p in processes)
    assert all("parameters of a model of rank 1 differ from those of rank 0" in e for e in errors), errors


@pytest.mark.parametrize("odd_step", [0, 9])
def test_program_of_one_rank_differs(odd_step):
    job = Job(3, launcher=False, odd_rank=1, odd_step=odd_step)
    outputs = job.end(30)
    for rank, output in enumerate(outputs):
        assert job.processes[rank].returncode not in (0, None)
        assert re.search(r"rank \d \(process .*\) runs another program than rank \d \(process .*\): collective number \d+ is a sum of \d+ \w+ in rank \d and a sum of \d+ \w+ in rank \d", output), output


def test_missing_rank():
    done = subprocess.run([TOOL, "train"], env=environment(WORLD_SIZE="2"), capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "WORLD_SIZE is set but RANK is not" in done.stderr


@pytest.mark.parametrize("name,value,text", [
    ("RANK", "two", 'the environment variable RANK is "two"'), ("ACCELERATE_DYNAMO_BACKEND", "foo", 'there is no backend "foo"'),
    ("ACCELERATE_DYNAMO_USE_FULLGRAPH", "2", "must be true or false"), ("ACCELERATE_MIXED_PRECISION", "fp16", "CPUs do not train in"),
    ("ACCELERATE_DYNAMO_MODE", "bogus", "must be default, reduce-overhead or max-autotune")])
def test_malformed_environment(name, value, text):
    done = subprocess.run([TOOL, "train", "backend="], env=environment(WORLD_SIZE="2" if name == "RANK" else "1", **{name: value}), capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and text in done.stderr, done.stderr
