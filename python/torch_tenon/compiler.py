"""The backend of torch.compile: compiles the graphs that AOTAutograd makes of a program."""
import logging
import re
import warnings

import torch
from functorch.compile import make_boxed_func, min_cut_rematerialization_partition
from torch._dynamo.backends.common import aot_autograd

from . import _C
from .fx_text import GraphText, Unsupported

log = logging.getLogger("torch_tenon")
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
OPTIONS = {"verify": float, "tuning_seconds": float, "backend": str, "freezing": bool}


def settings_of(mode, options):
    if mode is not None and mode not in MODES:
        raise ValueError(f"tenon has no mode {mode!r}; the modes are {', '.join(MODES)}")
    out = {"mode": "max-autotune" if mode and mode.startswith("max-autotune") else mode or "default", "freezing": True}
    for name, value in (options or {}).items():
        if name not in OPTIONS:
            raise ValueError(f"tenon has no option {name!r}; the options are {', '.join(OPTIONS)}")
        if not isinstance(value, (int, float) if OPTIONS[name] is float else OPTIONS[name]):
            raise TypeError(f"tenon's option {name!r} must be of type {OPTIONS[name].__name__}")
        out[name] = value
    if out.get("backend", "native") not in _C.backends():
        raise ValueError(f"tenon has no backend {out['backend']!r}; its backends are {', '.join(_C.backends())}")
    return out


def backend(gm, example_inputs, *, mode=None, options=None):
    """Compiles one graph of Dynamo: the entry point of torch.compile(..., backend="tenon")."""
    settings = settings_of(mode, options)

    def compiler(kind):
        return lambda graph, inputs: CompiledGraph(graph, kind, settings).boxed()

    return aot_autograd(fw_compiler=compiler("forward"), bw_compiler=compiler("backward"), inference_compiler=compiler("inference"),
                        partition_fn=min_cut_rematerialization_partition, keep_inference_input_mutations=True)(gm, example_inputs)


def weights_of(module, kind):
    """The positions of arguments that are parameters or buffers, in training those that are not trained. They are packed."""
    context = torch._guards.TracingContext.try_get()
    metadata = context.fw_metadata if context else None
    if not metadata:
        return []
    kept = {i for i in metadata.static_input_indices if kind == "inference" or not metadata.input_info[i].requires_grad}
    names = [node.name for node in module.graph.nodes if node.op == "placeholder"]
    return [position for position, name in enumerate(names) if number_of_input(name) - len(metadata.tokens) in kept]


def number_of_input(name):
    """The number by which AOTAutograd calls an input of the program, tokens first; a large negative number for other values."""
    match = re.fullmatch(r"primals_(\d+)|arg(\d+)_1", name)
    return int(match[1]) - 1 if match and match[1] else int(match[2]) if match else -1 << 30


class CompiledGraph:
    """One graph, compiled for all sizes if its sizes are sums and products of symbols, and otherwise for each combination of sizes."""

    all = []  # Of this process, for explain.

    def __init__(self, module, kind, settings):
        self.module, self.kind, self.settings = module, kind, settings
        self.why_aten = None  # The reason why the graph runs in ATen.
        self.by_sizes = {}    # Graphs for one combination of sizes each.
        self.graph = None
        self.compile_id = str(torch._guards.CompileContext.current_compile_id())
        self.weights = weights_of(module, kind)
        placeholders = [node.meta.get("val") for node in module.graph.nodes if node.op == "placeholder"]
        self.sizes = [(i, value.node.expr) for i, value in enumerate(placeholders) if isinstance(value, torch.SymInt)]
        try:
            try:
                self.graph = self.build(None)
            except Unsupported as error:
                if not self.sizes:
                    raise
                log.info("a graph is compiled for each of its sizes, because of %s", error)
        except (Unsupported, RuntimeError) as error:
            self.run_in_aten(error)
        CompiledGraph.all.append(self)

    def run_in_aten(self, error):
        self.why_aten = str(error).split("\n")[0]
        log.warning("a %s graph of %d ops runs in ATen: %s", self.kind, len(self.module.graph.nodes), self.why_aten)
        warnings.warn(f"tenon: a {self.kind} graph runs in ATen because it has {self.why_aten}", stacklevel=2)

    def build(self, fixed):
        text = GraphText(self.module, self.weights, fixed)
        settings = {name: str(value) for name, value in self.settings.items() if name != "freezing"} | {"name": f"{self.kind}_{self.compile_id.replace('/', '_')}"}
        arguments = [-1 if a == "tensor" else -2 if a is None else a for a in text.arguments]
        results = [r if isinstance(r, int) else -1 for r in text.results]
        sizes = {i: r for i, r in enumerate(text.results) if r is not None and not isinstance(r, int)}
        self.result_sizes = sizes
        return _C.Graph(text.text, settings, self.settings["freezing"], arguments, text.constants, results)

    def boxed(self):
        """The function that AOTAutograd calls with a list of arguments."""
        if self.why_aten:
            return make_boxed_func(self.module.forward)
        run = self.graph.run if self.graph and not self.result_sizes else self.run

        def call(args):
            return run(args)

        call._boxed_call = True
        return call

    def run(self, args):
        values = {symbol: args[i] for i, symbol in self.sizes}
        graph = self.graph
        if graph is None:
            key = tuple(values.values())
            if key not in self.by_sizes:
                self.by_sizes[key] = self.build(values)
            graph = self.by_sizes[key]
        out = list(graph.run(args))
        for i, expression in self.result_sizes.items():
            out[i] = values[expression] if expression in values else int(expression.xreplace(values))
        return out


def explain():
    """What Tenon made of the graphs of this process, as text."""
    out = []
    for compiled in CompiledGraph.all:
        if compiled.why_aten:
            out.append(f"tenon: {compiled.kind} {compiled.compile_id} runs in ATen: {compiled.why_aten}\n")
        out += [graph.text() for graph in ([compiled.graph] if compiled.graph else compiled.by_sizes.values())]
    return "\n".join(out)
