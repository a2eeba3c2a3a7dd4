// Replayer: a listener that lets the user's C++ run again and compares what it does with recorded
// streams. As long as they agree nothing is executed: ops wait, and their results are placeholders
// with true sizes, types and autograd history. What waits is run when somebody needs its contents
// (the host, an op that cannot wait), when the program leaves the known streams, and at the end.
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
#include "capture/memory_ranges.h"
#include "capture/pending.h"
#include "capture/recorder.h"
#include "capture/slot.h"
#include "capture/storage_filter.h"
#include "capture/stretch.h"

namespace tenon::capture {

class Replayer : public Listener, public PendingReplay {
 public:
  // `names` tells a recorder what the arguments and the state are called, if it comes to that.
  Replayer(std::shared_ptr<const StreamList> streams, RecordOptions options, StretchRunner runner, std::function<void(Recorder&)> names);

  void on_call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) override;
  void on_op(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) override;
  bool on_backward(const BackwardCall& call) override;
  void after_backward() override;
  void on_access(c10::StorageImpl* storage, Access access, pid_t thread) override;
  pid_t thread() const override { return thread_; }
  bool on_fault(const char* address) override;

  ~Replayer() override;

  // Pointers that the program asks these tensors for are noticed from now on, before an op has met them.
  void observe_arguments(c10::ArrayRef<const at::Tensor*> tensors);

  // The program returned, or threw: runs what waits and lets go of everything. Call it once.
  void finish();

  // After finish. The stream that the call followed to its end, or null; else what it did instead.
  std::shared_ptr<const Stream> followed() const { return whole_ && !derived_ ? stream_ : nullptr; }
  Recorder* recorder() { return recorder_.get(); }
  const Stream* parent() const { return base_ ? base_.get() : stream_.get(); }
  // A stream that follows from a known one, ready to be added.
  Stream* derived() { return whole_ && derived_ && derivable_ ? derived_.get() : nullptr; }
  size_t shared() const { return shared_; }
  const std::string& difference() const { return difference_; }
  const ReplayCounts& counts() const { return counts_; }

 private:
  RealMemory& real(Slot& slot);
  // `from_blob` without a deleter: the memory may go away, or change, without a word.
  bool owns_memory(const Slot& slot) const;

  // What the call is compared with.
  const Stream& known() const { return derived_ ? *base_ : *stream_; }
  const TapeOp* expected() const { return cursor_ < known().tape.ops.size() ? &known().tape.ops[cursor_] : nullptr; }
  bool matches(const TapeOp& entry, const c10::OperatorHandle& op, const Stack& stack);
  template <class Same>
  bool fits(const TapeOp& entry, const c10::OperatorHandle& op, const Stack& stack, Same&& same);
  // `scalar`: where this op's next free number goes; null if numbers must be equal.
  bool matches_argument(const TapeArgument& expected, const c10::IValue& given, size_t* scalar);
  bool matches_tensor(const TensorRef& ref, const c10::TensorImpl* tensor);
  bool attach(int32_t number, const c10::TensorImpl* tensor, int64_t moved);
  void add_range(int32_t number);
  void flush_if_needed();
  void arm(Slot& slot);
  bool overlaps_waiting(const c10::StorageImpl* storage) const;
  void unbind_new();
  bool resembles(const TapeOp& entry, const c10::OperatorHandle& op, const Stack& stack);
  bool resembles_tensor(const TensorRef& ref, const at::Tensor& tensor);
  bool start_deriving(const c10::OperatorHandle& op, const Stack& stack);
  const TapeOp* derive(const TapeOp& base, const Stack& stack);
  bool place_results(TapeOp& op, std::vector<Geometry>& inferred);
  void note_real_results(const Stack& stack);
  Geometry place_of(const at::Tensor& tensor, int32_t storage) const;
  void follow(const std::shared_ptr<const Stream>& stream);
  bool find_stream(const c10::OperatorHandle& op, const Stack& stack);
  std::string tell_difference(const TapeOp* entry, const c10::OperatorHandle& op, const Stack& stack) const;
  void depart(const std::string& difference);

