// Messages on stderr: names, internal errors, the recompile limit, long compilations.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <tenon/compile.h>
#include <tenon/control.h>
#include <tenon/inspect.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "build/build_error.h"
#include "driver/compile_notice.h"
#include "driver/internal_errors.h"
#include "ir/graph/parse.h"

namespace tenon::test {
namespace {

using torch::Tensor;

bool has_native() {
  std::vector<std::string> all = backends();
  return std::find(all.begin(), all.end(), "native") != all.end();
}

template <class F>
std::string stderr_of(F&& f) {
  testing::internal::CaptureStderr();
  f();
  return testing::internal::GetCapturedStderr();
}

size_t count(const std::string& text, const std::string& substring) {
  size_t found = 0;
  for (size_t at = 0; (at = text.find(substring, at)) != std::string::npos; at += substring.size()) ++found;
  return found;
}

void expect_substrings(const std::string& text, const std::vector<std::string>& substrings) {
  for (const std::string& substring : substrings)
    EXPECT_NE(text.find(substring), std::string::npos) << substring << "\nis not in\n" << text;
}

// A backend that cannot build anything.
void register_broken_backend() {
  static bool once =
      (register_backend("broken", [](const std::string&, Runner) -> Runner { throw std::runtime_error("out of order"); }), true);
  (void)once;
}

}  // namespace

TEST(Warnings, ANameMayBeAnyText) {
  if (!has_native()) GTEST_SKIP() << "a build without code generation";
  for (const char* name : {"whole step", "schritt für schritt", "", "a/b: {c}"})
    for (Trust trust : {Trust::checked, Trust::pure}) {
      auto fast = tenon::compile([](Tensor x) { return (x * 2 + 1).sigmoid(); }, {.trust = trust, .name = name});
      for (int i = 0; i < 4; ++i) fast(torch::randn({8}));
      Explanation why = tenon::explain(fast);
      EXPECT_EQ(why.name, name);
      EXPECT_TRUE(why.obstacles.empty()) << why;
      ASSERT_EQ(why.graphs.size(), 1u) << why;
      EXPECT_EQ(why.graphs[0].kernels.size(), 1u) << why;
    }
}

TEST(Warnings, AFailedBuildIsToldOnce) {
  register_broken_backend();
  for (Trust trust : {Trust::checked, Trust::pure}) {
    auto fast = tenon::compile([](Tensor x) { return x * 2 + 1; }, {.backend = "broken", .trust = trust, .name = "twice as much"});
    size_t before = tenon::stats().internal_errors;
    std::string said = stderr_of([&] {
      for (int i = 0; i < 6; ++i) {
        Tensor x = torch::randn({3});
        try {
          EXPECT_TRUE(fast(x).equal(x * 2 + 1));
        } catch (const InternalError&) {  // Thrown if TENON_INTERNAL_ERRORS=raise.
        }
      }
    });
    EXPECT_GE(tenon::stats().internal_errors, before + 1);
    if (std::getenv("TENON_INTERNAL_ERRORS")) continue;
    EXPECT_EQ(count(said, "tenon: "), 1u) << said;
    expect_substrings(said, {"'twice as much'", "backend 'broken' failed: out of order", "OnInternalError::raise"});
    expect_substrings(tenon::explain(fast).text(), {"out of order"});
  }
}

TEST(Warnings, AFailedBuildCanBeAnExceptionOrIgnored) {
  register_broken_backend();
  for (Trust trust : {Trust::checked, Trust::pure}) {
    Tensor state = torch::zeros({3});
    auto body = [&](Tensor x) {
      state.add_(1);
      return x * 2 + state;
    };
    auto raises = tenon::compile(body, {.backend = "broken", .trust = trust, .on_internal_error = OnInternalError::raise});
    bool raised = false;
    for (int i = 0; i < 4; ++i) {
      try {
        raises(torch::randn({3}));
      } catch (const InternalError& error) {
        raised = true;
        expect_substrings(error.what(), {"backend 'broken' failed"});
      }
      EXPECT_EQ(state[0].item<float>(), i + 1);  // The program has run exactly once.
    }
    EXPECT_TRUE(raised);
    auto silent = tenon::compile(body, {.backend = "broken", .trust = trust, .on_internal_error = OnInternalError::ignore});
    std::string said = stderr_of([&] {
      for (int i = 0; i < 4; ++i) silent(torch::randn({3}));
    });
    EXPECT_EQ(said, "");
    expect_substrings(tenon::explain(silent).text(), {"out of order"});
  }
}

TEST(Warnings, AFaultOfOursNamesTheFileAndTheCommand) {
  ir::Graph graph = ir::parse("graph @whole_step {\n  input %0 : f32[2] argument \"x\"\n  return %0\n}\n");
  Options options{.name = "whole step"};
  driver::InternalErrors errors(options);
  std::string report;
  std::string said = stderr_of([&] { report = errors.note(build::BuildError(graph, /*keeps_weights=*/true, "a pass broke it")); });
  expect_substrings(report, {"a pass broke it", "`tenon-opt --all --kernels --keeps-weights ", "whole_step", ".ir`"});
  if (!std::getenv("TENON_INTERNAL_ERRORS")) expect_substrings(said, {"'whole step'", report});
  size_t begin = report.find("--keeps-weights ") + 16, end = report.find('`', begin);
  std::ifstream file(report.substr(begin, end - begin));
  std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(ir::parse(text).name, "whole_step") << report;
  std::remove(report.substr(begin, end - begin).c_str());
}

// The integer is a constant of the op, so each value is another program.
TEST(Warnings, TheRecompileLimitIsToldOnceChecked) {
  int64_t shift = 0;
  auto fast = tenon::compile([&](Tensor x) { return torch::roll(x, {shift}, {0}); },
                             {.name = "rolls", .recompile_limit = 3, .dynamic = Dynamic::no});
  std::string said = stderr_of([&] {
    for (shift = 1; shift < 8; ++shift) EXPECT_TRUE(fast(torch::arange(9.0)).equal(torch::roll(torch::arange(9.0), {shift}, {0})));
  });
  EXPECT_EQ(count(said, "tenon: "), 1u) << said;
  expect_substrings(said, {"'rolls' has reached its recompile_limit of 3", "run eagerly", "aten::roll", "Options::recompile_limit"});
}

TEST(Warnings, TheRecompileLimitIsToldOncePure) {
  auto fast =
      tenon::compile([](Tensor x) { return x * 2; }, {.trust = Trust::pure, .name = "grows", .recompile_limit = 3, .dynamic = Dynamic::no});
  std::string said = stderr_of([&] {
    for (int size = 1; size < 9; ++size) fast(torch::ones({size}));
  });
  EXPECT_EQ(count(said, "tenon: "), 1u) << said;
  expect_substrings(said, {"'grows' has reached its recompile_limit of 3", "Guard 'sizes' failed", "argument 0", "Pad arguments"});
}

// The start does not follow from a size, so that each start has its own graph for all sizes.
TEST(Warnings, TooManyGraphsForDifferentSizesAreToldOnce) {
  int64_t start = 0;
  auto fast = tenon::compile([&](Tensor x) { return x.narrow(0, start, 2) * 2; }, {.name = "parts"});
  std::string said = stderr_of([&] {
    for (int64_t step = 0; step < 40; ++step)
      for (int64_t size : {31, 43, 57}) {
        start = (step * 7) % 29;
        Tensor x = torch::arange(size);
        EXPECT_TRUE(fast(x).equal(x.narrow(0, start, 2) * 2));
      }
  });
  EXPECT_EQ(count(said, "tenon: "), 1u) << said;
  expect_substrings(said, {"'parts' has 8 graphs for different sizes", "Options::specialise", "tenon::explain"});
}

TEST(Warnings, NothingIsToldBelowTheLimit) {
  auto fast = tenon::compile([](Tensor x) { return x * 2; }, {.trust = Trust::pure, .recompile_limit = 3});
  std::string said = stderr_of([&] {
    for (int i = 0; i < 9; ++i) fast(torch::ones({1 + i % 3}));
  });
  EXPECT_EQ(said, "");
}

// The notice is printed to a pseudo terminal.
TEST(Warnings, ALongCompileIsToldWhileItRuns) {
  int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0) GTEST_SKIP() << "no pseudo terminals here";
  int there = open(ptsname(terminal), O_RDWR | O_NOCTTY), before = dup(STDERR_FILENO);
  ASSERT_GE(there, 0);
  dup2(there, STDERR_FILENO);
  auto compile = [](bool quiet, int milliseconds) {
    Options options{.name = "whole step", .quiet = quiet};
    driver::CompileNotice notice(options, 5000, std::chrono::milliseconds(30));
    usleep(static_cast<useconds_t>(1000 * milliseconds));
  };
  compile(/*quiet=*/true, 60);
  compile(/*quiet=*/false, 0);
  compile(/*quiet=*/false, 90);
  std::fflush(stderr);
  dup2(before, STDERR_FILENO);
  std::string said;
  char buffer[1024];
  fcntl(terminal, F_SETFL, O_NONBLOCK);
  for (ssize_t length; (length = read(terminal, buffer, sizeof buffer)) > 0;) said.append(buffer, static_cast<size_t>(length));
  for (int descriptor : {terminal, there, before}) close(descriptor);
  expect_substrings(said, {"tenon: compiling 'whole step', 5000 ops: 0 s", "took 0.1 s"});
  EXPECT_EQ(count(said, "took"), 1u) << said;
}

}  // namespace tenon::test
