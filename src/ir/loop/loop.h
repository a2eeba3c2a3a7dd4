// The loop language: what one kernel computes. Pure data; print.h, parse.h and verify.h give it a
// text form and its rules, evaluate.h runs it slowly.
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
// Sizes are numbers that a kernel is given at each run: extents of loops and strides of buffers,
// in elements. So kernels of equal text serve all shapes. Registers (%0) are assigned once and are
// visible in their block and in the blocks inside it; so are the variables of loops (i0).
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "ir/graph/graph.h"

namespace tenon::ir::loop {

using Reg = int32_t;
inline constexpr Reg kNoReg = -1;

// A number that is fixed in the text, or one of the kernel's sizes.
struct Size {
  bool is_param = false;
  int64_t value = 0;  // the number, or which size

  static Size constant(int64_t number) { return {false, number}; }
  static Size param(int64_t which) { return {true, which}; }
  bool operator==(const Size&) const = default;
};

// Where a buffer is read or written: the sum of its terms, in elements.
struct Term {
  enum class Kind : uint8_t { one, loop, reg };  // times 1, a loop's variable, an i64 register
  Kind kind = Kind::loop;
  int32_t which = 0;  // loop variable or register
  Size stride = Size::constant(1);
  bool operator==(const Term&) const = default;
};
using Index = std::vector<Term>;

// A function of scalars; ops.def tells what each means.
enum class Op : uint8_t {
#define TENON_LOOP_OP(name, arity, kind) name,
#include "ir/loop/ops.def"
#undef TENON_LOOP_OP
};

// Types that are computed in: bf16 and f16 are loaded, stored and cast only.
bool is_real(DType type);  // f32, f64
bool is_half(DType type);  // bf16, f16
// A constant of this type of integers, or bool, can be this number.
bool fits(int64_t number, DType type);

enum class OpKind : uint8_t {
  arithmetic,  // operands and result of the stated type, which is not bool
  real,        // the same, f32 and f64 only
  integral,    // the same, integers and bool only
  compare,     // operands of the stated type, result bool
  select,      // first operand bool, the others and the result of the stated type
  cast,        // any operand, result of the stated type
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
  std::variant<double, int64_t> number = 0.0;  // a double, rounded to the type, for reals; an integer for the others
};

// A floating-point number that the kernel is given at each run, rounded to `type` (f32 or f64).
struct ScalarArgument {
  Reg result = kNoReg;
  DType type = DType::f32;
  int32_t which = 0;
};

// A loop's variable as an i64.
struct LoopIndex {
  Reg result = kNoReg;
  int32_t loop = 0;
};

struct Load {
  Reg result = kNoReg;
  int32_t buffer = 0;
  Index index;
  Reg mask = kNoReg;  // bool; where it is false nothing is read and the result is 0
};

struct Store {
  int32_t buffer = 0;
  Index index;
  Reg value = kNoReg;  // of the buffer's type
  Reg mask = kNoReg;   // bool; where it is false nothing is written
};

// What a loop leaves behind: `value` of all its iterations, combined in any order. Of no iterations:
// 0, 1, the type's least and greatest (of reals -inf and inf), false, true.
struct Reduction {
  enum class Kind : uint8_t { sum, prod, max, min, any, all };  // max and min: a NaN wins; any and all: of bool, the others not
  Kind kind = Kind::sum;
  DType type = DType::f32;
  Reg value = kNoReg;   // assigned in the loop's body itself
  Reg result = kNoReg;  // behind the loop
};

const char* reduction_name(Reduction::Kind kind);

struct Statement;

// A parallel loop is outermost and alone; it may have several variables (the last one runs
// fastest), whose iterations may run on any thread. The iterations of a vector loop may run side by
// side in one register; inside it there are serial loops only.
struct Loop {
  enum class Kind : uint8_t { parallel, serial, vector };
  struct Variable {
    int32_t number = 0;
    Size extent;
  };
  Kind kind = Kind::serial;
  std::vector<Variable> variables;  // one, unless parallel
  std::vector<Statement> body;
  std::vector<Reduction> reductions;  // none if parallel
};

const char* loop_name(Loop::Kind kind);

struct Statement {
  std::variant<Compute, Constant, ScalarArgument, LoopIndex, Load, Store, Loop> what;
};

struct Buffer {
  DType type = DType::f32;
  bool is_output = false;  // written; read only where the same iteration of the parallel loop wrote before
};

struct Kernel {
  std::string name = "kernel";
  std::vector<Buffer> buffers;
  int32_t sizes = 0;    // how many
  int32_t scalars = 0;  // how many
  int32_t registers = 0;
  int32_t variables = 0;  // of loops
  Loop outer;             // parallel
};

}  // namespace tenon::ir::loop
