// A trap: a program that hides something from every listener. It runs as it is and under checked
// replay, side by side; values, gradients, state, what the host saw and how often its lines ran
// must be the same.
#pragma once

#include <vector>

#include "support/program.h"

namespace tenon::test {

struct Trap : Program {
  torch::nn::Linear fc{8, 8}, fc2{8, 8};
  torch::Tensor buffer = torch::zeros({8});
  torch::Tensor kept;        // what escapes from the call
  std::vector<double> seen;  // what the host read
  int runs = 0;
  int call = 0;

  virtual torch::Tensor body(torch::Tensor x) = 0;

  Tensors inputs(int shape) override { return {torch::randn({shape ? 6 : 4, 8})}; }
  void before(int number) override { call = number; }
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
