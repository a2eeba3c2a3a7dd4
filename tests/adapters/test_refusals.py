"""an invalid adapter is rejected with an error that names the fault, and nothing is loaded."""
import json
import os
import shutil
import subprocess

import pytest
import torch
from safetensors.torch import load_file, save_file

TOOL = os.environ["TENON_ADAPTERS_TOOL"]
Q = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"


def set_config(**fields):
    return lambda config, tensors: config.update(fields)


def drop(name):
    return lambda config, tensors: tensors.pop(name)


def put(name, make):
    def change(config, tensors):
        tensors[name] = make(tensors)
    return change


def rename(old, new):
    def change(config, tensors):
        for key in list(tensors):
            tensors[key.replace(old, new)] = tensors.pop(key)
    return change


def one_of_rank_16(number):
    """Uses a rank so large that matrices are read in blocks."""
    def change(config, tensors):
        config["r"] = 16
        for key, tensor in tensors.items():
            tensors[key] = torch.zeros((16, tensor.shape[1]) if "lora_A" in key else (tensor.shape[0], 16))
        tensors[Q][7, 11] = number
    return change


VARIANTS = dict(alora_invocation_tokens=[1, 2], arrow_config={"top_k": 1}, use_bdlora={"nblocks": 2}, velora_config={"a": 1}, monteclora_config={"a": 1}, kasa_config={"beta": 1},
                use_qalora=True, corda_config={"a": 1}, loftq_config={"loftq_bits": 4}, lora_ga_config={"a": 1}, layer_replication=[[0, 2]], target_parameters=["experts.w"],
                megatron_config={"a": 1}, ensure_weight_tying=True)
# Case of the golden files, modification of the first adapter, and text that the error must contain.
REFUSED = {
    "method unknown": ("lora", set_config(peft_type="POLY"), "POLY"),
    "method missing": ("lora", lambda config, tensors: config.pop("peft_type"), "peft_type"),
    "key unknown": ("lora", set_config(sharpness=2), "sharpness"),
    "tensor missing": ("lora", drop(Q), Q),
    "tensor left over": ("lora", put("base_model.model.more", lambda t: torch.ones(2)), "base_model.model.more"),
    "tensor misshaped": ("lora", put(Q, lambda t: t[Q][:, 1:].contiguous()), Q),
    "prefix wrong": ("lora", rename("base_model.model.", "model."), "missing"),
    "compiled keys": ("lora", rename("base_model.model.", "_orig_mod.base_model.model."), "_orig_mod."),
    "compiled keys inside": ("lora", rename("layers.0.", "layers.0._orig_mod."), "_orig_mod."),
    "NaN": ("lora", put(Q, lambda t: t[Q] * float("nan")), "NaN"),
    "infinity": ("lora", put(Q, lambda t: t[Q] * float("inf")), "NaN or infinity"),
    "one NaN": ("lora", one_of_rank_16(float("nan")), "NaN or infinity"),
    "one infinity": ("lora", one_of_rank_16(float("-inf")), "NaN or infinity"),
    "integers": ("lora", put(Q, lambda t: t[Q].long()), "I64"),
    "target unmatched": ("lora", set_config(target_modules=["q_proj", "v_proj", "down_proj", "nothing"]), "nothing"),
    "no target": ("lora", set_config(target_modules="nothing.*"), "no layer"),
    "targets missing": ("lora", set_config(target_modules=None), "target_modules"),
    "rank pattern unmatched": ("lora", set_config(rank_pattern={"x_proj": 2}), "x_proj"),
    "alpha pattern unmatched": ("lora", set_config(alpha_pattern={"x_proj": 2}), "x_proj"),
    "not an expression": ("lora", set_config(target_modules="(q_proj"), "target_modules"),
    "layers_pattern alone": ("lora", set_config(layers_pattern="layers"), "layers_pattern"),
    "layer type": ("loha", set_config(target_modules=["embed_tokens"]), "embed_tokens"),
    "bias unknown": ("lora", set_config(bias="some"), "bias"),
    "tokens unknown": ("lora", set_config(trainable_token_indices=[99999]), "99999"),
    "copies unmatched": ("lora", set_config(modules_to_save=["nothing"]), "nothing"),
    "rank of nothing": ("lora", set_config(r=0), "r"),
    "dora with lora_bias": ("dora", set_config(lora_bias=True), "lora_bias"),
    "OFT old": ("oft", lambda config, tensors: config.pop("oft_block_size"), "oft_block_size"),
    "OFT eps": ("oft", set_config(coft=True, eps=-1), "eps"),
    "BOFT factors": ("boft", set_config(boft_n_butterfly_factor=2), "boft_n_butterfly_factor"),
    "HRA zero": ("hra", put("base_model.model.model.layers.0.self_attn.q_proj.hra_u", lambda t: t["base_model.model.model.layers.0.self_attn.q_proj.hra_u"] * 0), "zero"),
    **{f"init {init}": ("lora", set_config(init_lora_weights=init), "init_lora_weights") for init in ("pissa", "pissa_niter_4", "olora", "corda", "lora_ga", "loftq")},
    **{f"variant {field}": ("lora", set_config(**{field: value}), field) for field, value in VARIANTS.items()},
}


