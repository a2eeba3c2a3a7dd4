"""Compares weighted combinations with PEFT's add_weighted_adapter. Where PEFT is wrong, expects an error or the exact sum."""
import os
import subprocess

import peft
import pytest
import torch
import transformers
from safetensors.torch import load_file

from conftest import exact, seed

TOOL = os.environ["TENON_ADAPTERS_TOOL"]
TYPES = ("linear", "cat", "svd", "ties", "dare_linear", "dare_ties", "magnitude_prune", "ties_svd", "dare_linear_svd", "dare_ties_svd", "magnitude_prune_svd")
SOURCES = {
    "llama": ("llama", peft.LoraConfig, dict(r=4, lora_alpha=8, target_modules=["q_proj", "down_proj"]), dict(target_modules=["q_proj", "v_proj"])),
    "gpt2": ("gpt2", peft.LoraConfig, dict(r=4, fan_in_fan_out=True, target_modules=["wte", "c_attn"]), {}),
    "resnet": ("resnet", peft.LoraConfig, dict(r=4, target_modules=["convolution"]), {}),
    "rslora": ("llama", peft.LoraConfig, dict(r=4, lora_alpha=8, use_rslora=True, target_modules=["q_proj"]), {}),
    "dora": ("llama", peft.LoraConfig, dict(r=4, use_dora=True, target_modules=["q_proj"]), {}),
    "lora_bias": ("llama_bias", peft.LoraConfig, dict(r=4, lora_bias=True, target_modules=["q_proj"]), {}),
    "ia3": ("llama", peft.IA3Config, dict(target_modules=["k_proj", "down_proj"], feedforward_modules=["down_proj"]), {}),
    "ranks": ("llama", peft.LoraConfig, dict(r=4, target_modules=["q_proj"]), dict(r=2)),
    "layers": ("llama", peft.LoraConfig, dict(r=4, target_modules=["q_proj"], layers_to_transform=[1]), dict(target_modules=["q_proj", "v_proj"], layers_to_transform=[0, 1])),
    "oft": ("llama", peft.OFTConfig, dict(r=0, oft_block_size=8, target_modules=["q_proj"]), {}),
}


def load(goldens, family):
    kinds = {"resnet": transformers.ResNetForImageClassification, "gpt2": transformers.GPT2LMHeadModel}
    return kinds.get(family, transformers.LlamaForCausalLM).from_pretrained(goldens / "base" / family)


@pytest.fixture(scope="session")
def sources(goldens):
    for name, (family, kind, both, second) in SOURCES.items():
        for adapter, fields in (("adapter_1", both), ("adapter_2", {**both, **second})):
            model = load(goldens, family)
            seed(name + adapter)
            model = peft.get_peft_model(model, kind(**fields), adapter_name=adapter)
            with torch.no_grad():
                for path, parameter in model.named_parameters():
                    if adapter in path.split("."):
                        parameter.add_(0.1 * torch.randn_like(parameter))
            model.save_pretrained(goldens / "combine" / name, selected_adapters=[adapter])
    return goldens


def ours(goldens, name, out, kind, weights=(0.7, -0.4), density=0.6, sign="total"):
    family = SOURCES[name][0]
    at = goldens / "combine" / name
    return subprocess.run(list(map(str, [TOOL, "combine", goldens / "base" / family, goldens / "inputs" / f"{family}.safetensors", at / "adapter_1", at / "adapter_2",
                                         out, kind, *weights, density, sign])), capture_output=True, text=True)


def theirs(goldens, name, kind, weights=(0.7, -0.4), density=0.6, sign="total"):
    family = SOURCES[name][0]
    model = peft.PeftModel.from_pretrained(load(goldens, family), goldens / "combine" / name / "adapter_1", adapter_name="adapter_1")
    model.load_adapter(goldens / "combine" / name / "adapter_2", "adapter_2")
    inject = model.base_model.inject_adapter

    def seeded(*given, **named):  # PEFT's initialization also draws random numbers.
        inject(*given, **named)
        torch.manual_seed(7)
    model.base_model.inject_adapter = seeded
    more = {} if name == "ia3" else dict(combination_type=kind, density=density, majority_sign_method=sign)
    model.add_weighted_adapter(["adapter_1", "adapter_2"], list(weights), "sum", **more)
    model.set_adapter("sum")
    model = exact(model).eval()
    given = load_file(goldens / "inputs" / f"{family}.safetensors")["input"]
    with torch.no_grad():
        return model(given.double() if given.is_floating_point() else given).logits


def compare(done, out, expected):
    assert done.returncode == 0, done.stderr
    got = load_file(out / "outputs.safetensors")["out"].double()
    assert (got - expected).abs().max() <= 1e-4 * max(1, expected.abs().max())


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", ["llama", "gpt2", "resnet"])
def test_sum(sources, tmp_path, name, kind):
    """Each combination type gives the values of PEFT; random types use the same seed."""
    compare(ours(sources, name, tmp_path, kind), tmp_path, theirs(sources, name, kind))
    # PEFT can load the saved combination.
    saved = peft.PeftConfig.from_pretrained(tmp_path / "sum")
    assert saved.r == saved.lora_alpha == (8 if kind == "cat" else 4)


@pytest.mark.parametrize("kind", ["ties", "dare_ties"])
def test_sign_by_frequency(sources, tmp_path, kind):
    compare(ours(sources, "llama", tmp_path, kind, sign="frequency"), tmp_path, theirs(sources, "llama", kind, sign="frequency"))


@pytest.mark.parametrize("kind", ["linear", "cat", "svd"])
def test_different_layers(sources, tmp_path, kind):
    """As in PEFT, the combination has the layers_to_transform of the first adapter; other layers are dropped with a warning."""
    done = ours(sources, "layers", tmp_path, kind)
    compare(done, tmp_path, theirs(sources, "layers", kind))
    assert "layers.0.self_attn.q_proj" in done.stderr


def test_ia3(sources, tmp_path):
    compare(ours(sources, "ia3", tmp_path, "svd"), tmp_path, theirs(sources, "ia3", "svd"))


@pytest.mark.parametrize("kind", ["cat", "svd"])
def test_rslora_is_exact(sources, tmp_path, kind):
    """PEFT's result is off by the square root of the rank; weights (1, 0) must give the first adapter."""
    compare(ours(sources, "rslora", tmp_path, kind, weights=(1, 0)), tmp_path, alone(sources, "rslora"))


def alone(goldens, name):
    model = peft.PeftModel.from_pretrained(load(goldens, SOURCES[name][0]), goldens / "combine" / name / "adapter_1")
    with torch.no_grad():
        return exact(model).eval()(load_file(goldens / "inputs" / f"{SOURCES[name][0]}.safetensors")["input"]).logits


@pytest.mark.parametrize("name, kind, text", [
    ("dora", "cat", "DoRA"), ("lora_bias", "cat", "lora_bias"), ("ranks", "linear", "ranks 4 and 2"), ("oft", "svd", "OFT"), ("llama", "mean", "\"mean\""),
    ("llama", "cat_svd", "cat_svd")])
def test_refused(sources, tmp_path, name, kind, text):
    done = ours(sources, name, tmp_path, kind)
    assert done.returncode == 1 and "[adapter]" in done.stderr and text in done.stderr
