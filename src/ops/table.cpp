#include "ops/table.h"

namespace tenon::ops {
namespace {

std::unordered_map<std::string, Facts> build() {
  std::unordered_map<std::string, Facts> table;
#define TENON_BREAK(op, what, instead) table[op].breaks = GraphBreak{what, instead};
#define TENON_MAY_THROW(op) table[op].may_throw = true;
#define TENON_INTEGERS_THROW(op) table[op].may_throw = table[op].integers_throw = true;
#define TENON_DRAWS_NOTHING(op) table[op].draws_nothing = true;
#define TENON_OUT(op) table[op].has_out = true;
#define TENON_READS_GRAD_MODE(op) table[op].reads_grad_mode = true;
#define TENON_UNINITIALIZED(op) table[op].uninitialized = true;
#define TENON_HIDDEN_WRITE(op, operand, flag) table[op].hidden_writes.push_back({operand, flag});
#define TENON_OVERWRITE(op, operand) table[op].overwrites = operand;
#define TENON_SPECIALIZES(op) table[op].specializes = true;
#define TENON_ZERO_SIGN_VARIES(op) table[op].zero_sign_varies = true;
#define TENON_INFINITY_VARIES(op) table[op].infinity_varies = true;
#define TENON_VIEW(op, kind) table[op].view = View::kind;
#define TENON_FILL(op, argument, constant) table[op].fill = Fill{argument, constant};
#define TENON_FUNCTIONAL(op, form) table[op].functional = form;
#define TENON_TENSOR_FORM(op, form) table[op].tensor_form = form;
#define TENON_ROUNDS_DIFFERENTLY(op) table[op].rounds_differently = true;
#include "ops/ops.def"
#undef TENON_BREAK
#undef TENON_MAY_THROW
#undef TENON_INTEGERS_THROW
#undef TENON_DRAWS_NOTHING
#undef TENON_OUT
#undef TENON_READS_GRAD_MODE
#undef TENON_UNINITIALIZED
#undef TENON_HIDDEN_WRITE
#undef TENON_OVERWRITE
#undef TENON_SPECIALIZES
#undef TENON_ZERO_SIGN_VARIES
#undef TENON_INFINITY_VARIES
#undef TENON_VIEW
#undef TENON_FILL
#undef TENON_FUNCTIONAL
#undef TENON_TENSOR_FORM
#undef TENON_ROUNDS_DIFFERENTLY
  return table;
}

}  // namespace

const std::unordered_map<std::string, Facts>& all() {
  static const std::unordered_map<std::string, Facts> table = build();
  return table;
}

const Facts* find(const std::string& op) {
  auto it = all().find(op);
  return it == all().end() ? nullptr : &it->second;
}

View view_kind(const std::string& op) {
  const Facts* facts = find(op);
  return facts ? facts->view : View::none;
}

namespace {

enum class TorchScalarType : int8_t {  // Values of c10::ScalarType; tests/passes/equivalent_ops.cpp compares them.
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

int64_t scalar_type_id(ir::DType dtype) {
  switch (dtype) {
#define TENON_DTYPE(name, text, torch_name, size) \
  case ir::DType::name:                           \
    return static_cast<int64_t>(TorchScalarType::torch_name);
#include "ir/graph/dtypes.def"
#undef TENON_DTYPE
  }
  return -1;
}

}  // namespace tenon::ops
