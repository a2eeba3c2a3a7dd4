"""Dropout in training against PEFT with the same seed: masks bit by bit, losses and gradients of five steps, mixed batches, no recompiling."""
import copy
import json
import os
import pathlib
import subprocess

import peft
import pytest
import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import load_file, save_file

from conftest import llama, seed
from test_create import CLASSES, DTYPES, LIN, QV, QVD
from test_trees import Net

TOOL = pathlib.Path(os.environ["TENON_ADAPTERS_TOOL"]).parent / "adapters_fit"
BACKENDS = ("none", "eager", "native")
STEPS, RATE = 5, 0.1
LORA = dict(r=4, lora_alpha=8, init_lora_weights=False)


def gpt2():
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        n_embd=32, n_layer=2, n_head=4, n_inner=48, vocab_size=64, n_positions=32, initializer_range=0.15, use_cache=False, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0))


def bert():
    return transformers.BertForSequenceClassification(transformers.BertConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, vocab_size=64, max_position_embeddings=32, initializer_range=0.15, num_labels=5,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0))


def vit():
    return transformers.ViTForImageClassification(transformers.ViTConfig(
        hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=48, image_size=16, patch_size=4, initializer_range=0.15, num_labels=5))


FAMILIES = {"llama": llama, "gpt2": gpt2, "bert": bert, "vit": vit, "net": Net}
# Family, method, fields, fields that get the probability.
CASES = {
    "lora": ("llama", "LORA", dict(target_modules=QVD, **LORA), ["lora_dropout"]),
    # All layers: those with inputs of one shape must draw their masks in PEFT's order.
    "lora all": ("llama", "LORA", dict(target_modules=LIN, **LORA), ["lora_dropout"]),
    "lora bert": ("bert", "LORA", dict(target_modules=["query", "key", "value", "dense"], **LORA), ["lora_dropout"]),
    "lora vit": ("vit", "LORA", dict(target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "fc1", "fc2"], **LORA), ["lora_dropout"]),
    "lora bias": ("llama", "LORA", dict(target_modules=QV, lora_bias=True, **LORA), ["lora_dropout"]),
    "lora conv1d": ("gpt2", "LORA", dict(target_modules=["c_attn", "c_fc", "c_proj"], **LORA), ["lora_dropout"]),
    "lora embedding": ("llama", "LORA", dict(target_modules=["embed_tokens", "q_proj"], **LORA), ["lora_dropout"]),
    "lora net": ("net", "LORA", dict(target_modules=["up", "down", "conv"], **LORA), ["lora_dropout"]),
    "lora saved": ("llama", "LORA", dict(target_modules=QV, modules_to_save=["lm_head"], **LORA), ["lora_dropout"]),
    "dora": ("llama", "LORA", dict(target_modules=QVD, use_dora=True, **LORA), ["lora_dropout"]),
    "dora conv1d": ("gpt2", "LORA", dict(target_modules=["c_attn", "c_proj"], use_dora=True, **LORA), ["lora_dropout"]),
    "dora net": ("net", "LORA", dict(target_modules=["up", "down", "conv"], use_dora=True, **LORA), ["lora_dropout"]),
    "adalora": ("llama", "ADALORA", dict(target_modules=QV, init_r=6, target_r=3, total_step=100, init_lora_weights=False, lora_alpha=0.05), ["lora_dropout"]),
    "adalora net": ("net", "ADALORA", dict(target_modules=["up", "conv"], init_r=6, target_r=3, total_step=100), ["lora_dropout"]),
    "vera": ("llama", "VERA", dict(r=8, target_modules=QV, d_initial=0.5), ["vera_dropout"]),
    "loha": ("llama", "LOHA", dict(r=4, target_modules=QV, init_weights=False), ["rank_dropout", "module_dropout"]),
    "loha net": ("net", "LOHA", dict(r=4, target_modules=["up", "down", "conv"], init_weights=False), ["rank_dropout"]),
    "lokr": ("llama", "LOKR", dict(r=2, target_modules=QVD, init_weights=False), ["rank_dropout", "module_dropout"]),
    "lokr scaled": ("llama", "LOKR", dict(r=1, target_modules=QVD, decompose_both=True, rank_dropout_scale=True, init_weights=False), ["rank_dropout"]),
    "lokr net": ("net", "LOKR", dict(r=1, target_modules=["up", "conv"], init_weights=False), ["rank_dropout"]),
    "boft": ("llama", "BOFT", dict(boft_block_size=2, target_modules=QV, init_weights=False), ["boft_dropout"]),
    "boft net": ("net", "BOFT", dict(boft_block_size=4, target_modules=["up"], init_weights=False), ["boft_dropout"]),
    "boft conv2d": ("net", "BOFT", dict(boft_block_size=3, target_modules=["conv"], init_weights=False), ["boft_dropout"]),
    "oft": ("llama", "OFT", dict(oft_block_size=8, target_modules=QV, init_weights=False), ["module_dropout"]),
    # Each step constrains the parameters. The norms of the blocks are about 0.75 and the limits 0.75, or 0.2 for a shared block.
    "oft constrained": ("llama", "OFT", dict(oft_block_size=8, target_modules=QV, coft=True, eps=1.5, init_weights=False), []),
    "oft constrained shared": ("llama", "OFT", dict(oft_block_size=8, target_modules=QV, coft=True, eps=0.2, block_share=True, init_weights=False), []),
    "ia3": ("llama", "IA3", dict(init_ia3_weights=False), []),
    "hra": ("llama", "HRA", dict(r=4, target_modules=QV, init_weights=False), []),
    "ln": ("llama", "LN_TUNING", {}, []),
}
PROBABILITIES = [(name, p) for name, case in CASES.items() for p in ((0.0, 0.1, 0.5) if case[3] else (0.0,))]
# Compiled programs run with the largest probability only.
RUNS = [(name, p, "none") for name, p in PROBABILITIES] + [(name, 0.5 if CASES[name][3] else 0.0, backend) for name in CASES for backend in BACKENDS[1:]]


