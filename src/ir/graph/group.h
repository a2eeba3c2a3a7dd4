// A group: nodes of a graph that become one kernel. Pure data between fusion and lowering.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph/graph.h"

namespace tenon::ir {

// Where an operand lies: its strides along the dimensions that are computed over.
struct Placed {
  ValueId id = kNoValue;
  std::vector<int64_t> strides;
};

// All elements of a tensor of indices are 0 or more and less than `extent`, or the one that is exempt.
struct Range {
  ValueId index = kNoValue;
  int64_t extent = 0;
  std::optional<int64_t> exempt;
};

// A product of matrices, [m, k] by [k, n], and the row that is added to each of its rows, if any.
struct Product {
  ValueId left = kNoValue, right = kNoValue, row = kNoValue;
  std::string gelu;  // "none" or "tanh": of all that, its GELU so approximated
};

// Of so few rows a product takes as long as its weight takes to read: there is nothing to pack for, and libraries read slower.
inline constexpr int64_t kFewRows = 4;

// A convolution of images. Inputs, in this order: image, weight, bias if any, a norm's scale, shift, mean and variance if any, what is
// added if anything.
struct Convolution {
  std::vector<int64_t> stride, padding, dilation;
  int64_t groups = 1;
  bool has_bias = false, has_norm = false, has_other = false, has_relu = false;
  double epsilon = 0;                  // of the norm,
  int32_t epsilon_scalar = kNoScalar;  // or which scalar it is
};

struct Group {
  std::vector<size_t> nodes;  // in the graph's order
  std::vector<ValueId> inputs, outputs;
  std::vector<int64_t> sizes;    // over which it computes
  std::vector<bool> reduced;     // which of them its reductions go over; empty: it has none
  std::vector<ValueId> dropped;  // values that lack the reduced dimensions, instead of having them with size 1
  std::vector<Placed> placed;    // inputs that do not simply lie at the last dimensions
  std::vector<Range> ranges;     // without which it must not run
  std::vector<size_t> parts;     // nodes that compute what an `aten::cat` of the group takes in, over its sizes
  // Not a kernel: other ops that compute the outputs, and maybe behind them what tells whether they can:
  // where that is exactly zero the nodes themselves must run. So they must where the others throw.
  std::shared_ptr<const Graph> call;
  // Nor this: left to a library. The inputs are its operands in their order.
  std::optional<Product> product;
  std::optional<Convolution> convolution;
};

// A node that stands for a group: its first argument is the group's number.
inline constexpr const char* kFused = "tenon::fused";
inline bool is_fused(const Node& node) { return node.op == kFused; }
// Does nothing but give another view of what it is given.
bool is_view(const Graph& graph, const Node& node);
inline size_t group_of(const Node& fused) { return static_cast<size_t>(std::get<int64_t>(std::get<Attribute>(fused.args[0]))); }

// A group as a graph of its own, with its values numbered anew.
Graph subgraph(const Graph& graph, const Group& group);
// The same where `value` says what a number stands for.
Graph subgraph(const Graph& graph, const Group& group, const std::function<const Value&(ValueId)>& value);

// A constant argument as the op table names it: "none", "2", "tanh", "100" (flags); nothing for tensors.
std::string plain_text(const Argument& argument);

// The type that arithmetic on two types gives, where both are tensors of some size.
DType promote(DType a, DType b);

}  // namespace tenon::ir
