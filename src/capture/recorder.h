// Recorder: a listener that lets the program run for real and writes the tape.
#pragma once

#include <unordered_map>

#include "capture/backward.h"
#include "capture/listener.h"
#include "capture/tape.h"

namespace tenon::capture {

struct RecordOptions {
  bool fullgraph = false;       // a break throws UserError(fullgraph) instead of being noted
  bool may_record = true;       // else a replay that leaves the known streams goes on unrecorded
  bool may_not_depart = false;  // and throws UserError(recompile)
  bool may_derive = true;       // a stream whose sizes and integers alone are new follows from a known one
  bool note_calls = false;      // what the user called, beside the ops
  uint64_t first_node = 0;      // autograd nodes that this thread had made when the run began
};

// The default generator between random ops: only they may move it.
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
  // Goes on where a tape ends; `storages` are the live ones and their numbers.
  Recorder(RecordOptions options, Tape tape, std::unordered_map<const c10::StorageImpl*, int32_t> storages)
      : options_(options), tape_(std::move(tape)), storages_(std::move(storages)) {}

  // The run is over.
  void finish() { generator_.check(tape_); }
  // A backward begins, later.
  void resume() {
    generator_.remember();
    options_.fullgraph = false;  // what libtorch's own derivatives do is not the user's fault
  }

  // Tensors that the program is known to depend on, in a fixed order, before the run. Returns its
  // number among the externals.
  int32_t add_external(External::Kind kind, int32_t index, const std::string& name, const at::Tensor& tensor);
  // What to call a tensor if the run meets it.
  void name(const at::Tensor& tensor, External::Kind kind, int32_t index, std::string name);

  void on_call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) override;
  void on_op(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) override;
  bool on_backward(const BackwardCall& call) override;
  void after_backward() override;
  // A backward that began before this recorder did.
  void go_on_with(std::optional<BackwardStart> running) { running_ = std::move(running); }

  // How the tape names this tensor; a tensor that it has not met becomes an external.
  TensorRef refer(const at::Tensor& tensor);

  // Storage number, or -1 for one that was never met.
  int32_t storage_number(const at::Tensor& tensor) const;

  Tape& tape() { return tape_; }
  const Tape& tape() const { return tape_; }

 private:
  int32_t meet(const at::Tensor& tensor);
  void recognise(const at::Tensor& tensor, int32_t storage);
  int32_t number_storage(const at::Tensor& tensor, int32_t born);
  bool supported(const at::Tensor& tensor);
  TapeArgument note_tensor(const at::Tensor& tensor);
  TapeArgument note_argument(const c10::IValue& value);
  TensorRef note_result(const at::Tensor& tensor);
  Geometry place_of(const at::Tensor& tensor, int32_t storage) const;
  void note_scalars(TapeOp& entry);
  void note_writes(TapeOp& entry, const Stack& stack, size_t first);
  bool must_run_at_once(const TapeOp& entry, const struct OpFacts& facts, bool is_break, size_t obstacles_before) const;
  const struct OpFacts& facts_of(const c10::OperatorHandle& op);
  bool note_call(UserCall& call, const Stack& stack, size_t first);
  bool note_outcome(UserCall& call, const Stack& stack, const std::vector<const c10::TensorImpl*>& operands);
  bool is_known(const at::Tensor& tensor) const;
  TensorRef recall(const Glimpse& glimpse) const;
  bool meet_break(const c10::OperatorHandle& op, const struct OpFacts& facts, const Stack& stack, size_t first);

  RecordOptions options_;
  Tape tape_;
  std::unordered_map<const c10::StorageImpl*, int32_t> storages_;
  std::unordered_map<const c10::TensorImpl*, int32_t> handles_;
  struct Name {
    External::Kind kind;
    int32_t index;
    std::string text;
  };
  std::unordered_map<const c10::TensorImpl*, Name> names_;
  size_t next_leaf_ = 0;                                            // behind the external whose gradient was met last
  std::unordered_map<int32_t, std::vector<int32_t>> externals_on_;  // by storage; the first `listed_` of them
  size_t listed_ = 0;
  GeneratorWatch generator_;
  bool in_backward_ = false;
  std::optional<BackwardStart> running_;  // the backward that runs
};

}  // namespace tenon::capture
