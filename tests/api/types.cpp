// Modules by holder, shared pointer and raw pointer; callables; arguments and results of every type.
#include <gtest/gtest.h>
#include <tenon/compile.h>
#include <tenon/inspect.h>
#include <torch/torch.h>

#include <thread>

#include "support/compare.h"

namespace tenon::test {

using torch::Tensor;

struct SmallNetImpl : torch::nn::Module {
  torch::nn::Linear fc{nullptr};
  SmallNetImpl() { fc = register_module("fc", torch::nn::Linear(4, 3)); }
  Tensor forward(const Tensor& x) { return torch::relu(fc(x)); }
};
TORCH_MODULE(SmallNet);

struct Batch {
  Tensor x;
  std::optional<Tensor> mask;
  std::vector<Tensor> extra;
  double scale = 1;
  int mode = 0;
  template <class F>
  auto visit(F&& f) {
    return f(x, mask, extra, scale, mode);
  }
};

struct Output {
  Tensor y;
  std::tuple<Tensor, int64_t> pair;
  std::optional<Tensor> masked;
  bool flag = false;
  template <class F>
  auto visit(F&& f) {
    return f(y, pair, masked, flag);
  }
};

template <class Compiled>
void expect_answered(const Compiled& fast, size_t at_least) {
  EXPECT_GE(tenon::explain(fast).answered, at_least) << tenon::explain(fast);
}

TEST(Types, C1ModuleHolderAndPointers) {
  SmallNet net;
  auto by_holder = tenon::compile(net);
  auto by_shared = tenon::compile(net.ptr());
  auto by_raw = tenon::compile(net.get());
  for (int i = 0; i < 4; ++i) {
    Tensor x = torch::randn({2, 4});
    Tensor expected = net->forward(x);
    EXPECT_EQ(difference(expected, by_holder(x)), "");
    EXPECT_EQ(difference(expected, by_shared(x)), "");
    EXPECT_EQ(difference(expected, by_raw(x)), "");
  }
  expect_answered(by_holder, 2);
  expect_answered(by_shared, 2);
  expect_answered(by_raw, 2);
}

Output transform(Batch b) {
  Output out;
  out.y = b.x * b.scale;
  for (const Tensor& t : b.extra) out.y = out.y + t;
  out.pair = {out.y.sum(0), b.x.size(0)};
  if (b.mask) out.masked = out.y * *b.mask;
  out.flag = b.mode == 1;
  return out;
}

TEST(Types, C1StructsOptionalsVectorsTuplesScalars) {
  torch::NoGradGuard no_grad;
  auto fast = tenon::compile(&transform);
  for (int i = 0; i < 12; ++i) {
    Batch b{torch::randn({2, 3}), std::nullopt, {torch::randn({2, 3})}, i < 8 ? 2.0 : 4.0, i < 4 ? 0 : 1};
    if (i % 2) b.mask = torch::ones({2, 3});
    Output expected = transform(b), got = fast(b);
    EXPECT_EQ(difference(expected.y, got.y), "");
    EXPECT_EQ(difference(std::get<0>(expected.pair), std::get<0>(got.pair)), "");
    EXPECT_EQ(std::get<1>(expected.pair), std::get<1>(got.pair));
    EXPECT_EQ(expected.masked.has_value(), got.masked.has_value());
    if (expected.masked && got.masked) EXPECT_EQ(difference(*expected.masked, *got.masked), "");
    EXPECT_EQ(expected.flag, got.flag);
  }
}

TEST(Types, C1VoidFunctionThatChangesItsArgument) {
  auto fast = tenon::compile([](Tensor x) { x.mul_(2); });
  for (int i = 0; i < 5; ++i) {
    Tensor x = torch::full({3}, i);
    auto version = x._version();
    fast(x);
    EXPECT_EQ(x[0].item<int64_t>(), 2 * i);
    EXPECT_GT(x._version(), version);
  }
  expect_answered(fast, 3);
}

TEST(Types, C2TwoCallsRecordLaterCallsReuse) {
  int runs = 0;
  auto fast = tenon::compile(
      [&runs](Tensor x) {
        ++runs;
        return x.sin();
      },
      {.trust = Trust::pure});
  for (int i = 0; i < 5; ++i) fast(torch::randn({3}));
  EXPECT_EQ(runs, 2);
  EXPECT_GT(tenon::explain(fast).phases.at(0).second, 0.0);
}

TEST(Types, C6BackendsAgreeAndOneCanBeAdded) {
  size_t built = 0, runs = 0;
  register_backend("counting", [&](const std::string& graph, Runner op_by_op) -> Runner {
    EXPECT_NE(graph.find("aten::sin"), std::string::npos);
    ++built;
    return [&runs, op_by_op](std::vector<Tensor> in) {
      ++runs;
      return op_by_op(std::move(in));
    };
  });
  Tensor x = torch::randn({3});
  for (std::string backend : {"none", "eager", "aot_eager", "aten", "counting"}) {
    auto fast = tenon::compile([](Tensor t) { return t.sin() * 2; }, {.backend = backend});
    for (int i = 0; i < 4; ++i) EXPECT_EQ(difference(x.sin() * 2, fast(x)), "") << backend;
  }
  EXPECT_GE(built, 1u);
  EXPECT_EQ(runs, 2u);
}

TEST(Types, C1TwoThreadsShareOneCompiledFunction) {
  SmallNet net;
  auto fast = tenon::compile(net);
  Tensor a = torch::randn({2, 4}), b = torch::randn({2, 4});
  Tensor expected_a = net->forward(a).detach(), expected_b = net->forward(b).detach();
  std::atomic<int> wrong{0};
  auto work = [&](Tensor x, Tensor expected) {
    for (int i = 0; i < 300; ++i) wrong += !torch::equal(fast(x).detach(), expected);
  };
  std::thread one(work, a, expected_a), two(work, b, expected_b);
  one.join();
  two.join();
  EXPECT_EQ(wrong.load(), 0);
  expect_answered(fast, 500);
}

TEST(Types, C1CompiledInsideCompiled) {
  SmallNet net;
  auto inner = tenon::compile(net);
  auto outer = tenon::compile([&](Tensor x) { return inner(x) + 1; }, {.watch = {net}});
  for (int i = 0; i < 5; ++i) {
    Tensor x = torch::randn({2, 4});
    EXPECT_EQ(difference(net->forward(x) + 1, outer(x)), "");
  }
  expect_answered(outer, 3);
}

// A scalar, or a tensor of one element, is rounded to bfloat16 before it is compared with bfloat16 elements.
TEST(Types, C7ComparisonsRoundFirst) {
  auto compared = [](const Tensor& x, const Tensor& one) { return std::vector<Tensor>{x.eq(0.1), x.eq(one), x.to(torch::kFloat).eq(one)}; };
  auto fast = tenon::compile(compared, {.trust = Trust::pure});
  Tensor tenth = torch::full({}, 0.1), x = tenth.to(torch::kBFloat16).expand({8}).clone();
  for (int call = 0; call < 4; ++call) {
    std::vector<Tensor> got = fast(x, tenth);
    EXPECT_TRUE(got[0].all().item<bool>() && got[1].all().item<bool>());
    EXPECT_FALSE(got[2].any().item<bool>());
  }
  EXPECT_GT(tenon::explain(fast).answered, 0);
}

}  // namespace tenon::test
