// R6: every row of the op table with every element type, 25 samples each, through a kernel that is
// compared with ATen to the numeric policy.
#include <gtest/gtest.h>
#include <tenon/compile.h>
#include <tenon/control.h>
#include <tenon/inspect.h>

#include <functional>
#include <map>

#include "rows/sample.h"
#include "support/compare.h"
#include "support/quiet.h"

namespace tenon::test {
namespace {

constexpr int kSamples = 25, kTries = 40, kRecordings = 2;
constexpr at::ScalarType kTypes[] = {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf, at::kLong, at::kInt, at::kBool};

using Tensors = std::vector<at::Tensor>;

Tensors call(const c10::OperatorHandle& op, torch::jit::Stack stack, const Tensors& tensors) {
  size_t next = 0;
  for (c10::IValue& value : stack)
    if (value.isTensor() && value.toTensor().defined()) value = tensors[next++];
  op.callBoxed(&stack);
  Tensors out;
  for (const c10::IValue& value : stack)  // a batch norm with known statistics gives none back
    if (value.isTensor() && value.toTensor().numel() > 0) out.push_back(value.toTensor());
  return out;
}

Tensors tensors_of(const torch::jit::Stack& stack) {
  Tensors out;
  for (const c10::IValue& value : stack)
    if (value.isTensor() && value.toTensor().defined()) out.push_back(value.toTensor().clone(at::MemoryFormat::Preserve));
  return out;
}

struct Sample {
  std::function<Tensors(const Tensors&)> run;
  Tensors inputs;
};
using Maker = std::function<Sample(at::ScalarType, uint64_t)>;

class RowTest : public testing::Test {
 public:
  explicit RowTest(Maker make) : make_(std::move(make)) {}

  void TestBody() override {
    int types = 0;
    for (at::ScalarType type : kTypes) types += run_type(type);
    EXPECT_GT(types, 0) << "no element type made a kernel in each of " << kSamples << " samples";
  }

 private:
  // Whether every sample became a kernel; types that eager refuses, and those left to ATen, do not count.
  bool run_type(at::ScalarType type) {
    std::vector<std::any> alive;  // equal kernels are compiled once while somebody has them
    int fused = 0, samples = 0;
    for (uint64_t seed = 0; samples < kSamples && seed < kSamples + kTries; ++seed) {
      Sample sample = make_(type, seed * 1000 + static_cast<uint64_t>(type));
      Tensors expected;
      try {
        expected = sample.run(copies(sample.inputs));
      } catch (const std::exception&) {
        continue;
      }
      ++samples;
      auto fast = tenon::compile(sample.run, {.backend = "native", .trust = Trust::pure, .name = "row"});
      size_t quarantined = tenon::stats().quarantined;
      for (int call = 0; call < kRecordings; ++call) fast(copies(sample.inputs));
      Tensors got = fast(copies(sample.inputs));
      Explanation why = tenon::explain(fast);
      EXPECT_EQ(difference(expected, got, "result"), "") << "seed " << seed << ", " << type << "\n" << why;
      EXPECT_EQ(tenon::stats().quarantined, quarantined) << "seed " << seed << ", " << type << "\n" << why;
      fused += !why.graphs.empty() && !why.graphs[0].kernels.empty() && why.answered > 0;
      alive.push_back(std::move(fast));
      if (HasFailure()) return false;
    }
    return samples == kSamples && fused >= kSamples * 3 / 5;
  }

  static Tensors copies(const Tensors& tensors) {
    Tensors out;
    for (const at::Tensor& t : tensors) out.push_back(t.clone(at::MemoryFormat::Preserve));
    return out;
  }

