#!/usr/bin/env python3
"""bench/decode.py [--tokens N] [--rounds N] [--types f32,bf16] [--compiled] [--json PATH]: tokens a second of greedy decoding, batch 1.

A 12-layer Llama, 768 wide, made by Transformers from a fixed seed; ours (bench_decode), Transformers eager and, with --compiled,
Transformers with a static cache under torch.compile. Each in a process of its own, in turn, two threads; medians.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build/dev"
MODELS = ROOT / "build/models"
PROMPT = 16


def make(name):
    directory = MODELS / name
    if not (directory / "config.json").exists():
        import torch
        import transformers
        torch.manual_seed(0)
        config = transformers.LlamaConfig(vocab_size=32000, hidden_size=768, intermediate_size=2048, num_hidden_layers=12, num_attention_heads=12,
                                          num_key_value_heads=4, max_position_embeddings=2048)
        transformers.LlamaForCausalLM(config).save_pretrained(directory)
    return directory


def theirs(directory, kind, tokens, compiled):
    """Runs in a process of its own."""
    import time
    import torch
    import transformers
    torch.set_num_threads(2)
    model = transformers.LlamaForCausalLM.from_pretrained(directory, dtype=torch.bfloat16 if kind == "bf16" else torch.float32).eval()
    ids = torch.full((1, PROMPT), 5)
    options = dict(do_sample=False, eos_token_id=None, pad_token_id=0)
    if compiled:
        model.forward = torch.compile(model.forward, dynamic=False)
        options["cache_implementation"] = "static"
    run = lambda n: model.generate(ids, min_new_tokens=n, max_new_tokens=n, **options)
    run(tokens + 1)  # with a static cache the length is part of what is compiled
    run(tokens + 1)
    rates = []
    for _ in range(3):
        start = time.perf_counter()
        run(1) if not compiled else None
        middle = time.perf_counter()
        run(tokens + 1)
        end = time.perf_counter()
        rates.append(tokens / (end - middle - (middle - start)))
    print(json.dumps({"tokens_per_second": statistics.median(rates)}))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--types", default="f32,bf16")
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--theirs", nargs=2, metavar=("TYPE", "WAY"))
    given = parser.parse_args()
    directory = make("llama12")
    if given.theirs:
        return theirs(directory, given.theirs[0], given.tokens, given.theirs[1] == "compiled")
    rows = {}
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    for kind in given.types.split(","):
        ways = {"tenon": [BUILD / "bench/bench_decode", directory, kind, given.tokens, PROMPT],
                "eager": [sys.executable, __file__, "--tokens", given.tokens, "--theirs", kind, "eager"]}
        if given.compiled:
            ways["compiled"] = [sys.executable, __file__, "--tokens", given.tokens, "--theirs", kind, "compiled"]
        figures = {way: [] for way in ways}
        for round in range(given.rounds):
            for way, command in ways.items():
                if way == "compiled" and round:
                    continue  # half a minute of compiling each time
                out = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=environment)
                if out.returncode:
                    sys.exit(out.stderr[-3000:])
                figures[way].append(json.loads(out.stdout.splitlines()[-1]))
        median = lambda way, key: statistics.median(f[key] for f in figures[way])
        row = {way: median(way, "tokens_per_second") for way in ways}
        row["of_bandwidth"] = median("tenon", "of_bandwidth")
        rows[kind] = row
        print(f"{kind}: " + ", ".join(f"{way} {value:.1f}" for way, value in row.items() if way in ways)
              + f" tokens/s; {row['of_bandwidth']:.2f} of what the bandwidth allows; {row['tenon'] / row['eager']:.2f} x eager", flush=True)
    if given.json:
        pathlib.Path(given.json).write_text(json.dumps(rows, indent=1))


main()
