#include "capture/guards.h"

#include <ATen/autocast_mode.h>
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/variable.h>

#include <atomic>
#include <unordered_map>

#include "capture/memory_ranges.h"
#include "capture/tensors.h"
#include "capture/withdrawn.h"

namespace tenon::capture {
namespace {

std::atomic<uint32_t> g_disabled{0};

bool enabled(GuardKind kind) { return !(g_disabled.load(std::memory_order_relaxed) & (1u << static_cast<int>(kind))); }

const c10::StorageImpl* storage_of(const at::Tensor& tensor) { return capture::storage_of(tensor.unsafeGetTensorImpl()); }

// Returns whether two storages overlap in memory.
template <class Storages>
bool have_overlaps(const Storages& storages) {
  MemoryRanges ranges;
  std::unordered_set<const c10::StorageImpl*> seen;
  bool found = false;
  for (const c10::StorageImpl* storage : storages)
    if (storage && seen.insert(storage).second) ranges.add(memory_of(storage), storage->nbytes(), 0, [&](int32_t) { found = true; });
  return found;
}

bool same_dims(c10::IntArrayRef dims, const DimList& recorded) {
  return dims.size() == recorded.size() && std::equal(dims.begin(), dims.end(), recorded.begin());
}

}  // namespace

const char* guard_name(GuardKind kind) {
  static const char* names[] = {
#define TENON_GUARD(name, what) #name,
#include "capture/guards.def"
#undef TENON_GUARD
  };
  return names[static_cast<int>(kind)];
}

const char* guard_meaning(GuardKind kind) {
  static const char* meanings[] = {
#define TENON_GUARD(name, what) what,
#include "capture/guards.def"
#undef TENON_GUARD
  };
  return meanings[static_cast<int>(kind)];
}

void disable_guard(GuardKind kind, bool off) {
  uint32_t bit = 1u << static_cast<int>(kind);
  if (off) g_disabled |= bit;
  else g_disabled &= ~bit;
}

Settings Settings::now() {
  Settings s{};
  s.grad_mode = at::GradMode::is_enabled();
  s.inference_mode = c10::InferenceMode::is_enabled();
  if (at::autocast::is_autocast_enabled(at::kCPU)) s.autocast = 1 + static_cast<uint32_t>(at::autocast::get_autocast_dtype(at::kCPU));
  s.default_dtype = static_cast<uint32_t>(c10::get_default_dtype_as_scalartype());
  auto& context = at::globalContext();
  s.context = context.deterministicAlgorithms() | context.userEnabledFlashSDP() << 1 | context.userEnabledMathSDP() << 2 |
              context.userEnabledMkldnn() << 3;
  return s;
}

Guards::TensorGuard Guards::guard_of(const at::Tensor& tensor) {
  TensorGuard g;
  g.defined = tensor.defined();
  if (!g.defined) return g;
  g.plain = tensor.layout() == at::kStrided && !tensor.is_neg() && !tensor.is_conj() && !tensor.is_quantized();
  g.keys = tensor.key_set();
  g.requires_grad = tensor.requires_grad();
  g.leaf = g.requires_grad && tensor.is_leaf();
  g.tangent = has_tangent(tensor);
  if (g.plain) g.geometry = geometry_of(tensor);
  return g;
}

Guards::Guards(const detail::Leaves& in, WatchedValues watched)
    : settings_(Settings::now()), numbers_(in.numbers.begin(), in.numbers.end()), texts_(in.texts), watched_(std::move(watched)) {
  for (const at::Tensor* tensor : in.tensors) arguments_.push_back(guard_of(*tensor));
  for (auto& [name, value] : watched_) watched_values_.push_back(value());
}

void Guards::close(const Tape& tape, const std::vector<at::Tensor>& held, bool touches_gradients,
                   const std::vector<bool>& gradient_defined) {
  for (const TapeStorage& storage : tape.storages) writes_given_ |= storage.written && storage.made_by < 0;
  std::unordered_map<int32_t, int32_t> first_on;
  std::vector<c10::intrusive_ptr<c10::StorageImpl>> storages;
  for (size_t i = 0; i < tape.externals.size(); ++i) {
    const External& e = tape.externals[i];
    if (auto storage = e.weak_storage.lock(); storage && e.kind != External::Kind::gradient) storages.push_back(std::move(storage));
    ExternalGuard g;
    g.kind = e.kind;
    g.index = e.index;
    g.name = e.name;
    g.gradient_defined = gradient_defined[i];
    if (e.kind != External::Kind::tangent) {
      auto [it, fresh] = first_on.emplace(e.ref.storage, static_cast<int32_t>(i));
      g.alias_class = it->second;
      simple_aliases_ &= fresh;
    }
    if (e.kind == External::Kind::argument) {
      g.gradient_matters = touches_gradients && arguments_[e.index].leaf;
      given_.push_back(e.index);
    } else if (e.kind == External::Kind::state || e.kind == External::Kind::discovered) {
      g.held = held[i];
      if (g.held.defined()) {
        g.tensor = guard_of(g.held);
        g.tensor.geometry = e.ref.geometry;
        g.tensor.requires_grad = e.ref.requires_grad;
        g.storage = storage_of(g.held);
        state_.push_back(static_cast<int32_t>(i));
        state_storages_.insert(g.storage);
        foreign_state_ |= is_foreign(g.storage);
        snapshots_.push_back(snapshot_of(g.held, e.ref.requires_grad));
        g.gradient_matters = touches_gradients && g.tensor.requires_grad && g.held.is_leaf();
      }
    }
    if (g.gradient_matters) gradients_.push_back(static_cast<int32_t>(i));
    externals_.push_back(std::move(g));
  }
  if (!writes_given_) return;
  std::vector<const c10::StorageImpl*> memory;
  for (const auto& storage : storages) memory.push_back(storage.get());
  overlaps_ = have_overlaps(memory);
}

void Guards::set_offsets(const std::vector<bool>& offset_matters) {
  for (size_t i = 0; i < externals_.size() && i < offset_matters.size(); ++i) {
    ExternalGuard& e = externals_[i];
    if (!offset_matters[i]) continue;
    if (e.kind == External::Kind::argument) arguments_[e.index].offset_matters = true;
    else e.tensor.offset_matters = offsets_matter_ = true;
  }
}

bool Guards::check_settings(GuardKind& kind) const {
  Settings now = Settings::now();
  auto differs = [&](GuardKind k, bool changed) {
    if (!changed || !enabled(k)) return false;
    kind = k;
    return true;
  };
  return !(differs(GuardKind::grad_mode, now.grad_mode != settings_.grad_mode) ||
           differs(GuardKind::inference_mode, now.inference_mode != settings_.inference_mode) ||
           differs(GuardKind::autocast, now.autocast != settings_.autocast) ||
           differs(GuardKind::default_dtype, now.default_dtype != settings_.default_dtype) ||
           differs(GuardKind::settings, now.context != settings_.context));
}

Guards::Snapshot Guards::snapshot_of(const at::Tensor& tensor, bool requires_grad) {
  Snapshot s{tensor.unsafeGetTensorImpl(),       storage_of(tensor), tensor.key_set(), tensor.dtype(),
             static_cast<uint8_t>(tensor.dim()), requires_grad};
  // A tensor of a higher rank never equals its snapshot, so its guards are checked one by one.
  if (tensor.dim() > Snapshot::kMaxDims) return s.rank = 255, s;
  std::copy(tensor.sizes().begin(), tensor.sizes().end(), s.dims.begin());
  std::copy(tensor.strides().begin(), tensor.strides().end(), s.dims.begin() + Snapshot::kMaxDims);
  return s;
}

bool Guards::Snapshot::same() const {
  // An inlined requires_grad(): libtorch has only one class of autograd metadata.
  const auto* meta = static_cast<const torch::autograd::AutogradMeta*>(impl->autograd_meta());
  bool grad = meta && (meta->requires_grad_ || meta->grad_fn_);
  if (meta && meta->fw_grad_) return false;  // The tensor may carry a tangent; the guards decide.
  if (impl->unsafe_storage().unsafeGetStorageImpl() != storage || impl->key_set() != keys || impl->dtype() != dtype ||
      grad != requires_grad)
    return false;
  auto sizes = impl->sizes();
  if (sizes.size() != rank) return false;
  const int64_t *size = sizes.data(), *stride = impl->strides().data();
  for (size_t i = 0; i < rank; ++i)
    if (size[i] != dims[i] || stride[i] != dims[kMaxDims + i]) return false;
  return true;
}

bool Guards::state_is_same() const {
  for (const Snapshot& snapshot : snapshots_)
    if (!snapshot.same()) return false;
  return true;
}

bool Guards::check_tensor(const TensorGuard& g, const at::Tensor& tensor, GuardKind& kind) const {
  auto fails = [&](GuardKind k, bool differs) {
    if (!differs || !enabled(k)) return false;
    kind = k;
    return true;
  };
  if (fails(GuardKind::defined, tensor.defined() != g.defined)) return false;
  if (!tensor.defined() || !g.defined) return true;
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  bool plain = impl->layout() == at::kStrided && !tensor.is_neg() && !tensor.is_conj() && !tensor.is_quantized();
  if (fails(GuardKind::kind, plain != g.plain || impl->key_set() != g.keys)) return false;
  if (!plain || !g.plain) return true;
  if (fails(GuardKind::dtype, tensor.scalar_type() != g.geometry.dtype)) return false;
  if (fails(GuardKind::sizes, !same_dims(impl->sizes(), g.geometry.sizes))) return false;
  if (fails(GuardKind::strides, !same_dims(impl->strides(), g.geometry.strides))) return false;
  if (g.offset_matters && fails(GuardKind::offset, impl->storage_offset() != g.geometry.offset)) return false;
  if (fails(GuardKind::tangent, has_tangent(tensor) != g.tangent)) return false;
  return !fails(GuardKind::requires_grad, impl->requires_grad() != g.requires_grad);
}

// Memory that libtorch allocated belongs to one storage, so only foreign memory can overlap.
bool Guards::check_overlaps(const detail::Leaves& in) const {
  if (!writes_given_) return true;
  bool foreign = foreign_state_;
  for (int32_t i : given_) foreign |= is_foreign(storage_of(*in.tensors[i]));
  if (!foreign) return !overlaps_;
  std::vector<const c10::StorageImpl*> memory;
  for (const ExternalGuard& e : externals_)
    if (e.kind == External::Kind::argument) memory.push_back(storage_of(*in.tensors[e.index]));
    else if (e.held.defined()) memory.push_back(storage_of(e.held));
  return have_overlaps(memory) == overlaps_;
}

bool Guards::check_aliases(const detail::Leaves& in, bool state_unchanged) const {
  if (!enabled(GuardKind::alias)) return true;
  auto tensor_of = [&](const ExternalGuard& e) -> const at::Tensor& {
    return e.kind == External::Kind::argument ? *in.tensors[e.index] : e.held;
  };
  if (state_unchanged && simple_aliases_) {
    c10::SmallVector<const c10::StorageImpl*, 8> seen;
    for (int32_t i : given_) {
      const auto* storage = storage_of(*in.tensors[i]);
      if (state_storages_.count(storage) || std::find(seen.begin(), seen.end(), storage) != seen.end()) return false;
      seen.push_back(storage);
    }
    return true;
  }
  std::unordered_map<const c10::StorageImpl*, int32_t> first_on;
  for (size_t i = 0; i < externals_.size(); ++i) {
    const ExternalGuard& e = externals_[i];
    if (e.kind == External::Kind::gradient || e.kind == External::Kind::tangent) continue;
    if (!tensor_of(e).defined()) continue;
    auto [it, fresh] = first_on.emplace(storage_of(tensor_of(e)), static_cast<int32_t>(i));
    if (it->second != e.alias_class) return false;
  }
  return true;
}

bool Guards::check(const detail::Leaves& in, GuardFailure* failure) const {
  GuardKind kind{};
  auto fail = [&](GuardKind k, std::string subject) {
    if (failure) *failure = {k, std::move(subject)};
    return false;
  };
  if (!check_settings(kind)) return fail(kind, guard_meaning(kind));
  if (in.tensors.size() != arguments_.size() || in.numbers.size() != numbers_.size() || in.texts.size() != texts_.size()) {
    if (enabled(GuardKind::structure) || in.tensors.size() < arguments_.size()) return fail(GuardKind::structure, "the arguments");
  } else if (!std::equal(numbers_.begin(), numbers_.end(), in.numbers.begin()) && enabled(GuardKind::scalar)) {
    return fail(GuardKind::scalar, "a scalar in the arguments");
  }
  if (in.texts != texts_ && enabled(GuardKind::text)) return fail(GuardKind::text, "a string in the arguments");
  for (size_t i = 0; i < watched_.size(); ++i)
    if (watched_[i].second() != watched_values_[i] && enabled(GuardKind::watched)) return fail(GuardKind::watched, watched_[i].first);
  for (size_t i = 0; i < arguments_.size(); ++i) {
    const at::Tensor& tensor = *in.tensors[i];
    if (!check_tensor(arguments_[i], tensor, kind)) return fail(kind, "argument " + std::to_string(i));
    if (arguments_[i].requires_grad && tensor.requires_grad() && tensor.is_leaf() != arguments_[i].leaf && enabled(GuardKind::leaf))
      return fail(GuardKind::leaf, "argument " + std::to_string(i));
  }
  bool state_unchanged = state_is_same();
  for (int32_t i : state_) {
    if (state_unchanged && !offsets_matter_) break;
    const ExternalGuard& e = externals_[i];
    if (!check_tensor(e.tensor, e.held, kind)) return fail(kind, e.name);
  }
  if (!check_aliases(in, state_unchanged) || (!check_overlaps(in) && enabled(GuardKind::alias)))
    return fail(GuardKind::alias, "the arguments and the state");
  for (int32_t i : gradients_) {
    const ExternalGuard& e = externals_[i];
    const at::Tensor& leaf = e.kind == External::Kind::argument ? *in.tensors[e.index] : e.held;
    if (leaf.grad().defined() != e.gradient_defined && enabled(GuardKind::gradient)) return fail(GuardKind::gradient, e.name + ".grad");
  }
  return true;
}

std::vector<at::Tensor> Guards::bind(const detail::Leaves& in) const {
  std::vector<at::Tensor> out(externals_.size());
  for (size_t i = 0; i < externals_.size(); ++i) {
    const ExternalGuard& e = externals_[i];
    if (e.kind == External::Kind::argument) out[i] = *in.tensors[e.index];
    else if (e.kind == External::Kind::gradient) out[i] = out[e.index].grad();
    else out[i] = e.held;
  }
  return out;
}

std::vector<std::string> Guards::describe() const {
  std::vector<std::string> out;
  out.push_back(std::string("grad mode ") + (settings_.grad_mode ? "on" : "off") + ", inference mode " +
                (settings_.inference_mode ? "on" : "off") + ", autocast " + (settings_.autocast ? "on" : "off"));
  for (size_t i = 0; i < arguments_.size(); ++i) {
    const TensorGuard& g = arguments_[i];
    std::string text = "argument " + std::to_string(i) + ": ";
    if (!g.defined) {
      out.push_back(text + "undefined");
      continue;
    }
    text += std::string(at::toString(g.geometry.dtype)) + " [";
    for (size_t d = 0; d < g.geometry.sizes.size(); ++d) text += (d ? ", " : "") + std::to_string(g.geometry.sizes[d]);
    out.push_back(text + "]" + (g.requires_grad ? ", requires grad" : "") + (g.offset_matters ? ", storage offset" : ""));
  }
  if (!numbers_.empty()) out.push_back(std::to_string(numbers_.size()) + " scalars in the arguments");
  if (!state_.empty()) out.push_back(std::to_string(state_.size()) + " state tensors: element type, sizes, strides, requires grad");
  if (!watched_.empty()) out.push_back(std::to_string(watched_.size()) + " watched values (including train/eval)");
  out.push_back("which of these tensors share memory");
  return out;
}

}  // namespace tenon::capture
