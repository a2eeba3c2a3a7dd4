"""Graphs that come from AOTAutograd's cache in a later process, or after torch._dynamo.reset()."""
import pathlib
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters

import torch_tenon
from torch_tenon.compiler import CompiledGraph


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    return tmp_path


def lookups(run):
    """How many graphs a function found in the cache, compiled, and could not look up or save."""
    torch._dynamo.reset()
    counters.clear()
    run()
    return tuple(counters["aot_autograd"][f"autograd_cache_{name}"] for name in ("hit", "miss", "bypass"))


def small_model():
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.0), nn.Linear(16, 4))
    model[0].requires_grad_(False)
    return model


def train(model, compiled, sizes=(3, 3)):
    for size in sizes:
        x = torch.randn(size, 8, requires_grad=True)
        gradients = []
        for run in (compiled, model):
            x.grad = None
            model.zero_grad()
            run(x).square().sum().backward()
            gradients.append([x.grad] + [p.grad for p in model.parameters() if p.requires_grad])
        torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)


def test_training_with_weights_that_changed_in_between():
    model = small_model()
    assert lookups(lambda: train(model, torch.compile(model, backend="tenon"))) == (0, 1, 0)
    for weight in model.parameters():
        weight.data = torch.randn_like(weight)
    assert lookups(lambda: train(model, torch.compile(model, backend="tenon"))) == (1, 0, 0)
    assert [graph.kind for graph in list(CompiledGraph.all.values())[-2:]] == ["forward", "backward"]


def test_a_graph_from_the_cache_explains_itself():
    def f(x):
        return x.sin() * 2

    def run():
        run.compiled = torch.compile(f, backend="tenon")
        torch.testing.assert_close(run.compiled(torch.ones(5)), f(torch.ones(5)))

    lookups(run)
    assert lookups(run) == (1, 0, 0)
    assert "served 1 calls" in torch_tenon.explain(run.compiled) and "inference" in torch_tenon.explain(run.compiled)


def test_sizes_that_change():
    model = small_model()

    def run():
        train(model, torch.compile(model, backend="tenon", dynamic=True), (3, 5, 9, 1, 0, 7))
        f = torch.compile(lambda x: (x.reshape(-1) * 2, x.shape[0] * 3), backend="tenon", dynamic=True)
        for size in (3, 8, 4):
            doubled, number = f(torch.ones(size, 4))
            assert doubled.tolist() == [2.0] * (4 * size) and number == 3 * size

    assert lookups(run)[0] == 0
    saved = counters["aot_autograd"]["autograd_cache_saved"]  # Dynamo starts one graph twice, so there is one more lookup.
    assert saved == 4 and lookups(run)[0] == saved


@pytest.mark.parametrize("dynamic", [False, True])
def test_two_backwards_of_one_forward(dynamic):
    model = small_model()

    def run():
        x = torch.randn(3, 8)
        loss = torch.compile(model, backend="tenon", dynamic=dynamic)(x).sum()
        first, second = (torch.autograd.grad(loss, model[3].weight, retain_graph=True)[0] for _ in range(2))
        expected = torch.autograd.grad(model(x).sum(), model[3].weight)[0]
        torch.testing.assert_close([first, second], [expected, expected], rtol=1e-4, atol=1e-5)

    assert lookups(run)[0] == 0
    assert lookups(run)[0] == 1


@pytest.mark.parametrize("other", [{"options": {"freezing": False}}, {"mode": "max-autotune"}])
def test_other_options_are_other_entries(other):
    def run(**options):
        return lambda: torch.compile(lambda x: x.sin() * 2, backend="tenon", **options)(torch.ones(5))

    assert lookups(run()) == (0, 1, 0)
    assert lookups(run(**other)) == (0, 1, 0)
    assert lookups(run(**other)) == (1, 0, 0)


