// Factorizations and solves with gradients.
#include "support/program.h"

namespace tenon::test {

struct LinearAlgebra : Program {
  torch::Tensor w = torch::randn({4, 4}).requires_grad_();

  Tensors inputs(int shape) override { return {torch::randn({4, shape ? 5 : 3})}; }
  Tensors run(const Tensors& in) override {
    auto spd = torch::mm(w, w.t()) + 4 * torch::eye(4);
    auto factor = torch::linalg_cholesky(spd);
    return {torch::linalg_solve(spd, in[0]), torch::logdet(spd), torch::tril(factor).diagonal().clone().log().sum(), torch::inverse(spd)};
  }
  Tensors state() override { return {w}; }
};
TENON_PROGRAM(LinearAlgebra);

}  // namespace tenon::test
