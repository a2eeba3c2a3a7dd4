#!/usr/bin/env python3
"""Runs one model with one other system: others.py SYSTEM MODEL f32|bf16 BATCH THREADS [FILE]

inductor, frozen, openvino, onnxruntime: prints "SYSTEM", then for each input line "SYSTEM CALLS" the seconds per call, like
bench_infer. script and package write FILE for bench_infer instead: TorchScript, or AOTInductor's package.
"""
import os
import sys
import tempfile
import time

system, name, dtype, batch, threads = sys.argv[1:6]
os.environ["OMP_NUM_THREADS"] = threads
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.join(tempfile.gettempdir(), "tenon_bench_inductor"))
import torch  # noqa: E402

from models import make  # noqa: E402

torch.set_num_threads(int(threads))
torch.set_grad_enabled(False)
model, inputs = make(name, torch.float32 if dtype == "f32" else torch.bfloat16, int(batch))


def with_openvino():
    import openvino
    core = openvino.Core()
    narrow = dtype == "bf16"
    # OpenVINO's usual bf16 setup: the model is f32 and computed in bf16.
    whole, given = make(name, torch.float32, int(batch)) if narrow else (model, inputs)
    converted = openvino.convert_model(whole, example_input=given if len(given) > 1 else given[0], input=[t.shape for t in given])
    compiled = core.compile_model(converted, "CPU", {"INFERENCE_NUM_THREADS": int(threads), "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY",
                                                     "INFERENCE_PRECISION_HINT": dtype})
    request = compiled.create_infer_request()
    for i, tensor in enumerate(given):
        request.set_input_tensor(i, openvino.Tensor(tensor.numpy(), shared_memory=True))
    return request.infer


def with_onnxruntime():
    import onnxruntime
    path = os.path.join(tempfile.mkdtemp(), "model.onnx")
    torch.onnx.export(model, inputs, path, dynamo=True, external_data=True, verbose=False)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(threads)
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for given, tensor in zip(session.get_inputs(), inputs):
        binding.bind_ortvalue_input(given.name, onnxruntime.OrtValue.ortvalue_from_numpy(tensor.numpy()))
    for out in session.get_outputs():
        binding.bind_output(out.name)
    return lambda: session.run_with_iobinding(binding)


def with_inductor(frozen):
    import torch._inductor.config
    torch._inductor.config.freezing = frozen
    compiled = torch.compile(model)
    return lambda: compiled(*inputs)


if system == "script":
    torch.jit.trace(model, inputs, check_trace=False).save(sys.argv[6])
elif system == "package":
    torch._inductor.aoti_compile_and_package(torch.export.export(model, inputs), package_path=sys.argv[6])
else:
    out = sys.stdout
    sys.stdout = sys.stderr  # Keeps messages of the systems out of the output that bench/speed parses.
    call = {"openvino": with_openvino, "onnxruntime": with_onnxruntime, "inductor": lambda: with_inductor(False),
            "frozen": lambda: with_inductor(True)}[system]()
    for _ in range(3):
        call()
    print(system, file=out, flush=True)
    for line in sys.stdin:
        calls = int(line.split()[1])
        start = time.perf_counter()
        for _ in range(calls):
            call()
        print(f"{(time.perf_counter() - start) / calls:.9f}", file=out, flush=True)
