"""Compares our models with Transformers. With TENON_MODEL_CASES=all, classifiers run in all forms, and each prompt of each family also alone."""
import json
import os
import pathlib
import random
import subprocess

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import cases
from running import PROMPTS, TOOL, check_policy, generate, refused, their_tokens, tool

ALL_CASES = os.environ.get("TENON_MODEL_CASES") == "all"


def forms(*both):
    """Pairs of names and forms. Without TENON_MODEL_CASES=all a classifier has the last form only: the decoders cover what they share."""
    return [(name, form) for name in sorted(cases.ALL) for form in both if ALL_CASES or name not in cases.CLASSIFIERS or form == both[-1]]


@pytest.mark.parametrize("name, backend", forms("eager", "native"))
def test_logits(saved, tmp_path, name, backend):
    """Two calls of one model: a batch with a mask, and one of other sizes without."""
    directory, model = saved(name)
    calls = {"": cases.inputs(name), "_2": {"input": cases.inputs(name, 2, 9)["input"]}}
    save_file({key + suffix: tensor for suffix, given in calls.items() for key, tensor in given.items()}, tmp_path / "in.safetensors")
    out = tool("logits", directory, tmp_path / "in.safetensors", tmp_path / "out.safetensors", backend)
    if backend == "native":
        counts = json.loads(out)
        assert counts["breaks"] == 0 and counts["plain"] == 0 and counts["answered"] >= 2, counts
    for suffix, given in calls.items():
        theirs = cases.reference(model, given)
        exact = cases.reference(model.double(), {k: v.double() if v.is_floating_point() else v for k, v in given.items()})
        model.float()
        ours = load_file(tmp_path / "out.safetensors")["logits" + suffix]
        rows = given["mask"].bool() if ours.dim() == 3 and "mask" in given else slice(None)
        check_policy(ours[rows], theirs[rows], exact[rows])


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma", "gemma2", "gemma3", "qwen3", "opt_350m", "bert_masked", "vit", "resnet"])
def test_halves(saved, tmp_path, name, dtype):
    directory, model = saved(name)
    given = {k: v for k, v in cases.inputs(name, 2, 12).items() if k == "input"}
    save_file(given, tmp_path / "in.safetensors")
    half = {"bf16": torch.bfloat16, "f16": torch.float16}[dtype]
    tool("logits", directory, tmp_path / "in.safetensors", tmp_path / "out.safetensors", "native", dtype)
    ours = load_file(tmp_path / "out.safetensors")["logits"]
    rounded = type(model).from_pretrained(directory, dtype=half).eval()  # .to(half) would round the frequencies of rotary embeddings too.
    cast = {k: v.to(half) if v.is_floating_point() else v for k, v in given.items()}
    theirs = cases.reference(rounded, cast)
    exact = cases.reference(rounded.double(), {k: v.double() if v.is_floating_point() else v for k, v in cast.items()})
    check_policy(ours.to(half), theirs, exact)


@pytest.mark.parametrize("name", sorted(cases.CAUSAL))
def test_greedy(saved, tmp_path, name):
    directory, model = saved(name)
    apart = PROMPTS if ALL_CASES or name in ("llama", "gpt2", "mistral") else PROMPTS[1:3]  # The longest and the shortest.
    alone = [{"prompts": [p], "max_new_tokens": 128, "stop": []} for p in apart]
    together = {"prompts": PROMPTS, "max_new_tokens": 128, "stop": []}
    results = generate(directory, tmp_path, [together, *alone])
    theirs = their_tokens(model, PROMPTS, max_new_tokens=128, do_sample=False)
    assert results[0]["rows"] == theirs
    assert results[0]["heard"] == theirs
    assert all(results[-1][part][count] == 0 for part in ("prefill", "decode") for count in ("breaks", "plain")), results[-1]
    for prompt, result in zip(apart, results[1:], strict=True):
        assert result["rows"] == their_tokens(model, [prompt], max_new_tokens=128, do_sample=False), prompt


@pytest.mark.parametrize("name", ["llama", "gpt2", "mistral"])
def test_nothing_is_compiled_again(saved, tmp_path, name):
    directory, _ = saved(name)
    lengths = [16, 32, 64, 128, 256]
    warm = [{"prompts": [[5] * n] * rows, "max_new_tokens": 3, "stop": []} for rows in (1, 8) for n in (1, *lengths, *lengths)]
    later = [{"prompts": [list(range(3, 3 + n))], "max_new_tokens": m, "stop": []} for n, m in ((1, 3), (2, 90), (13, 7), (50, 200), (90, 20))]
    later += [{"prompts": PROMPTS, "max_new_tokens": 150, "stop": []}, {"prompts": PROMPTS[::-1], "max_new_tokens": 9, "stop": []}]
    later += [{"prompts": [[7] * 390], "max_new_tokens": 100, "stop": []}, {"prompts": [[7] * n for n in range(1, 300, 40)], "max_new_tokens": 100, "stop": []}]
    results = generate(directory, tmp_path, warm + later)
    before, after = results[len(warm) - 1], results[-1]
    calls = after["decode"]["calls"] - before["decode"]["calls"]
    assert after["decode"]["answered"] - before["decode"]["answered"] == calls > 500
    for part in ("prefill", "decode"):
        assert after[part]["breaks"] == 0
        assert after[part]["plain"] == 0
        assert after[part]["recorded"] == before[part]["recorded"], (part, before[part], after[part])
        assert after[part]["graphs"] == before[part]["graphs"], (part, before[part], after[part])


