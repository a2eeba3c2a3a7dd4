#include "driver/nodes.h"

#include <ATen/core/grad_mode.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty_strided.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include "base/error.h"
#include "capture/listener.h"
#include "driver/autograd.h"

namespace tenon::driver {
namespace {

using torch::autograd::Node;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

// The defined tangents and the outputs that they belong to.
struct RequestedGradients {
  Tensors outputs, tangents;
  std::vector<bool> defined;
};

RequestedGradients requested_gradients(const variable_list& tangents, const Tensors& outputs) {
  RequestedGradients out;
  for (size_t i = 0; i < tangents.size(); ++i) {
    out.defined.push_back(tangents[i].defined());
    if (!tangents[i].defined()) continue;
    out.outputs.push_back(outputs[i]);
    out.tangents.push_back(tangents[i]);
  }
  return out;
}

// The node over a recorded run, whose own autograd graph still exists.
struct RecordedNode : Node {
  std::shared_ptr<Recording> recording;
  Tensors outputs;  // The differentiable results, as the run returned them.
  Tensors inputs;   // The differentiable externals.

  variable_list apply(variable_list&& tangents) override {
    if (outputs.empty())
      throw UserError(ErrorCode::backward,
                      "the gradient of a compiled function was requested a second time; pass retain_graph=true the first time");
    RequestedGradients requested = requested_gradients(tangents, outputs);
    if (requested.outputs.empty()) return variable_list(inputs.size());
    bool create = at::GradMode::is_enabled();
    std::lock_guard lock(recording->backward_mutex);
    try {
      return differentiate_run(requested, create);
    } catch (...) {
      recording->backward_failed = true;
      throw;
    }
  }

  variable_list differentiate_run(const RequestedGradients& requested, bool create) {
    if (create) recording->kinds->create_graph = true;
    else if (recording->backward && recording->backward->tangent_defined != requested.defined) recording->kinds->other_outputs = true;
    if (create || recording->backward || capture::current_listener())
      return differentiate(requested.outputs, inputs, requested.tangents, create);
    return record(requested);
  }

  // Later gradients of any layout are copied into tensors of the recorded layout, if the forward cannot be run again. An expanded
  // tensor cannot be the target of a copy, so expanded tangents are made contiguous before they are recorded.
  void make_tangents_dense(RequestedGradients& requested) const {
    auto is_expanded = [](const at::Tensor& t) { return t.layout() == at::kStrided && !t.is_non_overlapping_and_dense(); };
    if (std::none_of(requested.tangents.begin(), requested.tangents.end(), is_expanded) || can_run_again(*recording)) return;
    for (at::Tensor& tangent : requested.tangents)
      if (is_expanded(tangent)) tangent = tangent.contiguous();
  }

  variable_list record(RequestedGradients requested) {
    capture::Recorder& recorder = recording->recorder;
    make_tangents_dense(requested);
    RecordedBackward backward;
    backward.first_op = recording->tape().ops.size();
    backward.tangent_defined = requested.defined;
    for (size_t i = 0; i < requested.tangents.size(); ++i) {
      int32_t external = recorder.add_external(capture::External::Kind::tangent, static_cast<int32_t>(i), "tangent " + std::to_string(i),
                                               requested.tangents[i]);
      backward.tangents.push_back(recording->tape().externals[external].ref);
    }
    Tensors gradients;
    {
      recorder.resume();
      capture::ListenScope listen(&recorder);
      gradients = differentiate(requested.outputs, inputs, requested.tangents, false);
    }
    recorder.finish();
    for (const at::Tensor& gradient : gradients) backward.gradients.push_back(recorder.refer(gradient));
    recording->backward = std::move(backward);
    return gradients;
  }

  void release_variables() override { outputs.clear(); }
};

// Sets the default generator to a state for the lifetime of the object, and restores it afterwards. Does nothing if the state is
// undefined.
class SameRandomNumbers {
 public:
  explicit SameRandomNumbers(const at::Tensor& state) {
    if (!state.defined()) return;
    std::lock_guard lock(generator_.mutex());
    before_ = generator_.get_state();
    generator_.set_state(state);
  }
  ~SameRandomNumbers() {
    if (!before_.defined()) return;
    std::lock_guard lock(generator_.mutex());
    generator_.set_state(before_);
  }

