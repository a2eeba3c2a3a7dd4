// Random kernels are valid, survive printing and parsing, stay inside their buffers, and cover all constructs.
#include <gtest/gtest.h>

#include <set>

#include "ir/loop/evaluate.h"
#include "ir/loop/parse.h"
#include "ir/loop/print.h"
#include "ir/loop/verify.h"
#include "support/random_kernel.h"

namespace tenon::test {

using namespace ir::loop;
using ir::DType;

// Buffers end at a guard page, so that an index out of range crashes the program.
TEST(RandomKernels, AreValid) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    std::mt19937_64 random(seed);
    RandomKernel r = random_kernel(random);
    ASSERT_NO_THROW(verify(r.kernel)) << seed;
    std::string text = print(r.kernel);
    LoopKernel again = parse_kernel(text);
    ASSERT_EQ(print(again), text) << seed;
    ASSERT_EQ(key(again), key(r.kernel)) << seed;
    ASSERT_NO_THROW(verify(again)) << seed;
    for (int run = 0; run < 2; ++run) {
      KernelMemory memory = random_memory(r, random), other = memory;
      evaluate(r.kernel, memory.arguments());
      evaluate(again, other.arguments());
      ASSERT_EQ(difference(r.kernel, other, memory), "") << seed;
    }
  }
}

// Collects descriptions of the constructs that occur in kernels.
class ConstructCoverage {
 public:
  void add(const RandomKernel& r) {
    for (const Buffer& b : r.kernel.buffers) seen_.insert(std::string(b.is_output ? "out " : "in ") + dtype_name(b.type));
    seen_.insert(std::to_string(r.kernel.outer.variables.size()) + " variables");
    seen_.insert(r.is_exact ? "exact" : "near");
    (*this)(r.kernel.outer);
  }

  void add(const KernelMemory& memory) {
    for (int64_t size : memory.sizes) seen_.insert("size " + std::to_string(size));
  }

  void operator()(const Compute& s) { seen_.insert(std::string(op_name(s.op)) + " " + dtype_name(s.type)); }
  void operator()(const Constant& s) { seen_.insert(std::string("constant ") + dtype_name(s.type)); }
  void operator()(const ScalarArgument& s) { seen_.insert(std::string("scalar ") + dtype_name(s.type)); }
  void operator()(const LoopIndex&) { seen_.insert("index"); }
  void operator()(const Load& s) { access("load", s.index, s.mask); }
  void operator()(const Store& s) { access("store", s.index, s.mask); }
  void operator()(const Loop& loop) {
    around_ += std::string(around_.empty() ? "" : ">") + loop_name(loop.kind);
    seen_.insert(around_);
    for (const Statement& statement : loop.body) std::visit(*this, statement.what);
    for (const Reduction& r : loop.reductions)
      seen_.insert(std::string(loop_name(loop.kind)) + " " + reduction_name(r.kind) + " " + dtype_name(r.type));
    around_.erase(around_.rfind('>') == std::string::npos ? 0 : around_.rfind('>'));
  }

  bool has(const std::string& what) const { return seen_.count(what) > 0; }

 private:
  void access(const std::string& what, const Index& index, Reg mask) {
    if (mask != kNoReg) seen_.insert("masked " + what);
    if (index.empty()) seen_.insert(what + " at 0");
    for (const IndexTerm& term : index) {
      if (term.kind == IndexTerm::Kind::reg) seen_.insert(what + " by register");
      if (term.kind == IndexTerm::Kind::one) seen_.insert(what + " with offset");
      if (term.stride == LoopSize::constant(-1)) seen_.insert(what + " backwards");
      if (term.stride.is_param) seen_.insert(what + " with stride");
    }
  }

  std::set<std::string> seen_;
  std::string around_;
};

TEST(RandomKernels, CoverAllConstructs) {
  ConstructCoverage survey;
  std::mt19937_64 random(1);
  for (int i = 0; i < 1500; ++i) {
    RandomKernel r = random_kernel(random);
    survey.add(r);
    if (i % 20 == 0) survey.add(random_memory(r, random));
  }
  std::vector<std::string> expected = {"1 variables",
                                       "2 variables",
                                       "3 variables",
                                       "exact",
                                       "near",
                                       "size 0",
                                       "size 1",
                                       "size 17",
                                       "size 31",
                                       "index",
                                       "scalar f32",
                                       "scalar f64",
                                       "masked load",
                                       "masked store",
                                       "load at 0",
                                       "load by register",
                                       "load with offset",
                                       "load backwards",
                                       "load with stride",
                                       "store with stride",
                                       "parallel>vector",
                                       "parallel>serial",
                                       "parallel>vector>serial",
                                       "parallel>serial>vector",
                                       "parallel>serial>serial"};
  for (const char* type : {"f32", "f64", "bf16", "f16", "i64", "i32", "i16", "i8", "u8", "bool"})
    for (const char* what : {"in ", "out ", "cast "}) expected.push_back(std::string(what) + type);
  for (const char* type : {"f32", "f64", "i64", "i32", "i16", "i8", "u8"})
    for (const char* what : {"vector sum ", "vector prod ", "vector max ", "vector min ", "serial sum "})
      expected.push_back(std::string(what) + type);
  for (const char* what : {"vector any bool", "vector all bool", "serial any bool"}) expected.push_back(what);
#define TENON_LOOP_OP(name, arity, kind)                                                       \
  for (const char* type : {"f32", "f64"})                                                      \
    if (OpKind::kind != OpKind::integral) expected.push_back(std::string(#name) + " " + type); \
  for (const char* type : {"i64", "i32", "i16", "i8", "u8"})                                   \
    if (OpKind::kind != OpKind::real) expected.push_back(std::string(#name) + " " + type);     \
  if (OpKind::kind != OpKind::real && OpKind::kind != OpKind::arithmetic) expected.push_back(std::string(#name) + " bool");
#include "ir/loop/ops.def"
#undef TENON_LOOP_OP
  for (const std::string& what : expected) EXPECT_TRUE(survey.has(what)) << what;
}

}  // namespace tenon::test
