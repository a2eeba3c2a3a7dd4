#include "driver/recording.h"

#include <ATen/autocast_mode.h>
#include <ATen/ops/as_strided.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "capture/prepare.h"
#include "capture/tensors.h"
#include "driver/autograd.h"
#include "driver/nodes.h"
#include "driver/scopes.h"

namespace tenon::driver {
namespace {

using capture::External;

// Turns off autocast's cache: a cast that was cached before the run would be a tensor that no recorded op made.
class AutocastCacheOff {
 public:
  AutocastCacheOff() : was_(at::autocast::is_autocast_cache_enabled()) { at::autocast::set_autocast_cache_enabled(false); }
  ~AutocastCacheOff() { at::autocast::set_autocast_cache_enabled(was_); }

 private:
  bool was_;
};

const void* history_of(const at::Tensor& tensor) { return tensor.grad_fn().get(); }

// The state of a tensor before the run.
struct TensorBefore {
  at::Tensor tensor;
  capture::Geometry geometry;
  const void* history = nullptr;
  bool requires_grad = false;
  const c10::TensorImpl* gradient = nullptr;
};

class RunRecorder {
 public:
  RunRecorder(const detail::Leaves& in, const Options& options, KnownLeaves& known) : in_(in), known_(known) {
    detail::WatchedState parts;
    for (const Watched& watched : options.watch) watched.list(parts);
    recording_ =
        std::make_shared<Recording>(in, parts, capture::RecordOptions{.fullgraph = options.fullgraph, .records_comparisons = true});
    for (size_t i = 0; i < in.tensors.size(); ++i) {
      const at::Tensor& tensor = *in.tensors[i];
      std::string name = "argument " + std::to_string(i);
      if (!tensor.defined()) continue;
      if (!tensor.device().is_cpu())
        throw UserError(ErrorCode::device, name + " is on " + tensor.device().str() + "; Tenon compiles for the CPU only");
      add_known(External::Kind::argument, static_cast<int32_t>(i), name, tensor);
    }
    std::unordered_set<const c10::TensorImpl*> listed;  // A module and its optimizer may both be watched.
    for (auto& [name, tensor] : parts.tensors)
      if (tensor.defined() && listed.insert(tensor.unsafeGetTensorImpl()).second) add_known(External::Kind::state, 0, name, tensor);
    for (auto& weak : known_)
      if (auto impl = weak.lock()) note_before(at::Tensor(std::move(impl)));
  }

  std::shared_ptr<Recording> run(const std::function<detail::RecordedResult()>& body) {
    detail::RecordedResult outcome;
    {
      AutocastCacheOff no_cache;
      capture::prepare_process();
      PlainTorchScript plain;
      capture::ListenScope listen(&recording_->recorder);
      outcome = body();
    }
    recording_->recorder.finish();
    Recording& r = *recording_;
    r.host_steps.finish();
    r.prototype = outcome.prototype;
    note_results(outcome.tensors);
    hold_externals();
    note_changes();
    try {
      note_autograd(outcome.tensors);
    } catch (const c10::Error&) {
      // grad_fn() throws for a view from split() whose base was overwritten.
      r.obstacles.push_back("the function returns a view whose autograd history libtorch cannot provide");
      r.differentiable_results.clear();
    }
    r.forward = {r.tape().ops.size(), r.tape().externals.size()};
    for (size_t i = 0; i < r.tape().externals.size(); ++i) {
      at::Tensor tensor = tensor_of(i);
      bool counted = tensor.defined() && !tensor.is_inference();
      r.version_bumps.push_back(counted ? tensor._version() - r.tape().externals[i].version : 0);
    }
    std::vector<bool> gradient_defined;
    for (size_t i = 0; i < r.tape().externals.size(); ++i) {
      at::Tensor tensor = tensor_of(i);
      auto known = tensor.defined() ? before_.find(tensor.unsafeGetTensorImpl()) : before_.end();
      gradient_defined.push_back(known != before_.end() && known->second.gradient);
    }
    r.guards.close(r.tape(), r.held, r.touches_gradients, gradient_defined);
    if (r.guards.has_overlaps())
      r.obstacles.push_back("the function writes to memory that several storages share (from_blob, shared memory, mapped files)");
    if (has_tangents()) r.obstacles.push_back("forward-mode AD is active on its tensors");
    if (!r.tape().breaks.empty())
      r.obstacles.push_back("it has " + std::to_string(r.tape().breaks.size()) + " graph breaks (listed under breaks)");
    for (const std::string& text : r.tape().obstacles) r.obstacles.push_back(text);
    if (r.needs_grad() && r.obstacles.empty()) attach_recorded_node(recording_, boundary_, outcome.tensors);
    return recording_;
  }

