"""Bank::create against PEFT's get_peft_model: all tensors bit by bit, the state of the generator, adapter_config.json, parameter counts.

TENON_CREATE_CONFIGS is the number of random configurations (40).
"""
import contextlib
import copy
import io
import json
import os
import pathlib
import random
import re
import subprocess
import warnings

import peft
import peft.utils.constants as constants
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from conftest import gpt2, llama, resnet, seed
from test_trees import Net
from test_written_by_peft import bert

TOOL = pathlib.Path(os.environ["TENON_ADAPTERS_TOOL"]).parent / "adapters_create"
CONFIGS = int(os.environ.get("TENON_CREATE_CONFIGS", "40"))
SOURCE = pathlib.Path(__file__).resolve().parents[2] / "src/adapters"
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "f64": torch.float64}
FAMILIES = {"llama": llama, "llama_bias": lambda: llama(attention_bias=True, mlp_bias=True), "gpt2": gpt2, "resnet": resnet, "bert": bert, "net": Net}
CLASSES = {"LORA": peft.LoraConfig, "ADALORA": peft.AdaLoraConfig, "LOHA": peft.LoHaConfig, "LOKR": peft.LoKrConfig, "IA3": peft.IA3Config, "OFT": peft.OFTConfig,
           "BOFT": peft.BOFTConfig, "VERA": peft.VeraConfig, "HRA": peft.HRAConfig, "LN_TUNING": peft.LNTuningConfig, "TRAINABLE_TOKENS": peft.TrainableTokensConfig}
