// A scope of bfloat16 autocast inside the program; the loss is computed outside of it.
#include <ATen/autocast_mode.h>

#include "support/program.h"

namespace tenon::test {

struct AutocastInside : Program {
  torch::nn::Linear first{8, 16}, second{16, 4};

  Tensors inputs(int shape) override { return {torch::randn({shape ? 5 : 3, 8})}; }
  Tensors run(const Tensors& in) override {
    bool enabled = at::autocast::is_autocast_enabled(at::kCPU);
    at::autocast::set_autocast_enabled(at::kCPU, true);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    auto h = second->forward(torch::gelu(first->forward(in[0])));
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, enabled);
    return {h.to(torch::kFloat).pow(2).mean(), torch::mm(in[0], in[0].t())};
  }
  Tensors state() override { return {first->weight, first->bias, second->weight, second->bias}; }
};
TENON_PROGRAM(AutocastInside);

}  // namespace tenon::test
