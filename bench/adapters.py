#!/usr/bin/env python3
"""bench/adapters.py [--types f32,bf16] [--parts rows,peft,bank,train] [--rounds N] [--json PATH]

Measures a Llama of 12 layers, 768 wide, with adapters on all its linear layers: one LoRA of rank 16 for all 64 samples, a different
one for each sample, and five methods mixed; prompts of 32 tokens, then decoding. Compares 8 samples with four LoRAs with PEFT, and with
vLLM if TENON_VLLM_PYTHON is a Python that has it. Measures the cost of switching, of loading and of a thousand loaded adapters, and
training of one adapter and of eight in a batch compared with hand-written LoRA. Uses two threads; all measurements alternate.
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
    """Creates adapters with PEFT, with random weights."""
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


def make_for_tree():
    """Creates LoRA adapters for the Llama of bench/models/llama.h, whose module paths differ from Transformers."""
    import peft
    import safetensors.torch
    import torch
    for i in range(8):
        where, tensors = HOME / f"tree{i}", {}
        if (where / "adapter_model.safetensors").exists():
            continue
        torch.manual_seed(i)
        for layer in range(12):
            for name, outputs in (("q", 768), ("v", 256)):
                path = f"base_model.model.blocks.{layer}.{name}.lora_"
                tensors |= {path + "A.weight": 0.02 * torch.randn(8, 768), path + "B.weight": 0.01 * torch.randn(outputs, 8)}
        peft.LoraConfig(r=8, lora_alpha=16, target_modules=["q", "v"]).save_pretrained(where)
        safetensors.torch.save_file(tensors, where / "adapter_model.safetensors", metadata={"format": "pt"})


def lines_of(name, *arguments):
    """Runs one of our benchmark programs and returns its JSON lines."""
    done = subprocess.run([str(decode.BUILD / "bench" / name), *map(str, arguments)], capture_output=True, text=True, env={**decode.os.environ, "OMP_NUM_THREADS": "2"})
    if done.returncode:
        sys.exit(f"bench/adapters.py: {done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def ours(base, rows, tokens, steps, rounds, cases):
    requests = [f"{name}={','.join(names)}" if names else name for name, names in cases.items()]
    return {row.pop("case"): row for row in lines_of("bench_adapters", base, HOME, rows, tokens, steps, rounds, *requests)}


def peft_model(base, kind, names, rows, tokens):
    """Returns PEFT's model with these adapters, the prompts, and the adapter of each sample."""
    import peft
    import torch
    import transformers
    torch.set_num_threads(2)
    dtype = torch.bfloat16 if kind == "bf16" else torch.float32
    model = peft.PeftModel.from_pretrained(transformers.LlamaForCausalLM.from_pretrained(base, dtype=dtype), HOME / names[0], adapter_name=names[0])
    for name in names[1:]:
        model.load_adapter(HOME / name, name)
    ids = torch.tensor([[3 + (i * 7919 + k * 104729) % 31000 for k in range(tokens)] for i in range(rows)])
    return model.eval(), ids, [names[i % len(names)] for i in range(rows)]


def peft_rate(base, kind, names, rows, tokens, steps, rounds):
    """Decodes with PEFT, one adapter per sample. Returns milliseconds per prefill and per step."""
    import torch
    model, ids, adapters = peft_model(base, kind, names, rows, tokens)
    options = dict(input_ids=ids, attention_mask=torch.ones_like(ids), do_sample=False, eos_token_id=None, pad_token_id=0, adapter_names=adapters)
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


def peft_compiled(base, names, rows, tokens, rounds):
    """Returns milliseconds per prefill of a mixed batch with PEFT under torch.compile."""
    import torch
    model, ids, adapters = peft_model(base, "f32", names, rows, tokens)
    run = torch.compile(lambda x: model(input_ids=x, use_cache=False, logits_to_keep=1, adapter_names=adapters).logits)
    times = []
    with torch.no_grad():
        for i in range(rounds + 2):
            start = time.perf_counter()
            run(ids)
            times.append((time.perf_counter() - start) * 1e3)
    return {"prefill_ms": statistics.median(times[2:]), "decode_ms": float("nan")}