@pytest.mark.parametrize("trains", ["infer", "train"])
@pytest.mark.parametrize("name", ["llama", "bert_masked", "vit"])
def test_sizes(saved, name, trains):
    """200 random batch sizes and lengths, 1 included; images have one size."""
    directory, _ = saved(name)
    counts = json.loads(tool("sizes", directory, 200, trains))
    assert counts["recorded"] <= 5 and counts["plain"] == 0, counts
    assert counts["worst"] < 1e-4, counts


def test_batch_sizes(saved, tmp_path):
    """Batch sizes in random order, and texts that outgrow the cache: nothing is recorded after the first calls."""
    directory, model = saved("llama")
    draw = random.Random(5)
    sizes = [1, 1, 3, 3, 5, 7, 9] + [draw.randint(1, 64) for _ in range(20)]
    calls = [{"prompts": [[3 + (i * 7 + k) % 50 for k in range(1 + (i + n) % 9)] for i in range(n)], "max_new_tokens": 6, "stop": []} for n in sizes]
    results = generate(directory, tmp_path, calls)
    for part in ("prefill", "decode"):
        assert results[-1][part]["recorded"] == results[6][part]["recorded"], [r[part] for r in results]
        assert results[-1][part]["plain"] == 0
    for call, result in zip(calls, results):
        assert result["rows"] == their_tokens(model, call["prompts"], max_new_tokens=6, do_sample=False)


@pytest.mark.parametrize("options", [dict(), dict(sample=True, temperature=0.9)])
def test_texts_that_end_leave_the_batch(saved, tmp_path, options):
    """The other texts, and with sampling their random numbers, stay what they are when no text ends."""
    directory, _ = saved("llama")
    prompts = [[5 + i, 9, 3 + i] for i in range(12)]
    call = {"prompts": prompts, "max_new_tokens": 40, "seed": 3, **options}
    whole = generate(directory, tmp_path, [{**call, "stop": []}])[0]["rows"]
    stop = sorted({row[n] for n, row in zip((2, 5, 9, 14, 20), whole)})
    ended = generate(directory, tmp_path, [{**call, "stop": stop}])[0]["rows"]
    for row, other in zip(whole, ended):
        end = next((i + 1 for i, token in enumerate(row) if token in stop), len(row))
        assert other == row[:end]
    assert min(map(len, ended)) < 20 < max(map(len, ended))


@pytest.mark.parametrize("options", [dict(sample=True, temperature=0.7), dict(sample=True, top_k=7), dict(sample=True, top_p=0.8),
                                     dict(repetition_penalty=1.3), dict(sample=True, temperature=1.3, top_k=20, top_p=0.9, repetition_penalty=1.1)])
def test_settings(saved, tmp_path, options):
    """Sampled tokens are equal too: both sides draw from libtorch's generator in the same order."""
    directory, model = saved("llama")
    ours = generate(directory, tmp_path, [{"prompts": PROMPTS[:4], "max_new_tokens": 40, "seed": 11, "stop": [], **options}])[0]["rows"]
    theirs = dict(options)
    theirs["do_sample"] = theirs.pop("sample", False)
    theirs.setdefault("top_k", 0)
    if not theirs["do_sample"]:
        theirs.pop("top_k")
    torch.manual_seed(11)
    assert ours == their_tokens(model, PROMPTS[:4], max_new_tokens=40, **theirs)


def test_stop(saved, tmp_path):
    directory, model = saved("llama")
    rows = generate(directory, tmp_path, [{"prompts": PROMPTS, "max_new_tokens": 60, "stop": []}])[0]["rows"]
    stop = [rows[0][10], rows[1][20]]
    ours = generate(directory, tmp_path, [{"prompts": PROMPTS, "max_new_tokens": 60, "stop": stop}])[0]["rows"]
    assert ours == their_tokens(model, PROMPTS, max_new_tokens=60, do_sample=False, stop=stop)
    assert min(map(len, ours)) < 60