SETS = ("target_modules", "exclude_modules", "feedforward_modules")  # Lists whose order means nothing.
QV, QVD = ["q_proj", "v_proj"], ["q_proj", "v_proj", "down_proj"]
LIN = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
LORA, ADA = dict(r=4, lora_alpha=8), dict(init_r=6, target_r=3, tfinal=1, total_step=6, lora_alpha=8)
C, NET = ["convolution"], ["up", "down", "conv"]
# Family, method, fields, types of the base.
ALL, WIDE = ("f32", "bf16", "f16"), ("f32", "bf16", "f16", "f64")
CASES = {
    "lora": ("llama", "LORA", dict(target_modules=QV, **LORA), WIDE),
    "lora default targets": ("llama", "LORA", {}, ALL),
    "lora default targets gpt2": ("gpt2", "LORA", dict(task_type="CAUSAL_LM"), ALL),
    "lora default targets bert": ("bert", "LORA", {}, ALL),
    "lora all-linear": ("llama", "LORA", dict(target_modules="all-linear", task_type="CAUSAL_LM", **LORA), ALL),
    "lora all-linear without some": ("llama_bias", "LORA", dict(target_modules="All-Linear", exclude_modules=["gate_proj", "layers.1.mlp.up_proj"], **LORA), ("f32",)),
    "lora all-linear bert": ("bert", "LORA", dict(target_modules="all-linear", **LORA), ("f32",)),
    "lora all-linear bert classifier": ("bert", "LORA", dict(target_modules="all-linear", task_type="SEQ_CLS", **LORA), ("f32", "bf16")),
    "lora all-linear gpt2": ("gpt2", "LORA", dict(target_modules="all-linear", **LORA), ("f32",)),
    "lora all-linear resnet": ("resnet", "LORA", dict(target_modules="all-linear", **LORA), ("f32",)),
    "lora all-linear net": ("net", "LORA", dict(target_modules="all-linear", **LORA), ("f32",)),
    "lora many targets": ("llama", "LORA", dict(target_modules=[f"model.layers.{i}.{m}.{n}" for i in (0, 1) for m, ns in (("self_attn", "qkvo"), ("mlp", ("gate", "up", "down")))
                                                               for n in (f"{k}_proj" for k in ns)] + [f"layers.{i}.self_attn.{k}_proj" for i in (0, 1) for k in "qkv"], **LORA), ("f32",)),
    "lora patterns": ("llama", "LORA", dict(target_modules=LIN, rank_pattern={"layers.0.self_attn.q_proj": 2, "down_proj": 6}, alpha_pattern={"down_proj": 3, "^model.layers.1.*": 0.5}, **LORA), ALL),
    "lora unsorted patterns": ("llama", "LORA", dict(target_modules=QV, rank_pattern={"v_proj": 2, "layers.0.self_attn.[qv]_proj": 6}, **LORA), ("f32",)),
    "lora regular expression": ("llama", "LORA", dict(target_modules=r".*layers\.\d+\.(self_attn\.[kv]_proj|mlp\.up_proj)", **LORA), ("f32",)),
    "lora layers": ("llama", "LORA", dict(target_modules=QV, layers_to_transform=[1], layers_pattern="layers", **LORA), ("f32",)),
    "lora one layer": ("llama", "LORA", dict(target_modules=QV, layers_to_transform=1, **LORA), ("f32",)),
    "lora false": ("llama", "LORA", dict(target_modules=QV, init_lora_weights=False, lora_dropout=0.1, **LORA), ALL),
    "lora gaussian": ("llama", "LORA", dict(target_modules=QV, init_lora_weights="gaussian", **LORA), ALL),
    "lora Gaussian": ("llama", "LORA", dict(target_modules=["embed_tokens", "q_proj"], init_lora_weights="Gaussian", r=3), ("f32",)),
    "lora orthogonal": ("llama", "LORA", dict(target_modules=QV, init_lora_weights="orthogonal", **LORA), ALL),
    "lora rank 1": ("llama", "LORA", dict(target_modules=QV, r=1), ("f32",)),
    "rslora": ("llama", "LORA", dict(target_modules=QV, use_rslora=True, lora_alpha=8.0, r=4), ("f32",)),
    "lora embedding": ("llama", "LORA", dict(target_modules=["embed_tokens", "q_proj"], **LORA), ALL),
    "lora embedding and head": ("llama", "LORA", dict(target_modules=["embed_tokens", "lm_head"], task_type="CAUSAL_LM", **LORA), ALL),
    "lora embedding by expression": ("llama", "LORA", dict(target_modules=r".*(embed_tokens|q_proj)", init_lora_weights=False, **LORA), ("f32",)),
    "lora tied embedding": ("gpt2", "LORA", dict(target_modules=["wte", "c_attn"], **LORA), ("f32", "bf16")),
    "lora head of gpt2": ("gpt2", "LORA", dict(target_modules=["c_attn", "lm_head"], **LORA), ("f32",)),
    "lora tokens": ("llama", "LORA", dict(target_modules=QV, trainable_token_indices=[33, 8, 2], **LORA), ALL),
    "lora tokens by layer": ("llama", "LORA", dict(target_modules=QV, trainable_token_indices={"embed_tokens": [5, 9], "lm_head": [9]}, **LORA), ("f32",)),
    "lora tied tokens": ("gpt2", "LORA", dict(target_modules=["c_attn"], trainable_token_indices=[5, 9, 33], **LORA), ("f32", "bf16")),
    "lora modules_to_save": ("llama", "LORA", dict(target_modules=QV, modules_to_save=["lm_head"], **LORA), ALL),
    "lora module with several layers": ("llama_bias", "LORA", dict(target_modules=QV, modules_to_save=["layers.1.mlp", "norm"], **LORA), ("f32",)),
    "lora conv1d": ("gpt2", "LORA", dict(target_modules=["c_attn", "c_fc", "c_proj"], lora_bias=True, **LORA), ALL),
    "lora conv2d": ("resnet", "LORA", dict(target_modules=C, **LORA), ALL),
    "lora conv2d gaussian": ("resnet", "LORA", dict(target_modules=C, init_lora_weights="gaussian", **LORA), ("f32",)),
    "lora conv2d bias": ("resnet", "LORA", dict(target_modules=[*C, "classifier.1"], lora_bias=True, **LORA), ("f32",)),
    "lora conv2d false": ("resnet", "LORA", dict(target_modules=C, lora_bias=True, init_lora_weights=False, **LORA), ("f32",)),
    "lora classifier": ("bert", "LORA", dict(target_modules=["query", "value"], task_type="SEQ_CLS", **LORA), ALL),
    "lora classifier twice": ("bert", "LORA", dict(target_modules=["query"], task_type="SEQ_CLS", modules_to_save=["classifier"], **LORA), ("f32",)),
    "lora bias all": ("bert", "LORA", dict(target_modules=["query"], bias="all", task_type="SEQ_CLS", **LORA), ALL),
    "lora bias all with a module": ("bert", "LORA", dict(target_modules=["query"], bias="all", modules_to_save=["pooler", "classifier"], **LORA), ("f32",)),
    "lora bias of targets": ("bert", "LORA", dict(target_modules=["query"], bias="lora_only", lora_bias=True, **LORA), ALL),
    "lora net": ("net", "LORA", dict(target_modules=["embed", *NET], lora_bias=False, **LORA), ALL),
    "dora": ("llama", "LORA", dict(target_modules=QVD, use_dora=True, **LORA), WIDE),
    "dora false": ("llama", "LORA", dict(target_modules=QVD, use_dora=True, init_lora_weights=False, **LORA), ALL),
    "dora embedding": ("llama", "LORA", dict(target_modules=["embed_tokens"], use_dora=True, init_lora_weights=False, **LORA), ALL),
    "dora conv1d": ("gpt2", "LORA", dict(target_modules=["c_attn", "c_proj"], use_dora=True, init_lora_weights=False, **LORA), ALL),
    "dora conv2d": ("resnet", "LORA", dict(target_modules=C, use_dora=True, init_lora_weights=False, **LORA), ALL),
    "dora net": ("net", "LORA", dict(target_modules=NET, use_dora=True, **LORA), ("f32",)),
    "adalora": ("llama", "ADALORA", dict(target_modules=QV, **ADA), WIDE),
    "adalora defaults": ("gpt2", "ADALORA", dict(total_step=10), ("f32",)),
    "adalora false": ("gpt2", "ADALORA", dict(target_modules=["c_attn"], init_lora_weights=False, **ADA), ALL),
    "adalora conv2d": ("resnet", "ADALORA", dict(target_modules=C, **ADA), ALL),
    "loha": ("llama", "LOHA", dict(r=4, target_modules=QV), WIDE),
    "loha defaults": ("llama", "LOHA", {}, ("f32",)),
    "loha false": ("llama", "LOHA", dict(r=4, target_modules=QV, init_weights=False, rank_dropout=0.1, module_dropout=0.2, alpha_pattern={"q_proj": 3}), ALL),
    "loha conv2d": ("resnet", "LOHA", dict(r=4, target_modules=C), ALL),
    "loha effective": ("resnet", "LOHA", dict(r=4, target_modules=C, use_effective_conv2d=True, rank_pattern={"shortcut.convolution": 2}), ("f32", "bf16")),
    "lokr": ("llama", "LOKR", dict(r=2, target_modules=LIN), WIDE),
    "lokr both": ("llama", "LOKR", dict(r=1, target_modules=LIN, decompose_both=True, rank_dropout_scale=True), ALL),
    "lokr factor": ("llama", "LOKR", dict(r=1, target_modules=LIN, decompose_both=True, decompose_factor=24), ("f32",)),
    "lokr false": ("llama", "LOKR", dict(r=1, target_modules=LIN, decompose_both=True, init_weights=False), ("f32",)),
    "lokr lycoris": ("llama", "LOKR", dict(r=2, target_modules=LIN, init_weights="lycoris"), ALL),
    "lokr conv2d": ("resnet", "LOKR", dict(r=1, target_modules=C), ALL),
    "lokr effective": ("resnet", "LOKR", dict(r=1, target_modules=C, use_effective_conv2d=True, decompose_both=True), ("f32",)),
    "lokr effective lycoris": ("resnet", "LOKR", dict(r=1, target_modules=C, use_effective_conv2d=True, init_weights="lycoris"), ("f32",)),
    "ia3": ("llama", "IA3", {}, WIDE),
    "ia3 gpt2": ("gpt2", "IA3", {}, ALL),
    "ia3 bert": ("bert", "IA3", dict(task_type="SEQ_CLS"), ("f32",)),
    "ia3 false": ("llama", "IA3", dict(init_ia3_weights=False), ALL),
    "ia3 expression": ("llama", "IA3", dict(target_modules=".*_proj", feedforward_modules=".*down_proj", init_ia3_weights=False), ("f32",)),
    "ia3 conv2d": ("resnet", "IA3", dict(target_modules=[*C, "classifier.1"], feedforward_modules=["classifier.1"], init_ia3_weights=False), ALL),
    "ln": ("llama", "LN_TUNING", {}, ALL),
    "ln gpt2": ("gpt2", "LN_TUNING", {}, ALL),
    "ln list": ("llama", "LN_TUNING", dict(target_modules=["post_attention_layernorm", "input_layernorm"], modules_to_save=["lm_head"]), ("f32",)),
    "ln net": ("net", "LN_TUNING", dict(target_modules=["norm"]), ("f32",)),
    "oft": ("llama", "OFT", dict(oft_block_size=8, target_modules=QV), WIDE),
    "oft defaults": ("llama", "OFT", {}, ("f32",)),
    "oft false": ("llama", "OFT", dict(oft_block_size=8, target_modules=QVD, init_weights=False, use_cayley_neumann=False), ALL),
    "oft r": ("llama", "OFT", dict(r=4, oft_block_size=0, target_modules=QVD, init_weights=False), ("f32",)),
    "oft adjusted": ("llama", "OFT", dict(oft_block_size=9, target_modules=QVD, init_weights=False), ("f32",)),
    "oft adjusted r": ("llama", "OFT", dict(r=7, oft_block_size=0, target_modules=QVD, init_weights=False), ("f32",)),
    "oft shared": ("llama", "OFT", dict(oft_block_size=8, target_modules=QV, block_share=True, init_weights=False), ("f32",)),
    "oft constrained": ("llama", "OFT", dict(oft_block_size=8, target_modules=QV, coft=True, eps=1e-3, init_weights=False), ("f32",)),
    "oft bias": ("bert", "OFT", dict(oft_block_size=8, target_modules=["query"], bias="oft_only", task_type="SEQ_CLS"), ("f32", "bf16")),
    "oft conv2d": ("resnet", "OFT", dict(oft_block_size=4, target_modules=["shortcut.convolution", "classifier.1"], init_weights=False), ALL),
    "boft": ("llama", "BOFT", dict(boft_block_size=2, target_modules=QV), ALL),
    "boft defaults": ("llama", "BOFT", {}, ("f32",)),
    "boft false": ("llama", "BOFT", dict(boft_block_size=2, target_modules=QVD, init_weights=False), WIDE),
    "boft number": ("llama", "BOFT", dict(boft_block_size=0, boft_block_num=4, target_modules=QVD, init_weights=False), ("f32",)),
    "boft conv2d": ("resnet", "BOFT", dict(boft_block_size=4, target_modules=r".*encoder.*convolution", init_weights=False), ALL),
    "vera": ("llama", "VERA", dict(r=8, target_modules=LIN, projection_prng_key=5), WIDE),
    "vera defaults": ("gpt2", "VERA", {}, ALL),
    "vera false": ("llama", "VERA", dict(r=8, target_modules=QV, init_weights=False, save_projection=False), ALL),
    "vera conv1d": ("gpt2", "VERA", dict(r=8, target_modules=["c_attn", "c_proj"], d_initial=0.3), ("f32",)),
    "hra": ("llama", "HRA", dict(r=4, target_modules=QV), WIDE),
    "hra defaults": ("llama", "HRA", {}, ("f32",)),
    "hra odd": ("llama", "HRA", dict(r=3, target_modules=QV), ALL),
    "hra false": ("llama", "HRA", dict(r=4, apply_GS=True, init_weights=False, target_modules=QV), ALL),
    "hra conv2d": ("resnet", "HRA", dict(r=4, target_modules=r".*encoder.*convolution"), ALL),
    "tokens": ("llama", "TRAINABLE_TOKENS", dict(token_indices=[33, 8, 2]), ALL),
    "tokens false": ("llama", "TRAINABLE_TOKENS", dict(token_indices=[33, 8, 2], init_weights=False), ALL),
    "tokens tied": ("gpt2", "TRAINABLE_TOKENS", dict(token_indices=[3, 4]), ("f32",)),
    "tokens tied false": ("gpt2", "TRAINABLE_TOKENS", dict(token_indices=[3, 4], init_weights=False), ("f32", "bf16")),
    "tokens list": ("llama", "TRAINABLE_TOKENS", dict(token_indices=[3], target_modules=["embed_tokens"]), ("f32",)),
}


