// The host changes the memory of a from_blob tensor between two ops.
#include "traps/trap.h"

namespace tenon::test {

struct FromBlobRewritten : Trap {
  std::vector<float> values;

  torch::Tensor body(torch::Tensor x) override {
    values.assign(8, static_cast<float>(call));
    auto t = torch::from_blob(values.data(), {8});
    auto a = x + t;
    values.assign(8, -1);
    return fc(a) * t;
  }
};
TENON_PROGRAM(FromBlobRewritten);

}  // namespace tenon::test
