// An index is out of range on some calls.
#include "traps/trap.h"

namespace tenon::test {

struct IndexOutOfRange : Trap {
  torch::Tensor body(torch::Tensor x) override {
    auto rows = torch::full({4}, call % 3 == 2 ? (call % 2 == 0 ? 99 : -1) : call % 8, torch::kLong);
    buffer.add_(1);
    auto e = torch::embedding(fc->weight, rows);
    buffer.add_(10);
    return fc2(e) + x.sum();
  }
};
TENON_PROGRAM(IndexOutOfRange);

}  // namespace tenon::test
