// R6: every row of the op table with every element type, 25 samples each, through a kernel that is
// compared with ATen to the numeric policy.
#include <gtest/gtest.h>
#include <tenon/compile.h>
#include <tenon/control.h>
#include <tenon/inspect.h>

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
  for (const c10::IValue& value : stack)
    if (value.isTensor()) out.push_back(value.toTensor());
  return out;
}

Tensors tensors_of(const torch::jit::Stack& stack) {
  Tensors out;
  for (const c10::IValue& value : stack)
    if (value.isTensor() && value.toTensor().defined()) out.push_back(value.toTensor().clone(at::MemoryFormat::Preserve));
  return out;
}

class RowTest : public testing::Test {
 public:
  RowTest(std::string op, const ops::Row& row) : op_(std::move(op)), row_(row) {}

  void TestBody() override {
    size_t dot = op_.find('.');
    auto op = c10::Dispatcher::singleton().findSchema({op_.substr(0, dot), dot == std::string::npos ? "" : op_.substr(dot + 1)});
    ASSERT_TRUE(op) << "libtorch has no " << op_;
    int types = 0;
    for (at::ScalarType type : kTypes) types += run_type(*op, type);
    EXPECT_GT(types, 0) << "no element type made a kernel in each of " << kSamples << " samples";
  }

 private:
  // Whether every sample became a kernel; types that eager refuses, and those left to ATen, do not count.
  bool run_type(const c10::OperatorHandle& op, at::ScalarType type) {
    std::vector<std::any> alive;  // equal kernels are compiled once while somebody has them
    int fused = 0, samples = 0;
    for (uint64_t seed = 0; samples < kSamples && seed < kSamples + kTries; ++seed) {
      torch::jit::Stack stack = Sampler(op.schema(), row_, type, seed * 1000 + static_cast<uint64_t>(type)).make();
      Tensors expected;
      try {
        expected = call(op, stack, tensors_of(stack));
      } catch (const std::exception&) {
        continue;
      }
      ++samples;
      auto run = [&op, stack](const Tensors& in) { return call(op, stack, in); };
      auto fast = tenon::compile(run, {.backend = "native", .trust = Trust::pure, .name = "row"});
      size_t quarantined = tenon::stats().quarantined;
      for (int call = 0; call < kRecordings; ++call) fast(tensors_of(stack));
      Tensors got = fast(tensors_of(stack));
      Explanation why = tenon::explain(fast);
      EXPECT_EQ(difference(expected, got, "result"), "") << "seed " << seed << ", " << type << "\n" << why;
      EXPECT_EQ(tenon::stats().quarantined, quarantined) << "seed " << seed << ", " << type << "\n" << why;
      fused += !why.graphs.empty() && !why.graphs[0].kernels.empty() && why.answered > 0;
      alive.push_back(std::move(fast));
      if (HasFailure()) return false;
    }
    return samples == kSamples && fused >= kSamples * 3 / 5;
  }

  std::string op_;
  const ops::Row& row_;
};

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
                          [op = op, &row = row]() -> testing::Test* { return new tenon::test::RowTest(op, row); });
  }
  return RUN_ALL_TESTS();
}
