#include "passes/copies.h"

#include "ir/graph/node.h"
#include "passes/layout.h"

namespace tenon::passes {
namespace {

enum class Number : int8_t {  // c10::ScalarType; tests/passes/twins.cpp compares
  Byte,
  Char,
  Short,
  Int,
  Long,
  Half,
  Float,
  Double,
  ComplexFloat = 9,
  ComplexDouble,
  Bool,
  BFloat16 = 15,
};

}  // namespace

int64_t dtype_number(ir::DType dtype) {
  switch (dtype) {
#define TENON_DTYPE(name, text, torch_name, size) \
  case ir::DType::name:                           \
    return static_cast<int64_t>(Number::torch_name);
#include "ir/graph/dtypes.def"
#undef TENON_DTYPE
  }
  return -1;
}

bool is_copy(const ir::Graph& graph, const ir::Node& node) {
  if (node.op != "aten::clone" && node.op != "aten::_to_copy") return false;
  return makes_one(graph, node) && operand(node, 0) != ir::kNoValue;
}

bool spell_copy(const ir::Graph& graph, ir::Node& node, ir::ValueId source) {
  const ir::TensorType &from = graph.values[source].type, &to = graph.values[only_result(node)].type;
  if (from.sizes != to.sizes || to.offset != 0 || numel(to) == 0 || is_complex(from.dtype) != is_complex(to.dtype)) return false;
  ir::Attribute format = ir::None{};  // keeps the layout
  if (!is_dense(from) || from.strides != to.strides) {
    if (!is_plain(to)) return false;
    format = int64_t{0};  // in order
  }
  if (from.dtype == to.dtype) {
    node.op = "aten::clone";
    node.args = {source, format};
  } else {
    ir::Attribute none = ir::None{};
    node.op = "aten::_to_copy";
    node.args = {source, ir::Attribute(dtype_number(to.dtype)), none, none, none, ir::Attribute(false), format};
  }
  return true;
}

}  // namespace tenon::passes
