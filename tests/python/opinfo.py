#!/usr/bin/env python3
"""opinfo.py [--part I/N] [--ops NAME,...] [--dtypes f32,...] [--no-gradients]: PyTorch's samples of its ops, imported as graphs.

Each sample is traced to an FX graph, forward and gradients, which Tenon compiles and runs; results are compared with eager. Counts graphs of
which at least one op has a native kernel. Prints failures, and counts with the reasons for all that was left out.
"""
import argparse
import collections
import os
import sys
import warnings

import torch
import torch.utils._pytree as pytree
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing._internal.common_methods_invocations import op_db

from torch_tenon import _C
from torch_tenon.fx_text import GraphText, Unsupported

DTYPES = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16, "i64": torch.int64, "bool": torch.bool}
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-7, torch.bfloat16: 2e-2, torch.float16: 2e-3}
# Results that are not defined (memory that is not set, another order of equal elements), and ops that draw random numbers while they are traced.
UNDEFINED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided", "nn.functional.fractional_max_pool2d",
             "nn.functional.fractional_max_pool3d"}


class Sample:
    """A call of an op with its tensors as arguments of their own."""

    def __init__(self, op, sample, gradients):
        self.op, self.gradients = op, gradients
        self.flat, self.spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        self.at = [i for i, v in enumerate(self.flat) if isinstance(v, torch.Tensor)]
        self.tensors = [self.flat[i] for i in self.at]

    def call(self, *tensors):
        flat = list(self.flat)
        for i, tensor in zip(self.at, tensors):
            flat[i] = tensor
        input, args, kwargs = pytree.tree_unflatten(flat, self.spec)
        out = [t for t in pytree.tree_leaves(self.op.op(input, *args, **kwargs)) if isinstance(t, torch.Tensor)]
        if not self.gradients:
            return out
        inner = [t for t in tensors if t.requires_grad]
        outer = [t for t in out if t.requires_grad]
        if not inner or not outer:
            raise Unsupported("no gradients")
        found = torch.autograd.grad(outer, inner, [torch.ones_like(t) for t in outer], allow_unused=True)
        return out + [g for g in found if g is not None]


def check(sample, counts):
    """Returns a text if the sample's graph gives another result than eager."""
    fresh = lambda: [t.detach().clone().requires_grad_(t.requires_grad) for t in sample.tensors]
    torch.manual_seed(0)
    try:
        expected = sample.call(*fresh())
    except Unsupported as why:
        counts[str(why)] += 1
        return
    except Exception as error:
        counts["eager raises"] += 1
        return
    try:
        graph = make_fx(torch.func.functionalize(sample.call) if not sample.gradients else sample.call, tracing_mode="fake")(*fresh())
        text = GraphText(graph, [])
    except Unsupported as why:
        counts[f"not expressed: {why}"] += 1
        return
    except Exception as error:
        counts[f"not traced: {type(error).__name__}"] += 1
        return
    if " ordered" in text.text:  # Functional random ops draw other numbers than those that write into their arguments.
        torch.manual_seed(0)
        expected = graph(*(t.detach() for t in fresh()))
    try:
        arguments = [-1 if a == "tensor" else -2 for a in text.arguments]
        built = _C.Graph(text.text, {"name": "sample"}, False, arguments, text.constants, [r if isinstance(r, int) else -1 for r in text.results])
        torch.manual_seed(0)
        found = built.run([t.detach() for t in fresh()])
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:600]}"
    if "kernels: " not in built.text():
        counts["no native kernel"] += 1
        return
    counts["compared"] += 1
    for i, (a, b) in enumerate(zip(found, expected)):
        if b.is_conj() or b.is_neg():
            b = b.resolve_conj().resolve_neg()
        tolerance = TOLERANCE.get(b.dtype, 1e-5)
        try:
            torch.testing.assert_close(a, b.detach(), rtol=tolerance, atol=tolerance, equal_nan=True)
        except AssertionError as error:
            return f"result {i}: {str(error)[:400]}\n{text.text[:1500]}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--ops", default="")
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--no-gradients", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    part, parts = map(int, options.part.split("/"))
    ops = [op for op in op_db if not options.ops or op.name in options.ops.split(",")][part::parts]
    counts, failures = collections.Counter(), 0
    for op in ops:
        for name in options.dtypes.split(","):
            dtype = DTYPES[name]
            for gradients in ([False] if options.no_gradients or not dtype.is_floating_point else [False, True]):
                if op.name in UNDEFINED or dtype not in op.supported_dtypes("cpu") or (gradients and dtype not in op.supported_backward_dtypes("cpu")):
                    continue
                try:
                    samples = list(op.sample_inputs("cpu", dtype, requires_grad=gradients))[:options.samples]
                except Exception as error:
                    counts[f"no samples: {type(error).__name__}"] += 1
                    continue
                for i, sample in enumerate(samples):
                    found = check(Sample(op, sample, gradients), counts)
                    if found:
                        failures += 1
                        print(f"FAILURE {op.name} {op.variant_test_name} {name}{' gradient' if gradients else ''} sample {i}: {found}", flush=True)
    print(f"{counts.pop('compared', 0)} samples compared, {failures} failures, of {len(ops)} ops")
    for why, count in counts.most_common():
        print(f"    {count} left out: {why}")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
