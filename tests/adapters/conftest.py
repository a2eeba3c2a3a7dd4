"""Golden files: a tiny base model per family, two adapters per case saved by PEFT, and the results of PEFT in f64."""
import copy
import zlib

import peft
import peft.tuners.loha.layer
import pytest
import torch
import transformers
from safetensors.torch import save_file

NAMES = ("adapter_1", "adapter_2")
ROWS = ("__base__", "adapter_1", "adapter_2", "adapter_1")


def seed(text):
    torch.manual_seed(zlib.crc32(text.encode()))


def llama(**more):
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=64,
        max_position_embeddings=32, initializer_range=0.15, use_cache=False, tie_word_embeddings=False, **more))


def gpt2():
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        n_embd=32, n_layer=2, n_head=4, n_inner=48, vocab_size=64, n_positions=32, initializer_range=0.15, use_cache=False))


def resnet():
    return transformers.ResNetForImageClassification(transformers.ResNetConfig(
        num_channels=3, embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], num_labels=5, layer_type="basic", hidden_act="relu"))


def gemma3():
    return transformers.Gemma3ForCausalLM(transformers.Gemma3TextConfig(
        hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=16, vocab_size=64,
        max_position_embeddings=32, query_pre_attn_scalar=12, sliding_window=4, sliding_window_pattern=2, initializer_range=0.15, use_cache=False,
        tie_word_embeddings=False))


def opt():
    return transformers.OPTForCausalLM(transformers.OPTConfig(
        hidden_size=32, ffn_dim=48, num_hidden_layers=2, num_attention_heads=4, vocab_size=64, word_embed_proj_dim=24, max_position_embeddings=32,
        init_std=0.15, use_cache=False))


FAMILIES = {"llama": llama, "llama_bias": lambda: llama(attention_bias=True, mlp_bias=True), "gpt2": gpt2, "resnet": resnet, "gemma3": gemma3,
            "opt": opt}
