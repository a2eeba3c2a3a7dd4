#!/usr/bin/env python3
"""faults.py COUNT [SEED] [SLACK]: trainings in which one process fails at a random moment, and which then continue from their checkpoint.

The fault is a killed process, a stopped one, one whose program differs, a network that is dropped (two network namespaces; needs root), or a
full disk. Each job must end with the bits of an undisturbed one, without a hang, and its other processes must name the one that failed in time. SLACK is added to
the limits of these times, for busy machines. Prints one line with the counts and the slowest reports.
"""
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from conftest import TOOL, free_port

TIMEOUT = 3  # Seconds after which a process that gives no sign of life counts as hung.
SETTINGS = ["epochs=3", "examples=64", "batch=4", "pause=4", "every=3", "resume=1", f"timeout={TIMEOUT}"]
SLACK = float(sys.argv[3]) if len(sys.argv) > 3 else 0
LIMIT_DEAD, LIMIT_HUNG = 3 + SLACK, TIMEOUT + 2 + SLACK


class Rank:
    """A process whose lines are kept with the time at which they came."""

    def __init__(self, rank, ranks, port, attempt, directory, address="127.0.0.1", namespace=None, settings=()):
        env = {**os.environ, "OMP_NUM_THREADS": "1", "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": address,
               "MASTER_PORT": str(port), "TORCHELASTIC_RESTART_COUNT": str(attempt)}
        if namespace:
            env["GLOO_SOCKET_IFNAME"] = "cable"
        # With a process table of its own, a process looks like one on another host.
        command = [*(["ip", "netns", "exec", namespace, "unshare", "--pid", "--fork", "--kill-child", "--mount-proc"] if namespace else []), TOOL, "train", *SETTINGS, *settings, f"checkpoint={directory / 'state'}"]
        self.process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        self.lines = []
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.append((time.time(), line))

    def text(self):
        return "".join(line for _, line in self.lines)

    def time_of(self, pattern):
        return next((when for when, line in self.lines if re.search(pattern, line)), None)


def wait(ranks, seconds):
    """Whether all processes have ended by then. Ends those that have not."""
    deadline, ended = time.time() + seconds, True
    for rank in ranks:
        try:
            rank.process.wait(max(0.1, deadline - time.time()))
        except subprocess.TimeoutExpired:
            ended = False
            os.kill(rank.process.pid, signal.SIGKILL)
            rank.process.wait()
        rank.reader.join()
    return ended


def digests(ranks):
    return {m for rank in ranks for m in re.findall(r"digest (\w+)", rank.text())}


class Network:
    """Two network namespaces that a virtual cable joins."""

    def __init__(self):
        self.names = [f"tenon{os.getpid()}{x}" for x in "ab"]
        a, b = self.names
        for command in (f"ip netns add {a}", f"ip netns add {b}", f"ip link add name cable netns {a} type veth peer name cable netns {b}",
                        *(f"ip -n {n} link set lo up" for n in self.names), f"ip -n {a} addr add 10.97.0.1/24 dev cable", f"ip -n {b} addr add 10.97.0.2/24 dev cable"):
            subprocess.run(command.split(), check=True)
        self.up()

    def up(self):
        for name in self.names:
            subprocess.run(["ip", "-n", name, "link", "set", "cable", "up"], check=True)

    def drop(self):
        subprocess.run(["ip", "-n", self.names[1], "link", "set", "cable", "down"], check=True)

    def close(self):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False)


class Figures:
    def __init__(self):
        self.faults = self.hangs = self.unreported = self.other_bits = 0
        self.slowest = {"dead": 0.0, "hung": 0.0}
        self.kinds = {}


def inject(kind, victim, ranks, network, disk):
    """Makes the fault. Returns the pattern by which the others must name it, and whether it counts as dead or hung."""
    process = ranks[victim].process
    if kind == "kill":
        os.kill(process.pid, signal.SIGKILL)
        return rf"rank {victim} \(process {process.pid} ", "dead"
    if kind == "stop":
        os.kill(process.pid, signal.SIGSTOP)
        return rf"rank {victim} \(process {process.pid} ", "hung"
    if kind == "network":
        network.drop()
        return r"rank \d+ \(process|store of the job|connection to another process", "hung"
    try:  # Full disk: until a write fails.
        with open(disk / "filling", "wb") as file:
            while True:
                file.write(b"x" * 65536)
                file.flush()
    except OSError:
        pass
    return r"rank \d+: .*(No space left|cannot be)", "disk"


