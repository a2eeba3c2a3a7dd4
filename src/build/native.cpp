#include "build/native.h"

#include <algorithm>
#include <set>

#include "build/describe.h"
#include "build/fused_ops.h"
#include "capture/listener.h"
#include "ops/table.h"
#include "passes/fusion/convolutions.h"
#include "passes/fusion/find_groups.h"
#include "passes/fusion/products.h"
#include "passes/runner.h"
#include "planner/arena.h"
#include "planner/reuse.h"

namespace tenon::build {
namespace {

// Pairs of a result and an operand that may share a buffer, per group.
using SharedBuffers = std::vector<std::vector<std::pair<ir::ValueId, ir::ValueId>>>;

SharedBuffers shared_buffers(const std::vector<loops::Lowered>& lowered, size_t groups) {
  SharedBuffers out(groups);
  for (size_t g = 0; g < lowered.size(); ++g)
    for (auto [output, input] : lowered[g].may_share)
      out[g].emplace_back(lowered[g].buffers[static_cast<size_t>(output)], lowered[g].buffers[static_cast<size_t>(input)]);
  return out;
}

// Marks results that are written back to an input of the graph as writes of that input. The planner decides whether the kernel
// writes them in place.
void mark_writes(ir::Graph& fused, const SharedBuffers& may_share) {
  std::set<std::pair<ir::ValueId, ir::ValueId>> write_backs;  // Pairs of an input and the value written back to it.
  for (const ir::WriteBack& write : fused.write_backs) write_backs.emplace(write.input, write.value);
  for (ir::Node& node : fused.nodes) {
    if (!ir::is_fused(node)) continue;
    for (auto [after, before] : may_share[ir::group_of(node)]) {
      bool is_wanted = write_backs.count({before, after}) > 0;
      bool is_free = std::none_of(node.writes.begin(), node.writes.end(),
                                  [&](const ir::Node::Write& w) { return w.before == before || w.after == after; });
      if (!is_wanted || !is_free || fused.values[before].type != fused.values[after].type) continue;
      auto at = std::find(node.args.begin(), node.args.end(), ir::Argument(before));
      node.writes.push_back({static_cast<int32_t>(at - node.args.begin()), 0, before, after});
    }
  }
}

// Whether a node writes its results to given buffers: kernels, products, and ops with an `out=` overload.
bool takes_buffers(const std::vector<runtime::FusedOp>& fused_ops, const ir::Node& node) {
  if (!ir::is_fused(node)) {
    const ops::Facts* facts = ops::find(node.op);
    return facts && facts->has_out;
  }
  const runtime::FusedOp& op = fused_ops[ir::group_of(node)];
  return op.kernel() || op.product();
}

ir::Arena plan_memory(const ir::Graph& fused, const ir::Reuse& reuse, const std::vector<runtime::FusedOp>& fused_ops,
                      const SharedBuffers& may_share) {
  if (passes::is_skipped("arena")) return {};
  auto shared = [&](const ir::Node& node) {
    return ir::is_fused(node) ? may_share[ir::group_of(node)] : std::vector<std::pair<ir::ValueId, ir::ValueId>>();
  };
  return planner::plan_arena(fused, reuse, {[&](const ir::Node& node) { return takes_buffers(fused_ops, node); }, shared});
}

}  // namespace

Native make_native(const ir::Graph& original, const std::vector<c10::IValue>& resources, const NativeOptions& options,
                   const std::shared_ptr<Quarantine>& quarantine) {
  bool is_unfused = passes::is_skipped("fuse");
  // Convolutions are faster on channels_last images. The layout is chosen first, because it decides which nodes have the same strides.
  ir::Graph graph = options.keeps_weights && !is_unfused ? passes::prefer_channels_last(original) : original;
  // How a kernel would compute each node, decided once for the two stages that need it.
  ops::Lowerings lowerings = ops::lowerings_of(graph);
  // Groups of nodes: kernels first, then library calls.
  std::vector<ir::Group> groups = passes::find_groups(graph, lowerings, is_unfused, options.keeps_weights);
  // Kernels as loops. Those that are equal up to sizes and scalars have the same text and are compiled once.
  std::vector<loops::Lowered> lowered = lower_kernels(graph, lowerings, groups);
  // Machine code for kernels, library calls for the rest.
  std::vector<runtime::FusedOp> fused_ops = make_fused_ops(graph, groups, lowered, options, quarantine);
  // The graph with one node per group. Products that one parallel loop can compute become neighbours.
  ir::Graph fused = passes::gather_products(passes::fuse(graph, groups), groups);
  // Memory, on the fused graph: values inside a kernel need none.
  SharedBuffers may_share = shared_buffers(lowered, groups.size());
  mark_writes(fused, may_share);
  ir::Reuse reuse = planner::plan_reuse(fused);
  ir::Arena arena = plan_memory(fused, reuse, fused_ops, may_share);
  Native out{.kernels = describe_kernels(graph, groups, lowered), .aten_calls = describe_aten_calls(fused)};
  out.interpreter =
      std::make_shared<const runtime::Interpreter>(std::move(fused), std::move(reuse), resources, capture::keys_above_backends(),
                                                   std::move(fused_ops), std::move(arena), options.keeps_memory);
  return out;
}

}  // namespace tenon::build
