"""Patterns of adapter_config.json have the semantics of Python's `re`, and keys keep the order of the file."""
import copy
import json
import os
import random
import re
import shutil
import subprocess
import warnings

import peft
import pytest
import torch
from safetensors.torch import load_file

from conftest import exact, seed
from test_combine import load

TOOL = os.environ["TENON_ADAPTERS_TOOL"]
TEXTS = ["model.layers.0.self_attn.q_proj", "model.layers.11.mlp.down_proj", "layers.3.fc1", "q_proj", "Q_Proj", "a.b\n", "ab.ab", "model layers\t0",
         "x_é_٣.ſK", "\x1c\u2003a", "²_½", "iİıI"]
LITERALS = ["q", "proj", "model", "layers", "0", "_", "a", "b", "i", "é", "{", "}", "]", "#"]
ESCAPES = ["\\" + c for c in "dDwWsSbBAZ.-_tn"] + ["\\x61", "\\u0071", "\\141", "\\1"]
MEMBERS = ["a-z", "0-9", "\\d", "\\w", "\\s", "\\S", "\\W", "\\D", "_", ".", "-", "[", "[:alpha:]", "&&", "é", "^", "\\b", "i", "\\]"]
GROUPS = ["(%s)", "(?:%s)", "(?=%s)", "(?!%s)", "(?<=%s)", "(?<!%s)", "(?>%s)", "(?P<name>%s)", "(?i:%s)", "(?s:%s)", "(?m:%s)", "(?x: %s)", "(?a:%s)", "(?i-s:%s)",
          "(?#text)%s"]
REPEATS = ["*", "+", "?", "*?", "+?", "??", "{2}", "{,2}", "{1,}", "{1,2}", "{0,3}?", "*+", "++", "?+", "{a}"]


def random_pattern(draw, depth=3):
    def atom():
        kind = draw.randrange(10)
        if kind < 3 or depth == 0:
            return draw.choice(LITERALS)
        if kind < 5:
            return draw.choice([*ESCAPES, ".", "^", "$"])
        if kind < 7:
            return "[" + draw.choice(["", "^"]) + "".join(draw.choices(MEMBERS, k=draw.randint(1, 3))) + "]"
        return draw.choice(GROUPS).replace("%s", random_pattern(draw, depth - 1))

    def item():
        return atom() + (draw.choice(REPEATS) if draw.random() < 0.3 else "")
    return "|".join("".join(item() for _ in range(draw.randint(1, 3))) for _ in range(draw.choice([1, 1, 2])))


def python_says(pattern, text):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiled = re.compile(pattern)
    except re.error:
        return None
    return f"{int(bool(compiled.match(text)))} {int(bool(compiled.fullmatch(text)))}"


