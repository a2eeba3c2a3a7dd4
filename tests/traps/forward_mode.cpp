// Forward-mode AD through a compiled function: results carry the tangents that eager gives them.
#include <ATen/ops/_make_dual.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/forward_grad.h>

#include "support/compare.h"
#include "support/program.h"

namespace tenon::test {
namespace {

struct DualLevel {
  uint64_t index = torch::autograd::ForwardADLevel::get_next_idx();
  ~DualLevel() { torch::autograd::ForwardADLevel::release_idx(index); }
};

void compare_tangents(Trust trust, bool grad_mode) {
  torch::nn::Linear fc(8, 8);
  auto f = [&](torch::Tensor x) { return (fc(x) * 2).sin() + x.view({-1, 8}).exp(); };
  auto fast = tenon::compile(f, {.trust = trust, .watch = {fc}});
  at::AutoGradMode mode(grad_mode);
  for (int i = 0; i < 12; ++i) {
    auto x = torch::randn({4, 8});
    fast(x);  // A call without tangents between those with tangents.
    DualLevel level;
    auto dual = at::_make_dual(x, torch::ones_like(x) * i, level.index);
    auto expected = f(dual), got = fast(dual);
    EXPECT_EQ(difference(expected._fw_grad(level.index), got._fw_grad(level.index)), "") << "call " << i;
    // The base of a view has a tangent.
    auto view = dual.view({8, 4}).t().reshape({4, 8});
    EXPECT_EQ(difference(f(view)._fw_grad(level.index), fast(view)._fw_grad(level.index)), "") << "view, call " << i;
  }
}

}  // namespace

TEST(Traps, C12ForwardModeChecked) { compare_tangents(Trust::checked, true); }
TEST(Traps, C12ForwardModeCheckedNoGrad) { compare_tangents(Trust::checked, false); }
TEST(Traps, C12ForwardModePure) { compare_tangents(Trust::pure, true); }
TEST(Traps, C12ForwardModePureNoGrad) { compare_tangents(Trust::pure, false); }

}  // namespace tenon::test
