"""Adapters of a PEFT model as data of compiled graphs.

`bank(peft_model)` makes each layer that has adapters one op of the graph, which asks the layer for its adapters when it runs. So PEFT's own
methods (set_adapter, disable_adapter, load_adapter, delete_adapter, add_weighted_adapter, merge_adapter, adapter_names, ...) never recompile.
The op calls PEFT's own forward of the layer, so all methods are served, dropout included; gradients go to the adapters' parameters.
"""
import contextlib
import copy
import functools
import itertools
import threading
import weakref

import torch

_numbers = itertools.count()
_layers = weakref.WeakValueDictionary()   # By number.
_records = weakref.WeakValueDictionary()  # By number, the calls whose backward may come.
_classes = {}                             # Banked class by class of PEFT.
_AUTOGRAD_KEYS = torch._C._dispatch_tls_local_include_set()
for _key in ("AutogradCPU", "AutogradOther", "AutogradFunctionality", "ADInplaceOrView"):
    _AUTOGRAD_KEYS = _AUTOGRAD_KEYS.add(getattr(torch._C.DispatchKey, _key))


def bank(peft_model):
    """Serves the adapters of this PeftModel as data, also those that are added later. Returns the model; `unbank` undoes it."""
    from peft import PeftModel

    if not isinstance(peft_model, PeftModel):
        raise TypeError(f"bank needs a PeftModel, not a {type(peft_model).__name__}: make one by peft.get_peft_model")
    _change_class(peft_model, _model_class)
    if hasattr(peft_model.base_model, "_enable_peft_forward_hooks"):
        _change_class(peft_model.base_model, _tuner_class)
    _change_class(peft_model.get_base_model(), _base_class)
    _add_layers(peft_model)
    return peft_model


def unbank(peft_model):
    """Gives the model back as PEFT made it."""
    for module in peft_model.modules():
        if original := getattr(type(module), "_tenon_original", None):
            module.__class__ = original
            module.__dict__.pop("_tenon_layer", None)
            module.__dict__.pop("_tenon_number", None)
    return peft_model


def _change_class(module, make):
    if hasattr(type(module), "_tenon_original"):
        return
    original = type(module)
    if original not in _classes:
        _classes[original] = make(original)
    module.__class__ = _classes[original]


def _subclass(original, **members):
    def __reduce_ex__(self, protocol):  # A pickled module is one of PEFT.
        _, (_, *arguments), *rest = original.__reduce_ex__(self, protocol)
        return object.__new__, (original, *arguments), *rest

    def __deepcopy__(self, memo):  # A copied one has a bank too.
        out = memo[id(self)] = type(self).__new__(type(self))
        out.__setstate__(copy.deepcopy(self.__getstate__(), memo))
        return out

    members = {"__reduce_ex__": __reduce_ex__, "__deepcopy__": __deepcopy__, **members}
    return type(original.__name__, (original,), {"_tenon_original": original, "__module__": original.__module__, "__qualname__": original.__qualname__,
                                                 "__doc__": original.__doc__, **members})


# Models. Those of PEFT read which adapters act, so they run in Python, and Dynamo continues in the model that they call.
class _Suspended(threading.local):
    callback = None  # Dynamo's, while this thread is in a PeftModel but not yet in its base.


_suspended = _Suspended()
_set_callback = torch._C._dynamo.eval_frame.set_eval_frame


def _model_class(original):
    def forward(self, *args, **kwargs):
        callback = _set_callback(None)
        try:
            _suspended.callback = callback
            return original.forward(self, *args, **kwargs)
        finally:
            _suspended.callback = None
            _set_callback(callback)

    def add_adapter(self, *args, **kwargs):
        out = original.add_adapter(self, *args, **kwargs)
        _add_layers(self)
        return out

    def load_adapter(self, *args, **kwargs):
        out = original.load_adapter(self, *args, **kwargs)
        _add_layers(self)
        return out

    why = "bank serves a compiled PeftModel, not a compiled function around it; compile peft_model, or call peft_model.base_model.model in the function"
    return _subclass(original, forward=torch._dynamo.disable(forward, recursive=False, reason=why), add_adapter=add_adapter, load_adapter=load_adapter)


def _base_class(original):
    def forward(self, *args, **kwargs):
        callback = _suspended.callback
        if not callback:
            return original.forward(self, *args, **kwargs)
        _suspended.callback = None
        _set_callback(callback)
        try:
            return original.forward(self, *args, **kwargs)
        finally:
            _set_callback(None)

    return _subclass(original, forward=functools.wraps(original.forward)(forward))


