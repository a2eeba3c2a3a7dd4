// The tape: the ops of one run of a program, as the listeners saw them. Operands are identified by storage and geometry,
// never by TensorImpl, and storages are held weakly: a strong reference would change the program, because autograd chooses
// between `add` and `add_` by reference count.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "capture/tape_ops.h"

namespace tenon::capture {

struct TapeStorage {
  c10::weak_intrusive_ptr<c10::StorageImpl> weak;
  int32_t made_by = -1;  // Index of the op that allocated it, or -1 if it existed before (external).
  size_t bytes = 0;
  bool written = false;  // An op of the tape writes it.
  // Number of bytes between the tape's offsets and those of the run that is being recorded. A stream that branches off
  // another one keeps that one's offsets.
  int64_t shift = 0;
};

// A tensor that the program uses and that no recorded op made.
struct External {
  enum class Kind : uint8_t { argument, state, gradient, tangent, discovered };
  Kind kind = Kind::discovered;
  int32_t index = 0;  // Index of the argument or tangent; for a gradient, of the external whose .grad it is.
  std::string name;
  TensorRef ref;
  c10::weak_intrusive_ptr<c10::TensorImpl> weak;
  c10::weak_intrusive_ptr<c10::StorageImpl> weak_storage;
  int64_t version = 0;                       // Version counter at first use.
  std::optional<ir::ScalarTensor> constant;  // Contents of a 0-d tensor at first use.

  // Returns whether the program released it before the run ended.
  bool gone() const { return kind == Kind::discovered && weak_storage.expired(); }
  // Returns whether it is a scalar that ATen wrapped into a temporary tensor.
  bool is_constant() const { return constant && gone(); }
};

struct BreakEvent {
  std::string op;
  std::string what;
  std::string instead;
  size_t before_op = 0;  // Index into Tape::ops.
  std::vector<void*> frames;
};

// A comparison on the host (aten::equal), on which the program's control flow may depend. It is recorded as ops that compute its outcome
// as a tensor, so that a graph can compute it again.
struct HostComparison {
  TensorRef outcome;
  bool value = false;  // The outcome of the recorded run.
};

struct Tape {
  std::vector<TapeOp> ops;
  std::vector<TapeStorage> storages;
  std::vector<External> externals;
  std::vector<BreakEvent> breaks;
  std::vector<HostComparison> comparisons;
  std::vector<double> scalars;       // The free scalars, in the order of the ops' arguments.
  std::vector<UserCall> user_calls;  // User calls that are determined by their arguments.
  std::vector<Backward> backwards;
  std::vector<std::string> obstacles;  // Reasons why no graph of the tape may serve a call.
  int32_t handles = 0;                 // Number of handles that were assigned.
  size_t calls = 0;                    // Number of user calls (outer listener).
  bool has_backward = false;           // True if a backward ran inside.
  // False if a tensor begins before the one by which its storage was found, so that its offset would be negative.
  bool is_replayable = true;
  // The autograd nodes that ran inside, and whether their saved tensors were kept.
  std::unordered_map<const void*, bool> nodes_run;
};

// The length of the tape's forward.
struct TapeLength {
  size_t ops = 0;
  size_t externals = 0;
};

// Returns a description of the first difference, or an empty string if both tapes record the same program. `may_differ` has one flag per
// free scalar, or is empty.
std::string first_difference(const Tape& a, TapeLength a_length, const Tape& b, TapeLength b_length,
                             const std::vector<bool>& may_differ = {});

}  // namespace tenon::capture
