#include "build/native.h"

#include <algorithm>
#include <set>

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

NativeProgram::SharedBuffers shared_buffers(const std::vector<loops::Lowered>& lowered, size_t groups) {
  NativeProgram::SharedBuffers out(groups);
  for (size_t g = 0; g < lowered.size(); ++g)
    for (auto [output, input] : lowered[g].may_share)
      out[g].emplace_back(lowered[g].buffers[static_cast<size_t>(output)], lowered[g].buffers[static_cast<size_t>(input)]);
  return out;
}

// Marks results that are written back to an input of the graph as writes of that input. The planner decides whether the kernel
// writes them in place.
void mark_writes(ir::Graph& fused, const NativeProgram::SharedBuffers& may_share) {
  std::set<std::pair<ir::ValueId, ir::ValueId>> write_backs;  // Pairs of an input and the value written back to it.
  for (const ir::WriteBack& write : fused.write_backs) write_backs.emplace(write.input, write.value);
  for (ir::Node& node : fused.nodes) {
    if (!ir::is_fused(node)) continue;
    for (auto [after, before] : may_share[ir::group_of(node)]) {
      bool is_wanted = write_backs.count({before, after}) > 0;
      bool is_free = std::none_of(node.writes.begin(), node.writes.end(),
                                  [&](const ir::Node::Write& w) { return w.before == before || w.after == after; });
      if (!is_wanted || !is_free || !ir::same(fused.values[before].type, fused.values[after].type)) continue;
      auto at = std::find_if(node.args.begin(), node.args.end(), [&](const ir::Argument& argument) {
        const auto* id = std::get_if<ir::ValueId>(&argument);
        return id && *id == before;
      });
      node.writes.push_back({static_cast<int32_t>(at - node.args.begin()), 0, before, after});
    }
  }
}

}  // namespace

std::shared_ptr<const NativeProgram> make_native(const std::shared_ptr<const ir::Graph>& original,
                                                 const std::vector<c10::IValue>& resources, const NativeOptions& options,
                                                 const std::shared_ptr<Quarantine>& quarantine, std::vector<ir::Condition>& conditions) {
  bool is_unfused = passes::is_skipped("fuse");
  const ir::SymbolValues& symbols = original->symbols;
  // Stages decide for the recorded sizes. What they ask about sizes becomes a condition.
  auto stage = [&](const char* name, auto&& work) {
    ir::ConditionScope scope(symbols, name, conditions);
    return work();
  };
  // Convolutions are faster on channels_last images. The layout is chosen first, because it decides which nodes have the same strides.
  std::shared_ptr<const ir::Graph> graph = original;
  if (options.keeps_weights && !is_unfused)
    graph = stage("layout", [&] { return std::make_shared<const ir::Graph>(passes::prefer_channels_last(*original)); });
  // How a kernel would compute each node, decided once for the two stages that need it.
  ops::Lowerings lowerings = stage("lowering", [&] { return ops::lowerings_of(*graph); });
  // Groups of nodes: kernels first, then library calls.
  std::vector<ir::Group> groups =
      stage("fusion", [&] { return passes::find_groups(*graph, lowerings, is_unfused, options.keeps_weights); });
  // Kernels as loops. Those that are equal up to sizes and scalars have the same text and are compiled once.
  std::vector<loops::Lowered> lowered = stage("lowering", [&] { return lower_kernels(*graph, lowerings, groups); });
  // Machine code for kernels, library calls for the rest.
  FusedOps fused_ops(*graph, groups, lowered, options, quarantine, conditions);
  // The graph with one node per group. Products that one parallel loop can compute become neighbours.
  ir::Graph fused = stage("fusion", [&] { return passes::gather_products(passes::fuse(*graph, groups), groups); });
  // Memory, on the fused graph: values inside a kernel need none. The sizes decide where buffers are, but not which of them are reused.
  NativeProgram::SharedBuffers may_share = shared_buffers(lowered, groups.size());
  mark_writes(fused, may_share);
  ir::Reuse reuse = stage("memory plan", [&] { return planner::plan_reuse(fused); });
  std::vector<Explanation::Call> aten_calls = describe_aten_calls(fused, symbols);
  return std::make_shared<const NativeProgram>(NativeProgram::NativeParts{
      std::make_shared<const ir::Graph>(std::move(fused)), std::move(fused_ops), std::move(may_share), std::move(reuse),
      describe_kernels(*graph, groups, lowered), std::move(aten_calls), resources, options.keeps_memory});
}

std::shared_ptr<const runtime::Interpreter> NativeProgram::at(const ir::SymbolValues& symbols) const {
  return std::make_shared<const runtime::Interpreter>(parts_.fused, symbols, parts_.reuse, parts_.resources, capture::keys_above_backends(),
                                                      parts_.ops.at(symbols), plan_memory(symbols), parts_.keeps_memory);
}

// Whether a node writes its results to given buffers: kernels, products, and ops with an `out=` overload.
bool NativeProgram::takes_buffers(const ir::Node& node) const {
  if (ir::is_fused(node)) return parts_.ops.takes_buffers(ir::group_of(node));
  const ops::Facts* facts = ops::find(node.op);
  return facts && facts->has_out;
}

ir::Arena NativeProgram::plan_memory(const ir::SymbolValues& symbols) const {
  if (passes::is_skipped("arena")) return {};
  auto shared = [&](const ir::Node& node) {
    return ir::is_fused(node) ? parts_.may_share[ir::group_of(node)] : std::vector<std::pair<ir::ValueId, ir::ValueId>>();
  };
  return planner::plan_arena(*parts_.fused, runtime::types_of(*parts_.fused, symbols), parts_.reuse,
                             {[&](const ir::Node& node) { return takes_buffers(node); }, shared});
}

std::vector<Explanation::Kernel> NativeProgram::kernels(const ir::SymbolValues& symbols) const {
  std::vector<Explanation::Kernel> out;
  for (const KernelDescription& kernel : parts_.kernels) out.push_back(kernel.at(*parts_.fused, symbols));
  return out;
}

std::vector<size_t> NativeProgram::kernel_order() const {
  std::vector<size_t> out;
  for (const ir::Node& node : parts_.fused->nodes)
    if (ir::is_fused(node)) out.push_back(ir::group_of(node));
  return out;
}

}  // namespace tenon::build
