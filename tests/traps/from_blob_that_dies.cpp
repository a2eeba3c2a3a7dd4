// A tensor refers to the memory of a vector that is destroyed before the call ends.
#include "traps/trap.h"

namespace tenon::test {

struct FromBlobThatDies : Trap {
  torch::Tensor body(torch::Tensor x) override {
    torch::Tensor h;
    {
      std::vector<float> values(8, 0.5F * static_cast<float>(call));
      h = fc(x + torch::from_blob(values.data(), {8}));
      values.assign(8, 100);
    }
    return fc2(h);
  }
};
TENON_PROGRAM(FromBlobThatDies);

}  // namespace tenon::test
