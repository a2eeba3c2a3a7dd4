#include "runtime/interpreter.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "bridge/convert.h"
#include "ir/graph/group.h"
#include "runtime/lease.h"

namespace tenon::runtime {

using ir::kNoValue;
using ir::ValueId;

Interpreter::Interpreter(ir::Graph graph, ir::Reuse reuse, std::vector<c10::IValue> resources, c10::DispatchKeySet keys_off,
                         std::vector<KernelStep> kernels, ir::Arena arena, bool keeps_memory)
    : graph_(std::move(graph)),
      resources_(std::move(resources)),
      keys_off_(keys_off),
      kernels_(std::move(kernels)),
      arena_(std::move(arena)),
      keeps_memory_(keeps_memory) {
  if (arena_.locations.empty()) arena_.locations.assign(graph_.values.size(), {ir::Arena::kOwn, 0});
  for (size_t id = 0; id < graph_.values.size(); ++id)
    arena_.locations[id].begin += graph_.values[id].type.offset * ir::dtype_size(graph_.values[id].type.dtype);
  build(std::move(reuse));
  flat_ = FlatPlan::make(graph_, kernels_, keys_off_);
}

Interpreter::~Interpreter() { delete spare_frame_.load(); }

Interpreter::NodeStep Interpreter::call_step(const ir::Node& node) const {
  ValueId first = node.results.empty() || node.results[0].is_list ? kNoValue : node.results[0].ids[0];
  bool is_host = std::count(arena_.hosts.begin(), arena_.hosts.end(), first) > 0;
  bool has_buffer = first != kNoValue && (is_host || arena_.locations[first].host != ir::Arena::kOwn);
  NodeStep step{bridge::find_op(has_buffer ? node.op + ".out" : node.op)};
  if (has_buffer) step.out = first;
  const auto& parameters = step.op->schema().arguments();
  if (parameters.size() != node.args.size() + has_buffer)
    throw UserError(ErrorCode::verify, node.op + " takes " + std::to_string(parameters.size()) + " arguments, the graph gives " +
                                           std::to_string(node.args.size()));
  for (size_t k = 0; k < node.args.size(); ++k) {
    StepArgument argument;
    if (const auto* id = std::get_if<ValueId>(&node.args[k])) {
      argument.kind = StepArgument::Kind::tensor;
      argument.operands.push_back({*id});
    } else if (const auto* list = std::get_if<ir::ValueList>(&node.args[k])) {
      bool optional = parameters[k].type()->str().find('?') != std::string::npos;
      argument.kind = optional ? StepArgument::Kind::optional_tensors : StepArgument::Kind::tensors;
      for (ValueId id : list->ids) argument.operands.push_back({id});
    } else if (int32_t scalar = ir::scalar_in(node.args[k]); scalar != ir::kNoScalar) {
      const auto* tensor = std::get_if<ir::ScalarTensor>(&std::get<ir::Attribute>(node.args[k]));
      argument.kind = tensor ? StepArgument::Kind::scalar_tensor : StepArgument::Kind::scalar;
      argument.scalar = scalar;
      if (tensor) argument.scalar_tensor = *tensor;
    } else {
      argument.constant = bridge::from_attribute(std::get<ir::Attribute>(node.args[k]), *parameters[k].type(), resources_);
    }
    step.args.push_back(std::move(argument));
  }
  step.scatter = node.op == "aten::as_strided_scatter";
  step.calls_cpu_directly = step.op->hasComputedKernelForDispatchKey(c10::DispatchKey::CPU);
  return step;
}

Interpreter::NodeStep Interpreter::kernel_step(const ir::Node& node) const {
  NodeStep step{std::nullopt, &kernels_[ir::group_of(node)]};
  for (size_t k = 1; k < node.args.size(); ++k) step.reads.push_back(std::get<ValueId>(node.args[k]));
  for (const ir::Result& result : node.results) step.makes.push_back(result.ids[0]);
  return step;
}

// Nodes whose results are views that do not escape the run and are not written through; types alone describe such views.
std::vector<bool> Interpreter::find_views() const {
  std::vector<bool> is_seen(graph_.values.size(), false);
  auto see = [&](ValueId id) {
    for (; id != kNoValue; id = graph_.values[id].alias_of) is_seen[id] = true;
  };
  for (ValueId id : graph_.outputs) see(id);
  for (const ir::WriteBack& write : graph_.write_backs) see(write.value);
  for (const ir::Node& node : graph_.nodes)
    for (const ir::Node::Write& write : node.writes) see(write.before);
  std::vector<bool> out;
  for (const ir::Node& node : graph_.nodes) {
    bool is_view = ir::is_view(graph_, node);
    ir::for_each_definition(node, [&](ValueId id) {
      const ir::TensorType& type = graph_.values[id].type;
      bool has_elements = std::count(type.sizes.begin(), type.sizes.end(), 0) == 0;
      is_view = is_view && !is_seen[id] && has_elements && !ir::is_complex(type.dtype) &&
                type.dtype == graph_.values[graph_.values[id].alias_of].type.dtype;
    });
    out.push_back(is_view);
  }
  return out;
}

// The values that die at each node. A view made by the frame does not own its base, so the base lives as long as its views, and as
// long as views of these that ATen makes.
std::vector<std::vector<ValueId>> Interpreter::find_drops(const ir::Reuse& reuse, const std::vector<bool>& is_view) const {
  constexpr size_t kNever = SIZE_MAX;
  std::vector<size_t> dies(graph_.values.size(), kNever);
  for (size_t i = 0; i < reuse.drops.size(); ++i)
    for (ValueId id : reuse.drops[i]) dies[id] = i;
  std::vector<bool> is_unowned(graph_.values.size(), false);
  auto base = [&](ValueId id) { return graph_.values[id].alias_of; };
  for (size_t i = 0; i < graph_.nodes.size(); ++i)
    ir::for_each_definition(graph_.nodes[i],
                            [&](ValueId id) { is_unowned[id] = is_view[i] || (base(id) != kNoValue && is_unowned[base(id)]); });
  for (size_t i = graph_.nodes.size(); i-- > 0;)
    ir::for_each_definition(graph_.nodes[i], [&](ValueId id) {
      if (is_unowned[id]) dies[base(id)] = std::max(dies[base(id)], dies[id]);
    });
  std::vector<std::vector<ValueId>> drops(graph_.nodes.size());
  for (size_t id = 0; id < dies.size(); ++id)
    if (dies[id] != kNever && !is_input_[id]) drops[dies[id]].push_back(static_cast<ValueId>(id));
  return drops;
}

void Interpreter::build(ir::Reuse reuse) {
  is_input_.assign(graph_.values.size(), false);
  for (const ir::Input& input : graph_.inputs) is_input_[input.value] = true;
  is_output_.assign(graph_.values.size(), false);
  for (ValueId id : graph_.outputs)
    if (id != kNoValue) is_output_[id] = true;
  std::vector<bool> is_view = find_views();
  std::vector<std::vector<ValueId>> drops = find_drops(reuse, is_view);
  written_already_ = std::move(reuse.written_already);
  steps_.reserve(graph_.nodes.size());
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    const ir::Node& node = graph_.nodes[i];
    NodeStep step = ir::is_fused(node) ? kernel_step(node) : call_step(node);
    step.results = node.results;
    step.writes = node.writes;
    step.in_place = std::move(reuse.in_place[i]);
    step.no_op = reuse.no_op[i];
    step.is_view = is_view[i];
    step.no_grad = node.no_grad;
    // A value that dies at this node is moved into the last argument that uses it; other dying values are dropped after the call.
    for (ValueId id : drops[i]) {
      Operand* last = nullptr;
      for (StepArgument& argument : step.args)
        for (Operand& operand : argument.operands)
          if (operand.id == id) last = &operand;
      if (last && !step.is_view) last->last = true;
      else step.drops.push_back(id);
    }
    steps_.push_back(std::move(step));
  }
  find_joinable();
}

