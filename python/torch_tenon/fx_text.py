"""FX graphs after AOTAutograd as text of Tenon's graph language."""
import operator

import sympy
import torch
from torch._ops import OpOverload
from torch.utils._sympy.functions import FloorDiv

DTYPES = {torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16", torch.int64: "i64", torch.int32: "i32",
          torch.int16: "i16", torch.int8: "i8", torch.uint8: "u8", torch.bool: "bool", torch.complex64: "c64", torch.complex128: "c128"}
# The numbers of c10::ScalarType, c10::MemoryFormat and c10::Layout, as ops take them.
ENUMS = {torch.uint8: 0, torch.int8: 1, torch.int16: 2, torch.int32: 3, torch.int64: 4, torch.float16: 5, torch.float32: 6, torch.float64: 7,
         torch.complex64: 9, torch.complex128: 10, torch.bool: 11, torch.bfloat16: 15, torch.contiguous_format: 0, torch.preserve_format: 1,
         torch.channels_last: 2, torch.channels_last_3d: 3, torch.strided: 0}
WRAPPED = {bool: "bool", int: "i64", float: "f64", complex: "c128"}
# Checks of types and sizes, which Dynamo's guards have made already.
CHECKS = {"aten::_assert_scalar", "aten::_assert_tensor_metadata", "aten::sym_constrain_range_for_size", "aten::sym_constrain_range"}

# Ops whose results share memory with an argument although their schemas do not say so, and the views that do the same.
HIDDEN_VIEWS = {"aten::_unsafe_view": torch.ops.aten.view.default, "aten::unsafe_split.Tensor": torch.ops.aten.split.Tensor,
                "aten::unsafe_split_with_sizes": torch.ops.aten.split_with_sizes.default}

# Ops that change a part of their first operand and have a variant that does so in place.
PARTIAL_WRITES = {"aten::index_copy", "aten::index_put", "aten::index_add", "aten::index_fill.int_Scalar", "aten::scatter.src", "aten::scatter.value", "aten::scatter_add"}


class Unsupported(Exception):
    """A part of a graph that the graph language cannot express. The text says which."""


def is_size(value):
    return isinstance(value, (torch.SymInt, int)) and not isinstance(value, bool)


def depends_on_data(argument):
    value = argument.meta.get("val") if isinstance(argument, torch.fx.Node) else argument
    return isinstance(value, (torch.SymInt, torch.SymBool, torch.SymFloat)) and not value.node.has_hint()


def overwrites(node):
    """Whether the call can write into its first operand: an argument of the graph that holds the result at the end, such as a cache of keys."""
    if node.target.name() not in PARTIAL_WRITES or node.args[0].op != "placeholder":
        return False
    written = [user.args[1] for user in node.args[0].users if user.target is torch.ops.aten.copy_.default and user.args[0] is node.args[0]]
    return written == [node] and node.meta["val"].stride() == node.args[0].meta["val"].stride()


def real(value):
    text = repr(float(value))
    return text if any(c in text for c in ".en") else text + ".0"


def quoted(text):
    out = ""
    for byte in text.encode():
        out += "\\" + chr(byte) if byte in b'"\\' else f"\\x{byte:02x}" if byte < 32 else bytes([byte]).decode("latin-1")
    return f'"{out}"'


