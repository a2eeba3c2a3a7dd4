// Runs the passes of passes.def, in their order, over one graph.
//
// A pass takes a verified graph that will run below autograd, and keeps what can be seen of it:
// inputs, the number, types and bits of the outputs and write-backs, and which outputs share memory
// with what. It returns how many places it changed; none means that it left the graph alone.
//
// TENON_SKIP_PASS=name,name leaves passes out; also `fuse` (every kernel is one op) and `arena` (every
// value has memory of its own). TENON_DEBUG=3 prints the graph after each pass that
// changed it. The result is verified; with TENON_CHECK_TEXT=1 after each pass that changed it.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/graph.h"

namespace tenon::passes {

struct PassRun {
  std::string name;
  bool changed = false;
  double seconds = 0;
};

// What happened, one entry a pass that was not skipped.
std::vector<PassRun> run_all(ir::Graph& graph);

// The level that TENON_DEBUG asks for; 0 if it is not set.
int debug_level();

// Whether TENON_SKIP_PASS names it.
bool is_skipped(const std::string& name);

// One pass by its name, switched off or not. Throws UserError(pass) for a name that is not in passes.def.
PassRun run_pass(const std::string& name, ir::Graph& graph);

}  // namespace tenon::passes
