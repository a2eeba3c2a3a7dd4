// Guards: the conditions under which a recorded graph may serve a call. guards.def lists them.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <functional>
#include <string>
#include <unordered_set>
#include <vector>

#include "capture/tape.h"
#include "tenon/detail/leaves.h"

namespace tenon::capture {

enum class GuardKind : uint8_t {
#define TENON_GUARD(name, what) name,
#include "capture/guards.def"
#undef TENON_GUARD
};

const char* guard_name(GuardKind kind);
const char* guard_meaning(GuardKind kind);

struct GuardFailure {
  GuardKind kind = GuardKind::structure;
  std::string subject;  // "argument 0", "fc.weight"
};

using WatchedValues = std::vector<std::pair<std::string, std::function<uint64_t()>>>;

// The thread-local and global settings that ops depend on.
struct Settings {
  bool grad_mode, inference_mode;
  uint32_t autocast, default_dtype, context;
  static Settings now();
};

class Guards {
 public:
  // Takes settings, argument leaves and watched values before the recorded run.
  Guards(const detail::Leaves& in, WatchedValues watched);

  // Adds the externals after the recorded run. `held` has one tensor per external, undefined for arguments and gradients.
  // `touches_gradients` says whether .grad fields are read or set, `gradient_defined` which externals had one before.
  void close(const Tape& tape, const std::vector<at::Tensor>& held, bool touches_gradients, const std::vector<bool>& gradient_defined);
  // Sets per external whether the graph depends on its storage offset.
  void set_offsets(const std::vector<bool>& offset_matters);

  // Returns whether the graph may serve the call; if not, `failure` names the guard.
  bool check(const detail::Leaves& in, GuardFailure* failure) const;

  // The tensor of an external that is an argument or is held, for a call that passed the check.
  const at::Tensor& tensor(const detail::Leaves& in, size_t external) const {
    const ExternalGuard& e = externals_[external];
    return e.kind == External::Kind::argument ? *in.tensors[e.index] : e.held;
  }
  // One tensor per external, for a call that passed the check.
  std::vector<at::Tensor> bind(const detail::Leaves& in) const;

  // Returns whether some externals overlap in memory through different storages while the program writes to externals. No
  // graph can express what such a write changes.
  bool has_overlaps() const { return overlaps_; }

  std::vector<std::string> describe() const;

 private:
  struct TensorGuard {
    bool defined = false;
    bool offset_matters = false;
    bool requires_grad = false, leaf = false, plain = true, tangent = false;
    c10::DispatchKeySet keys;
    Geometry geometry;
  };
  // The properties of a state tensor, packed for the check on every call. If they differ, the guards are checked one by one.
  struct Snapshot {
    c10::TensorImpl* impl;
    const c10::StorageImpl* storage;
    c10::DispatchKeySet keys;
    caffe2::TypeMeta dtype;
    uint8_t rank;
    bool requires_grad;
    // Dimensions of a tensor that a snapshot holds: those of a batch of images. Estimate, not measured.
    static constexpr int64_t kMaxDims = 4;
    std::array<int64_t, 2 * kMaxDims> dims;  // Sizes, then strides.
    bool same() const;
  };
  struct ExternalGuard {
    External::Kind kind = External::Kind::discovered;
    int32_t index = 0;
    std::string name;
    at::Tensor held;
    TensorGuard tensor;
    const c10::StorageImpl* storage = nullptr;
    int32_t alias_class = 0;  // Index of the first external on the same storage.
    bool gradient_defined = false;
    bool gradient_matters = false;
  };

  static TensorGuard guard_of(const at::Tensor& tensor);
  bool check_tensor(const TensorGuard& guard, const at::Tensor& tensor, GuardKind& kind) const;
  static Snapshot snapshot_of(const at::Tensor& tensor, bool requires_grad);
  bool state_is_same() const;
  bool check_settings(GuardKind& kind) const;
  bool check_aliases(const detail::Leaves& in, bool state_unchanged) const;
  bool check_overlaps(const detail::Leaves& in) const;

  Settings settings_;
  std::vector<TensorGuard> arguments_;
  std::vector<uint64_t> numbers_;
  std::vector<std::string> texts_;
  WatchedValues watched_;
  std::vector<uint64_t> watched_values_;
  std::vector<ExternalGuard> externals_;
  std::vector<int32_t> given_;                                  // Indices of the defined arguments.
  std::vector<int32_t> gradients_;                              // Externals whose .grad matters.
  std::vector<int32_t> state_;                                  // Externals that are held.
  std::unordered_set<const c10::StorageImpl*> state_storages_;  // The state's storages when recorded.
  std::vector<Snapshot> snapshots_;                             // One per held external.
  bool offsets_matter_ = false;                                 // True if the storage offset of some state tensor matters.
  bool simple_aliases_ = true;                                  // No two externals share a storage.
  bool writes_given_ = false;                                   // The program writes to memory that it did not allocate.
  bool foreign_state_ = false;                                  // Some state tensor is in memory that libtorch did not allocate.
  bool overlaps_ = false;
};

// Switches a guard off, so that it always passes. For tests.
void disable_guard(GuardKind kind, bool off);

}  // namespace tenon::capture