 private:
  bool has_tangents() const {
    for (size_t i = 0; i < recording_->tape().externals.size(); ++i)
      if (at::Tensor tensor = tensor_of(i); tensor.defined() && capture::has_tangent(tensor)) return true;
    return false;
  }

  void add_known(External::Kind kind, int32_t index, const std::string& name, const at::Tensor& tensor) {
    recording_->recorder.add_external(kind, index, name, tensor);
    note_before(tensor);
  }

  void note_before(const at::Tensor& tensor) {
    if (before_.count(tensor.unsafeGetTensorImpl())) return;
    TensorBefore b{tensor, {}, history_of(tensor), tensor.requires_grad()};
    if (tensor.layout() == at::kStrided) b.geometry = capture::geometry_of(tensor);
    if (b.requires_grad && tensor.is_leaf() && tensor.grad().defined()) b.gradient = tensor.grad().unsafeGetTensorImpl();
    before_.emplace(tensor.unsafeGetTensorImpl(), std::move(b));
  }

  void note_results(const detail::TensorPointers& tensors) {
    Recording& r = *recording_;
    std::unordered_map<const void*, int32_t> externals, earlier;  // The keys are tensor objects.
    for (size_t e = 0; e < r.tape().externals.size(); ++e)
      externals.emplace(r.tape().externals[e].weak._unsafe_get_target(), static_cast<int32_t>(e));
    for (size_t i = 0; i < tensors.size(); ++i) {
      const at::Tensor& tensor = *tensors[i];
      ResultInfo info;
      if (tensor.defined()) {
        if (tensor.layout() == at::kStrided && r.recorder.storage_id(tensor) < 0)
          r.obstacles.push_back("the function returns a tensor that no recorded op made");
        info.ref = r.recorder.refer(tensor);
        info.requires_grad = tensor.requires_grad();
        info.inference = tensor.is_inference();
        auto& last = earlier.try_emplace(tensor.unsafeGetTensorImpl(), -1).first->second;
        info.same_as_result = std::exchange(last, static_cast<int32_t>(i));
        if (auto it = externals.find(tensor.unsafeGetTensorImpl()); it != externals.end()) info.same_as_external = it->second;
        bool made_inside = info.ref.defined() && r.tape().storages[info.ref.storage].made_by >= 0;
        if (made_inside && info.inference && !r.settings.inference_mode) r.inference = true;
      }
      r.results.push_back(std::move(info));
    }
    for (const ResultInfo& info : r.results)
      if (r.inference && info.ref.defined() && !info.inference)
        r.obstacles.push_back("the function makes only some of its results in inference mode");
  }

