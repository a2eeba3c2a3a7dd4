// Chooses which values of a joint graph the forward saves for the backward, and which the backward computes again: the minimum cut
// between what the program passes in and what the backward reads, where an edge costs the time to save a value or to compute a node.
#pragma once

#include <functional>
#include <vector>

#include "ir/graph/graph.h"

namespace tenon::autodiff {

struct RecomputeSettings {
  // Nanoseconds to compute a forward node again; infinity if it must not run twice. If empty, only views are computed again.
  std::function<double(const ir::Graph&, const ir::Node&)> time_of;
  // The saved values may take this fraction of the memory that they would take if only time counted.
  double memory_budget = 1;
};

struct SavedValues {
  std::vector<bool> saved;       // One per value: the forward returns it for the backward.
  std::vector<bool> recomputed;  // One per node: the backward computes it again.
  std::vector<bool> read;        // One per value: the backward reads it, or a node that it computes again does.
};

// Nodes that are computed again read only saved values, and inputs that the backward reads anyway: the program may change other inputs
// before the backward.
SavedValues choose_saved_values(const ir::Graph& joint, size_t forward_outputs, const RecomputeSettings& settings);

// Memory of the saved values.
double bytes_of(const ir::Graph& joint, const SavedValues& values);

}  // namespace tenon::autodiff
