"""Small Transformers models, made from configs, and batches for them."""
import dataclasses
from typing import Callable

import pytest
import torch
import transformers as tf

tf.logging.set_verbosity_error()

VOCABULARY = 100
TOKENS = dict(vocab_size=VOCABULARY, bos_token_id=1, eos_token_id=2, pad_token_id=0)
DECODER = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=64, head_dim=8, **TOKENS)
ENCODER = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, max_position_embeddings=130, **TOKENS)
NO_DROPOUT = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)


@dataclasses.dataclass
class Network:
    make: Callable[[], torch.nn.Module]
    batch: Callable[[int, int], dict]  # Of a batch size and a length; without labels.
    labels: str = ""                   # "tokens", "classes", or "" if the model has no loss of its own.
    has_length: bool = True


def ids(batch, length):
    return torch.randint(3, VOCABULARY, (batch, length))


def text(batch, length):
    return dict(input_ids=ids(batch, length))


def masked(batch, length):
    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[0, length - length // 3:] = 0
    return dict(input_ids=ids(batch, length), attention_mask=mask)


def causal(batch, length):
    return dict(masked(batch, length), use_cache=False)


def encoder_decoder(batch, length):
    return dict(masked(batch, length), decoder_input_ids=ids(batch, length), use_cache=False)


def images(batch, length):
    return dict(pixel_values=torch.randn(batch, 3, 32, 32))


def gpt2():
    model = tf.GPT2LMHeadModel(tf.GPT2Config(n_embd=32, n_layer=2, n_head=4, n_positions=130, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, **TOKENS))
    model.loss_type = "ForCausalLM"  # Otherwise Transformers warns about it, which breaks the graph.
    return model


WHISPER = dict(d_model=32, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=64, num_mel_bins=8, max_source_positions=32, dropout=0.0,
               pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, suppress_tokens=None, begin_suppress_tokens=None, vocab_size=VOCABULARY)

NETWORKS = {
    "llama": Network(lambda: tf.LlamaForCausalLM(tf.LlamaConfig(**DECODER)), causal, "tokens"),
    "gemma": Network(lambda: tf.GemmaForCausalLM(tf.GemmaConfig(**DECODER)), causal, "tokens"),
    "qwen2": Network(lambda: tf.Qwen2ForCausalLM(tf.Qwen2Config(**{k: v for k, v in DECODER.items() if k != "head_dim"})), causal, "tokens"),
    "mistral": Network(lambda: tf.MistralForCausalLM(tf.MistralConfig(sliding_window=None, **DECODER)), causal, "tokens"),
    "gpt2": Network(gpt2, causal, "tokens"),
    "opt": Network(lambda: tf.OPTForCausalLM(tf.OPTConfig(hidden_size=32, word_embed_proj_dim=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=64,
                                                          max_position_embeddings=130, dropout=0.0, **TOKENS)), causal, "tokens"),
    "bert": Network(lambda: tf.BertForSequenceClassification(tf.BertConfig(problem_type="single_label_classification", **ENCODER, **NO_DROPOUT)), masked, "classes"),
    "roberta": Network(lambda: tf.RobertaForSequenceClassification(tf.RobertaConfig(problem_type="single_label_classification", **(ENCODER | dict(max_position_embeddings=140)), **NO_DROPOUT)),
                       masked, "classes"),
    "distilbert": Network(lambda: tf.DistilBertForSequenceClassification(tf.DistilBertConfig(problem_type="single_label_classification", dim=32, n_layers=2, n_heads=4, hidden_dim=64, max_position_embeddings=130,
                                                                                           vocab_size=VOCABULARY, pad_token_id=0, dropout=0.0, attention_dropout=0.0, seq_classif_dropout=0.0)), masked, "classes"),
    "vit": Network(lambda: tf.ViTForImageClassification(tf.ViTConfig(problem_type="single_label_classification", hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=32,
                                                                     patch_size=8, **NO_DROPOUT)), images, "classes", has_length=False),
    "t5": Network(lambda: tf.T5ForConditionalGeneration(tf.T5Config(d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, vocab_size=VOCABULARY, decoder_start_token_id=0, dropout_rate=0.0,
                                                                    pad_token_id=0, eos_token_id=1)), encoder_decoder, "tokens"),
    "clip_text": Network(lambda: tf.CLIPTextModel(tf.CLIPTextConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, max_position_embeddings=130, **TOKENS)), masked),
    "whisper_encoder": Network(lambda: tf.models.whisper.modeling_whisper.WhisperEncoder(tf.WhisperConfig(**WHISPER)),
                               lambda batch, length: dict(input_features=torch.randn(batch, 8, 64)), has_length=False),
}


def training_batch(network, batch, length):
    out = network.batch(batch, length)
    if network.labels == "tokens":
        out["labels"] = ids(batch, length)
        out.pop("decoder_input_ids", None)
    elif network.labels == "classes":
        out["labels"] = torch.randint(2, (batch,))
    return out


def results(output):
    """All tensors of a model's output."""
    return [t for t in torch.utils._pytree.tree_leaves(output.to_tuple()) if isinstance(t, torch.Tensor)]


def loss_of(network, output):
    return output.loss if network.labels else output[0].square().mean()


def some(names, short):
    """Parameters of a test, of which all but `short` are marked `long`."""
    return [pytest.param(name, marks=() if name in short else pytest.mark.long) for name in names]
