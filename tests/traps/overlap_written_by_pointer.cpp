// A second storage over a weight is written through a pointer while an op that reads the weight is deferred.
#include "traps/trap.h"

namespace tenon::test {

struct OverlapWrittenByPointer : Trap {
  torch::Tensor weight = torch::ones({8});
  torch::Tensor over = torch::from_blob(weight.data_ptr<float>(), {8}, [kept = weight](void*) {});

  torch::Tensor body(torch::Tensor x) override {
    torch::NoGradGuard off;
    double sum = over.sum().item<double>();
    auto y = weight * 2;
    over.data_ptr<float>()[0] = static_cast<float>(call);
    return y + sum + x[0];
  }
};
TENON_PROGRAM(OverlapWrittenByPointer);

}  // namespace tenon::test
