// A layer is removed from the middle of the network.
#include "traps/trap.h"

namespace tenon::test {

struct DeletedLayer : Trap {
  std::vector<torch::nn::Linear> layers{torch::nn::Linear(8, 8), torch::nn::Linear(8, 8), torch::nn::Linear(8, 8)};

  torch::Tensor body(torch::Tensor x) override {
    if (call == 5) layers.erase(layers.begin() + 1);
    auto h = x;
    for (auto& layer : layers) h = layer(h).tanh();
    return h;
  }
};
TENON_PROGRAM(DeletedLayer);

}  // namespace tenon::test
