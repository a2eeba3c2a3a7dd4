"""torch.compile(..., backend="tenon"): results, gradients, sizes, mutation, randomness."""
import copy
import gc
import re
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import torch_tenon
from torch_tenon.compiler import CompiledGraph


def graphs_since(count):
    return [graph for number, graph in CompiledGraph.all.items() if number > count]


def check(function, *arguments, graphs=None, rtol=1e-5, atol=1e-6, **options):
    """Compares a compiled call with eager: results, changed arguments. Graphs may not run in ATen."""
    before = CompiledGraph.made
    expected_arguments = copy.deepcopy(arguments)
    expected = function(*expected_arguments)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="tenon: ")
        compiled = torch.compile(function, backend=torch_tenon.backend, **options)
        found = compiled(*arguments)
    torch.testing.assert_close(found, expected, rtol=rtol, atol=atol)
    torch.testing.assert_close(arguments, expected_arguments, rtol=rtol, atol=atol)
    if graphs is not None:
        assert len(graphs_since(before)) == graphs
    return compiled


def test_inference():
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4)).eval()
    with torch.no_grad():
        check(model, torch.randn(3, 8), graphs=1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_types(dtype):
    with torch.no_grad():
        check(lambda x, y: (x * y + 2).softmax(-1).sum(0), torch.randn(5, 7, dtype=dtype), torch.randn(7, dtype=dtype), rtol=1e-2 if dtype == torch.bfloat16 else 1e-5)


def test_training():
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 5))
    fast = copy.deepcopy(model)
    compiled = torch.compile(fast, backend=torch_tenon.backend)
    for _ in range(3):
        x, y = torch.randn(4, 3, 6, 6), torch.randint(5, (4,))
        for each, run in ((model, model), (fast, compiled)):
            each.zero_grad()
            F.cross_entropy(run(x), y).backward()
            with torch.no_grad():
                for p in each.parameters():
                    p -= 0.1 * p.grad
    torch.testing.assert_close(fast.state_dict(), model.state_dict(), rtol=1e-4, atol=1e-5)
    assert [g.kind for g in list(CompiledGraph.all.values())[-2:]] == ["forward", "backward"]


def test_all_sizes_are_one_graph():
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh()).eval()
    before = CompiledGraph.made
    with torch.no_grad():
        compiled = torch.compile(lambda x: torch.cat([model(x), x[:, :2]], 1).view(-1, 5).flatten() * x.shape[0], backend=torch_tenon.backend, dynamic=True)
        for rows in (6, 4, 20, 300, 2, 9):
            x = torch.randn(rows, 8)
            torch.testing.assert_close(compiled(x), torch.cat([model(x), x[:, :2]], 1).flatten() * rows)
    assert len(graphs_since(before)) == 1 and graphs_since(before)[0].graph


def test_training_at_all_sizes():
    model = nn.Sequential(nn.Linear(6, 12), nn.GELU(), nn.Linear(12, 3))
    fast = copy.deepcopy(model)
    compiled = torch.compile(fast, backend=torch_tenon.backend, dynamic=True)
    before = CompiledGraph.made
    for rows in (5, 8, 3, 17):
        x = torch.randn(rows, 6)
        a, b = model(x), compiled(x)
        torch.testing.assert_close(a, b)
        torch.testing.assert_close(torch.autograd.grad(a.square().sum(), list(model.parameters())), torch.autograd.grad(b.square().sum(), list(fast.parameters())), rtol=1e-4, atol=1e-5)
    assert len(graphs_since(before)) == 2


def test_arguments_are_changed():
    def f(x, y):
        x.mul_(2)
        y[1:] += x[:2]
        return x + 1, y.t()

    with torch.no_grad():
        compiled = check(f, torch.randn(3, 4), torch.randn(3, 4))
        x = torch.randn(3, 4)
        version = x._version
        compiled(x, torch.randn(3, 4))
        assert x._version > version


@pytest.mark.parametrize("write", [
    lambda cache, at, new: cache.index_copy_(1, at, new),
    lambda cache, at, new: cache.index_add_(1, at, new, alpha=2),
    lambda cache, at, new: cache.index_fill_(1, at, 0.5),
    lambda cache, at, new: cache.__setitem__((slice(None), at), new),
    lambda cache, at, new: cache.scatter_(1, at.view(1, 2, 1).expand(2, 2, 3), new),
    lambda cache, at, new: cache.scatter_add_(1, at.view(1, 2, 1).expand(2, 2, 3), new),
])
def test_parts_of_arguments_are_overwritten_in_place(write):
    def attend(cache, at, new):
        write(cache, at, new)
        return cache.sum(1) * new.mean(1)

    def look_back(cache, at, new):  # The contents before the write are used after it.
        before = cache.clone()
        half = cache[:, :3]
        old = half * 2
        write(cache, at, new)
        return before - cache, old + half

    arguments = torch.randn(2, 5, 3), torch.tensor([4, 1]), torch.randn(2, 2, 3)
    for function in (attend, look_back):
        compiled = check(function, *arguments)
        assert re.search("runs in ATen: 1 x aten::(index|scatter)[a-z_]*_[ .]", torch_tenon.explain(compiled)), torch_tenon.explain(compiled)
        check(function, arguments[0].mT.contiguous().mT, *arguments[1:])


