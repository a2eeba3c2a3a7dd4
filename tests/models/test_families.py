"""Configurations of the families: older forms that mean the same, values that change the result, and refusals. Also the classifiers' pad
token, and the hub's cache."""
import json
import os
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

import cases
from running import check_policy, tool

MISSING = object()


def variant(directory, copy, changes, rename=None):
    """Copies a directory and changes fields of its config.json."""
    copy.mkdir()
    config = json.loads((directory / "config.json").read_text())
    for field, value in changes.items():
        config.pop(field, None)
        if value is not MISSING:
            config[field] = value
    (copy / "config.json").write_text(json.dumps(config))
    if rename:
        tensors = {rename(name): tensor for name, tensor in load_file(directory / "model.safetensors").items()}
        save_file(tensors, copy / "model.safetensors", metadata={"format": "pt"})
    else:
        shutil.copy(directory / "model.safetensors", copy)
    return copy


def run(tmp_path, given, directories):
    save_file(given, tmp_path / "in.safetensors")
    return tool("run", tmp_path / "in.safetensors", *directories).splitlines()


# The form of Transformers 4 and of published files.
ROPE4 = dict(rope_parameters=MISSING, rope_theta=1e6, rope_local_base_freq=1e4, rope_scaling={"factor": 8.0, "rope_type": "linear"})
SAME = [
    ("gemma", dict(hidden_act="gelu", hidden_activation=None, rope_parameters=MISSING, rope_theta=10000.0, rope_scaling=None)),
    ("gemma", dict(hidden_activation="gelu_pytorch_tanh", tie_word_embeddings=MISSING, attention_bias=MISSING, use_bidirectional_attention=None)),
    ("gemma2", dict(layer_types=MISSING, hidden_act="gelu", cache_implementation="hybrid", sliding_window_size=6, tie_word_embeddings=MISSING)),
    ("gemma3", dict(**ROPE4, layer_types=MISSING, sliding_window_pattern=2, _sliding_window_pattern=MISSING, cache_implementation="hybrid")),
    ("gemma3", dict(model_type="gemma3")),
    ("qwen3_window", dict(layer_types=MISSING)),
    ("qwen3", dict(layer_types=MISSING, sliding_window=4096, max_window_layers=MISSING)),
    ("opt", dict(word_embed_proj_dim=MISSING, prefix="</s>", activation_dropout=0.0, _remove_final_layer_norm=False)),
    ("gemma_classes", dict(pad_token_id=MISSING)),
]


def test_forms_that_mean_the_same(saved, tmp_path):
    for number, (name, changes) in enumerate(SAME):
        directory, _ = saved(name)
        copy = variant(directory, tmp_path / str(number), changes)
        first, second = run(tmp_path, cases.inputs(name), [directory, copy])
        assert first.startswith("logits ") and second == first, (name, changes, second)


def test_text_part_of_gemma3(saved, tmp_path):
    """A Gemma3ForCausalLM whose fields are in text_config."""
    directory, _ = saved("gemma3")
    config = json.loads((directory / "config.json").read_text())
    copy = variant(directory, tmp_path / "copy", {})
    outer = {"architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3", "text_config": config, "vision_config": {"hidden_size": 8}}
    (copy / "config.json").write_text(json.dumps(outer))
    first, second = run(tmp_path, cases.inputs("gemma3"), [directory, copy])
    assert first.startswith("logits ") and second == first


def test_names_without_the_first_segment(saved, tmp_path):
    directory, _ = saved("opt")
    copy = variant(directory, tmp_path / "copy", {}, rename=lambda name: name.removeprefix("model."))
    first, second = run(tmp_path, cases.inputs("opt"), [directory, copy])
    assert first.startswith("logits ") and second == first


