#include "build/recompute_cost.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "ops/lowering.h"
#include "ops/table.h"

namespace tenon::build {
namespace {

using ir::ValueId;

// Rough rates of one core, in nanoseconds. They are estimates, not fitted to measurements.
constexpr double kPerElement = 0.05;          // A multiplication in a kernel that runs anyway.
constexpr double kPerExpensiveElement = 0.7;  // An exponential or another transcendental function.
constexpr double kPerByteMoved = 0.1;
constexpr double kPerProductFlop = 0.01;
constexpr double kPerAttentionFlop = 0.03;
constexpr double kPerNode = 50;
constexpr double kPerLibraryCall = 1500;

// The functions of ir/loop/ops.def that are computed by polynomials.
constexpr std::array<std::string_view, 24> kExpensive = {"exp",  "exp2",  "expm1", "log",   "log2", "log10", "log1p",  "sin",
                                                         "cos",  "tan",   "asin",  "acos",  "atan", "atan2", "sinh",   "cosh",
                                                         "tanh", "asinh", "acosh", "atanh", "erf",  "erfc",  "lgamma", "pow"};

int expensive_functions(const ops::Expression& e) {
  int count = e.kind == ops::Expression::Kind::function && std::find(kExpensive.begin(), kExpensive.end(), e.function) != kExpensive.end();
  for (const ops::Expression& operand : e.operands) count += expensive_functions(operand);
  return count;
}

double numel(const ir::Graph& graph, ValueId id) {
  double n = 1;
  for (int64_t size : graph.values[id].type.at(graph.symbols).sizes) n *= static_cast<double>(size);
  return n;
}

// The elements of the largest operand or result.
double largest(const ir::Graph& graph, const ir::Node& node) {
  double most = 0;
  ir::for_each_operand(node, [&](ValueId id) { most = std::max(most, numel(graph, id)); });
  ir::for_each_definition(node, [&](ValueId id) { most = std::max(most, numel(graph, id)); });
  return most;
}

ir::FixedType operand_type(const ir::Graph& graph, const ir::Node& node, size_t argument) {
  return graph.values[std::get<ValueId>(node.args[argument])].type.at(graph.symbols);
}

double library_time(const ir::Graph& graph, const ir::Node& node) {
  // Index of the left operand of a product.
  static constexpr std::array<std::pair<std::string_view, size_t>, 4> kProducts = {
      {{"aten::mm", 0}, {"aten::bmm", 0}, {"aten::addmm", 1}, {"aten::baddbmm", 1}}};
  for (auto [name, left] : kProducts) {
    if (node.op != name) continue;
    double inner = static_cast<double>(operand_type(graph, node, left).sizes.back());
    return kPerLibraryCall + 2 * inner * numel(graph, node.results[0].ids[0]) * kPerProductFlop;
  }
  if (node.op == "aten::_scaled_dot_product_flash_attention_for_cpu") {
    double keys = static_cast<double>(operand_type(graph, node, 1).sizes[2]);
    return kPerLibraryCall + 4 * keys * numel(graph, std::get<ValueId>(node.args[0])) * kPerAttentionFlop;
  }
  return HUGE_VAL;
}

}  // namespace

double recompute_time(const ir::Graph& graph, const ir::Node& node) {
  if (node.ordered) return HUGE_VAL;
  if (const ops::Facts* facts = ops::find(node.op); facts && facts->uninitialized) return kPerNode;
  ops::Lowering lowering = ops::lowering_of(graph, node);
  if (std::holds_alternative<std::monostate>(lowering)) return library_time(graph, node);
  double elements = largest(graph, node);
  const auto* entry = std::get_if<const ops::OpEntry*>(&lowering);
  if (!entry) return kPerNode + elements * kPerByteMoved * 4;
  int expensive = 0;
  for (const ops::Expression& result : (*entry)->results) expensive += expensive_functions(result);
  return kPerNode + elements * (kPerElement + expensive * kPerExpensiveElement);
}

}  // namespace tenon::build
