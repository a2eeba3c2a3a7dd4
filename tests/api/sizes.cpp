// One graph serves all batch sizes and lengths, whether calls are checked or pure, with and without gradients.
#include <gtest/gtest.h>
#include <malloc.h>
#include <tenon/inspect.h>
#include <torch/torch.h>

#include <random>

#include "support/compare.h"

namespace tenon::test {
namespace {

using torch::Tensor;

struct Transformer : torch::nn::Module {
  static constexpr int64_t kWidth = 32, kHeads = 4;
  torch::nn::Embedding table{40, kWidth}, positions{96, kWidth};
  torch::nn::LayerNorm norm{torch::nn::LayerNormOptions({kWidth})};
  torch::nn::Linear qkv{kWidth, 3 * kWidth}, out{kWidth, kWidth}, up{kWidth, 64}, down{64, kWidth}, head{kWidth, 40};

  Transformer() {
    register_module("table", table), register_module("positions", positions), register_module("norm", norm);
    register_module("qkv", qkv), register_module("out", out), register_module("up", up), register_module("down", down);
    register_module("head", head);
  }

  Tensor forward(Tensor ids) {
    int64_t batch = ids.size(0), length = ids.size(1);
    Tensor x = table(ids) + positions(torch::arange(length));
    Tensor parts = qkv(norm(x)).view({batch, length, 3, kHeads, kWidth / kHeads}).permute({2, 0, 3, 1, 4});
    Tensor mask = torch::ones({length, length}, torch::kBool).triu(1);
    Tensor scores = torch::matmul(parts[0], parts[1].transpose(-2, -1)) / std::sqrt(double(kWidth / kHeads));
    Tensor mixed = torch::matmul(torch::softmax(scores.masked_fill(mask, -1e9), -1), parts[2]);
    x = x + out(mixed.transpose(1, 2).reshape({batch, length, kWidth}));
    return head(x + down(torch::gelu(up(norm(x)))));
  }
};

struct Convolutional : torch::nn::Module {
  torch::nn::Conv2d first{torch::nn::Conv2dOptions(3, 8, 3).padding(1)}, second{torch::nn::Conv2dOptions(8, 16, 3).stride(2).padding(1)};
  torch::nn::Linear head{16, 10};

  Convolutional() { register_module("first", first), register_module("second", second), register_module("head", head); }