 private:
  at::Generator generator_ = at::detail::getDefaultCPUGenerator();
  at::Tensor before_;
};

// The node over the results of a graph.
struct GraphNode : Node {
  std::shared_ptr<const Variant> variant;
  std::vector<SavedVariable> externals;  // Externals that the backward graph or a second forward reads; undefined for the rest.
  Tensors saved;
  at::Tensor generator_state;  // State before the forward, if it drew random numbers.
  bool released = false;

  variable_list apply(variable_list&& tangents) override {
    if (released)
      throw UserError(ErrorCode::backward,
                      "the gradient of a compiled function was requested a second time; pass retain_graph=true the first time");
    bool create = at::GradMode::is_enabled();
    if (!create && !variant->can_rerun) match_recorded_layout(tangents);
    if (create || !matches(tangents)) return run_again(tangents, create);
    const Joint& joint = *variant->joint;
    // Only externals that the backward reads are unpacked; the others may have been modified since, as in eager.
    Tensors bound(variant->externals.size());
    for (size_t i = 0; i < externals.size(); ++i)
      if (variant->backward_reads[i]) bound[i] = externals[i].unpack();
    size_t next = 0;
    for (size_t i = 0; i < variant->externals.size(); ++i)
      if (variant->externals[i].kind == capture::External::Kind::tangent) {
        while (!tangents[next].defined()) ++next;
        bound[i] = tangents[next++];
      } else if (!bound[i].defined() && i >= externals.size()) {
        bound[i] = variant->recording->held.size() > i ? variant->recording->held[i] : at::Tensor();
      }
    Tensors joint_inputs = bind_inputs(joint.program.functional.inputs, bound);
    Tensors inputs;
    for (const autodiff::BackwardInput& input : joint.program.backward_inputs)
      inputs.push_back(input.saved ? saved[input.index] : joint_inputs[input.index]);
    auto mode = capture::current_listener() ? runtime::RunMode::visible : runtime::RunMode::kernels;
    Tensors outputs = joint.program.backward->run(std::move(inputs), mode);
    outputs.insert(outputs.begin(), joint.program.functional.forward_outputs, at::Tensor());
    variable_list gradients;
    for (size_t i = joint.forward_results; i < joint.program.functional.results.size(); ++i)
      gradients.push_back(
          gradient(joint.program.functional.results[i], joint.gradient_requires_grad[i - joint.forward_results], outputs, bound));
    return gradients;
  }

  // Some derivatives of libtorch return an operand itself as its gradient (cummax of an empty tensor).
  at::Tensor gradient(const capture::ResultBinding& binding, bool requires_grad, const Tensors& outputs, const Tensors& bound) const {
    if (requires_grad && binding.kind == capture::ResultBinding::Kind::external) return bound[binding.index];
    return bind_result(binding, outputs, bound, variant->externals);
  }

  // Copies tangents to the layout of the recorded ones.
  void match_recorded_layout(variable_list& tangents) const {
    const Joint* joint = variant->joint.get();
    size_t next = 0;
    for (size_t i = 0; joint && i < tangents.size(); ++i) {
      if (!joint->tangent_defined[i]) continue;
      const capture::Geometry& g = joint->tangents[next++];
      if (!tangents[i].defined() || tangents[i].scalar_type() != g.dtype || tangents[i].sizes() != c10::IntArrayRef(g.sizes)) continue;
      if (tangents[i].layout() == at::kStrided && tangents[i].strides() == c10::IntArrayRef(g.strides)) continue;
      at::Tensor dense = tangents[i].layout() == at::kStrided ? tangents[i] : tangents[i].to_dense();
      tangents[i] = at::empty_strided(g.sizes, g.strides, dense.options()).copy_(dense);
    }
  }

  bool matches(const variable_list& tangents) const {
    const Joint* joint = variant->joint.get();
    if (!joint) {
      variant->wants_backward = true;
      return false;
    }
    size_t next = 0;
    for (size_t i = 0; i < tangents.size(); ++i) {
      if (tangents[i].defined() != joint->tangent_defined[i]) return false;
      if (!tangents[i].defined()) continue;
      const capture::Geometry& g = joint->tangents[next++];
      if (tangents[i].layout() != at::kStrided || tangents[i].scalar_type() != g.dtype ||
          tangents[i].sizes() != c10::IntArrayRef(g.sizes) || tangents[i].strides() != c10::IntArrayRef(g.strides))
        return false;
    }
    return true;
  }

