// Stances, limits, disable, reset, counters. Also verify and quarantine.
#include <gtest/gtest.h>
#include <tenon/control.h>
#include <tenon/inspect.h>
#include <torch/torch.h>

#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "support/compare.h"
#include "support/folder.h"

namespace tenon::test {

using torch::Tensor;

TEST(Control, C10ForceEagerRunsTheProgram) {
  auto fast = tenon::compile([](Tensor x) { return x.sin(); });
  StanceScope eager(Stance::force_eager);
  for (int i = 0; i < 4; ++i) fast(torch::randn({3}));
  EXPECT_EQ(tenon::explain(fast).calls, 0u);
}

TEST(Control, C10EagerOnRecompileRecordsNothingNew) {
  for (Trust trust : {Trust::checked, Trust::pure}) {
    auto fast = tenon::compile([](Tensor x) { return x.sin() * 2; }, {.trust = trust});
    for (int i = 0; i < 4; ++i) fast(torch::randn({3}));
    size_t recorded = tenon::explain(fast).recorded, answered = tenon::explain(fast).answered;
    StanceScope stance(Stance::eager_on_recompile);
    Tensor x = torch::randn({5});
    for (int i = 0; i < 4; ++i) EXPECT_EQ(difference(x.sin() * 2, fast(x)), "");
    fast(torch::randn({3}));
    EXPECT_EQ(tenon::explain(fast).recorded, recorded);
    EXPECT_EQ(tenon::explain(fast).answered, answered + 1);
  }
}

TEST(Control, C10FailOnRecompileSaysWhere) {
  for (Trust trust : {Trust::checked, Trust::pure}) {
    Tensor state = torch::zeros({3});
    auto fast = tenon::compile(
        [&](Tensor x) {
          state.add_(1);
          return x.sin();
        },
        {.trust = trust, .watch = {state}});
    for (int i = 0; i < 4; ++i) fast(torch::randn({3}));
    StanceScope stance(Stance::fail_on_recompile);
    EXPECT_NO_THROW(fast(torch::randn({3})));
    try {
      fast(torch::randn({5}));
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::recompile) << error.what();
    }
    // The ops before the unknown op have run.
    EXPECT_EQ(state[0].item<float>(), trust == Trust::checked ? 6 : 5);
  }
}

TEST(Control, C10RecompileLimit) {
  auto fast = tenon::compile([](Tensor x) { return x.sin(); }, {.recompile_limit = 2, .dynamic = Dynamic::no});
  for (int size = 1; size < 6; ++size)
    for (int i = 0; i < 3; ++i) fast(torch::randn({size}));
  Explanation why = tenon::explain(fast);
  EXPECT_EQ(why.recorded, 2u) << why;
  EXPECT_EQ(why.plain, 9u) << why;
}

TEST(Control, C10DisabledPartsRunAtOnceAndEnterNoGraph) {
  torch::nn::Linear fc(4, 4);
  Tensor seen;
  auto part = tenon::disable([&](Tensor h) {
    seen = h.exp();
    return seen + 1;
  });
  auto f = [&](Tensor x) { return fc(part(fc(x)) * 2); };
  auto fast = tenon::compile(f);
  for (int i = 0; i < 5; ++i) {
    Tensor x = torch::randn({2, 4});
    Tensor expected = f(x), inside = seen;
    EXPECT_EQ(difference(expected, fast(x)), "");
    EXPECT_EQ(difference(inside, seen), "");
  }
  Explanation why = tenon::explain(fast);
  EXPECT_GT(why.answered, 0u) << why;
  for (const Explanation::Graph& graph : why.graphs) EXPECT_EQ(graph.text.find("aten::exp"), std::string::npos);
}

TEST(Control, C10ResetForgets) {
  for (Trust trust : {Trust::checked, Trust::pure}) {
    auto fast = tenon::compile([](Tensor x) { return x.sin(); }, {.trust = trust});
    for (int i = 0; i < 4; ++i) fast(torch::randn({3}));
    EXPECT_FALSE(tenon::explain(fast).graphs.empty());
    tenon::reset(fast);
    EXPECT_TRUE(tenon::explain(fast).graphs.empty());
    size_t recorded = tenon::explain(fast).recorded;
    fast(torch::randn({3}));
    EXPECT_EQ(tenon::explain(fast).recorded, recorded + 1);
  }
}

TEST(Control, StatsCountTheProcess) {
  Stats before = tenon::stats();
  auto fast = tenon::compile([](Tensor x) { return x.sin(); });
  for (int i = 0; i < 5; ++i) fast(torch::randn({3}));
  Stats after = tenon::stats();
  EXPECT_EQ(after.calls - before.calls, 5u);
  EXPECT_EQ(after.recorded - before.recorded, 1u);
  EXPECT_EQ(after.replayed - before.replayed, 1u);
  EXPECT_EQ(after.answered - before.answered, 3u);
  EXPECT_EQ(after.graphs - before.graphs, 1u);
}

TEST(Control, C13VerifyFindsAWrongGraphAndQuarantinesIt) {
  static const bool registered = [] {
    register_backend("off_by_one", [](const std::string&, Runner op_by_op) -> Runner {
      return [op_by_op](std::vector<Tensor> in) {
        std::vector<Tensor> out = op_by_op(std::move(in));
        out.at(0).view({-1})[1] += 1;
        return out;
      };
    });
    return true;
  }();
  ASSERT_TRUE(registered);
  TemporaryFolder folder;
  setenv("TENON_REPRO_DIR", folder.path().c_str(), 1);
  for (Trust trust : {Trust::checked, Trust::pure}) {
    Tensor state = torch::zeros({3});
    auto f = [](Tensor x, Tensor s) {
      s.add_(x);
      return x.sin() * s;
    };
    auto fast = tenon::compile([&](Tensor x) { return f(x, state); },
                               {.backend = "off_by_one", .trust = trust, .name = "verified", .watch = {state}, .verify = 1});
    size_t quarantined = tenon::stats().quarantined;
    Tensor twin = torch::zeros({3});
    for (int i = 0; i < 6; ++i) {
      Tensor x = torch::randn({3});
      EXPECT_EQ(difference(f(x, twin), fast(x)), "");
      EXPECT_EQ(difference(twin, state), "");
    }
    EXPECT_EQ(tenon::stats().quarantined, quarantined + 1);
    EXPECT_NE(tenon::explain(fast).text().find("is quarantined: output 0"), std::string::npos) << tenon::explain(fast);
  }
  size_t graphs = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path()))
    graphs += entry.path().filename() == "graph.txt" && std::filesystem::exists(entry.path().parent_path() / "inputs.pt");
  EXPECT_EQ(graphs, 2u);
  unsetenv("TENON_REPRO_DIR");
}

TEST(Control, C13VerifySampled) {
  size_t verified = tenon::stats().verified;
  auto fast = tenon::compile([](Tensor x) { return x.sin(); }, {.backend = "aot_eager", .verify = 0.1});
  for (int i = 0; i < 22; ++i) fast(torch::randn({3}));
  EXPECT_EQ(tenon::stats().verified - verified, 2u);
}

}  // namespace tenon::test
