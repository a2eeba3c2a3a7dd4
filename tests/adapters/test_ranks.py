"""Compares AdaLoRA's rank schedule with PEFT's: the same ranks remain, with the same weights."""
import copy
import json
import os
import subprocess

import peft
import pytest
import torch
from safetensors.torch import load_file

from conftest import QVD, make_base, seed

TOOL = os.environ["TENON_ADAPTERS_TOOL"]
STEPS = 12
SCHEDULES = {
    "default": dict(total_step=STEPS),
    "begins late": dict(total_step=STEPS, tinit=3, tfinal=2),
    "every third": dict(total_step=STEPS, tinit=1, tfinal=3, deltaT=3, beta1=0.5, beta2=0.7, orth_reg_weight=0.1),
    "not at its end": dict(total_step=2 * STEPS, tinit=2, tfinal=4),
}


def train(base, home, given, fields):
    """A model that returns a loss, to which PEFT adds its orthogonality penalty."""
    seed("ranks")
    config = peft.AdaLoraConfig(init_r=6, target_r=2, lora_alpha=8, target_modules=QVD, **fields)
    model = peft.get_peft_model(copy.deepcopy(base), config, adapter_name="good")
    with torch.no_grad():
        for path, parameter in model.named_parameters():
            if "lora_E" in path:
                parameter.copy_(0.3 * torch.randn_like(parameter))
    model.save_pretrained(home / "before", selected_adapters=["good"])
    inner = model.base_model.model
    plain = inner.forward

    def with_loss(*given, **more):
        out = plain(*given, **more)
        out.loss = out.logits.pow(2).mean()
        return out

    inner.forward = with_loss
    parameters = [p for p in model.parameters() if p.requires_grad]
    for step in range(1, STEPS + 1):
        model.base_model(given).loss.backward()  # A PeftModel without a task type would omit the penalty.
        with torch.no_grad():
            for parameter in parameters:
                parameter.sub_(parameter.grad, alpha=0.05)
        model.base_model.update_and_allocate(step)
        model.zero_grad()
    model.save_pretrained(home / "after", selected_adapters=["good"])


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_ranks(tmp_path, schedule, backend):
    """AdaLoRA with its rank schedule."""
    base, given = make_base("llama", tmp_path)
    train(base, tmp_path, given, SCHEDULES[schedule])
    done = subprocess.run([TOOL, "ranks", tmp_path / "base/llama", tmp_path / "inputs/llama.safetensors", tmp_path / "before/good", tmp_path / "ours", backend, str(STEPS)],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "recorded 0 graphs 0\n"
    ours, theirs = (json.loads((tmp_path / where / "adapter_config.json").read_text()) for where in ("ours", "after/good"))
    assert ours["rank_pattern"] == theirs["rank_pattern"]
    assert any(not kept for flags in theirs["rank_pattern"].values() for kept in flags)
    got, expected = (load_file(tmp_path / where / "adapter_model.safetensors") for where in ("ours", "after/good"))
    assert {name: tensor.shape for name, tensor in got.items()} == {name: tensor.shape for name, tensor in expected.items()}
    for name, tensor in expected.items():
        assert torch.allclose(got[name], tensor, rtol=1e-4, atol=1e-5), f"{name}: {(got[name] - tensor).abs().max()}"
    # The result is an ordinary adapter that Tenon and PEFT can load.
    assert subprocess.run([TOOL, "load", tmp_path / "base/llama", tmp_path / "ours"], capture_output=True, text=True).stdout == "loaded\n"
    peft.PeftModel.from_pretrained(copy.deepcopy(base), tmp_path / "ours")
