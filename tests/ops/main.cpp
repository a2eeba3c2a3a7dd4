// Every entry of the op table with every element type, 25 samples each, in a kernel that is compared
// with ATen by the numeric policy.
#include <gtest/gtest.h>
#include <tenon/compile.h>
#include <tenon/control.h>
#include <tenon/inspect.h>

#include <functional>
#include <map>

#include "ops/sample.h"
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
  for (const c10::IValue& value : stack)  // A batch norm with known statistics returns empty ones.
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

class EntryTest : public testing::Test {
 public:
  explicit EntryTest(Maker make) : make_(std::move(make)) {}

  void TestBody() override {
    int types = 0;
    for (at::ScalarType type : kTypes) types += run_type(type);
    EXPECT_GT(types, 0) << "no element type made a kernel in each of " << kSamples << " samples";
  }

 private:
  // Returns whether most samples became kernels; types that eager rejects or that run in ATen do not count.
  bool run_type(at::ScalarType type) {
    std::vector<std::any> alive;  // Equal kernels are compiled only once while one of them is alive.
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

Maker maker(const std::string& name, const ops::OpEntry& entry) {
  size_t dot = name.find('.');
  auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name.substr(0, dot).c_str(),
                                                           dot == std::string::npos ? "" : name.substr(dot + 1).c_str());
  return [op, &entry](at::ScalarType type, uint64_t seed) {
    torch::jit::Stack stack = Sampler(op.schema(), entry, type, seed).make();
    return Sample{[op, stack](const Tensors& in) { return call(op, stack, in); }, tensors_of(stack)};
  };
}

// Returns the same elements through an op that is no copy.
at::Tensor kept(const at::Tensor& x) { return at::where(x.eq(x), x, x); }

// Returns a random size for resizing.
int64_t resized(Random& r, int64_t size) { return r.below(2) ? 2 * size : 1 + r.below(size + 9); }

// Ops without an entry: the value of an element depends on its position.
using PositionalOp = Tensors (*)(const Tensors&, Random&);
const std::pair<const char*, PositionalOp> kPositionalOps[] = {
    {"cat",
     [](const Tensors& x, Random& r) {
       return Tensors{kept(at::cat({x[0], x[1]}, r.below(3)))};
     }},
    {"stack",
     [](const Tensors& x, Random& r) {
       return Tensors{kept(at::stack({x[0], x[1]}, r.below(4)))};
     }},
    {"repeat",
     [](const Tensors& x, Random& r) {
       return Tensors{x[0].repeat({1 + r.below(2), 1 + r.below(3), 1, 2})};
     }},
    {"pixel_shuffle",
     [](const Tensors& x, Random&) {
       return Tensors{at::pixel_shuffle(at::cat({x[0], x[1]}, 0).repeat({2, 1, 1}), 2)};
     }},
    {"pixel_unshuffle",
     [](const Tensors& x, Random&) {
       return Tensors{at::pixel_unshuffle(x[0].repeat({1, 2, 2}), 2)};
     }},
    {"argmax",
     [](const Tensors& x, Random& r) {
       return Tensors{r.below(4) ? x[0].argmax(r.below(3), r.below(2) == 1) : x[0].argmax(), x[0].argmin(-1)};
     }},
    {"native_group_norm",
     [](const Tensors& x, Random&) {
       std::vector<int64_t> twice(3, 1);
       twice[1] = 2;
       at::Tensor in = x[0].repeat(twice), weight = in.select(2, 0)[0].clone();
       return Tensors{at::group_norm(in, 2, weight, weight.neg())};
     }},
    {"native_group_norm_backward",
     [](const Tensors& x, Random&) {
       auto [out, mean, deviation] = at::native_group_norm(x[0], {}, {}, x[0].size(0), x[0].size(1), x[0].size(2), 1, 1e-5);
       auto [a, b, c] = at::native_group_norm_backward(x[1], x[0], mean, deviation, x[0].select(2, 0)[0].clone(), x[0].size(0),
                                                       x[0].size(1), x[0].size(2), 1, {true, true, true});
       return Tensors{out, a, b, c};
     }},
    {"upsample_nearest2d_backward",
     [](const Tensors& x, Random&) {
       at::Tensor grad = x[0].unsqueeze(0).repeat({1, 1, 2, 3});
       return Tensors{at::upsample_nearest2d_backward(grad, {grad.size(2), grad.size(3)}, {1, x[0].size(0), x[0].size(1), x[0].size(2)})};
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
    {"max_pool2d_with_indices",
     [](const Tensors& x, Random& r) {
       auto [top, where] = at::max_pool2d_with_indices(x[0], {2, 3}, {1 + r.below(3), 2}, {r.below(2), 1}, 1, r.below(2) == 1);
       return Tensors{top, where};
     }},
    {"adaptive_max_pool2d",
     [](const Tensors& x, Random& r) {
       auto [top, where] = at::adaptive_max_pool2d(x[0], {1 + (x[0].size(1) + r.below(3)) / 3, 1 + x[0].size(2) / 2});
       return Tensors{top, where};
     }},
    {"_adaptive_avg_pool2d",
     [](const Tensors& x, Random& r) {
       return Tensors{at::adaptive_avg_pool2d(x[0], {1 + (x[0].size(1) + r.below(3)) / 3, 1 + x[0].size(2) / 2})};
     }},
    {"flip",
     [](const Tensors& x, Random& r) {
       return r.below(2) ? Tensors{x[0].flip(r.below(3))} : Tensors{x[0].flip({-1, 0})};
     }},
    {"roll",
     [](const Tensors& x, Random& r) {
       return r.below(2) ? Tensors{x[0].roll(r.below(9) - 4, r.below(3))} : Tensors{x[0].roll({1, r.below(5)}, {0, -1})};
     }},
    {"reflection_pad2d",
     [](const Tensors& x, Random& r) {
       return Tensors{at::reflection_pad2d(x[0], {r.below(2), r.below(2), r.below(2), 1})};
     }},
    {"replication_pad2d",
     [](const Tensors& x, Random& r) {
       return Tensors{at::replication_pad2d(x[0], {r.below(4), r.below(4), r.below(4), 1})};
     }},
    {"constant_pad_nd",
     [](const Tensors& x, Random& r) {
       c10::Scalar number = r.below(2) ? c10::Scalar(r.below(3)) : c10::Scalar(0.75);
       return Tensors{at::constant_pad_nd(x[0], {r.below(4) - 1, r.below(4), r.below(2), 1}, number)};
     }},
    {"upsample_nearest2d",
     [](const Tensors& x, Random& r) {
       return Tensors{at::upsample_nearest2d(x[0].unsqueeze(0), {resized(r, x[0].size(1)), resized(r, x[0].size(2))})};
     }},
    {"upsample_linear1d",
     [](const Tensors& x, Random& r) { return Tensors{at::upsample_linear1d(x[0], resized(r, x[0].size(2)), r.below(2) == 1)}; }},
    {"upsample_bilinear2d",
     [](const Tensors& x, Random& r) {
       return Tensors{at::upsample_bilinear2d(x[0].unsqueeze(0), {resized(r, x[0].size(1)), resized(r, x[0].size(2))}, r.below(2) == 1)};
     }},
};

Maker maker(PositionalOp run) {
  return [run](at::ScalarType type, uint64_t seed) {
    Random r(seed);
    std::vector<int64_t> sizes = {1 + r.below(3), 2 + r.below(9), 2 + r.below(20)};
    Tensors inputs = {r.tensor(sizes, type), r.tensor(sizes, type)};
    return Sample{[run, seed](const Tensors& in) {
                    Random same(seed + 1);
                    return run(in, same);
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
  for (const auto& [op, entry] : tenon::ops::all_entries()) {
    std::string name = op.substr(6) + (count[op]++ ? "_" + std::to_string(count[op]) : "");
    std::replace(name.begin(), name.end(), '.', '_');
    testing::RegisterTest("Entries", name.c_str(), nullptr, nullptr, __FILE__, __LINE__, [op = op, &entry = entry]() -> testing::Test* {
      return new tenon::test::EntryTest(tenon::test::maker(op, entry));
    });
  }
  for (const auto& [name, run] : tenon::test::kPositionalOps)
    testing::RegisterTest("PositionalOps", name, nullptr, nullptr, __FILE__, __LINE__,
                          [run = run]() -> testing::Test* { return new tenon::test::EntryTest(tenon::test::maker(run)); });
  return RUN_ALL_TESTS();
}