@pytest.fixture(scope="session")
def bases(tmp_path_factory):
    home, out = tmp_path_factory.mktemp("bases"), {}
    for family, make in FAMILIES.items():
        seed(family)
        out[family] = make().eval()
        if family == "net":
            save_file(out[family].state_dict(), home / "net.safetensors")
        else:
            out[family].save_pretrained(home / family)
    labels = torch.randint(0, 5, (4,))
    save_file({"input": torch.randint(3, 60, (4, 6)), "labels": labels}, home / "inputs.safetensors")
    save_file({"input": torch.randn(4, 3, 16, 16), "labels": labels}, home / "images.safetensors")
    return home, out


def inputs_of(home, family):
    return home / ("images.safetensors" if family == "vit" else "inputs.safetensors")


def job_of(home, family, **more):
    where = {"weights": str(home / "net.safetensors")} if family == "net" else {"base": str(home / family)}
    return where | dict(inputs=str(inputs_of(home, family)), create_seed=1234, seed=4321, steps=STEPS, lr=RATE) | more


def run(command, job, tmp_path):
    (tmp_path / "job.json").write_text(json.dumps(job))
    done = subprocess.run([TOOL, command, tmp_path / "job.json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def config_of(case, p):
    family, method, fields, dropouts = CASES[case]
    return {"peft_type": method, **fields, **{name: p for name in dropouts}}


def make(base, configs, dtype="f32"):
    """PEFT's model with the adapters, of which the first is called default."""
    torch.manual_seed(1234)
    kinds = [CLASSES[config["peft_type"]](**{k: copy.deepcopy(v) for k, v in config.items() if k != "peft_type"}) for config in configs]
    model = peft.get_peft_model(copy.deepcopy(base).to(DTYPES[dtype]), kinds[0])
    for i, kind in enumerate(kinds[1:]):
        model.add_adapter(f"more{i}", kind)
    return model


def key_of(path, names):
    """The adapter of a parameter and the parameter's name in the bank."""
    for name in names:
        parts = path.split(".")
        if name in parts:
            key = path.removeprefix("base_model.model.").replace(f".modules_to_save.{name}", "").replace(f".{name}", "")
            return f"{name}.{key.replace('lora_magnitude_vector.weight', 'lora_magnitude_vector')}"
    return None


def fit(model, inputs, training=True):
    """The loop of tests/adapters/fit.cpp."""
    names = list(model.peft_config)
    model.train(training)
    parameters = {key_of(path, names): p for path, p in model.named_parameters() if p.requires_grad}
    torch.manual_seed(4321)
    out, losses = {}, []
    for step in range(STEPS):
        logits = logits_of(model, inputs)
        if logits.dim() == 2:
            loss = F.cross_entropy(logits, inputs["labels"])
        else:
            loss = F.cross_entropy(logits[:, :-1].reshape(-1, logits.shape[-1]), inputs["input"][:, 1:].reshape(-1))
        loss.backward()
        losses.append(loss.detach())
        with torch.no_grad():
            for key, p in parameters.items():
                if p.grad is not None:  # A layer that module_dropout skips has none, in Tenon too.
                    out[f"grad.{step}.{key}"] = p.grad.clone()
                    p.sub_(RATE * p.grad)
                p.grad = None
    out["next"], out["loss"] = torch.rand(4, dtype=torch.float64), torch.stack(losses).float()
    out |= {f"final.{key}": p.detach().clone() for key, p in parameters.items()}
    model.eval()
    with torch.no_grad():
        out["eval"] = logits_of(model, inputs)
    return out


def logits_of(model, inputs):
    out = model(inputs["input"])
    return (out if torch.is_tensor(out) else out.logits).float()


def compare(got, expected, tolerance=1e-3):
    """The same masks leave differences by rounding only."""
    assert set(got) == set(expected)
    assert torch.equal(got["next"], expected["next"])  # The same numbers were drawn.
    for name, value in expected.items():
        worst = (got[name].double() - value.double()).abs().max().item()
        assert worst <= tolerance * max(1e-3, value.abs().max().item()), f"{name}: {worst}"


@pytest.mark.parametrize("case, p, backend", RUNS)
def test_training(bases, tmp_path, case, p, backend):
    """Losses, gradients and final values of five steps, and the random numbers that follow."""
    home, models = bases
    family, config = CASES[case][0], config_of(case, p)
    job = job_of(home, family, adapters=[dict(name="default", config=config)], backend=backend, out=str(tmp_path / "out"))
    run("fit", job, tmp_path)
    compare(load_file(tmp_path / "out/outputs.safetensors"), fit(make(models[family], [config]), load_file(inputs_of(home, family))))


@pytest.mark.parametrize("case", ["lora", "dora", "vera", "boft"])
def test_bf16(bases, tmp_path, case):
    """Masks are drawn for the input in f32."""
    home, models = bases
    config = config_of(case, 0.5)
    run("fit", job_of(home, "llama", adapters=[dict(name="default", config=config)], dtype="bf16", steps=1, out=str(tmp_path / "out")), tmp_path)
    expected = fit(make(models["llama"], [config], "bf16"), load_file(home / "inputs.safetensors"))
    got = load_file(tmp_path / "out/outputs.safetensors")
    assert abs(got["loss"][0] - expected["loss"][0]) < 2e-2
    for name in (name for name in got if name.startswith("grad.0.")):
        assert (got[name] - expected[name]).norm() <= 0.15 * expected[name].norm(), name


def test_several(bases, tmp_path):
    """Two active adapters draw one mask each, in their order."""
    home, models = bases
    configs = [config_of("lora", 0.1), config_of("lora", 0.5)]
    adapters = [dict(name=name, config=config) for name, config in zip(("default", "more0"), configs)]
    run("fit", job_of(home, "llama", adapters=adapters, use=["more0", "default"], out=str(tmp_path / "out")), tmp_path)
    model = make(models["llama"], configs)
    model.base_model.set_adapter(["more0", "default"])
    compare(load_file(tmp_path / "out/outputs.safetensors"), fit(model, load_file(home / "inputs.safetensors")))


@pytest.mark.parametrize("case", ["lora", "dora", "loha", "boft"])
def test_evaluation(bases, tmp_path, case):
    """Nothing is drawn in evaluation mode, even with gradients."""
    home, models = bases
    config = config_of(case, 0.5)
    run("fit", job_of(home, "llama", adapters=[dict(name="default", config=config)], training=False, out=str(tmp_path / "out")), tmp_path)
    got = load_file(tmp_path / "out/outputs.safetensors")
    compare(got, fit(make(models["llama"], [config]), load_file(home / "inputs.safetensors"), training=False))
    torch.manual_seed(4321)
    assert torch.equal(got["next"], torch.rand(4, dtype=torch.float64))


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("case", ["lora", "lora net", "loha"])
def test_no_recompile(bases, tmp_path, case, backend):
    """The probability is bank contents."""
    home, models = bases
    job = job_of(home, CASES[case][0], adapters=[dict(name="default", config=config_of(case, 0.0))], backend=backend, out=str(tmp_path / "out"),
                 again=[config_of(case, p) for p in (0.1, 0.5, 0.0)])
    assert run("fit", job, tmp_path) == "recorded 0 graphs 0\n"


def line_adapter(home, name, p, width=6):
    """A LoRA whose factors are the identity, on a linear layer of zeros."""
    net = torch.nn.Module()
    net.line = torch.nn.Linear(width, width, bias=False)
    torch.nn.init.zeros_(net.line.weight)
    net.forward = lambda x: net.line(x)
    model = peft.get_peft_model(net, peft.LoraConfig(r=width, lora_alpha=width, lora_dropout=p, target_modules=["line"]), adapter_name=name)
    with torch.no_grad():
        for factor in (net.line.lora_A, net.line.lora_B):
            factor[name].weight.copy_(torch.eye(width))
    model.save_pretrained(home, selected_adapters=[name])
    return net


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 1.0])
def test_masks(tmp_path, p, transposed):
    """The masks are PEFT's own bits, also for an input that is not contiguous."""
    net = line_adapter(tmp_path, "a", p)
    x = torch.randn(3, 4, 6)
    save_file({"input": x}, tmp_path / "inputs.safetensors")
    run("masks", dict(directories={"a": str(tmp_path / "a")}, use=["a"], inputs=str(tmp_path / "inputs.safetensors"), seed=9, transposed=transposed, out=str(tmp_path / "out")), tmp_path)
    got = load_file(tmp_path / "out/outputs.safetensors")
    x = x.transpose(0, 1) if transposed else x
    net.train()
    torch.manual_seed(9)
    expected = net.line(x)
    assert torch.equal(got["train"], expected.detach().contiguous())
    assert torch.equal(got["next"], torch.rand(4, dtype=torch.float64))
    expected.sum().backward()
    for name, factor in (("lora_A", net.line.lora_A), ("lora_B", net.line.lora_B)):
        torch.testing.assert_close(got[f"grad.a.line.{name}.weight"], factor["a"].weight.grad, rtol=1e-5, atol=1e-5)
    assert torch.equal(got["eval"], x.contiguous()) and torch.equal(got["no_grad"], x.contiguous())


