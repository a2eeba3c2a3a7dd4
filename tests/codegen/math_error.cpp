// Largest error of every f32 math function of generated code, in units in the last place, against
// libm's f64 functions. By default all bf16 and f16 numbers and every 4,099th f32 number; --all takes
// all 2^32. `--op NAME` and `--tier NAME` select. Exit 1 if a function is off by more than 1.5 units or
// treats NaN, infinity or the sign of zero in another way than C.
//
//   math_error [--all] [--op exp] [--tier avx512] [--sleef libtorch_cpu.so]
#include <dlfcn.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/halves.h"
#include "codegen/codegen.h"
#include "ir/loop/parse.h"

namespace tenon {
namespace {

using codegen::Tier;
using ir::loop::Op;

constexpr double kBound = 1.5;
struct Function {
  Op op;
  double (*exact)(double);
};
double log_gamma(double x) {
  int sign;
  return lgamma_r(x, &sign);
}
constexpr Function kFunctions[] = {{Op::exp, exp},     {Op::exp2, exp2},       {Op::expm1, expm1}, {Op::log, log},     {Op::log2, log2},
                                   {Op::log10, log10}, {Op::log1p, log1p},     {Op::sin, sin},     {Op::cos, cos},     {Op::tan, tan},
                                   {Op::asin, asin},   {Op::acos, acos},       {Op::atan, atan},   {Op::sinh, sinh},   {Op::cosh, cosh},
                                   {Op::tanh, tanh},   {Op::asinh, asinh},     {Op::acosh, acosh}, {Op::atanh, atanh}, {Op::erf, erf},
                                   {Op::erfc, erfc},   {Op::lgamma, log_gamma}};

struct Worst {
  double units = 0;
  float at = 0, got = 0;
  double expected = 0;
};

double unit_of(double x) {
  int exponent = std::max(std::ilogb(x), -126);
  return std::ldexp(1.0, exponent - 23);
}

// How far `got` is from `expected`; infinite if it is of another kind.
double units(float got, double expected) {
  if (std::bit_cast<uint32_t>(got) == std::bit_cast<uint32_t>(static_cast<float>(expected))) return 0.5;  // at most
  constexpr double kOther = std::numeric_limits<double>::infinity();
  if (std::isnan(expected) || std::isnan(got)) return std::isnan(expected) && std::isnan(got) ? 0 : kOther;
  if (std::isinf(expected)) return got == expected ? 0 : kOther;
  if (expected == 0) return got == 0 && std::signbit(got) == std::signbit(expected) ? 0 : kOther;
  if (std::fabs(expected) < 0x1p-126 && got == 0) return 0;
  double value = std::isinf(got) ? std::copysign(0x1p128, got) : got;
  if (std::fabs(expected) > 0x1p128) return std::isinf(got) && (got > 0) == (expected > 0) ? 0 : kOther;
  return std::fabs(value - expected) / unit_of(expected);
}

std::shared_ptr<const codegen::Code> compile(Op op, Tier tier) {
  std::string text = std::string("kernel f(in p0: f32, out p1: f32; sizes n0) {\n parallel i0 < n0 {\n  %0 = load p0[i0]\n  %1 = ") +
                     ir::loop::op_name(op) + " f32 %0\n  store p1[i0] %1\n }\n}\n";
  return codegen::compile(ir::loop::parse_kernel(text), tier);
}

// Feeds pieces of numbers through all tiers at once, since libm is the slow part.
class Comparison {
 public:
  Comparison(const Function& function, std::vector<Tier> tiers) : exact_(function.exact), tiers_(std::move(tiers)), worst(tiers_.size()) {
    for (Tier tier : tiers_) code_.push_back(compile(function.op, tier));
  }

  void add(float x) {
    x_.push_back(x);
    if (x_.size() == 4096) flush();
  }

  void flush() {
    std::vector<double> expected;
    for (float x : x_) expected.push_back(exact_(x));
    std::vector<float> y(x_.size());
    int64_t sizes[] = {static_cast<int64_t>(x_.size())};
    for (size_t t = 0; t < tiers_.size(); ++t) {
      void* buffers[] = {x_.data(), y.data()};
      abi::KernelArguments arguments{buffers, sizes, nullptr};
      code_[t]->run(0, sizes[0], &arguments);
      for (size_t i = 0; i < y.size(); ++i) {
        double off = units(y[i], expected[i]);
        if (off > worst[t].units) worst[t] = {off, x_[i], y[i], expected[i]};
      }
    }
    x_.clear();
  }

 private:
  double (*exact_)(double);
  std::vector<Tier> tiers_;
  std::vector<std::shared_ptr<const codegen::Code>> code_;
  std::vector<float> x_;

 public:
  std::vector<Worst> worst;
};

int run(bool all, const std::string& only_op, const std::string& only_tier) {
  std::vector<Tier> tiers;
  for (Tier tier : codegen::kTiers)
    if (tier <= codegen::best_tier() && (only_tier.empty() || only_tier == tier_name(tier))) tiers.push_back(tier);
  std::printf("%-8s", "");
  for (Tier tier : tiers) std::printf(" %10s", tier_name(tier));
  std::printf("\n");
  bool is_good = true;
  for (const Function& function : kFunctions) {
    if (!only_op.empty() && only_op != ir::loop::op_name(function.op)) continue;
    Comparison comparison(function, tiers);
    for (uint32_t bits = 0; bits <= 0xffff && !all; ++bits) {
      comparison.add(bf16_to_float(static_cast<uint16_t>(bits)));
      comparison.add(f16_to_float(static_cast<uint16_t>(bits)));
    }
    for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += all ? 1 : 4099)
      comparison.add(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    comparison.flush();
    std::printf("%-8s", ir::loop::op_name(function.op));
    for (const Worst& worst : comparison.worst) std::printf(" %10.3f", worst.units);
    for (const Worst& worst : comparison.worst) {
      if (worst.units <= kBound) continue;
      is_good = false;
      std::printf("  (%a = %.9g gives %.9g, not %.17g)", worst.at, worst.at, worst.got, worst.expected);
    }
    std::printf("\n");
    std::fflush(stdout);
  }
  return is_good ? 0 : 1;
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  bool all = false;
  std::string op, tier;
  for (int i = 1; i < argc; ++i) {
    std::string flag = argv[i];
    if (flag == "--all") all = true;
    else if (flag == "--op" && i + 1 < argc) op = argv[++i];
    else if (flag == "--tier" && i + 1 < argc) tier = argv[++i];
    else if (flag == "--sleef" && i + 1 < argc) {
      if (!dlopen(argv[++i], RTLD_NOW | RTLD_GLOBAL)) return std::fprintf(stderr, "%s\n", dlerror()), 2;
    } else return std::fprintf(stderr, "usage: math_error [--all] [--op NAME] [--tier NAME] [--sleef LIBRARY]\n"), 2;
  }
  return tenon::run(all, op, tier);
}