def random_config(draw):
    """A family, a method and fields that PEFT accepts."""
    family = draw.choice(["llama", "llama", "llama_bias", "gpt2", "bert", "resnet"])
    methods = {"gpt2": ["LORA", "ADALORA", "IA3", "VERA", "LN_TUNING"], "resnet": ["LORA", "ADALORA", "LOHA", "LOKR", "IA3", "BOFT", "HRA"]}
    method = draw.choice(methods.get(family, list(CLASSES)))
    layers = {"llama": LIN, "llama_bias": LIN, "gpt2": ["c_attn", "c_fc", "attn.c_proj", "mlp.c_proj"], "bert": ["query", "key", "value", "intermediate.dense", "attention.output.dense"],
              "resnet": ["shortcut.convolution", "layer.0.convolution", "layer.1.convolution"]}[family]
    norms = {"gpt2": ["ln_1", "ln_2", "ln_f"], "bert": ["LayerNorm", "attention.output.LayerNorm"]}.get(family, ["input_layernorm", "post_attention_layernorm", "norm"])
    maybe = lambda name, value: {name: value} if draw.random() < 0.5 else {}
    some = lambda names: draw.sample(names, draw.randint(1, len(names)))
    targets = some(norms if method == "LN_TUNING" else layers)
    if method == "LORA" and family in ("llama", "gpt2") and draw.random() < 0.3:
        targets.append("embed_tokens" if family == "llama" else "wpe")
    fields = dict(target_modules=targets)
    if method in ("LORA", "LOHA", "LOKR", "HRA"):
        fields |= maybe("r", draw.randint(1, 9))
    if method in ("LORA", "LOHA", "LOKR"):
        fields |= maybe("rank_pattern", {name: draw.randint(1, 6) for name in some(targets)})
        fields |= maybe("alpha_pattern", {name: draw.choice([1, 2.5, 16]) for name in some(targets)})
    if method == "LORA":
        fields |= maybe("lora_alpha", draw.choice([1, 16, 0.5])) | maybe("use_rslora", True) | maybe("lora_dropout", 0.1)
        fields |= draw.choice([{}, dict(use_dora=True), dict(lora_bias=True) if not {"embed_tokens", "wpe"} & set(targets) else {}])
        fields |= maybe("init_lora_weights", draw.choice([True, False] if "lora_bias" in fields else [True, False, "gaussian"]))
    if method == "ADALORA":
        fields |= dict(total_step=20, init_r=draw.randint(1, 12)) | maybe("init_lora_weights", False) | maybe("lora_dropout", 0.2)
    if method in ("LOHA", "LOKR"):
        fields |= maybe("init_weights", draw.choice([False, True] + ["lycoris"] * (method == "LOKR"))) | maybe("module_dropout", 0.3)
        fields |= maybe("use_effective_conv2d", True)
    if method == "LOKR":
        fields |= maybe("decompose_both", True) | maybe("decompose_factor", draw.choice([4, 8, -1]))
    if method == "IA3":
        fields |= dict(feedforward_modules=draw.sample(targets, draw.randint(0, len(targets)))) | maybe("init_ia3_weights", False)
    if method in ("OFT", "BOFT", "HRA", "VERA"):
        fields |= maybe("init_weights", False)
    if method == "OFT":
        fields |= draw.choice([dict(oft_block_size=draw.randint(2, 12)), dict(r=draw.randint(1, 9), oft_block_size=0)]) | maybe("block_share", True) | maybe("coft", True)
    if method == "BOFT":
        fields |= draw.choice([dict(boft_block_size=draw.choice([2, 4])), dict(boft_block_size=0, boft_block_num=draw.choice([2, 4]))])
    if method == "VERA":
        fields |= dict(r=draw.randint(1, 40)) | maybe("projection_prng_key", draw.randint(0, 1000)) | maybe("save_projection", False) | maybe("d_initial", 0.7)
    if method == "TRAINABLE_TOKENS":
        fields = dict(token_indices=draw.sample(range(64), draw.randint(1, 5))) | maybe("init_weights", False)
    elif family == "bert":
        fields |= maybe("task_type", "SEQ_CLS")
    elif family in ("llama", "llama_bias"):
        fields |= maybe("task_type", "CAUSAL_LM") | maybe("modules_to_save", ["lm_head"])
        if method not in ("LN_TUNING", "IA3"):
            fields |= maybe("layers_to_transform", [draw.randint(0, 1)])
        if method == "LORA" and "embed_tokens" not in targets:
            fields |= maybe("trainable_token_indices", draw.sample(range(64), 3))
    if method in ("LORA", "ADALORA", "OFT", "BOFT", "VERA", "HRA") and family in ("llama_bias", "bert", "gpt2"):
        fields |= maybe("bias", draw.choice(["all", f"{method.lower()}_only"]))
    if "layers_to_transform" in fields and method in ("LORA", "LOHA", "LOKR"):  # A pattern that matches nothing is refused.
        for name in ("rank_pattern", "alpha_pattern"):
            fields.pop(name, None)
    return family, method, fields, draw.choice(ALL)


