#!/usr/bin/env python3
"""bench/adapters.py [--types f32,bf16] [--parts rows,peft,bank] [--rounds N] [--json PATH]

A Llama of 12 layers, 768 wide, with adapters on all its linear layers: one LoRA of rank 16 for all 64 rows, a different one for each,
five methods mixed; prompts of 32 tokens, then decoding. Beside it PEFT: 8 rows with four LoRAs. What switching, loading and a thousand
adapters cost. Two threads, everything in turn.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

import decode

ROOT = decode.ROOT
HOME = decode.MODELS / "adapters"
LINEARS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def make(base):
    """Adapters by PEFT, random all through."""
    import peft
    import torch
    import transformers
    wanted = {f"lora{i}": (peft.LoraConfig, dict(r=16, target_modules=LINEARS)) for i in range(64)}
    wanted |= {f"qv{i}": (peft.LoraConfig, dict(r=8, target_modules=["q_proj", "v_proj"])) for i in range(4)}
    wanted |= {f"all{i}": (peft.LoraConfig, dict(r=8, target_modules=LINEARS)) for i in range(4)}
    wanted |= {"rank2": (peft.LoraConfig, dict(r=2, target_modules=LINEARS))}
    wanted |= {"ia3": (peft.IA3Config, dict(target_modules=LINEARS, feedforward_modules=["down_proj"])),
               "oft": (peft.OFTConfig, dict(r=0, oft_block_size=32, target_modules=LINEARS)),
               "vera": (peft.VeraConfig, dict(r=64, target_modules=LINEARS)),
               "lokr": (peft.LoKrConfig, dict(r=8, target_modules=LINEARS)),
               "dora": (peft.LoraConfig, dict(r=16, use_dora=True, target_modules=LINEARS))}
    missing = {name: one for name, one in wanted.items() if not (HOME / name / "adapter_model.safetensors").exists()}
    if missing:
        model = transformers.LlamaForCausalLM.from_pretrained(base)
    for name, (kind, fields) in missing.items():
        torch.manual_seed(sum(map(ord, name)))
        adapted = peft.get_peft_model(model, kind(**fields), adapter_name=name)
        with torch.no_grad():
            for path, parameter in adapted.named_parameters():
                if name in path.split("."):
                    parameter.add_(0.01 * torch.randn_like(parameter))
        adapted.save_pretrained(HOME, selected_adapters=[name])
        model = adapted.unload()
        print(f"made {name}", end="\r", file=sys.stderr)


def ours(base, rows, tokens, steps, rounds, cases):
    command = [str(decode.BUILD / "bench/bench_adapters"), str(base), str(HOME), str(rows), str(tokens), str(steps), str(rounds)]
    done = subprocess.run(command + [f"{name}={','.join(names)}" if names else name for name, names in cases.items()], capture_output=True, text=True,
                          env={**decode.os.environ, "OMP_NUM_THREADS": "2"})
    if done.returncode:
        sys.exit(f"bench/adapters.py: {done.stderr}")
    return {row.pop("case"): row for row in map(json.loads, done.stdout.splitlines())}


def peft_rate(base, kind, names, rows, tokens, steps, rounds):
    """Decoding with PEFT, each row its adapter: milliseconds a prefill and a step."""
    import peft
    import torch
    import transformers
    torch.set_num_threads(2)
    dtype = torch.bfloat16 if kind == "bf16" else torch.float32
    model = peft.PeftModel.from_pretrained(transformers.LlamaForCausalLM.from_pretrained(base, dtype=dtype), HOME / names[0], adapter_name=names[0])
    for name in names[1:]:
        model.load_adapter(HOME / name, name)
    model.eval()
    ids = torch.tensor([[3 + (i * 7919 + k * 104729) % 31000 for k in range(tokens)] for i in range(rows)])
    options = dict(input_ids=ids, attention_mask=torch.ones_like(ids), do_sample=False, eos_token_id=None, pad_token_id=0, adapter_names=[names[i % len(names)] for i in range(rows)])
    prefill, decoded = [], []
    with torch.no_grad():
        for i in range(rounds + 1):
            start = time.perf_counter()
            model.generate(min_new_tokens=1, max_new_tokens=1, **options)
            middle = time.perf_counter()
            model.generate(min_new_tokens=1 + steps, max_new_tokens=1 + steps, **options)
            end = time.perf_counter()
            if i:
                prefill.append((middle - start) * 1e3), decoded.append(((end - middle) - (middle - start)) / steps * 1e3)
    return {"prefill_ms": statistics.median(prefill), "decode_ms": statistics.median(decoded)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--types", default="f32,bf16")
    parser.add_argument("--parts", default="rows,peft,bank")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    results = {}
    for kind in options.types.split(","):
        base = decode.make("llama12", kind)
        make(decode.make("llama12", "f32"))
        if "rows" in options.parts:
            five = ["lora0", "ia3", "oft", "vera", "lokr"]
            cases = {"bare": [], "base": ["__base__"], "one": ["lora0"], "distinct": [f"lora{i}" for i in range(64)], "five": five}
            results[f"{kind} 64 rows"] = ours(base, 64, 32, 16, options.rounds, cases)
        if "peft" in options.parts:
            for sort in ("qv", "all"):
                names = [f"{sort}{i}" for i in range(4)]
                got = ours(base, 8, 16, 32, options.rounds, {"bare": [], "four": names})
                got["PEFT"] = peft_rate(base, kind, names, 8, 16, 32, max(2, options.rounds // 2))
                results[f"{kind} 8 rows {sort}"] = got
    if "bank" in options.parts:
        base = decode.make("llama12", "f32")
        make(base)
        done = subprocess.run([decode.BUILD / "bench/bench_bank", base, HOME / "lora0", HOME / "rank2"], capture_output=True, text=True)
        bank = json.loads(done.stdout)
        print(bank)
    for title, rows in results.items():
        print(title)
        for name, row in rows.items():
            print(f"  {name:9} prefill {row['prefill_ms']:9.2f} ms   a step {row['decode_ms']:8.3f} ms" + (f"   graphs {row['graphs']}" if "graphs" in row else ""))
    if "bank" in options.parts:
        results["bank"] = bank
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


main()
