"""Every adapter method in its four uses, against PEFT: training with `tenon train`, training with a loop of one's own (adapters_fit), inference
and generation.

Each adapter is created in C++ and trained for 20 steps. Its loss curve is compared with that of PEFT from the same seed and data. Then Tenon
and PEFT load the saved directory: they give the same logits and the same greedy tokens, and PEFT continues the training from it.

By default each method is trained once, in one of the two ways and with its dropout. TENON_METHOD_CASES=all trains it in both ways, compiled
and not compiled, with and without dropout.
"""
import functools
import itertools
import json
import os
import pathlib
import subprocess

import peft
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

from conftest import CLI, tenon
from training import check_policy, collate, examples, new_adapter, make_exact, ours, theirs, values

TOOLS = pathlib.Path(CLI).resolve().parents[1] / "tests"
SEED, STEPS, MORE_STEPS, RATE, DROPOUT = 42, 20, 3, 0.1, 0.1
LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
LORA = dict(peft_type="LORA", r=4, lora_alpha=8, target_modules=LINEAR)
# The configuration, and the fields for the probability of dropout. PEFT never applies the one of OFT.
CASES = {
    "lora": (LORA, ["lora_dropout"]),
    "rslora": (LORA | dict(use_rslora=True), ["lora_dropout"]),
    "dora": (LORA | dict(use_dora=True), ["lora_dropout"]),
    "adalora": (dict(peft_type="ADALORA", init_r=6, target_r=3, tinit=2, tfinal=4, total_step=STEPS, lora_alpha=8, target_modules=LINEAR), ["lora_dropout"]),
    "loha": (dict(peft_type="LOHA", r=4, alpha=8, target_modules=LINEAR), ["rank_dropout"]),
    "loha_modules": (dict(peft_type="LOHA", r=4, alpha=8, target_modules=LINEAR), ["module_dropout"]),
    "lokr": (dict(peft_type="LOKR", r=2, alpha=4, target_modules=LINEAR), ["rank_dropout"]),
    "ia3": (dict(peft_type="IA3"), []),
    "oft": (dict(peft_type="OFT", oft_block_size=8, target_modules=LINEAR), []),
    "coft": (dict(peft_type="OFT", oft_block_size=8, coft=True, eps=0.05, target_modules=LINEAR), []),
    "boft": (dict(peft_type="BOFT", target_modules=LINEAR), ["boft_dropout"]),
    "vera": (dict(peft_type="VERA", r=8, target_modules=LINEAR), ["vera_dropout"]),
    "hra": (dict(peft_type="HRA", r=4, target_modules=LINEAR), []),
    "ln_tuning": (dict(peft_type="LN_TUNING"), []),
    "trainable_tokens": (dict(peft_type="TRAINABLE_TOKENS", token_indices=list(range(260, 290))), []),
}
# The cases that `tenon train` trains by default, compiled. The loop, which is faster, trains the others, not compiled.
BY_TRAINER = ("lora", "loha_modules", "trainable_tokens")
NOT_BY_DEFAULT = ("loha",)  # loha_modules is the same method.


def runs():
    """Method, way of training, probability of dropout, whether it is compiled."""
    for name, (_, dropouts) in CASES.items():
        probabilities = (DROPOUT, 0.0) if dropouts else (0.0,)
        if os.environ.get("TENON_METHOD_CASES") == "all":
            yield from itertools.product([name], ("trainer", "loop"), probabilities, (True, False))
        elif name not in NOT_BY_DEFAULT:
            yield name, "trainer" if name in BY_TRAINER else "loop", probabilities[0], name in BY_TRAINER


RUNS = [pytest.param(run, id=f"{run[0]}-{run[1]}{'-dropout' * (run[2] > 0)}{'-compiled' * run[3]}") for run in runs()]


def train_by_hand(model, given, steps, allocate):
    """The loop of tests/adapters/fit.cpp."""
    model.train()
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=RATE)
    torch.manual_seed(SEED)
    losses = []
    for step in range(steps):
        loss = model(input_ids=given, labels=given).loss
        loss.backward()
        losses.append(loss.item())
        optimizer.step()
        if allocate:
            model.base_model.update_and_allocate(step)
        optimizer.zero_grad()
    return losses