  Tensor forward(Tensor image) {
    Tensor x = torch::relu(second(torch::relu(first(image))));
    return head(torch::max_pool2d(x, 2).mean({2, 3}));
  }
};

using Shape = std::pair<int64_t, int64_t>;

// 200 random pairs; every tenth has a size of 0 or 1.
std::vector<Shape> random_shapes(uint64_t seed, int64_t smallest) {
  std::mt19937_64 random(seed);
  auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  std::vector<Shape> out;
  for (int i = 0; i < 200; ++i) {
    Shape shape{2 + below(7), 2 + below(60)};
    if (i > 20 && i % 10 == 0) shape.first = below(2);
    if (i > 20 && i % 10 == 5) shape.second = smallest;
    out.push_back({shape.first, std::max(shape.second, smallest)});
  }
  return out;
}

Tensor input_of(const Transformer&, Shape shape) { return torch::randint(0, 40, {shape.first, shape.second}); }
Tensor input_of(const Convolutional&, Shape shape) { return torch::randn({shape.first, 3, shape.second, shape.second + 3}); }

// Kernels of convolutions see images in channels_last, which changes bits.
bool agree(const Transformer&, const Tensor& a, const Tensor& b) { return difference(a, b).empty(); }
bool agree(const Convolutional&, const Tensor& a, const Tensor& b) { return a.sizes() == b.sizes() && torch::allclose(a, b, 1e-4, 1e-6); }

template <class Model>
void run(Trust trust, bool trains, int64_t smallest) {
  torch::manual_seed(3);
  auto model = std::make_shared<Model>();
  at::AutoGradMode mode(trains);
  auto fast = tenon::compile([&](Tensor x) { return model->forward(x); }, {.trust = trust, .name = "model", .watch = {model}});
  for (Shape shape : random_shapes(11, smallest)) {
    Tensor x = input_of(*model, shape);
    Tensor expected = model->forward(x), got = fast(x);
    ASSERT_TRUE(agree(*model, expected, got)) << shape.first << " x " << shape.second;
    if (!trains || expected.numel() == 0) continue;
    Tensor tangent = torch::randn_like(expected);
    for (Tensor* result : {&expected, &got}) {
      model->zero_grad();
      result->backward(tangent);
      *result = model->head->weight.grad().clone();
    }
    ASSERT_TRUE(agree(*model, expected, got)) << shape.first << " x " << shape.second;
  }
  Explanation why = tenon::explain(fast);
  // One recording, or two under Trust::pure; and one for each other op sequence that sizes 0 and 1 cause, where reshape() returns a view.
  EXPECT_LE(why.recorded, 5u) << why;
  EXPECT_EQ(why.plain, 0u) << why;
  EXPECT_TRUE(why.obstacles.empty()) << why;
  EXPECT_GE(why.answered, 150u) << why;
}

}  // namespace

TEST(Sizes, C5TransformerChecked) { run<Transformer>(Trust::checked, false, 1); }
TEST(Sizes, C5TransformerCheckedTraining) { run<Transformer>(Trust::checked, true, 1); }
TEST(Sizes, C5TransformerPure) { run<Transformer>(Trust::pure, false, 1); }
TEST(Sizes, C5TransformerPureTraining) { run<Transformer>(Trust::pure, true, 1); }
TEST(Sizes, C5ConvolutionsChecked) { run<Convolutional>(Trust::checked, false, 3); }
TEST(Sizes, C5ConvolutionsCheckedTraining) { run<Convolutional>(Trust::checked, true, 3); }
TEST(Sizes, C5ConvolutionsPure) { run<Convolutional>(Trust::pure, false, 3); }
TEST(Sizes, C5ConvolutionsPureTraining) { run<Convolutional>(Trust::pure, true, 3); }

// The optimizer's step is part of the compiled function.
TEST(Sizes, C5WholeSteps) {
  auto train = [](bool compiled) {
    torch::manual_seed(3);
    auto model = std::make_shared<Transformer>();
    torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-3));
    auto step = [&](Tensor ids) {
      optimizer.zero_grad();
      Tensor logits = model->forward(ids);
      Tensor loss = torch::nn::functional::cross_entropy(logits.flatten(0, 1), ids.flatten());
      loss.backward();
      optimizer.step();
      return loss.detach();
    };
    auto fast = tenon::compile(step);
    std::vector<Tensor> losses;
    std::mt19937_64 random(5);
    for (int i = 0; i < 60; ++i) {
      Tensor ids = torch::randint(0, 40, {2 + static_cast<int64_t>(random() % 5), 2 + static_cast<int64_t>(random() % 40)});
      losses.push_back(compiled ? fast(ids) : step(ids));
    }
    if (compiled) {
      Explanation why = tenon::explain(fast);
      EXPECT_LE(why.recorded, 3u) << why;
      EXPECT_EQ(why.plain, 0u) << why;
    }
    return losses;
  };
  EXPECT_EQ(difference(train(false), train(true), "losses"), "");
}

TEST(Sizes, C5ExplainListsSymbolsAndConditions) {
  torch::NoGradGuard no_grad;
  torch::manual_seed(3);
  Transformer model;
  auto fast = tenon::compile([&](Tensor x) { return model.forward(x); });
  for (Shape shape : {Shape{3, 9}, {4, 11}, {5, 21}, {6, 33}}) fast(input_of(model, shape));
  Explanation why = tenon::explain(fast);
  ASSERT_EQ(why.graphs.size(), 1u) << why;
  EXPECT_EQ(why.graphs[0].symbols.size(), 2u) << why;
  EXPECT_NE(why.text().find("size that may differ: s0 = "), std::string::npos) << why;
}