def test_mixed_masks(tmp_path):
    """In a mixed batch each adapter has its own probability over its own samples."""
    probabilities = {"a": 0.0, "b": 0.25, "c": 0.75}
    for name, p in probabilities.items():
        line_adapter(tmp_path, name, p, 64)
    rows = ["c", "__base__", "b", "a", "c", "b"]
    save_file({"input": torch.ones(len(rows), 50, 64)}, tmp_path / "inputs.safetensors")
    job = dict(directories={name: str(tmp_path / name) for name in probabilities}, rows=rows, inputs=str(tmp_path / "inputs.safetensors"), seed=9, out=str(tmp_path / "out"))
    run("masks", job, tmp_path)
    got = load_file(tmp_path / "out/outputs.safetensors")["train"]
    # The first adapter of the batch draws first, for all its samples at once.
    torch.manual_seed(9)
    expected = torch.zeros_like(got)
    for name in ("c", "b", "a"):
        mine = [i for i, row in enumerate(rows) if row == name]
        expected[mine] = F.dropout(torch.ones(len(mine), 50, 64), probabilities[name])
    assert torch.equal(got, expected)


@pytest.mark.parametrize("backend", ["none", "native"])
@pytest.mark.parametrize("case", ["lora", "lora conv1d", "lora net", "adalora", "vera", "loha", "lokr", "boft"])
def test_mixed_gradients(bases, tmp_path, case, backend):
    """The backward of a mixed batch uses the masks of its forward."""
    home, models = bases
    adapters = [dict(name=name, config=config_of(case, p)) for name, p in (("a", 0.0), ("b", 0.3), ("c", 0.6))]
    job = job_of(home, CASES[case][0], adapters=adapters, rows=["b", "__base__", "c", "b"], backend=backend)
    expected, measured = map(float, run("derivative", job, tmp_path).split())
    # A difference quotient in f32 over a ReLU network is right to a few per cent.
    assert abs(expected - measured) <= 5e-2 * max(abs(expected), abs(measured)) + 1e-4, (expected, measured)