  Maker make_;
};

Maker maker(const std::string& name, const ops::Row& row) {
  size_t dot = name.find('.');
  auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name.substr(0, dot).c_str(),
                                                           dot == std::string::npos ? "" : name.substr(dot + 1).c_str());
  return [op, &row](at::ScalarType type, uint64_t seed) {
    torch::jit::Stack stack = Sampler(op.schema(), row, type, seed).make();
    return Sample{[op, stack](const Tensors& in) { return call(op, stack, in); }, tensors_of(stack)};
  };
}

// Ops that no row says: what one element is depends on its place.
using Pieces = Tensors (*)(const Tensors&, Random&);
const std::pair<const char*, Pieces> kPieces[] = {
    {"cat",
     [](const Tensors& x, Random& r) {
       return Tensors{at::cat({x[0], x[1], x[0]}, r.below(3))};
     }},
    {"stack",
     [](const Tensors& x, Random& r) {
       return Tensors{at::stack({x[0], x[1]}, r.below(4))};
     }},
    {"repeat",
     [](const Tensors& x, Random& r) {
       return Tensors{x[0].repeat({1 + r.below(2), 1 + r.below(3), 1, 2})};
     }},
    {"pixel_shuffle",
     [](const Tensors& x, Random&) {
       return Tensors{at::pixel_shuffle(at::cat({x[0], x[1]}, 0).repeat({2, 1, 1}), 2)};
     }},
    {"slice_backward",
     [](const Tensors& x, Random& r) {
       int64_t dim = r.below(3), begin = r.below(4);
       std::vector<int64_t> whole = x[0].sizes().vec();
       whole[static_cast<size_t>(dim)] += begin + r.below(3);
       return Tensors{at::slice_backward(x[0], whole, dim, begin, begin + x[0].size(dim), 1)};
     }},
    {"select_backward",
     [](const Tensors& x, Random& r) {
       int64_t dim = r.below(4), extent = 1 + r.below(4);
       std::vector<int64_t> whole = x[0].sizes().vec();
       whole.insert(whole.begin() + dim, extent);
       return Tensors{at::select_backward(x[0], whole, dim, r.below(extent))};
     }},
    {"max_pool2d",
     [](const Tensors& x, Random& r) {
       int64_t size = 1 + r.below(3), dilation = 1 + r.below(2);
       return Tensors{at::max_pool2d(x[0], {size, 2}, {1 + r.below(3), 1}, {r.below(size / 2 + 1), 1}, {dilation, 1}, r.below(2) == 1)};
     }},
    {"avg_pool2d",
     [](const Tensors& x, Random& r) {
       std::optional<int64_t> divisor;
       if (r.below(3) == 0) divisor = 5;
       return Tensors{at::avg_pool2d(x[0], {3, 2}, {1 + r.below(3), 1}, {r.below(2), 1}, false, r.below(2) == 1, divisor)};
     }},
};

Maker maker(Pieces pieces) {
  return [pieces](at::ScalarType type, uint64_t seed) {
    Random r(seed);
    std::vector<int64_t> sizes = {1 + r.below(3), 2 + r.below(9), 2 + r.below(20)};
    Tensors inputs = {r.tensor(sizes, type), r.tensor(sizes, type)};
    return Sample{[pieces, seed](const Tensors& in) {
                    Random same(seed + 1);
                    return pieces(in, same);
                  },
                  std::move(inputs)};
  };
}

}  // namespace
}  // namespace tenon::test

int main(int argc, char** argv) {
  setenv("TENON_CHECK_KERNELS", "1", 1);
  testing::InitGoogleTest(&argc, argv);
  at::set_num_threads(1);
  tenon::test::silence_warnings();
  std::map<std::string, int> count;
  for (const auto& [op, row] : tenon::ops::all_rows()) {
    std::string name = op.substr(6) + (count[op]++ ? "_" + std::to_string(count[op]) : "");
    std::replace(name.begin(), name.end(), '.', '_');
    testing::RegisterTest("Rows", name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                          [op = op, &row = row]() -> testing::Test* { return new tenon::test::RowTest(tenon::test::maker(op, row)); });
  }
  for (const auto& [name, pieces] : tenon::test::kPieces)
    testing::RegisterTest("Pieces", name, nullptr, nullptr, __FILE__, __LINE__,
                          [pieces = pieces]() -> testing::Test* { return new tenon::test::RowTest(tenon::test::maker(pieces)); });
  return RUN_ALL_TESTS();
}