  // Takes strong handles of externals that are not found by argument position, and remembers new leaves for later runs.
  void hold_externals() {
    Recording& r = *recording_;
    for (External& e : r.tape().externals) {
      at::Tensor handle;
      if (e.kind == External::Kind::state || e.kind == External::Kind::discovered) {
        if (auto impl = e.weak.lock()) {
          handle = at::Tensor(std::move(impl));
        } else if (auto storage = e.weak_storage.lock()) {
          handle = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(std::move(storage)), c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                            c10::scalarTypeToTypeMeta(e.ref.geometry.dtype));
          handle.unsafeGetTensorImpl()->set_sizes_contiguous({0});
          handle = at::as_strided(handle, e.ref.geometry.sizes, e.ref.geometry.strides, e.ref.geometry.offset);
          e.ref.requires_grad = false;
        } else if (!e.is_constant()) {
          r.obstacles.push_back("the function uses a tensor that was made outside the dispatcher (from_blob, another thread)");
        }
        if (handle.defined() && e.ref.requires_grad && handle.is_leaf() && !before_.count(handle.unsafeGetTensorImpl())) {
          r.new_leaves = true;
          known_.push_back(e.weak);
        }
      }
      r.held.push_back(std::move(handle));
    }
  }

  at::Tensor tensor_of(size_t external) const {
    const External& e = recording_->tape().externals[external];
    if (e.kind == External::Kind::argument) return *in_.tensors[e.index];
    return recording_->held[external];
  }

  // Records changes to the sizes, history and gradients of tensors that existed before the run.
  void note_changes() {
    Recording& r = *recording_;
    for (auto& [impl, b] : before_) {
      if (b.tensor.layout() != at::kStrided) continue;
      if (!(capture::geometry_of(b.tensor) == b.geometry))
        r.obstacles.push_back("the function changes the sizes of an argument or of watched state");
      if (b.tensor.requires_grad() != b.requires_grad || history_of(b.tensor) != b.history)
        r.obstacles.push_back("the function changes the autograd history of an argument or of watched state");
    }
    r.differentiates = r.touches_gradients = r.tape().has_backward;
    size_t externals = r.tape().externals.size();
    std::unordered_set<const void*> seen;  // Tensor objects.
    for (size_t i = 0; i < externals; ++i) {
      External e = r.tape().externals[i];
      bool is_known = !seen.insert(e.weak._unsafe_get_target()).second;
      if (e.kind == External::Kind::gradient) {
        r.touches_gradients = true;
        continue;
      }
      at::Tensor leaf = tensor_of(i);
      if (!leaf.defined() || !e.ref.requires_grad || !leaf.is_leaf()) continue;
      if (is_known) continue;
      auto known = before_.find(leaf.unsafeGetTensorImpl());
      const void* was = known == before_.end() ? nullptr : known->second.gradient;
      at::Tensor now = leaf.grad();
      if (now.defined() ? now.unsafeGetTensorImpl() == was : was == nullptr) continue;
      r.touches_gradients = true;
      GradientEffect effect{static_cast<int32_t>(i)};
      if (now.defined()) {
        if (now.requires_grad()) r.obstacles.push_back("the function leaves a .grad that requires grad");
        if (now.layout() == at::kStrided && r.recorder.storage_id(now) < 0)
          r.obstacles.push_back("the function leaves a .grad that no recorded op made");
        effect.result = static_cast<int32_t>(r.extra.size());
        r.extra.push_back(r.recorder.refer(now));
      }
      r.gradient_effects.push_back(effect);
    }
    r.held.resize(r.tape().externals.size());
  }

  // Gradients of an argument that are summed outside of our node are summed in another order than inside. The order of two
  // summands does not matter.
  void check_returned_arguments() {
    Recording& r = *recording_;
    for (const ResultInfo& info : r.results) {
      if (!info.requires_grad || !info.ref.defined() || r.tape().storages[info.ref.storage].made_by >= 0) continue;
      size_t summands = uses(info.ref.storage);
      for (const ResultInfo& other : r.results) summands += other.requires_grad && other.ref.storage == info.ref.storage;
      if (summands > 2)
        r.obstacles.push_back(
            "the function returns an argument that requires grad and also computes with it (gradients would be summed in another order)");
    }
  }

  bool is_written(int32_t storage) const {
    for (const capture::TapeOp& op : recording_->tape().ops)
      for (const capture::TapeWrite& write : op.writes)
        if (write.ref.storage == storage) return true;
    return false;
  }

