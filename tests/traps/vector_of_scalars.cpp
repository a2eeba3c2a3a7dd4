// The program makes a tensor from a vector that changes.
#include "traps/trap.h"

namespace tenon::test {

struct VectorOfScalars : Trap {
  torch::Tensor body(torch::Tensor x) override {
    std::vector<float> values(8, static_cast<float>(call));
    values[call % 8] = -1;
    return fc(x * torch::tensor(values));
  }
};
TENON_PROGRAM(VectorOfScalars);

}  // namespace tenon::test
