// A trap: a program that hides something from every listener. It runs in eager mode and under checked replay; values,
// gradients, state, host reads and the number of runs of its statements must be equal.
#pragma once

#include <vector>

#include "support/program.h"

namespace tenon::test {

struct Trap : Program {
  torch::nn::Linear fc{8, 8}, fc2{8, 8};
  torch::Tensor buffer = torch::zeros({8});
  torch::Tensor kept;        // A tensor that escapes from the call.
  std::vector<double> seen;  // Values that the host read.
  int runs = 0;
  int call = 0;

  virtual torch::Tensor body(torch::Tensor x) = 0;

  Tensors inputs(int shape) override { return {torch::randn({shape ? 6 : 4, 8})}; }
  void before(int index) override { call = index; }
  Tensors run(const Tensors& in) override {
    ++runs;
    return {body(in[0])};
  }
  Tensors parameters() {
    Tensors all = fc->parameters();
    for (auto& p : fc2->parameters()) all.push_back(p);
    return all;
  }
  void clear_gradients() {
    for (auto& p : parameters()) p.mutable_grad().reset();
  }
  std::string never_served() override { return "each call may do something else"; }
  Tensors state() override {
    Tensors all = parameters();
    all.insert(all.end(), {buffer, kept, torch::tensor(seen, torch::kDouble), torch::tensor(runs)});
    return all;
  }
};

}  // namespace tenon::test
