// Turns groups of nodes into what runs for them: machine code, or calls of a library.
#pragma once

#include <memory>
#include <vector>

#include "build/native.h"
#include "ir/graph/group.h"
#include "loops/lower.h"
#include "runtime/fused_op.h"

namespace tenon::build {

// The loops of all groups that become kernels; these groups come first.
std::vector<loops::Lowered> lower_kernels(const ir::Graph& graph, const ops::Lowerings& lowerings, const std::vector<ir::Group>& groups);

// One per group.
std::vector<runtime::FusedOp> make_fused_ops(const ir::Graph& graph, const std::vector<ir::Group>& groups,
                                             const std::vector<loops::Lowered>& lowered, const NativeOptions& options,
                                             const std::shared_ptr<Quarantine>& quarantine);

}  // namespace tenon::build
