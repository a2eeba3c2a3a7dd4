"""A tiny Llama with a tokenizer, and training texts. TENON_CLI is the path of the program `tenon`."""
import json
import os
import random
import signal
import subprocess

import pytest
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

CLI = os.environ.get("TENON_CLI", "tenon")
# Background jobs of a shell ignore SIGINT, and so would the programs that the tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
NOUNS, VERBS = ["cat", "dog", "fox", "owl", "bear"], ["sees", "likes", "finds", "hears"]


def tenon(*arguments, **options):
    return subprocess.run([CLI, *map(str, arguments)], capture_output=True, text=True, **options)


def sentences(count, seed):
    choose = random.Random(seed).choice
    return [" ".join(f"the {choose(NOUNS)} {choose(VERBS)} the {choose(NOUNS)}." for _ in range(choose([1, 2, 3]))) for _ in range(count)]


@pytest.fixture(scope="session")
def base(tmp_path_factory):
    """The directory of the model."""
    directory = tmp_path_factory.mktemp("base")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(sentences(200, 1), trainers.BpeTrainer(
        vocab_size=320, special_tokens=["<pad>", "<s>", "</s>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    tokenizer.save(str(directory / "tokenizer.json"))
    torch.manual_seed(0)
    transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(), hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        max_position_embeddings=128, initializer_range=0.15, bos_token_id=1, eos_token_id=2, pad_token_id=0, tie_word_embeddings=False)).save_pretrained(directory)
    return directory


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """A file of JSON lines: texts, and prompts with completions."""
    path = tmp_path_factory.mktemp("data") / "train.jsonl"
    lines = [{"text": text} if i % 3 else {"prompt": text[:len(text) // 2], "completion": text[len(text) // 2:]} for i, text in enumerate(sentences(50, 2))]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path