@pytest.mark.parametrize("backends", [("tenon", "inductor"), ("inductor", "tenon")])
def test_backends_do_not_share_entries(backends):
    for backend in backends:
        def run():
            torch.testing.assert_close(torch.compile(lambda x: x.sin() * 2, backend=backend)(torch.ones(5)), torch.ones(5).sin() * 2)

        assert lookups(run) == (0, 1, 0)
        assert lookups(run) == (1, 0, 0)


def test_constants_of_the_program():
    """Those are written in the graph, which is a part of the key."""
    for number in (1.5, 2.5):
        compiled = torch.compile(lambda x: x + torch.tensor([number, 1.0]), backend="tenon")
        torch._dynamo.reset()
        assert compiled(torch.ones(2)).tolist() == [1 + number, 2.0]


def test_graphs_in_aten_are_compiled_again(monkeypatch):
    def run():
        torch.testing.assert_close(torch.compile(lambda x: x.sin() * 2, backend="tenon")(torch.ones(5)), torch.ones(5).sin() * 2)

    def fail(*_):
        raise RuntimeError("no kernels today")

    with monkeypatch.context() as patch:
        patch.setattr(CompiledGraph, "build", fail)
        with pytest.warns(UserWarning, match="runs in ATen"):
            assert lookups(run) == (0, 1, 1)
    assert lookups(run) == (0, 1, 0)
    with monkeypatch.context() as patch:  # A graph of the cache that cannot be built.
        patch.setattr(CompiledGraph, "build", fail)
        with pytest.warns(UserWarning, match="runs in ATen"):
            assert lookups(run)[0] == 0
    assert lookups(run) == (1, 0, 0)


def test_ops_with_effects_are_compiled_again():
    def f(x):
        return torch.linalg.solve(torch.eye(4) * 2, x)  # It checks for errors, which is an effect.

    def run():
        torch.testing.assert_close(torch.compile(f, backend="tenon")(torch.ones(4, 4)), f(torch.ones(4, 4)))

    for _ in range(2):
        assert lookups(run)[0] == 0


def test_damaged_entries_are_compiled_again(cache):
    def run():
        torch.testing.assert_close(torch.compile(lambda x: x.cos() + 1, backend="tenon")(torch.ones(5)), torch.ones(5).cos() + 1)

    lookups(run)
    files = [file for file in (cache / "aotautograd").rglob("*") if file.is_file()]
    assert files
    for file in files:
        file.write_bytes(file.read_bytes()[:100])
    assert lookups(run)[0] == 0


def test_grad_mode_and_autocast_are_part_of_the_key():
    layer, x = nn.Linear(8, 8), torch.randn(2, 8)

    def run(grad, autocast):
        def inner():
            with torch.set_grad_enabled(grad), torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                found, expected = torch.compile(layer, backend="tenon")(x), layer(x)
            assert found.dtype == expected.dtype and found.requires_grad == expected.requires_grad
            torch.testing.assert_close(found, expected, rtol=1e-2, atol=1e-2)

        return inner

    for lookup in ((0, 1, 0), (1, 0, 0)):
        for grad in (False, True):
            for autocast in (False, True):
                assert lookups(run(grad, autocast)) == lookup


PROGRAM = """
import torch
from torch import nn
from torch._dynamo.utils import counters

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))
x = torch.randn(3, 8)
compiled = torch.compile(model, backend="tenon")
for _ in range(3):
    compiled(x).sum().backward()
found = [p.grad.clone() for p in model.parameters()]
model.zero_grad()
for _ in range(3):
    model(x).sum().backward()
torch.testing.assert_close(found, [p.grad for p in model.parameters()])
print(counters["aot_autograd"]["autograd_cache_hit"])
"""


def test_a_new_process(cache):
    package = pathlib.Path(torch_tenon.__file__).parents[1]
    for expected in ("0", "1"):
        out = subprocess.run([sys.executable, "-c", f"import sys; sys.path.insert(0, {str(package)!r}); import torch_tenon" + PROGRAM], capture_output=True, text=True)
        assert out.stdout.split() == [expected], out.stderr
