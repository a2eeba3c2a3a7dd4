// Tape to graph: aliases and in-place writes are removed.
//
// The contents of a storage are one value at a time, its root. A view is a value that aliases the
// root; a write through any of them makes a new root, after which every overlapping view is taken
// anew from it. What an external storage holds at the end is written back. Memory that nobody in
// the program filled before it was read (`empty` filled by the host) is an obstacle.
#pragma once

#include <ATen/core/ivalue.h>

#include <memory>
#include <string>
#include <vector>

#include "capture/tape.h"
#include "ir/graph/graph.h"

namespace tenon::capture {

// What to pass for an input of the graph.
struct InputBinding {
  int32_t external = -1;       // this external, or
  bool whole_storage = false;  // its storage as one flat tensor: several externals share it and it is written
  int32_t storage = -1;        // its storage; for a part of a tape (by_storage) that alone counts
};

// Where a tensor that the program leaves behind comes from.
struct ResultBinding {
  enum class Kind : uint8_t { undefined, output, external, view_of_output };
  Kind kind = Kind::undefined;
  int32_t index = -1;  // of the graph output or the external
  Geometry geometry;
  std::shared_ptr<const ir::Graph> view;  // from the external to a result that requires grad
};

struct Functional {
  ir::Graph graph;
  std::vector<InputBinding> inputs;
  std::vector<ResultBinding> results;  // one per requested result
  size_t forward_outputs = 0;          // graph outputs that belong to the forward
  std::vector<c10::IValue> resources;  // generators
  std::vector<int32_t> scalars;        // per scalar of the graph its number on the tape (by_storage)
  std::vector<bool> offset_matters;    // per external: its storage offset is part of the graph
  std::vector<std::string> obstacles;
  bool plain_autograd = true;  // the graph run under autograd gives the program's gradients
};

struct TapeRange {
  size_t begin = 0;
  size_t end = SIZE_MAX;
  size_t backward_start = SIZE_MAX;
  // A part of a replayed tape: ops that run at once are left out, inputs are memory by number.
  bool by_storage = false;
};

// What the program leaves behind; in a joint graph the first `forward` belong to the forward.
struct Results {
  std::vector<TensorRef> refs;
  size_t forward = SIZE_MAX;
};

// `name` may be any text; the graph's name is an identifier made of it.
Functional functionalize(const Tape& tape, TapeRange range, const Results& results, const std::string& name);

ir::TensorType to_type(const Geometry& geometry);

}  // namespace tenon::capture
