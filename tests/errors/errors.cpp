// Errors: their code, and that their text names the cause and the remedy.
#include <gtest/gtest.h>
#include <tenon/compile.h>
#include <tenon/inspect.h>
#include <torch/torch.h>

#include "base/error.h"
#include "bridge/dispatch_keys.h"
#include "support/expect_error.h"

namespace tenon::test {

using torch::Tensor;

TEST(Errors, C4FullgraphNamesOpLineReasonAndAdvice) {
  auto fast = tenon::compile(
      [](Tensor x) {
        return x.sum().item<float>() > 0 ? x : -x;  // The message names this line.
      },
      {.fullgraph = true});
  std::string line = "errors.cpp:" + std::to_string(__LINE__ - 3);
  for (int i = 0; i < 3; ++i)
    expect_error(ErrorCode::fullgraph, {"[fullgraph] aten::_local_scalar_dense", "item()", line, "torch::where", "without fullgraph"},
                 [&] { fast(torch::ones({3})); });
}

TEST(Errors, C4FullgraphOnDataDependentShapes) {
  auto nonzero = tenon::compile([](Tensor x) { return torch::nonzero(x); }, {.fullgraph = true});
  expect_error(ErrorCode::fullgraph, {"aten::nonzero", "shape depends on the data"}, [&] { nonzero(torch::ones({3})); });
  auto mask = tenon::compile([](Tensor x) { return x.index({x > 0}); }, {.fullgraph = true});
  expect_error(ErrorCode::fullgraph, {"aten::index.Tensor", "mask"}, [&] { mask(torch::ones({3})); });
  auto index = tenon::compile([](Tensor x, Tensor i) { return x.index({i}); }, {.fullgraph = true});
  EXPECT_NO_THROW(index(torch::ones({3}), torch::zeros({2}, torch::kLong)));
}

TEST(Errors, C4WithoutFullgraphTheBreakIsListed) {
  auto fast = tenon::compile([](Tensor x) {
    Tensor h = x * 2;
    if (h.sum().item<float>() > 0) h = h + 1;
    return h.sin();
  });
  for (int i = 0; i < 3; ++i) fast(torch::ones({3}));
  Explanation why = tenon::explain(fast);
  ASSERT_EQ(why.breaks.size(), 1u) << why;
  EXPECT_NE(why.breaks[0].where.find("errors.cpp:"), std::string::npos) << why;
  EXPECT_EQ(why.graphs.size(), 2u) << why;
  EXPECT_EQ(why.answered, 1u) << why;
}

TEST(Errors, C6UnknownBackend) {
  expect_error(ErrorCode::backend, {"'fastest'", "none, eager, aot_eager, aten"},
               [] { tenon::compile([](Tensor x) { return x; }, {.backend = "fastest"}); });
}

TEST(Errors, C6BackendNameTaken) {
  expect_error(ErrorCode::backend, {"'eager'", "exists already"},
               [] { register_backend("eager", [](const std::string&, Runner run) { return run; }); });
}

TEST(Errors, NotOnTheCpu) {
  auto fast = tenon::compile([](Tensor x) { return x + 1; }, {.trust = Trust::pure});
  expect_error(ErrorCode::device, {"meta", "CPU only"}, [&] { fast(torch::empty({3}, torch::kMeta)); });
}

TEST(Errors, TheProgramsOwnExceptionComesThrough) {
  auto fast = tenon::compile([](Tensor x) -> Tensor {
    if (x.size(0) == 3) throw std::runtime_error("mine");
    return x * 2;
  });
  for (int i = 0; i < 4; ++i) {
    try {
      fast(torch::ones({3}));
      FAIL();
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "mine");
    }
    EXPECT_NO_THROW(fast(torch::ones({2})));
  }
}

TEST(Errors, C7IndexOutOfRangeInAKernel) {
  Tensor table = torch::randn({8, 4});
  auto look_up = [&](Tensor rows) { return torch::embedding(table, rows) * 2; };
  auto fast = tenon::compile(look_up, {.trust = Trust::pure});
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(fast(torch::full({3}, i, torch::kLong)).equal(look_up(torch::full({3}, i, torch::kLong))));
  EXPECT_GT(tenon::explain(fast).answered, 0);
  for (int64_t wrong : {-1, 8}) {
    std::string said;
    try {
      look_up(torch::full({3}, wrong, torch::kLong));
    } catch (const c10::Error& error) {
      said = error.what_without_backtrace();
    }
    try {
      fast(torch::full({3}, wrong, torch::kLong));
      FAIL() << "no error";
    } catch (const c10::Error& error) {
      EXPECT_EQ(error.what_without_backtrace(), said);
    }
  }
}

// The op that fails is the first one that uses the table. Its storage id is that of another tensor if the program continues elsewhere.
TEST(Errors, C7TheOperandsOfAnOpThatFailedAreForgotten) {
  Tensor table = torch::randn({8, 4}), before = table.clone();
  auto look_up = [&](Tensor x, Tensor rows) {
    Tensor h = x * 2;
    try {
      h = h + torch::embedding(table, rows);
    } catch (const std::exception&) {
      h = h.tanh();
    }
    return h.sum(0) + h;
  };
  auto fast = tenon::compile(look_up);
  for (int64_t row : {1, 2, 9, 9, 3, 9, 4, 9}) {
    Tensor x = torch::randn({3, 4}), rows = torch::full({3}, row, torch::kLong);
    EXPECT_TRUE(torch::allclose(fast(x, rows), look_up(x, rows), 1e-5, 1e-6)) << row;
    EXPECT_TRUE(table.equal(before)) << row;
  }
}

TEST(Errors, SpentResult) {
  Tensor w = torch::ones({3}).requires_grad_();
  auto step = tenon::compile([&](Tensor x) {
    w.mutable_grad().reset();
    Tensor loss = (x * w).pow(2).sum();
    loss.backward();
    return loss;
  });
  for (int i = 0; i < 5; ++i) {
    Tensor loss = step(torch::ones({3}));
    EXPECT_ANY_THROW(loss.backward());
  }
  EXPECT_GE(tenon::explain(step).answered, 1u) << tenon::explain(step);
}

TEST(Errors, DispatchKeyThatAnotherLibraryHas) {
  constexpr auto key = c10::DispatchKey::TESTING_ONLY_GenericMode;
  torch::Library other(torch::Library::IMPL, "_", key, __FILE__, __LINE__);
  other.fallback(torch::CppFunction::makeFallthrough());
  expect_error(ErrorCode::internal, {"TESTING_ONLY_GenericMode", "is used by another library", "do not load the other library"},
               [&] { bridge::take_dispatch_key(key, torch::CppFunction::makeFallthrough()); });
}

}  // namespace tenon::test
