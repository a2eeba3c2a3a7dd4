// State that capture cannot see never causes a stale result, with grad mode on or off.
#include <gtest/gtest.h>

#include "support/program.h"

namespace tenon::test {

class TrapTest : public testing::Test {
 public:
  TrapTest(size_t index, std::string backend, bool grad_mode) : index_(index), backend_(std::move(backend)), grad_mode_(grad_mode) {}
  void TestBody() override {
    at::AutoGradMode mode(grad_mode_);
    EXPECT_EQ(compare_with_eager(corpus()[index_], backend_, Trust::checked), "");
  }

 private:
  size_t index_;
  std::string backend_;
  bool grad_mode_;
};

}  // namespace tenon::test

int main(int argc, char** argv) {
  setenv("TENON_CHECK_TEXT", "1", 1);
  setenv("TENON_INTERNAL_ERRORS", "raise", 1);  // A graph that cannot be built fails the test.
  setenv("TENON_CHECK_KERNELS", "1", 1);        // Each kernel run is compared with ATen, and the program continues with ATen's results.
  testing::InitGoogleTest(&argc, argv);
  using namespace tenon::test;
  for (size_t i = 0; i < corpus().size(); ++i)
    for (const std::string& backend : graph_backends())
      for (bool grad_mode : {true, false}) {
        std::string name = corpus()[i].name + "." + backend + (grad_mode ? "" : ".no_grad");
        testing::RegisterTest("Traps", name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                              [=]() -> testing::Test* { return new TrapTest(i, backend, grad_mode); });
      }
  return RUN_ALL_TESTS();
}
