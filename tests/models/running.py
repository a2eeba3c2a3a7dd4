"""Runs models_tool and Transformers for the tests of this folder. TENON_MODELS_TOOL is the path of models_tool."""
import json
import os
import subprocess

import torch
from safetensors.torch import save_file

TOOL = os.environ.get("TENON_MODELS_TOOL", "models_tool")
PROMPTS = [[5, 9, 11], list(range(3, 40)), [7], [20, 21], list(range(60, 90, 2)), [50] * 12, list(range(90, 10, -3)), [3, 1, 4, 1, 5, 9]]


def tool(*arguments):
    out = subprocess.run([TOOL, *map(str, arguments)], capture_output=True, text=True)
    assert out.returncode == 0, out.stderr
    return out.stdout


def errors(ours, theirs, exact):
    """Returns the RMS error of each result against the f64 run, in the given order."""
    rms = lambda x: (x.double() - exact).pow(2).mean().sqrt().item()
    return rms(ours), rms(theirs)


def check_policy(ours, theirs, exact):
    """Numeric policy 2: the error against the f64 run is not much larger than that of eager. The mean error of a few numbers, such as the
    logits of a classifier, is chance; their largest error counts alone."""
    assert ours.shape == theirs.shape
    ulp = torch.finfo(theirs.dtype).eps * exact.abs().max().item()
    mine, eager = errors(ours, theirs, exact)
    assert exact.numel() < 64 or mine <= 1.25 * eager + ulp, (mine, eager)
    worst = (ours.double() - exact).abs().max().item()
    assert worst <= max(8 * (theirs.double() - exact).abs().max().item(), 4 * ulp)


def their_tokens(model, prompts, **options):
    """Runs generate of Transformers on left-padded prompts."""
    length = max(map(len, prompts))
    ids = torch.tensor([[0] * (length - len(p)) + p for p in prompts])
    mask = torch.tensor([[0] * (length - len(p)) + [1] * len(p) for p in prompts])
    stop = options.pop("stop", [])
    out = model.generate(input_ids=ids, attention_mask=mask, pad_token_id=0, eos_token_id=stop or None, **options)[:, length:].tolist()
    ended = []
    for row in out:
        ends = [i for i, token in enumerate(row) if token in stop]
        ended.append(row[:ends[0] + 1] if ends else row)
    return ended


def generate(directory, tmp_path, calls):
    (tmp_path / "in.json").write_text(json.dumps({"calls": calls}))
    tool("generate", directory, tmp_path / "in.json", tmp_path / "out.json")
    return json.loads((tmp_path / "out.json").read_text())


def refused(directory, tmp_path):
    save_file({"input": torch.zeros(1, 4, dtype=torch.int64)}, tmp_path / "in.safetensors")
    out = subprocess.run([TOOL, "logits", directory, tmp_path / "in.safetensors", tmp_path / "out.safetensors", "eager"], capture_output=True, text=True)
    assert out.returncode == 1
    return out.stderr
