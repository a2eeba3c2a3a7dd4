// Every program of the corpus is bitwise equal to eager, with every backend.
#include <gtest/gtest.h>

#include "support/program.h"

namespace tenon::test {

class EqualsEager : public testing::Test {
 public:
  EqualsEager(size_t index, std::string backend, Trust trust) : index_(index), backend_(std::move(backend)), trust_(trust) {}
  void TestBody() override { EXPECT_EQ(compare_with_eager(corpus()[index_], backend_, trust_), ""); }

 private:
  size_t index_;
  std::string backend_;
  Trust trust_;
};

void register_corpus() {
  for (size_t i = 0; i < corpus().size(); ++i)
    for (Trust trust : {Trust::checked, Trust::pure})
      for (const std::string& backend : graph_backends()) {
        std::string name = corpus()[i].name + "." + backend + (trust == Trust::pure ? ".pure" : "");
        testing::RegisterTest("Corpus", name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                              [=]() -> testing::Test* { return new EqualsEager(i, backend, trust); });
      }
}

}  // namespace tenon::test

int main(int argc, char** argv) {
  setenv("TENON_CHECK_TEXT", "1", 1);
  setenv("TENON_INTERNAL_ERRORS", "raise", 1);  // A graph that cannot be built fails the test.
  setenv("TENON_CHECK_KERNELS", "1", 1);        // Each kernel is compared with ATen, and the program continues with ATen's results.
  testing::InitGoogleTest(&argc, argv);
  tenon::test::register_corpus();
  return RUN_ALL_TESTS();
}
