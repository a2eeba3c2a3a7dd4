#include "build/describe.h"

#include <algorithm>

#include "ir/loop/print.h"
#include "ops/entries.h"

namespace tenon::build {
namespace {

size_t bytes_of(const ir::FixedType& type) {
  auto bytes = static_cast<size_t>(ir::dtype_size(type.dtype));
  for (size_t d = 0; d < type.sizes.size(); ++d)
    if (type.strides[d] != 0) bytes *= static_cast<size_t>(type.sizes[d]);
  return bytes;
}

KernelDescription describe(const ir::Graph& graph, const ir::Group& group) {
  KernelDescription out{.sizes = group.sizes};
  for (size_t i : group.nodes) {
    out.kernel.ops.push_back(graph.nodes[i].op);
    ir::for_each_operand(graph.nodes[i], [&](ir::ValueId id) { out.apart.push_back(id); });
    ir::for_each_definition(graph.nodes[i], [&](ir::ValueId id) { out.apart.push_back(id); });
  }
  for (const auto* ids : {&group.inputs, &group.outputs}) out.outer.insert(out.outer.end(), ids->begin(), ids->end());
  return out;
}

// Whether all operands or all results of a node are tensors without elements.
bool is_empty(const ir::Graph& graph, const ir::Node& node, const ir::SymbolValues& symbols) {
  bool reads = false, reads_some = false, makes_some = false;
  auto has_elements = [&](ir::ValueId id) {
    std::vector<int64_t> sizes = graph.values[id].type.sizes.values(symbols);
    return std::count(sizes.begin(), sizes.end(), 0) == 0;
  };
  ir::for_each_operand(node, [&](ir::ValueId id) {
    reads = true;
    reads_some |= has_elements(id);
  });
  ir::for_each_definition(node, [&](ir::ValueId id) { makes_some |= has_elements(id); });
  return !makes_some || (reads && !reads_some);
}

}  // namespace

Explanation::Kernel KernelDescription::at(const ir::Graph& graph, const ir::SymbolValues& symbols) const {
  Explanation::Kernel out = kernel;
  out.sizes = sizes.values(symbols);
  for (ir::ValueId id : outer) out.bytes += bytes_of(graph.values[id].type.at(symbols));
  for (ir::ValueId id : apart) out.bytes_apart += bytes_of(graph.values[id].type.at(symbols));
  return out;
}

std::string name_of(const ir::Rewrite& rewrite) {
  const std::vector<ir::Node>& nodes = rewrite.graph->nodes;
  auto it = std::find_if(nodes.begin(), nodes.end(), [](const ir::Node& node) { return node.results.size() > 1; });
  return it == nodes.end() ? "other ops" : it->op;
}

std::vector<KernelDescription> describe_kernels(const ir::Graph& graph, const std::vector<ir::Group>& groups,
                                                const std::vector<loops::Lowered>& lowered) {
  std::vector<KernelDescription> out;
  for (size_t g = 0; g < groups.size(); ++g) {
    Explanation::Kernel& kernel = out.emplace_back(describe(graph, groups[g])).kernel;
    kernel.name = graph.name + "_" + std::to_string(g);
    if (groups[g].is_kernel()) kernel.text = ir::loop::named(lowered[g].key, lowered[g].kernel.name);
    else if (const auto* rewrite = std::get_if<ir::Rewrite>(&groups[g].computation)) kernel.call = name_of(*rewrite);
    else kernel.call = kernel.ops[0];
  }
  return out;
}

std::vector<Explanation::Call> describe_aten_calls(const ir::Graph& fused, const ir::SymbolValues& symbols) {
  std::vector<Explanation::Call> out;
  for (const ir::Node& node : fused.nodes) {
    if (ir::is_fused(node) || ir::is_view(fused, node)) continue;
    std::string why = ops::has_entry(node.op) ? "no native kernel for these types or sizes" : "no native kernel";
    if (is_empty(fused, node, symbols)) why = "no elements";
    if (node.op == "aten::cat") why = "ATen's copy is as fast";
    auto known = std::find_if(out.begin(), out.end(), [&](const Explanation::Call& call) { return call.op == node.op && call.why == why; });
    if (known == out.end()) known = out.insert(out.end(), {node.op, 0, why});
    ++known->count;
  }
  return out;
}

}  // namespace tenon::build
