// A group: nodes of a graph that one kernel or library call computes. Pure data between fusion and lowering.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ir/graph/graph.h"

namespace tenon::ir {

// An operand with explicit strides along the dimensions of the group's iteration space.
struct StridedOperand {
  ValueId id = kNoValue;
  SizeList strides;
};

// A run-time condition: all elements of an index tensor are in [0, extent) or equal to `exempt`.
struct IndexRange {
  ValueId index = kNoValue;
  Size extent = 0;
  std::optional<int64_t> exempt;
};

// A matrix product [m, k] x [k, n] with an optional bias and GELU epilogue.
struct Product {
  ValueId left = kNoValue, right = kNoValue, bias = kNoValue;
  std::string gelu;  // Approximation of the GELU epilogue, "none" or "tanh"; empty if there is none.
};

// Up to this many rows a product is bound by reading its weight: prepacking does not pay, and the gemv kernel beats the library.
// bench_decode measures products of one row; the bound itself is an estimate.
inline constexpr int64_t kMaxGemvRows = 4;

// A 2-d convolution with optional batch norm, addition and ReLU. Group inputs in this order: image, weight, bias, the norm's scale,
// shift, mean and variance, the tensor that is added; absent ones are left out.
struct Convolution {
  std::vector<int64_t> stride, padding, dilation;
  int64_t groups = 1;
  bool has_bias = false, has_norm = false, has_other = false, has_relu = false;
  double epsilon = 0;                  // Epsilon of the norm if it is constant.
  int32_t epsilon_scalar = kNoScalar;  // Index of the graph's scalar that is the epsilon, if it is not constant.
};

// A kernel of the loop language, computed element by element.
struct LoopNest {
  std::vector<bool> reduced;                     // Marks the reduced dimensions; empty if the group reduces nothing.
  std::vector<ValueId> dropped;                  // Values without the reduced dimensions (keepdim=false).
  std::vector<StridedOperand> strided_operands;  // Inputs that are not aligned with the last dimensions.
  std::vector<IndexRange> index_ranges;          // The kernel may only run if these hold.
  std::vector<size_t> segment_nodes;             // Nodes that compute an operand of the group's `aten::cat`, in the operand's own sizes.
};

// Other ops that compute the same outputs faster. One more output of the graph is a validity check: if an element of it is exactly
// zero, or if these ops throw, the group's own nodes run instead.
struct Rewrite {
  std::shared_ptr<const Graph> graph;
};

struct Group {
  std::vector<size_t> nodes;  // Node indices in graph order.
  std::vector<ValueId> inputs, outputs;
  SizeList sizes;  // Sizes of the iteration space, or of the result of a library call.
  // What computes the group. The operands of a library call are the group's inputs, in their order.
  std::variant<LoopNest, Rewrite, Product, Convolution> computation;

  bool is_kernel() const { return std::holds_alternative<LoopNest>(computation); }
  LoopNest& loops() { return std::get<LoopNest>(computation); }
  const LoopNest& loops() const { return std::get<LoopNest>(computation); }
};

// Op name of a node that replaces a group; its first argument is the group's index.
inline constexpr const char* kFused = "tenon::fused";
inline bool is_fused(const Node& node) { return node.op == kFused; }
// Returns whether a node only returns a view of its operand.
bool is_view(const Graph& graph, const Node& node);
inline size_t group_of(const Node& fused) { return static_cast<size_t>(std::get<Size>(std::get<Attribute>(fused.args[0])).number()); }

// Returns a group as a separate graph whose values have new ids.
Graph subgraph(const Graph& graph, const Group& group);
// The same, with `value` as the lookup from value ids to values.
Graph subgraph(const Graph& graph, const Group& group, const std::function<const Value&(ValueId)>& value);

// Returns a constant argument as the op table spells it ("none", "2", "tanh", "100" for flags), or "" for a tensor.
std::string plain_text(const Argument& argument);

// Returns the promoted type of two tensors that both have dimensions.
DType promote(DType a, DType b);

}  // namespace tenon::ir
