// Random graphs of patterns that the passes transform: copies, conversions, views of views, constants,
// no-ops, equal ops, writes. All passes together must preserve outputs, inputs that are written back,
// and aliasing.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <random>

#include "bridge/convert.h"
#include "ir/graph/overlap.h"
#include "ir/graph/print.h"
#include "passes/eager_graph.h"
#include "passes/runner.h"

namespace tenon::test {
namespace {

using ir::Argument;
using ir::Attribute;
using ir::ValueId;

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {
    at::manual_seed(seed);
    for (size_t i = 0; i < 3; ++i) {
      at::Tensor t = below(4) ? at::randn({2, 3}) : at::randn({3, 4}).slice(1, 0, 3, 1 + below(2)).slice(0, 1, 3);
      values_.push_back(g.input(below(3) ? t : t.t()));
    }
    for (size_t i = 0; i < 14; ++i) step();
  }

  EagerGraph g;

  std::vector<ValueId> outputs() {
    std::vector<ValueId> out;
    for (ValueId id : values_)
      if (below(4) == 0 && !on_input(id)) out.push_back(id);
    return out;
  }

  std::vector<ir::WriteBack> write_backs() {
    std::vector<ir::WriteBack> out;
    for (const ir::Input& input : g.graph().inputs)
      for (ValueId id : values_) {
        const at::Tensor &to = g.tensor(input.value), &from = g.tensor(id);
        if (id == input.value || from.sizes() != to.sizes() || from.scalar_type() != to.scalar_type() || below(3)) continue;
        out.push_back({input.value, id});
        break;
      }
    return out;
  }

 private:
  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  // Recent values are more likely, so that chains arise.
  ValueId pick() { return values_[values_.size() - 1 - static_cast<size_t>(below(below(2) ? std::min<int64_t>(3, size()) : size()))]; }
  int64_t size() const { return static_cast<int64_t>(values_.size()); }
  Attribute list(std::vector<int64_t> items) { return items; }

  bool on_input(ValueId id) const {
    for (const ir::Input& input : g.graph().inputs)
      if (g.tensor(id).is_alias_of(g.tensor(input.value))) return true;
    return false;
  }

  void step() {
    try {
      ValueId id = make(pick());
      if (id != ir::kNoValue) values_.push_back(id);
    } catch (const c10::Error&) {
      // ATen rejected the op, so it was not added.
    }
  }

  ValueId make(ValueId x) {
    switch (below(5)) {
      case 0:
        return view(x);
      case 1:
        return copy(x);
      case 2:
        return write(x);
      case 3:
        return constant(x);
      default:
        return arithmetic(x);
    }
  }

  ValueId view(ValueId x) {
    const at::Tensor& t = g.tensor(x);
    int64_t rank = t.dim(), dim = rank ? below(rank) : 0;
    switch (below(11)) {
      case 0:
        return g.apply("aten::t", {x});
      case 1:
        return g.apply("aten::transpose.int", {x, integer(dim), integer(-1)});
      case 2:
        return g.apply("aten::permute", {x, rank == 3 ? list({2, 0, 1}) : list({1, 0})});
      case 3:
        return g.apply("aten::view", {x, below(2) ? list({-1}) : list({t.numel() / 3, 3})});
      case 4:
        return g.apply("aten::view", {x, below(2) ? list({3, t.numel() / 3}) : list({t.numel() / 3, 1, 3})});
      case 5:
        return g.apply("aten::unsqueeze", {x, integer(below(rank + 1))});
      case 6:
        return g.apply("aten::squeeze", {x});
      case 7:
        return g.apply("aten::expand", {x,
                                        rank == 3   ? list({2, t.size(1), t.size(2)})
                                        : rank == 2 ? list({2, t.size(0), t.size(1)})
                                                    : list({2, -1}),
                                        Attribute(false)});
      case 8:
        return g.apply("aten::slice.Tensor", {x, integer(dim), integer(below(2)), integer(9), integer(1)});
      case 9:
        return g.apply("aten::detach", {x});
      default:  // Gaps between elements have no contents in a graph.
        if (!t.is_non_overlapping_and_dense() || t.numel() < 2) return ir::kNoValue;
        return g.apply("aten::as_strided", {x, list({2}), list({1}), below(2) ? Attribute(t.storage_offset()) : Attribute(ir::None{})});
    }
  }

