#!/usr/bin/env python3
"""bench/depth.py [--layers 16,32,64,128] [--inductor LAYERS] [--build FOLDER]: compile time and run time by depth, beside Inductor.

Narrow Llamas (bench/depth.cpp), inference, one thread, CPU time with that of child processes. Inductor compiles the whole model, and block by
block, each in a new process with empty caches. Prints JSON lines: seconds of the first calls above eager, and speed over eager.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIRST_CALLS = 4


def cpu_seconds():
    return sum(os.times()[:4])


def serve(form, layers):
    import statistics

    import torch
    from torch import nn

    import models
    torch.set_num_threads(1)
    torch._dynamo.config.recompile_limit = 1000
    model = models.Llama(layers=0, width=192, vocabulary=1000).eval()
    model.head = 32
    model.blocks = nn.ModuleList(models.LlamaBlock(192, 6, 2, 512) for _ in range(layers)).eval()
    ids = torch.randint(3, 1000, (2, 16))

    def first_calls(f):
        start = cpu_seconds()
        for _ in range(FIRST_CALLS):
            f(ids)
        return cpu_seconds() - start

    def time_of(f):
        times = []
        for _ in range(15):
            start = cpu_seconds()
            for _ in range(4):
                f(ids)
            times.append(cpu_seconds() - start)
        return statistics.median(times)

    with torch.no_grad():
        model(ids)
        eager, eager_time = first_calls(model), time_of(model)
        if form == "regional":
            for block in model.blocks:
                block.compile()
            compiled = model
        else:
            compiled = torch.compile(model)
        first = first_calls(compiled)
        print(json.dumps({"compile": first - eager, "call": eager_time / time_of(compiled)}))


def report(name, figure, unit):
    print(json.dumps({"name": name, "figure": figure, "unit": unit}), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", default="16,32,64,128")
    parser.add_argument("--inductor", default="16,32,64,128")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/dev")
    parser.add_argument("--serve", nargs=2)
    options = parser.parse_args()
    if options.serve:
        return serve(options.serve[0], int(options.serve[1]))
    out = subprocess.run([options.build / "bench/bench_depth", *options.layers.split(",")], capture_output=True, text=True, check=True).stdout
    for line in out.splitlines():
        if line.startswith("{"):
            row = json.loads(line)
            report(row["name"], row["figure"], row["unit"])
    for layers in filter(None, options.inductor.split(",")):
        for form in ("full", "regional"):
            with tempfile.TemporaryDirectory() as cache:
                command = [sys.executable, __file__, "--serve", form, layers]
                done = subprocess.run(command, capture_output=True, text=True,
                                      env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": cache, "TORCHINDUCTOR_COMPILE_THREADS": "1", "OMP_NUM_THREADS": "1"})
            if done.returncode:
                sys.exit(f"bench/depth.py: {' '.join(command)} failed:\n{done.stderr[-2000:]}")
            row = json.loads(done.stdout.strip().splitlines()[-1])
            report(f"llama {layers} inductor {form} compile", row["compile"], "CPU seconds above eager")
            report(f"llama {layers} inductor {form} call", row["call"], "x eager")


if __name__ == "__main__":
    main()