QVD = ["q_proj", "v_proj", "down_proj"]
# Family, configuration of both adapters, and overrides for the second.
CASES = {
    "lora": ("llama", dict(r=4, lora_alpha=8, target_modules=QVD), dict(r=8, lora_alpha=4)),
    "lora_subset": ("llama", dict(r=4, target_modules=["q_proj", "v_proj"]), dict(target_modules=["o_proj", "q_proj"], layers_to_transform=[1])),
    "lora_pattern": ("llama", dict(r=4, target_modules=r".*layers\.\d+\.(self_attn\.[kv]_proj|mlp\.up_proj)"), dict(r=3)),
    "lora_all": ("llama", dict(r=4, lora_alpha=8, target_modules="all-linear", exclude_modules=["gate_proj"],
                               rank_pattern={"layers.0.self_attn.q_proj": 2, "down_proj": 6},
                               alpha_pattern={"v_proj": 16, "^model.layers.1.mlp.down_proj": 3}), {}),
    "rslora": ("llama", dict(r=4, lora_alpha=8, use_rslora=True, target_modules=QVD), {}),
    "lora_bias": ("llama_bias", dict(r=4, lora_alpha=8, lora_bias=True, target_modules=QVD), {}),
    "lora_embedding": ("gpt2", dict(r=4, fan_in_fan_out=True, target_modules=["wte", "c_attn"]), dict(r=2)),
    "lora_conv1d": ("gpt2", dict(r=4, fan_in_fan_out=True, target_modules=["c_attn", "c_proj"]), dict(target_modules=["c_fc"])),
    "lora_conv2d": ("resnet", dict(r=4, target_modules=["convolution"]), dict(r=2)),
    "dora": ("llama", dict(r=4, use_dora=True, target_modules=QVD), dict(r=2)),
    "dora_bias": ("llama_bias", dict(r=4, use_dora=True, target_modules=QVD), {}),
    "dora_conv1d": ("gpt2", dict(r=4, use_dora=True, fan_in_fan_out=True, target_modules=["c_attn", "c_proj"]), {}),
    "dora_conv2d": ("resnet", dict(r=4, use_dora=True, target_modules=["convolution"]), {}),
    "adalora": ("llama", dict(init_r=6, target_r=4, lora_alpha=8, total_step=10, target_modules=QVD), dict(inference_mode=True)),
    "adalora_conv2d": ("resnet", dict(init_r=6, target_r=4, total_step=10, target_modules=["convolution"]), dict(inference_mode=True)),
    "ia3": ("llama_bias", dict(target_modules=["k_proj", "v_proj", "down_proj"], feedforward_modules=["down_proj"]), {}),
    "ia3_conv1d": ("gpt2", dict(fan_in_fan_out=True, target_modules=["c_attn", "mlp.c_proj"], feedforward_modules=["mlp.c_proj"]), {}),
    "ia3_conv2d": ("resnet", dict(target_modules=["convolution"], feedforward_modules=[]), {}),
    "vera": ("llama", dict(r=8, target_modules=["q_proj", "v_proj"]), {}),
    "vera_seeded": ("llama", dict(r=8, save_projection=False, projection_prng_key=7, target_modules=["q_proj", "v_proj"]), {}),
    "loha": ("llama", dict(r=4, alpha=8, target_modules=QVD), dict(r=2)),
    "loha_conv2d": ("resnet", dict(r=4, alpha=8, target_modules=["convolution"]), dict(use_effective_conv2d=True)),
    "lokr": ("llama", dict(r=2, alpha=4, target_modules=QVD), dict(r=1, decompose_both=True)),
    "lokr_factor": ("llama", dict(r=2, alpha=4, decompose_factor=16, target_modules=QVD), dict(decompose_factor=24, decompose_both=True)),
    "lokr_conv2d": ("resnet", dict(r=1, alpha=2, target_modules=["convolution"]), dict(use_effective_conv2d=True)),
    "oft": ("llama", dict(r=0, oft_block_size=8, target_modules=QVD), dict(num_cayley_neumann_terms=3)),
    "oft_exact": ("llama", dict(r=0, oft_block_size=8, use_cayley_neumann=False, target_modules=QVD), dict(block_share=True)),
    # The norms of blocks are about 0.75, so the first adapter constrains some blocks of 4 and all of 6.
    "oft_constrained": ("llama", dict(r=0, oft_block_size=8, coft=True, eps=1.5, target_modules=QVD), dict(eps=0.5, block_share=True)),
    "oft_conv2d": ("resnet", dict(r=0, oft_block_size=4, target_modules=r".*shortcut\.convolution"), {}),
    "boft": ("llama_bias", dict(boft_block_size=4, target_modules=QVD), dict(boft_block_size=8)),
    "boft_conv2d": ("resnet", dict(boft_block_size=4, target_modules=r".*encoder.*layer\.\d+\.convolution"), {}),
    "hra": ("llama", dict(r=4, target_modules=QVD), dict(apply_GS=True)),
    "hra_conv2d": ("resnet", dict(r=4, target_modules=r".*encoder.*layer\.\d+\.convolution"), {}),
}
CASES |= {
    "ln": ("llama", dict(target_modules=["input_layernorm", "norm"]), {}),
    "ln_gpt2": ("gpt2", dict(target_modules=["ln_1", "ln_f"]), {}),
    "lora_saved": ("llama", dict(r=4, target_modules=["q_proj"], modules_to_save=["lm_head"]), dict(r=2, modules_to_save=["lm_head", "mlp"])),
    "lora_biases": ("llama_bias", dict(r=4, target_modules=["q_proj", "down_proj"], bias="all"), dict(bias="lora_only")),
    "lora_tokens": ("llama", dict(r=4, target_modules=["q_proj"], trainable_token_indices=[5, 9, 33]), dict(trainable_token_indices=[7])),
    "lora_tokens_head": ("llama", dict(r=4, target_modules=["q_proj"], trainable_token_indices={"embed_tokens": [5, 9], "lm_head": [9, 33]}), {}),
    "lora_tied_tokens": ("gpt2", dict(r=4, fan_in_fan_out=True, target_modules=["c_attn"], trainable_token_indices=[5, 9, 33]), {}),
    "tokens": ("llama", dict(token_indices=[5, 9, 33]), dict(token_indices=[7])),
    "lora_embed_tokens": ("llama", dict(r=4, target_modules=["embed_tokens", "lm_head"]), dict(r=2)),
    "lora_gemma3": ("gemma3", dict(r=4, lora_alpha=8, target_modules=["embed_tokens", "q_proj", "down_proj"]), dict(r=2)),
    "ln_gemma3": ("gemma3", dict(target_modules=["input_layernorm", "q_norm", "norm"]), {}),
    "lora_opt": ("opt", dict(r=4, lora_alpha=8, target_modules=["v_proj", "fc1", "project_in"]), dict(r=2)),
}
# Cases whose two adapters PEFT cannot activate together: two copies of a layer, two adapters with biases, two with tokens.
NOT_TOGETHER = ("dora", "ln", "lora_saved", "lora_biases", "lora_tokens", "lora_tied_tokens", "tokens")
METHODS = {"adalora": peft.AdaLoraConfig, "ia3": peft.IA3Config, "vera": peft.VeraConfig, "loha": peft.LoHaConfig, "lokr": peft.LoKrConfig,
           "oft": peft.OFTConfig, "boft": peft.BOFTConfig, "hra": peft.HRAConfig, "ln": peft.LNTuningConfig, "tokens": peft.TrainableTokensConfig}


