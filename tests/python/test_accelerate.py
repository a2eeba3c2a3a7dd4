"""Tenon where Accelerate and Transformers compile: the plugin, regional compilation, environment variables, the Trainer."""
import copy
import os
import subprocess
import sys

import pytest
import torch
from networks import NETWORKS, some, training_batch

import torch_tenon.accelerate
from torch_tenon.compiler import CompiledGraph

from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import TorchDynamoPlugin, compile_regions

pytestmark = pytest.mark.filterwarnings("error:tenon. ")


@pytest.fixture(autouse=True)
def fresh_state():
    AcceleratorState._reset_state(True)
    yield
    AcceleratorState._reset_state(True)


def train(model, optimizer, backward, batches):
    losses = []
    for batch in batches:
        optimizer.zero_grad()
        loss = model(**batch).loss
        backward(loss)
        optimizer.step()
        losses.append(loss.item())
    return losses


def batches(network, count=3):
    torch.manual_seed(4)
    return [training_batch(network, 4, 12) for _ in range(count)]


@pytest.mark.parametrize("regional", [False, True])
@pytest.mark.parametrize("mode", some(["default", "reduce-overhead", "max-autotune"], {"default"}))
def test_plugin(mode, regional):
    network = NETWORKS["llama"]
    model = network.make().train()
    reference = copy.deepcopy(model)
    expected = train(reference, torch.optim.AdamW(reference.parameters()), lambda loss: loss.backward(), batches(network))
    accelerator = Accelerator(cpu=True, dynamo_plugin=TorchDynamoPlugin(backend="tenon", mode=mode, use_regional_compilation=regional))
    before = CompiledGraph.made
    prepared, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters()))
    found = train(prepared, optimizer, accelerator.backward, batches(network))
    assert found == pytest.approx(expected, rel=1e-4)
    assert CompiledGraph.made > before
    torch.testing.assert_close(accelerator.unwrap_model(prepared, keep_torch_compile=False).state_dict(), reference.state_dict(), rtol=1e-3, atol=2e-4)


def test_regions_share_a_graph():
    network = NETWORKS["llama"]
    model = network.make().eval()
    compiled = compile_regions(copy.deepcopy(model), backend="tenon", dynamic=True)
    inputs = network.batch(3, 9)
    with torch.no_grad():
        torch.testing.assert_close(compiled(**inputs).logits, model(**inputs).logits, rtol=1e-4, atol=2e-5)
        made = CompiledGraph.made
        inputs = network.batch(5, 20)
        torch.testing.assert_close(compiled(**inputs).logits, model(**inputs).logits, rtol=1e-4, atol=2e-5)
    assert CompiledGraph.made == made


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="NONSENSE"):
        TorchDynamoPlugin(backend="nonsense")


def test_environment():
    program = ("import torch, torch_tenon.accelerate\nfrom accelerate import Accelerator\nfrom torch_tenon.compiler import CompiledGraph\n"
               "model = Accelerator(cpu=True).prepare(torch.nn.Linear(4, 4))\nmodel(torch.ones(2, 4)).sum().backward()\nprint(CompiledGraph.made)")
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                         env={**os.environ, "ACCELERATE_DYNAMO_BACKEND": "tenon", "PYTHONPATH": os.pathsep.join(sys.path)})
    assert out.stdout.strip() == "2", out.stdout + out.stderr


def trainer_losses(model, folder, **options):
    from transformers import Trainer, TrainingArguments

    network = NETWORKS["bert"]
    torch.manual_seed(4)
    data = [{name: value[0] for name, value in training_batch(network, 1, 12).items()} for _ in range(20)]
    arguments = TrainingArguments(folder, max_steps=5, per_device_train_batch_size=4, logging_steps=1, use_cpu=True, report_to=[], seed=3, save_strategy="no",
                                  disable_tqdm=True, **options)
    trainer = Trainer(model=model, args=arguments, train_dataset=data)
    trainer.train()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


@pytest.mark.parametrize("way", ["arguments", "model.compile"])
def test_trainer(way, tmp_path):
    torch.manual_seed(0)
    model = NETWORKS["bert"].make()
    expected = trainer_losses(copy.deepcopy(model), tmp_path / "eager")
    AcceleratorState._reset_state(True)
    before = CompiledGraph.made
    if way == "arguments":
        found = trainer_losses(model, tmp_path / "tenon", torch_compile=True, torch_compile_backend="tenon")
    else:
        model.compile(backend="tenon")
        found = trainer_losses(model, tmp_path / "tenon")
    assert found == pytest.approx(expected, rel=1e-3)
    assert CompiledGraph.made - before >= 2
