#include "ir/loop/loop.h"

#include <limits>

namespace tenon::ir::loop {

const char* op_name(Op op) {
  switch (op) {
#define TENON_LOOP_OP(name, arity, kind) \
  case Op::name:                         \
    return #name;
#include "ir/loop/ops.def"
#undef TENON_LOOP_OP
  }
  return "?";
}

bool op_from_name(const std::string& text, Op& out) {
#define TENON_LOOP_OP(name, arity, kind) \
  if (text == #name) {                   \
    out = Op::name;                      \
    return true;                         \
  }
#include "ir/loop/ops.def"
#undef TENON_LOOP_OP
  return false;
}

int op_arity(Op op) {
  switch (op) {
#define TENON_LOOP_OP(name, arity, kind) \
  case Op::name:                         \
    return arity;
#include "ir/loop/ops.def"
#undef TENON_LOOP_OP
  }
  return 0;
}

OpKind op_kind(Op op) {
  switch (op) {
#define TENON_LOOP_OP(name, arity, kind) \
  case Op::name:                         \
    return OpKind::kind;
#include "ir/loop/ops.def"
#undef TENON_LOOP_OP
  }
  return OpKind::arithmetic;
}

bool is_real(DType type) { return type == DType::f32 || type == DType::f64; }

bool is_half(DType type) { return type == DType::bf16 || type == DType::f16; }

const char* reduction_name(Reduction::Kind kind) {
  switch (kind) {
    case Reduction::Kind::sum:
      return "sum";
    case Reduction::Kind::prod:
      return "prod";
    case Reduction::Kind::max:
      return "max";
    case Reduction::Kind::min:
      return "min";
    case Reduction::Kind::any:
      return "any";
    case Reduction::Kind::all:
      return "all";
  }
  return "?";
}

const char* loop_name(Loop::Kind kind) {
  switch (kind) {
    case Loop::Kind::parallel:
      return "parallel";
    case Loop::Kind::serial:
      return "serial";
    case Loop::Kind::vector:
      return "vector";
  }
  return "?";
}

bool fits(int64_t constant, DType type) {
  if (type == DType::boolean) return constant == 0 || constant == 1;
  if (type == DType::u8) return constant >= 0 && constant <= UINT8_MAX;
  int64_t bits = 8 * dtype_size(type);
  int64_t most = std::numeric_limits<int64_t>::max() >> (64 - bits);
  return constant >= -most - 1 && constant <= most;
}

}  // namespace tenon::ir::loop
