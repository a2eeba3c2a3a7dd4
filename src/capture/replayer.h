// Replayer: a listener that compares the ops of a running program with recorded streams. While they match, ops are deferred,
// and their results are placeholders with true sizes, types and autograd history. Deferred ops are flushed when their
// contents are needed (by the host or by an op that cannot be deferred), when the program departs from the known streams,
// and at the end of the call.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <c10/core/DefaultDtype.h>

#include "base/pointer_map.h"
#include "capture/address_space.h"
#include "capture/call_memory.h"
#include "capture/call_storage.h"
#include "capture/memory_ranges.h"
#include "capture/op_range.h"
#include "capture/pending.h"
#include "capture/recorder.h"
#include "capture/storage_filter.h"

namespace tenon::capture {

class Replayer : public Listener, public PendingReplay {
 public:
  // `names` gives a recorder the names of arguments and state, if the program departs.
  Replayer(std::shared_ptr<const StreamList> streams, RecordOptions options, OpRangeRunner runner, std::function<void(Recorder&)> names);

  void on_call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) override;
  void on_op(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) override;
  bool on_backward(const BackwardCall& call) override;
  void after_backward() override;
  void on_access(c10::StorageImpl* storage, AccessKind access, pid_t thread) override;
  pid_t thread() const override { return thread_; }
  bool on_fault(const char* address) override;

  ~Replayer() override;

  // Observes the arguments, so that pointers that the program requests before the first op are noticed.
  void observe_arguments(c10::ArrayRef<const at::Tensor*> tensors);

  // Ends the call after the program has returned or thrown: flushes and releases everything. Must be called once.
  void finish();

  // The stream that the call followed to its end, or null. Valid after finish(), as are the following accessors.
  std::shared_ptr<const Stream> followed() const { return complete_ && !derived_ ? stream_ : nullptr; }
  Recorder* recorder() { return recorder_.get(); }
  const Stream* parent() const { return base_ ? base_.get() : stream_.get(); }
  // A complete derived stream, ready to be added, or null.
  Stream* derived() { return complete_ && derived_ && derivable_ ? derived_.get() : nullptr; }
  size_t shared() const { return shared_ops_; }
  const std::string& difference() const { return difference_; }
  const ReplayCounts& counts() const { return counts_; }

 private:
  HeldMemory& held(CallStorage& state);
  // Returns false for `from_blob` without a deleter, whose memory may be freed or changed unnoticed.
  bool owns_memory(const CallStorage& state) const;

  // The stream that the call is compared with.
  const Stream& known() const { return derived_ ? *base_ : *stream_; }
  const TapeOp* expected() const { return cursor_ < known().tape.ops.size() ? &known().tape.ops[cursor_] : nullptr; }
  bool matches(const TapeOp& entry, const c10::OperatorHandle& op, const Stack& stack);
  template <class Same>
  bool fits(const TapeOp& entry, const c10::OperatorHandle& op, const Stack& stack, Same&& same);
  // `scalar` is the index for this op's next free scalar, or null if scalars must be equal.
  bool matches_argument(const TapeArgument& expected, const c10::IValue& given, size_t* scalar);
  bool matches_tensor(const TensorRef& ref, const c10::TensorImpl* tensor);
  bool bind_storage(int32_t id, const c10::TensorImpl* tensor, int64_t shift);
  void add_range(int32_t id);
  void flush_if_needed();
  void arm(CallStorage& state);
  bool overlaps_deferred(const c10::StorageImpl* storage) const;
  void unbind_newly_bound();
  bool matches_except_sizes(const TapeOp& entry, const c10::OperatorHandle& op, const Stack& stack);
  bool matches_tensor_except_sizes(const TensorRef& ref, const at::Tensor& tensor);
  bool start_deriving(const c10::OperatorHandle& op, const Stack& stack);
  const TapeOp* derive(const TapeOp& base, const Stack& stack);
  bool set_result_geometries(TapeOp& op, std::vector<Geometry>& inferred);
  void record_real_results(const Stack& stack);
  Geometry geometry_on_tape(const at::Tensor& tensor, int32_t storage) const;
  void follow(const std::shared_ptr<const Stream>& stream);
  bool find_stream(const c10::OperatorHandle& op, const Stack& stack);
  std::string describe_difference(const TapeOp* entry, const c10::OperatorHandle& op, const Stack& stack) const;
  void depart(const std::string& difference);

