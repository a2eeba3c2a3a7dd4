"""Compares ids and texts of the C++ tokenizer with those of the Python package `tokenizers`, which is the reference.

TENON_TOKENS_TOOL is the path of tokens_tool. TENON_TOKENS_STRINGS is the count of strings per tokenizer (default 2,500).
"""
import json
import os
import random
import subprocess
import zlib

import pytest

from corpus import Strings, training_lines
from families import BYTE_LEVEL, FAMILIES

TOOL = os.environ.get("TENON_TOKENS_TOOL", "tokens_tool")
STRINGS = int(os.environ.get("TENON_TOKENS_STRINGS", "2500"))


@pytest.fixture(scope="session")
def lines():
    return training_lines()


def run_tool(path, what, values):
    given = "".join(json.dumps(value) + "\n" for value in values)
    run = subprocess.run([TOOL, str(path), what], input=given, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    results = [json.loads(line) for line in run.stdout.split("\n") if line]
    assert len(results) == len(values)
    return results


def same(ours, theirs, inputs):
    assert ours == theirs, next(f"{given!r}: {a} is not {b}" for given, a, b in zip(inputs, ours, theirs) if a != b)


@pytest.mark.parametrize("name", FAMILIES)
def test_equals_the_reference(name, lines, tmp_path):
    make, extras = FAMILIES[name]
    reference = make(lines)
    path = tmp_path / "tokenizer.json"
    reference.save(str(path), pretty=False)
    strings = Strings(zlib.crc32(name.encode()), extras).many(STRINGS)

    encodings = [reference.encode(text).ids for text in strings]
    same(run_tool(path, "encode", strings), encodings, strings)
    some = strings[:500]
    same(run_tool(path, "plain", some), [reference.encode(text, add_special_tokens=False).ids for text in some], some)

    chance = random.Random(name)
    size = reference.get_vocab_size()
    anything = [[chance.randrange(size + 3) for _ in range(chance.randint(0, 12))] for _ in range(1000)]
    ids = encodings + anything
    texts = [reference.decode(one) for one in ids]
    same(run_tool(path, "decode", ids), texts, ids)
    same(run_tool(path, "all", ids), [reference.decode(one, skip_special_tokens=False) for one in ids], ids)
    streamed = run_tool(path, "stream", ids)
    same(["".join(texts_of_one) for texts_of_one in streamed[:len(encodings)]], texts[:len(encodings)], ids)
    if name in BYTE_LEVEL:
        same(["".join(texts_of_one) for texts_of_one in streamed], texts, ids)
        plain = [text for text in strings if not any(extra.strip() in text for extra in extras)]
        same(run_tool(path, "decode", run_tool(path, "encode", plain)), plain, plain)