def load(goldens, family, path):
    return subprocess.run([TOOL, "load", str(goldens / "base" / family), str(path)], capture_output=True, text=True)


@pytest.mark.parametrize("name", REFUSED)
def test_refused(goldens, tmp_path, name):
    from conftest import CASES
    case, change, text = REFUSED[name]
    source = goldens / case / "adapter_1"
    config, tensors = json.loads((source / "adapter_config.json").read_text()), load_file(source / "adapter_model.safetensors")
    change(config, tensors)
    (tmp_path / "adapter_config.json").write_text(json.dumps(config))
    save_file(tensors, tmp_path / "adapter_model.safetensors")
    done = load(goldens, CASES[case][0], tmp_path)
    assert done.returncode == 1 and ("[adapter]" in done.stderr or "[config]" in done.stderr), done.stdout + done.stderr
    assert text in done.stderr


def test_pickle(goldens, tmp_path):
    shutil.copy(goldens / "lora/adapter_1/adapter_config.json", tmp_path)
    torch.save({}, tmp_path / "adapter_model.bin")
    done = load(goldens, "llama", tmp_path)
    assert done.returncode == 1 and "pickle" in done.stderr


def test_convolutions(goldens, tmp_path):
    """OFT on convolution kernels larger than 1 x 1 is rejected."""
    config, tensors = json.loads((goldens / "oft_conv2d/adapter_1/adapter_config.json").read_text()), load_file(goldens / "oft_conv2d/adapter_1/adapter_model.safetensors")
    config["target_modules"] = ["convolution"]
    (tmp_path / "adapter_config.json").write_text(json.dumps(config))
    save_file(tensors, tmp_path / "adapter_model.safetensors")
    done = load(goldens, "resnet", tmp_path)
    assert done.returncode == 1 and "1 x 1" in done.stderr


@pytest.mark.parametrize("case, field", [("lora", "lora_dropout"), ("adalora", "lora_dropout"), ("vera", "vera_dropout"), ("loha", "rank_dropout"), ("lokr", "module_dropout"), ("boft", "boft_dropout")])
def test_dropout(goldens, tmp_path, case, field):
    """An adapter with dropout loads and trains; a probability above 1 is refused."""
    config = json.loads((goldens / case / "adapter_1/adapter_config.json").read_text())
    config[field] = 0.1
    (tmp_path / "adapter_config.json").write_text(json.dumps(config))
    shutil.copy(goldens / case / "adapter_1/adapter_model.safetensors", tmp_path)
    assert load(goldens, "llama", tmp_path).stdout == "loaded\n"
    done = subprocess.run([TOOL, "train", str(goldens / "base/llama"), str(tmp_path)], capture_output=True, text=True)
    assert done.stdout == "trains\n", done.stderr
    (tmp_path / "adapter_config.json").write_text(json.dumps(config | {field: 1.5}))
    done = load(goldens, "llama", tmp_path)
    assert done.returncode == 1 and field in done.stderr, done.stdout + done.stderr


def test_good(goldens):
    """An unmodified adapter loads."""
    done = load(goldens, "llama", goldens / "lora/adapter_1")
    assert done.stdout == "loaded\n", done.stderr


def test_least(goldens, tmp_path):
    """A configuration of three fields is sufficient."""
    config = json.loads((goldens / "lora/adapter_1/adapter_config.json").read_text())
    (tmp_path / "adapter_config.json").write_text(json.dumps({k: config[k] for k in ("peft_type", "r", "target_modules")}))
    shutil.copy(goldens / "lora/adapter_1/adapter_model.safetensors", tmp_path)
    assert load(goldens, "llama", tmp_path).stdout == "loaded\n"