def test_a_write_that_fails_in_eager_fails():
    def write(cache, at):
        cache.index_copy_(0, at, torch.ones(1, 3))
        return cache * 2

    compiled = torch.compile(write, backend="tenon", fullgraph=True)
    torch.testing.assert_close(compiled(torch.zeros(4, 3), torch.tensor([2])).sum().item(), 6.0)
    with pytest.raises((IndexError, RuntimeError)):
        compiled(torch.zeros(4, 3), torch.tensor([4]))


def test_results_that_are_views_of_arguments():
    def f(x, y):
        return x.view(-1), y, y.t(), y + 1, (y + 2)[0]

    x, y = torch.randn(3, 4), torch.randn(2, 5)
    with torch.no_grad():
        compiled = check(f, x, y)
        out = compiled(x, y)
    assert out[0].data_ptr() == x.data_ptr() and out[1] is y and out[2].data_ptr() == y.data_ptr()


def test_dropout_draws_as_eager_does():
    x = torch.randn(64, 32)
    compiled = torch.compile(lambda x: F.dropout(x, 0.3).relu(), backend=torch_tenon.backend)
    for seed in range(3):
        torch.manual_seed(seed)
        expected, after = F.dropout(x, 0.3).relu(), torch.rand(1)
        torch.manual_seed(seed)
        torch.testing.assert_close(compiled(x), expected)
        assert torch.rand(1) == after


def test_changed_weights_are_noticed():
    model = nn.Linear(64, 64).eval()
    x = torch.randn(1, 64)
    with torch.no_grad():
        compiled = torch.compile(model, backend=torch_tenon.backend)
        for change in (lambda: None, lambda: model.weight.add_(1), lambda: model.weight.data.mul_(0.5),
                       lambda: setattr(model.weight, "data", torch.randn(64, 64)), lambda: setattr(model, "weight", nn.Parameter(torch.randn(64, 64))),
                       lambda: model.load_state_dict(nn.Linear(64, 64).state_dict())):
            change()
            for _ in range(3):
                torch.testing.assert_close(compiled(x), F.linear(x, model.weight, model.bias), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("token", [False, True])
def test_changed_frozen_weights_are_noticed_in_training(token):
    """Also in graphs with an op that has an effect, whose inputs are counted from one further."""
    class Frozen(nn.Module):
        def __init__(self):
            super().__init__()
            self.base, self.first, self.last = nn.Linear(64, 64).requires_grad_(False), nn.Linear(64, 64), nn.Linear(64, 64)

        def forward(self, x):
            h = self.first(x)
            if token:
                h = h + torch.linalg.solve(torch.eye(64), x.mT).mT  # It checks for errors, which is an effect.
            return self.last(self.base(h)).square().mean()

    model = Frozen()
    compiled = torch.compile(model, backend=torch_tenon.backend)
    for change in (lambda: None, lambda: model.base.weight.add_(1), lambda: model.base.weight.data.mul_(0.5),
                   lambda: setattr(model.base.weight, "data", torch.randn(64, 64)), lambda: model.first.weight.data.mul_(2)):
        change()
        for _ in range(3):
            x = torch.randn(32, 64)
            found, expected = [], []
            for run, gradients in ((compiled, found), (model, expected)):
                model.zero_grad()
                loss = run(x)
                loss.backward()
                gradients += [loss.detach(), *(p.grad for p in (*model.first.parameters(), *model.last.parameters()))]
            torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)


def test_numbers_as_arguments():
    with torch.no_grad():
        compiled = torch.compile(lambda x, s, n: x * s + n, backend=torch_tenon.backend)
        x = torch.randn(3)
        for s, n in ((0.5, 3), (0.7, 3), (0.9, 4), (1.5, 7), (1.5, 0), (1.5, -3)):
            torch.testing.assert_close(compiled(x, s, n), x * s + n)


def test_an_op_that_cannot_be_expressed_runs_in_aten():
    with torch.no_grad(), pytest.warns(UserWarning, match="tenon: a inference graph runs in ATen|tenon: an inference graph runs in ATen"):
        compiled = torch.compile(lambda x: torch.fft.fft(x).conj().real + 1, backend=torch_tenon.backend)
        x = torch.randn(8)
        torch.testing.assert_close(compiled(x), torch.fft.fft(x).conj().real + 1)


def test_wrong_settings_are_refused():
    f = lambda x: x + 1
    for settings in (dict(mode="nonsense"), dict(options={"a": 1}), dict(options={"verify": "x"}), dict(options={"backend": "gpu"})):
        torch._dynamo.reset()
        with pytest.raises(Exception, match="tenon"):
            torch.compile(f, backend=torch_tenon.backend, **settings)(torch.randn(3))


