#include "ir/graph/print.h"

#include "base/text.h"

namespace tenon::ir {
namespace {

template <class List, class F>
std::string join(const List& list, F&& text) {
  std::string out;
  for (const auto& item : list) {
    if (!out.empty()) out += ", ";
    out += text(item);
  }
  return out;
}

std::string real(double value) { return real_text(value); }

std::string boolean(bool flag) { return flag ? "true" : "false"; }

std::string quoted(const std::string& text) {
  static const char* digits = "0123456789abcdef";
  std::string out = "\"";
  for (char c : text) {
    auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 32) {
      out += "\\x";
      out += digits[byte >> 4];
      out += digits[byte & 15];
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string complex_number(const std::complex<double>& value) { return "c(" + real(value.real()) + ", " + real(value.imag()) + ")"; }

std::string sizes_text(const SizeList& list) {
  return join(list, [](const Size& size) { return size.text(); });
}

struct AttributePrinter {
  std::string operator()(const None&) const { return "none"; }
  std::string operator()(bool flag) const { return boolean(flag); }
  std::string operator()(const Size& value) const { return value.text(); }
  std::string operator()(double value) const { return real(value); }
  std::string operator()(const std::complex<double>& value) const { return complex_number(value); }
  std::string operator()(const std::string& text) const { return quoted(text); }
  std::string operator()(const Device& device) const { return "device(" + device.name + ")"; }
  std::string operator()(const Resource& r) const { return "resource(" + std::to_string(r.index) + ")"; }
  std::string operator()(const Scalar& s) const { return "$" + std::to_string(s.index); }
  std::string operator()(const SizeList& list) const { return "i[" + sizes_text(list) + "]"; }
  std::string operator()(const std::vector<double>& list) const { return "f[" + join(list, real) + "]"; }
  std::string operator()(const std::vector<bool>& list) const { return "b[" + join(list, boolean) + "]"; }
  std::string operator()(const std::vector<std::string>& list) const { return "s[" + join(list, quoted) + "]"; }
  std::string operator()(const ScalarTensor& tensor) const {
    std::string value = std::visit([](auto n) { return print(Attribute(n)); }, tensor.number);
    return "num(" + value + ", " + dtype_name(tensor.dtype) + (tensor.plain ? ", plain)" : ")");
  }
};

class GraphPrinter {
 public:
  explicit GraphPrinter(const Graph& graph) : graph_(graph), names_(graph.values.size(), -1) {}

  std::string run() {
    out_ = "graph @" + graph_.name + " {\n";
    for (size_t i = 0; i < graph_.symbols.size(); ++i)
      out_ += "  symbol s" + std::to_string(i) + " = " + std::to_string(graph_.symbols[i]) + "\n";
    for (const Condition& c : graph_.conditions) out_ += "  condition " + c.text() + " " + quoted(c.origin) + "\n";
    for (const Input& input : graph_.inputs)
      out_ += "  input " + define(input.value) + " " + input_role_name(input.role) + " " + quoted(input.name) + "\n";
    for (size_t i = 0; i < graph_.scalars.size(); ++i) out_ += "  scalar $" + std::to_string(i) + " = " + real(graph_.scalars[i]) + "\n";
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (i == graph_.backward_start) backward();
      node(graph_.nodes[i]);
    }
    if (graph_.is_joint() && graph_.backward_start >= graph_.nodes.size()) backward();
    write_backs(graph_.write_backs);
    out_ += "  return " + join(graph_.outputs, [&](ValueId id) { return use(id); }) + "\n}\n";
    return std::move(out_);
  }

 private:
  std::string use(ValueId id) const { return id == kNoValue ? "undef" : "%" + std::to_string(names_.at(id)); }

  std::string define(ValueId id) {
    if (id == kNoValue) return "undef";
    names_.at(id) = next_++;
    const Value& value = graph_.values[id];
    std::string text = use(id) + " : " + print(value.type);
    if (value.alias_of != kNoValue) text += " &" + use(value.alias_of);
    if (value.requires_grad) text += " grad";
    return text;
  }

  std::string result(const Result& r) {
    std::string items = join(r.ids, [&](ValueId id) { return define(id); });
    return r.is_list ? "[" + items + "]" : items;
  }

  std::string argument(const Argument& arg) const {
    if (const auto* id = std::get_if<ValueId>(&arg)) return use(*id);
    if (const auto* list = std::get_if<ValueList>(&arg)) return "[" + join(list->ids, [&](ValueId id) { return use(id); }) + "]";
    return print(std::get<Attribute>(arg));
  }

  void write_backs(const std::vector<WriteBack>& list) {
    for (const WriteBack& write : list) out_ += "  write " + use(write.input) + " <- " + use(write.value) + "\n";
  }

  void backward() {
    write_backs(graph_.forward_write_backs);
    out_ += "  backward\n";
  }

  void node(const Node& n) {
    std::string results = join(n.results, [&](const Result& r) { return result(r); });
    std::string args = join(n.args, [&](const Argument& a) { return argument(a); });
    std::string writes = join(n.writes, [&](const Node::Write& w) {
      bool defined = names_.at(w.after) >= 0;
      std::string argument_index = std::to_string(w.argument) + (w.item ? "." + std::to_string(w.item) : "");
      return argument_index + ": " + use(w.before) + " -> " + (defined ? use(w.after) : define(w.after));
    });
    out_ += "  " + (results.empty() ? "" : results + " = ") + n.op + "(" + args + ")";
    if (!writes.empty()) out_ += " writes(" + writes + ")";
    if (n.ordered) out_ += " ordered";
    if (n.no_grad) out_ += " no_grad";
    out_ += "\n";
  }

  const Graph& graph_;
  std::vector<int32_t> names_;
  int32_t next_ = 0;
  std::string out_;
};

}  // namespace

SizeList default_strides(const SizeList& sizes) {
  SizeList out(sizes.size());
  Size step = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    out[i] = step;
    if (!sizes[i].is_number() || sizes[i].number() > 1) step *= sizes[i];
  }
  return out;
}

std::string print(const TensorType& type) {
  std::string text = std::string(dtype_name(type.dtype)) + "[" + sizes_text(type.sizes) + "]";
  if (!same(type.strides, default_strides(type.sizes))) text += "{" + sizes_text(type.strides) + "}";
  if (!same(type.offset, 0)) text += "+" + type.offset.text();
  return text;
}

std::string print(const Attribute& attribute) { return std::visit(AttributePrinter{}, attribute); }

std::string print(const Graph& graph) { return GraphPrinter(graph).run(); }

}  // namespace tenon::ir
