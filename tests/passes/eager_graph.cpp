#include "passes/eager_graph.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/stack.h>

#include <cstring>
#include <limits>

#include "bridge/convert.h"
#include "capture/listener.h"
#include "ir/graph/verify.h"
#include "planner/reuse.h"
#include "runtime/interpreter.h"

namespace tenon::test {
namespace {

using ir::ValueId;

bool overwrites_first(const std::string& op) {
  size_t dot = op.find('.');
  return op[(dot == std::string::npos ? op.size() : dot) - 1] == '_';
}

std::vector<at::Tensor> run(const ir::Graph& graph, ir::Reuse reuse, const std::vector<at::Tensor>& inputs) {
  return runtime::Interpreter(std::make_shared<const ir::Graph>(graph), graph.symbols, std::move(reuse), {}, capture::keys_above_backends())
      .run(inputs, runtime::RunMode::kernels);
}

std::string unlike(const at::Tensor& expected, const at::Tensor& got) {
  if (got.scalar_type() != expected.scalar_type()) return "another element type";
  if (got.sizes() != expected.sizes()) return "other sizes";
  if (got.strides() != expected.strides()) return "other strides";
  at::Tensor a = expected.contiguous(), b = got.contiguous();
  const char* x = static_cast<const char*>(a.const_data_ptr());
  const char* y = static_cast<const char*>(b.const_data_ptr());
  auto size = static_cast<int64_t>(a.itemsize());
  for (int64_t i = 0; i < a.numel(); ++i)
    if (std::memcmp(x + i * size, y + i * size, static_cast<size_t>(size)) != 0)
      return "element " + std::to_string(i) + " of " + std::to_string(a.numel());
  return "";
}

}  // namespace

ir::FixedType type_of(const at::Tensor& t) {
  return {bridge::to_dtype(t.scalar_type()), t.sizes().vec(), t.strides().vec(), t.storage_offset()};
}

ValueId EagerGraph::input(const at::Tensor& tensor) {
  ValueId id = graph_.add_value(type_of(tensor));
  graph_.inputs.push_back({id, ir::InputRole::argument, "x"});
  tensors_.push_back(tensor);
  inputs_.push_back(tensor);
  return id;
}

c10::IValue EagerGraph::to_ivalue(const ir::Argument& arg, const c10::Type& type) const {
  if (const auto* id = std::get_if<ValueId>(&arg)) return *id == ir::kNoValue ? c10::IValue() : c10::IValue(tensors_[*id]);
  return bridge::from_attribute(std::get<ir::Attribute>(arg), type, {});
}

ValueId EagerGraph::apply(const std::string& op, std::vector<ir::Argument> args) {
  at::NoGradGuard no_grad;
  auto handle = bridge::find_op(op);
  torch::jit::Stack stack;
  for (size_t i = 0; i < args.size(); ++i) stack.push_back(to_ivalue(args[i], *handle.schema().arguments()[i].type()));
  bool writes = overwrites_first(op);
  if (writes) stack[0] = bridge::copy_keeping_layout(stack[0].toTensor());
  handle.callBoxed(&stack);
  at::Tensor result = stack[0].toTensor();
  ir::Node node;
  node.op = op;
  node.args = std::move(args);
  ValueId alias = ir::kNoValue;
  ir::for_each_operand(node, [&](ValueId id) {
    if (tensors_[id].is_alias_of(result)) alias = id;
  });
  ValueId id = graph_.add_value(type_of(result), alias);
  node.results.push_back({false, {id}});
  if (writes) node.writes.push_back({0, 0, std::get<ValueId>(node.args[0]), id});
  graph_.nodes.push_back(std::move(node));
  tensors_.push_back(result);
  return id;
}

std::string EagerGraph::compare(size_t (*pass)(ir::Graph&), ValueId output) {
  graph_.outputs = {output};
  ir::verify(graph_);
  changes = pass(graph_);
  ir::verify(graph_);
  return unlike(tensors_[output], run(graph_, planner::plan_reuse(graph_), inputs_)[0]);
}

std::string EagerGraph::difference(const ir::Graph& before, const ir::Graph& after) const {
  std::vector<at::Tensor> mine, theirs;
  for (const at::Tensor& t : inputs_) mine.push_back(bridge::copy_keeping_layout(t)), theirs.push_back(bridge::copy_keeping_layout(t));
  ir::Reuse plain = planner::plan_reuse(before);
  for (auto& writes : plain.in_place) writes.assign(writes.size(), false);
  plain.no_op.assign(plain.no_op.size(), false);
  plain.written_already.assign(plain.written_already.size(), false);
  for (at::Tensor& t : run(before, std::move(plain), mine)) mine.push_back(std::move(t));
  for (at::Tensor& t : run(after, planner::plan_reuse(after), theirs)) theirs.push_back(std::move(t));
  for (size_t i = 0; i < mine.size(); ++i) {
    std::string which = i < inputs_.size() ? "input " + std::to_string(i) : "output " + std::to_string(i - inputs_.size());
    if (std::string d = unlike(mine[i], theirs[i]); !d.empty()) return which + ": " + d;
    if (mine[i].storage_offset() != theirs[i].storage_offset()) return which + ": another offset";
    for (size_t k = 0; k < i; ++k) {
      bool empty = mine[i].numel() == 0 || mine[k].numel() == 0;  // Aliasing of empty tensors is not observable.
      if (!empty && mine[i].is_alias_of(mine[k]) != theirs[i].is_alias_of(theirs[k])) return which + " shares memory differently";
      if (!empty && theirs[i].is_same(theirs[k])) return which + " is the same object as another";
    }
  }
  return "";
}

at::Tensor special_numbers(at::ScalarType type, int64_t count) {
  at::Tensor t = at::randn({count}, at::kDouble).mul_(4);
  if (at::isFloatingType(type)) {
    at::Tensor typed = t.to(type);
    bool small = type == at::kHalf || type == at::kBFloat16;
    double largest = type == at::kDouble ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
    double least = type == at::kDouble ? std::numeric_limits<double>::denorm_min() : std::numeric_limits<float>::denorm_min();
    std::vector<double> special = {0.0, -0.0, INFINITY, -INFINITY, NAN, -NAN, 1.0, -1.0, largest, -least, least * 3, 0.5};
    for (size_t i = 0; i < special.size() && static_cast<int64_t>(i) < count; ++i)
      if (!small || std::abs(special[i]) < 100 || !std::isfinite(special[i])) typed[static_cast<int64_t>(i)].fill_(special[i]);
    return typed;
  }
  if (type == at::kBool) return t > 0;
  return t.to(at::kLong).to(type);
}

}  // namespace tenon::test