  // Serves a gradient that was not recorded: runs the forward graph under autograd and differentiates that run.
  variable_list run_again(const variable_list& tangents, bool create) {
    if (!variant->can_rerun) {
      if (create) variant->recording->kinds->create_graph = true;
      else if (variant->joint) variant->recording->kinds->other_outputs = true;
      else variant->wants_backward = true;
      throw UserError(ErrorCode::backward,
                      "a call of '" + variant->forward.functional.graph.name + "' was served by a graph, but its gradient " +
                          (create ? "with create_graph" : "of this set of results") +
                          " was never taken before, and the graph cannot be run again under autograd; later calls run eagerly. "
                          "Take such a gradient in one of the first two calls, or compile with Trust::checked");
    }
    at::AutoGradMode on(true);
    SameRandomNumbers again(variant->is_random ? generator_state : at::Tensor());
    Tensors bound(externals.size());
    for (size_t i = 0; i < externals.size(); ++i) bound[i] = externals[i].unpack();
    Tensors outputs = variant->rerun->run(bind_inputs(variant->forward.functional.inputs, bound), runtime::RunMode::autograd);
    Tensors results, inputs;
    for (int32_t i : variant->recording->differentiable_results)
      results.push_back(bind_result(variant->forward.functional.results[i], outputs, bound, variant->externals));
    for (int32_t i : variant->recording->differentiable_externals) inputs.push_back(bound[i]);
    RequestedGradients requested = requested_gradients(tangents, results);
    if (requested.outputs.empty()) return variable_list(inputs.size());
    return differentiate(requested.outputs, inputs, requested.tangents, create);
  }

  void release_variables() override {
    released = true;
    generator_state.reset();
    saved.clear();
    externals.clear();
  }
};

// The node over results that were differentiated inside the compiled function.
struct SpentNode : Node {
  variable_list apply(variable_list&&) override {
    throw UserError(ErrorCode::backward,
                    "this result was differentiated inside the compiled function already; call backward() only there, "
                    "or pass retain_graph=true inside and compile without the backward");
  }
};

}  // namespace

void attach_recorded_node(const std::shared_ptr<Recording>& recording, const std::vector<at::Tensor>& inputs,
                          const detail::TensorPointers& results) {
  if (recording->spent) return;
  auto node = c10::make_intrusive<RecordedNode>();
  node->recording = recording;
  node->inputs = inputs;
  node->set_next_edges(torch::autograd::collect_next_edges(node->inputs));
  for (int32_t i : recording->differentiable_results) {
    at::Tensor original = *results[i];
    node->outputs.push_back(original);
    at::Tensor shown = original.detach();
    torch::autograd::set_history(shown, node);
    for (size_t k = 0; k < results.size(); ++k)
      if (results[k]->is_same(original)) *results[k] = shown;
  }
}

void attach_history(const std::shared_ptr<const Variant>& variant, c10::SmallVectorImpl<at::Tensor>& results,
                    const std::vector<at::Tensor>& externals, std::vector<at::Tensor> saved, at::Tensor generator_state) {
  const Recording& recording = *variant->recording;
  if (recording.spent) {
    auto node = c10::make_intrusive<SpentNode>();
    for (int32_t i : recording.differentiable_results) torch::autograd::set_history(results[i], node);
    return;
  }
  auto node = c10::make_intrusive<GraphNode>();
  node->variant = variant;
  node->saved = std::move(saved);
  node->generator_state = std::move(generator_state);
  Tensors inputs;
  for (int32_t i : recording.differentiable_externals) inputs.push_back(externals[i]);
  node->set_next_edges(torch::autograd::collect_next_edges(inputs));
  node->externals.reserve(externals.size());
  for (size_t i = 0; i < externals.size(); ++i) {
    bool needed = variant->can_rerun || (variant->joint && variant->backward_reads[i]);
    node->externals.emplace_back(needed ? externals[i] : at::Tensor(), /*is_output=*/false);
  }
  for (int32_t i : recording.differentiable_results) torch::autograd::set_history(results[i], node);
}

}  // namespace tenon::driver
