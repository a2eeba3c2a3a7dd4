// An index that is an argument is out of range on some calls.
#include "traps/trap.h"

namespace tenon::test {

struct IndexFromOutside : Trap {
  torch::Tensor index;

  torch::Tensor body(torch::Tensor x) override {
    buffer.add_(1);
    auto e = torch::embedding(fc->weight, index);
    buffer.add_(10);
    return fc2(e) + x.sum();
  }
  void before(int call_index) override {
    call = call_index;
    index = torch::full({4}, call % 3 == 2 ? 99 : call % 8, torch::kLong);
  }
};
TENON_PROGRAM(IndexFromOutside);

}  // namespace tenon::test
