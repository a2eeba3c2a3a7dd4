// Maps, IValues and TorchScript modules as arguments, results and callables.
#include <gtest/gtest.h>
#include <tenon/compile.h>
#include <tenon/inspect.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <map>
#include <string>
#include <unordered_map>

#include "support/compare.h"

namespace tenon::test {
namespace {

using torch::Tensor;
using Named = std::unordered_map<std::string, Tensor>;

class Containers : public testing::TestWithParam<Trust> {
 protected:
  Options options() { return {.backend = "aten", .trust = GetParam()}; }

  template <class Compiled>
  static void expect_answered(const Compiled& fast) {
    EXPECT_GE(tenon::explain(fast).answered, 1u) << tenon::explain(fast);
  }
};

torch::jit::Module scaled() {
  torch::jit::Module module("Scaled");
  module.register_parameter("weight", torch::linspace(-1, 1, 4), /*is_buffer=*/false);
  module.define("def forward(self, x):\n  y = torch.tanh(x * self.weight)\n  return {'out': y, 'sum': y.sum()}\n");
  return module;
}

}  // namespace

TEST_P(Containers, Maps) {
  auto body = [](const Named& in, const std::map<int, Tensor>& numbered) {
    return Named{{"sum", in.at("a") + in.at("b")}, {"product", in.at("a") * numbered.at(7)}, {"b", in.at("b").exp()}};
  };
  auto fast = tenon::compile(body, options());
  for (int i = 0; i < 5; ++i) {
    Tensor a = torch::randn({3}), b = torch::randn({3}), c = torch::randn({3});
    // Each call inserts in another order, into a hash table of another size.
    Named in(i % 2 ? 1 : 100);
    for (const auto& [name, tensor] :
         i % 2 ? std::vector{std::pair{"a", a}, std::pair{"b", b}} : std::vector{std::pair{"b", b}, std::pair{"a", a}})
      in.emplace(name, tensor);
    Named expected = body(in, {{7, c}}), got = fast(in, std::map<int, Tensor>{{7, c}});
    ASSERT_EQ(got.size(), 3u);
    for (auto& [name, tensor] : expected) EXPECT_EQ(difference(tensor, got.at(name)), "") << name;
  }
  expect_answered(fast);
}

TEST_P(Containers, KeysAreComparedToo) {
  auto fast =
      tenon::compile([](const Named& in) { return in.count("twice") ? in.begin()->second * 2 : in.begin()->second * 3; }, options());
  for (int i = 0; i < 4; ++i)
    for (const char* key : {"twice", "thrice"})
      EXPECT_EQ(fast(Named{{key, torch::ones({2})}})[0].template item<float>(), key[1] == 'w' ? 2 : 3);
}

TEST_P(Containers, IValues) {
  auto body = [](std::vector<c10::IValue> in) -> c10::IValue {
    Tensor x = in[0].toTensor() * in[1].toDouble();
    c10::List<Tensor> list;
    for (const Tensor& t : in[2].toTensorVector()) list.push_back(t + x);
    c10::Dict<std::string, Tensor> named;
    named.insert("x", x);
    return c10::ivalue::Tuple::create({x.sum(), list, named, in[3], int64_t{4}});
  };
  auto fast = tenon::compile(body, options());
  std::vector<c10::IValue> kept;
  std::vector<Tensor> sums;
  for (int i = 0; i < 5; ++i) {
    std::vector<c10::IValue> in = {torch::randn({3}), 2.5, std::vector<Tensor>{torch::randn({3}), torch::randn({3})}, "text"};
    auto expected = body(in).toTuple(), got = fast(in).toTuple();
    for (int k : {0, 1}) {
      Tensor a = k ? expected->elements()[1].toTensorVector()[1] : expected->elements()[0].toTensor();
      Tensor b = k ? got->elements()[1].toTensorVector()[1] : got->elements()[0].toTensor();
      EXPECT_EQ(difference(a, b), "");
    }
    EXPECT_EQ(difference(expected->elements()[2].toGenericDict().at("x").toTensor(), got->elements()[2].toGenericDict().at("x").toTensor()),
              "");
    EXPECT_EQ(got->elements()[3].toStringRef(), "text");
    EXPECT_EQ(got->elements()[4].toInt(), 4);
    kept.emplace_back(got);
    sums.push_back(expected->elements()[0].toTensor());
  }
  // Results of earlier calls are unchanged.
  for (size_t i = 0; i < kept.size(); ++i) EXPECT_EQ(difference(sums[i], kept[i].toTuple()->elements()[0].toTensor()), "");
  expect_answered(fast);
}

TEST_P(Containers, AModuleOfTorchScript) {
  torch::jit::Module module = scaled();
  auto fast = tenon::compile(module, options());
  for (int i = 0; i < 5; ++i) {
    Tensor x = torch::randn({2, 4});
    Tensor expected = module.forward({x}).toGenericDict().at("out").toTensor();
    EXPECT_EQ(difference(expected, fast(x).toGenericDict().at("out").toTensor()), "");
    EXPECT_EQ(difference(expected, fast(std::vector<c10::IValue>{x}).toGenericDict().at("out").toTensor()), "");
  }
  expect_answered(fast);
  torch::NoGradGuard no_grad;
  module.attr("weight").toTensor().fill_(0);
  EXPECT_EQ(fast(torch::ones({2, 4})).toGenericDict().at("sum").toTensor().template item<float>(), 0);
}

TEST_P(Containers, AModuleOfTorchScriptAsAnArgument) {
  auto fast = tenon::compile([](torch::jit::Module module, Tensor x) { return x * module.attr("weight").toTensor(); }, options());
  for (int i = 0; i < 5; ++i) {
    torch::jit::Module module = scaled();
    torch::NoGradGuard no_grad;
    module.attr("weight").toTensor().fill_(i);
    EXPECT_EQ(fast(module, torch::ones({4}))[2].template item<float>(), i);
  }
}

TEST_P(Containers, ACompiledFunctionMayBeConst) {
  const auto fast = tenon::compile([calls = 0](Tensor x) mutable { return x * 2; }, options());
  for (int i = 0; i < 4; ++i) EXPECT_EQ(fast(torch::ones({2}))[0].template item<float>(), 2);
}

INSTANTIATE_TEST_SUITE_P(Trusts, Containers, testing::Values(Trust::checked, Trust::pure),
                         [](const auto& trust) { return trust.param == Trust::pure ? "pure" : "checked"; });

}  // namespace tenon::test
