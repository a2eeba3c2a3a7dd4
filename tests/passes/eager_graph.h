// A graph that is built op by op while ATen runs each op. So types are those of ATen, and the result of a
// transformed graph can be compared with the op-by-op result, bit for bit.
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "ir/graph/graph.h"

namespace tenon::test {

ir::FixedType type_of(const at::Tensor& tensor);

class EagerGraph {
 public:
  ir::ValueId input(const at::Tensor& tensor);

  // Adds an op with one result. An op whose name ends in '_' overwrites a copy of its first operand.
  ir::ValueId apply(const std::string& op, std::vector<ir::Argument> args);

  // Runs the pass with `output` as the only output, then the graph. Returns a description of the difference
  // in bits, element type, sizes or strides, or "". `changes` is the result of the pass.
  std::string compare(size_t (*pass)(ir::Graph&), ir::ValueId output);
  size_t changes = 0;

  // Runs both graphs, the first one without buffer reuse. Returns a description of the difference in
  // outputs, final contents of inputs, and aliasing, or "".
  std::string difference(const ir::Graph& before, const ir::Graph& after) const;

  const at::Tensor& tensor(ir::ValueId id) const { return tensors_[id]; }
  const ir::Graph& graph() const { return graph_; }  // The transformed graph after compare().

 private:
  c10::IValue to_ivalue(const ir::Argument& arg, const c10::Type& type) const;

  ir::Graph graph_;
  std::vector<at::Tensor> tensors_, inputs_;  // Per value and per input.
};

// Random numbers that include special values: both zeros, infinities, NaNs, the largest and the smallest.
at::Tensor special_numbers(at::ScalarType type, int64_t count);

inline ir::Argument real(double value) { return ir::Attribute(value); }
inline ir::Argument integer(int64_t value) { return ir::Attribute(value); }

}  // namespace tenon::test