def loha_over_kernels(t1, w1a, w1b, t2, w2a, w2b, scale):
    """PEFT's formula, differentiated by autograd: PEFT's own backward uses the product of the other factor for w1_a and w2_a."""
    one = lambda t, b, a: torch.einsum("ijkl,jr,ip->prkl", t, b, a)
    return one(t1, w1b, w1a) * one(t2, w2b, w2a) * scale


peft.tuners.loha.layer.make_weight_cp = loha_over_kernels


def exact(model):
    """Returns a copy that computes in f64 throughout; Llama computes norms and RoPE angles in f32."""
    from transformers.models.llama import modeling_llama as m
    model = copy.deepcopy(model).double()
    for module in model.modules():
        if isinstance(module, m.LlamaRMSNorm):
            module.forward = (lambda self: lambda x: self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)))(module)
    return model


def make_base(family, home):
    seed(family)
    model = FAMILIES[family]().eval()
    with torch.no_grad():
        for tensor in model.state_dict().values():
            if tensor.is_floating_point():
                tensor += 0.1 * torch.rand_like(tensor)  # Avoids zero biases, norm weights of 1 and negative variances.
    model.save_pretrained(home / "base" / family)
    model.config.name_or_path = model.name_or_path = ""
    given = torch.randn(len(ROWS), 3, 32, 32) if family == "resnet" else torch.randint(3, 64, (len(ROWS), 6))
    (home / "inputs").mkdir(exist_ok=True)
    save_file({"input": given}, home / "inputs" / f"{family}.safetensors")
    return model, given


