#!/usr/bin/env python3
"""bench/scale.py [--ranks 2,4,8] [--link]: times of a sum over all processes, for the cost model of docs/scale.md.

Prints JSON lines: milliseconds by number of processes and bytes, on this machine, and with --link over the slow link of
bench/data_parallel.py (needs root), and then the factors of the model. tools/reference.py takes the cost model and the tables of docs/scale.md from here.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RANKS = (2, 8, 64, 256, 1024)
# Networks that were not measured: name, microseconds for one message, Gbit/s.
NETWORKS = [("10 Gbit/s, 50 µs", 50, 10), ("100 Gbit/s, 10 µs", 10, 100)]
BUCKET_BYTES = 25 << 20


def fit(rows, terms):
    """The factors of the terms, none below zero, with the least sum of squared relative errors. `terms` maps (ranks, bytes) to numbers."""
    import numpy
    left = numpy.array([[t / ms for t in terms(ranks, size)] for ranks, size, ms in rows])
    used = list(range(left.shape[1]))
    while True:
        found = numpy.linalg.lstsq(left[:, used], numpy.ones(len(rows)), rcond=None)[0]
        if (found >= 0).all():
            return [float(found[used.index(i)]) if i in used else 0.0 for i in range(left.shape[1])]
        used.pop(int(found.argmin()))


def on_one_host(cores):
    """A ring makes 2 (N - 1) steps. The processes of a host share its cores, so all bytes that all of them send count."""
    return lambda ranks, size: (1, 2 * (ranks - 1) * max(1, ranks / cores), 2 * (ranks - 1) * size)


def over_link(ranks, size):
    return 2 * (ranks - 1), 2 * (ranks - 1) / ranks * size


def total(factors, terms):
    return sum(f * t for f, t in zip(factors, terms))


def rows_of(results, place):
    prefix = f"sum {place} "
    return sorted((*map(int, name.removeprefix(prefix).split(" x ")), ms) for name, ms in results.items() if name.startswith(prefix))


def fits(results):
    """The factors of both models."""
    host = fit(rows_of(results, "host"), on_one_host(results["cores"]))
    link = fit(rows_of(results, "link"), over_link)
    return dict(zip(("sum start", "sum step", "sum byte", "link step", "link byte"), host + link))


def host_model(results):
    rows = rows_of(results, "host")
    terms = on_one_host(results["cores"])
    factors = [results[name] for name in ("sum start", "sum step", "sum byte")]
    return rows, [total(factors, terms(ranks, size)) for ranks, size, _ in rows]


def errors(results):
    """The factors between measured times and those of the model, sorted."""
    rows, model = host_model(results)
    return sorted(max(ms / m, m / ms) for (_, _, ms), m in zip(rows, model))


def middle_error(results):
    return errors(results)[len(errors(results)) // 2]


def sums_ms(ranks, size, step_ms, ms_per_byte, tree=False):
    """All gradients, bucket by bucket."""
    import math
    buckets = max(1, math.ceil(size / BUCKET_BYTES))
    steps = 2 * math.ceil(math.log2(ranks)) if tree else 2 * (ranks - 1)
    return buckets * steps * step_ms + 2 * (ranks - 1) / ranks * size * ms_per_byte


def networks_of(results):
    """Name, milliseconds of a step of the ring, milliseconds of a byte."""
    step_ms, ms_per_byte = results["link step"], results["link byte"]
    yield "1 Gbit/s, 1 ms (fitted)", step_ms, ms_per_byte
    for name, us, gbit in NETWORKS:
        yield name, us * 1e-3, 8e-6 / gbit


def tables(results):
    """The tables of docs/scale.md."""
    rows, model = host_model(results)
    out = ["| processes | bytes | measured, ms | model, ms |", "|---|---|---|---|"]
    out += [f"| {ranks} | {size:,} | {ms:.2f} | {m:.2f} |" for (ranks, size, ms), m in zip(rows, model)]
    out += ["", f"Half of the rows are within a factor of {middle_error(results):.2f}, all within {errors(results)[-1]:.2f}."]
    step_ms, ms_per_byte = results["link step"], results["link byte"]
    out += ["", "| over the slow link, two processes: bytes | measured, ms | model, ms |", "|---|---|---|"]
    out += [f"| {size:,} | {ms:.2f} | {total((step_ms, ms_per_byte), over_link(ranks, size)):.2f} |" for ranks, size, ms in rows_of(results, "link")]
    for network, what in (("llama_qv", "12-layer Llama, LoRA of rank 8 on two projections"), ("gpt", "GPT of 4 layers, width 256, all parameters")):
        step, size = results[f"{network} step"], int(results[f"{network} gradient bytes"])
        out += ["", f"{what}: {size / 1e6:.1f} MB of gradients, {step:.0f} ms of computation. Predicted part of a step that computes, in %:", "",
                "| network | " + " | ".join(f"{n} processes" for n in RANKS) + " |", "|---|" + "---|" * len(RANKS)]
        for name, step_ms, ms_per_byte in networks_of(results):
            for form in ("ring", "tree"):
                shares = [100 * step / (step + sums_ms(n, size, step_ms, ms_per_byte, form == "tree")) for n in RANKS]
                out.append(f"| {name}, {form} | " + " | ".join(f"{share:.0f}" for share in shares) + " |")
        waited = results.get(f"{network} link waited")
        if waited is not None:
            name, step_ms, ms_per_byte = next(networks_of(results))
            out += ["", f"Two processes over the slow link: {waited:.0f} ms measured, {sums_ms(2, size, step_ms, ms_per_byte):.0f} ms predicted."]
    return "\n".join(out)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", default="2,4,8")
    parser.add_argument("--link", action="store_true")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/dev")
    options = parser.parse_args()
    program = options.build / "bench/bench_collectives"

    results = {}

    def report(name, figure, unit):
        results[name] = figure
        print(json.dumps({"name": name, "figure": figure, "unit": unit}), flush=True)

    def report_all(place, lines):
        for row in map(json.loads, lines):
            report(f"sum {place} {row['ranks']} x {row['bytes']}", row["ms"], "ms")

    report("cores", os.cpu_count(), "cores")
    for ranks in options.ranks.split(","):
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--no-python", "--nproc-per-node", ranks, program]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
        if done.returncode:
            sys.exit(f"bench/scale.py: {done.stderr[-2000:]}")
        report_all("host", done.stdout.strip().splitlines())
    if options.link:
        import data_parallel
        link = data_parallel.Link(options.build)
        try:
            report_all("link", link.run([program], 0))
        finally:
            link.close()
        for name, factor in fits(results).items():
            report(name, factor, "ms")


if __name__ == "__main__":
    main()
