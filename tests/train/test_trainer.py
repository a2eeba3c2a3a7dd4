"""Compares `tenon train` with Transformers' Trainer and PEFT from the same seed and data."""
import json

import peft
import pytest
import torch
import transformers
from safetensors.torch import load_file
from transformers.trainer_callback import TrainerState

from training import check_policy, collate, examples, ours, theirs, values

SEEDS = (42, 1, 7)


@pytest.fixture(scope="module")
def references(base, data, tmp_path_factory):
    home = tmp_path_factory.mktemp("transformers")
    return {seed: (theirs(base, data, home / str(seed), seed), theirs(base, data, home / f"{seed}-f64", seed, double=True)) for seed in SEEDS}


@pytest.mark.parametrize("compiled", ["false", "true"])
def test_loss_curve(base, data, references, tmp_path, compiled):
    """The numeric policy over the curves of all seeds."""
    for key in ("loss", "eval_loss"):
        runs = []
        for seed, (reference, exact) in references.items():
            output = tmp_path / str(seed)
            state = TrainerState.load_from_json(output / "trainer_state.json") if output.exists() else ours(base, data, output, seed, torch_compile=compiled)
            runs.append([values(x.log_history, key) for x in (state, reference.state, exact.state)])
            assert values(state.log_history, "learning_rate") == values(reference.state.log_history, "learning_rate")
            assert [e["epoch"] for e in state.log_history] == [e["epoch"] for e in reference.state.log_history if "train_runtime" not in e]
        check_policy(runs, key)


def test_saved_adapter_is_that_of_peft(base, data, references, tmp_path):
    reference, exact = references[SEEDS[0]]
    ours(base, data, tmp_path / "out", SEEDS[0])
    found = load_file(tmp_path / "out/adapter_model.safetensors")
    expected = peft.get_peft_model_state_dict(reference.model)
    truth = peft.get_peft_model_state_dict(exact.model)
    assert found.keys() == expected.keys()
    for name, tensor in found.items():
        error, eager = ((x.double() - truth[name]).pow(2).mean().sqrt() for x in (tensor, expected[name]))
        assert error <= 2 * eager + 1e-6 * truth[name].abs().max(), name
    # PEFT continues from the directory and from a checkpoint.
    for directory in ("out", "out/checkpoint-10"):
        model = peft.PeftModel.from_pretrained(transformers.LlamaForCausalLM.from_pretrained(base), tmp_path / directory, is_trainable=True)
        batch = collate(examples(base, data)[:9])
        model.eval()
        with torch.no_grad():
            assert torch.isfinite(model(**batch).loss)


def test_checkpoint_files(base, data, tmp_path):
    state = ours(base, data, tmp_path / "out", 42, max_steps=4, save_steps=2)
    assert state.global_step == 4 and state.max_steps == 4
    names = {path.name for path in (tmp_path / "out/checkpoint-2").iterdir()}
    assert names == {"adapter_model.safetensors", "adapter_config.json", "optimizer.safetensors", "scheduler.json", "rng_state.safetensors", "position.json",
                     "trainer_state.json"}
    lines = [json.loads(line) for line in (tmp_path / "out/log_history.jsonl").read_text().splitlines()]
    assert lines == state.log_history
    assert "</svg>" in (tmp_path / "out/loss.svg").read_text()
    assert TrainerState.load_from_json(tmp_path / "out/checkpoint-2/trainer_state.json").global_step == 2
