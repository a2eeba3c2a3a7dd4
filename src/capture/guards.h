// Guards: what must hold for a recorded graph to answer a call. Rows in guards.def.
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

using WatchedNumbers = std::vector<std::pair<std::string, std::function<uint64_t()>>>;

// The thread's settings that decide what an op does.
struct Settings {
  bool grad_mode, inference_mode;
  uint32_t autocast, default_dtype, context;
  static Settings now();
};

class Guards {
 public:
  // Before the recorded run: settings, argument leaves, watched numbers.
  Guards(const detail::Leaves& in, WatchedNumbers watched);

  // After it: the tensors that it met. `held` has one tensor per external; undefined for arguments
  // and gradients. `touches_gradients`: .grad fields are read or set; `gradient_defined`: which
  // externals had one before.
  void close(const Tape& tape, const std::vector<at::Tensor>& held, bool touches_gradients, const std::vector<bool>& gradient_defined);
  // Per external: whether the graph depends on its offset in its storage.
  void set_offsets(const std::vector<bool>& offset_matters);

  // True if the graph may answer; else says in `failure` which guard said no.
  bool check(const detail::Leaves& in, GuardFailure* failure) const;

  // The tensor of an external that is an argument or is held, for a call that passed.
  const at::Tensor& tensor(const detail::Leaves& in, size_t external) const {
    const ExternalGuard& e = externals_[external];
    return e.kind == External::Kind::argument ? *in.tensors[e.index] : e.held;
  }
  // One tensor per external for a call that passed.
  std::vector<at::Tensor> bind(const detail::Leaves& in) const;

  // Some of the tensors lie over the same memory through different storages, and the program writes to tensors
  // that it was given: no graph can tell what such a write changes.
  bool has_overlaps() const { return overlaps_; }

  std::vector<std::string> describe() const;

 private:
  struct TensorGuard {
    bool defined = false;
    bool offset_matters = false;
    bool requires_grad = false, leaf = false, plain = true, tangent = false;
    c10::DispatchKeySet keys;  // who comes by when it is computed with
    Geometry geometry;
  };
  // What a tensor of the state looked like, packed for the check on every call. If it differs, the
  // guards are asked one by one.
  struct Snapshot {
    c10::TensorImpl* impl;
    const c10::StorageImpl* storage;
    c10::DispatchKeySet keys;
    caffe2::TypeMeta dtype;
    uint8_t rank;
    bool requires_grad;
    std::array<int64_t, 8> dims;  // sizes, then strides
    bool same() const;
  };
  struct ExternalGuard {
    External::Kind kind = External::Kind::met;
    int32_t index = 0;
    std::string name;
    at::Tensor held;
    TensorGuard tensor;
    const c10::StorageImpl* storage = nullptr;
    int32_t alias_class = 0;  // first external on the same storage
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
  WatchedNumbers watched_;
  std::vector<uint64_t> watched_values_;
  std::vector<ExternalGuard> externals_;
  std::vector<int32_t> given_;                                  // arguments that are defined
  std::vector<int32_t> gradients_;                              // externals whose .grad matters
  std::vector<int32_t> state_;                                  // externals that are held
  std::unordered_set<const c10::StorageImpl*> state_storages_;  // of those, when recorded
  std::vector<Snapshot> snapshots_;                             // of those
  bool offsets_matter_ = false;                                 // of some tensor of the state
  bool simple_aliases_ = true;                                  // no two externals share a storage
  bool writes_given_ = false;                                   // memory that it did not allocate
  bool foreign_state_ = false;                                  // some tensor of the state is in foreign memory
  bool overlaps_ = false;
};

// For tests: a guard that is switched off always says yes.
void disable_guard(GuardKind kind, bool off);

}  // namespace tenon::capture
