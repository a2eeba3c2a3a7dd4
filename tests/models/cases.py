"""Tiny models of every family, created by Transformers with fixed seeds."""
import zlib

import torch
import transformers as t

TINY = dict(vocab_size=97, hidden_size=32, intermediate_size=56, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            max_position_embeddings=512, bos_token_id=1, eos_token_id=2)
LLAMA3 = dict(rope_type="llama3", rope_theta=50000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64)
BERT = dict(vocab_size=97, hidden_size=32, intermediate_size=56, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=128)
GPT2 = dict(vocab_size=97, n_embd=32, n_layer=2, n_head=4, n_positions=512, bos_token_id=1, eos_token_id=2)
# Windows are shorter than the inputs, and softcaps are near the largest scores.
GEMMA = dict(**TINY, head_dim=16)
GEMMA2 = dict(**GEMMA, query_pre_attn_scalar=12, sliding_window=6, attn_logit_softcapping=3.0, final_logit_softcapping=1.0)
GEMMA3 = dict(**{**GEMMA, "num_hidden_layers": 3}, query_pre_attn_scalar=12, sliding_window=6, sliding_window_pattern=2,
              rope_parameters={"full_attention": dict(rope_type="linear", rope_theta=1e6, factor=8.0),
                               "sliding_attention": dict(rope_type="default", rope_theta=1e4)})
QWEN3 = dict(**TINY, head_dim=16)
OPT = dict(vocab_size=97, hidden_size=32, ffn_dim=56, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=512, bos_token_id=1,
           eos_token_id=2, pad_token_id=0)

CAUSAL = {
    "llama": lambda: t.LlamaForCausalLM(t.LlamaConfig(**TINY)),
    "llama_tied_bias": lambda: t.LlamaForCausalLM(t.LlamaConfig(**TINY, tie_word_embeddings=True, attention_bias=True, mlp_bias=True)),
    "llama_rope3": lambda: t.LlamaForCausalLM(t.LlamaConfig(**TINY, rope_parameters=LLAMA3)),
    "llama_linear": lambda: t.LlamaForCausalLM(t.LlamaConfig(**TINY, rope_parameters=dict(rope_type="linear", rope_theta=1e4, factor=2.0))),
    "llama_head_dim": lambda: t.LlamaForCausalLM(t.LlamaConfig(**{**TINY, "num_key_value_heads": 4}, head_dim=16)),
    "mistral": lambda: t.MistralForCausalLM(t.MistralConfig(**TINY, sliding_window=24)),
    "qwen2": lambda: t.Qwen2ForCausalLM(t.Qwen2Config(**TINY)),
    "gpt2": lambda: t.GPT2LMHeadModel(t.GPT2Config(**GPT2)),
    "gemma": lambda: t.GemmaForCausalLM(t.GemmaConfig(**GEMMA)),
    "gemma2": lambda: t.Gemma2ForCausalLM(t.Gemma2Config(**GEMMA2)),
    "gemma3": lambda: t.Gemma3ForCausalLM(t.Gemma3TextConfig(**GEMMA3)),
    "qwen3": lambda: t.Qwen3ForCausalLM(t.Qwen3Config(**QWEN3)),
    "qwen3_window": lambda: t.Qwen3ForCausalLM(t.Qwen3Config(**QWEN3, attention_bias=True, use_sliding_window=True, sliding_window=6,
                                                             max_window_layers=1)),
    "opt": lambda: t.OPTForCausalLM(t.OPTConfig(**OPT)),
    "opt_350m": lambda: t.OPTForCausalLM(t.OPTConfig(**OPT, do_layer_norm_before=False, word_embed_proj_dim=24)),
}
HEAD = dict(num_labels=5, pad_token_id=0)
CLASSIFIERS = {
    "llama_classes": lambda: t.LlamaForSequenceClassification(t.LlamaConfig(**TINY, **HEAD)),
    "mistral_classes": lambda: t.MistralForSequenceClassification(t.MistralConfig(**TINY, **HEAD, sliding_window=6)),
    "qwen2_classes": lambda: t.Qwen2ForSequenceClassification(t.Qwen2Config(**TINY, **HEAD)),
    "qwen3_classes": lambda: t.Qwen3ForSequenceClassification(t.Qwen3Config(**QWEN3, **HEAD)),
    "gemma_classes": lambda: t.GemmaForSequenceClassification(t.GemmaConfig(**GEMMA, **HEAD)),
    "gemma2_classes": lambda: t.Gemma2ForSequenceClassification(t.Gemma2Config(**GEMMA2, **HEAD)),
    "gemma3_classes": lambda: t.Gemma3TextForSequenceClassification(t.Gemma3TextConfig(**GEMMA3, **HEAD)),
    "opt_classes": lambda: t.OPTForSequenceClassification(t.OPTConfig(**{**OPT, **HEAD}, word_embed_proj_dim=24)),
    "gpt2_classes": lambda: t.GPT2ForSequenceClassification(t.GPT2Config(**GPT2, **HEAD)),
}
OTHERS = {
    "bert_masked": lambda: t.BertForMaskedLM(t.BertConfig(**BERT)),
    "bert_classes": lambda: t.BertForSequenceClassification(t.BertConfig(**BERT, num_labels=5)),
    "vit": lambda: t.ViTForImageClassification(t.ViTConfig(hidden_size=32, intermediate_size=56, num_hidden_layers=2, num_attention_heads=4,
                                                           image_size=32, patch_size=8, num_labels=5)),
    "resnet": lambda: t.ResNetForImageClassification(t.ResNetConfig(embedding_size=8, hidden_sizes=[16, 32], depths=[2, 2], num_labels=5)),
    "resnet_basic": lambda: t.ResNetForImageClassification(t.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 2],
                                                                         layer_type="basic", num_labels=5)),
}
ALL = {**CAUSAL, **CLASSIFIERS, **OTHERS}
# Real sizes: 768 wide, 12 layers; ResNet-50.
WIDE = dict(hidden_size=768, intermediate_size=2048, num_hidden_layers=12, num_attention_heads=12, num_key_value_heads=4, vocab_size=32000,
            max_position_embeddings=1024, bos_token_id=1, eos_token_id=2)
