"""Compares module trees of torch::nn (tests/adapters/tree.cpp) with the same modules in Python with PEFT."""
import copy
import os
import pathlib
import subprocess

import peft
import pytest
import torch
from safetensors.torch import load_file, save_file

from conftest import NAMES, ROWS, gradients, seed

TOOL = pathlib.Path(os.environ["TENON_ADAPTERS_TOOL"]).parent / "adapters_tree"
CASES = {
    "lora": (peft.LoraConfig, dict(r=4, lora_alpha=8, target_modules=["embed", "up", "down", "conv"])),
    "dora": (peft.LoraConfig, dict(r=4, use_dora=True, target_modules=["up", "down"])),
    "saved": (peft.LoraConfig, dict(r=4, target_modules=["up"], modules_to_save=["head", "norm"])),
    "oft": (peft.OFTConfig, dict(r=0, oft_block_size=8, target_modules=["up", "down"])),
    "ia3": (peft.IA3Config, dict(target_modules=["up", "down", "conv"], feedforward_modules=["down"])),
    "vera": (peft.VeraConfig, dict(r=6, target_modules=["up", "down"])),
    "ln": (peft.LNTuningConfig, dict(target_modules=["norm"])),
    "boft": (peft.BOFTConfig, dict(boft_block_size=4, target_modules=["up"])),
}
# Cases that need a frozen base: the first parameter that requires grad, and the method that the error names.
NEEDS_FROZEN = {"dora": ("up.weight", "DoRA"), "saved": ("norm.weight", "modules_to_save"), "ln": ("norm.weight", "LN tuning"), "boft": ("up.weight", "BOFT")}


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.norm = torch.nn.Embedding(64, 32), torch.nn.LayerNorm(32)
        self.up, self.down = torch.nn.Linear(32, 77), torch.nn.Linear(77, 32, bias=False)
        self.conv, self.head = torch.nn.Conv2d(1, 4, 3, padding=1), torch.nn.Linear(32, 5)

    def forward(self, ids):
        x = self.embed(ids)
        x = x + self.down(torch.relu(self.up(self.norm(x))))
        x = x + self.conv(x.unsqueeze(1)).mean(1)
        return self.head(x.mean(1))


class Logits(torch.nn.Module):
    """Adapts a module to the interface that conftest.gradients expects."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids):
        return type("Out", (), {"logits": self.model(ids)})

    def named_parameters(self, *given, **more):
        return self.model.named_parameters(*given, **more)


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("case", CASES)
def test_tree(tmp_path, case, backend):
    """For module trees of torch::nn."""
    kind, fields = CASES[case]
    seed(case)
    base = Net()
    save_file(base.state_dict(), tmp_path / "weights.safetensors")
    ids = torch.randint(3, 60, (len(ROWS), 6))
    save_file({"input": ids}, tmp_path / "inputs.safetensors")
    expected = {"out.base": base.double()(ids), "out.disabled": base.double()(ids)}
    for adapter in NAMES:
        model = peft.get_peft_model(copy.deepcopy(base).float(), kind(**fields), adapter_name=adapter)
        with torch.no_grad():
            for path, parameter in model.named_parameters():
                if adapter in path.split("."):
                    parameter.add_(0.1 * torch.randn_like(parameter))
        model.save_pretrained(tmp_path, selected_adapters=[adapter])
        model = model.double().eval()
        expected[f"out.{adapter}"] = model(ids)
        mine = [i for i, row in enumerate(ROWS) if row == adapter]
        expected |= {f"mixed_grad.{adapter}.{key}": value for key, value in gradients(Logits(model), adapter, ids[mine]).items()}
    rows = {"__base__": expected["out.base"], **{adapter: expected[f"out.{adapter}"] for adapter in NAMES}}
    expected |= {"out.merged_1": expected["out.adapter_1"], "out.early_1": expected["out.adapter_1"], "out.early": expected["out.base"],
                 "out.mixed": torch.stack([rows[row][i] for i, row in enumerate(ROWS)])}
    done = subprocess.run(list(map(str, [TOOL, tmp_path / "weights.safetensors", tmp_path / "inputs.safetensors", tmp_path / NAMES[0], tmp_path / NAMES[1],
                                         tmp_path / "out", backend])), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    got = load_file(tmp_path / "out/outputs.safetensors")
    assert set(got) == set(expected)
    for name, value in expected.items():
        worst = (got[name].double() - value).abs().max().item()
        assert worst <= 2e-5 * max(1e-3, value.abs().max().item()), f"{name}: {worst}"
    first, *rest = done.stdout.splitlines()
    assert first == "recorded 0 graphs 0"
    if case not in NEEDS_FROZEN:
        assert not rest, rest
        return
    layer, method = NEEDS_FROZEN[case]
    assert len(rest) == 1 and f"{layer} requires grad" in rest[0] and method in rest[0] and "bank.freeze_base()" in rest[0], rest
