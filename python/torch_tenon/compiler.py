"""The backend of torch.compile: compiles the graphs that AOTAutograd makes of a program."""
import functools
import logging
import re
import sys
import types
import warnings
import weakref
from unittest import mock

import torch
from functorch.compile import min_cut_rematerialization_partition
from torch._dynamo.backends.common import aot_autograd
from torch._functorch._aot_autograd.autograd_cache import BypassAOTAutogradCache
from torch._functorch.aot_autograd import SerializableAOTDispatchCompiler
from torch._inductor import codecache
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files
from torch._inductor.output_code import OutputCode

from . import _C, fx_text
from .fx_text import GraphText, Unsupported

log = logging.getLogger("torch_tenon")
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
MAX_SIZES = 32  # Graphs that are kept for one combination of sizes each.
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
    owner = callable_being_compiled()

    def compiler(kind):
        return SerializableAOTDispatchCompiler(CompiledGraph, functools.partial(CompiledGraph, kind, settings, owner))

    # AOTAutograd's cache saves a forward and its backward together, so it asks for both at once. The kernels of a backward are made when it is called.
    # Registering the parts of Inductor that generate code would take longer than all else that the cache does.
    with (torch._functorch.config.patch(bundled_autograd_cache=True, force_non_lazy_backward_lowering=True),
          torch._inductor.config.patch(post_grad_custom_post_pass=CacheKey(settings)),
          mock.patch.object(codecache, "init_backend_registration", lambda: None)):
        return aot_autograd(fw_compiler=compiler("forward"), bw_compiler=compiler("backward"), inference_compiler=compiler("inference"),
                            partition_fn=min_cut_rematerialization_partition, keep_inference_input_mutations=True)(gm, example_inputs)


class CacheKey(CustomGraphPass):
    """Our part of the key in AOTAutograd's cache. Inductor's settings are part of it, and a pass is the setting that may hold anything."""

    def __init__(self, settings):
        self.settings = settings

    def __call__(self, graph):
        raise AssertionError("Inductor does not compile here")

    def uuid(self):
        files = (__file__, fx_text.__file__, _C.__file__)  # The cache holds text that they wrote and read.
        return (get_hash_for_files(files), *sorted(self.settings.items()))


def callable_being_compiled():
    """A weak reference to what torch.compile was called with and is being called now; None outside of such a call."""
    frame = sys._getframe(1)
    while frame and frame.f_code.co_name != "compile_wrapper":
        frame = frame.f_back
    called = frame.f_locals.get("fn") if frame else None
    if called is None:
        return None
    return weakref.WeakMethod(called) if isinstance(called, types.MethodType) else weakref.ref(called)


def metadata_of_forward():
    context = torch._guards.TracingContext.try_get()
    return context.fw_metadata if context else None


def weights_of(module, kind):
    """The positions of arguments that are parameters or buffers, in training those that are not trained. They are packed."""
    metadata = metadata_of_forward()
    if not metadata:
        return []
    kept = {i for i in metadata.static_input_indices if kind == "inference" or not metadata.input_info[i].requires_grad}
    names = [node.name for node in module.graph.nodes if node.op == "placeholder"]
    return [position for position, name in enumerate(names) if number_of_input(name) - len(metadata.tokens) in kept]


def number_of_input(name):
    """The number by which AOTAutograd calls an input of the program, tokens first; a large negative number for other values."""
    match = re.fullmatch(r"primals_(\d+)|arg(\d+)_1", name)
    return int(match[1]) - 1 if match and match[1] else int(match[2]) if match else -1 << 30


