"""Random adapters of PEFT over the decoders and classifiers of tests/models: each gives PEFT's result and is saved byte-identical."""
import copy
import os
import pathlib
import random
import subprocess
import sys

import peft
import pytest
import torch
from safetensors.torch import load_file, save_file

sys.path.append(str(pathlib.Path(__file__).parents[1] / "models"))
import cases  # noqa: E402

TOOL = os.environ["TENON_ADAPTERS_TOOL"]
COUNT = int(os.environ.get("TENON_RANDOM_ADAPTERS", "20"))
NAMES = ["gemma", "gemma2", "gemma3", "qwen3", "opt", "gemma_classes", "gemma2_classes", "gemma3_classes", "qwen3_classes", "opt_classes",
         "opt_350m", "llama_classes", "mistral_classes", "qwen2_classes", "gpt2_classes"]
LINEAR = {"opt": ["q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2"], "gpt2": ["c_attn", "attn.c_proj", "c_fc"]}
NORMS = {"opt": ["self_attn_layer_norm", "final_layer_norm"], "gpt2": ["ln_1", "ln_f"], "gemma2": ["pre_feedforward_layernorm", "norm"],
         "gemma3": ["q_norm", "post_attention_layernorm", "norm"], "qwen3": ["k_norm", "input_layernorm"]}


def random_config(name, draw):
    """Returns the configuration of a random method with random targets."""
    family = name.split("_")[0]
    linear = LINEAR.get(family, ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"])
    targets = draw.sample(linear, draw.randint(1, len(linear)))
    both = dict(target_modules=targets, task_type="SEQ_CLS" if name in cases.CLASSIFIERS else "CAUSAL_LM")
    r = draw.choice([1, 2, 4, 8])
    if family == "gpt2":  # Only these methods support Conv1D.
        both["fan_in_fan_out"] = True
        return draw.choice([lambda: peft.LoraConfig(r=r, **both), lambda: peft.LoraConfig(r=r, use_dora=True, **both),
                            lambda: peft.IA3Config(**both, feedforward_modules=targets[:1])])()
    lora = dict(r=r, lora_alpha=draw.choice([1, 8, 16]))
    return draw.choice([
        lambda: peft.LoraConfig(**lora, **both),
        lambda: peft.LoraConfig(**lora, **{**both, "target_modules": "all-linear"}, use_rslora=True),
        lambda: peft.LoraConfig(**lora, **{**both, "target_modules": targets + ["embed_tokens"]}, rank_pattern={targets[0]: 3}),
        lambda: peft.LoraConfig(**lora, **both, trainable_token_indices=[5, 9, 33]),
        lambda: peft.LoraConfig(**lora, **both, use_dora=True, layers_to_transform=[1]),
        lambda: peft.AdaLoraConfig(init_r=6, target_r=4, lora_alpha=8, total_step=10, **both),
        lambda: peft.IA3Config(**both, feedforward_modules=targets[:1]),
        lambda: peft.VeraConfig(r=r, **both),
        lambda: peft.LoHaConfig(r=r, alpha=4, **both),
        lambda: peft.LoKrConfig(r=r, alpha=4, decompose_both=draw.random() < 0.5, **both),
        lambda: peft.OFTConfig(r=0, oft_block_size=8, **both),
        lambda: peft.BOFTConfig(boft_block_size=4, **both),
        lambda: peft.HRAConfig(r=r, **both),
        lambda: peft.LNTuningConfig(**{**both, "target_modules": NORMS.get(family, ["input_layernorm", "norm"])}),
    ])()


@pytest.fixture(scope="session")
def bases(tmp_path_factory):
    """Maps names to (directory, model); each is created once."""
    made = {}

    def get(name):
        if name not in made:
            directory, model = tmp_path_factory.mktemp(name), cases.make(name)
            model.save_pretrained(directory)
            model.config.name_or_path = model.name_or_path = ""
            made[name] = directory, model
        return made[name]
    return get


@pytest.mark.parametrize("number", range(COUNT))
def test_random_adapter(bases, tmp_path, number):
    name, draw = NAMES[number % len(NAMES)], random.Random(number)
    directory, base = bases(name)
    config = random_config(name, draw)
    torch.manual_seed(number)
    model = peft.get_peft_model(copy.deepcopy(base), config)
    with torch.no_grad():
        for path, parameter in model.named_parameters():
            if parameter.requires_grad and "original_module" not in path:
                change = 0.1 * torch.randn_like(parameter)
                parameter.mul_(1 + change) if "magnitude" in path else parameter.add_(change)
    model.save_pretrained(tmp_path / "adapter")
    given = cases.inputs(name)["input"]
    save_file({"input": given}, tmp_path / "input.safetensors")
    model = peft.PeftModel.from_pretrained(copy.deepcopy(base), tmp_path / "adapter").double().eval()
    with torch.no_grad():
        expected, plain = model(given).logits, copy.deepcopy(base).double()(given).logits
    assert (expected - plain).abs().max() > 1e-3
    done = subprocess.run([TOOL, "use", directory, tmp_path / "input.safetensors", tmp_path / "adapter", tmp_path / "out", "refuse"], capture_output=True, text=True)
    assert done.returncode == 0, (name, config, done.stderr)
    got = load_file(tmp_path / "out/outputs.safetensors")["out"].double()
    assert (got - expected).abs().max() <= 2e-5 * max(1, expected.abs().max()), (name, config)
    assert (tmp_path / "out/saved/adapter_model.safetensors").read_bytes() == (tmp_path / "adapter/adapter_model.safetensors").read_bytes()