  ValueId copy(ValueId x) {
    static const at::ScalarType types[] = {at::kFloat, at::kDouble, at::kFloat, at::kBFloat16, at::kBool, at::kInt, at::kLong};
    Attribute none = ir::None{};
    if (below(2)) return g.apply("aten::clone", {x, below(3) ? none : Attribute(int64_t{0})});
    return g.apply("aten::_to_copy", {x, integer(static_cast<int64_t>(types[below(7)])), none, none, none, Attribute(false), none});
  }

  ValueId write(ValueId x) {
    const at::Tensor& t = g.tensor(x);
    if (ir::may_overlap_itself(type_of(t))) return ir::kNoValue;
    ValueId other = pick();
    bool apart = !g.tensor(other).is_alias_of(t);
    switch (below(6)) {
      case 0:
        return apart ? g.apply("aten::add_.Tensor", {x, other, integer(1)}) : ir::kNoValue;
      case 1:
        return g.apply("aten::mul_.Scalar", {x, below(2) ? integer(1) : real(0.5)});
      case 2:
        return apart ? g.apply("aten::copy_", {x, other, Attribute(false)}) : ir::kNoValue;
      case 3:
        return g.apply("aten::fill_.Scalar", {x, integer(below(3))});
      case 4:
        return apart && t.dim() == 2 ? g.apply("aten::baddbmm_", {x, other, other, integer(1), integer(1)}) : ir::kNoValue;
      default:
        return g.apply("aten::relu_", {x});
    }
  }

  ValueId constant(ValueId x) {
    Attribute none = ir::None{};
    switch (below(4)) {
      case 0:
        return g.apply("aten::zeros_like", {x, none, none, none, none, none});
      case 1:
        return g.apply("aten::ones_like", {x, none, none, none, none, none});
      case 2:
        return g.apply("aten::full", {list(g.tensor(x).sizes().vec()), real(below(2) ? 0.1 : -0.0), integer(6), none, none, none});
      default:
        return g.apply("aten::full_like", {x, integer(1), none, none, none, none, none});
    }
  }

  ValueId arithmetic(ValueId x) {
    auto other = [&]() -> Argument {
      static const double numbers[] = {0.0, -0.0, 1.0, 1.0, 2.0};
      if (below(3) == 0) return pick();
      if (below(2)) return Attribute(ir::ScalarTensor{ir::DType::f64, numbers[below(5)]});
      return Attribute(ir::ScalarTensor{ir::DType::i64, ir::Size(below(2))});
    };
    switch (below(8)) {
      case 0:
        return g.apply("aten::neg", {x});
      case 1:
        return g.apply("aten::exp", {x});
      case 2:
        return g.apply("aten::add.Tensor", {x, other(), integer(1)});
      case 3:
        return g.apply("aten::sub.Tensor", {x, other(), integer(1)});
      case 4:
        return g.apply("aten::mul.Tensor", {x, other()});
      case 5:
        return g.apply("aten::div.Tensor", {x, other()});
      case 6:
        return g.apply("aten::mul.Scalar", {x, real(1.0)});
      default:
        return g.apply("aten::sum.dim_IntList", {x, list({0}), Attribute(true), Attribute(ir::None{})});
    }
  }

  std::mt19937_64 random_;
  std::vector<ValueId> values_;
};

TEST(RandomGraphs, KeepWhatCanBeSeen) {
  size_t changed = 0, rounds = 6000;
  const char* chosen = std::getenv("TENON_SEED");
  uint64_t first = chosen ? std::strtoull(chosen, nullptr, 10) : 1;
  for (uint64_t seed = first; seed < first + rounds && !::testing::Test::HasFailure(); ++seed) {
    Generator made(seed);
    ir::Graph graph = made.g.graph();
    graph.outputs = made.outputs();
    graph.write_backs = made.write_backs();
    std::string text = ir::print(graph);
    ir::Graph after = graph;
    for (const passes::PassRun& run : passes::run_all(after)) changed += run.changed;
    EXPECT_EQ(made.g.difference(graph, after), "") << "seed " << seed << "\n" << text << ir::print(after);
    // Repeated runs may only change what earlier runs uncovered, until nothing changes.
    for (int again = 0; again < 4; ++again) passes::run_all(after);
    for (const passes::PassRun& run : passes::run_all(after))
      EXPECT_FALSE(run.changed) << run.name << ", seed " << seed << "\n" << text << ir::print(after);
  }
  EXPECT_GT(changed, rounds);
}

}  // namespace
}  // namespace tenon::test
