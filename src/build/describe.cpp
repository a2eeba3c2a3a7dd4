#include "build/describe.h"

#include <algorithm>

#include "ir/loop/print.h"
#include "ops/entries.h"
#include "ops/lowerable.h"

namespace tenon::build {
namespace {

size_t bytes_of(const ir::Graph& graph, ir::ValueId id) {
  const ir::TensorType& type = graph.values[id].type;
  auto bytes = static_cast<size_t>(ir::dtype_size(type.dtype));
  for (size_t d = 0; d < type.sizes.size(); ++d)
    if (type.strides[d] != 0) bytes *= static_cast<size_t>(type.sizes[d]);
  return bytes;
}

Explanation::Kernel describe(const ir::Graph& graph, const ir::Group& group) {
  Explanation::Kernel out{.sizes = group.sizes};
  for (size_t i : group.nodes) {
    out.ops.push_back(graph.nodes[i].op);
    ir::for_each_operand(graph.nodes[i], [&](ir::ValueId id) { out.bytes_apart += bytes_of(graph, id); });
    ir::for_each_definition(graph.nodes[i], [&](ir::ValueId id) { out.bytes_apart += bytes_of(graph, id); });
  }
  for (const auto* ids : {&group.inputs, &group.outputs})
    for (ir::ValueId id : *ids) out.bytes += bytes_of(graph, id);
  return out;
}

// Whether all operands or all results of a node are tensors without elements.
bool is_empty(const ir::Graph& graph, const ir::Node& node) {
  bool reads = false, reads_some = false, makes_some = false;
  ir::for_each_operand(node, [&](ir::ValueId id) {
    reads = true;
    reads_some |= ops::has_elements(graph.values[id].type);
  });
  ir::for_each_definition(node, [&](ir::ValueId id) { makes_some |= ops::has_elements(graph.values[id].type); });
  return !makes_some || (reads && !reads_some);
}

}  // namespace

std::string name_of(const ir::Rewrite& rewrite) {
  const std::vector<ir::Node>& nodes = rewrite.graph->nodes;
  auto it = std::find_if(nodes.begin(), nodes.end(), [](const ir::Node& node) { return node.results.size() > 1; });
  return it == nodes.end() ? "other ops" : it->op;
}

std::vector<Explanation::Kernel> describe_kernels(const ir::Graph& graph, const std::vector<ir::Group>& groups,
                                                  const std::vector<loops::Lowered>& lowered) {
  std::vector<Explanation::Kernel> out;
  for (size_t g = 0; g < groups.size(); ++g) {
    Explanation::Kernel& kernel = out.emplace_back(describe(graph, groups[g]));
    kernel.name = graph.name + "_" + std::to_string(g);
    if (groups[g].is_kernel()) kernel.text = ir::loop::named(lowered[g].key, lowered[g].kernel.name);
    else if (const auto* rewrite = std::get_if<ir::Rewrite>(&groups[g].computation)) kernel.call = name_of(*rewrite);
    else kernel.call = kernel.ops[0];
  }
  return out;
}

std::vector<Explanation::Call> describe_aten_calls(const ir::Graph& fused) {
  std::vector<Explanation::Call> out;
  for (const ir::Node& node : fused.nodes) {
    if (ir::is_fused(node) || ir::is_view(fused, node)) continue;
    std::string why = ops::has_entry(node.op) ? "no native kernel for these types or sizes" : "no native kernel";
    if (is_empty(fused, node)) why = "no elements";
    if (node.op == "aten::cat") why = "ATen's copy is as fast";
    auto known = std::find_if(out.begin(), out.end(), [&](const Explanation::Call& call) { return call.op == node.op && call.why == why; });
    if (known == out.end()) known = out.insert(out.end(), {node.op, 0, why});
    ++known->count;
  }
  return out;
}

}  // namespace tenon::build