@pytest.mark.parametrize("name, changes", [
    ("gemma2", dict(attn_logit_softcapping=None)), ("gemma2", dict(final_logit_softcapping=None)), ("gemma2", dict(attn_logit_softcapping=0.5)),
    ("gemma2", dict(layer_types=["full_attention", "sliding_attention"])), ("gemma2", dict(query_pre_attn_scalar=MISSING)),
    ("gemma2", dict(sliding_window=8)), ("gemma3", dict(final_logit_softcapping=2.0)),
    ("gemma3", dict(rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": 500.0}})), ("mistral", dict(sliding_window=None)),
    ("opt", dict(_remove_final_layer_norm=True))])
def test_fields_that_change_the_result(saved, tmp_path, name, changes):
    directory, model = saved(name)
    copy = variant(directory, tmp_path / "copy", changes)
    if "_remove_final_layer_norm" in changes:
        tensors = load_file(directory / "model.safetensors")
        save_file({k: v for k, v in tensors.items() if "decoder.final_layer_norm" not in k}, copy / "model.safetensors", metadata={"format": "pt"})
    theirs = type(model).from_pretrained(copy).eval()
    given = cases.inputs(name, length=31)
    save_file(given, tmp_path / "in.safetensors")
    tool("logits", copy, tmp_path / "in.safetensors", tmp_path / "out.safetensors", "eager")
    rows = given["mask"].bool()
    ours, logits, before = (x[rows] for x in (load_file(tmp_path / "out.safetensors")["logits"], cases.reference(theirs, given), cases.reference(model, given)))
    check_policy(ours, logits, cases.reference(theirs.double(), given)[rows])
    assert (logits - before).abs().max() > 1e-3


@pytest.mark.parametrize("name", ["gemma", "llama", "opt", "gpt2"])
def test_without_a_pad_token(saved, tmp_path, name):
    """The last token counts, and several samples are refused, as in Transformers."""
    directory, model = saved(name + "_classes")
    copy = variant(directory, tmp_path / "copy", dict(pad_token_id=None))
    theirs = type(model).from_pretrained(copy).eval()
    assert theirs.config.pad_token_id is None
    given = cases.inputs(name + "_classes")
    two = {"input": given["input"][:2].contiguous()}
    with pytest.raises(ValueError, match="no padding token"):
        cases.reference(theirs, two)
    assert "pad_token_id" in run(tmp_path, two, [copy])[0]
    one = {"input": given["input"][1:2].contiguous()}
    save_file(one, tmp_path / "in.safetensors")
    tool("logits", copy, tmp_path / "in.safetensors", tmp_path / "out.safetensors", "native")
    check_policy(load_file(tmp_path / "out.safetensors")["logits"], cases.reference(theirs, one), cases.reference(theirs.double(), one))


def test_masks_that_do_not_match_the_pad_token(saved, tmp_path):
    """The pad token alone decides which token counts, even one that the mask hides."""
    directory, model = saved("llama_classes")
    given = cases.inputs("llama_classes")
    given["mask"][0, 12:] = 0
    save_file(given, tmp_path / "in.safetensors")
    tool("logits", directory, tmp_path / "in.safetensors", tmp_path / "out.safetensors", "eager")
    exact = cases.reference(model.double(), given)
    model.float()
    check_policy(load_file(tmp_path / "out.safetensors")["logits"], cases.reference(model, given), exact)


REFUSED = [
    ("gemma", dict(use_bidirectional_attention=True), "use_bidirectional_attention"), ("gemma", dict(hidden_act="silu_new"), "silu_new"),
    ("gemma", dict(hidden_activation="relu"), "hidden_activation"), ("gemma", dict(head_dim=15), "head_dim"),
    ("gemma", dict(rope_parameters={"rope_type": "dynamic", "factor": 2.0}), "rope_type"),
    ("gemma2", dict(layer_types=["full_attention"]), "layer_types"), ("gemma2", dict(layer_types=["full_attention", "chunked_attention"]), "chunked_attention"),
    ("gemma2", dict(sliding_window=None), "sliding_window"), ("gemma2", dict(sliding_window=0), "sliding_window"),
    ("gemma2", dict(attn_logit_softcapping=-1.0), "attn_logit_softcapping"), ("gemma2", dict(attn_logit_softcapping="50"), "attn_logit_softcapping"),
    ("gemma2", dict(query_pre_attn_scalar=0), "query_pre_attn_scalar"), ("gemma2", dict(tie_word_embeddings=False), "lm_head"),
    ("gemma3", dict(attn_logit_softcapping=50.0), "attn_logit_softcapping"), ("gemma3", dict(architectures=["Gemma3ForConditionalGeneration"]), "Gemma3ForCausalLM"),
    ("gemma3", dict(layer_types=MISSING, sliding_window_pattern=0), "sliding_window_pattern"), ("gemma3", dict(partial_rotary_factor=0.5), "partial_rotary_factor"),
    ("gemma3", dict(rope_parameters={"full_attention": {"rope_type": "linear", "factor": 0.0}}), "factor"),
    ("qwen3", dict(hidden_act="gelu"), "hidden_act"), ("qwen3", dict(layer_types=["sliding_attention", "full_attention"]), "sliding_window"),
    ("qwen3", dict(num_key_value_heads=3), "num_key_value_heads"), ("qwen3_window", dict(attention_bias=False), "proj.bias"),
    ("opt", dict(layerdrop=0.1), "layerdrop"), ("opt", dict(layer_norm_elementwise_affine=False), "layer_norm_elementwise_affine"),
    ("opt", dict(word_embed_proj_dim=16), "embed_tokens"), ("opt", dict(max_position_embeddings=100), "embed_positions"),
    ("opt", dict(enable_bias=False), "bias"), ("opt", dict(do_layer_norm_before=False), "final_layer_norm"),
    ("opt", dict(num_attention_heads=5), "num_attention_heads"), ("opt", dict(activation_function="swish7"), "swish7"),
    ("llama_classes", dict(num_labels=4), "num_labels"), ("llama_classes", dict(id2label={"0": "a"}), "score"),
    ("llama_classes", dict(pad_token_id="0"), "pad_token_id"), ("llama_classes", dict(architectures=["LlamaForTokenClassification"]), "LlamaForSequenceClassification"),
]


def test_refusals(saved, tmp_path):
    """Each value of a field that is not supported is refused with the name of the field or tensor."""
    copies = [variant(saved(name)[0], tmp_path / str(i), changes) for i, (name, changes, _) in enumerate(REFUSED)]
    for (name, changes, text), line in zip(REFUSED, run(tmp_path, {"input": torch.zeros(1, 4, dtype=torch.int64)}, copies), strict=True):
        assert text in line and not line.startswith("logits"), (name, changes, line)


def test_classifiers_do_not_generate(saved, tmp_path):
    (tmp_path / "in.json").write_text(json.dumps({"calls": []}))
    with pytest.raises(AssertionError, match="not a causal language model"):
        tool("generate", saved("llama_classes")[0], tmp_path / "in.json", tmp_path / "out.json")


def test_hub_cache(saved, tmp_path):
    """A snapshot of links to blobs loads; a link that leaves the model's folder does not."""
    directory, _ = saved("qwen3")
    repository = tmp_path / "hub/models--org--name"
    good, bad = repository / "snapshots/0123", repository / "snapshots/4567"
    for folder in (repository / "blobs", good, bad):
        folder.mkdir(parents=True)
    for number, name in enumerate(("config.json", "generation_config.json", "model.safetensors")):
        shutil.copy(directory / name, repository / f"blobs/{number}")
        os.symlink(f"../../blobs/{number}", good / name)
        os.symlink(f"../../blobs/{number}" if name == "config.json" else directory / name, bad / name)
    first, second, third = run(tmp_path, cases.inputs("qwen3"), [directory, good, bad])
    assert first.startswith("logits ") and second == first
    assert "symbolic link" in third and "--local-dir" in third