def _tuner_class(original):
    @contextlib.contextmanager
    def _enable_peft_forward_hooks(self, *args, **kwargs):
        layers = [module for module in self.modules() if hasattr(module, "_tenon_layer")]
        with contextlib.ExitStack() as stack:
            with _hooks_lock:
                known = [set(module._forward_pre_hooks) for module in layers]
                stack.enter_context(original._enable_peft_forward_hooks(self, *args, **kwargs))
                taken = {module._tenon_number: _take_hooks(module, before) for module, before in zip(layers, known)}
            outer = _call.hooks
            _call.hooks = {number: outer.get(number, ()) + hooks for number, hooks in taken.items()}
            try:
                yield
            finally:
                _call.hooks = outer

    return _subclass(original, _enable_peft_forward_hooks=_enable_peft_forward_hooks)


class _Call(threading.local):
    hooks = {}  # What PEFT does before each layer in this thread's call, by the layer's number.


_call = _Call()
_hooks_lock = threading.Lock()


def _take_hooks(module, before):
    """Takes the hooks that PEFT has registered for one call from the module. Dynamo does not see them then; the layer calls them."""
    taken = ()
    for number in set(module._forward_pre_hooks) - before:
        taken += ((module._forward_pre_hooks.pop(number), module._forward_pre_hooks_with_kwargs.pop(number, False)),)
    return taken


# Layers.
class _Layer:
    """What an op knows about a layer. Graphs hold its number only."""

    def __init__(self, module):
        self.number = next(_numbers)
        self.module = weakref.ref(module)
        _layers[self.number] = self

    def run(self, x):
        module = self.module()
        args, kwargs = (x,), {}
        for hook, with_kwargs in _call.hooks.get(self.number, ()):
            changed = hook(module, args, kwargs) if with_kwargs else hook(module, args)
            if changed is None:
                continue
            if with_kwargs:
                args, kwargs = changed
            else:
                args = changed if isinstance(changed, tuple) else (changed,)
        return type(module)._tenon_original.forward(module, *args, **kwargs)


def _add_layers(model):
    from peft.tuners.tuners_utils import BaseTunerLayer
    from peft.utils.other import AuxiliaryTrainingWrapper

    def visit(module):
        if isinstance(module, AuxiliaryTrainingWrapper) and _is_served(module.original_module):
            add(module)
        elif isinstance(module, BaseTunerLayer) and isinstance(module, torch.nn.Module) and _is_served(module.get_base_layer()):
            add(module)
        else:
            for child in module.children():
                visit(child)

    def add(module):
        _change_class(module, _layer_class)
        if "_tenon_layer" not in module.__dict__:
            module._tenon_layer = _Layer(module)
            module._tenon_number = module._tenon_layer.number

    visit(model)


def _is_served(base):
    """Whether the op knows the size of the layer's result: it has one tensor as input and result."""
    return isinstance(base, (torch.nn.Linear, torch.nn.Embedding, torch.nn.LayerNorm, torch.nn.modules.conv._ConvNd)) or \
        type(base).__name__ == "Conv1D" or type(base).__name__.endswith("RMSNorm")


def _layer_class(original):
    def forward(self, x, *args, **kwargs):
        if args or kwargs:
            return original.forward(self, x, *args, **kwargs)
        if not torch.compiler.is_compiling():
            return self._tenon_layer.run(x)
        autocast = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None
        if torch.is_grad_enabled():
            return torch.ops.torch_tenon.trained_layer(x, _token, self._tenon_number, autocast)[0]
        return torch.ops.torch_tenon.layer(x, self._tenon_number, autocast)

    def __setstate__(self, state):  # Of a copy, which has adapters of its own.
        original.__setstate__(self, state)
        self._tenon_layer = _Layer(self)
        self._tenon_number = self._tenon_layer.number

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if not name.startswith("_tenon_")}

    return _subclass(original, forward=forward, __setstate__=__setstate__, __getstate__=__getstate__)


# Ops. A result requires gradients because the token does; the adapters' parameters are no inputs, so that their number may change.
_token = torch.zeros(0, requires_grad=True)
_library = torch.library.Library("torch_tenon", "DEF")
_random = (torch.Tag.nondeterministic_seeded,)  # Neither repeated nor moved: dropout draws from the default generator.
_library.define("layer(Tensor x, int number, ScalarType? autocast) -> Tensor", tags=_random)
_library.define("trained_layer(Tensor x, Tensor token, int number, ScalarType? autocast) -> (Tensor, Tensor)", tags=_random)
_library.define("trained_layer_backward(Tensor gradient, Tensor record, SymInt[] size, ScalarType dtype, bool needs_x) -> (Tensor, Tensor)", tags=_random)


