#include "driver/variant.h"

#include <ATen/core/enum_tag.h>
#include <ATen/core/grad_mode.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/as_strided.h>
#include <c10/core/InferenceMode.h>

#include <optional>

#include "base/error.h"
#include "capture/listener.h"
#include "driver/nodes.h"
#include "ir/graph/overlap.h"
#include "planner/reuse.h"

namespace tenon::driver {
namespace {

using capture::External;
using capture::ResultBinding;
using runtime::RunMode;

// Calls that a graph computes for nothing, because an aten::equal gives another result, before it is given up. Not measured.
constexpr size_t kMaxFailedComparisons = 8;

// Ops whose order matters must not run again, except ops that draw random numbers: these can start from the same generator state.
bool is_ordered(const capture::TapeOp& op) { return op.ordered && !op.op.hasTag(at::Tag::nondeterministic_seeded); }

bool has_own_generator(const capture::TapeOp& op) {
  for (const capture::TapeArgument& arg : op.args)
    if (const auto* value = std::get_if<c10::IValue>(&arg); value && value->isGenerator()) return true;
  return false;
}

bool has_ordered_ops(const Recording& recording) {
  const auto& ops = recording.recorder.tape().ops;
  return std::any_of(ops.begin(), ops.begin() + static_cast<ptrdiff_t>(recording.forward.ops),
                     [](const capture::TapeOp& op) { return is_ordered(op) || (op.ordered && has_own_generator(op)); });
}

bool draws_random_numbers(const Recording& recording) {
  const auto& ops = recording.recorder.tape().ops;
  return std::any_of(ops.begin(), ops.begin() + static_cast<ptrdiff_t>(recording.forward.ops),
                     [](const capture::TapeOp& op) { return op.ordered; });
}

// Takes handles of externals that only the backward uses. Returns false if one of them does not exist any more.
bool hold_backward_externals(Recording& recording) {
  const auto& externals = recording.tape().externals;
  recording.held.resize(externals.size());
  for (size_t i = recording.forward.externals; i < externals.size(); ++i) {
    if (externals[i].kind == External::Kind::tangent || externals[i].is_constant()) continue;
    auto impl = externals[i].weak.lock();
    if (externals[i].kind != External::Kind::discovered || !impl) {
      recording.backward_obstacles.push_back("a tensor that does not exist any more (" + externals[i].name + ")");
      return false;
    }
    recording.held[i] = at::Tensor(std::move(impl));
  }
  return true;
}

// Whether every in-place write of the program is one in the graph. A write to a copy, or one that was eliminated as dead, would not
// invalidate tensors that autograd saved, as it does in the program.
bool keeps_all_writes(const Recording& recording, const ir::Graph& graph) {
  size_t in_program = 0, in_graph = 0;
  for (size_t i = 0; i < recording.forward.ops; ++i) in_program += !recording.recorder.tape().ops[i].writes.empty();
  ir::Reuse reuse = planner::plan_reuse(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    in_graph += !graph.nodes[i].writes.empty();
    for (bool in_place : reuse.in_place[i])
      if (!in_place) return false;
  }
  return in_program == in_graph;
}

bool requires_grad(const capture::TapeOp& op, const capture::Origin& origin) {
  const capture::TapeArgument& arg = op.args[origin.argument];
  if (const auto* ref = std::get_if<capture::TensorRef>(&arg)) return ref->requires_grad;
  return std::get<capture::TensorListRef>(arg).items[origin.item].requires_grad;
}

// Whether memory is written through one tensor object and read through another one that does not track the write: memory with two
// histories (`h` and `h.detach()`), or memory that is shared without autograd's knowledge (`_unsafe_view`). The value that is read
// has the history of the second object, but the graph distinguishes contents only.
bool has_untracked_writes(const Recording& recording) {
  const capture::Tape& tape = recording.recorder.tape();
  std::vector<bool> is_untracked(tape.storages.size(), false);
  std::vector<int32_t> object(static_cast<size_t>(tape.handles));  // Object per handle; an in-place op gives its operand a new handle.
  for (size_t h = 0; h < object.size(); ++h) object[h] = static_cast<int32_t>(h);
  auto object_of = [&](const capture::TensorRef& ref) { return ref.handle < 0 ? -1 : object[ref.handle]; };
  std::vector<size_t> born(object.size(), 0);  // The op that made the object, whose history includes all earlier writes.
  std::vector<std::pair<size_t, capture::TensorRef>> writes;
  auto reads_other_object = [&](const capture::TensorRef& ref) {
    if (!ref.defined() || !is_untracked[ref.storage]) return false;
    size_t birth = ref.handle < 0 ? 0 : born[object_of(ref)];
    for (const auto& [when, write] : writes)
      if (write.storage == ref.storage && when >= birth && object_of(write) != object_of(ref) &&
          ir::may_overlap(capture::to_type(write.geometry), capture::to_type(ref.geometry)))
        return true;
    return false;
  };
  for (size_t i = 0; i < recording.forward.ops; ++i) {
    const capture::TapeOp& op = tape.ops[i];
    for (const capture::TapeArgument& arg : op.args) {
      if (const auto* ref = std::get_if<capture::TensorRef>(&arg); ref && reads_other_object(*ref)) return true;
      if (const auto* list = std::get_if<capture::TensorListRef>(&arg))
        for (const capture::TensorRef& item : list->items)
          if (reads_other_object(item)) return true;
    }
    for (size_t r = 0; r < op.results.size(); ++r)
      for (size_t k = 0; k < op.results[r].items.size(); ++k) {
        const capture::Origin& origin = op.results[r].origins[k];
        const capture::TensorRef& ref = op.results[r].items[k];
        if (ref.handle >= 0 && !origin.same) born[ref.handle] = i;
        if (origin.argument < 0) continue;
        if (origin.same) {
          const auto* operand = std::get_if<capture::TensorRef>(&op.args[origin.argument]);
          if (operand && operand->handle >= 0 && ref.handle >= 0) object[ref.handle] = object[operand->handle];
          continue;
        }
        bool is_view = op.op.schema().returns()[r].alias_info() != nullptr;
        if (!is_view || requires_grad(op, origin) != ref.requires_grad) is_untracked[ref.storage] = true;
      }
    for (const capture::TapeWrite& write : op.writes) writes.emplace_back(i, write.ref);
  }
  for (const ResultInfo& info : recording.results)
    if (reads_other_object(info.ref)) return true;
  return false;
}

// Whether results share memory. The graph takes them as views of the root, not by the program's views, so their gradients would be
// summed in another order.
bool returns_shared_memory(const Recording& recording) {
  for (size_t i = 0; i < recording.results.size(); ++i)
    for (size_t k = 0; k < i; ++k)
      if (recording.results[i].ref.defined() && recording.results[i].ref.storage == recording.results[k].ref.storage) return true;
  return false;
}

bool can_run_again(const Recording& r, const capture::Functional& forward) {
  const ir::Graph& graph = forward.graph;
  return r.needs_grad() && !r.spent && r.autograd_obstacles.empty() && forward.plain_autograd && graph.write_backs.empty() &&
         !has_ordered_ops(r) && keeps_all_writes(r, graph) && !has_untracked_writes(r) && !returns_shared_memory(r);
}

std::unique_ptr<Joint> make_joint(Recording& recording, const Options& options, build::Phases& phases) {
  for (const capture::BreakEvent& event : recording.tape().breaks)
    if (event.before_op >= recording.backward->first_op) {
      recording.backward_obstacles.push_back(event.op + " " + event.what);
      return nullptr;
    }
  if (recording.host_steps.makes_steps()) {
    recording.backward_obstacles.push_back("an optimizer's step in the forward");
    return nullptr;
  }
  if (!hold_backward_externals(recording)) return nullptr;
  auto joint = std::make_unique<Joint>();
  const RecordedBackward& backward = *recording.backward;
  capture::ProgramResults results = recording.forward_results();
  joint->forward_results = results.forward;
  results.refs.insert(results.refs.end(), backward.gradients.begin(), backward.gradients.end());
  joint->program = build::build_joint_program(recording.tape(), {0, SIZE_MAX, backward.first_op}, results, options, phases);
  recording.backward_obstacles = joint->program.functional.obstacles;
  if (!joint->program.forward) return nullptr;
  joint->tangent_defined = backward.tangent_defined;
  for (const capture::TensorRef& ref : backward.gradients) joint->gradient_requires_grad.push_back(ref.requires_grad);
  for (const capture::TensorRef& ref : backward.tangents) joint->tangents.push_back(ref.geometry);
  return joint;
}

// The reason why a call cannot be undone when an aten::equal turns out to give another result than recorded, or an empty string.
std::string comparison_obstacle(const Recording& recording, const capture::Functional& forward) {
  const capture::Tape& tape = recording.recorder.tape();
  if (tape.comparisons.empty()) return "";
  auto bumps = [](int64_t count) { return count > 0; };
  bool writes = !forward.graph.write_backs.empty() || !recording.gradient_effects.empty() ||
                std::any_of(recording.version_bumps.begin(), recording.version_bumps.end(), bumps);
  bool draws = std::any_of(tape.ops.begin(), tape.ops.begin() + static_cast<ptrdiff_t>(recording.forward.ops), has_own_generator);
  if (!writes && !draws) return "";
  return std::string("it compares tensors on the host (aten::equal) and ") +
         (writes ? "writes to tensors that outlive the call" : "draws from a generator of its own") +
         ", which cannot be undone when a comparison gives another result; compile the part that compares by itself, or with "
         "Trust::checked";
}

std::vector<bool> externals_read(const Joint& joint, size_t externals) {
  const capture::Functional& functional = joint.program.functional;
  std::vector<bool> read(externals, false);
  for (const autodiff::BackwardInput& input : joint.program.backward_inputs)
    if (!input.saved && functional.inputs[input.index].external >= 0) read[functional.inputs[input.index].external] = true;
  for (size_t i = joint.forward_results; i < functional.results.size(); ++i)
    if (functional.results[i].kind == ResultBinding::Kind::external) read[functional.results[i].index] = true;
  return read;
}

std::vector<int32_t> replaced_gradients(const Recording& recording, const std::vector<External>& externals) {
  std::vector<int32_t> out;
  for (const GradientEffect& effect : recording.gradient_effects)
    if (std::none_of(externals.begin(), externals.end(),
                     [&](const External& e) { return e.kind == External::Kind::gradient && e.index == effect.external; }))
      out.push_back(effect.external);
  return out;
}

void set_gradients(const Variant& variant, const Tensors& outputs, const Tensors& externals) {
  const Recording& recording = *variant.recording;
  for (const GradientEffect& effect : recording.gradient_effects) {
    at::Tensor leaf = externals[effect.external];
    if (effect.result < 0) {
      leaf.mutable_grad().reset();
      continue;
    }
    const ResultBinding& binding = variant.forward.functional.results[recording.results.size() + effect.result];
    leaf.mutable_grad() = bind_result(binding, outputs, externals, variant.externals);
  }
}

// Bumps version counters as often as the recorded run did. Tensors that share a counter are bumped once.
void bump_versions(const Recording& recording, const Tensors& externals) {
  c10::SmallVector<std::pair<c10::TensorImpl*, int64_t>, 4> targets;
  for (size_t i = 0; i < recording.version_bumps.size(); ++i)
    if (recording.version_bumps[i] > 0 && externals[i].defined() && !externals[i].is_inference())
      targets.emplace_back(externals[i].unsafeGetTensorImpl(), externals[i]._version() + recording.version_bumps[i]);
  for (auto& [impl, target] : targets)
    while (impl->version_counter().current_version() < target) impl->bump_version();
}

std::shared_ptr<const runtime::Interpreter> build_under_autograd(const ir::Graph& graph, const std::vector<c10::IValue>& resources = {}) {
  return std::make_shared<const runtime::Interpreter>(std::make_shared<const ir::Graph>(graph), graph.symbols, planner::plan_reuse(graph),
                                                      resources, c10::DispatchKeySet());
}

}  // namespace

std::vector<std::shared_ptr<const build::Executable>> Variant::executables() const {
  if (!joint) return {forward.executable};
  return {forward.executable, joint->program.forward, joint->program.backward};
}

bool Variant::may_serve() const {
  if (recording->backward_failed || failed_comparisons >= kMaxFailedComparisons) return false;
  if (!recording->needs_grad() || recording->spent) return true;
  if (wants_backward && !joint) return false;
  return (joint || can_rerun) && eager_reason().empty();
}

std::string Variant::eager_reason() const {
  if (failed_comparisons >= kMaxFailedComparisons)
    return "results of its aten::equal change from call to call; use torch::eq and keep the result in a tensor, or Trust::checked";
  if (can_rerun) return "";
  if (recording->kinds->create_graph) return "its gradient is taken with create_graph, and the graph cannot be run again under autograd";
  if (joint && recording->kinds->other_outputs)
    return "gradients of different sets of its results are taken, and the graph cannot be run again under autograd";
  return "";
}

bool can_run_again(Recording& recording) {
  capture::TapeRange range{0, recording.forward.ops};
  return can_run_again(recording, build::functional_graph(recording.tape(), range, recording.forward_results(), "forward"));
}

namespace {

bool is_direct(const Recording& recording, const Variant& variant) {
  const capture::Functional& f = variant.forward.functional;
  bool out = !recording.needs_grad() && !recording.host_steps.makes_steps() && recording.gradient_effects.empty() &&
             f.graph.write_backs.empty() && f.results.size() == recording.results.size();
  for (int64_t bumps : recording.version_bumps) out &= bumps == 0;
  for (const capture::InputBinding& input : f.inputs) {
    auto kind = variant.externals[static_cast<size_t>(input.external)].kind;
    out &= !input.whole_storage && kind != External::Kind::gradient && kind != External::Kind::tangent;
  }
  for (size_t i = 0; i < f.results.size() && out; ++i)
    out &= f.results[i].kind == ResultBinding::Kind::output && f.results[i].index == static_cast<int32_t>(i) && !variant.views[i] &&
           recording.results[i].same_as_external < 0 && recording.results[i].same_as_result < 0;
  return out;
}

}  // namespace

std::shared_ptr<Variant> make_variant(const std::shared_ptr<Recording>& recording, const Options& options, build::Phases& phases,
                                      std::vector<std::string>& obstacles) {
  Recording& r = *recording;
  auto variant = std::make_shared<Variant>(recording);
  capture::TapeRange range{.end = r.forward.ops, .free_scalars = r.host_steps.is_bound()};
  variant->forward = build::build_program(r.tape(), range, r.forward_results(), options, /*keeps_weights=*/!r.needs_grad(), phases);
  const capture::Functional& functional = variant->forward.functional;
  obstacles.insert(obstacles.end(), functional.obstacles.begin(), functional.obstacles.end());
  if (std::string text = comparison_obstacle(r, functional); !text.empty()) obstacles.push_back(std::move(text));
  if (!obstacles.empty()) return nullptr;
  variant->guards.set_offsets(functional.offset_matters);
  variant->can_rerun = can_run_again(r, functional);
  variant->is_random = (variant->can_rerun || !r.tape().comparisons.empty()) && draws_random_numbers(r);
  if (variant->can_rerun) variant->rerun = build_under_autograd(functional.graph, functional.resources);
  for (const ResultBinding& result : functional.results)
    variant->views.push_back(result.view ? build_under_autograd(*result.view) : nullptr);
  variant->is_direct = is_direct(r, *variant);
  variant->replaced_gradients = replaced_gradients(r, variant->externals);
  if (r.needs_grad() && !r.spent && r.backward) {
    variant->joint = make_joint(r, options, phases);
    if (variant->joint) variant->guards.set_offsets(variant->joint->program.functional.offset_matters);
    if (variant->joint) variant->backward_reads = externals_read(*variant->joint, r.forward.externals);
  }
  return variant;
}

Tensors bind_inputs(const std::vector<capture::InputBinding>& bindings, const Tensors& externals) {
  Tensors inputs;
  inputs.reserve(bindings.size());
  for (const capture::InputBinding& binding : bindings) {
    const at::Tensor& external = externals[binding.external];
    if (!binding.whole_storage || !external.defined()) {
      inputs.push_back(external);
      continue;
    }
    auto flat = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(external.storage()), c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                         external.dtype());
    flat.unsafeGetTensorImpl()->set_sizes_contiguous({static_cast<int64_t>(external.storage().nbytes() / external.itemsize())});
    inputs.push_back(std::move(flat));
  }
  return inputs;
}

