#include "passes/eager_graph.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/stack.h>

#include <cstring>
#include <limits>
#include <sstream>

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

}  // namespace

ir::TensorType type_of(const at::Tensor& t) {
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
  runtime::Interpreter interpreter(graph_, planner::plan_reuse(graph_), {}, capture::keys_above_backends());
  at::Tensor got = interpreter.run(inputs_, runtime::RunMode::kernels)[0];
  const at::Tensor& expected = tensors_[output];
  if (got.scalar_type() != expected.scalar_type()) return "another element type";
  if (got.sizes() != expected.sizes()) return "other sizes";
  if (got.strides() != expected.strides()) return "other strides";
  at::Tensor a = expected.contiguous(), b = got.contiguous();
  const char* x = static_cast<const char*>(a.const_data_ptr());
  const char* y = static_cast<const char*>(b.const_data_ptr());
  auto size = static_cast<int64_t>(a.itemsize());
  for (int64_t i = 0; i < a.numel(); ++i)
    if (std::memcmp(x + i * size, y + i * size, static_cast<size_t>(size)) != 0) {
      std::ostringstream out;
      out << "element " << i << " of " << a.numel();
      return out.str();
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