class Training:
    """Trains in Tenon, in PEFT and in PEFT with f64, each case once. A result is a loss curve and the directory of the adapter."""

    def __init__(self, base, data, home):
        self.base, self.data, self.home = base, data, home
        self.given = collate(examples(base, data)[:4])["input_ids"][:, :16]
        save_file({"input": self.given.contiguous()}, home / "inputs.safetensors")

    def config(self, name, p):
        config, dropouts = CASES[name]
        return config | {field: p for field in dropouts if p > 0}

    @functools.cache
    def in_tenon(self, name, way, p, compiled):
        output = self.home / f"{name}-{way}-{p}-{compiled}"
        if way == "trainer":
            state = ours(self.base, self.data, output, SEED, config=self.config(name, p), save_steps=STEPS, torch_compile=str(compiled).lower())
            return values(state.log_history, "loss"), output
        is_adalora = name == "adalora"
        job = dict(base=str(self.base), adapters=[dict(name="default", config=self.config(name, p) | {"task_type": "CAUSAL_LM"})], create_seed=SEED, seed=SEED,
                   inputs=str(self.home / "inputs.safetensors"), steps=STEPS, lr=RATE, penalty=is_adalora, allocate=is_adalora,
                   backend="native" if compiled else "none", out=f"{output}-values", save=str(output))
        (self.home / "job.json").write_text(json.dumps(job))
        self.run_tool("adapters_fit", "fit", self.home / "job.json")
        return load_file(f"{output}-values/outputs.safetensors")["loss"].tolist(), output

    @functools.cache
    def in_peft(self, name, way, p, double):
        output = self.home / f"{name}-{way}-{p}-{'f64' if double else 'f32'}"
        if way == "trainer":
            trainer = theirs(self.base, self.data, f"{output}-trainer", SEED, double, self.config(name, p), save_steps=STEPS)
            model, losses = trainer.model, values(trainer.state.log_history, "loss")
        else:
            model = new_adapter(self.base, self.config(name, p), SEED, double)
            losses = train_by_hand(model, self.given, STEPS, allocate=name == "adalora")
        model.save_pretrained(output)
        return losses, output

    def load(self, directory, double=False, **options):
        """The directory in PEFT."""
        model = transformers.LlamaForCausalLM.from_pretrained(self.base, dtype=torch.float64 if double else torch.float32)
        model = peft.PeftModel.from_pretrained(model, directory, **options).eval()
        return make_exact(model) if double else model

    def run_tool(self, name, *arguments):
        done = subprocess.run([TOOLS / name, *map(str, arguments)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    def all_three(self, run):
        return [self.in_tenon(*run), self.in_peft(*run[:3], double=False), self.in_peft(*run[:3], double=True)]


@pytest.fixture(scope="module")
def training(base, data, tmp_path_factory):
    return Training(base, data, tmp_path_factory.mktemp("methods"))


@pytest.mark.parametrize("run", RUNS)
def test_loss_curve(training, run):
    curves = [losses for losses, _ in training.all_three(run)]
    assert len(curves[0]) == STEPS
    check_policy([curves])


@pytest.mark.parametrize("run", RUNS)
def test_inference(training, tmp_path, run):
    """Tenon and PEFT compute the same logits with the saved adapter."""
    _, directory = training.in_tenon(*run)
    training.run_tool("adapters_tool", "use", training.base, training.home / "inputs.safetensors", directory, tmp_path / "out", "refuse")
    got = load_file(tmp_path / "out/outputs.safetensors")["out"]
    with torch.no_grad():
        model = training.load(directory)
        expected, truth = (m(input_ids=training.given).logits for m in (model, training.load(directory, double=True)))
        with model.disable_adapter():
            assert (model(input_ids=training.given).logits - expected).abs().max() > 1e-4  # The adapter was trained.
    check_policy([(got, expected, truth)])


@pytest.mark.parametrize("run", RUNS)
def test_generation(training, run):
    """Tenon and PEFT generate the same greedy tokens with the saved adapter."""
    _, directory = training.in_tenon(*run)
    tokenizer = Tokenizer.from_file(str(training.base / "tokenizer.json"))
    ids = torch.tensor([tokenizer.encode("the owl").ids])
    expected = training.load(directory).generate(input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=16, do_sample=False)
    out = tenon("generate", "--model", training.base, "--adapter", directory, "the owl", "--max-new-tokens", 16)
    assert out.returncode == 0, out.stderr
    assert out.stdout == tokenizer.decode(expected[0, ids.shape[1]:].tolist()) + "\n"


@pytest.mark.parametrize("run", RUNS)
def test_continues_in_peft(training, run):
    """PEFT trains the saved adapter further, with the losses that an adapter of its own has. A few losses say little about errors, so the whole
    curve is judged."""
    curves, later = [], []
    for i, (losses, directory) in enumerate(training.all_three(run)):
        curves.append(losses)
        later.append(train_by_hand(training.load(directory, double=i == 2, is_trainable=True), training.given, MORE_STEPS, allocate=False))
    check_policy([curves, later])