at::Tensor bind_result(const ResultBinding& binding, const Tensors& outputs, const Tensors& externals,
                       const std::vector<External>& recorded) {
  const capture::Geometry& g = binding.geometry;
  switch (binding.kind) {
    case ResultBinding::Kind::undefined:
      return {};
    case ResultBinding::Kind::output:
      return outputs[binding.index];
    case ResultBinding::Kind::view_of_output:
      return at::as_strided(outputs[binding.index], g.sizes, g.strides, g.offset);
    case ResultBinding::Kind::external: {
      const at::Tensor& external = externals[binding.index];
      const capture::Geometry& was = recorded[binding.index].ref.geometry;
      if (g == was && !external.requires_grad()) return external;
      return at::as_strided(external.detach(), g.sizes, g.strides, external.storage_offset() + g.offset - was.offset);
    }
  }
  return {};
}

namespace {

detail::GraphResult run_flat(const Variant& variant, const runtime::FlatPlan& flat, const detail::Leaves& in) {
  c10::SmallVector<runtime::FlatPlan::InputBuffer, 16> inputs;
  for (const capture::InputBinding& input : variant.forward.functional.inputs)
    inputs.push_back(runtime::FlatPlan::InputBuffer::of(variant.guards.tensor(in, static_cast<size_t>(input.external))));
  auto results = flat.run(inputs, variant.forward.executable->graph().scalars, /*keeps_results=*/true);
  variant.served_calls.fetch_add(1, std::memory_order_relaxed);
  return {variant.recording->prototype, std::move(results)};
}

detail::GraphResult run_direct(const Variant& variant, const runtime::Interpreter& kernels, const detail::Leaves& in) {
  c10::SmallVector<const at::Tensor*, 64> inputs;
  for (const capture::InputBinding& input : variant.forward.functional.inputs)
    inputs.push_back(&variant.guards.tensor(in, static_cast<size_t>(input.external)));
  auto results = kernels.run_kernels(inputs);
  variant.served_calls.fetch_add(1, std::memory_order_relaxed);
  return {variant.recording->prototype, std::move(results)};
}

// Whether each aten::equal gives the recorded result. `outputs` are those of the forward graph.
bool comparisons_hold(const Recording& recording, const capture::Functional& functional, const Tensors& outputs) {
  const auto& comparisons = recording.recorder.tape().comparisons;
  size_t first = recording.results.size() + recording.extra.size();
  for (size_t i = 0; i < comparisons.size(); ++i)
    if (*outputs[functional.results[first + i].index].const_data_ptr<bool>() != comparisons[i].value) return false;
  return true;
}

void restore_generator(const at::Tensor& state) {
  if (!state.defined()) return;
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  std::lock_guard lock(generator.mutex());
  generator.set_state(state);
}

}  // namespace