REAL = {
    "llama": lambda: t.LlamaForCausalLM(t.LlamaConfig(**WIDE)),
    "mistral": lambda: t.MistralForCausalLM(t.MistralConfig(**WIDE, sliding_window=64)),
    "qwen2": lambda: t.Qwen2ForCausalLM(t.Qwen2Config(**WIDE)),
    "gpt2": lambda: t.GPT2LMHeadModel(t.GPT2Config()),
    "bert_masked": lambda: t.BertForMaskedLM(t.BertConfig()),
    "bert_classes": lambda: t.BertForSequenceClassification(t.BertConfig(num_labels=5)),
    "vit": lambda: t.ViTForImageClassification(t.ViTConfig()),
    "resnet": lambda: t.ResNetForImageClassification(t.ResNetConfig()),
}


def make(name, models=ALL, spread=0.15, seed=None):
    """Returns the model with weights large enough for distinct logits."""
    torch.manual_seed(zlib.crc32(name.encode()) if seed is None else seed)
    model = models[name]().eval()
    with torch.no_grad():
        for key, p in model.named_parameters():
            p.add_(torch.randn_like(p) * (spread if p.dim() > 1 else spread / 3))
        for module in model.modules():
            if hasattr(module, "embed_scale"):  # Gemma's. Otherwise embeddings outweigh the layers, and greedy texts repeat one token.
                module.weight.div_(module.embed_scale)
        for key, b in model.named_buffers():
            if key.endswith(("running_mean", "running_var")):
                b.add_(torch.rand_like(b) * 0.3)
    return model


def inputs(name, batch=3, length=17, image=32):
    torch.manual_seed(5)
    if name.startswith(("vit", "resnet")):
        return {"input": torch.randn(batch, 3, image, image)}
    out = {"input": torch.randint(3, 97, (batch, length)), "mask": torch.ones(batch, length, dtype=torch.int64)}
    out["mask"][1, length - 5:] = 0
    if name in CLASSIFIERS:  # Padding on both sides, and the pad token inside of a text.
        if not name.startswith("gemma2"):  # Transformers gives NaN in f64 where a token attends to nothing: its mask overflows f32's softmax.
            out["mask"][batch - 1, :4] = 0
        out["input"][out["mask"] == 0] = 0
        out["input"][0, 3] = 0
    if name.startswith("bert"):
        out["types"] = torch.randint(0, 2, (batch, length))
    return out


def reference(model, given):
    """Returns the logits of Transformers."""
    names = {"input": "pixel_values" if given["input"].is_floating_point() else "input_ids", "mask": "attention_mask", "types": "token_type_ids"}
    with torch.no_grad():
        return model(**{names[k]: v for k, v in given.items()}).logits
