// The model changes its element type.
#include "traps/trap.h"

namespace tenon::test {

struct DtypeOfModel : Trap {
  torch::Tensor body(torch::Tensor x) override {
    auto dtype = call < 4 ? torch::kFloat : torch::kDouble;
    fc->to(dtype);
    fc2->to(dtype);
    return fc2(fc(x.to(dtype)));
  }
};
TENON_PROGRAM(DtypeOfModel);

}  // namespace tenon::test