def _find(number):
    layer = _layers.get(number)
    if layer is None or layer.module() is None:
        raise RuntimeError("a compiled graph calls a layer of a PEFT model that no longer exists, or that `unbank` gave back: compile the model again")
    return layer


def _autocast(dtype):
    return torch.autocast("cpu", dtype=dtype, enabled=dtype is not None)


def _layer(x, number, autocast):
    layer = _find(number)
    with torch.no_grad(), _autocast(autocast):
        out = layer.run(x)
    return out.clone(memory_format=torch.contiguous_format) if out.is_set_to(x) or out._is_view() else out.contiguous()


class _Record(bytearray):
    """One call whose backward may come. The tensor `record` owns it, so it lives as long as what autograd has saved."""


def _with_autograd():
    exclude = torch._C._dispatch_tls_local_exclude_set() - _AUTOGRAD_KEYS
    return torch._C._ForceDispatchKeyGuard(torch._C._dispatch_tls_local_include_set(), exclude)


def _trained_layer(x, token, number, autocast):
    layer = _find(number)
    with _with_autograd(), torch.enable_grad(), _autocast(autocast):
        given = x.detach().clone()  # The graph may reuse the memory of x.
        if given.is_floating_point():
            given.requires_grad_()
        out = layer.run(given)
        record_number = next(_numbers)
        record = _Record(record_number.to_bytes(8, "little"))
        record.given, record.out = given, out
        _records[record_number] = record
    return out.detach().clone(memory_format=torch.contiguous_format), torch.frombuffer(record, dtype=torch.uint8)


def _trained_layer_backward(gradient, record, size, dtype, needs_x):
    found = _records.get(int.from_bytes(bytes(record.tolist()), "little"))
    if found is None or found.out is None:
        raise RuntimeError("the backward of a layer with adapters runs a second time: retain_graph=True is not supported under bank")
    given, out, found.given, found.out = found.given, found.out, None, None
    if out.requires_grad:
        with _with_autograd(), torch.enable_grad():
            # The running backward writes no gradients of parameters if it is one with respect to other tensors. Then it skips the token too.
            writes_all = torch._C._will_engine_execute_node(torch.autograd.graph.get_gradient_edge(_token).node)
            if writes_all or given.requires_grad:
                torch.autograd.backward(out, gradient.to(out.dtype), inputs=None if writes_all else [given])
    wanted = given.grad if needs_x and given.is_floating_point() else None
    return torch.zeros(size if needs_x else [0], dtype=dtype) if wanted is None else wanted.contiguous(), torch.zeros(0)


def _shape(x, number, autocast):
    """A fake tensor like the result of the layer's base."""
    module = _find(number).module()
    base = module.original_module if hasattr(module, "original_module") else module.get_base_layer()
    tensors = {name: torch.empty(t.shape, dtype=t.dtype) for name, t in itertools.chain(base.named_parameters(), base.named_buffers())}
    with torch.no_grad(), _autocast(autocast):
        out = torch.func.functional_call(base, tensors, (x,))
    return torch.empty(out.shape, dtype=out.dtype, device=out.device)


_library.impl("layer", _layer, "CPU")
_library.impl("trained_layer", _trained_layer, "CPU")
_library.impl("trained_layer_backward", _trained_layer_backward, "CPU")
torch.library.register_fake("torch_tenon::layer", _shape, lib=_library)
torch.library.register_fake("torch_tenon::trained_layer", lambda x, token, number, autocast: (_shape(x, number, autocast), torch.empty(8, dtype=torch.uint8)),
                            lib=_library)
torch.library.register_fake("torch_tenon::trained_layer_backward", lambda gradient, record, size, dtype, needs_x: (gradient.new_empty(size if needs_x else [0], dtype=dtype), torch.empty(0)), lib=_library)


def _save(ctx, inputs, output):
    ctx.save_for_backward(output[1])
    ctx.size, ctx.dtype = inputs[0].shape, inputs[0].dtype
    ctx.needs_x = ctx.needs_input_grad[0]
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)


def _backward(ctx, gradient, _):
    if gradient is None:
        return None, None, None, None
    record, = ctx.saved_tensors
    of_x, of_token = torch.ops.torch_tenon.trained_layer_backward(gradient, record, ctx.size, ctx.dtype, ctx.needs_x)
    return of_x if ctx.needs_x else None, of_token, None, None  # The token's gradient keeps the op alive where x needs none.


torch.library.register_autograd("torch_tenon::trained_layer", _backward, setup_context=_save, lib=_library)
