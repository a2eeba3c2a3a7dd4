#!/usr/bin/env python3
"""bench/data_parallel.py [--networks gpt,llama_qv] [--ranks 2] [--rounds N] [--steps N] [--link]: data-parallel steps beside torch.compile(DDP(model)).

Both are started by torchrun with one thread per process and take turns. Prints JSON lines: CPU and wall time of a step for bench_loop's
forms parallel and parallel_eager, and for Python's DDP with and without Inductor. With --link, two processes are in two network namespaces
that a link of 1 ms each way and 1 Gbit/s joins (needs root); prints how much of a step is spent waiting for the other.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
WARMUP = 4


def train_in_python(network, form, steps):
    import torch
    import torch.distributed as dist

    import models
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    model, x, y = models.make_training(network)
    model = torch.nn.parallel.DistributedDataParallel(model)
    compiled = torch.compile(model) if form == "inductor" else model
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3, weight_decay=1e-2, fused=True)
    wall, cpu = [], []
    for i in range(-WARMUP, steps):
        dist.barrier()
        start, cpu_start = time.perf_counter(), time.process_time()
        optimizer.zero_grad()
        logits = compiled(x)
        torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), y.reshape(-1)).backward()
        optimizer.step()
        if i >= 0:
            wall.append((time.perf_counter() - start) * 1e3)
            cpu.append((time.process_time() - cpu_start) * 1e3)
    if dist.get_rank() == 0:
        print(json.dumps({"ranks": dist.get_world_size(), "wall_ms": statistics.median(wall), "cpu_ms": statistics.median(cpu)}), flush=True)
    dist.destroy_process_group()


def measure(network, form, ranks, steps, build):
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", ranks]
    if form.startswith("parallel"):
        command = [*launcher, "--no-python", build / "bench/bench_loop", network, form]
    else:
        command = [*launcher, __file__, "--python", network, form, steps]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, cwd=ROOT,
                          env={**os.environ, "OMP_NUM_THREADS": "1", "BENCH_STEPS": str(steps)})
    if done.returncode:
        sys.exit(f"bench/data_parallel.py: {' '.join(map(str, command))} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


class Link:
    """Two network namespaces, joined by build/dev/bench/slow_link."""
    ADDRESSES = ("10.98.0.1", "10.98.0.2")

    def __init__(self, build, delay_us=1000, mbit=1000):
        self.names = [f"tenon{os.getpid()}{x}" for x in "ab"]
        for name in self.names:
            subprocess.run(["ip", "netns", "add", name], check=True)
            subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
        self.link = subprocess.Popen([build / "bench/slow_link", *self.names, str(delay_us), str(mbit)], stdout=subprocess.PIPE, text=True)
        assert self.link.stdout.readline() == "ready\n"
        for name, address in zip(self.names, self.ADDRESSES):
            subprocess.run(["ip", "-n", name, "addr", "add", f"{address}/24", "dev", "slow0"], check=True)
            subprocess.run(["ip", "-n", name, "link", "set", "slow0", "up"], check=True)

    def run(self, command, steps):
        """Starts the command as ranks 0 and 1 and returns the lines that rank 0 prints."""
        ranks = [subprocess.Popen(["ip", "netns", "exec", name, *map(str, command)], stdout=subprocess.PIPE, text=True,
                                  env={**os.environ, "OMP_NUM_THREADS": "1", "BENCH_STEPS": str(steps), "RANK": str(rank), "LOCAL_RANK": "0", "WORLD_SIZE": "2",
                                       "MASTER_ADDR": self.ADDRESSES[0], "MASTER_PORT": "29511", "GLOO_SOCKET_IFNAME": "slow0"})
                 for rank, name in enumerate(self.names)]
        outputs = [rank.communicate()[0] for rank in ranks]
        return outputs[0].strip().splitlines()

    def close(self):
        self.link.kill()
        self.link.wait()
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name])


def measure_link(networks, steps, build):
    link = Link(build)
    try:
        for network in networks:
            row = json.loads(link.run([build / "bench/bench_loop", network, "parallel"], steps)[-1])
            for name in ("wall", "waited"):
                print(json.dumps({"name": f"{network} link {name}", "figure": row[f"{name}_ms"], "unit": "ms"}), flush=True)
            print(json.dumps({"name": f"{network} gradient bytes", "figure": row["gradient_bytes"], "unit": "bytes"}), flush=True)
            print(json.dumps({"name": f"{network} step", "figure": row["wall_ms"] - row["waited_ms"], "unit": "ms"}), flush=True)
            print(json.dumps({"name": f"{network} link share", "figure": 100 * row["waited_ms"] / row["wall_ms"], "unit": "%"}), flush=True)
    finally:
        link.close()


def steal():
    numbers = [int(x) for x in open("/proc/stat").readline().split()[1:]]
    return numbers[7], sum(numbers)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--networks", default="gpt,llama_qv")
    parser.add_argument("--forms", default="parallel_eager,parallel,eager,inductor")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/dev")
    parser.add_argument("--link", action="store_true")
    parser.add_argument("--python", nargs=3)
    options = parser.parse_args()
    if options.python:
        return train_in_python(options.python[0], options.python[1], int(options.python[2]))
    if options.link:
        return measure_link(options.networks.split(","), options.steps, options.build)
    before = steal()
    for network in options.networks.split(","):
        found = {}
        for _ in range(options.rounds):
            for form in options.forms.split(","):
                found.setdefault(form, []).append(measure(network, form, options.ranks, options.steps, options.build))
        for form, rows in found.items():
            for key in rows[0]:
                if key.endswith("_ms"):
                    print(json.dumps({"name": f"{network} {form} {key.removesuffix('_ms')}", "figure": min(row[key] for row in rows), "unit": "ms"}), flush=True)
    after = steal()
    print(json.dumps({"name": "steal", "figure": 100 * (after[0] - before[0]) / max(1, after[1] - before[1]), "unit": "%"}))


if __name__ == "__main__":
    main()