class GraphText:
    """Makes the text of one graph.

    text      the graph
    arguments for each argument of a call: "tensor", the index of a symbol, or None if it is not used
    constants tensors that follow the arguments as inputs
    results   for each result: the index of an output, None, or an expression over the symbols
    """

    def __init__(self, module, weights, fixed=None):
        """`weights`: positions of arguments that are parameters or buffers. `fixed`: values of all symbols by position; then the text has none."""
        self.module, self.weights, self.fixed = module, set(weights), fixed
        self.symbols, self.inputs, self.nodes, self.writes, self.outputs = [], [], [], [], []
        self.values = {}  # FX node: value number, list of them, or None.
        self.arguments, self.constants, self.results = [], [], []
        self.symbol_values, self.next = [], 0
        for node in module.graph.nodes:
            self.add(node)
        lines = [f"  symbol s{i} = {value}" for i, value in enumerate(self.symbol_values)]
        self.text = "\n".join(["graph @dynamo {", *lines, *self.inputs, *self.nodes, *self.writes, "  return " + ", ".join(self.outputs), "}"])

    def add(self, node):
        if node.op == "placeholder":
            self.add_placeholder(node)
        elif node.op == "get_attr":
            self.add_constant(node)
        elif node.op == "output":
            self.add_results(node.args[0])
        elif node.op == "call_function":
            self.add_call(node)
        else:
            raise Unsupported(f"{node.op} {node.target}")

    # Sizes.
    def size(self, value):
        """The text of a size."""
        if isinstance(value, torch.fx.Node):
            value = value.meta["val"]
        if isinstance(value, torch.SymInt):
            return self.expression(value.node.expr)
        return str(int(value))

    def expression(self, e):
        if e.is_Integer:
            return str(int(e))
        if e.is_Symbol:
            if self.fixed is not None and e in self.fixed:
                return str(self.fixed[e])
            if e not in self.symbols:
                raise Unsupported(f"the size {e}, which is no argument of the graph")
            return f"s{self.symbols.index(e)}"
        if self.fixed is not None:
            return str(int(e.xreplace({symbol: sympy.Integer(value) for symbol, value in self.fixed.items()})))
        if e.is_Add:
            return "(" + "+".join(map(self.expression, e.args)) + ")"
        if e.is_Mul:
            return "(" + "*".join(map(self.expression, e.args)) + ")"
        if e.is_Pow and e.exp.is_Integer and 0 < int(e.exp) < 8:
            return "(" + "*".join([self.expression(e.base)] * int(e.exp)) + ")"
        if isinstance(e, FloorDiv) and e.args[1].is_Integer and int(e.args[1]) > 0:
            return f"({self.expression(e.args[0])}//{int(e.args[1])})"
        raise Unsupported(f"the size {e}")

    # Values.
    def define(self, tensor, alias=None):
        if not isinstance(tensor, torch.Tensor):
            raise Unsupported(f"a value of type {type(tensor).__name__}")
        if tensor.device.type != "cpu" or tensor.layout != torch.strided or tensor.dtype not in DTYPES:
            raise Unsupported(f"a tensor of type {tensor.dtype} on {tensor.device}")
        if tensor.is_conj() or tensor.is_neg():
            raise Unsupported("a lazily conjugated or negated tensor")
        number, self.next = self.next, self.next + 1
        sizes, strides = (", ".join(map(self.size, list)) for list in (tensor.shape, tensor.stride()))
        offset = self.size(tensor.storage_offset())
        text = f"%{number} : {DTYPES[tensor.dtype]}[{sizes}]{{{strides}}}" + ("" if offset == "0" else f"+{offset}")
        return number, text + ("" if alias is None else f" &%{alias}")

    def add_input(self, node, tensor, role, name):
        number, text = self.define(tensor)
        self.inputs.append(f"  input {text} {role} {quoted(name)}")
        self.values[node] = number

    def add_placeholder(self, node):
        value = node.meta.get("val")
        position = len(self.arguments)
        if any(user.target is torch.ops.higher_order.with_effects and user.args[0] is node for user in node.users):
            self.values[node] = None  # A token, for which calls pass None.
            self.arguments.append(None)
        elif isinstance(value, torch.Tensor):
            self.add_input(node, value, "state" if position in self.weights else "argument", node.name)
            self.arguments.append("tensor")
        elif isinstance(value, torch.SymInt) and value.node.expr.is_Symbol and self.fixed is None:
            self.arguments.append(self.add_symbol(value))
        elif value is None or isinstance(value, (int, torch.SymInt)):
            self.arguments.append(None)
        else:
            raise Unsupported(f"an argument of type {type(value).__name__}")

    def add_symbol(self, value):
        symbol = value.node.expr
        if symbol not in self.symbols:
            self.symbols.append(symbol)
            if value.node.hint is None:
                raise Unsupported("a size that depends on data")
            self.symbol_values.append(int(value.node.hint))
        return self.symbols.index(symbol)

    def add_constant(self, node):
        value = self.module
        for name in node.target.split("."):
            value = getattr(value, name)
        if not isinstance(value, torch.Tensor):
            raise Unsupported(f"a part of type {type(value).__name__}")
        self.add_input(node, value, "state", node.target)
        self.constants.append(value)

    # Calls.
    def add_call(self, node):
        value = node.meta.get("val")
        if node.target is operator.getitem:
            self.values[node] = self.values[node.args[0]][node.args[1]]
        elif is_size(value):
            return  # Computed from the symbols where it is used.
        elif node.target is torch.ops.higher_order.with_effects:  # An op with an effect takes a token and returns one before its own results.
            token, target, *args = node.args
            results = list(value[1:])
            own = self.add_op(target, args, node.kwargs, results[0] if len(target._schema.returns) == 1 else results, " ordered")
            self.values[node] = [self.values[token], *(own if isinstance(own, list) and len(target._schema.returns) > 1 else [own])]
        elif not isinstance(node.target, OpOverload):
            raise Unsupported(f"the call of {node.target}")
        elif node.target is torch.ops.aten.copy_.default:
            self.add_write(node)
        elif node.target.name() in CHECKS:
            if any(depends_on_data(argument) for argument in node.args):
                raise Unsupported("a check of a number that depends on data")
        elif overwrites(node):  # Without a copy of the whole operand.
            name, dot, overload = node.target.name().partition(".")
            mark = f" writes(0: %{self.values[node.args[0]]} -> %{self.next})"
            self.values[node] = self.add_op(node.target, node.args, node.kwargs, value, mark, f"{name}_{dot}{overload}")
        else:
            mark = "" if node.target._schema.returns else " ordered"  # A check of values, for example.
            self.values[node] = self.add_op(node.target, node.args, node.kwargs, value, mark)

    def add_op(self, target, args, kwargs, value, mark="", variant=None):
        """Adds the call of an op, or of a variant with the same arguments. `value` is what it returns, as fake tensors; returns the same as numbers of values."""
        target = HIDDEN_VIEWS.get(target.name(), target)
        if target is torch.ops.prims.convert_element_type.default:
            target, kwargs, args = torch.ops.aten._to_copy.default, {"dtype": args[1]}, args[:1]
        schema, name = target._schema, target.name()
        if schema.is_mutable:
            raise Unsupported(f"the op {name}, which writes into its arguments")
        if not torch._C._dispatch_has_kernel(name):
            raise Unsupported(f"the op {name}")
        arguments = {p.name: a for p, a in zip(schema.arguments, args)} | dict(kwargs)
        texts = [self.argument(arguments.get(p.name, p.default_value), p.type, name) for p in schema.arguments]
        numbers, results = self.define_results(value, schema, arguments)
        if torch.Tag.nondeterministic_seeded in target.tags:
            mark = " ordered"
        self.nodes.append(f"  {results and results + ' = '}{variant or name}({', '.join(texts)}){mark}")
        return numbers

    def define_results(self, value, schema, arguments):
        """Defines what an op returns. Returns the numbers of the values, and their text."""
        def alias_of(result):
            if not result.alias_info:
                return None
            sets = result.alias_info.before_set  # Empty for lists of views.
            for p in schema.arguments:
                if p.alias_info and isinstance(arguments.get(p.name), torch.fx.Node) and (sets & p.alias_info.before_set if sets else "*" in p.alias_info.after_set):
                    return self.values[arguments[p.name]]
            return None

        def one(tensor, result):
            return (None, "undef") if tensor is None else self.define(tensor, alias_of(result))

        returns = schema.returns
        if len(returns) == 1 and isinstance(value, (list, tuple)):  # A list of tensors.
            pairs = [self.define(tensor, alias_of(returns[0])) for tensor in value]
            return [number for number, _ in pairs], "[" + ", ".join(text for _, text in pairs) + "]"
        if len(returns) == 1:
            return one(value, returns[0])
        pairs = [one(tensor, result) for tensor, result in zip(value or (), returns)]
        return [number for number, _ in pairs], ", ".join(text for _, text in pairs)

    def use(self, node):
        number = self.values.get(node)
        return "undef" if number is None else f"%{number}"

    def argument(self, value, type, op):
        """The text of an argument of an op, by the type that the op's schema gives it."""
        kind = str(type)
        if kind.startswith("Optional["):
            if value is None:
                return "none"
            kind, type = kind[len("Optional["):-1], type.getElementType()
        if kind == "Tensor":
            if isinstance(value, torch.fx.Node) and not is_size(value.meta.get("val")):
                return self.use(value)
            return self.wrapped_number(value)
        if kind in ("List[Tensor]", "List[Optional[Tensor]]"):
            return "[" + ", ".join("undef" if v is None else self.use(v) for v in value) + "]"
        if kind.startswith("List["):
            return self.list_argument(value, type.getElementType(), op)
        if value is None:
            return "none"
        if isinstance(value, (torch.fx.Node, torch.SymInt)):
            if isinstance(value, torch.fx.Node) and not is_size(value.meta.get("val")):
                raise Unsupported(f"a {kind} of {op} that is computed")
            return self.size(value)
        if isinstance(value, (torch.dtype, torch.memory_format, torch.layout)):
            if value not in ENUMS:
                raise Unsupported(f"{value} as an argument of {op}")
            return str(ENUMS[value])
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int):
            return real(value) if kind == "float" else str(value)
        if isinstance(value, float):
            return real(value)
        if isinstance(value, complex):
            return f"c({real(value.real)}, {real(value.imag)})"
        if isinstance(value, str):
            return quoted(value)
        if isinstance(value, torch.device):
            return f"device({value})"
        raise Unsupported(f"an argument of type {value.__class__.__name__} of {op}")

    def wrapped_number(self, value):
        if value is None:
            return "undef"
        if isinstance(value, (torch.fx.Node, torch.SymInt)):
            return f"num({self.size(value)}, i64)"
        if isinstance(value, (bool, int, float, complex)):
            return f"num({self.argument(value, 'Scalar', '')}, {WRAPPED[value.__class__]})"
        raise Unsupported(f"a tensor argument of type {type(value).__name__}")

    def list_argument(self, value, element, op):
        element = str(element)
        value = list(value) if isinstance(value, (list, tuple, torch.fx.immutable_collections.immutable_list)) else [value]
        if element in ("int", "SymInt", "number") and all(is_size(v.meta.get("val") if isinstance(v, torch.fx.Node) else v) for v in value):
            return "i[" + ", ".join(map(self.size, value)) + "]"
        if element == "bool":
            return "b[" + ", ".join("true" if v else "false" for v in value) + "]"
        if element in ("float", "number"):
            return "f[" + ", ".join(map(real, value)) + "]"
        if element == "str":
            return "s[" + ", ".join(map(quoted, value)) + "]"
        raise Unsupported(f"a list of {element} as an argument of {op}")

    def add_write(self, node):
        """`copy_` at the end of a graph: an argument is overwritten."""
        target, source = node.args[:2]
        if target.op != "placeholder":
            raise Unsupported("copy_ into a value that is no argument")
        if source.meta["val"].shape != target.meta["val"].shape or source.meta["val"].dtype != target.meta["val"].dtype:
            raise Unsupported("copy_ that converts or expands")
        self.writes.append(f"  write {self.use(target)} <- {self.use(source)}")
        self.values[node] = self.values[source]

    def add_results(self, results):
        for result in results:
            value = result.meta.get("val") if isinstance(result, torch.fx.Node) else result
            if isinstance(value, torch.Tensor) and self.values.get(result) is not None:
                self.results.append(len(self.outputs))
                self.outputs.append(self.use(result))
            elif is_size(value):
                self.results.append(value.node.expr if isinstance(value, torch.SymInt) else sympy.Integer(value))
            elif value is None or self.values.get(result, 0) is None:
                self.results.append(None)
            else:
                raise Unsupported(f"a result of type {type(value).__name__}")