def run_job(kind, figures, expected, network, disk, seed):
    choose = random.Random(seed)
    count = 2 if kind == "network" else choose.choice([2, 2, 3])
    victim = choose.randrange(count)
    home = pathlib.Path(tempfile.mkdtemp(dir=disk if kind == "disk" else None))
    hit = None
    for attempt in range(4):
        port = free_port()
        place = lambda r: dict(address="10.97.0.1", namespace=network.names[r]) if kind == "network" else {}
        odd = [f"odd_rank={victim}", f"odd_step={choose.randrange(12)}"] if kind == "code" and attempt == 0 else []
        ranks = [Rank(r, count, port, attempt, home, settings=odd, **place(r)) for r in range(count)]
        if odd:
            hit, pattern, effect = time.time(), "runs another program than rank", "code"
            figures.faults += 1
        elif attempt == 0:
            while ranks[0].time_of("^loss") is None and ranks[0].process.poll() is None:
                time.sleep(0.01)
            time.sleep(choose.random() * 0.25)
            if all(r.process.poll() is None for r in ranks):
                hit = time.time()
                pattern, effect = inject(kind, victim, ranks, network, disk)
                figures.faults += 1
        ended = wait(ranks, 60 if hit is None or odd or attempt else LIMIT_HUNG + 8)
        if kind == "network":
            network.up()
        if kind == "disk":
            (disk / "filling").unlink(missing_ok=True)
        if not ended:
            figures.hangs += 1
            print(f"HANG {kind} seed {seed} attempt {attempt}:", *(r.text()[-600:] for r in ranks), sep="\n", flush=True)
        if attempt == 0 and hit and any(r.process.returncode for r in ranks):
            for r, rank in enumerate(ranks):
                if (effect in ("dead", "hung") and kind != "network" and r == victim) or not rank.process.returncode:
                    continue
                said = rank.time_of(pattern)
                if said is None or (effect in ("dead", "hung") and said - hit > (LIMIT_DEAD if effect == "dead" else LIMIT_HUNG)):
                    figures.unreported += 1
                    print(f"UNREPORTED {kind} seed {seed} rank {r} after {said and said - hit}: {rank.process.returncode} {rank.text()[-1500:]}", flush=True)
                elif effect in figures.slowest:
                    figures.slowest[effect] = max(figures.slowest[effect], said - hit)
        if all(r.process.returncode == 0 for r in ranks):
            break
    figures.kinds[kind] = figures.kinds.get(kind, 0) + 1
    if digests(ranks) != expected[count]:
        figures.other_bits += 1
        print(f"OTHER BITS {kind} seed {seed}: {digests(ranks)} instead of {expected[count]}", *(r.text()[-800:] for r in ranks), sep="\n", flush=True)
    shutil.rmtree(home)


def main():
    count, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time())
    figures, expected, start = Figures(), {}, time.time()
    is_root = os.geteuid() == 0
    try:
        network = Network() if is_root and shutil.which("ip") else None
    except subprocess.CalledProcessError:  # Containers may not make network namespaces.
        network = None
    disk = pathlib.Path(tempfile.mkdtemp())
    kinds = ["kill", "kill", "stop", "code"] + (["network"] if network else [])
    if is_root and subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", disk]).returncode == 0:
        kinds.append("disk")
    try:
        for ranks in (2, 3):
            home, port = pathlib.Path(tempfile.mkdtemp()), free_port()
            undisturbed = [Rank(r, ranks, port, 0, home) for r in range(ranks)]
            assert wait(undisturbed, 60), undisturbed[0].text()
            expected[ranks] = digests(undisturbed)
            assert len(expected[ranks]) == 1, undisturbed[0].text()
            shutil.rmtree(home)
        while figures.faults < count:
            run_job(kinds[figures.faults % len(kinds)], figures, expected, network, disk, seed)
            seed += 1
    finally:
        if network:
            network.close()
        if "disk" in kinds:
            subprocess.run(["umount", "--lazy", disk])
    print(f"{figures.faults} faults {figures.kinds}: {figures.hangs} hangs, {figures.unreported} not reported in time, {figures.other_bits} with other bits; "
          f"slowest report of a dead process {figures.slowest['dead']:.2f} s, of a hung one {figures.slowest['hung']:.2f} s (timeout {TIMEOUT} s); "
          f"{time.time() - start:.0f} s")
    sys.exit(figures.hangs + figures.unreported + figures.other_bits > 0)


main()
