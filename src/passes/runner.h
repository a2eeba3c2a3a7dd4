// Runs the passes of passes.def, in their order, over one graph.
//
// A pass takes a verified graph that will run below autograd, and preserves its observable behaviour:
// inputs, the count, types and bits of the outputs and write-backs, and which of them share memory. It
// returns the number of changes; zero means that the graph is unchanged.
//
// TENON_SKIP_PASS=name,name skips passes. TENON_DEBUG=3 prints the graph after each pass that changed it. The
// result is verified; with TENON_CHECK_TEXT=1 also after each pass that changed it.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/graph.h"

namespace tenon::passes {

struct PassRun {
  std::string name;
  bool changed = false;
};

// Runs all passes over the graph that are not skipped, and returns one entry per pass.
std::vector<PassRun> run_all(ir::Graph& graph);

// Returns the level of TENON_DEBUG, or 0 if it is not set.
int debug_level();

// Returns whether TENON_SKIP_PASS names the pass.
bool is_skipped(const std::string& name);

// Runs one pass by its name, even if it is skipped. Throws UserError(pass) if passes.def has no such pass over a graph.
PassRun run_pass(const std::string& name, ir::Graph& graph);

}  // namespace tenon::passes