detail::GraphResult run_variant(const std::shared_ptr<const Variant>& variant, const detail::Leaves& in) {
  if (const runtime::FlatPlan* flat = variant->is_direct ? variant->forward.executable->flat() : nullptr)
    return run_flat(*variant, *flat, in);
  if (const runtime::Interpreter* kernels = variant->is_direct ? variant->forward.executable->direct() : nullptr)
    return run_direct(*variant, *kernels, in);
  const Recording& recording = *variant->recording;
  Tensors externals = variant->guards.bind(in);
  bool grad = recording.needs_grad();
  bool joint = grad && variant->joint;
  const capture::Functional& functional = joint ? variant->joint->program.functional : variant->forward.functional;

  std::vector<double> scalars;
  bool steps = !joint && recording.host_steps.makes_steps();
  if (steps) {
    auto constants = recording.host_steps.constants(functional.scalars, variant->forward.executable->graph().scalars);
    if (!constants) return {};
    scalars = std::move(*constants);
  }
  at::Tensor generator_state;
  bool may_fail = !recording.recorder.tape().comparisons.empty();
  if ((grad || may_fail) && variant->is_random) {
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    std::lock_guard lock(generator.mutex());
    generator_state = generator.get_state();
  }
  Tensors outputs, saved;
  // Old gradients need no memory beside the new ones, as in eager after zero_grad(). If the call may fail, the program still needs them.
  if (!may_fail)
    for (int32_t leaf : variant->replaced_gradients) externals[static_cast<size_t>(leaf)].mutable_grad().reset();
  {
    std::optional<c10::InferenceMode> inference;
    if (recording.inference) inference.emplace(true);
    const build::Executable& executable = joint ? *variant->joint->program.forward : *variant->forward.executable;
    Tensors inputs = bind_inputs(joint ? variant->joint->program.forward_inputs : functional.inputs, externals);
    try {
      outputs = executable.run(std::move(inputs), RunMode::kernels, scalars);
    } catch (const c10::Error&) {
      if (!may_fail) throw;
      restore_generator(generator_state);
      return {};
    }
    if (!comparisons_hold(recording, functional, outputs)) {
      ++variant->failed_comparisons;
      restore_generator(generator_state);
      return {};
    }
    if (joint) {
      saved.assign(std::make_move_iterator(outputs.begin() + static_cast<ptrdiff_t>(functional.forward_outputs)),
                   std::make_move_iterator(outputs.end()));
      outputs.resize(functional.forward_outputs);
    }
  }
  if (steps) recording.host_steps.count();
  bump_versions(recording, externals);
  if (!recording.gradient_effects.empty()) set_gradients(*variant, outputs, externals);

  detail::GraphResult answer;
  answer.prototype = recording.prototype;
  answer.tensors.reserve(recording.results.size());
  for (size_t i = 0; i < recording.results.size(); ++i) {
    const ResultInfo& info = recording.results[i];
    if (info.same_as_external >= 0) answer.tensors.push_back(externals[info.same_as_external]);
    else if (info.same_as_result >= 0) answer.tensors.push_back(at::Tensor());
    else if (variant->views[i])
      answer.tensors.push_back(variant->views[i]->run({externals[functional.results[i].index]}, RunMode::autograd)[0]);
    else if (info.requires_grad && functional.results[i].kind == ResultBinding::Kind::external)
      answer.tensors.push_back(externals[functional.results[i].index].alias());
    else answer.tensors.push_back(bind_result(functional.results[i], outputs, externals, variant->externals));
  }
  if (grad) attach_history(variant, answer.tensors, externals, std::move(saved), std::move(generator_state));
  for (size_t i = 0; i < recording.results.size(); ++i)
    if (recording.results[i].same_as_result >= 0 && recording.results[i].same_as_external < 0)
      answer.tensors[i] = answer.tensors[recording.results[i].same_as_result];
  variant->served_calls.fetch_add(1, std::memory_order_relaxed);
  return answer;
}

}  // namespace tenon::driver