def test_modes():
    model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16)).eval()
    x = torch.randn(2, 16)
    with torch.no_grad():
        for mode in ("default", "reduce-overhead", "max-autotune"):
            torch._dynamo.reset()
            compiled = torch.compile(model, backend=torch_tenon.backend, mode=mode)
            for _ in range(4):
                torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)


def test_explain():
    kept = torch.compile(lambda x: (x + 1).tanh(), backend=torch_tenon.backend)
    model = torch.compile(torch.nn.Sequential(torch.nn.Linear(5, 5), torch.nn.GELU()), backend="tenon")
    with torch.no_grad():
        kept(torch.randn(5)), model(torch.randn(2, 5))
    assert "kernels: 1 for 2 ops" in torch_tenon.explain() and "gelu" in torch_tenon.explain()
    assert "gelu" not in torch_tenon.explain(kept) and "tanh" in torch_tenon.explain(kept)
    assert "gelu" in torch_tenon.explain(model) and "tanh" not in torch_tenon.explain(model)
    with pytest.raises(TypeError, match="explain takes what torch.compile returned"):
        torch_tenon.explain(lambda x: x)


def test_explain_lists_graphs_behind_breaks():
    model = torch.nn.Linear(3, 3)

    def program(x):
        y = model(x).relu()
        torch._dynamo.graph_break()
        return y.tanh()

    compiled = torch.compile(program, backend="tenon")
    compiled(torch.randn(2, 3)).sum().backward()
    text = torch_tenon.explain(compiled)
    assert "relu" in text and "tanh" in text and "backward" in text


def test_graphs_that_dynamo_drops_are_freed():
    before = CompiledGraph.made
    torch.compile(lambda x: x.sin() + 1, backend="tenon")(torch.randn(4))
    assert CompiledGraph.made == before + 1
    torch._dynamo.reset()
    gc.collect()
    assert before + 1 not in CompiledGraph.all


class Dividing(torch.nn.Module):
    """Has a size that is no product of sizes, so a graph is built for each combination of sizes."""

    def forward(self, x):
        return x[: x.shape[0] // 3 * x.shape[0] % 7].exp()


def test_sizes_that_cannot_be_expressed(monkeypatch):
    model = Dividing()
    compiled = torch.compile(model, backend="tenon", dynamic=True)
    monkeypatch.setattr(torch_tenon.compiler, "MAX_SIZES", 3)
    before = CompiledGraph.made
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for rows in [*range(10, 30), 11, 10]:
            x = torch.randn(rows, 4)
            torch.testing.assert_close(compiled(x), model(x))
    graphs = [graph for graph in graphs_since(before) if graph.by_sizes]
    assert all(len(graph.by_sizes) <= 3 for graph in graphs)
    told = sum("needs a build for each combination" in str(w.message) for w in caught)
    assert told == sum(graph.is_over_limit for graph in graphs) >= 1


def test_a_later_build_that_fails_runs_in_aten(monkeypatch):
    model = Dividing()
    compiled = torch.compile(model, backend="tenon", dynamic=True)
    x = torch.randn(12, 4)
    compiled(x)

    def fail(self, fixed):
        raise RuntimeError("no build today")

    monkeypatch.setattr(CompiledGraph, "build", fail)
    with pytest.warns(UserWarning, match="no build today"):
        for rows in (13, 14, 12):
            x = torch.randn(rows, 4)
            torch.testing.assert_close(compiled(x), model(x))
    assert "runs in ATen: no build today" in torch_tenon.explain(compiled)


@pytest.mark.parametrize("function, argument, error", [
    (lambda i: F.one_hot(i, 3) * 2, torch.tensor([0, 7]), "smaller than num_classes"),
    (lambda i: F.one_hot(i, 3) * 2, torch.tensor([0, -1]), "non-negative"),
    (lambda x: (torch._assert_async((x > 0).all(), "not positive"), x + 1)[1], -torch.ones(3), "not positive")])
def test_checks_of_values_fail_as_in_eager(function, argument, error):
    compiled = torch.compile(function, backend="tenon", fullgraph=True)
    for _ in range(2):
        with pytest.raises(RuntimeError, match=error):
            compiled(argument)
    assert torch.equal(compiled(argument.abs().clamp(1, 2)), function(argument.abs().clamp(1, 2)))


@pytest.mark.parametrize("function", [lambda i: i % 8, lambda i: 2 ** i, lambda i: 1 << i, lambda i: 3 % i.float(), lambda i: torch.isin(3, i)])
def test_numbers_with_integer_tensors(function):
    check(function, torch.tensor([5, 9, 14]))


def test_numbers_below_zero_come_first():
    compiled = torch.compile(lambda x, n: x * n, backend="tenon", dynamic=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in (-3, 5, 7, 0, -3):
            assert torch.equal(compiled(torch.ones(3), n), torch.full((3,), float(n)))


def test_sizes_that_depend_on_data_run_in_aten():
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True), pytest.warns(UserWarning, match="runs in ATen"):
        x = torch.randn(8, requires_grad=True)
        torch.compile(lambda x: x[x > 0] * 2, backend="tenon")(x).sum().backward()
    torch.testing.assert_close(x.grad, (x > 0) * 2.0)
