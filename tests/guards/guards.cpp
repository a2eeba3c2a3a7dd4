// Each guard is needed. Every entry of guards.def has a test case here whose result equals eager's with
// the guard and differs without it.
#include <ATen/autocast_mode.h>
#include <ATen/Context.h>
#include <gtest/gtest.h>
#include <tenon/compile.h>
#include <torch/csrc/autograd/forward_grad.h>
#include <torch/torch.h>

#include <map>

#include "capture/guards.h"
#include "support/compare.h"

namespace tenon::test {
namespace {

using capture::GuardKind;
using torch::Tensor;

// Graphs run on arguments that do not match them here, if a guard is switched off. Therefore the backend is aot_eager, which accepts
// any sizes.

// Calls a function with the same arguments under two settings: `setting(true, call)` runs `call` under the second one. Returns
// whether the compiled result under the second setting equals eager's.
template <class F, class Make>
bool under(F function, Make make, const std::function<void(bool, const std::function<void()>&)>& setting) {
  auto fast = tenon::compile(function, {.backend = "aot_eager", .trust = Trust::pure});
  Tensor expected, got, x = make();
  for (int i = 0; i < 3; ++i) setting(false, [&] { fast(x); });
  setting(true, [&] { expected = function(x); });
  setting(true, [&] { got = fast(x); });
  return difference(expected, got).empty();
}

Tensor x34() { return torch::arange(12, torch::kFloat).view({3, 4}) / 7; }

bool grad_mode() {
  Tensor w = torch::ones({4}).requires_grad_();
  return under([w](Tensor x) { return x * w; }, x34,
               [](bool second, const std::function<void()>& call) {
                 torch::AutoGradMode mode(!second);
                 call();
               });
}

bool inference_mode() {
  auto function = [](Tensor x) {
    c10::InferenceMode inside;
    return x + 1;
  };
  return under(function, x34, [](bool second, const std::function<void()>& call) {
    std::optional<c10::InferenceMode> mode;
    if (!second) mode.emplace();
    torch::NoGradGuard no_grad;
    call();
  });
}

bool autocast() {
  return under([](Tensor x) { return torch::mm(x, x.t()); }, x34,
               [](bool second, const std::function<void()>& call) {
                 at::autocast::set_autocast_enabled(at::kCPU, second);
                 at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
                 call();
                 at::autocast::set_autocast_enabled(at::kCPU, false);
               });
}

bool default_dtype() {
  auto function = [](Tensor x) { return x.to(c10::get_default_dtype_as_scalartype()) / 3; };
  bool same = under(function, x34, [](bool second, const std::function<void()>& call) {
    torch::set_default_dtype(second ? caffe2::TypeMeta::Make<double>() : caffe2::TypeMeta::Make<float>());
    call();
    torch::set_default_dtype(caffe2::TypeMeta::Make<float>());
  });
  return same;
}

bool settings() {
  auto function = [](Tensor x) {
    auto h = torch::sin(x.view({1, 1, 3, 4}) * 37);
    return torch::scaled_dot_product_attention(h, h * 3, h + 1);
  };
  return under(function, x34, [](bool second, const std::function<void()>& call) {
    at::globalContext().setSDPUseFlash(!second);
    call();
    at::globalContext().setSDPUseFlash(true);
  });
}

// Calls one function with two sets of arguments. Returns whether the compiled result for the second set equals eager's.
template <class F, class A, class B>
bool with_arguments(F function, A first, B second) {
  auto fast = tenon::compile(function, {.backend = "aot_eager", .trust = Trust::pure});
  for (int i = 0; i < 3; ++i) std::apply(fast, first());
  try {
    auto for_eager = second(), for_fast = second();
    Tensor expected = std::apply(function, for_eager), got = std::apply(fast, for_fast);
    return difference(expected, got).empty();
  } catch (const std::exception&) {
    return false;
  }
}

bool structure() {
  auto function = [](std::vector<Tensor> list) {
    Tensor sum = list[0];
    for (size_t i = 1; i < list.size(); ++i) sum = sum + list[i];
    return sum * 2;
  };
  return with_arguments(
      function,
      [] {
        return std::make_tuple(std::vector<Tensor>{x34(), x34()});
      },
      [] {
        return std::make_tuple(std::vector<Tensor>{x34(), x34(), x34()});
      });
}

bool scalar() {
  return with_arguments([](Tensor x, double s) { return x * s; }, [] { return std::make_tuple(x34(), 2.0); },
                        [] { return std::make_tuple(x34(), 3.0); });
}

bool text() {
  auto function = [](Tensor x, std::string how) { return how == "sin" ? x.sin() : x.cos(); };
  return with_arguments(
      function, [] { return std::make_tuple(x34(), std::string("sin")); }, [] { return std::make_tuple(x34(), std::string("cos")); });
}

bool defined() {
  auto function = [](Tensor x, Tensor bias) { return bias.defined() ? x + bias : x * 2; };
  return with_arguments(
      function, [] { return std::make_tuple(x34(), Tensor()); },
      [] {
        return std::make_tuple(x34(), torch::ones({3, 4}));
      });
}

bool dtype() {
  auto function = [](Tensor x) { return x.scalar_type() == torch::kDouble ? x * 2 : x * 3; };
  return with_arguments(
      function, [] { return std::make_tuple(x34()); }, [] { return std::make_tuple(x34().to(torch::kDouble)); });
}

bool sizes() {
  return with_arguments([](Tensor x) { return x * x.size(0); }, [] { return std::make_tuple(x34()); },
                        [] {
                          return std::make_tuple(torch::ones({2, 4}));
                        });
}

bool strides() {
  auto function = [](Tensor x) { return x.is_contiguous() ? x * 2 : x * 3; };
  return with_arguments(
      function, [] { return std::make_tuple(x34()); }, [] { return std::make_tuple(x34().t().contiguous().t()); });
}

bool offset() {
  auto function = [](Tensor x) { return torch::as_strided(x, {2}, {1}, 1) * 2; };
  return with_arguments(
      function, [] { return std::make_tuple(x34()[0]); }, [] { return std::make_tuple(x34()[1]); });
}

bool requires_grad() {
  return with_arguments([](Tensor x) { return x * 2; }, [] { return std::make_tuple(x34()); },
                        [] { return std::make_tuple(x34().requires_grad_()); });
}

bool leaf() {
  auto function = [](Tensor x) { return x.is_leaf() ? x * 2 : x * 3; };
  return with_arguments(
      function, [] { return std::make_tuple(x34().requires_grad_()); }, [] { return std::make_tuple(x34().requires_grad_() * 1); });
}

bool kind() {
  torch::NoGradGuard no_grad;
  auto function = [](Tensor x) { return x.is_inference() ? x * 2 : x * 3; };
  auto made_inside = [] {
    c10::InferenceMode inside;
    return std::make_tuple(x34() + 0);
  };
  return with_arguments(
      function, [] { return std::make_tuple(x34()); }, made_inside);
}

bool alias() {
  auto function = [](Tensor a, Tensor b) {
    a.add_(1);
    return a + b;
  };
  auto same = [] {
    Tensor x = x34();
    return std::make_tuple(x, x);
  };
  return with_arguments(function, same, [] { return std::make_tuple(x34(), x34() * 3); });
}

bool tangent() {
  torch::NoGradGuard no_grad;
  auto function = [](Tensor x) { return x * x; };
  auto fast = tenon::compile(function, {.backend = "aot_eager", .trust = Trust::pure});
  for (int i = 0; i < 3; ++i) fast(x34());
  uint64_t level = torch::autograd::ForwardADLevel::get_next_idx();
  Tensor dual = at::_make_dual(x34(), torch::ones({3, 4}), level);
  bool same = difference(function(dual)._fw_grad(level), fast(dual)._fw_grad(level)).empty();
  torch::autograd::ForwardADLevel::release_idx(level);
  return same;
}

bool watched() {
  torch::nn::Dropout dropout(0.5);
  dropout->train();
  auto fast = tenon::compile(dropout, {.backend = "aot_eager", .trust = Trust::pure});
  for (int i = 0; i < 3; ++i) fast(x34());
  dropout->eval();
  return difference(dropout->forward(x34()), fast(x34())).empty();
}

bool gradient() {
  auto run = [](Tensor w, Tensor x) {
    (x * w).sum().backward();
    return x * 1;
  };
  auto gradient_after = [&](bool compiled) {
    Tensor w = torch::ones({3, 4}).requires_grad_();
    auto fast = tenon::compile(run, {.backend = "aot_eager", .trust = Trust::pure});
    for (int i = 0; i < 4; ++i) {
      w.mutable_grad().reset();
      if (i == 3) w.mutable_grad() = torch::ones({3, 4}) * 5;
      if (compiled) fast(w, x34());
      else run(w, x34());
    }
    return w.grad();
  };
  return difference(gradient_after(false), gradient_after(true)).empty();
}

const std::map<GuardKind, bool (*)()> kCases = {
#define TENON_GUARD(name, what) {GuardKind::name, &name},
#include "capture/guards.def"
#undef TENON_GUARD
};

}  // namespace

// A sparse tensor has no storage that a guard could compare.
TEST(Guards, SparseArgumentBesideAWrite) {
  torch::NoGradGuard no_grad;
  Tensor state = torch::zeros({3}), plain = torch::zeros({3});
  auto step = [](Tensor into, Tensor a, Tensor x) { return into.add_(torch::mv(a, x)) * 2; };
  auto fast = tenon::compile([&](Tensor a, Tensor x) { return step(state, a, x); }, {.trust = Trust::pure, .watch = {state}});
  Tensor sparse = torch::eye(3).to_sparse();
  for (int i = 0; i < 5; ++i) {
    Tensor x = torch::randn({3});
    EXPECT_EQ(difference(step(plain, sparse, x), fast(sparse, x)), "");
  }
}

TEST(Guards, EachIsNeeded) {
  for (auto& [kind, equal] : kCases) {
    EXPECT_TRUE(equal()) << guard_name(kind) << ": wrong with all guards on";
    capture::disable_guard(kind, true);
    EXPECT_FALSE(equal()) << guard_name(kind) << ": nothing goes wrong without it";
    capture::disable_guard(kind, false);
  }
}

}  // namespace tenon::test
