"""Transformers models from configs under torch.compile(..., backend="tenon", fullgraph=True): inference and training, at many sizes."""
import copy
import random
import warnings

import pytest
import torch
from networks import NETWORKS, loss_of, results, some, training_batch

import torch_tenon
from torch_tenon.compiler import CompiledGraph

pytestmark = pytest.mark.filterwarnings("error:tenon. ")  # No graph may run in ATen.


def sizes(network, count):
    rng = random.Random(7)
    pairs = [(rng.randint(2, 9), rng.randint(3, 120)) for _ in range(count)]
    return pairs if network.has_length else [(batch, 0) for batch, _ in pairs]


def compile_model(model, **options):
    return torch.compile(model, backend=torch_tenon.backend, fullgraph=True, **options)


@pytest.mark.parametrize("name", some(NETWORKS, {"llama", "gpt2"}))
def test_inference(name):
    network = NETWORKS[name]
    model = network.make().eval()
    compiled = compile_model(copy.deepcopy(model), dynamic=True)
    counts = []
    with torch.no_grad():
        for batch, length in sizes(network, 20):
            inputs = network.batch(batch, length)
            torch.testing.assert_close(results(compiled(**inputs)), results(model(**inputs)), rtol=1e-4, atol=2e-5)
            counts.append(CompiledGraph.made)
    assert counts[0] == counts[-1], f"graphs after each size: {counts}"


@pytest.mark.parametrize("dynamic", [None, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", some(NETWORKS, {"llama", "vit"}))
def test_training(name, dynamic):
    network = NETWORKS[name]
    model = network.make().train(name not in ("opt", "whisper_encoder"))  # They drop layers at random, on which Dynamo cannot branch.
    fast = copy.deepcopy(model)
    compiled = compile_model(fast, dynamic=dynamic)
    counts = []
    for batch, length in sizes(network, 20) if dynamic else [(4, 24)] * 2:
        inputs = training_batch(network, batch, length)
        losses = []
        for each, run in ((model, model), (fast, compiled)):
            each.zero_grad()
            losses.append(loss_of(network, run(**inputs)))
            losses[-1].backward()
        torch.testing.assert_close(losses[1], losses[0], rtol=1e-5, atol=1e-5)
        for (label, p), q in zip(model.named_parameters(), fast.parameters()):
            assert (p.grad is None) == (q.grad is None), label
            if p.grad is not None:
                torch.testing.assert_close(q.grad, p.grad, rtol=1e-3, atol=1e-5 * max(1.0, p.grad.abs().max().item()), msg=lambda m: f"{label}: {m}")
        with torch.no_grad():  # Weights change, so kept copies of them would be noticed.
            for p, q in zip(model.parameters(), fast.parameters()):
                if p.grad is not None:
                    p -= 0.05 * p.grad
                    q.copy_(p)
        counts.append(CompiledGraph.made)
    assert counts[0] == counts[-1], f"graphs after each size: {counts}"


@pytest.mark.parametrize("name", some(["llama", "opt", "t5"], {"llama"}))
def test_generation_with_a_static_cache(name):
    network = NETWORKS[name]
    model = network.make().eval()
    model.generation_config.pad_token_id = 0
    inputs = dict(input_ids=network.batch(2, 7)["input_ids"], max_new_tokens=12, do_sample=False, cache_implementation="static")
    expected = model.generate(**inputs)
    model.compile(backend=torch_tenon.backend)
    before = CompiledGraph.made
    assert torch.equal(model.generate(**inputs), expected)
    made = CompiledGraph.made
    assert made > before
    assert torch.equal(model.generate(**inputs), expected) and CompiledGraph.made == made