def make_case(name, home, base, given):
    family, both, second = CASES[name]
    for adapter, fields in zip(NAMES, (both, {**both, **second})):
        seed(f"{name} {adapter}")
        model = peft.get_peft_model(copy.deepcopy(base), METHODS.get(name.split("_")[0], peft.LoraConfig)(**fields), adapter_name=adapter)
        with torch.no_grad():
            for path, parameter in model.named_parameters():
                is_bias = fields.get("bias") and parameter.requires_grad and path.endswith(".bias")
                if (adapter in path.split(".") or is_bias) and "ranknum" not in path:
                    change = 0.1 * torch.randn_like(parameter)
                    parameter.mul_(1 + change) if "magnitude" in path else parameter.add_(change)
        model.save_pretrained(home / name, selected_adapters=[adapter])
    given = given.double() if given.is_floating_point() else given
    if name == "lora_biases":  # PEFT supports one such adapter at a time and writes its biases into the base.
        return alone(name, home, base, given)
    model = peft.PeftModel.from_pretrained(copy.deepcopy(base), home / name / NAMES[0], adapter_name=NAMES[0])
    model.load_adapter(home / name / NAMES[1], NAMES[1])
    model = exact(model).eval()
    run = lambda: model(given).logits
    out = {}
    with torch.no_grad():
        with model.disable_adapter():
            out["out.disabled"] = run()
        for adapter in NAMES:
            model.set_adapter(adapter)
            out[f"out.{adapter}"] = run()
        out["out.base"] = out["out.disabled"].clone()
        rows = {"__base__": out["out.base"], **{adapter: out[f"out.{adapter}"] for adapter in NAMES}}
        out["out.mixed"] = torch.stack([rows[row][i] for i, row in enumerate(ROWS)])
        if not name.startswith(NOT_TOGETHER):
            model.base_model.set_adapter(list(NAMES))
            out["out.both"] = run()
        model.set_adapter(NAMES[0])
        model.merge_adapter()
        out["out.merged_1"] = run()
        model.unmerge_adapter()
        out["out.unmerged_1"] = run()
    for adapter in NAMES:
        out |= all_gradients(trainable(name, adapter, home, base), adapter, given)
    assert min((out[f"out.{adapter}"] - out["out.base"]).abs().max() for adapter in NAMES) > 1e-3
    save_file({key: value.contiguous() for key, value in out.items()}, home / name / "expected.safetensors")


def gradients(model, adapter, given):
    """Returns the gradients of the adapter's parameters, keyed by their names in its file."""
    model.zero_grad()
    (model(given).logits.pow(2).sum() / 1000).backward()
    out = {}
    for path, parameter in model.named_parameters():
        if parameter.grad is not None and ("ranknum" not in path):
            key = path.removeprefix("base_model.model.").replace(f".modules_to_save.{adapter}", "").replace(f".{adapter}", "").replace("lora_magnitude_vector.weight", "lora_magnitude_vector")
            out[key] = parameter.grad.clone()
    return out


def trainable(name, adapter, home, base):
    return exact(peft.PeftModel.from_pretrained(copy.deepcopy(base), home / name / adapter, adapter_name=adapter, is_trainable=True)).eval()


def all_gradients(model, adapter, given):
    """Returns the gradients of the whole batch, and of the samples that use the adapter in a mixed batch."""
    mine = [i for i, row in enumerate(ROWS) if row == adapter]
    return {f"grad.{adapter}.{key}": value for key, value in gradients(model, adapter, given).items()} | {
        f"mixed_grad.{adapter}.{key}": value for key, value in gradients(model, adapter, given[mine]).items()}


def alone(name, home, base, given):
    out = {"out.base": exact(base).eval()(given).logits.detach()}
    rows = {"__base__": out["out.base"]}
    for adapter in NAMES:
        model = trainable(name, adapter, home, base)
        rows[adapter] = out[f"out.{adapter}"] = model(given).logits.detach()
        out |= all_gradients(model, adapter, given)
    out["out.disabled"] = out["out.base"].clone()
    out["out.merged_1"] = out["out.unmerged_1"] = out["out.adapter_1"]
    out["out.mixed"] = torch.stack([rows[row][i] for i, row in enumerate(ROWS)])
    save_file({key: value.contiguous().clone() for key, value in out.items()}, home / name / "expected.safetensors")


@pytest.fixture(scope="session")
def goldens(tmp_path_factory):
    home = tmp_path_factory.mktemp("goldens")
    bases = {family: make_base(family, home) for family in FAMILIES}
    for name in CASES:
        make_case(name, home, *bases[CASES[name][0]])
    return home
