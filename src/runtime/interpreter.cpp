#include "runtime/interpreter.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "bridge/convert.h"
#include "ir/graph/group.h"
#include "runtime/lease.h"

namespace tenon::runtime {

using ir::kNoValue;
using ir::ValueId;

Interpreter::Interpreter(ir::Graph graph, ir::Reuse reuse, std::vector<c10::IValue> resources, c10::DispatchKeySet keys_off,
                         std::vector<KernelStep> kernels, ir::Arena arena)
    : graph_(std::move(graph)),
      resources_(std::move(resources)),
      keys_off_(keys_off),
      kernels_(std::move(kernels)),
      arena_(std::move(arena)) {
  if (arena_.places.empty()) arena_.places.assign(graph_.values.size(), {ir::Arena::kOwn, 0});
  build(std::move(reuse));
  flat_ = FlatPlan::make(graph_, kernels_, keys_off_);
}

Interpreter::Step Interpreter::call_step(const ir::Node& node) const {
  ValueId first = node.results.empty() || node.results[0].is_list ? kNoValue : node.results[0].ids[0];
  bool is_host = std::count(arena_.hosts.begin(), arena_.hosts.end(), first) > 0;
  bool has_place = first != kNoValue && (is_host || arena_.places[first].host != ir::Arena::kOwn);
  Step step{bridge::find_op(has_place ? node.op + ".out" : node.op)};
  if (has_place) step.out = first;
  const auto& parameters = step.op->schema().arguments();
  if (parameters.size() != node.args.size() + has_place)
    throw UserError(ErrorCode::verify, node.op + " takes " + std::to_string(parameters.size()) + " arguments, the graph gives " +
                                           std::to_string(node.args.size()));
  for (size_t k = 0; k < node.args.size(); ++k) {
    Argument argument;
    if (const auto* id = std::get_if<ValueId>(&node.args[k])) {
      argument.kind = Argument::Kind::tensor;
      argument.operands.push_back({*id});
    } else if (const auto* list = std::get_if<ir::ValueList>(&node.args[k])) {
      bool optional = parameters[k].type()->str().find('?') != std::string::npos;
      argument.kind = optional ? Argument::Kind::optional_tensors : Argument::Kind::tensors;
      for (ValueId id : list->ids) argument.operands.push_back({id});
    } else if (int32_t scalar = ir::scalar_in(node.args[k]); scalar != ir::kNoScalar) {
      const auto* number = std::get_if<ir::NumberTensor>(&std::get<ir::Attribute>(node.args[k]));
      argument.kind = number ? Argument::Kind::number : Argument::Kind::scalar;
      argument.scalar = scalar;
      if (number) argument.number = *number;
    } else {
      argument.constant = bridge::from_attribute(std::get<ir::Attribute>(node.args[k]), *parameters[k].type(), resources_);
    }
    step.args.push_back(std::move(argument));
  }
  step.scatter = node.op == "aten::as_strided_scatter";
  step.straight = step.op->hasComputedKernelForDispatchKey(c10::DispatchKey::CPU);
  return step;
}

Interpreter::Step Interpreter::kernel_step(const ir::Node& node) const {
  Step step{std::nullopt, &kernels_[ir::group_of(node)]};
  for (size_t k = 1; k < node.args.size(); ++k) {
    Argument argument;
    argument.kind = Argument::Kind::tensor;
    argument.operands.push_back({std::get<ValueId>(node.args[k])});
    step.args.push_back(std::move(argument));
  }
  return step;
}

void Interpreter::build(ir::Reuse reuse) {
  written_already_ = std::move(reuse.written_already);
  is_input_.assign(graph_.values.size(), false);
  for (const ir::Input& input : graph_.inputs) is_input_[input.value] = true;
  steps_.reserve(graph_.nodes.size());
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    const ir::Node& node = graph_.nodes[i];
    Step step = ir::is_fused(node) ? kernel_step(node) : call_step(node);
    step.results = node.results;
    step.writes = node.writes;
    step.in_place = std::move(reuse.in_place[i]);
    step.no_op = reuse.no_op[i];
    step.no_grad = node.no_grad;
    // Values that die here are moved into their last argument; the rest is dropped after the call.
    for (ValueId id : reuse.drops[i]) {
      if (is_input_[id]) continue;
      Operand* last = nullptr;
      for (Argument& argument : step.args)
        for (Operand& operand : argument.operands)
          if (operand.id == id) last = &operand;
      if (last) last->last = true;
      else step.drops.push_back(id);
    }
    steps_.push_back(std::move(step));
  }
}