def ours_says(tmp_path, pairs):
    (tmp_path / "pairs.json").write_text(json.dumps(pairs))
    done = subprocess.run([TOOL, "patterns", tmp_path / "pairs.json"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_random_patterns(tmp_path):
    """Tests four hundred patterns that Python accepts; patterns that Python rejects are rejected."""
    draw, pairs, good = random.Random(1), [], 0
    while good < 400:
        pattern = random_pattern(draw)
        pattern = draw.choice(["%s", r"(.*\.)?(%s)$", ".*%s.*", "(?i).*%s.*", "(?s).*%s.*"]).replace("%s", pattern)
        good += python_says(pattern, "") is not None
        pairs += [[pattern, text] for text in draw.sample(TEXTS, 4)]
    compared = matched = 0
    for (pattern, text), got in zip(pairs, ours_says(tmp_path, pairs), strict=True):
        expected = python_says(pattern, text)
        if expected is None:
            assert got.startswith("refused"), (pattern, got)
        elif not got.startswith("refused"):
            assert got == expected, (pattern, text, got)
            compared, matched = compared + 1, matched + expected.endswith("1")
    assert compared > 4 * 400 * 0.8 and matched > 100  # Only few patterns that Python accepts are rejected.


@pytest.mark.parametrize("pattern, construct", [
    (r"(?:(a)|b\1)+", "a reference to a group inside a repeat"), ("(?=a)*", "a repeat of a lookaround"), (r"(a)(?i:\1)", "a reference to a group where case is ignored"),
    ("(?i)é", "a character outside ASCII where case is ignored"), (r"\N{DIGIT ONE}", "a character by its name"), ("(?R)", "is not one of Python's"), (r"\h", "which Python does not have"),
    ("(?<name>a)", "(?P<name>...)"), ("(*ACCEPT)a", "nothing to repeat"), ("(?<=a*)b", "a lookbehind whose width can vary"), ("q(?i)", "flags of the whole pattern")])
def test_refused_by_name(tmp_path, pattern, construct):
    got, = ours_says(tmp_path, [[pattern, "a"]])
    assert got.startswith("refused") and construct in json.loads(got.removeprefix("refused: "))


@pytest.mark.parametrize("field", ["target_modules", "exclude_modules", "rank_pattern", "layers_pattern", "modules_to_save"])
def test_catastrophic_patterns(goldens, tmp_path, field):
    """Matching stops soon with an error that names the field."""
    config = json.loads((goldens / "lora/adapter_1/adapter_config.json").read_text())
    pattern = r"(([a-z._0-9]+)+)+[!?]"
    config |= {field: {pattern: 4} if field == "rank_pattern" else [pattern] if field == "modules_to_save" else pattern}
    if field == "layers_pattern":
        config["layers_to_transform"] = [0]
    (tmp_path / "adapter_config.json").write_text(json.dumps(config))
    shutil.copy(goldens / "lora/adapter_1/adapter_model.safetensors", tmp_path)
    done = subprocess.run([TOOL, "load", goldens / "base/llama", tmp_path], capture_output=True, text=True, timeout=20)
    assert done.returncode == 1 and field in done.stderr and "limit" in done.stderr, done.stdout + done.stderr


# Cases that std::regex or alphabetical order would handle differently.
FIELDS = {
    "alternative with an anchor": dict(rank_pattern={r"^model.layers.0.self_attn.q_proj|v_proj": 2}),
    "anchor in the middle": dict(alpha_pattern={r"q_proj|^model.layers.1.mlp.down_proj": 3}),
    "POSIX class": dict(rank_pattern={r"[[:alpha:]_proj": 2, r"q[_[:alpha:]]proj": 3, "v_proj": 2}, unmatched="warn"),
    "order of the file": dict(rank_pattern={"v_proj": 2, r"layers.0.self_attn.[qv]_proj": 6}, alpha_pattern={r".*down.*": 5, r"layers.1.mlp.down_proj": 7}),
    "lookbehind": dict(target_modules=r".*(?<=self_attn\.)[qv]_proj"),
    "negative lookahead": dict(target_modules=r"^(?!.*layers\.0).*\.(q_proj|v_proj)$"),
    "flags": dict(target_modules=r"(?i).*\.[QV]_PROJ"),
    "verbose": dict(target_modules="(?x) .* \\. ( q_proj | v_proj )  # two of them"),
    "end": dict(target_modules=r".*\.q_proj\Z", exclude_modules=r".*\b1\b.*"),
    "layers by a pattern": dict(target_modules=["q_proj"], layers_to_transform=[1], layers_pattern=r"(?:lay|block)ers?"),
    "a copy by a pattern": dict(target_modules=["q_proj", "lm_head"], modules_to_save=["lm_head"]),
}


@pytest.mark.parametrize("name", FIELDS)
def test_same_as_peft(goldens, tmp_path, name):
    fields = {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj", "down_proj"], **FIELDS[name]}
    unmatched = fields.pop("unmatched", "refuse")
    base = load(goldens, "llama")
    seed(name)
    model = peft.get_peft_model(copy.deepcopy(base), peft.LoraConfig(init_lora_weights=False, **fields))
    model.save_pretrained(tmp_path / "adapter")
    config = json.loads((tmp_path / "adapter/adapter_config.json").read_text())
    for field in ("rank_pattern", "alpha_pattern"):  # PEFT sorts these keys when it saves, and reads them in any order.
        config[field] = fields.get(field, {})
    (tmp_path / "adapter/adapter_config.json").write_text(json.dumps(config))
    model = exact(peft.PeftModel.from_pretrained(base, tmp_path / "adapter")).eval()
    with torch.no_grad():
        expected = model(load_file(goldens / "inputs/llama.safetensors")["input"]).logits
    done = subprocess.run([TOOL, "use", goldens / "base/llama", goldens / "inputs/llama.safetensors", tmp_path / "adapter", tmp_path / "out", unmatched],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    got = load_file(tmp_path / "out/outputs.safetensors")["out"].double()
    assert (got - expected).abs().max() <= 2e-5 * expected.abs().max()
