"""Directories written by PEFT that the golden files do not cover: they load, give the same results, and are saved byte-identical."""
import copy
import json
import os
import subprocess

import peft
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from conftest import exact, llama, resnet, seed

TOOL = os.environ["TENON_ADAPTERS_TOOL"]


def bert():
    return transformers.BertForSequenceClassification(transformers.BertConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, vocab_size=64, max_position_embeddings=32, initializer_range=0.15))


def vit():
    return transformers.ViTForImageClassification(transformers.ViTConfig(
        hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=48, image_size=16, patch_size=4, initializer_range=0.15))


def lora(**fields):
    return peft.LoraConfig(r=4, lora_alpha=8, **fields)


EVA = dict(init_lora_weights="eva", eva_config=peft.EvaConfig(rho=2.0))
CASES = {
    "eva_config": (llama, lora(target_modules=["q_proj"], **EVA)),
    "bias all with a head": (bert, lora(target_modules=["query"], bias="all", task_type="SEQ_CLS")),
    "bias all with a saved module": (bert, lora(target_modules=["query"], bias="all", modules_to_save=["classifier", "pooler"])),
    "lora_bias on convolutions": (resnet, lora(target_modules=["convolution"], lora_bias=True)),
    "lora_bias on a convolution with a bias": (vit, lora(target_modules=["projection"], lora_bias=True)),
    "tokens of an untied head": (llama, lora(target_modules=["q_proj"], trainable_token_indices={"lm_head": [4, 5]})),
    "LoKr by a large factor": (llama, peft.LoKrConfig(r=2, alpha=4, decompose_factor=32, target_modules=["q_proj", "up_proj"])),
}


def make(family, config, adapter, home):
    """Creates an adapter with PEFT, with random weights."""
    base = family().eval()
    with torch.no_grad():
        for tensor in base.state_dict().values():
            if tensor.is_floating_point():
                tensor += 0.1 * torch.rand_like(tensor)
    base.save_pretrained(home / "base")
    model = peft.get_peft_model(copy.deepcopy(base), copy.deepcopy(config), adapter_name=adapter)
    with torch.no_grad():
        for path, parameter in model.named_parameters():
            if parameter.requires_grad and "original_module" not in path:
                parameter.add_(0.1 * torch.randn_like(parameter))
    model.save_pretrained(home / "saved")
    return base, home / "saved" / ("" if adapter == "default" else adapter)


@pytest.mark.parametrize("adapter", ["default", "other"])
@pytest.mark.parametrize("name", CASES)
def test_same(tmp_path, name, adapter):
    family, config = CASES[name]
    seed(name)
    base, directory = make(family, config, adapter, tmp_path)
    given = torch.randn(3, 3, 32, 32) if family is resnet else torch.randn(3, 3, 16, 16) if family is vit else torch.randint(3, 60, (3, 6))
    save_file({"input": given}, tmp_path / "input.safetensors")
    model = exact(peft.PeftModel.from_pretrained(base, directory)).eval()
    with torch.no_grad():
        expected = model(given.double() if given.is_floating_point() else given).logits
    done = subprocess.run([TOOL, "use", tmp_path / "base", tmp_path / "input.safetensors", directory, tmp_path / "out", "refuse"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    got = load_file(tmp_path / "out/outputs.safetensors")["out"].double()
    assert (got - expected).abs().max() <= 2e-5 * max(1, expected.abs().max())
    assert (tmp_path / "out/saved/adapter_model.safetensors").read_bytes() == (directory / "adapter_model.safetensors").read_bytes()


@pytest.mark.parametrize("field, value", [("rank_pattern", {"x_proj": 2}), ("alpha_pattern", {"x_proj": 2}), ("target_modules", ["q_proj", "nothing"])])
def test_unmatched(tmp_path, field, value):
    """PEFT ignores patterns that match nothing; Tenon rejects them unless unmatched_patterns allows them."""
    seed(field)
    base, directory = make(llama, lora(target_modules=["q_proj"]), "default", tmp_path)
    config = json.loads((directory / "adapter_config.json").read_text())
    (directory / "adapter_config.json").write_text(json.dumps(config | {field: value}))
    given = torch.randint(3, 60, (3, 6))
    save_file({"input": given}, tmp_path / "input.safetensors")
    run = lambda what: subprocess.run([TOOL, "use", tmp_path / "base", tmp_path / "input.safetensors", directory, tmp_path / "out", what], capture_output=True, text=True)
    refused, done = run("refuse"), run("warn")
    assert refused.returncode == 1 and "unmatched_patterns" in refused.stderr
    assert done.returncode == 0 and field in done.stderr, done.stderr
    with torch.no_grad():
        expected = exact(peft.PeftModel.from_pretrained(base, directory)).eval()(given).logits
    assert (load_file(tmp_path / "out/outputs.safetensors")["out"].double() - expected).abs().max() <= 2e-5 * expected.abs().max()
