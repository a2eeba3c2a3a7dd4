// A graph break costs a call only the storing of return addresses; source lines are looked up by explain.
#include <gtest/gtest.h>
#include <tenon/compile.h>
#include <tenon/inspect.h>
#include <torch/torch.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "support/folder.h"

namespace tenon::test {
namespace {

using torch::Tensor;

// Puts a command of this name first on the PATH; the command creates a file when it runs.
class Impostor {
 public:
  explicit Impostor(const std::string& command) : path_(std::getenv("PATH")) {
    std::filesystem::path file = folder_.path() / command;
    std::ofstream(file) << "#!/bin/sh\necho ran >> " << mark() << "\n";
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    setenv("PATH", (folder_.path().string() + ":" + path_).c_str(), 1);
  }
  ~Impostor() { setenv("PATH", path_.c_str(), 1); }
  bool has_run() const { return std::filesystem::exists(mark()); }

 private:
  std::string mark() const { return (folder_.path() / "mark").string(); }
  TemporaryFolder folder_;
  std::string path_;
};

float reads_on_one_line(Tensor x) { return x.sum().item<float>(); }

}  // namespace

TEST(Breaks, ACallAsksForNoSourceLines) {
  for (Trust trust : {Trust::checked, Trust::pure}) {
    auto fast = tenon::compile(
        [](Tensor x) {
          float all = x.sum().item<float>();
          return x * all + x.max().item<float>();
        },
        {.trust = trust});
    Impostor addr2line("addr2line");
    for (int i = 0; i < 4; ++i) fast(torch::ones({3}));
    EXPECT_FALSE(addr2line.has_run());
    EXPECT_GE(tenon::explain(fast).breaks.size(), 1u);
    EXPECT_TRUE(addr2line.has_run());
  }
}

TEST(Breaks, OneLineReachedInTwoWaysIsOneBreak) {
  auto fast = tenon::compile([](Tensor x) {
    float first = reads_on_one_line(x);
    Tensor h = x * first;
    return h * reads_on_one_line(h);
  });
  for (int i = 0; i < 3; ++i) fast(torch::ones({3}));
  Explanation why = tenon::explain(fast);
  ASSERT_EQ(why.breaks.size(), 1u) << why;
  EXPECT_EQ(why.breaks[0].count, 2u) << why;
  EXPECT_NE(why.breaks[0].where.find("breaks.cpp:"), std::string::npos) << why;
}

}  // namespace tenon::test