  bool touches_waiting(const c10::OperatorHandle& op, const Stack& stack) const;
  void run_now(const TapeOp& entry, const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack, bool alone);
  void defer(const TapeOp& entry, Stack* stack);
  void wait_until(size_t op);
  bool is_ready(Slot& slot);
  bool may_be_written_later(Slot& slot);
  void find_pointer(Slot& slot);
  void announce_to_others(const Slot& slot, Access access);
  bool can_wait(const TapeOp& entry);
  bool skip(const Extent& extent);
  const UserCall* known_call(const c10::OperatorHandle& op, const Stack& stack);
  bool fits(const Backward& backward, const AutogradGraph& graph, const BackwardCall& call);
  bool index_is_good(const TapeOp& entry, const Stack& stack);
  void bind(const TensorRef& ref, const at::Tensor& tensor);
  void leave_results(const std::vector<TapeResult>& expected, size_t arguments, Stack* stack);
  at::Tensor as_view(const at::Tensor& base, at::Tensor out) const;
  at::Tensor make_result(const TensorRef& ref, const Origin& origin, const Stack& stack, size_t first);
  void hold(int32_t storage);
  void withdraw_pointer(int32_t storage);
  void flush();
  void settle(const std::vector<int32_t>& live);
  std::vector<int32_t> disarm_operands(const c10::OperatorHandle& op, const Stack& stack);
  void release();
  void end_stream();

  std::shared_ptr<const StreamList> streams_;
  RecordOptions options_;
  StretchRunner runner_;
  std::function<void(Recorder&)> names_;

  const pid_t thread_;  // that runs the program
  mutable std::recursive_mutex mutex_;
  std::shared_ptr<const Stream> stream_;
  // A stream with other sizes than any known one, while it is derived from one: stream_ is derived_.
  std::shared_ptr<const Stream> base_;
  std::shared_ptr<Stream> derived_;
  bool derivable_ = true;               // the results of ops that ran are as the known stream's, but for sizes
  std::vector<char> has_rule_;          // per op of derived_: its results are known without running it
  std::unique_ptr<Recorder> recorder_;  // since the program departed
  std::exception_ptr error_;            // of an op that failed where nothing can be thrown
  bool pass_through_ = false;           // after an error of ours
  size_t cursor_ = 0, done_ = 0, shared_ = 0;
  size_t waiting_ops_ = 0;  // of those from done_ to cursor_
  bool whole_ = false;
  size_t next_call_ = 0;                  // no call before it comes again
  std::optional<BackwardStart> running_;  // a backward that is met op by op
  bool same_nodes_ = true;                // autograd's nodes were made by the same ops as in the stream
  std::string difference_;
  size_t mismatch_ = 0;  // the argument that did not match
  bool flushing_ = false;
  std::vector<RealMemory> real_;
  // The next call on this thread uses these again.
  struct Tables {
    std::vector<Slot> slots;
    PointerMap numbers;
    std::vector<int32_t> waiting, owed, bound_now;
    CallMemory memory;
    AddressArena addresses;
    MemoryRanges ranges;
    std::vector<FoundPointer> pointers;  // by storage, of the last call
  };
  static Tables& spare_tables();
  Tables tables_ = std::exchange(spare_tables(), {});
  std::vector<Slot>& slots_ = tables_.slots;
  PointerMap& numbers_ = tables_.numbers;
  std::vector<int32_t>&waiting_ = tables_.waiting, &owed_ = tables_.owed, &bound_now_ = tables_.bound_now;
  CallMemory& memory_ = tables_.memory;
  MemoryRanges& ranges_ = tables_.ranges;
  bool knows_ranges_ = false;      // foreign memory was met, so ranges are compared from then on
  bool flush_soon_ = false;        // ops wait that must not: memory under two storages, a pointer that is not withdrawn
  bool out_of_addresses_ = false;  // the next ops run at once
  bool keeps_handler_ = false;     // the fault handler was looked at in this call
  ReplayCounts counts_;
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> arguments_;
  // Storages that the program asked for a pointer of before an op met them.
  std::vector<std::pair<const c10::StorageImpl*, Access>> asked_before_;
  StorageFilter met_;  // other threads ask it before they wait for the lock
};

// Is this the op, with arguments that are the `same`? If not, nothing that it bound stays bound.
template <class Same>
bool Replayer::fits(const TapeOp& entry, const c10::OperatorHandle& op, const Stack& stack, Same&& same) {
  if (!(entry.op == op)) return false;
  if (entry.immediate) return true;  // runs for real, whatever its operands are
  if (entry.default_dtype != c10::get_default_dtype_as_scalartype()) return false;
  bound_now_.clear();
  size_t first = stack.size() - entry.args.size();
  bool fit = true;
  for (size_t i = 0; i < entry.args.size() && fit; ++i) {
    mismatch_ = i;
    fit = same(entry.args[i], stack[first + i]);
  }
  // An offset that the op states itself counts from the start of the storage.
  if (fit && entry.absolute_offset) fit = slots_[std::get<TensorRef>(entry.args[0]).storage].moved == 0;
  if (!fit) unbind_new();
  return fit;
}

}  // namespace tenon::capture
