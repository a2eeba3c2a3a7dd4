#!/usr/bin/env python3
"""bench/decode.py [--model llama12|llama1b] [--types f32,bf16] [--parts decode,prefill,load,first] [--beside eager,compiled,llama.cpp,openvino]
                [--tokens N] [--rounds N] [--json PATH]

Measures greedy decoding with batch size 1 in tokens per second, prefill, loading and the first token. Transformers creates the models
from a fixed seed: a Llama of 12 layers, 768 wide, and one of 22 layers, 2048 wide, 1.1 billion weights, in shards. Each system runs in
a separate process with two threads; the systems alternate, and figures are medians. llama.cpp needs the packages llama-cpp-python and
gguf, OpenVINO needs openvino.
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
BUILD = ROOT / "build/dev"
MODELS = ROOT / "build/models"
PROMPT = 16
SIZES = {"llama12": dict(hidden_size=768, intermediate_size=2048, num_hidden_layers=12, num_attention_heads=12, num_key_value_heads=4),
         "llama1b": dict(hidden_size=2048, intermediate_size=5632, num_hidden_layers=22, num_attention_heads=32, num_key_value_heads=4)}


def make(name, kind):
    """Returns the directory of the model with weights of this dtype."""
    directory = MODELS / f"{name}-{kind}"
    if not (directory / "config.json").exists():
        import torch
        import transformers
        torch.manual_seed(0)
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=32000, max_position_embeddings=2048, **SIZES[name]))
        model.to(torch.bfloat16 if kind == "bf16" else torch.float32).save_pretrained(directory, max_shard_size="500MB")
    return directory


def run_transformers(name, kind, tokens, compiled):
    import torch
    import transformers
    torch.set_num_threads(2)
    model = transformers.LlamaForCausalLM.from_pretrained(make(name, kind), dtype=torch.bfloat16 if kind == "bf16" else torch.float32).eval()
    ids = torch.full((1, PROMPT), 5)
    options = dict(do_sample=False, eos_token_id=None, pad_token_id=0)
    if compiled:
        model.forward = torch.compile(model.forward, dynamic=False)
        options["cache_implementation"] = "static"
    run = lambda n: model.generate(ids, min_new_tokens=n, max_new_tokens=n, **options)
    run(tokens + 1)  # With a static cache the length is compiled into the model.
    run(tokens + 1)
    rates = []
    for _ in range(3):
        start = time.perf_counter()
        run(1) if not compiled else None
        middle = time.perf_counter()
        run(tokens + 1)
        end = time.perf_counter()
        rates.append(tokens / (end - middle - (middle - start)))
    return statistics.median(rates)


def make_gguf(name, kind):
    """Writes the same weights in llama.cpp's format. Its RoPE rotates adjacent pairs, so rows of q and k are permuted."""
    path = MODELS / f"{name}-{kind}.gguf"
    if path.exists():
        return path
    import gguf
    import torch
    import transformers
    model = transformers.LlamaForCausalLM.from_pretrained(make(name, kind), dtype=torch.float32)
    config = model.config
    heads, kv_heads, size = config.num_attention_heads, config.num_key_value_heads, config.hidden_size // config.num_attention_heads
    out = gguf.GGUFWriter(path, "llama")
    out.add_context_length(config.max_position_embeddings)
    out.add_embedding_length(config.hidden_size)
    out.add_block_count(config.num_hidden_layers)
    out.add_feed_forward_length(config.intermediate_size)
    out.add_head_count(heads)
    out.add_head_count_kv(kv_heads)
    out.add_layer_norm_rms_eps(config.rms_norm_eps)
    out.add_rope_dimension_count(size)
    out.add_rope_freq_base(config.rope_parameters["rope_theta"])
    out.add_vocab_size(config.vocab_size)
    out.add_tokenizer_model("no_vocab")
    bf16 = gguf.GGMLQuantizationType.BF16

    def add(to, weight):
        weight = weight.detach().numpy()
        if weight.ndim > 1 and kind == "bf16":
            out.add_tensor(to, gguf.quants.quantize(weight, bf16), raw_dtype=bf16)
        else:
            out.add_tensor(to, weight)

    neighbours = lambda w, count: w.reshape(count, 2, size // 2, -1).transpose(1, 2).reshape(w.shape).contiguous()
    add("token_embd.weight", model.model.embed_tokens.weight)
    for i, layer in enumerate(model.model.layers):
        add(f"blk.{i}.attn_norm.weight", layer.input_layernorm.weight)
        add(f"blk.{i}.attn_q.weight", neighbours(layer.self_attn.q_proj.weight, heads))
        add(f"blk.{i}.attn_k.weight", neighbours(layer.self_attn.k_proj.weight, kv_heads))
        add(f"blk.{i}.attn_v.weight", layer.self_attn.v_proj.weight)
        add(f"blk.{i}.attn_output.weight", layer.self_attn.o_proj.weight)
        add(f"blk.{i}.ffn_norm.weight", layer.post_attention_layernorm.weight)
        for part in ("gate", "up", "down"):
            add(f"blk.{i}.ffn_{part}.weight", getattr(layer.mlp, f"{part}_proj").weight)
    add("output_norm.weight", model.model.norm.weight)
    add("output.weight", model.lm_head.weight)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    return path


def run_llama_cpp(name, kind, tokens):
    import ctypes
    import numpy
    import llama_cpp as lib
    path = make_gguf(name, kind)
    silent = lib.llama_log_callback(lambda level, text, user: None)  # The callback must outlive the library's calls.
    lib.llama_log_set(silent, ctypes.c_void_p(0))
    lib.llama_backend_init()
    model = lib.llama_model_load_from_file(str(path).encode(), lib.llama_model_default_params())
    parameters = lib.llama_context_default_params()
    parameters.n_ctx, parameters.n_threads, parameters.n_threads_batch = 512, 2, 2
    context = lib.llama_init_from_model(model, parameters)
    vocabulary = 32000

    def step(ids):
        array = (lib.llama_token * len(ids))(*ids)
        if lib.llama_decode(context, lib.llama_batch_get_one(array, len(ids))):
            sys.exit("llama_decode failed")
        return int(numpy.argmax(numpy.ctypeslib.as_array(lib.llama_get_logits_ith(context, -1), shape=(vocabulary,))))

    rates, text = [], []
    for _ in range(4):
        lib.llama_memory_clear(lib.llama_get_memory(context), True)
        token, text = step([5] * PROMPT), []
        start = time.perf_counter()
        for _ in range(tokens):
            text.append(token)
            token = step([token])
        rates.append(tokens / (time.perf_counter() - start))
    print("tokens:", *text[:12], file=sys.stderr)
    return statistics.median(rates[1:])


def run_openvino(name, kind, tokens):
    """Runs a decoding step written for OpenVINO: keys and values are states of the model that each step appends to."""
    import numpy
    import openvino
    import torch
    import transformers
    from openvino.passes import Manager, MakeStateful
    model = transformers.LlamaForCausalLM.from_pretrained(make(name, kind), dtype=torch.float32).eval()
    config = model.config
    heads, kv_heads, size = config.num_attention_heads, config.num_key_value_heads, config.hidden_size // config.num_attention_heads
    frequencies = config.rope_parameters["rope_theta"] ** (-torch.arange(0, size, 2) / size)

    class Step(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, ids, positions, *past):
            angles = positions[:, None].float() * frequencies
            angles = torch.cat([angles, angles], -1)
            rotate = lambda t: t * angles.cos() + torch.cat([-t[..., size // 2:], t[..., :size // 2]], -1) * angles.sin()
            x, present = self.model.model.embed_tokens(ids), []
            split = lambda t, count: t.view(1, -1, count, size).transpose(1, 2)
            for i, layer in enumerate(self.model.model.layers):
                h, a = layer.input_layernorm(x), layer.self_attn
                keys = torch.cat([past[2 * i], rotate(split(a.k_proj(h), kv_heads))], 2)
                values = torch.cat([past[2 * i + 1], split(a.v_proj(h), kv_heads)], 2)
                present += [keys, values]
                all_heads = lambda t: t[:, :, None].expand(1, kv_heads, heads // kv_heads, t.shape[2], size).reshape(1, heads, t.shape[2], size)
                out = torch.nn.functional.scaled_dot_product_attention(rotate(split(a.q_proj(h), heads)), all_heads(keys), all_heads(values))
                x = x + a.o_proj(out.transpose(1, 2).reshape(1, -1, config.hidden_size))
                x = x + layer.mlp(layer.post_attention_layernorm(x))
            return self.model.lm_head(self.model.model.norm(x[:, -1:])), *present

    past = [torch.zeros(1, kv_heads, 3, size) for _ in range(2 * config.num_hidden_layers)]
    shapes = [[1, -1], [-1]] + [[1, kv_heads, -1, size]] * len(past)
    with torch.no_grad():
        converted = openvino.convert_model(Step().eval(), example_input=(torch.full((1, 2), 5), torch.arange(2), *past), input=shapes)
    pairs = {}
    for i in range(len(past)):
        converted.inputs[2 + i].get_tensor().set_names({f"past{i}"})
        converted.outputs[1 + i].get_tensor().set_names({f"present{i}"})
        pairs[f"past{i}"] = f"present{i}"
    manager = Manager()
    manager.register_pass(MakeStateful(pairs))
    manager.run_passes(converted)
    step = openvino.Core().compile_model(converted, "CPU", {"INFERENCE_NUM_THREADS": 2, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": kind}).create_infer_request()
    rates, text = [], []
    for _ in range(4):
        step.reset_state()
        for state in step.query_state():
            state.state = openvino.Tensor(numpy.zeros((1, kv_heads, 0, size), numpy.float32))
        call = lambda ids, first: int(step.infer([numpy.array([ids]), numpy.arange(first, first + len(ids))])[0][0, -1].argmax())
        token, text = 5, []
        for i in range(PROMPT):
            token = call([5], i)
        start = time.perf_counter()
        for i in range(tokens):
            text.append(token)
            token = call([token], PROMPT + i)
        rates.append(tokens / (time.perf_counter() - start))
    print("tokens:", *text[:12], file=sys.stderr)
    return statistics.median(rates[1:])


def theirs(system, name, kind, tokens):
    """Measures another system; runs in a separate process."""
    systems = {"llama.cpp": run_llama_cpp, "openvino": run_openvino}
    rate = systems[system](name, kind, tokens) if system in systems else run_transformers(name, kind, tokens, system == "compiled")
    print(json.dumps({"tokens_per_second": rate}))


def run(command):
    out = subprocess.run(list(map(str, command)), capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "2"})
    if out.returncode:
        sys.exit(out.stderr[-3000:])
    return json.loads(out.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="llama12", choices=SIZES)
    parser.add_argument("--types", default="f32,bf16")
    parser.add_argument("--parts", default="decode")
    parser.add_argument("--beside", default="eager")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json")
    parser.add_argument("--theirs", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.theirs:
        return theirs(given.theirs, given.model, given.types, given.tokens)
    figures = {}
    for kind in given.types.split(","):
        directory = make(given.model, kind)
        for part in given.parts.split(","):
            ours = [BUILD / "bench/bench_decode", directory, kind, part]
            if part != "decode":
                rows = [run(ours) for _ in range(given.rounds)]
                figures[f"{part} {kind}"] = {key: statistics.median(row[key] for row in rows) for key in rows[0]}
                print(f"{given.model} {kind} {part}: " + ", ".join(f"{key} {value:g}" for key, value in figures[f"{part} {kind}"].items()), flush=True)
                continue
            beside = [system for system in given.beside.split(",") if system]
            results = {system: [] for system in ["tenon", *beside]}
            for round in range(given.rounds):
                for system in results:
                    if system == "compiled" and round:
                        continue  # Each run compiles for half a minute.
                    command = [*ours, given.tokens, PROMPT] if system == "tenon" else [
                        sys.executable, __file__, "--model", given.model, "--types", kind, "--tokens", given.tokens, "--theirs", system]
                    results[system].append(run(command))
            row = {system: statistics.median(f["tokens_per_second"] for f in rows) for system, rows in results.items()}
            row["of_bandwidth"] = statistics.median(f["of_bandwidth"] for f in results["tenon"])
            figures[f"decode {kind}"] = row
            print(f"{given.model} {kind} decode: " + ", ".join(f"{system} {row[system]:.1f}" for system in results)
                  + f" tokens/s; {row['of_bandwidth']:.2f} of the memory bandwidth limit; "
                  + ", ".join(f"{row['tenon'] / row[system]:.2f} x {system}" for system in beside), flush=True)
    if given.json:
        pathlib.Path(given.json).write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