class CompiledGraph(OutputCode):
    """One graph, compiled for all sizes if its sizes are sums and products of symbols, and otherwise for each combination of sizes.

    AOTAutograd calls it with a list of arguments, and keeps a graph for all sizes in its cache: the text, which is compiled again."""

    all = weakref.WeakValueDictionary()  # Of this process in the order of compiling, for explain.
    made = 0  # Number of graphs that were made in this process.
    graph = source = None
    why_aten = None  # The reason why the graph runs in ATen.
    is_over_limit = False  # The user was told that there are more sizes than are kept.

    def __init__(self, kind, settings, owner, module, inputs=None):
        self.module, self.kind, self.settings, self.owner = module, kind, settings, owner
        self.by_sizes = {}    # Graphs for one combination of sizes each, the one used last at the end.
        self.weights = weights_of(module, kind)
        metadata = metadata_of_forward()
        self.has_tokens = bool(metadata and metadata.tokens)
        if kind == "backward" and metadata and metadata.bw_donated_idxs:
            metadata.bw_donated_idxs.clear()  # No saved tensor is written into. If one could be, backward(retain_graph=True) would be an error.
        placeholders = [node.meta.get("val") for node in module.graph.nodes if node.op == "placeholder"]
        self.sizes = [(i, value.node.expr) for i, value in enumerate(placeholders) if isinstance(value, torch.SymInt)]
        self.register()
        try:
            try:
                self.source = self.source_at(None)
                if kind != "backward":  # AOTAutograd asks for the backward with the forward; many programs never call it.
                    self.build_for_all_sizes()
            except Unsupported as error:
                if not self.sizes:
                    raise
                log.info("a graph is compiled for each of its sizes, because of %s", error)
        except Exception as error:  # Nothing that goes wrong here may end the user's program: ATen can run the graph.
            self.run_in_aten(error)

    def register(self):
        self._boxed_call = True  # Of the object, because torch._dynamo.disable copies only its own attributes.
        self.compile_id = str(torch._guards.CompileContext.current_compile_id())
        CompiledGraph.made += 1
        CompiledGraph.all[CompiledGraph.made] = self

    def run_in_aten(self, error):
        self.source = None
        self.why_aten = str(error).split("\n")[0]
        log.warning("a %s graph of %d ops runs in ATen: %s", self.kind, len(self.module.graph.nodes), self.why_aten)
        warnings.warn(f"tenon: a {self.kind} graph runs in ATen because it has {self.why_aten}", stacklevel=2)

    def source_at(self, fixed):
        """The graph as text and what goes with it, for all sizes or for given ones."""
        text = GraphText(self.module, self.weights, fixed)
        arguments = [-1 if a == "tensor" else -2 if a is None else a for a in text.arguments]
        results = [r if isinstance(r, int) else -1 for r in text.results]
        self.result_sizes = {i: r for i, r in enumerate(text.results) if r is not None and not isinstance(r, int)}
        return text.text, arguments, text.constants, results

    def build(self, source):
        settings = {name: str(value) for name, value in self.settings.items() if name != "freezing"} | {"name": f"{self.kind}_{self.compile_id.replace('/', '_')}"}
        text, *arguments = source
        return _C.Graph(text, settings, self.settings["freezing"], *arguments)

    def build_for_all_sizes(self):
        self.graph = self.build(self.source)
        if not self.result_sizes:
            self.run = self.graph.run

    def __call__(self, args):
        return self.run(args)

    def prepare_for_serialization(self):
        if self.source is None:
            raise BypassAOTAutogradCache("tenon compiles the graph for each of its sizes, or runs it in ATen")
        if self.has_tokens:
            raise BypassAOTAutogradCache("the order of ops with effects is passed as arguments, which graphs from the cache do not get")

    def __getstate__(self):
        return {name: getattr(self, name) for name in ("kind", "settings", "source", "sizes", "result_sizes", "has_tokens")}

    def post_compile(self, example_inputs, constants, graph_kwargs):
        """Makes the kernels of a graph from the cache."""
        if self.graph is None:
            self.owner = callable_being_compiled()
            self.register()
            self.build_for_all_sizes()

    def set_triton_bundle(self, triton_bundle):
        pass

    def run(self, args):
        values = {symbol: args[i] for i, symbol in self.sizes}
        if self.source and self.graph is None:
            try:
                self.build_for_all_sizes()
            except Exception as error:
                self.run_in_aten(error)
        graph = self.graph
        if graph is None:
            graph = self.graph_at(values)
            if graph is None:
                return self.module.forward(*args)
        out = list(graph.run(args))
        for i, expression in self.result_sizes.items():
            out[i] = values[expression] if expression in values else int(expression.xreplace(values))
        return out

    def graph_at(self, values):
        """The graph for one combination of sizes; None if it cannot be built."""
        key = tuple(values.values())
        graph = self.by_sizes.pop(key, None)
        if graph is None and not self.why_aten:
            try:
                graph = self.build(self.source_at(values))
            except Exception as error:
                self.run_in_aten(error)
            if len(self.by_sizes) == MAX_SIZES:
                self.warn_of_sizes()
                self.by_sizes.pop(next(iter(self.by_sizes)))
        if graph is not None:
            self.by_sizes[key] = graph
        return graph

    def warn_of_sizes(self):
        if not self.is_over_limit:
            self.is_over_limit = True
            warnings.warn(f"tenon: a {self.kind} graph needs a build for each combination of its sizes, and {MAX_SIZES} are kept; pad inputs to fewer sizes", stacklevel=2)

    def texts(self):
        out = [f"tenon: {self.kind} {self.compile_id} runs in ATen: {self.why_aten}\n"] if self.why_aten else []
        return out + [graph.text() for graph in ([self.graph] if self.graph else self.by_sizes.values())]


def explain(compiled=None):
    """What Tenon made of the graphs of this process, or of what torch.compile returned, as text."""
    called = None
    if compiled is not None:
        for holder in (compiled, getattr(compiled, "_compiled_call_impl", None), getattr(compiled, "forward", None)):
            called = getattr(holder, "__dict__", {}).get("_torchdynamo_orig_callable", called)
        if called is None:
            raise TypeError(f"explain takes what torch.compile returned, or a module whose compile() was called, and not {type(compiled).__name__}")
    out = []
    for graph in list(CompiledGraph.all.values()):
        if compiled is None or graph.owner and graph.owner() == called:
            out += graph.texts()
    return "\n".join(out)
