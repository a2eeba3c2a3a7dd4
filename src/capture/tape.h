// The tape: what one run of a program did, as the listeners saw it. Operands are named by storage
// and geometry, never by TensorImpl, and storages are held weakly, so that recording does not
// change what the program does (reference counts steer autograd between `add` and `add_`).
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "capture/tape_ops.h"

namespace tenon::capture {

struct TapeStorage {
  c10::weak_intrusive_ptr<c10::StorageImpl> weak;
  int32_t born = -1;  // index of the op that made it; -1: it was there before (external)
  size_t bytes = 0;
  bool written = false;  // by an op of the tape
  // Bytes from where the tape says that its tensors lie to where they lie in the run that is being
  // recorded: streams that part keep one way of counting.
  int64_t moved = 0;
};

// A tensor that the program met but did not make.
struct External {
  enum class Kind : uint8_t { argument, state, gradient, tangent, met };
  Kind kind = Kind::met;
  int32_t index = 0;  // argument or tangent number; for a gradient the external whose .grad it is
  std::string name;
  TensorRef ref;
  c10::weak_intrusive_ptr<c10::TensorImpl> weak;
  c10::weak_intrusive_ptr<c10::StorageImpl> weak_storage;
  int64_t version = 0;                     // when it was first met
  std::optional<ir::ScalarTensor> number;  // a 0-d tensor's contents when it was first met

  // The program let go of it before it ended.
  bool gone() const { return kind == Kind::met && weak_storage.expired(); }
  // A number that ATen put into a tensor on its own.
  bool is_number() const { return number && gone(); }
};

struct BreakEvent {
  std::string op;
  std::string what;
  std::string instead;
  size_t before_op = 0;  // index into Tape::ops
  std::vector<void*> frames;
};

struct Tape {
  std::vector<TapeOp> ops;
  std::vector<TapeStorage> storages;
  std::vector<External> externals;
  std::vector<BreakEvent> breaks;
  std::vector<double> scalars;       // the free ones, in the order of the ops' arguments
  std::vector<UserCall> user_calls;  // those that can be told from their arguments alone
  std::vector<Backward> backwards;
  std::vector<std::string> obstacles;  // reasons why the tape cannot stand for the program
  int32_t handles = 0;                 // how many were given out
  size_t calls = 0;                    // ops as the user made them (outer listener)
  bool has_backward = false;           // autograd ran inside
  // Autograd nodes that ran inside, and whether their saved tensors were kept.
  std::unordered_map<const void*, bool> nodes_run;
};

// How much of a tape belongs to the forward.
struct TapeExtent {
  size_t ops = 0;
  size_t externals = 0;
};

// Empty if both tapes tell the same program, else the first difference in words.
std::string first_difference(const Tape& a, TapeExtent a_extent, const Tape& b, TapeExtent b_extent);

}  // namespace tenon::capture