void Interpreter::push(const Argument& argument, Environment& env, torch::jit::Stack& stack, bool may_move) const {
  auto take = [&](const Operand& operand) -> at::Tensor {
    if (operand.id == kNoValue) return {};
    if (operand.last && may_move) return std::move(env[operand.id]);
    return env[operand.id];
  };
  switch (argument.kind) {
    case Argument::Kind::constant:
      stack.push_back(argument.constant);
      break;
    case Argument::Kind::scalar:
      stack.emplace_back(env.scalars[argument.scalar]);
      break;
    case Argument::Kind::number: {
      ir::NumberTensor number = argument.number;
      number.number = env.scalars[argument.scalar];
      stack.emplace_back(bridge::make_number(number));
      break;
    }
    case Argument::Kind::tensor:
      stack.emplace_back(take(argument.operands[0]));
      break;
    case Argument::Kind::tensors: {
      c10::List<at::Tensor> list;
      list.reserve(argument.operands.size());
      for (const Operand& operand : argument.operands) list.push_back(take(operand));
      stack.emplace_back(std::move(list));
      break;
    }
    case Argument::Kind::optional_tensors: {
      c10::List<std::optional<at::Tensor>> list;
      list.reserve(argument.operands.size());
      for (const Operand& operand : argument.operands) {
        if (operand.id == kNoValue) list.push_back(std::nullopt);
        else list.push_back(take(operand));
      }
      stack.emplace_back(std::move(list));
      break;
    }
  }
}

// Everywhere that the operand stands: in the program it was one memory too.
void Interpreter::put_copy(const Step& step, ValueId id, const at::Tensor& copy, torch::jit::Stack& stack) const {
  for (size_t k = 0; k < step.args.size(); ++k)
    for (size_t i = 0; i < step.args[k].operands.size(); ++i) {
      if (step.args[k].operands[i].id != id) continue;
      if (step.args[k].kind == Argument::Kind::tensor) stack[k] = copy;
      else if (step.args[k].kind == Argument::Kind::tensors) stack[k].toTensorList().set(i, copy);
    }
}

void Interpreter::run_step(const Step& step, Environment& env, torch::jit::Stack& stack, RunMode mode) const {
  if (step.no_op) {
    env[step.results[0].ids[0]] = env[step.args[0].operands[0].id];
    if (step.args[0].operands[0].last) env[step.args[0].operands[0].id].reset();
    if (step.args[1].operands[0].last) env[step.args[1].operands[0].id].reset();
    return;
  }
  if (step.kernel && step.kernel->product) return run_product(step, env);
  if (step.kernel && step.kernel->convolution) return run_convolution(step, env);
  if (step.kernel) return step.kernel->call ? run_call(step, env) : run_kernel(step, env);
  if (step.scatter && mode != RunMode::autograd) return scatter(step, env);
  // With writes, operands are put in place by hand, so nothing is moved out before.
  stack.clear();
  for (const Argument& argument : step.args) push(argument, env, stack, /*may_move=*/step.writes.empty());
  c10::SmallVector<at::Tensor, 2> written;
  for (size_t i = 0; i < step.writes.size(); ++i) {
    const ir::Node::Write& write = step.writes[i];
    at::Tensor target = env[write.before];
    if (!step.in_place[i]) {
      target = bridge::copy_keeping_layout(target);
      put_copy(step, write.before, target, stack);
    }
    written.push_back(std::move(target));
  }
  if (step.out != kNoValue) stack.emplace_back(make_room(step.out, env));
  if (mode == RunMode::kernels && step.straight) step.op->redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
  else step.op->callBoxed(&stack);

  for (size_t r = 0; r < step.results.size(); ++r) {
    const ir::Result& result = step.results[r];
    if (result.is_list) {
      auto list = stack[r].toTensorVector();
      if (list.size() != result.ids.size())
        throw InternalError(c10::toString(step.op->operator_name()) + " returned " + std::to_string(list.size()) + " tensors instead of " +
                            std::to_string(result.ids.size()));
      for (size_t k = 0; k < list.size(); ++k)
        if (result.ids[k] != kNoValue) env[result.ids[k]] = std::move(list[k]);
    } else if (result.ids[0] != kNoValue) {
      env[result.ids[0]] = std::move(stack[r]).toTensor();
    }
  }
  for (size_t i = 0; i < step.writes.size(); ++i) env[step.writes[i].after] = std::move(written[i]);
  if (!step.writes.empty())
    for (const Argument& argument : step.args)
      for (const Operand& operand : argument.operands)
        if (operand.last) env[operand.id].reset();
  for (ValueId id : step.drops) env[id].reset();
}

