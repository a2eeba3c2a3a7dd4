// Tape to graph: aliases and in-place writes are removed.
//
// The contents of a storage are one value at a time, its root. A view is a value that aliases the root. A write through
// any of them makes a new root, and overlapping views are then recomputed from it. The final contents of an external
// storage are written back. Memory that is read before an op of the program has filled it (`empty` filled by the host) is
// an obstacle.
#pragma once

#include <ATen/core/ivalue.h>

#include <memory>
#include <string>
#include <vector>

#include "capture/tape.h"
#include "ir/graph/graph.h"

namespace tenon::capture {

// What a caller passes for an input of the graph.
struct InputBinding {
  int32_t external = -1;       // The external to pass, or
  bool whole_storage = false;  // The external's storage as one flat tensor, because several externals share it and it is written.
  int32_t storage = -1;        // The storage id. It alone identifies the input under TapeRange::by_storage.
};

// The source of a tensor that the program returns or leaves in its state.
struct ResultBinding {
  enum class Kind : uint8_t { undefined, output, external, view_of_output };
  Kind kind = Kind::undefined;
  int32_t index = -1;  // Index of the graph output or the external.
  Geometry geometry;
  std::shared_ptr<const ir::Graph> view;  // The views that lead from the external to a result that requires grad.
};

struct Functional {
  ir::Graph graph;
  std::vector<InputBinding> inputs;
  std::vector<ResultBinding> results;  // One per requested result.
  size_t forward_outputs = 0;          // Number of graph outputs that belong to the forward.
  std::vector<c10::IValue> resources;  // Generators.
  std::vector<int32_t> scalars;        // Index on the tape of each scalar of the graph.
  std::vector<bool> offset_matters;    // One flag per external: the graph depends on its storage offset.
  std::vector<std::string> obstacles;
  bool plain_autograd = true;  // True if the graph, run under autograd, gives the program's gradients.
};

struct TapeRange {
  size_t begin = 0;
  size_t end = SIZE_MAX;
  size_t backward_start = SIZE_MAX;
  // Selects a range of a replayed tape: immediate ops are skipped, and inputs are buffers by storage id.
  bool by_storage = false;
  // One flag per free scalar of the tape: it is an input of the graph. Under by_storage all of them are.
  std::vector<bool> free_scalars = {};
};

// Returns whether the op is not part of the range: under by_storage, immediate ops have run already.
inline bool is_excluded(const Tape& tape, const TapeRange& range, size_t op) { return range.by_storage && tape.ops[op].immediate; }

// The tensors that the program returns or leaves in its state. In a joint graph the first `forward` of them belong to the forward.
struct ProgramResults {
  std::vector<TensorRef> refs;
  size_t forward = SIZE_MAX;
};

// `name` may be any text; the graph's name is an identifier derived from it.
Functional functionalize(const Tape& tape, TapeRange range, const ProgramResults& results, const std::string& name);

ir::FixedType to_type(const Geometry& geometry);

}  // namespace tenon::capture
