#!/usr/bin/env python3
"""Runs the programs of bench/kernels.cpp with Inductor on one thread and prints the CPU time of each as a JSON line.

With `compile`: measures Inductor's cold compile of a 12-layer Llama and BERT, wall time on all cores.
"""
import json
import os
import sys
import tempfile
import time

import torch


def rotated(x):
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)


def bias_gelu_residual(x, bias, residual):
    return torch.nn.functional.gelu(x + bias, approximate="tanh") + residual


def residual_layer_norm(a, b, weight, bias):
    total = a + b
    return (total, *torch.native_layer_norm(total, [768], weight, bias, 1e-5))


def scale_mask_softmax(x, mask):
    return torch.softmax(x * 0.125 + mask, -1)


def rms_norm(x, weight):
    return x * torch.rsqrt(x.pow(2).mean(-1, True) + 1e-6) * weight


def rope(x, cos, sin):
    return x * cos + rotated(x) * sin


def swiglu(a, b):
    return torch.nn.functional.silu(a) * b


def log_softmax_nll(x, target):
    return torch.nn.functional.nll_loss(torch.log_softmax(x, -1), target)


def adamw(p, g, m, v):
    m = m * 0.9 + g * 0.1
    v = v * 0.999 + g * g * 0.001
    return p * (1 - 1e-5) - 1e-3 * (m / 0.5) / ((v / 0.25).sqrt() + 1e-8), m, v


randn = torch.randn
KERNELS = [
    (bias_gelu_residual, lambda: (randn(512, 3072), randn(3072), randn(512, 3072))),
    (residual_layer_norm, lambda: (randn(512, 768), randn(512, 768), randn(768), randn(768))),
    (scale_mask_softmax, lambda: (randn(6144, 512), torch.where(torch.rand(512) < 0.1, -torch.inf, 0.0))),
    (rms_norm, lambda: (randn(2048, 768), randn(768))),
    (rope, lambda: (randn(4, 12, 512, 64), randn(512, 64), randn(512, 64))),
    (swiglu, lambda: (randn(512, 3072), randn(512, 3072))),
    (log_softmax_nll, lambda: (randn(512, 8192), torch.randint(8192, (512,)))),
    (adamw, lambda: (randn(1 << 20), randn(1 << 20), randn(1 << 20), torch.rand(1 << 20))),
]


@torch.no_grad()
def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    for function, inputs in KERNELS:
        args = inputs()
        compiled = torch.compile(function)
        for _ in range(5):
            compiled(*args)
        times = []
        for _ in range(30):
            start = time.thread_time()
            for _ in range(5):
                compiled(*args)
            times.append((time.thread_time() - start) / 5)
        print(json.dumps({"name": function.__name__, "inductor_us": sorted(times)[15] * 1e6}), flush=True)


@torch.no_grad()
def compile_models():
    import transformers
    torch.manual_seed(0)
    models = {
        "llama 12": transformers.LlamaForCausalLM(transformers.LlamaConfig(
            hidden_size=768, num_hidden_layers=12, num_attention_heads=12, num_key_value_heads=4, intermediate_size=2048, vocab_size=32000)),
        "bert 12": transformers.BertModel(transformers.BertConfig()),
    }
    for name, model in models.items():
        with tempfile.TemporaryDirectory() as cache:
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
            inputs = {"input_ids": torch.randint(3, 30000, (1, 128)), **({"use_cache": False} if name.startswith("llama") else {})}
            model.eval()
            model(**inputs)
            start = time.perf_counter()
            model(**inputs)
            eager = time.perf_counter() - start
            compiled = torch.compile(model)
            start = time.perf_counter()
            compiled(**inputs)
            print(json.dumps({"name": f"compile {name}", "inductor_s": time.perf_counter() - start - eager}), flush=True)


compile_models() if "compile" in sys.argv else main()