at::Tensor Interpreter::make_room(ValueId id, const Environment& env) const {
  const ir::TensorType& type = graph_.values[id].type;
  ir::Arena::Place place = arena_.places[id];
  if (place.host == ir::Arena::kBlock) return bridge::tensor_at(env.block + place.begin, type);
  if (place.host >= 0)
    return bridge::tensor_at(static_cast<char*>(env.hosts[static_cast<size_t>(place.host)].mutable_data_ptr()) + place.begin, type);
  auto host = std::find(arena_.hosts.begin(), arena_.hosts.end(), id);
  return host == arena_.hosts.end() ? bridge::empty_of(type) : env.hosts[static_cast<size_t>(host - arena_.hosts.begin())];
}

void Interpreter::run_call(const Step& step, Environment& env) const {
  std::vector<at::Tensor> inputs;
  for (const Argument& argument : step.args) inputs.push_back(env[argument.operands[0].id]);
  std::vector<at::Tensor> outputs = step.kernel->call(inputs, env.scalars);
  if (step.kernel->check) step.kernel->check(inputs, outputs, env.scalars);
  put_results(step, outputs, env);
}

void Interpreter::run_product(const Step& step, Environment& env) const {
  auto input = [&](size_t k) { return k < step.args.size() ? env[step.args[k].operands[0].id] : at::Tensor(); };
  at::Tensor left = input(0), right = input(1), row = input(2), room;
  if (!step.kernel->product->makes_memory()) room = make_room(step.results[0].ids[0], env);
  const ir::TensorType& type = graph_.values[step.results[0].ids[0]].type;
  bool is_matrix = type.sizes.size() == 2;
  if (room.defined() && !is_matrix) room = room.view({left.size(0), right.size(1)});
  at::Tensor out = step.kernel->product->run({left, right, row}, std::move(room));
  if (!out.defined()) out = step.kernel->by_aten({left, right, row}, env.scalars)[0];
  else if (!is_matrix) out = out.view(type.sizes);
  if (step.kernel->check) {
    std::vector<at::Tensor> inputs = {left, right};
    if (row.defined()) inputs.push_back(row);
    step.kernel->check(inputs, out, env.scalars);
  }
  put_results(step, out, env);
}

void Interpreter::run_convolution(const Step& step, Environment& env) const {
  std::vector<at::Tensor> inputs;
  for (const Argument& argument : step.args) inputs.push_back(env[argument.operands[0].id]);
  std::optional<at::Tensor> result = step.kernel->convolution->run(inputs, env.scalars);
  at::Tensor out = result ? *result : step.kernel->by_aten(inputs, env.scalars)[0];
  const ir::TensorType& type = graph_.values[step.results[0].ids[0]].type;
  if (out.strides() != c10::IntArrayRef(type.strides)) out = bridge::empty_of(type).copy_(out);
  if (step.kernel->check) step.kernel->check(inputs, out, env.scalars);
  put_results(step, out, env);
}

void Interpreter::put_results(const Step& step, c10::ArrayRef<at::Tensor> outputs, Environment& env) const {
  for (size_t i = 0; i < outputs.size(); ++i) env[step.results[i].ids[0]] = outputs[i];
  for (const Argument& argument : step.args)
    if (argument.operands[0].last) env[argument.operands[0].id].reset();
  for (ValueId id : step.drops) env[id].reset();
}

