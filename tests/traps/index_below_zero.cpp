// Indices that the host writes between calls: on some of them they are below zero, or too large.
#include "traps/trap.h"

namespace tenon::test {

struct IndexBelowZero : Trap {
  torch::Tensor rows = torch::zeros({4}, torch::kLong);

  void before(int number) override {
    Trap::before(number);
    rows.fill_(number % 3 == 2 ? (number % 2 == 0 ? 99 : -1) : number % 8);
  }
  torch::Tensor body(torch::Tensor x) override { return fc2(torch::embedding(fc->weight, rows)) + x.sum(); }
};
TENON_PROGRAM(IndexBelowZero);

}  // namespace tenon::test
