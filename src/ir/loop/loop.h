// The loop language describes what one kernel computes. Pure data; print.h, parse.h and verify.h give
// it a text form and its rules, evaluate.h interprets it.
//
//   kernel residual_norm(in p0: f32, in p1: bf16, out p2: f32; sizes n0 n1 n2; scalars s0) {
//     parallel i0 < n0 {
//       vector i1 < n1 {
//         %0 = load p0[i0*n2 + i1]
//         %1 = load p1[i1]
//         %2 = cast f32 %1
//         %3 = add f32 %0 %2
//       } sum f32 %3 -> %4
//       ...
//     }
//   }
//
// Sizes are run-time arguments: loop extents and buffer strides, in elements. So kernels of equal
// text serve all shapes. Registers (%0) and loop variables (i0) are assigned once and are visible in
// their block and in the blocks inside it.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "ir/graph/graph.h"

namespace tenon::ir::loop {

using Reg = int32_t;
inline constexpr Reg kNoReg = -1;

// A constant of the text, or one of the kernel's sizes.
struct LoopSize {
  bool is_param = false;
  int64_t value = 0;  // The constant, or the index of the size.

  static LoopSize constant(int64_t constant) { return {false, constant}; }
  static LoopSize param(int64_t which) { return {true, which}; }
  bool operator==(const LoopSize&) const = default;
};

// One summand of the element index at which a buffer is read or written.
struct IndexTerm {
  enum class Kind : uint8_t { one, loop, reg };  // The stride times 1, a loop variable or an i64 register.
  Kind kind = Kind::loop;
  int32_t which = 0;  // Id of the loop variable or the register.
  LoopSize stride = LoopSize::constant(1);
  bool operator==(const IndexTerm&) const = default;
};
using Index = std::vector<IndexTerm>;

// A function of scalars; ops.def defines each.
enum class Op : uint8_t {
#define TENON_LOOP_OP(name, arity, kind) name,
#include "ir/loop/ops.def"
#undef TENON_LOOP_OP
};

// Predicates of element types. Arithmetic exists for reals and integers; bf16 and f16 are only loaded, stored and cast.
bool is_real(DType type);  // True for f32 and f64.
bool is_half(DType type);  // True for bf16 and f16.
// Returns whether an integer type or bool can represent this constant.
bool fits(int64_t constant, DType type);

enum class OpKind : uint8_t {
  arithmetic,  // Operands and result have the stated type, which is not bool.
  real,        // Operands and result have the stated type, f32 or f64.
  integral,    // Operands and result have the stated type, an integer type or bool.
  compare,     // Operands have the stated type, the result is bool.
  select,      // The first operand is bool; the others and the result have the stated type.
  cast,        // The operand has any type, the result has the stated type.
};

const char* op_name(Op op);
bool op_from_name(const std::string& text, Op& out);
int op_arity(Op op);
OpKind op_kind(Op op);

struct Compute {
  Reg result = kNoReg;
  Op op = Op::add;
  DType type = DType::f32;
  std::vector<Reg> operands;
};

struct Constant {
  Reg result = kNoReg;
  DType type = DType::f32;
  std::variant<double, int64_t> value = 0.0;  // A double, rounded to the type, for reals; an integer for other types.
};

// A floating-point argument of the run, rounded to `type` (f32 or f64).
struct ScalarArgument {
  Reg result = kNoReg;
  DType type = DType::f32;
  int32_t which = 0;
};

// The value of a loop variable as an i64.
struct LoopIndex {
  Reg result = kNoReg;
  int32_t loop = 0;
};

struct Load {
  Reg result = kNoReg;
  int32_t buffer = 0;
  Index index;
  Reg mask = kNoReg;  // A bool; where it is false, nothing is read and the result is 0.
};

struct Store {
  int32_t buffer = 0;
  Index index;
  Reg value = kNoReg;  // Has the buffer's type.
  Reg mask = kNoReg;   // A bool; where it is false, nothing is written.
};

// A reduction of a loop: `value` of all iterations, combined in any order. Without iterations the
// results are 0, 1, the type's minimum and maximum (-inf and inf for reals), false, true.
struct Reduction {
  enum class Kind : uint8_t {
    sum,
    prod,
    max,
    min,
    any,
    all
  };  // A NaN wins in max and min; any and all need bool, the others another type.
  Kind kind = Kind::sum;
  DType type = DType::f32;
  Reg value = kNoReg;   // Must be assigned in the loop's own body.
  Reg result = kNoReg;  // Visible after the loop.
};

const char* reduction_name(Reduction::Kind kind);

struct Statement;

// A parallel loop is the only outermost loop; it may have several variables (the last one varies
// fastest), and its iterations may run on any thread. The iterations of a vector loop may run as lanes
// of one vector; it contains only serial loops.
struct Loop {
  enum class Kind : uint8_t { parallel, serial, vector };
  struct Variable {
    int32_t id = 0;
    LoopSize extent;
  };
  Kind kind = Kind::serial;
  std::vector<Variable> variables;  // Exactly one, unless the loop is parallel.
  std::vector<Statement> body;
  std::vector<Reduction> reductions;  // Empty if the loop is parallel.
};

const char* loop_name(Loop::Kind kind);

struct Statement {
  std::variant<Compute, Constant, ScalarArgument, LoopIndex, Load, Store, Loop> what;
};

struct Buffer {
  DType type = DType::f32;
  bool is_output = false;  // An output may only be read where the same iteration of the parallel loop wrote before.
};

struct LoopKernel {
  std::string name = "kernel";
  std::vector<Buffer> buffers;
  int32_t sizes = 0;    // Number of size arguments.
  int32_t scalars = 0;  // Number of scalar arguments.
  int32_t registers = 0;
  int32_t variables = 0;  // Number of loop variables.
  Loop outer;             // The parallel loop.
};

}  // namespace tenon::ir::loop
