// Measures the largest error of every f32 math function of generated code in ulp, compared with libm's
// f64 functions (0.500 means correctly rounded). By default it tests all bf16 and f16 numbers and every
// 4,099th f32 number, with --all all 2^32. It exits with 1 if an error is above 1.5 ulp, or if NaN,
// infinity or the sign of zero differ from C.
//
//   math_error [--all] [--op exp] [--tier avx512] [--sleef libtorch_cpu.so]
#include <dlfcn.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <random>
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
  float x = 0, y = 0, got = 0;
  double expected = 0;
};

double unit_of(double x) {
  int exponent = std::max(std::ilogb(x), -126);
  return std::ldexp(1.0, exponent - 23);
}

// Returns the error of `got` in ulp; infinite if one is NaN, infinite or a signed zero and the other is not.
double units(float got, double expected) {
  if (std::bit_cast<uint32_t>(got) == std::bit_cast<uint32_t>(static_cast<float>(expected))) return 0.5;  // The error is at most this.
  constexpr double kOther = std::numeric_limits<double>::infinity();
  if (std::isnan(expected) || std::isnan(got)) return std::isnan(expected) && std::isnan(got) ? 0 : kOther;
  if (std::isinf(expected)) return got == expected ? 0 : kOther;
  if (expected == 0) return got == 0 && std::signbit(got) == std::signbit(expected) ? 0 : kOther;
  if (std::fabs(expected) < 0x1p-126 && got == 0) return 0;
  double value = std::isinf(got) ? std::copysign(0x1p128, got) : got;
  if (std::fabs(expected) > 0x1p128) return std::isinf(got) && (got > 0) == (expected > 0) ? 0 : kOther;
  return std::fabs(value - expected) / unit_of(expected);
}

struct PairFunction {
  Op op;
  double (*exact)(double, double);
};
constexpr PairFunction kPairFunctions[] = {{Op::atan2, atan2}, {Op::pow, pow}, {Op::fmod, fmod}};

std::shared_ptr<const codegen::MachineCode> compile(Op op, Tier tier) {
  bool has_two = ir::loop::op_arity(op) == 2;
  std::string text = std::string("kernel f(in p0: f32, in p1: f32, out p2: f32; sizes n0) {\n parallel i0 < n0 {\n") +
                     "  %0 = load p0[i0]\n  %1 = load p1[i0]\n  %2 = " + ir::loop::op_name(op) + (has_two ? " f32 %0 %1" : " f32 %0") +
                     "\n  store p2[i0] %2\n }\n}\n";
  return codegen::compile(ir::loop::parse_kernel(text), tier);
}

// Runs batches of numbers through all tiers at once, since libm is the slow part. Unary functions ignore
// the second operand.
class Comparison {
 public:
  using Exact = std::function<double(double, double)>;
  Comparison(Op op, Exact exact, const std::vector<Tier>& tiers) : worst(tiers.size()), exact_(std::move(exact)) {
    for (Tier tier : tiers) code_.push_back(compile(op, tier));
  }

  void add(float x, float y = 0) {
    x_.push_back(x);
    y_.push_back(y);
    if (x_.size() == 4096) flush();
  }

  void flush() {
    std::vector<double> expected;
    for (size_t i = 0; i < x_.size(); ++i) expected.push_back(exact_(x_[i], y_[i]));
    std::vector<float> got(x_.size());
    int64_t sizes[] = {static_cast<int64_t>(x_.size())};
    for (size_t t = 0; t < code_.size(); ++t) {
      void* buffers[] = {x_.data(), y_.data(), got.data()};
      abi::KernelArguments arguments{buffers, sizes, nullptr};
      code_[t]->run(0, sizes[0], &arguments);
      for (size_t i = 0; i < got.size(); ++i) {
        double off = units(got[i], expected[i]);
        if (off > worst[t].units) worst[t] = {off, x_[i], y_[i], got[i], expected[i]};
      }
    }
    x_.clear();
    y_.clear();
  }

  // Prints a line of the table. Returns false if an error is too large.
  bool report(Op op) {
    flush();
    bool is_good = true;
    std::printf("%-8s", ir::loop::op_name(op));
    for (const Worst& w : worst) std::printf(" %10.3f", w.units);
    for (const Worst& w : worst) {
      if (w.units <= kBound) continue;
      is_good = false;
      std::printf("  (%.9g, %.9g gives %.9g, not %.17g)", w.x, w.y, w.got, w.expected);
    }
    std::printf("\n");
    std::fflush(stdout);
    return is_good;
  }

  std::vector<Worst> worst;

 private:
  Exact exact_;
  std::vector<std::shared_ptr<const codegen::MachineCode>> code_;
  std::vector<float> x_, y_;
};

bool of_one(const Function& function, const std::vector<Tier>& tiers, bool all) {
  Comparison comparison(
      function.op, [&](double x, double) { return function.exact(x); }, tiers);
  for (uint32_t bits = 0; bits <= 0xffff && !all; ++bits) {
    comparison.add(bf16_to_float(static_cast<uint16_t>(bits)));
    comparison.add(f16_to_float(static_cast<uint16_t>(bits)));
  }
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += all ? 1 : 4099)
    comparison.add(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  return comparison.report(function.op);
}

// Tests all pairs of special numbers, then random ones of any magnitude and of magnitudes near 1.
bool of_two(const PairFunction& function, const std::vector<Tier>& tiers, bool all) {
  Comparison comparison(function.op, function.exact, tiers);
  std::vector<float> special;
  for (double size : {0.0, 0x1p-149, 0x1p-126, 1e-30, 0.3,    0.5,        1 - 0x1p-24, 1.0,  1 + 0x1p-23,    1.5,      2.0,
                      2.5, 3.0,      4.0,      127.0, 0x1p23, 0x1p24 - 1, 0x1p25,      1e30, 0x1.fffffep127, HUGE_VAL, std::nan("")})
    for (double sign : {1.0, -1.0}) special.push_back(static_cast<float>(std::copysign(size, sign)));
  for (float x : special)
    for (float y : special) comparison.add(x, y);
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal(0, 5);
  for (int64_t i = 0; i < (all ? int64_t{1} << 30 : int64_t{1} << 19); ++i) {
    uint64_t bits = random();
    if (i % 2) comparison.add(std::bit_cast<float>(static_cast<uint32_t>(bits)), std::bit_cast<float>(static_cast<uint32_t>(bits >> 32)));
    else comparison.add(std::exp(normal(random)) * (bits & 8 ? -1.f : 1.f), bits & 7 ? normal(random) : std::round(normal(random)));
  }
  return comparison.report(function.op);
}

int run(bool all, const std::string& only_op, const std::string& only_tier) {
  std::vector<Tier> tiers;
  for (Tier tier : codegen::kTiers)
    if (tier <= codegen::best_tier() && (only_tier.empty() || only_tier == tier_name(tier))) tiers.push_back(tier);
  std::printf("%-8s", "");
  for (Tier tier : tiers) std::printf(" %10s", tier_name(tier));
  std::printf("\n");
  auto is_wanted = [&](Op op) { return only_op.empty() || only_op == ir::loop::op_name(op); };
  bool is_good = true;
  for (const Function& function : kFunctions)
    if (is_wanted(function.op)) is_good &= of_one(function, tiers, all);
  for (const PairFunction& function : kPairFunctions)
    if (is_wanted(function.op)) is_good &= of_two(function, tiers, all);
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