@pytest.mark.parametrize("name, shard", forms(20000, 1 << 40))
def test_saved_model_loads_in_transformers(saved, tmp_path, name, shard):
    directory, model = saved(name)
    tool("copy", directory, tmp_path / "copy", shard)
    again = type(model).from_pretrained(tmp_path / "copy")
    for (key, a), (other, b) in zip(sorted(model.state_dict().items()), sorted(again.state_dict().items())):
        assert key == other and torch.equal(a, b), key
    if shard == 1 << 40:
        assert (tmp_path / "copy/model.safetensors").read_bytes() == (directory / "model.safetensors").read_bytes()
    else:
        assert (tmp_path / "copy/model.safetensors.index.json").exists()


@pytest.mark.parametrize("field,value,text", [
    ("rope_parameters", {"rope_type": "yarn", "factor": 2.0}, "rope_type"), ("hidden_act", "gelu", "hidden_act"),
    ("quantization_config", {"bits": 4}, "quantization_config"), ("num_key_value_heads", 3, "num_key_value_heads"),
    ("vocab_size", 96, "embed_tokens"), ("model_type", "deepseek", "deepseek"), ("architectures", ["LlamaForTokens"], "LlamaForCausalLM"),
    ("num_hidden_layers", 3, "layers.2"), ("num_hidden_layers", 1, "layers.1"), ("hidden_size", "32", "hidden_size"), ("logit_scale", 0.5, "logit_scale")])
def test_refusals(saved, tmp_path, field, value, text):
    directory, _ = saved("llama")
    copy = tmp_path / "copy"
    copy.mkdir()
    config = json.loads((directory / "config.json").read_text())
    config[field] = value
    (copy / "config.json").write_text(json.dumps(config))
    (copy / "model.safetensors").write_bytes((directory / "model.safetensors").read_bytes())
    assert text in refused(copy, tmp_path)


@pytest.mark.parametrize("change", ["missing", "extra", "shape"])
def test_wrong_tensors(saved, tmp_path, change):
    directory, _ = saved("gpt2")
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "config.json").write_bytes((directory / "config.json").read_bytes())
    tensors = load_file(directory / "model.safetensors")
    name = "transformer.h.1.mlp.c_fc.weight"
    if change == "missing":
        del tensors[name]
    elif change == "extra":
        name = "transformer.h.1.mlp.other"
        tensors[name] = torch.zeros(3)
    else:
        tensors[name] = tensors[name].t().contiguous()
    save_file(tensors, copy / "model.safetensors", metadata={"format": "pt"})
    assert name in refused(copy, tmp_path)


@pytest.mark.skipif("TENON_REAL_SIZES" not in os.environ, reason="takes minutes; TENON_REAL_SIZES=1 asks for it")
@pytest.mark.parametrize("name", sorted(cases.REAL))
def test_real_size(tmp_path, name):
    model = cases.make(name, cases.REAL, spread=0.02, seed=sorted(cases.REAL).index(name))
    directory = tmp_path / "model"
    model.save_pretrained(directory)
    given = cases.inputs(name, 2, 48, image=224)
    save_file(given, tmp_path / "in.safetensors")
    out = tool("logits", directory, tmp_path / "in.safetensors", tmp_path / "out.safetensors", "native")
    assert json.loads(out)["breaks"] == 0
    theirs = cases.reference(model, given)
    exact = cases.reference(model.double(), {k: v.double() if v.is_floating_point() else v for k, v in given.items()})
    model.float()
    ours = load_file(tmp_path / "out.safetensors")["logits"]
    rows = given["mask"].bool() if ours.dim() == 3 and "mask" in given else slice(None)
    check_policy(ours[rows], theirs[rows], exact[rows])
    if name in cases.CAUSAL:
        result = generate(directory, tmp_path, [{"prompts": PROMPTS, "max_new_tokens": 128, "stop": []}])[0]
        assert result["rows"] == their_tokens(model, PROMPTS, max_new_tokens=128, do_sample=False)


def test_own_family(tmp_path):
    """Runs examples/own_family.cpp, which adds a family like a user would."""
    torch.manual_seed(1)
    config = transformers.GPTNeoConfig(vocab_size=97, hidden_size=32, intermediate_size=64, num_layers=2, attention_types=[[["global", "local"], 1]],
                                       num_heads=4, window_size=8, max_position_embeddings=128, bos_token_id=1, eos_token_id=2)
    model = transformers.GPTNeoForCausalLM(config).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.15)
    model.save_pretrained(tmp_path)
    program = pathlib.Path(TOOL).parent.parent / "examples/own_family"
    out = subprocess.run([program, tmp_path, "5", "9", "31", "7"], capture_output=True, text=True)
    assert out.returncode == 0, out.stderr
    theirs = model.generate(torch.tensor([[5, 9, 31, 7]]), max_new_tokens=32, do_sample=False, eos_token_id=None, pad_token_id=0)[0, 4:]
    assert list(map(int, out.stdout.split())) == theirs.tolist()
