// The program reads an intermediate result twice through a const pointer.
#include "traps/trap.h"

namespace tenon::test {

struct ConstPointerOfIntermediate : Trap {
  torch::Tensor body(torch::Tensor x) override {
    auto h = fc(x);
    const float* p = h.const_data_ptr<float>();
    seen.push_back(p[7]);
    auto y = fc2(h);
    seen.push_back(p[9]);
    return y;
  }
};
TENON_PROGRAM(ConstPointerOfIntermediate);

}  // namespace tenon::test
