// Tests what the passes assume about arithmetic, on all values of the small types and special values of the large ones.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "bridge/convert.h"
#include "passes/eager_graph.h"
#include "passes/eliminate_casts.h"
#include "passes/fold.h"

namespace tenon::test {
namespace {

using ir::Argument;
using ir::Attribute;
using ir::DType;
using ir::ValueId;

constexpr DType kRealTypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i64,
                                DType::i32, DType::i16, DType::i8,  DType::u8,   DType::boolean};

Argument dtype_argument(DType type) { return integer(static_cast<int64_t>(bridge::from_dtype(type))); }

ValueId cast(EagerGraph& g, ValueId x, DType to) {
  Attribute none = ir::None{};
  return g.apply("aten::_to_copy", {x, dtype_argument(to), none, none, none, Attribute(false), none});
}

// Returns all values of a small type, or random and special values of a large one.
at::Tensor numbers_of(DType type) {
  auto torch_type = bridge::from_dtype(type);
  switch (ir::dtype_size(type)) {
    case 1:
      return type == DType::boolean ? at::arange(5, at::kInt).remainder(2).to(at::kBool) : at::arange(256, at::kInt).to(torch_type);
    case 2:
      return at::arange(65536, at::kInt).to(at::kShort).view(torch_type);
    default:
      break;
  }
  at::Tensor bits = at::randint(std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(), {40001}, at::kLong);
  at::Tensor any = type == DType::i32 || type == DType::i64 ? bits.to(torch_type)
                                                            : bits.to(ir::dtype_size(type) == 4 ? at::kInt : at::kLong).view(torch_type);
  if (at::isFloatingType(torch_type)) any = any + 0;  // The addition makes signalling NaNs quiet.
  return at::cat({any, special_numbers(torch_type, 100)});
}

TEST(Numerics, CastsThereAndBack) {
  at::manual_seed(1);
  size_t lossless = 0;
  for (DType from : kRealTypes)
    for (DType through : kRealTypes)
      for (DType to : kRealTypes) {
        if (from == through) continue;
        bool claimed = passes::loses_nothing(from, through);
        lossless += claimed;
        at::Tensor all = numbers_of(from);
        for (const at::Tensor& x : {all, all.slice(0, 0, 3), all.slice(0, 1, all.size(0)).clone()}) {
          EagerGraph g;
          ValueId result = cast(g, cast(g, g.input(x), through), to);
          EXPECT_EQ(g.compare(passes::eliminate_casts, result), "")
              << ir::dtype_name(from) << " " << ir::dtype_name(through) << " " << ir::dtype_name(to);
          if (!claimed) EXPECT_EQ(g.changes, 0u);
        }
      }
  EXPECT_GT(lossless, 200u);
}

TEST(Numerics, NeutralOnes) {
  struct Case {
    const char* op;
    Argument other;
    bool in_floats;
  };
  auto wrapped = [](auto value) {
    return Argument(Attribute(ir::ScalarTensor{std::is_same_v<decltype(value), double> ? DType::f64 : DType::i64, value}));
  };
  std::vector<Case> cases = {{"aten::mul.Tensor", wrapped(ir::Size(1)), true},  {"aten::mul.Tensor", wrapped(1.0), true},
                             {"aten::div.Tensor", wrapped(1.0), true},          {"aten::sub.Tensor", wrapped(0.0), true},
                             {"aten::sub.Tensor", wrapped(ir::Size(0)), true},  {"aten::add.Tensor", wrapped(-0.0), true},
                             {"aten::add.Tensor", wrapped(ir::Size(0)), false}, {"aten::add.Tensor", wrapped(0.0), false},
                             {"aten::sub.Tensor", wrapped(-0.0), false},        {"aten::mul.Tensor", wrapped(2.0), false}};
  for (DType type : kRealTypes)
    for (const Case& c : cases) {
      EagerGraph g;
      ValueId x = g.apply("aten::flip", {g.input(numbers_of(type)), Attribute(std::vector<int64_t>{0})}), result;
      std::vector<Argument> args = {x, c.other};
      std::string op = c.op;
      if (op.find("add") != std::string::npos || op.find("sub") != std::string::npos) args.push_back(integer(1));
      try {
        result = g.apply("aten::flip", {g.apply(op, args), Attribute(std::vector<int64_t>{0})});
      } catch (const c10::Error&) {
        continue;  // ATen does not subtract bools.
      }
      EXPECT_EQ(g.compare(passes::fold, result), "") << op << " of " << ir::dtype_name(type);
      if (type == DType::f32 || type == DType::f64) EXPECT_EQ(g.changes, c.in_floats ? 1u : 0u) << op;
      if (type == DType::bf16 || type == DType::f16) EXPECT_EQ(g.changes, 0u) << op;
    }
}

TEST(Numerics, Constants) {
  at::manual_seed(2);
  Attribute none = ir::None{};
  size_t folded = 0;
  for (DType type : {DType::f32, DType::f64, DType::i64, DType::i32, DType::bf16, DType::boolean})
    for (const char* op : {"aten::add.Tensor", "aten::sub.Tensor", "aten::mul.Tensor", "aten::div.Tensor"})
      for (int round = 0; round < 60; ++round) {
        EagerGraph g;
        at::Tensor numbers = special_numbers(at::kDouble, 100);
        auto pick = [&](int i) -> Argument {
          double value = numbers[(round + i * 31) % 100].item<double>();
          if (type == DType::f32 || type == DType::f64 || type == DType::bf16) return real(value);
          return integer(std::isfinite(value) ? static_cast<int64_t>(std::fmod(value, 1e6)) : 77777777);
        };
        ValueId result;
        try {
          ValueId a = g.apply("aten::full", {Attribute(std::vector<int64_t>{}), pick(0), dtype_argument(type), none, none, none});
          a = g.apply("aten::expand", {a, Attribute(std::vector<int64_t>{3, 19}), Attribute(false)});
          ValueId b = g.apply("aten::full", {Attribute(std::vector<int64_t>{3, 19}), pick(1), dtype_argument(type), none, none, none});
          Argument other = round % 3 ? Argument(b) : Argument(Attribute(ir::ScalarTensor{DType::f64, numbers[round].item<double>()}));
          std::vector<Argument> args = {a, other};
          if (std::string(op).find("add") != std::string::npos || std::string(op).find("sub") != std::string::npos)
            args.push_back(integer(1));
          result = g.apply(op, args);
        } catch (const std::exception&) {
          continue;  // The type cannot represent the number.
        }
        EXPECT_EQ(g.compare(passes::fold, result), "") << op << " of " << ir::dtype_name(type) << ", round " << round;
        folded += g.graph().nodes.back().op == "aten::full";
      }
  EXPECT_GT(folded, 200u);
}

TEST(Numerics, Fills) {
  Attribute none = ir::None{};
  for (DType type : kRealTypes)
    for (const char* op : {"aten::zeros_like", "aten::ones_like"}) {
      EagerGraph g;
      ValueId x = g.input(at::ones({3, 5}, bridge::from_dtype(type)));
      ValueId result = g.apply(op, {x, none, none, none, none, none});
      EXPECT_EQ(g.compare(passes::fold, result), "") << op << " of " << ir::dtype_name(type);
      EagerGraph h;
      x = h.apply("aten::clone", {h.input(at::ones({3, 5}, bridge::from_dtype(type))), none});
      result = h.apply("aten::fill_.Scalar", {x, real(1.0)});
      EXPECT_EQ(h.compare(passes::fold, result), "");
    }
}

}  // namespace
}  // namespace tenon::test
