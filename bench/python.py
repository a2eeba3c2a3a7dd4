#!/usr/bin/env python3
"""bench/python.py [--parts infer,train,start] [--calls N]: torch.compile with Tenon beside Inductor, models of Transformers, one thread, CPU time.

infer: batch 1 and 128 tokens (ViT: one image), eager, Inductor, Inductor with freezing and Tenon in one process, which take turns.
train: LoRA on a 12-layer Llama, 4 x 128 tokens, AdamW, in the same way.
start: the first call in a new process, with empty caches and with those of an earlier process; child processes are counted.
Prints JSON lines: milliseconds, seconds, and ratios. Steal is printed at the end.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

from data_parallel import steal
from depth import cpu_seconds

ROOT = pathlib.Path(__file__).resolve().parent.parent
SYSTEMS = ("eager", "inductor", "frozen", "tenon")


def line(name, figure, unit):
    print(json.dumps({"name": name, "figure": figure, "unit": unit}), flush=True)


def make(name):
    import torch
    import transformers as tf

    torch.manual_seed(0)
    tokens = dict(vocab_size=32000, bos_token_id=1, eos_token_id=2, pad_token_id=0)
    if name == "llama":
        return tf.LlamaForCausalLM(tf.LlamaConfig(hidden_size=768, num_hidden_layers=12, num_attention_heads=12, num_key_value_heads=4, intermediate_size=2048,
                                                  max_position_embeddings=1024, **tokens)), dict(input_ids=torch.randint(3, 32000, (1, 128)), use_cache=False)
    if name == "bert":
        return tf.BertModel(tf.BertConfig()), dict(input_ids=torch.randint(3, 30522, (1, 128)))
    return tf.ViTModel(tf.ViTConfig()), dict(pixel_values=torch.randn(1, 3, 224, 224))


def compile_for(system, model):
    import torch
    import torch._inductor.config as inductor

    torch._dynamo.config.recompile_limit = 64
    inductor.freezing = system == "frozen"  # Must be set in the first call too, in which case the option makes Dynamo compile again.
    if system == "eager":
        return model
    if system == "tenon":
        return torch.compile(model, backend="tenon")
    return torch.compile(model, options={"freezing": True}) if system == "frozen" else torch.compile(model)


def turns(runs, calls):
    """The median CPU time of each function, in milliseconds."""
    times = {name: [] for name in runs}
    for _ in range(calls):
        for name, run in runs.items():
            start = time.process_time()
            run()
            times[name].append(1000 * (time.process_time() - start))
    return {name: statistics.median(found) for name, found in times.items()}


def infer(name, calls):
    import torch

    model, inputs = make(name)
    model.eval()
    runs = {}
    with torch.no_grad():
        for system in SYSTEMS:
            compiled = compile_for(system, model)
            runs[system] = lambda compiled=compiled: compiled(**inputs)
            for _ in range(3):
                runs[system]()
        found = turns(runs, calls)
    for system in SYSTEMS:
        line(f"{name} {system}", found[system], "ms")
    line(f"{name} over inductor", found["inductor"] / found["tenon"], "x")
    line(f"{name} over frozen", found["frozen"] / found["tenon"], "x")


def lora():
    import peft

    model, _ = make("llama")
    return peft.get_peft_model(model.train(), peft.LoraConfig(r=8, lora_alpha=16, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"))


def train(calls):
    import torch

    ids = torch.randint(3, 32000, (4, 128))
    runs = {}
    for system in ("eager", "inductor", "tenon"):
        model = lora()
        optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4)
        compiled = compile_for(system, model)

        def step(compiled=compiled, optimizer=optimizer):
            compiled(input_ids=ids, labels=ids, use_cache=False).loss.backward()
            optimizer.step()
            optimizer.zero_grad()

        runs[system] = step
        for _ in range(2):
            step()
    found = turns(runs, calls)
    for system, figure in found.items():
        line(f"lora {system}", figure, "ms")
    line("lora over inductor", found["inductor"] / found["tenon"], "x")


def first_call(system, name):
    """Prints the CPU time of the first call, of which eager's is subtracted."""
    import torch

    model, inputs = make(name)
    model.eval()
    with torch.no_grad():
        model(**inputs)
        start = cpu_seconds()
        model(**inputs)
        eager = cpu_seconds() - start
        compiled = compile_for(system, model)
        start = cpu_seconds()
        compiled(**inputs)
        print(cpu_seconds() - start - eager)


def start():
    for name in ("llama", "bert"):
        found = {}
        for system in ("inductor", "tenon"):
            with tempfile.TemporaryDirectory() as cache:
                for state in ("cold", "warm"):
                    out = subprocess.run([sys.executable, __file__, "--first", f"{system},{name}"], capture_output=True, text=True,
                                         env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": cache, "TORCHINDUCTOR_COMPILE_THREADS": "1"})
                    if out.returncode:
                        sys.exit(out.stderr)
                    found[system, state] = float(out.stdout.split()[-1])
                    line(f"{name} {system} {state}", found[system, state], "CPU seconds")
        for state in ("cold", "warm"):
            line(f"{name} {state} over inductor", found["inductor", state] / found["tenon", state], "x")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--parts", default="infer,train,start")
    parser.add_argument("--networks", default="llama,bert,vit")
    parser.add_argument("--calls", type=int, default=15)
    parser.add_argument("--build", default=ROOT / "build/dev")
    parser.add_argument("--first")
    options = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(pathlib.Path(options.build) / "python"), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    sys.path.insert(0, str(pathlib.Path(options.build) / "python"))
    warnings.filterwarnings("ignore")
    import torch

    torch.set_num_threads(1)
    if options.first:
        return first_call(*options.first.split(","))
    before = steal()
    for part in options.parts.split(","):
        if part == "infer":
            for name in options.networks.split(","):
                infer(name, options.calls)
        elif part == "train":
            train(options.calls)
        else:
            start()
    now = steal()
    line("steal", 100 * (now[0] - before[0]) / max(1, now[1] - before[1]), "%")


if __name__ == "__main__":
    main()
