// Replayer: a listener that compares the ops of a running program with recorded streams. While they match, ops are deferred,
// and their results are placeholders with true sizes, types and autograd history. Deferred ops are flushed when their
// contents are needed (by the host or by an op that cannot be deferred), when the program departs from the known streams,
// and at the end of the call.
//
// replayer.cpp has the states, deferring.cpp the deferral of one op, flushing.cpp everything that runs ops, deriving.cpp the
// inference of streams with other sizes, replayer_calls.cpp the deferral of user calls and backward passes.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "capture/address_space.h"
#include "capture/call_memory.h"
#include "capture/equal_ops.h"
#include "capture/op_matcher.h"
#include "capture/op_range.h"
#include "capture/pending.h"
#include "capture/recorder.h"
#include "capture/storage_table.h"

namespace tenon::capture {

// What a replay does with the next op. A replay starts in `following`, or in `recording` if no stream is known.
//
//   following ──► deriving ──► recording
//       │             │            ▲
//       ├─────────────┼────────────┘
//       └─────────────┴──► passing_through
enum class ReplayState : uint8_t {
  following,        // The op is compared with a known stream and deferred.
  deriving,         // The op differs from a known stream only in sizes. It is deferred and written on a derived stream.
  recording,        // The program has departed from all known streams. The op runs and is recorded.
  passing_through,  // A flush has failed, or the program has departed and may not be recorded. The op runs unrecorded.
};

class Replayer : public Listener, public PendingReplay {
 public:
  // `names` gives a recorder the names of arguments and state, if the program departs.
  Replayer(std::shared_ptr<const StreamList> streams, RecordOptions options, OpRangeRunner runner, std::function<void(Recorder&)> names);
  ~Replayer() override;

  void on_call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) override;
  void on_op(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) override;
  bool on_backward(const BackwardCall& call) override;
  void after_backward() override;
  void on_access(c10::StorageImpl* storage, AccessKind access, pid_t thread) override;
  pid_t thread() const override { return thread_; }
  bool on_fault(const char* address) override;

  // Observes the arguments, so that pointers that the program requests before the first op are noticed.
  void observe_arguments(c10::ArrayRef<const at::Tensor*> tensors);

  // Ends the call after the program has returned or thrown: flushes and releases everything. Must be called once.
  void finish();

  // The stream that the call followed to its end, or null. This and the following accessors are valid after finish(), when no
  // other thread changes the replay any more.
  std::shared_ptr<const Stream> followed() const { return complete_ && state_ == ReplayState::following ? stream_ : nullptr; }
  Recorder* recorder() { return recorder_.get(); }
  const Stream* parent() const { return base_ ? base_.get() : stream_.get(); }
  // A complete derived stream, ready to be added, or null.
  Stream* derived() { return complete_ && state_ == ReplayState::deriving && derivable_ ? derived_.get() : nullptr; }
  size_t shared() const { return shared_ops_; }
  size_t alike() const { return alike_ops_; }
  // How the program departed from the known streams, and the program's return addresses there.
  const std::string& difference() const { return difference_; }
  const std::vector<void*>& difference_frames() const { return difference_frames_; }
  const ReplayCounts& counts() const { return counts_; }

 private:
  using Lock = std::unique_lock<std::recursive_mutex>;

  // States and streams.
  bool is_deriving() const { return state_ == ReplayState::deriving; }
  void start_recording(std::unique_ptr<Recorder> recorder);
  void note_default_dtype();
  void throw_postponed_error();
  void replay_op(Lock& lock, const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack);
  // Compares the op with the expected entry, then with other streams; starts deriving if only sizes differ. Returns the entry
  // to defer or run, or null if the program departs.
  const TapeOp* match_op(const TapeOp* entry, const c10::OperatorHandle& op, const Stack& stack);
  // The stream that the call is compared with.
  const Stream& known() const { return is_deriving() ? *base_ : *stream_; }
  const TapeOp* expected() const { return cursor_ < known().tape.ops.size() ? &known().tape.ops[cursor_] : nullptr; }
  void follow(const std::shared_ptr<const Stream>& stream);
  bool find_stream(const c10::OperatorHandle& op, const Stack& stack);
  std::string describe_difference(const TapeOp* entry, const c10::OperatorHandle& op, const Stack& stack, size_t argument) const;
  void depart(const std::string& difference);
  void release();
  void end_stream();

