// The program seeds the generator itself.
#include "support/program.h"

namespace tenon::test {

struct SeedInside : Program {
  torch::nn::Linear fc{8, 4};

  Tensors inputs(int shape) override { return {torch::randn({shape ? 5 : 3, 8})}; }
  Tensors run(const Tensors& in) override {
    torch::manual_seed(7);
    return {torch::dropout(fc->forward(in[0]), 0.5, true)};
  }
  Tensors state() override { return fc->parameters(); }
  std::string never_served() override { return "seeding the generator is not an op"; }
};
TENON_PROGRAM(SeedInside);

}  // namespace tenon::test
