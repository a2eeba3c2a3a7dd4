// Integers and bools: arithmetic, bitwise ops, comparisons, reductions.
#include "support/program.h"

namespace tenon::test {

struct Integers : Program {
  torch::Tensor seen = torch::zeros({4}, torch::kBool), hits = torch::zeros({4}, torch::kInt);

  Tensors inputs(int shape) override { return {torch::randint(-9, 9, {shape ? 5 : 3, 4}), torch::randint(1, 5, {4}, torch::kInt)}; }
  Tensors run(const Tensors& in) override {
    auto a = torch::floor_divide(in[0], in[1]), b = torch::remainder(in[0], in[1]), c = in[0].bitwise_and(6).bitwise_xor(in[1]);
    auto even = b.eq(0);
    seen.logical_or_(even.any(0));
    hits.add_(even.sum(0));
    return {a * 3 - c, even.all(), even.logical_not(), in[0].cumsum(0), in[0].argmax(1), in[0] / 2, in[0].to(torch::kByte), hits + seen};
  }
  Tensors state() override { return {seen, hits}; }
};
TENON_PROGRAM(Integers);

}  // namespace tenon::test
