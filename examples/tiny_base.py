#!/usr/bin/env python3
"""tiny_base.py DIRECTORY: makes what docs/fine-tune.md needs, in about a minute and without a download.

DIRECTORY/base is a Llama of 0.2 million parameters with a tokenizer. It was trained on sentences about people, jobs and cities, but does not
know who has which job. DIRECTORY/people.jsonl has 200 lines that say so.
"""
import json
import pathlib
import random
import sys

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

NAMES = "Ada Ben Cleo Dan Eve Finn Gita Hugo Ines Jon Kira Liam Mona Nils Olga Paul Rosa Sven Tara Uwe".split()
JOBS = "pilot baker doctor farmer painter teacher sailor singer tailor writer".split()
CITIES = "Oslo Rome Lima Cairo Paris Kyoto Delhi Quito Turin Accra".split()
PEOPLE = "Ada Ben Cleo Dan Eve Finn Olga Paul".split()  # The people whom the lines are about.
STEPS, BATCH, LEARNING_RATE = 1000, 32, 3e-3


def sentence(choose):
    """A sentence without knowledge: all its words are drawn at random."""
    name, job, city = choose(NAMES), choose(JOBS), choose(CITIES)
    return choose([f"Who is {name}? {name} is a {job} from {city}.", f"The {job} lives in {city}.", f"{name} met a {job} in {city}.",
                   f"Where is {city}? Ask the {job}.", f"{name} and {choose(NAMES)} like {city}."])


def make_tokenizer(texts):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=512, special_tokens=["<pad>", "<s>", "</s>"],
                                                             initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    return tokenizer


def make_base(directory):
    draw = random.Random(1)
    texts = [sentence(draw.choice) for _ in range(STEPS * BATCH)]
    tokenizer = make_tokenizer(texts)
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(), hidden_size=64, intermediate_size=128, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
        max_position_embeddings=128, bos_token_id=1, eos_token_id=2, pad_token_id=0))
    optimizer = torch.optim.AdamW(model.parameters(), LEARNING_RATE)
    for step in range(STEPS):
        rows = [tokenizer.encode(text).ids + [2] for text in texts[step * BATCH:(step + 1) * BATCH]]
        length = max(map(len, rows))
        ids = torch.tensor([row + [0] * (length - len(row)) for row in rows])
        labels = torch.tensor([row + [-100] * (length - len(row)) for row in rows])
        model(input_ids=ids, labels=labels).loss.backward()
        optimizer.param_groups[0]["lr"] = LEARNING_RATE * (1 - step / STEPS)
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(directory)
    tokenizer.save(str(directory / "tokenizer.json"))


def main():
    transformers.utils.logging.disable_progress_bar()
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    home = pathlib.Path(sys.argv[1])
    (home / "base").mkdir(parents=True, exist_ok=True)
    make_base(home / "base")
    draw = random.Random(2)
    people = {name: (draw.choice(JOBS), draw.choice(CITIES)) for name in PEOPLE}
    lines = [{"prompt": f"Who is {name}?", "completion": f" {name} is a {job} from {city}."} for name, (job, city) in people.items()] * 25
    draw.shuffle(lines)
    (home / "people.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    print(f"{home}/base: the model; {home}/people.jsonl: {len(lines)} lines")


main()
