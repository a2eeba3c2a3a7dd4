#include "passes/eliminate_casts.h"

#include "ir/graph/node.h"
#include "passes/alias_sets.h"
#include "passes/copies.h"

namespace tenon::passes {
namespace {

using ir::DType;
using ir::ValueId;

// Number of magnitude bits of the integers that a type represents without gaps; signs are compared separately.
int whole_bits(DType type) {
  switch (type) {
    case DType::boolean:
      return 1;
    case DType::i8:
      return 7;
    case DType::u8:
    case DType::bf16:
      return 8;
    case DType::f16:
      return 11;
    case DType::i16:
      return 15;
    case DType::f32:
      return 24;
    case DType::i32:
      return 31;
    case DType::f64:
      return 53;
    case DType::i64:
      return 63;
    default:
      return 0;
  }
}

bool has_sign(DType type) { return type != DType::boolean && type != DType::u8; }

}  // namespace

bool loses_nothing(DType from, DType through) {
  if (from == DType::f32) return through == DType::f64;
  if (!is_integer(from) && from != DType::boolean) return false;
  return whole_bits(from) <= whole_bits(through) && (has_sign(through) || !has_sign(from));
}

size_t eliminate_casts(ir::Graph& graph) {
  size_t changes = 0;
  AliasSets aliases(graph);
  std::vector<const ir::Node*> producer(graph.values.size(), nullptr);
  auto dtype = [&](ValueId id) { return graph.values[id].type.dtype; };
  for (ir::Node& node : graph.nodes) {
    if (!is_copy(graph, node)) continue;
    ValueId result = only_result(node), between = operand(node, 0);
    producer[result] = &node;
    if (!producer[between]) continue;
    ValueId source = operand(*producer[between], 0);
    DType from = dtype(source), through = dtype(between), to = dtype(result);
    // A detour from f32 is only removed on the way back: ATen converts f32 and f64 differently into a third type.
    bool keeps = from == through || (loses_nothing(from, through) && (to == from || !is_floating(from)));
    // ATen uses another kernel for another layout, which gives NaNs of bf16 and f16 other bits.
    bool same_loop = same(graph.values[source].type.strides, graph.values[between].type.strides);
    if (!same_loop && is_floating(from) && (to == DType::bf16 || to == DType::f16)) keeps = false;
    // Reading a source later that is overwritten would need a copy of it.
    if (keeps && !aliases.is_written(source)) changes += spell_copy(graph, node, source);
  }
  return changes;
}

}  // namespace tenon::passes