  // Deriving.
  bool start_deriving(const c10::OperatorHandle& op, const Stack& stack);
  std::shared_ptr<const Stream> find_alike(const c10::OperatorHandle& op, const Stack& stack);
  void change_base(const std::shared_ptr<const Stream>& stream);
  const TapeOp* derive(const TapeOp& base, const Stack& stack);
  bool set_result_geometries(TapeOp& op, std::vector<Geometry>& inferred);
  void record_real_results(const Stack& stack);
  Geometry geometry_on_tape(const at::Tensor& tensor, int32_t storage) const;

  // Deferring.
  bool can_defer(const TapeOp& entry);
  bool is_observable(CallStorage& storage);
  bool can_defer_writes(CallStorage& storage);
  void announce_to_others(const CallStorage& storage, AccessKind access);
  bool accepts_indices(const TapeOp& entry, const Stack& stack);
  bool counts_up_below(std::optional<int64_t> limit, const c10::IValue& index) const;
  void defer(const TapeOp& entry, Stack* stack);
  void advance_to(size_t op);
  void push_results(const std::vector<TapeResult>& expected, size_t arguments, Stack* stack);
  at::Tensor make_result(const TensorRef& ref, const Origin& origin, const Stack& stack, size_t first);

  // User calls and backward passes.
  bool defer_range(const DeferrableRange& range);
  const UserCall* find_call(const c10::OperatorHandle& op, const Stack& stack);
  bool matches_backward(const Backward& backward, const BackwardGraph& graph, const BackwardCall& call);
  void set_gradients(const Backward& backward, const BackwardGraph& graph);
  at::Tensor as_view(const at::Tensor& base, at::Tensor out) const;

  // Flushing.
  bool touches_deferred(const c10::OperatorHandle& op, const Stack& stack) const;
  void run_immediately(const TapeOp& entry, const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack, bool alone);
  void undo_match();
  void forget_failed_op();
  void bind_results(const TapeOp& entry, const Stack& stack);
  std::vector<int32_t> disarm_operands(const c10::OperatorHandle& op, const Stack& stack);
  void flush();
  void materialize_results(const std::vector<int32_t>& live);

  std::shared_ptr<const StreamList> streams_;
  RecordOptions options_;
  OpRangeRunner runner_;
  std::function<void(Recorder&)> name_externals_;
  const pid_t thread_;  // The thread that runs the program.

  // Protects everything below. Another thread that accesses a storage flushes the replay.
  mutable std::recursive_mutex mutex_;
  ReplayState state_ = ReplayState::following;
  std::exception_ptr postponed_error_;  // An error that occurred where nothing can be thrown.
  std::shared_ptr<const Stream> stream_;
  size_t cursor_ = 0;                          // Index of the next op.
  size_t flushed_ = 0;                         // Index of the first op that may be deferred.
  size_t deferred_ops_ = 0;                    // Number of deferred ops between flushed_ and cursor_.
  at::ScalarType default_dtype_ = at::kFloat;  // libtorch's default dtype when ops were deferred.
  size_t shared_ops_ = 0;                      // Number of leading ops that the call has in common with the parent stream.
  size_t alike_ops_ = 0;                       // The same, where sizes may differ.
  bool complete_ = false;                      // The call followed its stream to the end.
  bool flushing_ = false;
  bool out_of_addresses_ = false;                  // The next op is not deferred.
  size_t next_call_ = 0;                           // Index of the next recorded user call.
  std::optional<BackwardStart> running_backward_;  // A backward that runs op by op.
  bool same_nodes_ = true;                         // The same ops as in the stream created autograd's nodes.
  std::string difference_;
  std::vector<void*> difference_frames_;
  ReplayCounts counts_;
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> arguments_;

  // State of `deriving`. stream_ equals derived_ then, and base_ is the known stream.
  std::shared_ptr<const Stream> base_;
  std::shared_ptr<Stream> derived_;
  bool derivable_ = true;       // The results of the ops that ran differ from the known stream's only in sizes.
  std::vector<char> has_rule_;  // One flag per op of derived_: its results were inferred.
  EqualOps equal_ops_;          // The ops of derived_ with a shape rule.

  // State of `recording`.
  std::unique_ptr<Recorder> recorder_;

  // Buffers that the next call on this thread reuses.
  struct ReplayBuffers {
    StorageTable::Buffers storages;
    CallMemory memory;
    AddressArena addresses;
  };
  static ReplayBuffers& spare_buffers();
  ReplayBuffers buffers_ = std::exchange(spare_buffers(), {});
  CallMemory& memory_ = buffers_.memory;
  StorageTable storages_{buffers_.storages};
  OpMatcher matcher_{storages_, memory_.scalars};
};

}  // namespace tenon::capture
