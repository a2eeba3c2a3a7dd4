#!/usr/bin/env python3
"""bench/loop.py [--networks mlp,cnn,...] [--rounds N] [--build FOLDER]: training loops of bench/loop.cpp, beside torch.compile.

Each form of a network is a process with one thread; all take turns. The forms are those of bench_loop, and `inductor`:
torch.compile(model) with AdamW(fused=True) in Python. Networks in bf16 are left out if the CPU has no bf16 instructions. Prints JSON lines: the speed of each form over eager, peak memory / eager, and the
time of the first steps above eager.
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
FORMS = ["eager", "loop", "both", "whole", "pure", "inductor"]
# Steps for each request. The first steps record and compile; they are not counted.
STEPS = {"mlp": 200, "cnn": 8, "lstm": 20, "gpt": 4, "bert": 1, "llama_qv": 1, "llama_all": 1, "llama_bf16": 1, "bank": 1}
FIRST_STEPS = 4
LARGE_ROUNDS = 5  # At most so many rounds for networks whose steps take seconds.


def has_bf16():
    return "bf16" in pathlib.Path("/proc/cpuinfo").read_text()


def serve(network):
    """Reads numbers of steps and prints their CPU seconds, like bench_loop."""
    out = sys.stdout
    sys.stdout = sys.stderr  # Keeps messages of the compiler out of the output.
    import torch

    import models
    torch.set_num_threads(1)
    model, x, y = models.make_training(network)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3, weight_decay=1e-2, fused=True)
    compiled = torch.compile(model)

    def step():
        optimizer.zero_grad()
        logits = compiled(x)
        torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), y.reshape(-1)).backward()
        optimizer.step()

    for line in sys.stdin:
        start = time.process_time()
        for _ in range(int(line)):
            step()
        print(f"{time.process_time() - start:.6f}", file=out, flush=True)


class Worker:
    """A process that runs steps of one form."""

    def __init__(self, command, **extra):
        self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, "OMP_NUM_THREADS": "1", **extra})
        self.seconds = []

    def run(self, steps):
        print(steps, file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line.strip():
            sys.exit(f"bench/loop.py: {' '.join(self.process.args)} failed")
        return float(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def peak_memory(command):
    """Peak memory of a step in MB, after recording and compiling."""
    worker = Worker(command, BENCH_MEMORY="1")
    peak = worker.run(FIRST_STEPS + 2)
    worker.close()
    return peak


def measure(network, forms, rounds, build):
    if network == "bank":  # Tenon's own model with a LoRA in a bank; the other system is PEFT.
        forms = [form for form in forms if form in ("eager", "both", "inductor")]
    command = {form: [f"{build}/bench/bench_loop", network, form] for form in forms}
    if "inductor" in forms:
        command["inductor"] = [sys.executable, __file__, "--serve", network]
    if network == "llama_qv" and "inductor" in forms:
        command["budget"] = [f"{build}/bench/bench_loop", network, "budget"]
    workers = {form: Worker(line) for form, line in command.items()}
    first = {form: worker.run(FIRST_STEPS) for form, worker in workers.items()}
    names = list(workers)
    for i in range((min(rounds, LARGE_ROUNDS) if STEPS[network] == 1 else rounds) + 1):
        for k in range(len(names)):  # Each round begins with another form.
            worker = workers[names[(i + k) % len(names)]]
            seconds = worker.run(STEPS[network]) / STEPS[network]
            if i > 0:
                worker.seconds.append(seconds)
    for worker in workers.values():
        worker.close()
    median = {form: statistics.median(worker.seconds) for form, worker in workers.items()}
    peak = {form: peak_memory(line) for form, line in command.items() if form != "inductor"}
    for form in workers:
        if form == "eager":
            continue
        row = {"eager_us": median["eager"] * 1e6, "ours_us": median[form] * 1e6}
        above = first[form] - FIRST_STEPS * median[form] - (first["eager"] - FIRST_STEPS * median["eager"])
        print(json.dumps({"name": f"{network} {form}", "figure": median["eager"] / median[form], "unit": "x eager", **row}), flush=True)
        if form in peak:
            print(json.dumps({"name": f"{network} {form} memory", "figure": peak[form] / peak["eager"], "unit": f"x eager's {peak['eager']:.1f} MB"}), flush=True)
        print(json.dumps({"name": f"{network} {form} compile", "figure": above, "unit": "CPU seconds above eager"}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", default=",".join(name for name in STEPS if has_bf16() or "bf16" not in name))
    parser.add_argument("--forms", default=",".join(FORMS))
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--build", default=ROOT / "build/dev")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        return serve(given.serve)
    for network in given.networks.split(","):
        measure(network, given.forms.split(","), given.rounds, given.build)


if __name__ == "__main__":
    main()