def vllm_rate(base, kind, names, rows, tokens, steps, rounds):
    """Decodes with vLLM in a separate Python (TENON_VLLM_PYTHON). Returns milliseconds per prefill and per step."""
    program = f"""
import json, statistics, time
from vllm import LLM, SamplingParams
from vllm.lora.request import LoRARequest
names = {names!r}
llm = LLM({str(base)!r}, dtype={"bfloat16" if kind == "bf16" else "float32"!r}, skip_tokenizer_init=True, enable_lora=True, max_loras={len(names)}, max_lora_rank=16, max_model_len=256, max_num_seqs={rows})
prompts = [dict(prompt_token_ids=[3 + (i * 7919 + k * 104729) % 31000 for k in range({tokens})]) for i in range({rows})]
requests = [LoRARequest(names[i % len(names)], 1 + i % len(names), {str(HOME)!r} + "/" + names[i % len(names)]) for i in range({rows})]
def seconds(count):
    start = time.perf_counter()
    llm.generate(prompts, SamplingParams(temperature=0, max_tokens=count, min_tokens=count, ignore_eos=True, detokenize=False), lora_request=requests, use_tqdm=False)
    return time.perf_counter() - start
prefill, decoded = [], []
for i in range({rounds} + 1):
    first, all = seconds(1), seconds(1 + {steps})
    if i:
        prefill.append(first * 1e3), decoded.append((all - first) / {steps} * 1e3)
print("FIGURES " + json.dumps(dict(prefill_ms=statistics.median(prefill), decode_ms=statistics.median(decoded))))
"""
    done = subprocess.run([decode.os.environ["TENON_VLLM_PYTHON"], "-c", program], capture_output=True, text=True,
                          env={**decode.os.environ, "OMP_NUM_THREADS": "2", "VLLM_CPU_KVCACHE_SPACE": "2", "VLLM_CPU_OMP_THREADS_BIND": "0-1", "HF_HUB_OFFLINE": "1"})
    found = [line for line in done.stdout.splitlines() if line.startswith("FIGURES ")]
    if not found:
        sys.exit(f"bench/adapters.py: vLLM: {done.stderr[-2000:]}")
    return json.loads(found[0][len("FIGURES "):])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--types", default="f32,bf16")
    parser.add_argument("--parts", default="rows,peft,bank,train")
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
            rows = results[f"{kind} 64 rows"] = ours(base, 64, 32, 16, options.rounds, cases)
            # Additional time per step of 63 more adapters, divided by the time to read their bytes.
            bytes = 63 * (HOME / "lora0/adapter_model.safetensors").stat().st_size
            read = bytes / (lines_of("bench_decode", base, kind, "decode")[0]["gb_per_second"] * 1e6)
            rows["distinct"]["over_reading"] = (rows["distinct"]["decode_ms"] - rows["one"]["decode_ms"]) / read
        if "peft" in options.parts:
            for sort in ("qv", "all"):
                names = [f"{sort}{i}" for i in range(4)]
                got = ours(base, 8, 16, 32, options.rounds, {"bare": [], "four": names})
                got["PEFT"] = peft_rate(base, kind, names, 8, 16, 32, max(2, options.rounds // 2))
                if "TENON_VLLM_PYTHON" in decode.os.environ:
                    got["vLLM"] = vllm_rate(base, kind, names, 8, 16, 32, max(2, options.rounds // 2))
                results[f"{kind} 8 rows {sort}"] = got
            if kind == "f32":
                got = ours(base, 8, 128, 0, options.rounds, {"bare": [], "four": names})
                got["compiled"] = peft_compiled(base, names, 8, 128, options.rounds)
                results["f32 8 x 128"] = got
    base = decode.make("llama12", "f32")
    make(base)
    if "bank" in options.parts:
        results["bank"] = lines_of("bench_bank", base, HOME / "lora0", HOME / "rank2")[0]
    if "train" in options.parts:
        make_for_tree()
        results["train"] = lines_of("bench_train", HOME, 8, 64, options.rounds)[0]
    for title, rows in results.items():
        print(title)
        for name, row in rows.items():
            if not isinstance(row, dict):
                print(f"  {name:16} {row}")
                continue
            print(f"  {name:9} prefill {row['prefill_ms']:9.2f} ms   step {row['decode_ms']:8.3f} ms" + "".join(f"   {key} {row[key]:.3g}" for key in ("graphs", "over_reading") if key in row))
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


main()