void Interpreter::run_kernel(const Step& step, Environment& env) const {
  c10::SmallVector<at::Tensor, 4> outputs;
  c10::SmallVector<void*, 8> memory;
  std::vector<at::Tensor> inputs;  // as they were, for what looks at them besides
  for (const ir::Result& result : step.results) {
    outputs.push_back({});
    for (size_t w = 0; w < step.writes.size(); ++w)
      if (step.writes[w].after == result.ids[0] && step.in_place[w]) outputs.back() = env[step.writes[w].before];
    if (!outputs.back().defined()) outputs.back() = make_room(result.ids[0], env);
  }
  for (const Argument& argument : step.args) {
    const at::Tensor& input = env[argument.operands[0].id];
    memory.push_back(const_cast<void*>(input.const_data_ptr()));
    if (!step.kernel->check && step.kernel->ranges.empty()) continue;
    bool is_overwritten =
        std::any_of(outputs.begin(), outputs.end(), [&](const at::Tensor& t) { return t.const_data_ptr() == memory.back(); });
    inputs.push_back(is_overwritten ? bridge::copy_keeping_layout(input) : input);
  }
  for (const at::Tensor& output : outputs) memory.push_back(output.mutable_data_ptr());
  if (are_in_range(*step.kernel, inputs)) {
    runtime::run(*step.kernel, memory, env.scalars);
    if (step.kernel->check) step.kernel->check(inputs, outputs, env.scalars);
  } else {
    std::vector<at::Tensor> results = step.kernel->by_aten(inputs, env.scalars);
    for (size_t i = 0; i < outputs.size(); ++i) outputs[i].copy_(results[i]);
  }
  put_results(step, outputs, env);
}

void Interpreter::scatter(const Step& step, Environment& env) const {
  at::Tensor whole = bridge::copy_keeping_layout(env[step.args[0].operands[0].id]);
  at::Tensor part =
      whole.as_strided(step.args[2].constant.toIntVector(), step.args[3].constant.toIntVector(), step.args[4].constant.toInt());
  part.copy_(env[step.args[1].operands[0].id]);
  env[step.results[0].ids[0]] = std::move(whole);
  for (const Argument& argument : step.args)
    for (const Operand& operand : argument.operands)
      if (operand.last) env[operand.id].reset();
}

void Interpreter::write_back(Environment& env) const {
  std::vector<std::pair<size_t, at::Tensor>> pending;
  for (size_t i = 0; i < graph_.write_backs.size(); ++i) {
    if (written_already_[i]) continue;
    at::Tensor source = env[graph_.write_backs[i].value];
    // Another input's memory is about to be overwritten too: read it first.
    for (const ir::WriteBack& other : graph_.write_backs)
      if (source.is_alias_of(env[other.input])) {
        source = source.clone();
        break;
      }
    pending.emplace_back(i, std::move(source));
  }
  for (auto& [i, source] : pending) env[graph_.write_backs[i].input].copy_(source);
}

std::vector<at::Tensor> Interpreter::run(std::vector<at::Tensor> inputs, RunMode mode, c10::ArrayRef<double> scalars) const {
  if (inputs.size() != graph_.inputs.size())
    throw InternalError("graph @" + graph_.name + " takes " + std::to_string(graph_.inputs.size()) + " inputs, got " +
                        std::to_string(inputs.size()));
  if (flat_ && mode == RunMode::kernels) {
    c10::SmallVector<FlatPlan::Input, 16> all;
    for (const at::Tensor& input : inputs) all.push_back(FlatPlan::Input::of(input));
    auto results = flat_->run(all, scalars.empty() ? c10::ArrayRef<double>(graph_.scalars) : scalars, /*keeps_results=*/false);
    return {results.begin(), results.end()};
  }
  Environment env{std::vector<at::Tensor>(graph_.values.size()), scalars.empty() ? c10::ArrayRef<double>(graph_.scalars) : scalars};
  Lease lease(static_cast<size_t>(arena_.bytes));
  env.block = lease.begin();
  for (ValueId id : arena_.hosts) env.hosts.push_back(bridge::empty_of(graph_.values[id].type));
  for (size_t i = 0; i < inputs.size(); ++i) env[graph_.inputs[i].value] = std::move(inputs[i]);
  torch::jit::Stack stack;
  {
    std::optional<c10::impl::ExcludeDispatchKeyGuard> below;
    std::optional<c10::AutoGradMode> grad;
    if (mode == RunMode::kernels) below.emplace(keys_off_);
    if (mode == RunMode::visible) grad.emplace(false);
    for (const Step& step : steps_) {
      std::optional<c10::AutoGradMode> other;
      if (mode == RunMode::autograd && step.no_grad == at::GradMode::is_enabled()) other.emplace(!step.no_grad);
      run_step(step, env, stack, mode);
    }
    if (!graph_.write_backs.empty()) {
      std::optional<c10::AutoGradMode> off;
      if (mode == RunMode::autograd) off.emplace(false);
      write_back(env);
    }
  }
  std::vector<at::Tensor> outputs;
  outputs.reserve(graph_.outputs.size());
  for (ValueId id : graph_.outputs) outputs.push_back(id == kNoValue ? at::Tensor() : env[id]);
  return outputs;
}

}  // namespace tenon::runtime
