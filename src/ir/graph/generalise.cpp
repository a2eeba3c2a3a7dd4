#include "ir/graph/generalise.h"

#include <algorithm>

#include "ir/graph/explain_sizes.h"

namespace tenon::ir {
namespace {

template <class List, class F>
void visit_all(List& sizes, F&& f) {
  for (auto& size : sizes) f(size);
}

// Calls f(size) for all integers of types, and f(size, node, argument) for those of arguments, in a fixed order: inputs come first, sizes
// before strides.
template <class G, class F>
void for_each_size(G& graph, F&& f) {
  std::vector<bool> done(graph.values.size(), false);
  auto visit = [&](ValueId id) {
    if (id == kNoValue || done[id]) return;
    done[id] = true;
    visit_all(graph.values[id].type.sizes, f);
    visit_all(graph.values[id].type.strides, f);
    f(graph.values[id].type.offset);
  };
  for (auto& input : graph.inputs) visit_all(graph.values[input.value].type.sizes, f);
  for (auto& input : graph.inputs) visit(input.value);
  for (auto& node : graph.nodes) {
    for_each_definition(node, visit);
    for (size_t i = 0; i < node.args.size(); ++i) {
      auto* attribute = std::get_if<Attribute>(&node.args[i]);
      auto visit_argument = [&](auto& size) { f(size, &node, i); };
      if (!attribute) continue;
      if (auto* size = std::get_if<Size>(attribute)) visit_argument(*size);
      else if (auto* sizes = std::get_if<SizeList>(attribute)) visit_all(*sizes, visit_argument);
      else if (auto* tensor = std::get_if<ScalarTensor>(attribute))
        if (auto* number = std::get_if<Size>(&tensor->number)) visit_argument(*number);
    }
  }
}

bool same_structure(const Attribute& a, const Attribute& b) {
  if (a.index() != b.index()) return false;
  if (std::holds_alternative<Size>(a)) return true;
  if (const auto* sizes = std::get_if<SizeList>(&a)) return sizes->size() == std::get<SizeList>(b).size();
  if (const auto* x = std::get_if<ScalarTensor>(&a)) {
    const auto& y = std::get<ScalarTensor>(b);
    bool are_integers = std::holds_alternative<Size>(x->number) && std::holds_alternative<Size>(y.number);
    return x->dtype == y.dtype && x->plain == y.plain && (are_integers || same(a, b));
  }
  return same(a, b);
}

bool same_structure(const Argument& a, const Argument& b) {
  const auto *x = std::get_if<Attribute>(&a), *y = std::get_if<Attribute>(&b);
  return x && y ? same_structure(*x, *y) : !x && !y && a == b;
}

bool same_structure(const Node& a, const Node& b) {
  return a.op == b.op && a.results == b.results && a.writes == b.writes && a.ordered == b.ordered && a.no_grad == b.no_grad &&
         std::equal(a.args.begin(), a.args.end(), b.args.begin(), b.args.end(),
                    [](const Argument& x, const Argument& y) { return same_structure(x, y); });
}

bool same_structure(const Value& a, const Value& b) {
  return a.alias_of == b.alias_of && a.requires_grad == b.requires_grad && a.type.dtype == b.type.dtype &&
         a.type.sizes.size() == b.type.sizes.size() && a.type.strides.size() == b.type.strides.size();
}

template <class T, class Same>
bool all_same(const std::vector<T>& a, const std::vector<T>& b, Same&& same) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}

std::vector<int64_t> numbers_of(const Graph& graph) {
  std::vector<int64_t> out;
  for_each_size(graph, [&](const Size& size, const Node* = nullptr, size_t = 0) { out.push_back(size.number()); });
  return out;
}

}  // namespace

bool same_structure(const Graph& a, const Graph& b) {
  auto same_write_back = [](const WriteBack& x, const WriteBack& y) { return x.input == y.input && x.value == y.value; };
  return a.name == b.name && a.outputs == b.outputs && a.backward_start == b.backward_start && a.scalars.size() == b.scalars.size() &&
         all_same(a.inputs, b.inputs,
                  [](const Input& x, const Input& y) { return x.value == y.value && x.role == y.role && x.name == y.name; }) &&
         all_same(a.write_backs, b.write_backs, same_write_back) &&
         all_same(a.forward_write_backs, b.forward_write_backs, same_write_back) &&
         all_same(a.values, b.values, [](const Value& x, const Value& y) { return same_structure(x, y); }) &&
         all_same(a.nodes, b.nodes, [](const Node& x, const Node& y) { return same_structure(x, y); });
}

std::optional<Graph> generalise(const std::vector<const Graph*>& graphs, const MayBeSize& may_be_size) {
  std::vector<std::vector<int64_t>> numbers;  // One list per graph.
  for (const Graph* graph : graphs) {
    if (!same_structure(*graphs[0], *graph)) return std::nullopt;
    numbers.push_back(numbers_of(*graph));
  }
  size_t input_sizes = 0;
  for (const Input& input : graphs[0]->inputs) input_sizes += graphs[0]->values[input.value].type.sizes.size();
  Graph out = *graphs.back();
  SizeExplainer explainer(graphs.size());
  size_t at = 0;
  bool is_explained = true;
  for_each_size(out, [&](Size& size, const Node* node = nullptr, size_t argument = 0) {
    SizeSamples samples;
    for (const auto& list : numbers) samples.push_back(list[at]);
    bool differs = std::any_of(samples.begin(), samples.end(), [&](int64_t n) { return n != samples[0]; });
    if (node && differs && !may_be_size(*node, argument)) is_explained = false;
    std::optional<Size> found = at < input_sizes ? explainer.input_size(samples) : explainer.explain(samples);
    ++at;
    if (found) size = *found;
    else is_explained = false;
  });
  if (!is_explained) return std::nullopt;
  out.symbols = explainer.recorded();
  return out;
}

std::optional<SymbolValues> symbols_of(const Graph& symbolic, const Graph& graph) {
  if (!same_structure(symbolic, graph)) return std::nullopt;
  std::vector<int64_t> numbers = numbers_of(graph);
  // A symbol is the size of an input; 0 while it is unknown.
  SymbolValues symbols(symbolic.symbols.size(), 0);
  size_t at = 0;
  for (const Input& input : symbolic.inputs)
    for (const Size& size : symbolic.values[input.value].type.sizes) {
      int64_t number = numbers[at++];
      for (size_t s = 0; s < symbols.size() && !size.is_number(); ++s)
        if (symbols[s] == 0 && same(size, Size::symbol(static_cast<int32_t>(s)))) symbols[s] = number;
    }
  if (std::any_of(symbols.begin(), symbols.end(), [](int64_t value) { return value < kMinSymbol; })) return std::nullopt;
  bool matches = true;
  at = 0;
  for_each_size(symbolic,
                [&](const Size& size, const Node* = nullptr, size_t = 0) { matches = size.value(symbols) == numbers[at++] && matches; });
  return matches ? std::optional(symbols) : std::nullopt;
}

}  // namespace tenon::ir