  bool touches_deferred(const c10::OperatorHandle& op, const Stack& stack) const;
  void run_immediately(const TapeOp& entry, const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack, bool alone);
  void defer(const TapeOp& entry, Stack* stack);
  void advance_to(size_t op);
  bool is_observable(CallStorage& state);
  bool can_defer_writes(CallStorage& state);
  void find_pointer(CallStorage& state);
  void announce_to_others(const CallStorage& state, AccessKind access);
  bool can_defer(const TapeOp& entry);
  bool defer_range(const DeferrableRange& range);
  const UserCall* find_call(const c10::OperatorHandle& op, const Stack& stack);
  bool fits(const Backward& backward, const BackwardGraph& graph, const BackwardCall& call);
  bool accepts_indices(const TapeOp& entry, const Stack& stack);
  void bind(const TensorRef& ref, const at::Tensor& tensor);
  void push_results(const std::vector<TapeResult>& expected, size_t arguments, Stack* stack);
  at::Tensor as_view(const at::Tensor& base, at::Tensor out) const;
  at::Tensor make_result(const TensorRef& ref, const Origin& origin, const Stack& stack, size_t first);
  void hold_memory(int32_t storage);
  void withdraw_pointer(int32_t storage);
  void flush();
  void materialize_results(const std::vector<int32_t>& live);
  std::vector<int32_t> disarm_operands(const c10::OperatorHandle& op, const Stack& stack);
  void release();
  void end_stream();

  std::shared_ptr<const StreamList> streams_;
  RecordOptions options_;
  OpRangeRunner runner_;
  std::function<void(Recorder&)> name_externals_;

  const pid_t thread_;  // The thread that runs the program.
  mutable std::recursive_mutex mutex_;
  std::shared_ptr<const Stream> stream_;
  // The stream that is being derived, and the known stream that it is derived from. stream_ equals derived_ then.
  std::shared_ptr<const Stream> base_;
  std::shared_ptr<Stream> derived_;
  bool derivable_ = true;               // The results of the ops that ran differ from the known stream's only in sizes.
  std::vector<char> has_rule_;          // Per op of derived_: whether its results were inferred.
  std::unique_ptr<Recorder> recorder_;  // Set when the program has departed.
  std::exception_ptr error_;            // An error that occurred where nothing can be thrown.
  bool pass_through_ = false;           // Ops run unrecorded.
  size_t cursor_ = 0, flushed_ = 0, shared_ops_ = 0;
  size_t deferred_ops_ = 0;  // Number of deferred ops between flushed_ and cursor_.
  bool complete_ = false;
  size_t next_call_ = 0;                           // Index of the next recorded user call.
  std::optional<BackwardStart> running_backward_;  // A backward that runs op by op.
  bool same_nodes_ = true;                         // The same ops as in the stream created autograd's nodes.
  std::string difference_;
  size_t mismatched_argument_ = 0;  // Index of the argument that did not match.
  bool flushing_ = false;
  std::vector<HeldMemory> held_;
  // Buffers that the next call on this thread reuses.
  struct Tables {
    std::vector<CallStorage> slots;
    PointerMap ids;
    std::vector<int32_t> used, pending, newly_bound;
    CallMemory memory;
    AddressArena addresses;
    MemoryRanges ranges;
    std::vector<CachedPointer> pointers;  // By storage id; cached from the last call.
  };
  static Tables& spare_tables();
  Tables tables_ = std::exchange(spare_tables(), {});
  std::vector<CallStorage>& storages_ = tables_.slots;
  PointerMap& ids_ = tables_.ids;
  std::vector<int32_t>&used_ = tables_.used, &pending_ = tables_.pending, &newly_bound_ = tables_.newly_bound;
  CallMemory& memory_ = tables_.memory;
  MemoryRanges& ranges_ = tables_.ranges;
  bool compares_ranges_ = false;  // Foreign memory is used, so address ranges are compared.
  bool flush_soon_ =
      false;  // An op was deferred that must not be: its memory is shared by two storages, or a pointer could not be withdrawn.
  bool out_of_addresses_ = false;  // The next op is not deferred.
  bool handler_checked_ = false;   // The fault handler was checked in this call.
  ReplayCounts counts_;
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> arguments_;
  // Storages that the program requested a pointer to before an op used them.
  std::vector<std::pair<const c10::StorageImpl*, AccessKind>> accessed_before_;
  StorageFilter seen_storages_;  // Other threads query it before they wait for the lock.
};

// Returns whether the op matches and all arguments are the `same`. If not, storages that were bound on the way are unbound.
template <class Same>
bool Replayer::fits(const TapeOp& entry, const c10::OperatorHandle& op, const Stack& stack, Same&& same) {
  if (!(entry.op == op)) return false;
  if (entry.immediate) return true;  // It runs anyway, whatever its operands are.
  if (entry.default_dtype != c10::get_default_dtype_as_scalartype()) return false;
  newly_bound_.clear();
  size_t first = stack.size() - entry.args.size();
  bool fit = true;
  for (size_t i = 0; i < entry.args.size() && fit; ++i) {
    mismatched_argument_ = i;
    fit = same(entry.args[i], stack[first + i]);
  }
  // The offset argument of as_strided counts from the start of the storage.
  if (fit && entry.absolute_offset) fit = storages_[std::get<TensorRef>(entry.args[0]).storage].shift == 0;
  if (!fit) unbind_newly_bound();
  return fit;
}

}  // namespace tenon::capture