// From 256 keys on, written-out attention becomes flash attention, so that longer texts need a graph of their own.
TEST(Sizes, C5ExplainNamesTheConditionThatFailed) {
  torch::NoGradGuard no_grad;
  auto attend = [](Tensor q, Tensor k, Tensor v) { return torch::matmul(torch::softmax(torch::matmul(q, k.transpose(-2, -1)), -1), v); };
  auto fast = tenon::compile(attend);
  for (int64_t length : {20, 20, 30, 40, 300, 320, 300}) {
    Tensor q = torch::randn({2, 3, length, 16}), k = torch::randn({2, 3, length, 16}), v = torch::randn({2, 3, length, 16});
    ASSERT_TRUE(torch::allclose(fast(q, k, v), attend(q, k, v), 1e-4, 1e-5)) << length;
  }
  Explanation why = tenon::explain(fast);
  ASSERT_EQ(why.recompiles.size(), 1u) << why;
  EXPECT_EQ(why.recompiles[0].guard, "condition");
  EXPECT_NE(why.recompiles[0].detail.find("does not hold for s0 = 300"), std::string::npos) << why;
  EXPECT_NE(why.recompiles[0].where.find("sizes.cpp:"), std::string::npos) << why;
  EXPECT_NE(why.text().find("a graph does not serve this size: "), std::string::npos) << why;
}

// Results are kept for the next call only with the sizes that ran last.
TEST(Sizes, C5OnlyTheLastSizesKeepMemory) {
  torch::NoGradGuard no_grad;
  constexpr int64_t kWidth = 512, kRows = 3000;
  Tensor weight = torch::randn({kWidth, kWidth});
  auto fast = tenon::compile([&](Tensor x) { return torch::relu(x.mm(weight)); }, {.mode = Mode::reduce_overhead});
  auto allocated = [] { return mallinfo2().uordblks + mallinfo2().hblkhd; };
  auto call = [&](int64_t rows) { return fast(torch::ones({rows, kWidth})).size(0); };
  for (int64_t i = 0; i < 4; ++i) call(kRows + i);
  size_t before = allocated();
  for (int64_t i = 0; i < 24; ++i) EXPECT_EQ(call(kRows + 4 + i / 2), kRows + 4 + i / 2);
  EXPECT_LT(allocated(), before + 2 * kRows * kWidth * sizeof(float));
}

TEST(Sizes, C5SpecialisedArgumentsStayConstants) {
  for (Trust trust : {Trust::checked, Trust::pure}) {
    auto scale = [](Tensor x, Tensor w) { return torch::relu(x.unsqueeze(1) * w); };
    auto fast = tenon::compile(scale, {.trust = trust, .specialise = {1}});
    for (int64_t width : {4, 9, 4, 9})
      for (int64_t length : {5, 6, 7, 8, 9}) {
        Tensor x = torch::randn({length}), w = torch::randn({width});
        ASSERT_TRUE(fast(x, w).equal(scale(x, w))) << length << " " << width;
      }
    Explanation why = tenon::explain(fast);
    size_t symbolic = 0;
    for (const Explanation::Graph& graph : why.graphs) {
      EXPECT_LE(graph.symbols.size(), 1u) << why;
      symbolic += graph.symbols.size();
    }
    EXPECT_EQ(symbolic, 2u) << why;
    EXPECT_EQ(why.plain, 0u) << why;
  }
}

TEST(Sizes, C5SpecialisedArgumentsMustExist) {
  auto fast = tenon::compile([](Tensor x) { return x * 2; }, {.name = "twice", .specialise = {1}});
  try {
    fast(torch::ones({2}));
    FAIL() << "nothing was thrown";
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ErrorCode::config);
    EXPECT_NE(std::string(error.what()).find("'twice' names argument 1, but the call has 1 tensors"), std::string::npos) << error.what();
  }
}

}  // namespace tenon::test
