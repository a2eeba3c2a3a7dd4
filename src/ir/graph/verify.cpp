#include "ir/graph/verify.h"

#include <algorithm>

#include "base/error.h"

namespace tenon::ir {
namespace {

class GraphVerifier {
 public:
  explicit GraphVerifier(const Graph& graph) : graph_(graph), defined_(graph.values.size(), false) {}

  void run() {
    where_ = "symbols";
    for (int64_t value : graph_.symbols) require(value >= kMinSymbol, "a symbol below " + std::to_string(kMinSymbol));
    for (const Condition& condition : graph_.conditions) {
      has_symbols(condition.left);
      has_symbols(condition.right);
      require(condition.holds(graph_.symbols), "the condition " + condition.text() + ", which the recorded sizes do not fulfil");
    }
    where_ = "inputs";
    for (const Input& input : graph_.inputs) {
      require(input.value != kNoValue, "an input without a value");
      define(input.value);
      require(graph_.values[input.value].alias_of == kNoValue, "an input that aliases a value");
    }
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (i == graph_.backward_start) write_backs(graph_.forward_write_backs);
      node(i);
    }
    where_ = "end";
    write_backs(graph_.write_backs);
    for (ValueId id : graph_.outputs)
      if (id != kNoValue) use(id);
    require(!graph_.is_joint() || graph_.backward_start <= graph_.nodes.size(), "a backward that starts after the end");
  }

 private:
  const TensorType& type(ValueId id) const { return graph_.values[id].type; }
  bool same_shape(ValueId a, ValueId b) const {
    return type(a).dtype == type(b).dtype && type(a).sizes.values(graph_.symbols) == type(b).sizes.values(graph_.symbols);
  }

  void has_symbols(const Size& size) const {
    require(static_cast<size_t>(size.symbols()) <= graph_.symbols.size(), "a symbol that the graph does not list");
  }

  void require(bool holds, const std::string& what) const {
    if (!holds) throw UserError(ErrorCode::verify, "graph @" + graph_.name + ", " + where_ + ": " + what);
  }

  void in_range(ValueId id) const { require(id >= 0 && static_cast<size_t>(id) < graph_.values.size(), "a value that does not exist"); }

  void use(ValueId id) const {
    in_range(id);
    require(defined_[id], "a use before the definition");
  }

  void define(ValueId id) {
    in_range(id);
    require(!defined_[id], "a value defined twice");
    defined_[id] = true;
    const TensorType& t = type(id);
    require(t.sizes.size() == t.strides.size(), "as many strides as sizes");
    has_symbols(t.offset);
    require(t.offset.value(graph_.symbols) >= 0, "a negative offset");
    for (size_t i = 0; i < t.sizes.size(); ++i) {
      has_symbols(t.sizes[i]);
      has_symbols(t.strides[i]);
      require(t.sizes[i].value(graph_.symbols) >= 0 && t.strides[i].value(graph_.symbols) >= 0, "a negative size or stride");
    }
  }

  void write_backs(const std::vector<WriteBack>& list) const {
    std::vector<bool> is_input(graph_.values.size(), false), written = is_input;
    for (const Input& input : graph_.inputs) is_input[input.value] = true;
    for (const WriteBack& write : list) {
      in_range(write.input);
      require(is_input[write.input], "a write-back to something that is not an input");
      use(write.value);
      require(!written[write.input], "two write-backs to one input");
      written[write.input] = true;
      require(same_shape(write.input, write.value), "a write-back of another shape or element type");
    }
  }

  static ValueId operand_at(const Node& n, const Node::Write& write) {
    if (write.argument < 0 || static_cast<size_t>(write.argument) >= n.args.size()) return kNoValue;
    const Argument& arg = n.args[write.argument];
    if (const auto* id = std::get_if<ValueId>(&arg)) return *id;
    const auto* list = std::get_if<ValueList>(&arg);
    if (!list || write.item < 0 || static_cast<size_t>(write.item) >= list->ids.size()) return kNoValue;
    return list->ids[write.item];
  }

  void node(size_t index) {
    const Node& n = graph_.nodes[index];
    where_ = "node " + std::to_string(index) + " (" + n.op + ")";
    require(n.op.find("::") != std::string::npos, "an op without a namespace");
    for (const Argument& arg : n.args) {
      const auto* attribute = std::get_if<Attribute>(&arg);
      if (const Size* size = attribute ? std::get_if<Size>(attribute) : nullptr) has_symbols(*size);
      if (const SizeList* sizes = attribute ? std::get_if<SizeList>(attribute) : nullptr)
        for (const Size& size : *sizes) has_symbols(size);
      if (int32_t scalar = scalar_in(arg); scalar != kNoScalar)
        require(scalar >= 0 && static_cast<size_t>(scalar) < graph_.scalars.size(), "a scalar that the graph does not list");
    }
    std::vector<ValueId> operands;
    for_each_operand(n, [&](ValueId id) {
      use(id);
      operands.push_back(id);
    });
    auto is_operand = [&](ValueId id) { return std::find(operands.begin(), operands.end(), id) != operands.end(); };
    for (const Node::Write& write : n.writes) {
      require(operand_at(n, write) == write.before && write.before != kNoValue, "a write to something that is not an operand");
      require(write.after != kNoValue, "a write without new contents");
    }
    for (const Result& result : n.results) {
      require(result.is_list || result.ids.size() == 1, "a result that is neither one tensor nor a list");
    }
    for_each_definition(n, [&](ValueId id) {
      ValueId alias = graph_.values[id].alias_of;
      if (alias != kNoValue) require(is_operand(alias), "an alias of something that is not an operand");
      define(id);
    });
    for (const Node::Write& write : n.writes)
      require(type(write.after).at(graph_.symbols) == type(write.before).at(graph_.symbols), "new contents of another type");
  }

  const Graph& graph_;
  std::vector<bool> defined_;
  std::string where_;
};

}  // namespace

void verify(const Graph& graph) { GraphVerifier(graph).run(); }

}  // namespace tenon::ir