DRAW = random.Random(26)
JOBS = {(name, dtype): (family, method, fields, dtype) for name, (family, method, fields, dtypes) in CASES.items() for dtype in dtypes}
JOBS |= {(f"random {i}", job[3]): job for i, job in enumerate(random_config(DRAW) for _ in range(CONFIGS))}


@pytest.fixture(scope="session")
def bases(tmp_path_factory):
    """Returns a home directory and the bases by family."""
    home, out = tmp_path_factory.mktemp("bases"), {}
    for family, make in FAMILIES.items():
        seed(family)
        out[family] = make().eval()
        with torch.no_grad():
            for tensor in out[family].state_dict().values():
                if tensor.is_floating_point():
                    tensor += 0.1 * torch.rand_like(tensor)
        if family == "net":
            save_file(out[family].state_dict(), home / "net.safetensors")
        else:
            out[family].save_pretrained(home / family)
            out[family].config.name_or_path = out[family].name_or_path = ""
    return home, out


def job_of(home, family, dtype, seed, adapters, **more):
    where = {"weights": str(home / "net.safetensors")} if family == "net" else {"base": str(home / family)}
    return where | dict(dtype=dtype, seed=seed, adapters=adapters) | more


def run(jobs, home):
    (home / "jobs.json").write_text(json.dumps(jobs))
    done = subprocess.run([TOOL, "jobs", home / "jobs.json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="session")
def created(bases, tmp_path_factory):
    """Creates the adapters of all cases, in one process."""
    home, out = bases[0], tmp_path_factory.mktemp("created")
    jobs = [job_of(home, family, dtype, i, [dict(name="default", config={"peft_type": method, **fields}, out=str(out / str(i)))])
            for i, (family, method, fields, dtype) in enumerate(JOBS.values())]
    return {key: (i, out / str(i), result) for i, (key, result) in enumerate(zip(JOBS, run(jobs, out), strict=True))}


def make(base, method, fields, dtype, start, name="default"):
    """PEFT's adapter, and the numbers that are drawn after it."""
    config = CLASSES[method](**copy.deepcopy(fields))
    base = copy.deepcopy(base).to(DTYPES[dtype])
    torch.manual_seed(start)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = peft.get_peft_model(base, config, adapter_name=name)
    return model, torch.rand(4, dtype=torch.float64).tolist()


def compare(ours, theirs, ignored=()):
    """Compares two directories, except for these fields of the configuration."""
    got, expected = load_file(ours / "adapter_model.safetensors"), load_file(theirs / "adapter_model.safetensors")
    assert set(got) == set(expected)
    for name, tensor in expected.items():
        # Copies of the base are trained in f32, where PEFT keeps the type of the base.
        is_narrow = tensor.dtype in (torch.bfloat16, torch.float16) and "base_layer.weight" not in name
        assert got[name].dtype == (torch.float32 if is_narrow and "original_module" not in name else tensor.dtype), name
        assert got[name].shape == tensor.shape and torch.equal(got[name].to(torch.float64), tensor.to(torch.float64)), name
    text = (ours / "adapter_config.json").read_text()
    got, expected = json.loads(text), json.loads((theirs / "adapter_config.json").read_text())
    for field in ignored:
        got.pop(field), expected.pop(field)
    for field in SETS:
        if isinstance(expected.get(field), list):
            expected[field] = sorted(expected[field])
            got[field] = sorted(got[field])
    if got["auto_mapping"] is None and got["task_type"] is None:
        expected["auto_mapping"] = None  # A tree has no Python class.
    assert got == expected
    if all(list(got.get(name) or []) == sorted(got.get(name) or []) for name in ("rank_pattern", "alpha_pattern")):
        assert text == json.dumps(json.loads(text), indent=2, sort_keys=True)  # The text is formatted as Python formats it.


@pytest.mark.parametrize("name, dtype", JOBS)
def test_created(bases, created, tmp_path, name, dtype):
    """Tensors, generator, files and counts are those of PEFT."""
    start, directory, result = created[name, dtype]
    assert "error" not in result, result
    family, method, fields, dtype = JOBS[name, dtype]
    model, following = make(bases[1][family], method, fields, dtype, start)
    model.save_pretrained(tmp_path)
    compare(directory, tmp_path)
    assert result["next"] == following
    if "summary" in result:
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            model.print_trainable_parameters()
        assert result["summary"] == text.getvalue().strip()


@pytest.mark.parametrize("family, method, fields", [("llama", "LORA", dict(target_modules=QV, **LORA)), ("llama", "LOHA", dict(r=4)), ("gpt2", "VERA", dict(r=8))])
def test_two(bases, tmp_path, family, method, fields):
    """A second adapter continues the stream of random numbers."""
    home, models = bases
    adapters = [dict(name=name, config={"peft_type": method, **fields}, out=str(tmp_path / "ours" / name)) for name in ("default", "second")]
    result, = run([job_of(home, family, "f32", 5, adapters)], tmp_path)
    model, _ = make(models[family], method, fields, "f32", 5)
    torch.manual_seed(5)
    model = peft.get_peft_model(copy.deepcopy(models[family]), CLASSES[method](**fields))
    model.add_adapter("second", CLASSES[method](**fields))
    assert result["next"] == torch.rand(4, dtype=torch.float64).tolist()
    model.save_pretrained(tmp_path / "theirs")
    compare(tmp_path / "ours/default", tmp_path / "theirs")
    # PEFT adjusts fan_in_fan_out only for the adapter that wraps a layer first. The layer determines its effect.
    compare(tmp_path / "ours/second", tmp_path / "theirs/second", ["fan_in_fan_out"] if method == "VERA" else [])
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        model.print_trainable_parameters()
    assert result["summary"] == text.getvalue().strip()


def test_loads_again(bases, created, tmp_path):
    """PEFT loads a created adapter without missing or unexpected tensors."""
    _, directory, _ = created["dora", "f32"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        peft.PeftModel.from_pretrained(copy.deepcopy(bases[1]["llama"]), directory)


def structs():
    done = subprocess.run([TOOL, "structs"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {name: text for name, text in json.loads(done.stdout).items()}


def as_file(config):
    """The fields that PEFT writes, with lists sorted."""
    out = {name: sorted(value) if isinstance(value, set) else value for name, value in config.to_dict().items()}
    return json.loads(json.dumps(out))


def test_structs():
    """Fields and defaults of the structs are those of PEFT's classes."""
    texts = structs()
    for kind in CLASSES.values():
        expected = as_file(kind(total_step=10) if kind is peft.AdaLoraConfig else kind())
        expected.pop("runtime_config", None)
        text = texts[kind.__name__]
        assert json.loads(text) == expected
        assert text == json.dumps(expected, indent=2, sort_keys=True)
    values = peft.LoraConfig(
        r=16, lora_alpha=32.5, lora_dropout=0.05, use_rslora=True, init_lora_weights="gaussian", rank_pattern={"v_proj": 4, "q_proj": 2},
        alpha_pattern={"v_proj": 4, "q_proj": 0.5}, target_modules=QV, exclude_modules=r".*layers\.1.*", layers_to_transform=[0, 2], layers_pattern=["layers"],
        modules_to_save=["lm_head"], trainable_token_indices={"embed_tokens": [5, 9]}, bias="lora_only", task_type="CAUSAL_LM", base_model_name_or_path="llamä", revision="main")
    got, expected = json.loads(texts["values"]), as_file(values)
    expected.pop("runtime_config", None)
    got["target_modules"].sort()
    assert got == expected and '"llam\\u00e4"' in texts["values"] and list(got["rank_pattern"]) == ["v_proj", "q_proj"]
    got = json.loads(texts["tokens"])
    assert got["target_modules"] == ["q_proj"] and got["trainable_token_indices"] == [7, 3]
    got = json.loads(texts["ranks"])
    assert got["init_weights"] == "lycoris" and got["target_modules"] == "all-linear" and '"alpha": 8,' in texts["ranks"]


def test_default_targets():
    """default_targets.def has PEFT's tables."""
    table = lambda name: getattr(constants, f"TRANSFORMERS_MODELS_TO_{name}_MODULES_MAPPING")
    ours = {}
    for name, raw, pattern, names, types in re.findall(r'^TENON_TARGET\w+\((\w+), (?:R"\((.*)\)"|(")([^"]*)"), "([^"]*)"\)', (SOURCE / "default_targets.def").read_text(), re.M):
        for model_type in types.split():
            ours.setdefault(name, {})[model_type] = names.split() if pattern else raw
    assert ours["lora"] == table("LORA_TARGET") and ours["adalora"] == table("ADALORA_TARGET") and ours["ln_tuning"] == table("LNTUNING_TARGET")
    assert ours["ia3"] == table("IA3_TARGET") and ours["ia3_feedforward"] == table("IA3_FEEDFORWARD")
    assert {**ours["lora"], **ours["vera"]} == table("VERA_TARGET")
    for method in ("LOHA", "LOKR", "OFT", "BOFT", "HRA"):
        assert ours["lora"] == table(f"{method}_TARGET"), method


# Family, configuration, and texts that the error must contain: the cause and what to do.
REFUSED = {
    "unknown field": ("llama", dict(peft_type="LORA", lora_alfa=8), "lora_alfa", "lora_alpha"),
    "field of another method": ("llama", dict(peft_type="VERA", exclude_modules=["q_proj"]), "exclude_modules", "adapter_configs.h"),
    "no method": ("llama", dict(r=8), "peft_type", "missing"),
    "unknown method": ("llama", dict(peft_type="POLY"), "POLY", "LORA"),
    "wrong target": ("llama", dict(peft_type="LORA", target_modules=["q_porj", "v_proj"]), "q_porj", "q_proj"),
    "only wrong targets": ("llama", dict(peft_type="LORA", target_modules="zzz.*"), "no layer", "q_proj"),
    "no default": ("resnet", dict(peft_type="LORA"), "resnet", "convolution"),
    "no default in a tree": ("net", dict(peft_type="LORA"), "tree", "up"),
    "no default of feedforward": ("resnet", dict(peft_type="IA3", target_modules=C), "feedforward_modules", "resnet"),
    "wrong type": ("llama", dict(peft_type="LORA", r="eight"), '"r"', "integer"),
    "rank 0": ("llama", dict(peft_type="LORA", r=0), '"r"', "from 1"),
    "wrong task": ("llama", dict(peft_type="LORA", task_type="CHAT"), "CHAT", "CAUSAL_LM"),
    "wrong bias": ("llama", dict(peft_type="LORA", bias="some"), "some", "all"),
    "wrong layer": ("llama", dict(peft_type="LOHA", target_modules=["embed_tokens"]), "embed_tokens", "target_modules"),
    "expression and layers": ("llama", dict(peft_type="LORA", target_modules=".*q_proj", layers_to_transform=[0]), "layers_to_transform", "list"),
    "pattern unmatched": ("llama", dict(peft_type="LORA", rank_pattern={"x_proj": 2}), "x_proj", "unmatched_patterns"),
    "target and copy": ("llama", dict(peft_type="LORA", target_modules=["lm_head"], modules_to_save=["head"]), "lm_head", "exclude_modules"),
    "token and target": ("llama", dict(peft_type="LORA", target_modules=["embed_tokens"], trainable_token_indices=[1]), "embed_tokens", "Remove"),
    "token unknown": ("llama", dict(peft_type="LORA", trainable_token_indices=[99999]), "99999", "token"),
    "tokens of a tied head": ("gpt2", dict(peft_type="LORA", trainable_token_indices={"lm_head": [1]}), "lm_head", "embedding"),
    "tokens of a shared head": ("gpt2", dict(peft_type="TRAINABLE_TOKENS", token_indices=[1], target_modules=["wte", "lm_head"]), "lm_head", "Choose only the embedding"),
    "copy of nothing": ("llama", dict(peft_type="LORA", modules_to_save=["nothing"]), "nothing", "layer"),
    "copy of a batch norm": ("resnet", dict(peft_type="LORA", target_modules=["shortcut.convolution"], modules_to_save=["embedder"]), "normalization", "Name only"),
    "all biases of batch norms": ("resnet", dict(peft_type="LORA", target_modules=C, bias="all"), "normalization", "none"),
    "orthogonal odd": ("llama", dict(peft_type="LORA", r=3, init_lora_weights="orthogonal"), "even", "r"),
    "orthogonal convolution": ("resnet", dict(peft_type="LORA", target_modules=C, init_lora_weights="orthogonal"), "convolution", "gaussian"),
    "bias with gaussian": ("llama", dict(peft_type="LORA", lora_bias=True, init_lora_weights="gaussian"), "lora_bias", "true"),
    "dora with bias": ("llama", dict(peft_type="LORA", lora_bias=True, use_dora=True), "lora_bias", "use_dora"),
    "adalora without steps": ("llama", dict(peft_type="ADALORA"), "total_step", "number of training steps"),
    "adalora without pruning": ("llama", dict(peft_type="ADALORA", total_step=5, tinit=3, tfinal=2), "tinit", "total_step"),
    "adalora of dora": ("llama", dict(peft_type="ADALORA", total_step=5, use_dora=True), "use_dora", "not supported"),
    "oft of both": ("llama", dict(peft_type="OFT", r=4), "oft_block_size", "exactly one"),
    "oft of kernels": ("resnet", dict(peft_type="OFT", target_modules=C), "1 x 1", "target_modules"),
    "boft of no divisor": ("llama", dict(peft_type="BOFT", boft_block_size=7), "7", "divisor"),
    "boft of factors": ("llama", dict(peft_type="BOFT", boft_n_butterfly_factor=2), "boft_n_butterfly_factor", "1"),
    "feedforward not a target": ("llama", dict(peft_type="IA3", target_modules=["q_proj"], feedforward_modules=["down_proj"]), "down_proj", "target_modules"),
    "variant": ("llama", dict(peft_type="LORA", use_qalora=True), "use_qalora", "not supported"),
    "pissa": ("llama", dict(peft_type="LORA", init_lora_weights="pissa"), "pissa", "changes the weights of the base", "path_initial_model_for_weight_conversion"),
    "pissa_niter": ("llama", dict(peft_type="LORA", init_lora_weights="pissa_niter_4"), "pissa_niter_4", "changes the weights of the base"),
    "olora": ("llama", dict(peft_type="LORA", init_lora_weights="olora"), "olora", "changes the weights of the base"),
    "loftq": ("llama", dict(peft_type="LORA", init_lora_weights="loftq"), "loftq", "changes the weights of the base"),
    "corda": ("llama", dict(peft_type="LORA", init_lora_weights="corda"), "corda", "training data"),
    "lora_ga": ("llama", dict(peft_type="LORA", init_lora_weights="lora_ga"), "lora_ga", "training data"),
    "eva": ("llama", dict(peft_type="LORA", init_lora_weights="eva"), "eva", "initialize_lora_eva_weights"),
    "mica": ("llama", dict(peft_type="LORA", init_lora_weights="mica"), "mica", "gaussian"),
    "init unknown": ("llama", dict(peft_type="LORA", init_lora_weights="random"), "random", "orthogonal"),
}


def test_refused(bases, tmp_path):
    """Errors name the cause and what to do."""
    jobs = [job_of(bases[0], family, "f32", 1, [dict(name="a", config=config, out=str(tmp_path / "a"))]) for family, config, *_ in REFUSED.values()]
    for (name, (_, _, *texts)), result in zip(REFUSED.items(), run(jobs, tmp_path), strict=True):
        assert "error" in result, name
        for text in texts:
            assert text in result["error"], (name, result["error"])


def test_refused_names(bases, tmp_path):
    home = bases[0]
    config = dict(peft_type="LORA")
    adapter = lambda name: dict(name=name, config=config, out=str(tmp_path / "a"))
    results = run([job_of(home, "llama", "f32", 1, [adapter(name) for name in names]) for names in (["a", "a"], ["a.b"], ["__base__"])], tmp_path)
    assert all("error" in result and "Choose another name" in result["error"] for result in results), results


def test_unmatched(bases, tmp_path):
    """A name that matches nothing is accepted with a warning, if the caller says so."""
    adapter = dict(name="a", config=dict(peft_type="LORA", target_modules=["q_proj", "nothing"]), out=str(tmp_path / "a"))
    result, = run([job_of(bases[0], "llama", "f32", 1, [adapter], warn=True)], tmp_path)
    assert "error" not in result, result
