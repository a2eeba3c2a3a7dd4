#include "codegen/math.h"

#include "codegen/math_calls.h"
#include "codegen/math_f32.h"
#include "codegen/math_wide.h"

namespace tenon::codegen {
namespace {

using namespace ir::loop;
using ir::DType;

enum class Strategy { f32, wide, call };

struct MathEntry {
  Op op;
  Strategy strategy;  // Strategy for f32; f64 always calls a library.
  int cost;           // Approximate number of instructions.
};

constexpr MathEntry kMathTable[] = {
    {Op::exp, Strategy::f32, 16},    {Op::exp2, Strategy::f32, 16},   {Op::log, Strategy::f32, 30},     {Op::tanh, Strategy::f32, 30},
    {Op::erf, Strategy::f32, 36},    {Op::expm1, Strategy::wide, 50}, {Op::log2, Strategy::wide, 60},   {Op::log10, Strategy::wide, 60},
    {Op::log1p, Strategy::wide, 80}, {Op::sin, Strategy::wide, 70},   {Op::cos, Strategy::wide, 70},    {Op::tan, Strategy::wide, 80},
    {Op::asin, Strategy::wide, 60},  {Op::acos, Strategy::wide, 60},  {Op::atan, Strategy::wide, 60},   {Op::atan2, Strategy::wide, 80},
    {Op::sinh, Strategy::wide, 60},  {Op::cosh, Strategy::wide, 60},  {Op::asinh, Strategy::wide, 100}, {Op::acosh, Strategy::wide, 100},
    {Op::atanh, Strategy::wide, 90}, {Op::pow, Strategy::wide, 140},  {Op::erfc, Strategy::call, 0},    {Op::lgamma, Strategy::call, 0},
    {Op::fmod, Strategy::call, 0},
};

const MathEntry* entry_of(Op op) {
  for (const MathEntry& entry : kMathTable)
    if (entry.op == op) return &entry;
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

bool is_math(Op op) { return entry_of(op) != nullptr; }

bool is_called(Op op, DType type) {
  const MathEntry* entry = entry_of(op);
  return entry && (entry->strategy == Strategy::call || type == DType::f64);
}

int math_cost(Op op, DType type) { return is_math(op) ? entry_of(op)->cost : 0; }

Value* math(Builder& b, Op op, DType type, llvm::ArrayRef<Value*> operands) {
  if (is_called(op, type)) return call_library(b, op, type, operands);
  return entry_of(op)->strategy == Strategy::f32 ? f32_math(b, op, operands[0]) : wide_math(b, op, operands);
}

}  // namespace tenon::codegen
