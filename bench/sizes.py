#!/usr/bin/env python3
"""bench/sizes.py [--layers N] [--build FOLDER]: the stream of lengths of bench_sizes, beside torch.compile(dynamic=True).

Both systems compile the Llama of bench/models/llama.h, each in a separate process with one thread. Both get the same lengths in the same
order, first those of the warm-up, then lengths that are new. They take turns after each call. Times are CPU times of the process. Prints
figures as JSON lines, like bench_sizes.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BATCH = 4
WARM_UP = [24, 24, 27, 100, 20, 17]
LENGTHS = [33 + i * 29 % 64 for i in range(16)]


def serve(layers):
    """Reads lengths and prints the seconds of a call with each, and the number of compilations so far, like `bench_sizes serve`."""
    out = sys.stdout
    sys.stdout = sys.stderr  # Keeps messages of the compiler out of the output.
    import torch
    from torch._dynamo.utils import counters

    from models import Llama
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    torch.manual_seed(1)
    compiled = torch.compile(Llama(layers).eval(), dynamic=True)
    for line in sys.stdin:
        ids = torch.randint(3, 32000, (BATCH, int(line)))
        start = time.process_time()
        compiled(ids)
        print(f"{time.process_time() - start:.6f} {counters['stats']['unique_graphs']}", file=out, flush=True)


class Worker:
    """A process that times a call with each length that it is given."""

    def __init__(self, *command):
        self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                        env={**os.environ, "OMP_NUM_THREADS": "1"})
        self.seconds, self.compilations = [], []

    def call(self, length):
        print(length, file=self.process.stdin, flush=True)
        words = self.process.stdout.readline().split()
        if len(words) != 2:
            sys.exit(f"bench/sizes.py: {' '.join(self.process.args)} failed")
        self.seconds.append(float(words[0]))
        self.compilations.append(int(words[1]))

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def report(name, figure, unit, theirs=0.0, ours=0.0):
    print(json.dumps({"name": name, "figure": figure, "unit": unit, "inductor_us": theirs * 1e6, "ours_us": ours * 1e6}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--build", default=ROOT / "build/dev")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        return serve(given.layers)
    workers = [Worker(sys.executable, __file__, "--serve", "--layers", given.layers), Worker(f"{given.build}/bench/bench_sizes", "serve", given.layers)]
    for i, length in enumerate(WARM_UP + LENGTHS):
        for worker in workers if i % 2 else workers[::-1]:
            worker.call(length)
    for worker in workers:
        worker.close()
    warm = len(WARM_UP)
    theirs, ours = (sum(worker.seconds[warm:]) / len(LENGTHS) for worker in workers)
    report("stream beside torch.compile", theirs / ours, "x the speed of torch.compile(dynamic=True)", theirs, ours)
    for system, worker in zip(("torch.compile", "Tenon"), workers):
        report(f"{system}: during the warm-up", worker.compilations[warm - 1], "compilations")
        report(f"{system}: recompiles for new lengths", worker.compilations[-1] - worker.compilations[warm - 1], "compilations")


if __name__ == "__main__":
    main()
