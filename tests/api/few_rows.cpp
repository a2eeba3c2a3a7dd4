// Products of a few rows use unpacked weights, and several of them run in one loop.
#include <gtest/gtest.h>
#include <tenon/compile.h>
#include <tenon/inspect.h>
#include <torch/torch.h>

namespace tenon::test {

using torch::Tensor;

struct FewRowsCase {
  torch::ScalarType type;
  int64_t rows, width;
  bool transposed;  // The weights are [out, in] in memory, as in nn::Linear.
};

// The test is skipped if TENON_FORM is set, which forces packing, or TENON_CHECK_KERNELS, which runs each product alone.
class FewRows : public testing::TestWithParam<FewRowsCase> {
 protected:
  void SetUp() override {
    if (std::getenv("TENON_FORM") || std::getenv("TENON_CHECK_KERNELS")) GTEST_SKIP() << "needs the usual forms";
    torch::manual_seed(5);
    auto [type, rows, width, transposed] = GetParam();
    x = torch::randn({rows, width}).to(type);
    for (int64_t columns : {2500, 1900, 65}) {  // Too large for a flat plan.
      weights.push_back((torch::randn({columns, width}) * 0.1).to(type));
      biases.push_back(torch::randn({columns}).to(type));
    }
  }
  Tensor weight(size_t i) const { return GetParam().transposed ? weights[i].t() : matrices[i]; }

  // Three products of one input with other ops between them, as the projections of an attention layer.
  std::vector<Tensor> run(const Tensor& in, bool with_bias) const {
    auto product = [&](size_t i) { return with_bias ? torch::addmm(biases[i], in, weight(i)) : torch::mm(in, weight(i)); };
    Tensor a = product(0).tanh() * 2, b = product(1).sigmoid() + 1, c = product(2);
    return {a, b, c.relu()};
  }
  void expect_as_eager(bool with_bias) {
    torch::NoGradGuard no_grad;
    for (const Tensor& w : weights) matrices.push_back(w.t().contiguous());
    Options options;
    options.trust = Trust::pure;
    auto fast = compile([&](const Tensor& in) { return run(in, with_bias); }, options);
    for (int i = 0; i < 4; ++i) {
      Tensor in = x * (i + 1);
      std::vector<Tensor> got = fast(in), expected = run(in, with_bias);
      double tolerance = GetParam().type == torch::kFloat ? 1e-4 : 3e-2;
      for (size_t k = 0; k < 3; ++k) EXPECT_TRUE(torch::allclose(got[k], expected[k], tolerance, tolerance)) << "result " << k;
    }
    bool streams = GetParam().rows <= 4 && (GetParam().transposed || GetParam().type == torch::kFloat);
    EXPECT_EQ(explain(fast).text().find("3 x " + std::string(with_bias ? "aten::addmm" : "aten::mm") + ", weight not packed, streamed") !=
                  std::string::npos,
              streams)
        << explain(fast).text();
  }

  Tensor x;
  std::vector<Tensor> weights, matrices, biases;
};

TEST_P(FewRows, C3Products) { expect_as_eager(/*with_bias=*/false); }
TEST_P(FewRows, C3ProductsWithBias) { expect_as_eager(/*with_bias=*/true); }

// The second product must not be joined with the first one, because the weight is written between them.
TEST_P(FewRows, C3AWriteBetween) {
  torch::NoGradGuard no_grad;
  Tensor w = weights[0];
  auto program = [&](const Tensor& in) {
    Tensor first = torch::mm(in, w.t());
    w.mul_(0.5);
    Tensor second = torch::mm(in, w.t());
    w.mul_(2);
    return std::vector<Tensor>{first, second, torch::mm(in, w.t())};
  };
  Options options;
  options.trust = Trust::pure;
  auto fast = compile(program, options);
  for (int i = 0; i < 4; ++i) {
    std::vector<Tensor> got = fast(x), expected = program(x);
    for (size_t k = 0; k < 3; ++k) EXPECT_TRUE(torch::allclose(got[k], expected[k], 2e-2, 2e-2)) << "result " << k;
  }
}

std::vector<FewRowsCase> few_rows_cases() {
  std::vector<FewRowsCase> out;
  for (auto type : {torch::kFloat, torch::kBFloat16})
    for (int64_t rows : {1, 3, 4, 5})
      for (int64_t width : {512, 451})
        for (bool transposed : {true, false}) out.push_back({type, rows, width, transposed});
  return out;
}
INSTANTIATE_TEST_SUITE_P(Sizes, FewRows, testing::ValuesIn(few_rows_cases()), [](const auto& test) {
  const FewRowsCase& c = test.param;
  return std::string(c.type == torch::kFloat ? "f32" : "bf16") + "_" + std::to_string(c.rows) + "x" + std::to_string(c.width) +
         (c.transposed ? "_turned" : "");
});

}  // namespace tenon::test
