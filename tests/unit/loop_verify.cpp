// One short kernel for each rule of the loop language.
#include <gtest/gtest.h>

#include "base/error.h"
#include "ir/loop/parse.h"
#include "ir/loop/verify.h"

namespace tenon::ir::loop {

// What verify says about it; "" if nothing.
std::string complaint(const LoopKernel& kernel) {
  try {
    verify(kernel);
  } catch (const InternalError& error) {
    return error.what();
  }
  return "";
}

// Inputs p0: f32, p1: bf16, p2: bool; outputs p3: f32, p4: bf16.
LoopKernel with_body(const std::string& body) {
  return parse_kernel(
      "kernel k(in p0: f32, in p1: bf16, in p2: bool, out p3: f32, out p4: bf16; sizes n0; scalars s0) {\nparallel i0 < n0 {\n" + body +
      "}\n}\n");
}

struct Case {
  const char* name;
  const char* body;
  const char* complaint;
};

class LoopRules : public testing::TestWithParam<Case> {};

TEST_P(LoopRules, IsKept) {
  std::string said = complaint(with_body(GetParam().body));
  if (!*GetParam().complaint) EXPECT_EQ(said, "");
  else EXPECT_NE(said.find(GetParam().complaint), std::string::npos) << said;
}

const Case kCases[] = {
    {"AllWell", "%0 = load p0[i0] %1 = load p1[0] %2 = cast f32 %1 %3 = lt f32 %0 %2 store p3[i0] %0 if %3 store p4[i0] %1", ""},
    {"Block", "serial i1 < 4 { %0 = load p0[i1] } store p3[i0] %0", "a register used outside its block"},
    {"BlockOfReduction", "serial i1 < 4 { %0 = load p0[i1] } sum f32 %0 -> %1 store p3[i0] %1", ""},
    {"SiblingBlock", "serial i1 < 4 { %0 = load p0[i1] } serial i2 < 4 { store p3[i2] %0 }", "a register used outside its block"},
    {"Half", "%0 = load p1[i0] %1 = neg bf16 %0", "neg of type bf16"},
    {"HalfCompared", "%0 = load p1[i0] %1 = eq bf16 %0 %0", "eq of type bf16"},
    {"HalfSelected", "%0 = load p1[i0] %1 = load p2[i0] %2 = select bf16 %1 %0 %0", "select of type bf16"},
    {"HalfReduced", "serial i1 < 4 { %0 = load p1[i1] } max bf16 %0 -> %1", "max of type bf16"},
    {"HalfConstant", "%0 = constant bf16 1.0", "a constant of type bf16"},
    {"HalfScalar", "%0 = scalar f16 s0", "a scalar of type f16"},
    {"HalfCast", "%0 = load p0[i0] %1 = cast bf16 %0 store p4[i0] %1", ""},
    {"Complex", "%0 = load p0[i0] %1 = cast c64 %0", "cast of type c64"},
    {"BoolArithmetic", "%0 = load p2[i0] %1 = add bool %0 %0", "add of type bool"},
    {"BoolBits", "%0 = load p2[i0] %1 = bit_not bool %0", ""},
    {"RealOfInteger", "%0 = index i0 %1 = sqrt i64 %0", "sqrt of type i64"},
    {"BitsOfReal", "%0 = load p0[i0] %1 = bit_not f32 %0", "bit_not of type f32"},
    {"OperandType", "%0 = load p0[i0] %1 = neg f64 %0", "an operand of type f32 instead of f64"},
    {"CompareGivesBool", "%0 = load p0[i0] %1 = eq f32 %0 %0 store p3[i0] %1", "a store of another type"},
    {"SelectByBool", "%0 = load p0[i0] %1 = select f32 %0 %0 %0", "an operand of type f32 instead of bool"},
    {"SumOfBool", "serial i1 < 4 { %0 = load p2[i1] } sum bool %0 -> %1", "sum of type bool"},
    {"AnyOfReal", "serial i1 < 4 { %0 = load p0[i1] } any f32 %0 -> %1", "any of type f32"},
    {"ReductionType", "serial i1 < 4 { %0 = load p0[i1] } sum f64 %0 -> %1", "a reduction of a value of another type"},
    {"ReductionFromOutside", "%0 = load p0[i0] serial i1 < 4 { } sum f32 %0 -> %1", "from outside the loop's body"},
    {"ReductionFromInside", "serial i1 < 4 { serial i2 < 4 { %0 = load p0[i2] } } sum f32 %0 -> %1", "outside its block"},
    {"ReductionOfReduction", "serial i1 < 4 { serial i2 < 4 { %0 = load p0[i2] } sum f32 %0 -> %1 } sum f32 %1 -> %2", ""},
    {"ConstantFits", "%0 = constant i8 -128 %1 = constant u8 255 %2 = constant bool 1", ""},
    {"SmallConstant", "%0 = constant i8 -129", "does not fit"},
    {"UnsignedConstant", "%0 = constant u8 -1", "does not fit"},
    {"BoolConstant", "%0 = constant bool 2", "does not fit"},
    {"Scalar", "%0 = scalar f32 s1", "a scalar that the kernel does not have"},
    {"ScalarType", "%0 = scalar i64 s0", "a scalar of type i64"},
    {"Buffer", "%0 = load p5[i0]", "a buffer that the kernel does not have"},
    {"Stride", "%0 = load p0[i0*n1]", "a size that the kernel does not have"},
    {"Extent", "serial i1 < n7 { }", "a size that the kernel does not have"},
    {"NegativeExtent", "serial i1 < -1 { }", "a negative extent"},
    {"IndexType", "%0 = load p0[i0] %1 = load p0[%0]", "an index that is not i64"},
    {"Variable", "serial i1 < 4 { } %0 = index i1", "a variable used outside its loop"},
    {"VariableInIndex", "serial i1 < 4 { } %0 = load p0[i1]", "a variable used outside its loop"},
    {"OutputLoaded", "%0 = load p3[i0]", "a load from an output that was not written before"},
    {"InputStored", "%0 = load p0[i0] store p0[i0] %0", "a store to an input"},
    {"StoreType", "%0 = load p0[i0] store p4[i0] %0", "a store of another type"},
    {"LoadMask", "%0 = load p0[i0] %1 = load p0[i0] if %0", "a mask that is not bool"},
    {"StoreMask", "%0 = load p0[i0] store p3[i0] %0 if %0", "a mask that is not bool"},
    {"ParallelInside", "parallel i1 < 4 { }", "a parallel loop inside another loop"},
    {"VectorInVector", "vector i1 < 4 { serial i2 < 4 { vector i3 < 4 { } } }", "a vector loop inside a vector loop"},
    {"SerialInVector", "vector i1 < 4 { serial i2 < 4 { } } vector i3 < 4 { }", ""},
    {"VectorInSerial", "serial i1 < 4 { serial i2 < 4 { vector i3 < 4 { } } }", ""},
    {"TwoVariables", "serial i1 < 4, i2 < 4 { }", "too many or too few variables"},
};

INSTANTIATE_TEST_SUITE_P(Rules, LoopRules, testing::ValuesIn(kCases), [](const auto& info) { return std::string(info.param.name); });

TEST(LoopVerify, OuterLoop) {
  EXPECT_NE(complaint(parse_kernel("kernel k() { serial i0 < 4 { } }")).find("not parallel"), std::string::npos);
  EXPECT_NE(
      complaint(parse_kernel("kernel k() { parallel i0 < 4 { %0 = index i0 } sum i64 %0 -> %1 }")).find("a reduction of a parallel loop"),
      std::string::npos);
  LoopKernel no_variables = with_body("");
  no_variables.outer.variables.clear();
  EXPECT_NE(complaint(no_variables).find("too few variables"), std::string::npos);
}

TEST(LoopVerify, BufferType) {
  EXPECT_NE(complaint(parse_kernel("kernel k(in p0: c64) { parallel i0 < 4 { } }")).find("a buffer of a type"), std::string::npos);
}

// What the parser would not let through.
TEST(LoopVerify, Data) {
  LoopKernel twice = with_body("%0 = index i0 %1 = index i0");
  std::get<LoopIndex>(twice.outer.body[1].what).result = 0;
  EXPECT_NE(complaint(twice).find("a register assigned twice"), std::string::npos);

  LoopKernel early = with_body("%0 = load p0[i0] %1 = neg f32 %0");
  std::swap(early.outer.body[0], early.outer.body[1]);
  EXPECT_NE(complaint(early).find("a register used before it is assigned"), std::string::npos);

  LoopKernel out_of_range = with_body("%0 = index i0");
  out_of_range.registers = 0;
  EXPECT_NE(complaint(out_of_range).find("a register out of range"), std::string::npos);

  LoopKernel no_value = with_body("%0 = load p0[i0] store p3[i0] %0");
  std::get<Store>(no_value.outer.body[1].what).value = kNoReg;
  EXPECT_NE(complaint(no_value).find("a register out of range"), std::string::npos);

  LoopKernel same_variable = with_body("serial i1 < 4 { } serial i2 < 4 { }");
  std::get<Loop>(same_variable.outer.body[1].what).variables[0].id = 1;
  EXPECT_NE(complaint(same_variable).find("a variable of two loops"), std::string::npos);

  LoopKernel operands = with_body("%0 = load p0[i0] %1 = neg f32 %0");
  std::get<Compute>(operands.outer.body[1].what).operands = {0, 0};
  EXPECT_NE(complaint(operands).find("another number of operands"), std::string::npos);

  LoopKernel number = with_body("%0 = constant i64 1");
  std::get<Constant>(number.outer.body[0].what).value = 1.0;
  EXPECT_NE(complaint(number).find("not a number of its type"), std::string::npos);

  LoopKernel name = with_body("");
  name.name = "a b";
  EXPECT_NE(complaint(name).find("a proper name"), std::string::npos);
}

TEST(LoopVerify, SaysWhere) {
  std::string said = complaint(with_body("%0 = load p0[i0] serial i1 < 4 { %1 = neg f64 %0 }"));
  EXPECT_NE(said.find("kernel k, line 5 of its text"), std::string::npos) << said;
}

}  // namespace tenon::ir::loop
