"""`tenon train` in several processes, started by torchrun, beside one process with the joint batch."""
import os
import subprocess
import sys

import numpy
import pytest
from safetensors.torch import load_file
from transformers.trainer_callback import TrainerState

from conftest import CLI


def train(base, data, output, ranks, method="lora", **arguments):
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--no-python", "--nproc-per-node", str(ranks), "--"] if ranks > 1 else []
    settings = dict(max_steps=8, learning_rate=5e-3, logging_steps=1, save_steps=4, **arguments)
    command = [*launcher, CLI, "train", "--model", base, "--data", data, "--output", output, "--method", method, "--target", "q_proj,v_proj", "--r", "4",
               *(x for name, value in settings.items() for x in ("--set", f"{name}={value}"))]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return TrainerState.load_from_json(output / "trainer_state.json"), load_file(output / "adapter_model.safetensors")


@pytest.mark.parametrize("ranks,method,compiled", [(2, "lora", "false"), (2, "lora", "true"), (2, "dora", "true"), (4, "lora", "false")])
def test_joint_batch(base, data, tmp_path, ranks, method, compiled):
    # 48 of the 50 examples fill the epoch's batches, so no batch is filled up with examples of its beginning.
    short = tmp_path / "data.jsonl"
    short.write_text("".join(data.read_text().splitlines(keepends=True)[:48]))
    joint, expected = train(base, short, tmp_path / "one", 1, method, per_device_train_batch_size=2 * ranks, torch_compile=compiled)
    several, found = train(base, short, tmp_path / "several", ranks, method, per_device_train_batch_size=2, torch_compile=compiled)
    losses = [[e["loss"] for e in state.log_history if "loss" in e] for state in (several, joint)]
    numpy.testing.assert_allclose(*losses, rtol=2e-4)
    for name, tensor in found.items():
        assert (tensor - expected[name]).norm() <= 2e-3 * expected[name].norm() + 1e-6, name


def test_resume_is_exact(base, data, tmp_path):
    whole, expected = train(base, data, tmp_path / "whole", 2, per_device_train_batch_size=2, gradient_accumulation_steps=2)
    train(base, data, tmp_path / "part", 2, per_device_train_batch_size=2, gradient_accumulation_steps=2)
    for file in ("adapter_model.safetensors", "trainer_state.json"):
        (tmp_path / "part" / file).unlink()
    subprocess.run(["rm", "-r", tmp_path / "part/checkpoint-8"], check=True)
    state, found = train(base, data, tmp_path / "part", 2, per_device_train_batch_size=2, gradient_accumulation_steps=2, resume_from_checkpoint="last")
    assert state.log_history == whole.log_history
    assert all((found[name] == expected[name]).all() for name in expected)
