// Recorder: a listener that runs every op of the program and writes it on the tape.
#pragma once

#include <unordered_map>

#include "capture/backward.h"
#include "capture/listener.h"
#include "capture/tape.h"

namespace tenon::capture {

struct RecordOptions {
  bool fullgraph = false;            // A break throws UserError(fullgraph) instead of being recorded.
  bool may_record = true;            // False means that a replay that departs from the known streams runs unrecorded.
  bool may_not_depart = false;       // A departure throws UserError(recompile).
  bool may_derive = true;            // A stream that differs only in sizes and integers is derived from a known one.
  bool record_calls = false;         // User calls are recorded besides the ops.
  bool is_backward = false;          // The run is a backward whose forward ran before it.
  bool records_comparisons = false;  // aten::equal is recorded as ops (Tape::comparisons) instead of as a break.
  uint64_t first_node = 0;           // Number of autograd nodes that this thread had created when the run began.
};

// Watches the default generator between random ops. A change there means that the program seeds it.
class GeneratorWatch {
 public:
  GeneratorWatch() { remember(); }
  void remember();
  void check(Tape& tape);

 private:
  std::string state_;
};

class Recorder : public Listener {
 public:
  explicit Recorder(RecordOptions options) : options_(options) {}
  // Continues a tape. `storages` maps the live storages to their ids.
  Recorder(RecordOptions options, Tape tape, std::unordered_map<const c10::StorageImpl*, int32_t> storages)
      : options_(options), tape_(std::move(tape)), storages_(std::move(storages)) {}

  // Ends the run.
  void finish() { generator_.check(tape_); }
  // Continues with a backward that begins after the run has ended.
  void resume() {
    generator_.remember();
    options_.fullgraph = false;  // Breaks in libtorch's own derivatives are not the user's fault.
    options_.records_comparisons = false;
  }

  // Adds a tensor that the program is known to depend on, before the run and in a fixed order. Returns its index among the
  // externals.
  int32_t add_external(External::Kind kind, int32_t index, const std::string& name, const at::Tensor& tensor);
  // Sets the name that a tensor gets if the run uses it.
  void name(const at::Tensor& tensor, External::Kind kind, int32_t index, std::string name);

  void on_call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) override;
  void on_op(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) override;
  bool on_backward(const BackwardCall& call) override;
  void after_backward() override;
  // Takes over a backward that began before this recorder did.
  void continue_backward(std::optional<BackwardStart> running) { running_backward_ = std::move(running); }

  // The tensor's reference on the tape. A tensor that is not known yet becomes an external.
  TensorRef refer(const at::Tensor& tensor);

  // The storage's id, or -1 if the run has not used it.
  int32_t storage_id(const at::Tensor& tensor) const;

  Tape& tape() { return tape_; }
  const Tape& tape() const { return tape_; }

 private:
  int32_t discover(const at::Tensor& tensor);
  void adopt_leaf(const at::Tensor& tensor, int32_t storage);
  int32_t assign_storage_id(const at::Tensor& tensor, int32_t made_by);
  bool supported(const at::Tensor& tensor);
  TapeArgument record_tensor(const at::Tensor& tensor);
  TapeArgument record_argument(const c10::IValue& value);
  TensorRef record_result(const at::Tensor& tensor);
  Geometry geometry_on_tape(const at::Tensor& tensor, int32_t storage) const;
  void record_scalars(TapeOp& entry);
  void record_writes(TapeOp& entry, const Stack& stack, size_t first);
  bool must_run_immediately(const TapeOp& entry, const struct OpTraits& traits, bool is_break, size_t obstacles_before) const;
  const struct OpTraits& traits_of(const c10::OperatorHandle& op);
  bool record_call(UserCall& call, const Stack& stack, size_t first);
  bool record_call_results(UserCall& call, const Stack& stack, const std::vector<const c10::TensorImpl*>& operands);
  bool is_known(const at::Tensor& tensor) const;
  bool record_comparison(const struct OpTraits& traits, Stack& stack);
  bool record_break(const c10::OperatorHandle& op, const struct OpTraits& traits, const Stack& stack, size_t first);

  RecordOptions options_;
  Tape tape_;
  std::unordered_map<const c10::StorageImpl*, int32_t> storages_;
  std::unordered_map<const c10::TensorImpl*, int32_t> handles_;
  struct ExternalName {
    External::Kind kind;
    int32_t index;
    std::string text;
  };
  std::unordered_map<const c10::TensorImpl*, ExternalName> names_;
  size_t next_leaf_ = 0;                                            // Index after the external whose gradient was found last.
  std::unordered_map<int32_t, std::vector<int32_t>> externals_on_;  // Indexed by storage id; covers the first `listed_` externals.
  size_t listed_ = 0;
  GeneratorWatch generator_;
  bool in_backward_ = false;
  std::optional<BackwardStart> running_backward_;  // The backward that is being recorded.
};

}  // namespace tenon::capture
