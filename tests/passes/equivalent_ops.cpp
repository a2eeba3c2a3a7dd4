// Runs both forms of every pair of equivalent ops in the op table.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "bridge/convert.h"
#include "ops/table.h"
#include "passes/canonicalise.h"
#include "passes/copies.h"
#include "passes/eager_graph.h"

namespace tenon::test {
namespace {

using ir::Argument;
using ir::Attribute;
using ir::ValueId;

constexpr at::ScalarType kTypes[] = {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf, at::kLong, at::kInt, at::kByte, at::kBool};

at::Tensor of_shape(at::ScalarType type, at::IntArrayRef sizes) {
  return special_numbers(type, std::max<int64_t>(1, c10::multiply_integers(sizes)))
      .slice(0, 0, c10::multiply_integers(sizes))
      .view(sizes)
      .clone();
}

// Second operands for a first operand of these sizes: the same sizes, broadcast ones, another layout, one
// element.
std::vector<at::Tensor> others(at::ScalarType type, std::vector<int64_t> sizes) {
  std::vector<at::Tensor> out = {of_shape(type, sizes)};
  if (sizes.empty()) return out;
  out.push_back(of_shape(type, {sizes.back()}));
  out.push_back(of_shape(type, {}));
  if (sizes.size() < 2) return out;
  std::vector<int64_t> transposed(sizes.rbegin(), sizes.rend()), column = sizes;
  at::Tensor t = of_shape(type, transposed);
  out.push_back(t.permute({1, 0}));
  column.back() = 1;
  out.push_back(of_shape(type, column).expand(sizes));
  return out;
}

// Returns the arguments of an in-place op after its first; `round` selects tensors and scalars.
std::vector<Argument> arguments(const c10::FunctionSchema& schema, EagerGraph& g, const at::Tensor& self, size_t round) {
  std::vector<Argument> args;
  for (size_t i = 1; i < schema.arguments().size(); ++i) {
    std::string name = schema.arguments()[i].name(), type = schema.arguments()[i].type()->str();
    bool is_mask = name == "mask";
    auto list = others(is_mask ? at::kBool : self.scalar_type(), self.sizes().vec());
    if (type.find("Tensor") != std::string::npos && !is_mask && round % 7 == 6)
      args.push_back(Attribute(ir::ScalarTensor{ir::DType::f64, 0.7}));
    else if (type.find("Tensor") != std::string::npos) args.push_back(g.input(list[(round + i) % list.size()]));
    else if (type == "str") args.push_back(Attribute(std::string("none")));
    else if (name == "alpha") args.push_back(integer(1 + static_cast<int64_t>(round % 2)));
    else if (round % 2) args.push_back(integer(2));
    else args.push_back(real(0.3 * static_cast<double>(i)));
  }
  return args;
}

TEST(EquivalentOps, InPlaceAndFunctional) {
  at::manual_seed(3);
  for (const auto& [op, facts] : ops::all()) {
    if (facts.functional.empty()) continue;
    size_t fired = 0;
    auto schema = bridge::find_op(op).schema();
    for (at::ScalarType type : kTypes)
      for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{5, 37}, {64}, {}, {3, 1}, {1, 7}})
        for (size_t round = 0; round < 14; ++round) {
          EagerGraph g;
          at::Tensor self = of_shape(type, sizes);
          ValueId own = g.apply("aten::clone", {g.input(self), Attribute(ir::None{})}), result;
          std::vector<Argument> args = arguments(schema, g, self, round);
          args.insert(args.begin(), own);
          try {
            result = g.apply(op, args);
          } catch (const c10::Error&) {
            continue;  // The op does not support this element type.
          }
          EXPECT_EQ(g.compare(passes::canonicalise, result), "")
              << op << " of " << type << " " << at::IntArrayRef(sizes) << ", round " << round;
          fired += g.graph().nodes.back().op == facts.functional || g.graph().nodes.back().writes.empty();
        }
    EXPECT_GT(fired, 0u) << op;
  }
}

TEST(EquivalentOps, NumbersAndTensors) {
  for (const auto& [op, facts] : ops::all()) {
    if (facts.tensor_form.empty()) continue;
    auto schema = bridge::find_op(op).schema();
    size_t fired = 0;
    for (at::ScalarType type : kTypes)
      for (const Argument& other :
           {integer(3), integer(0), integer(int64_t{1} << 40), real(0.1), real(-0.0), real(1e300), Argument(Attribute(true))})
        for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{70}, {}}) {
          EagerGraph g;
          ValueId own = g.apply("aten::clone", {g.input(of_shape(type, sizes)), Attribute(ir::None{})}), result;
          std::vector<Argument> args = {own, other};
          if (schema.arguments().size() > 2) args.push_back(integer(2));
          try {
            result = g.apply(op, args);
          } catch (const c10::Error&) {
            continue;
          }
          EXPECT_EQ(g.compare(passes::canonicalise, result), "") << op << " of " << type;
          fired += g.changes;
        }
    EXPECT_GT(fired, 0u) << op;
  }
}

TEST(EquivalentOps, Copies) {
  size_t fired = 0;
  for (at::ScalarType from : kTypes)
    for (at::ScalarType to : kTypes)
      for (int layout = 0; layout < 6; ++layout)
        for (int format = 0; format < 3; ++format) {
          at::Tensor x = of_shape(from, {6, 8});
          if (layout == 1) x = x.t();
          if (layout == 2) x = x.slice(1, 0, 8, 2);
          if (layout == 3) x = x.select(0, 2).expand({3, 8});
          if (layout == 4) x = x.view({6, 1, 8}).transpose(0, 1);
          if (layout == 5) x = x.slice(0, 2, 5).t();
          EagerGraph g;
          Attribute none = ir::None{}, given = format ? Attribute(int64_t{format - 1}) : none;
          ValueId in = g.input(x);
          ValueId copy = g.apply("aten::_to_copy", {in, integer(static_cast<int64_t>(to)), none, none, none, Attribute(false), given});
          EXPECT_EQ(g.compare(passes::canonicalise, copy), "") << from << " to " << to << ", layout " << layout;
          fired += g.changes;
          EagerGraph h;
          in = h.input(x);
          ValueId target =
              h.apply("aten::empty.memory_format", {Attribute(x.sizes().vec()), integer(static_cast<int64_t>(to)), none, none, none, none});
          copy = h.apply("aten::copy_", {target, in, Attribute(false)});
          EXPECT_EQ(h.compare(passes::canonicalise, copy), "") << from << " to " << to << ", layout " << layout;
          fired += h.changes;
        }
  EXPECT_GT(fired, 500u);
}

TEST(EquivalentOps, NumbersOfElementTypes) {
  for (at::ScalarType type : kTypes) EXPECT_EQ(ops::scalar_type_id(bridge::to_dtype(type)), static_cast<int64_t>(type));
  for (at::ScalarType type : {at::kShort, at::kChar, at::kComplexFloat, at::kComplexDouble})
    EXPECT_EQ(ops::scalar_type_id(bridge::to_dtype(type)), static_cast<int64_t>(type));
}

}  // namespace
}  // namespace tenon::test
