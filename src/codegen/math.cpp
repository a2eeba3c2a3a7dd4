#include "codegen/math.h"

#include "codegen/math_calls.h"
#include "codegen/math_f32.h"
#include "codegen/math_wide.h"

namespace tenon::codegen {
namespace {

using namespace ir::loop;
using ir::DType;

enum class Way { f32, wide, call };

struct Row {
  Op op;
  Way way;   // in f32; f64 is always a call
  int cost;  // instructions, about
};

constexpr Row kRows[] = {
    {Op::exp, Way::f32, 16},    {Op::exp2, Way::f32, 16},   {Op::log, Way::f32, 30},     {Op::tanh, Way::f32, 30},
    {Op::erf, Way::f32, 36},    {Op::expm1, Way::wide, 50}, {Op::log2, Way::wide, 60},   {Op::log10, Way::wide, 60},
    {Op::log1p, Way::wide, 80}, {Op::sin, Way::wide, 70},   {Op::cos, Way::wide, 70},    {Op::tan, Way::wide, 80},
    {Op::asin, Way::wide, 60},  {Op::acos, Way::wide, 60},  {Op::atan, Way::wide, 60},   {Op::atan2, Way::wide, 80},
    {Op::sinh, Way::wide, 60},  {Op::cosh, Way::wide, 60},  {Op::asinh, Way::wide, 100}, {Op::acosh, Way::wide, 100},
    {Op::atanh, Way::wide, 90}, {Op::pow, Way::wide, 140},  {Op::erfc, Way::call, 0},    {Op::lgamma, Way::call, 0},
    {Op::fmod, Way::call, 0},
};

const Row* row_of(Op op) {
  for (const Row& row : kRows)
    if (row.op == op) return &row;
  return nullptr;
}

Value* f32_math(Builder& b, Op op, Value* x) {
  switch (op) {
    case Op::exp:
      return exp_f32(b, x);
    case Op::exp2:
      return exp2_f32(b, x);
    case Op::log:
      return log_f32(b, x);
    case Op::tanh:
      return tanh_f32(b, x);
    default:
      return erf_f32(b, x);
  }
}

}  // namespace

bool is_math(Op op) { return row_of(op) != nullptr; }

bool is_called(Op op, DType type) {
  const Row* row = row_of(op);
  return row && (row->way == Way::call || type == DType::f64);
}

int math_cost(Op op, DType type) { return is_math(op) ? row_of(op)->cost : 0; }

Value* math(Builder& b, Op op, DType type, llvm::ArrayRef<Value*> operands) {
  if (is_called(op, type)) return call_outside(b, op, type, operands);
  return row_of(op)->way == Way::f32 ? f32_math(b, op, operands[0]) : wide_math(b, op, operands);
}

}  // namespace tenon::codegen
