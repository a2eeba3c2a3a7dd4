#!/usr/bin/env python3
"""opinfo.py [--part I/N] [--ops NAME,...] [--dtypes f32,...] [--no-gradients]: PyTorch's samples of its ops, imported as graphs.

AOTAutograd makes graphs of each sample, forward and backward, which Tenon compiles and runs; their results are compared with those of the same
graphs run op by op. Counts graphs of which at least one op has a native kernel. Prints failures, and counts with the reasons for what was left out.
"""
import argparse
import collections
import os
import sys
import traceback
import warnings

import torch
import torch.utils._pytree as pytree
from functorch.compile import aot_function, make_boxed_func, min_cut_rematerialization_partition
from torch.testing._internal.common_methods_invocations import op_db

from torch_tenon import _C
from torch_tenon.fx_text import GraphText, Unsupported

DTYPES = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16, "i64": torch.int64, "bool": torch.bool}
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-7, torch.bfloat16: 2e-2, torch.float16: 2e-3}
# Their results are memory that is not set, or depend on random numbers that are drawn while they are traced.
UNDEFINED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided", "nn.functional.fractional_max_pool2d",
             "nn.functional.fractional_max_pool3d"}


class Difference(Exception):
    pass


class Checker:
    """A compiler for AOTAutograd: each graph runs both as its own FX ops and compiled, and the results are compared."""

    def __init__(self, counts):
        self.counts = counts

    def __call__(self, module, inputs):
        try:
            text = GraphText(module, [])
        except Unsupported as why:
            self.counts[f"not expressed: {why}"] += 1
            return make_boxed_func(module.forward)
        arguments = [-1 if a == "tensor" else -2 for a in text.arguments]
        graph = _C.Graph(text.text, {"name": "sample"}, False, arguments, text.constants, [r if isinstance(r, int) else -1 for r in text.results])

        def run(*given):
            own = [copy_of(t) for t in given]
            state = torch.get_rng_state()
            expected = module.forward(*given)
            torch.set_rng_state(state)
            found = graph.run(own)
            if "kernels: " in graph.text():
                self.counts["compared"] += 1
            else:
                self.counts["no native kernel"] += 1
            for i, (a, b) in enumerate(zip(found, expected)):
                if isinstance(b, torch.Tensor) and text.results[i] is not None:  # Otherwise a token.
                    compare(i, a, b, text.text)
            return expected

        return make_boxed_func(run)


def copy_of(t):
    return torch.empty_strided(t.shape, t.stride(), dtype=t.dtype).copy_(t) if isinstance(t, torch.Tensor) else t


def compare(i, found, expected, text):
    tolerance = TOLERANCE.get(expected.dtype, 1e-5)
    try:
        torch.testing.assert_close(found, expected.resolve_conj().resolve_neg(), rtol=tolerance, atol=tolerance, equal_nan=True)
        if expected.numel() and found.stride() != expected.stride() and found.is_contiguous() != expected.is_contiguous():
            raise AssertionError(f"strides {found.stride()} instead of {expected.stride()}")
    except AssertionError as error:
        raise Difference(f"result {i}: {str(error)[:400]}\n{text[:1500]}") from None


def check(op, sample, gradients, counts):
    """Returns a text if a graph of the sample, forward or backward, gives another result than its ops in eager."""
    flat, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    at = [i for i, v in enumerate(flat) if isinstance(v, torch.Tensor)]

    def call(*tensors):
        values = list(flat)
        for i, tensor in zip(at, tensors):
            values[i] = tensor
        input, args, kwargs = pytree.tree_unflatten(values, spec)
        return [t for t in pytree.tree_leaves(op.op(input, *args, **kwargs)) if isinstance(t, torch.Tensor)]

    fresh = lambda: [flat[i].detach().clone().requires_grad_(flat[i].requires_grad) for i in at]
    torch.manual_seed(0)
    try:
        expected = call(*fresh())
    except Exception:
        counts["eager raises"] += 1
        return None
    if not expected or (gradients and not any(t.requires_grad for t in expected)):
        counts["no gradients" if expected else "no tensor"] += 1
        return None
    checker = Checker(counts)
    try:
        out = aot_function(call, fw_compiler=checker, bw_compiler=checker, inference_compiler=checker, partition_fn=min_cut_rematerialization_partition)(*fresh())
        if gradients:
            outer = [t for t in out if t.requires_grad]
            torch.autograd.backward(outer, [torch.ones_like(t) for t in outer])
    except Difference as difference:
        return str(difference)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)
        if any("_C.Graph" in (frame.line or "") or "graph.run" in (frame.line or "") for frame in where):
            return f"{type(error).__name__}: {str(error)[:600]}"
        counts[f"not traced by AOTAutograd: {type(error).__name__}"] += 1
    return None


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
                    found = check(op, sample, gradients, counts)
                    if found:
                        failures += 1
                        print(f"FAILURE {op.name} {op.variant_test_name} {name}{' gradient' if gradients else ''} sample {i}: {found}", flush=True)
    print(f"{counts.pop('compared', 0)} graphs compared, {failures} failures, of {len(ops)} ops")
    for why, count in counts.most_common():
        print(f"    {count} left out: {why}")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