void Interpreter::find_joinable() {
  auto left = [&](const NodeStep& step) {
    bool is_product = step.kernel && step.kernel->product && !step.kernel->check;
    return is_product && graph_.values[step.reads[0]].type.sizes[0] <= ir::kMaxGemvRows ? step.reads[0] : kNoValue;
  };
  for (size_t i = steps_.size(); i-- > 1;)
    if (left(steps_[i]) != kNoValue && left(steps_[i]) == left(steps_[i - 1]))
      steps_[i - 1].joinable_successors = steps_[i].joinable_successors + 1;
}

void Interpreter::push(const StepArgument& argument, RunFrame& frame, torch::jit::Stack& stack, bool may_move) const {
  auto take = [&](const Operand& operand) -> at::Tensor {
    if (operand.id == kNoValue) return {};
    return operand.last && may_move ? frame.take(operand.id) : frame.tensor(operand.id);
  };
  switch (argument.kind) {
    case StepArgument::Kind::constant:
      stack.push_back(argument.constant);
      break;
    case StepArgument::Kind::scalar:
      stack.emplace_back(frame.scalars[argument.scalar]);
      break;
    case StepArgument::Kind::scalar_tensor: {
      ir::ScalarTensor tensor = argument.scalar_tensor;
      tensor.number = frame.scalars[argument.scalar];
      stack.emplace_back(bridge::from_scalar_tensor(tensor));
      break;
    }
    case StepArgument::Kind::tensor:
      stack.emplace_back(take(argument.operands[0]));
      break;
    case StepArgument::Kind::tensors: {
      c10::List<at::Tensor> list;
      list.reserve(argument.operands.size());
      for (const Operand& operand : argument.operands) list.push_back(take(operand));
      stack.emplace_back(std::move(list));
      break;
    }
    case StepArgument::Kind::optional_tensors: {
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

// Replaces all occurrences of the operand, since in the program they are one tensor.
void Interpreter::put_copy(const NodeStep& step, ValueId id, const at::Tensor& copy, torch::jit::Stack& stack) const {
  for (size_t k = 0; k < step.args.size(); ++k)
    for (size_t i = 0; i < step.args[k].operands.size(); ++i) {
      if (step.args[k].operands[i].id != id) continue;
      if (step.args[k].kind == StepArgument::Kind::tensor) stack[k] = copy;
      else if (step.args[k].kind == StepArgument::Kind::tensors) stack[k].toTensorList().set(i, copy);
    }
}

void Interpreter::run_step(const NodeStep& step, RunFrame& frame, RunMode mode) const {
  if (step.no_op) {
    frame.put(step.results[0].ids[0], frame.tensor(step.args[0].operands[0].id));
    if (step.args[0].operands[0].last) frame.drop(step.args[0].operands[0].id);
    if (step.args[1].operands[0].last) frame.drop(step.args[1].operands[0].id);
    return;
  }
  if (step.is_view && mode == RunMode::kernels && run_view(step, frame)) return;
  if (step.kernel && step.kernel->product) return run_product(step, frame);
  if (step.kernel && step.kernel->convolution) return run_convolution(step, frame);
  if (step.kernel) return step.kernel->call ? run_call(step, frame) : run_kernel(step, frame);
  if (step.scatter && mode != RunMode::autograd) return scatter(step, frame);
  // A node with writes reads its operands from the frame again below, so they are not moved.
  torch::jit::Stack& stack = frame.stack;
  stack.clear();
  for (const StepArgument& argument : step.args) push(argument, frame, stack, /*may_move=*/step.writes.empty());
  c10::SmallVector<at::Tensor, 2> written;
  for (size_t i = 0; i < step.writes.size(); ++i) {
    const ir::Node::Write& write = step.writes[i];
    at::Tensor target = frame.tensor(write.before);
    if (!step.in_place[i]) {
      target = bridge::copy_keeping_layout(target);
      put_copy(step, write.before, target, stack);
    }
    written.push_back(std::move(target));
  }
  if (step.out != kNoValue) stack.emplace_back(output_buffer(step.out, frame));
  if (mode == RunMode::kernels && step.calls_cpu_directly) step.op->redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
  else step.op->callBoxed(&stack);

  for (size_t r = 0; r < step.results.size(); ++r) {
    const ir::Result& result = step.results[r];
    if (result.is_list) {
      auto list = stack[r].toTensorVector();
      if (list.size() != result.ids.size())
        throw InternalError(c10::toString(step.op->operator_name()) + " returned " + std::to_string(list.size()) + " tensors instead of " +
                            std::to_string(result.ids.size()));
      for (size_t k = 0; k < list.size(); ++k)
        if (result.ids[k] != kNoValue) frame.put(result.ids[k], std::move(list[k]));
    } else if (result.ids[0] != kNoValue) {
      frame.put(result.ids[0], std::move(stack[r]).toTensor());
    }
  }
  for (size_t i = 0; i < step.writes.size(); ++i) frame.put(step.writes[i].after, std::move(written[i]));
  if (!step.writes.empty())
    for (const StepArgument& argument : step.args)
      for (const Operand& operand : argument.operands)
        if (operand.last) frame.drop(operand.id);
  for (ValueId id : step.drops) frame.drop(id);
}

at::Tensor Interpreter::allocate_output(ValueId id, RunFrame& frame) const {
  return keeps_memory_ && is_output_[id] ? frame.result(id) : bridge::empty_of(graph_.values[id].type);
}

at::Tensor Interpreter::output_buffer(ValueId id, RunFrame& frame) const {
  if (arena_.locations[id].host != ir::Arena::kOwn) {
    frame.bind_arena(id);
    return frame.tensor(id);
  }
  auto host = std::find(arena_.hosts.begin(), arena_.hosts.end(), id);
  return host == arena_.hosts.end() ? allocate_output(id, frame) : frame.hosts[static_cast<size_t>(host - arena_.hosts.begin())];
}

bool Interpreter::run_view(const NodeStep& step, RunFrame& frame) const {
  for (const ir::Result& result : step.results)
    for (ValueId id : result.ids)
      if (id != kNoValue && !frame.put_view(id)) return false;
  for (ValueId id : step.drops) frame.drop(id);
  return true;
}

void Interpreter::run_call(const NodeStep& step, RunFrame& frame) const {
  std::vector<at::Tensor> inputs;
  for (ValueId id : step.reads) inputs.push_back(frame.tensor(id));
  std::vector<at::Tensor> outputs = step.kernel->call(inputs, frame.scalars);
  if (step.kernel->check) step.kernel->check(inputs, outputs, frame.scalars);
  put_results(step, outputs, frame);
}

void Interpreter::run_product(const NodeStep& step, RunFrame& frame) const {
  auto input = [&](size_t k) { return k < step.reads.size() ? frame.tensor(step.reads[k]) : at::Tensor(); };
  at::Tensor left = input(0), right = input(1), bias = input(2), buffer;
  if (!step.kernel->product->allocates_result()) buffer = output_buffer(step.makes[0], frame);
  const ir::TensorType& type = graph_.values[step.makes[0]].type;
  at::Tensor out = step.kernel->product->run({left, right, bias}, std::move(buffer));
  if (!out.defined()) out = step.kernel->by_aten({left, right, bias}, frame.scalars)[0];
  else if (out.dim() != static_cast<int64_t>(type.sizes.size())) out.unsafeGetTensorImpl()->set_sizes_contiguous(type.sizes);
  if (step.kernel->check) {
    std::vector<at::Tensor> inputs = {left, right};
    if (bias.defined()) inputs.push_back(bias);
    step.kernel->check(inputs, out, frame.scalars);
  }
  put_results(step, out, frame);
}

// Runs consecutive products with the same left operand in one parallel loop. Returns false, without effect, if one of them cannot be
// part of it.
bool Interpreter::run_joined(c10::ArrayRef<NodeStep> steps, RunFrame& frame) const {
  at::Tensor left = frame.tensor(steps[0].reads[0]);
  c10::SmallVector<at::Tensor, 4> rights, biases, outs;
  for (const NodeStep& step : steps) {
    rights.push_back(frame.tensor(step.reads[1]));
    biases.push_back(step.reads.size() > 2 ? frame.tensor(step.reads[2]) : at::Tensor());
  }
  c10::SmallVector<ProductOperands, 4> operands;
  for (size_t i = 0; i < steps.size(); ++i) {
    operands.push_back({left, rights[i], biases[i]});
    if (!steps[i].kernel->product->can_join(operands.back())) return false;
  }
  for (const NodeStep& step : steps) outs.push_back(output_buffer(step.makes[0], frame));
  ProductStep::run_joined(operands, outs);
  for (size_t i = 0; i < steps.size(); ++i) {
    const ir::TensorType& type = graph_.values[steps[i].makes[0]].type;
    if (outs[i].dim() != static_cast<int64_t>(type.sizes.size())) outs[i].unsafeGetTensorImpl()->set_sizes_contiguous(type.sizes);
    put_results(steps[i], outs[i], frame);
  }
  return true;
}

void Interpreter::run_convolution(const NodeStep& step, RunFrame& frame) const {
  std::vector<at::Tensor> inputs;
  for (ValueId id : step.reads) inputs.push_back(frame.tensor(id));
  std::optional<at::Tensor> result = step.kernel->convolution->run(inputs, frame.scalars);
  at::Tensor out = result ? *result : step.kernel->by_aten(inputs, frame.scalars)[0];
  const ir::TensorType& type = graph_.values[step.makes[0]].type;
  if (out.strides() != c10::IntArrayRef(type.strides)) out = bridge::empty_of(type).copy_(out);
  if (step.kernel->check) step.kernel->check(inputs, out, frame.scalars);
  put_results(step, out, frame);
}

void Interpreter::put_results(const NodeStep& step, c10::ArrayRef<at::Tensor> outputs, RunFrame& frame) const {
  for (size_t i = 0; i < outputs.size(); ++i) frame.put(step.makes[i], outputs[i]);
  for (ValueId id : step.drops) frame.drop(id);
}

void Interpreter::run_kernel(const NodeStep& step, RunFrame& frame) const {
  c10::SmallVector<void*, 12> memory;
  for (ValueId id : step.reads) memory.push_back(const_cast<void*>(frame.data(id)));
  for (ValueId id : step.makes) {
    bool is_in_arena = arena_.locations[id].host != ir::Arena::kOwn && step.writes.empty();
    memory.push_back(is_in_arena ? frame.bind_arena(id) : put_output(step, id, frame).mutable_data_ptr());
  }
  if (step.kernel->check || !step.kernel->ranges.empty()) run_checked(step, memory, frame);
  else runtime::run(*step.kernel, memory, frame.scalars);
  for (ValueId id : step.drops) frame.drop(id);
}

// Sets a kernel's result to a new buffer, or to that of the operand which it overwrites.
const at::Tensor& Interpreter::put_output(const NodeStep& step, ValueId id, RunFrame& frame) const {
  at::Tensor out;
  for (size_t w = 0; w < step.writes.size(); ++w)
    if (step.writes[w].after == id && step.in_place[w]) out = frame.tensor(step.writes[w].before);
  frame.put(id, out.defined() ? std::move(out) : output_buffer(id, frame));
  return frame.tensor(id);
}

// Runs a kernel whose indices must be checked, or whose results are compared with ATen.
void Interpreter::run_checked(const NodeStep& step, c10::ArrayRef<void*> memory, RunFrame& frame) const {
  std::vector<at::Tensor> inputs, outputs;
  for (ValueId id : step.makes) outputs.push_back(frame.tensor(id));
  for (ValueId id : step.reads) {
    const at::Tensor& input = frame.tensor(id);
    bool is_overwritten =
        std::any_of(outputs.begin(), outputs.end(), [&](const at::Tensor& t) { return t.const_data_ptr() == input.const_data_ptr(); });
    inputs.push_back(is_overwritten ? bridge::copy_keeping_layout(input) : input);
  }
  if (are_in_range(*step.kernel, inputs)) {
    runtime::run(*step.kernel, memory, frame.scalars);
    if (step.kernel->check) step.kernel->check(inputs, outputs, frame.scalars);
  } else {
    std::vector<at::Tensor> results = step.kernel->by_aten(inputs, frame.scalars);
    for (size_t i = 0; i < outputs.size(); ++i) outputs[i].copy_(results[i]);
  }
}

void Interpreter::scatter(const NodeStep& step, RunFrame& frame) const {
  at::Tensor whole = bridge::copy_keeping_layout(frame.tensor(step.args[0].operands[0].id));
  at::Tensor view =
      whole.as_strided(step.args[2].constant.toIntVector(), step.args[3].constant.toIntVector(), step.args[4].constant.toInt());
  view.copy_(frame.tensor(step.args[1].operands[0].id));
  frame.put(step.results[0].ids[0], std::move(whole));
  for (const StepArgument& argument : step.args)
    for (const Operand& operand : argument.operands)
      if (operand.last) frame.drop(operand.id);
}

void Interpreter::write_back(RunFrame& frame) const {
  std::vector<std::pair<size_t, at::Tensor>> pending;
  for (size_t i = 0; i < graph_.write_backs.size(); ++i) {
    if (written_already_[i]) continue;
    at::Tensor source = frame.tensor(graph_.write_backs[i].value);
    // The source may alias an input that another write-back overwrites, so it is copied first.
    for (const ir::WriteBack& other : graph_.write_backs)
      if (source.is_alias_of(frame.tensor(other.input))) {
        source = source.clone();
        break;
      }
    pending.emplace_back(i, std::move(source));
  }
  for (auto& [i, source] : pending) frame.tensor(graph_.write_backs[i].input).copy_(source);
}

std::unique_ptr<RunFrame> Interpreter::take_frame(c10::ArrayRef<double> scalars) const {
  std::unique_ptr<RunFrame> frame(spare_frame_.exchange(nullptr));
  if (!frame || !frame->fits()) frame = std::make_unique<RunFrame>(graph_, arena_);
  frame->scalars = scalars.empty() ? c10::ArrayRef<double>(graph_.scalars) : scalars;
  if (!frame->block) frame->block.emplace(static_cast<size_t>(arena_.bytes));
  for (ValueId id : arena_.hosts) frame->hosts.push_back(allocate_output(id, *frame));
  return frame;
}

void Interpreter::give_back(std::unique_ptr<RunFrame> frame) const {
  frame->clear();
  if (!keeps_memory_) frame->block.reset();
  delete spare_frame_.exchange(frame.release());
}

void Interpreter::run_steps(RunFrame& frame, RunMode mode, std::vector<double>* seconds) const {
  std::optional<c10::impl::ExcludeDispatchKeyGuard> below;
  std::optional<c10::AutoGradMode> grad;
  if (mode == RunMode::kernels) below.emplace(keys_off_);
  if (mode == RunMode::visible) grad.emplace(false);
  for (size_t i = 0; i < steps_.size(); ++i) {
    std::optional<c10::AutoGradMode> other;
    if (mode == RunMode::autograd && steps_[i].no_grad == at::GradMode::is_enabled()) other.emplace(!steps_[i].no_grad);
    if (seconds) (*seconds)[i] = seconds_of([&] { run_step(steps_[i], frame, mode); });
    else if (steps_[i].joinable_successors > 0 && mode == RunMode::kernels &&
             run_joined({&steps_[i], steps_[i].joinable_successors + 1}, frame))
      i += steps_[i].joinable_successors;
    else run_step(steps_[i], frame, mode);
  }
  if (graph_.write_backs.empty()) return;
  std::optional<c10::AutoGradMode> off;
  if (mode == RunMode::autograd) off.emplace(false);
  write_back(frame);
}

std::vector<at::Tensor> Interpreter::run(std::vector<at::Tensor> inputs, RunMode mode, c10::ArrayRef<double> scalars,
                                         std::vector<double>* seconds) const {
  if (inputs.size() != graph_.inputs.size())
    throw InternalError("graph @" + graph_.name + " takes " + std::to_string(graph_.inputs.size()) + " inputs, got " +
                        std::to_string(inputs.size()));
  if (flat_ && mode == RunMode::kernels) {
    c10::SmallVector<FlatPlan::InputBuffer, 16> all;
    for (const at::Tensor& input : inputs) all.push_back(FlatPlan::InputBuffer::of(input));
    auto results = flat_->run(all, scalars.empty() ? c10::ArrayRef<double>(graph_.scalars) : scalars, /*keeps_results=*/false);
    return {results.begin(), results.end()};
  }
  std::unique_ptr<RunFrame> frame = take_frame(scalars);
  for (size_t i = 0; i < inputs.size(); ++i) frame->put(graph_.inputs[i].value, std::move(inputs[i]));
  run_steps(*frame, mode, seconds);
  std::vector<at::Tensor> outputs;
  outputs.reserve(graph_.outputs.size());
  for (ValueId id : graph_.outputs) outputs.push_back(id == kNoValue ? at::Tensor() : frame->tensor(id));
  give_back(std::move(frame));
  return outputs;
}

c10::SmallVector<at::Tensor, 4> Interpreter::run_kernels(c10::ArrayRef<const at::Tensor*> inputs) const {
  std::unique_ptr<RunFrame> frame = take_frame({});
  for (size_t i = 0; i < inputs.size(); ++i) frame->put(graph_.inputs[i].value, *inputs[i]);
  run_steps(*frame, RunMode::kernels, nullptr);
  c10::SmallVector<at::Tensor, 4> outputs;
  for (ValueId id : graph_.outputs) outputs.push_back(id == kNoValue ? at::Tensor() : frame->tensor(id));
  give_back(std::move(frame));
  return outputs;
}

}  // namespace tenon::runtime
