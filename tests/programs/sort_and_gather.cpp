// Sorting and gathering by indices, with gradients through the values.
#include "support/program.h"

namespace tenon::test {

struct SortAndGather : Program {
  torch::nn::Linear fc{8, 6};

  Tensors inputs(int shape) override { return {torch::randn({shape ? 5 : 3, 8}), torch::randint(0, 6, {shape ? 5 : 3, 4})}; }
  Tensors run(const Tensors& in) override {
    auto h = fc->forward(in[0]);
    auto [sorted, order] = h.sort(1);
    auto [top, where] = h.topk(2, 1);
    auto gathered = h.gather(1, in[1]);
    auto sums = torch::zeros_like(h).scatter_add(1, in[1], gathered * 2);
    auto [best, at] = h.cummax(1);
    return {sorted.cumsum(1), order, top, where, sums, best, at, h.index_select(1, where[0]), h.index_add(1, where[0], top)};
  }
  Tensors state() override { return fc->parameters(); }
};
TENON_PROGRAM(SortAndGather);

}  // namespace tenon::test