  size_t uses(int32_t storage) const {
    size_t count = 0;
    for (const capture::TapeOp& op : recording_->tape().ops)
      for (const capture::TapeArgument& arg : op.args) {
        if (op.no_grad) continue;
        if (const auto* ref = std::get_if<capture::TensorRef>(&arg)) count += ref->storage == storage && ref->requires_grad;
        else if (const auto* list = std::get_if<capture::TensorListRef>(&arg))
          for (const auto& item : list->items) count += item.storage == storage && item.requires_grad;
      }
    return count;
  }

  void note_autograd(const detail::TensorPointers& tensors) {
    Recording& r = *recording_;
    check_returned_arguments();
    Tensors outputs;
    Tensors& boundary = boundary_;
    std::vector<int32_t> results;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const ResultInfo& info = r.results[i];
      if (!info.requires_grad || !info.ref.defined() || info.same_as_result >= 0) continue;
      if (r.tape().storages[info.ref.storage].made_by < 0) {  // The result is a view of an external, and the variant takes that view again.
        if (is_written(info.ref.storage))
          r.obstacles.push_back("the function returns memory of an argument that it wrote to and that requires grad");
        continue;
      }
      if (!tensors[i]->is_floating_point() && !tensors[i]->is_complex())
        r.obstacles.push_back("the function returns integers that require grad (the result of an in-place comparison)");
      if (tensors[i]->is_leaf()) r.obstacles.push_back("the function returns a leaf of autograd that it made");
      if (tensors[i]->retains_grad()) r.obstacles.push_back("the function returns a tensor with retain_grad()");
      for (size_t k = 0; k < tensors.size(); ++k)
        if (k != i && r.results[k].ref.storage == info.ref.storage && r.results[k].same_as_result < 0)
          r.obstacles.push_back("the function returns tensors that require grad and share memory");
      outputs.push_back(*tensors[i]);
      results.push_back(static_cast<int32_t>(i));
    }
    if (outputs.empty()) return;
    std::unordered_set<const c10::TensorImpl*> at_boundary;
    for (size_t i = 0; i < r.tape().externals.size(); ++i) {
      at::Tensor tensor = tensor_of(i);
      if (!tensor.defined() || !tensor.requires_grad() || r.tape().externals[i].kind == External::Kind::gradient) continue;
      if (!at_boundary.insert(tensor.unsafeGetTensorImpl()).second) continue;
      boundary.push_back(tensor);
      r.differentiable_externals.push_back(static_cast<int32_t>(i));
    }
    AutogradFindings graph = inspect(outputs, boundary, r.tape().nodes_run);
    r.autograd_obstacles = std::move(graph.obstacles);
    if (r.tape().has_backward) r.autograd_obstacles.push_back("the function runs a backward inside");
    r.spent = graph.spent;
    // libtorch's floor_divide_ makes a node without next edges: backward() runs it and throws, grad() skips it.
    if (graph.dead_end) r.obstacles.push_back("the autograd graph of its results has a node without inputs");
    r.differentiable_results = std::move(results);
    if (r.spent) r.differentiable_externals.clear();
  }

  const detail::Leaves& in_;
  KnownLeaves& known_;
  std::shared_ptr<Recording> recording_;
  std::unordered_map<const c10::TensorImpl*, TensorBefore> before_;
  Tensors boundary_;  // The differentiable externals.
};

}  // namespace

capture::ProgramResults Recording::forward_results() const {
  capture::ProgramResults out;
  for (const ResultInfo& info : results) out.refs.push_back(info.ref);
  for (const capture::TensorRef& ref : extra) out.refs.push_back(ref);
  for (const capture::HostComparison& comparison : recorder.tape().comparisons) out.refs.push_back(comparison.outcome);
  out.forward = out.refs.size();
  return out;
}

std::shared_ptr<Recording> record_run(const detail::Leaves& in, const Options& options, KnownLeaves& known,
                                      const std::function<detail::RecordedResult()>& body) {
  return RunRecorder(in, options, known).run(body);
}

}  // namespace tenon::driver
