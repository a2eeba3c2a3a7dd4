// Explain as text, JSON, Graphviz and SVG.
#include <gtest/gtest.h>
#include <tenon/inspect.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "support/folder.h"

namespace tenon::test {

TEST(Explain, C7TextAndJsonTellGraphsGuardsRecompilesAndTime) {
  torch::nn::Linear fc(4, 2);
  auto fast = tenon::compile(fc, {.trust = Trust::pure, .name = "head"});
  for (int size : {3, 3, 3, 5, 5, 5}) fast(torch::randn({size, 4}));
  Explanation why = tenon::explain(fast);
  EXPECT_EQ(why.calls, 6u);
  EXPECT_EQ(why.answered + why.replayed + why.recorded + why.plain, why.calls);
  ASSERT_EQ(why.recompiles.size(), 1u);
  EXPECT_EQ(why.recompiles[0].guard, "sizes");
  EXPECT_EQ(why.recompiles[0].detail, "argument 0");
  for (const char* substring : {"tenon: head", "graph 0", "guards:", "recompiled because guard 'sizes' failed: argument 0", "record "})
    EXPECT_NE(why.text().find(substring), std::string::npos) << why;
  auto json = nlohmann::json::parse(why.json());
  EXPECT_EQ(json["graphs"].size(), 2u);
  EXPECT_EQ(json["recompiles"][0]["guard"], "sizes");
  EXPECT_GT(json["seconds"]["record"].get<double>(), 0);
}

TEST(Explain, C7Picture) {
  auto fast = tenon::compile([](torch::Tensor x) { return (x + 1).relu_(); });
  for (int i = 0; i < 3; ++i) fast(torch::randn({3}));
  Explanation why = tenon::explain(fast);
  EXPECT_NE(why.dot().find("aten::relu"), std::string::npos);
  TemporaryFolder folder;
  std::string path = folder.path() / "it's a graph.svg";
  ASSERT_TRUE(why.svg(path));
  std::ifstream file(path);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(text.find("aten::add"), std::string::npos);
}

TEST(Explain, C7KernelsAndWhatIsLeft) {
  std::vector<std::string> all = backends();
  if (std::find(all.begin(), all.end(), "native") == all.end()) GTEST_SKIP() << "a build without code generation";
  auto fast = tenon::compile([](torch::Tensor x) { return torch::mm(x, (x * 2 + 1).sigmoid()); }, {.trust = Trust::pure});
  for (int i = 0; i < 3; ++i) fast(torch::randn({8, 8}));
  Explanation why = tenon::explain(fast);
  ASSERT_EQ(why.graphs.size(), 1u);
  ASSERT_EQ(why.graphs[0].kernels.size(), 1u);
  const Explanation::Kernel& kernel = why.graphs[0].kernels[0];
  EXPECT_EQ(kernel.ops, (std::vector<std::string>{"aten::mul.Tensor", "aten::add.Tensor", "aten::sigmoid"}));
  EXPECT_EQ(kernel.bytes, 2u * 64 * 4);
  EXPECT_EQ(kernel.bytes_apart, 6u * 64 * 4);
  EXPECT_NE(kernel.text.find("exp f32"), std::string::npos) << kernel.text;
  EXPECT_NE(kernel.llvm().find("define"), std::string::npos);
  EXPECT_NE(kernel.assembly().find("ret"), std::string::npos);
  ASSERT_EQ(why.graphs[0].aten_calls.size(), 1u);
  EXPECT_EQ(why.graphs[0].aten_calls[0].op, "aten::mm");
  EXPECT_NE(why.text().find("runs in ATen: 1 x aten::mm (no native kernel)"), std::string::npos) << why;
}

TEST(Explain, C7RepeatedLayers) {
  std::vector<std::string> all = backends();
  if (std::find(all.begin(), all.end(), "native") == all.end()) GTEST_SKIP() << "a build without code generation";
  torch::nn::Sequential model(torch::nn::Linear(8, 16));
  for (int layer = 0; layer < 5; ++layer) {
    model->push_back(torch::nn::LayerNorm(torch::nn::LayerNormOptions({16})));
    model->push_back(torch::nn::Linear(16, 16));
    model->push_back(torch::nn::Tanh());
  }
  torch::NoGradGuard no_grad;
  for (Trust trust : {Trust::checked, Trust::pure}) {
    auto fast = tenon::compile(model, {.trust = trust});
    for (int i = 0; i < 4; ++i) fast(torch::randn({4, 8}));
    Explanation why = tenon::explain(fast);
    ASSERT_EQ(why.graphs.size(), 1u);
    const Explanation::Graph::RepeatedBlocks& blocks = why.graphs[0].blocks;
    EXPECT_EQ(blocks.copies, 4u) << why;  // The products, each with the tanh before it and the norm after it.
    EXPECT_EQ(blocks.kernels, 2u) << why;
    EXPECT_NE(why.text().find("repeated: 4 x 2 kernels"), std::string::npos) << why;
    EXPECT_EQ(nlohmann::json::parse(why.json())["graphs"][0]["blocks"]["copies"], blocks.copies);
  }
}

// Two products with a softmax between them become one attention call. A query whose keys are all masked gives NaN, as in eager.
TEST(Explain, C7AttentionWrittenOutIsOneCall) {
  std::vector<std::string> all = backends();
  if (std::find(all.begin(), all.end(), "native") == all.end()) GTEST_SKIP() << "a build without code generation";
  constexpr double kNothing = -std::numeric_limits<double>::infinity();
  using Score = std::function<torch::Tensor(torch::Tensor)>;
  torch::Tensor bias = torch::randn({256, 256}), hidden = torch::ones({256, 256}, torch::kBool).triu(1), shut = bias.clone();
  shut[5].fill_(kNothing);
  std::vector<Score> scores = {[](torch::Tensor s) { return s; }, [](torch::Tensor s) { return s / 2.5; },
                               [&](torch::Tensor s) { return s * 0.3 + bias; },
                               [&](torch::Tensor s) { return s.masked_fill(hidden, kNothing); }, [&](torch::Tensor s) { return s + shut; }};
  for (size_t w = 0; w < scores.size(); ++w) {
    auto attend = [&](torch::Tensor q, torch::Tensor k, torch::Tensor v) {
      return torch::matmul(torch::softmax(scores[w](torch::matmul(q, k.transpose(-1, -2))), -1), v);
    };
    auto fast = tenon::compile(attend, {.trust = Trust::pure});
    torch::Tensor q = torch::randn({1, 2, 256, 16}), k = torch::randn({1, 2, 256, 16}), v = torch::randn({1, 2, 256, 16}), got;
    for (int i = 0; i < 4; ++i) got = fast(q, k, v);
    EXPECT_TRUE(torch::allclose(got, attend(q, k, v), 1e-4, 1e-5, /*equal_nan=*/true)) << "score " << w;
    EXPECT_EQ(got.isnan().any().item<bool>(), w == 4) << "score " << w;
    Explanation why = tenon::explain(fast);
    ASSERT_EQ(why.graphs.size(), 1u);
    EXPECT_EQ(why.graphs[0].kernels.back().call, "aten::_scaled_dot_product_flash_attention_for_cpu") << why;
    EXPECT_TRUE(why.graphs[0].aten_calls.empty()) << why;
    EXPECT_EQ(why.graphs[0].kernels.back().llvm(), "");
  }
}

// Queries whose head and sequence dimensions are transposed in memory, as in MultiheadAttention.
TEST(Explain, C7AttentionOfTransposedQueries) {
  std::vector<std::string> all = backends();
  if (std::find(all.begin(), all.end(), "native") == all.end()) GTEST_SKIP() << "a build without code generation";
  for (double scale : {0.0, 0.3}) {
    auto attend = [&](torch::Tensor q, torch::Tensor k, torch::Tensor v) {
      torch::Tensor scores = torch::bmm(q.transpose(0, 1), k.transpose(0, 1).transpose(1, 2));
      return torch::bmm(torch::softmax(scale == 0 ? scores : scores * scale, -1), v.transpose(0, 1));
    };
    auto fast = tenon::compile(attend, {.trust = Trust::pure});
    torch::Tensor q = torch::randn({256, 3, 16}), k = torch::randn({256, 3, 16}), v = torch::randn({256, 3, 16}), got;
    for (int i = 0; i < 4; ++i) got = fast(q, k, v);
    EXPECT_TRUE(torch::allclose(got, attend(q, k, v), 1e-4, 1e-5)) << "scale " << scale;
    EXPECT_FALSE(tenon::explain(fast).graphs[0].kernels.back().call.empty());
  }
}

// Cross entropy computed from the maximum and the sum of exponentials of each row. It agrees with eager to the last bits, also where
// the loss is close to 0, and has eager's error message for an invalid target.
TEST(Explain, C7CrossEntropyNeedsNoLogProbabilities) {
  std::vector<std::string> all = backends();
  if (std::find(all.begin(), all.end(), "native") == all.end()) GTEST_SKIP() << "a build without code generation";
  torch::NoGradGuard no_grad;
  for (int64_t reduction : {at::Reduction::Mean, at::Reduction::Sum}) {
    auto loss = [&](torch::Tensor x, torch::Tensor target) {
      return torch::cross_entropy_loss(x, target, {}, reduction, /*ignore_index=*/3);
    };
    auto fast = tenon::compile(loss, {.trust = Trust::pure});
    torch::Tensor x = torch::randn({40, 50}) * 3, target = torch::randint(50, {40}), sure = x + 60 * torch::one_hot(target, 50);
    for (int i = 0; i < 3; ++i) fast(x, target);
    for (const torch::Tensor& logits : {x, sure, x - 1000}) {
      double eager = loss(logits, target).item<double>(), got = fast(logits, target).item<double>();
      EXPECT_NEAR(got, eager, std::abs(eager) * 1e-5 + 1e-30);
    }
    torch::Tensor none = torch::full({40}, 3, torch::kLong);
    EXPECT_EQ(std::isnan(fast(x, none).item<double>()), reduction == at::Reduction::Mean);
    Explanation why = tenon::explain(fast);
    ASSERT_EQ(why.graphs.size(), 1u);
    ASSERT_EQ(why.graphs[0].kernels.size(), 1u) << why;
    EXPECT_EQ(why.graphs[0].kernels[0].call, "other ops");
    auto message = [&](auto& f) {
      try {
        f(x, target + 20);
      } catch (const c10::Error& e) {
        return std::string(e.what_without_backtrace());
      }
      return std::string("no error");
    };
    EXPECT_EQ(message(fast), message(loss));
    EXPECT_NE(message(loss), "no error");
  }
}

TEST(Explain, TheNumberThatDriftsIsNamed) {
  double hidden = 1;
  auto fast = tenon::compile([&](torch::Tensor x) { return x * (hidden *= 0.5); }, {.trust = Trust::pure});
  for (int i = 0; i < 3; ++i) fast(torch::randn({3}));
  Explanation why = tenon::explain(fast);
  EXPECT_EQ(why.answered, 0u);
  ASSERT_FALSE(why.recompiles.empty());
  EXPECT_NE(why.recompiles[0].detail.find("argument 1: 0.5 became 0.25"), std::string::npos) << why;
}

TEST(Explain, C7CheckedCallsTellWhereTheProgramLeftWhatIsKnown) {
  torch::nn::Linear fc(4, 2);
  auto fast = tenon::compile(fc, {.name = "head", .dynamic = Dynamic::no});
  for (int size : {3, 3, 3, 5, 5, 5}) fast(torch::randn({size, 4}));
  Explanation why = tenon::explain(fast);
  EXPECT_EQ(why.calls, 6u);
  EXPECT_EQ(why.recorded, 2u);
  EXPECT_EQ(why.replayed, 2u);  // The second replay runs op by op.
  EXPECT_EQ(why.answered, 2u);
  ASSERT_EQ(why.recompiles.size(), 1u);
  EXPECT_EQ(why.recompiles[0].guard, "replay");
  EXPECT_EQ(why.recompiles[0].detail, "op 1: aten::addmm, argument 1: Float[3, 4] became Float[5, 4]");
  EXPECT_NE(why.recompiles[0].where.find("explain.cpp:"), std::string::npos) << why;
  EXPECT_EQ(why.graphs.size(), 2u);
  EXPECT_GT(why.phases.at(0).second, 0);
}

TEST(Explain, C14ANumberThatDriftsIsNoRecompile) {
  double hidden = 1;
  auto fast = tenon::compile([&](torch::Tensor x) { return x * (hidden *= 0.5); });
  for (int i = 0; i < 5; ++i) EXPECT_EQ(fast(torch::ones({3}))[0].item<double>(), std::pow(0.5, i + 1));
  Explanation why = tenon::explain(fast);
  EXPECT_EQ(why.answered, 3u);
  EXPECT_TRUE(why.recompiles.empty());
  EXPECT_NE(why.graphs.at(0).text.find("scalar $0 = 0.5"), std::string::npos) << why.graphs[0].text;
}

}  // namespace tenon::test
