// A graph that is built op by op, each op run by ATen as it is added: so types are what ATen gives, and
// what a pass makes of the graph can be compared with the op-by-op result, bit for bit.
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "ir/graph/graph.h"

namespace tenon::test {

ir::TensorType type_of(const at::Tensor& tensor);

class EagerGraph {
 public:
  ir::ValueId input(const at::Tensor& tensor);

  // An op with one result. One whose name ends in '_' overwrites its first operand: on a copy.
  ir::ValueId apply(const std::string& op, std::vector<ir::Argument> args);

  // Runs the pass with `output` as the only output, then the graph. What is different, in words: bits,
  // element type, sizes or strides. `changes` says what the pass returned.
  std::string compare(size_t (*pass)(ir::Graph&), ir::ValueId output);
  size_t changes = 0;

  // Runs both, the first one without reuse of memory: what differs in outputs, inputs afterwards, and in
  // what shares memory with what.
  std::string difference(const ir::Graph& before, const ir::Graph& after) const;

  const at::Tensor& tensor(ir::ValueId id) const { return tensors_[id]; }
  const ir::Graph& graph() const { return graph_; }  // after compare: as the pass left it

 private:
  c10::IValue to_ivalue(const ir::Argument& arg, const c10::Type& type) const;

  ir::Graph graph_;
  std::vector<at::Tensor> tensors_, inputs_;  // per value; per input
};

// Numbers with everything special in them: both zeros, infinities, NaNs, the largest and the smallest.
at::Tensor special_numbers(at::ScalarType type, int64_t count);

inline ir::Argument number(double value) { return ir::Attribute(value); }
inline ir::Argument whole(int64_t value) { return ir::Attribute(value); }

}  // namespace tenon::test
