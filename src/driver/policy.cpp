#include "driver/policy.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

namespace tenon::driver {
namespace {

constexpr double kRms = 1.25, kWorst = 8, kUnits = 4;

double unit_of(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return 0x1p-52;
    case at::kHalf:
      return 0x1p-10;
    case at::kBFloat16:
      return 0x1p-7;
    default:
      return 0x1p-23;
  }
}

// The distance of neighbours at this number.
double spacing(double number, double unit) {
  return std::max(std::ldexp(unit, std::ilogb(number)), std::numeric_limits<float>::min() * unit);
}

std::string at_element(int64_t i, double got, double eager, double truth) {
  std::ostringstream out;
  out.precision(9);
  out << "element " << i << " is " << got << ", eager has " << eager << ", in f64 it is " << truth;
  return out.str();
}

struct Doubles {
  at::Tensor tensor;
  const double* data;
  explicit Doubles(const at::Tensor& t) : tensor(t.to(at::kDouble).contiguous()), data(tensor.const_data_ptr<double>()) {}
};

std::string compare(const at::Tensor& got, const at::Tensor& eager, const at::Tensor& truth) {
  Doubles g(got), e(eager), t(truth.defined() ? truth : eager);
  double unit = unit_of(got.scalar_type()), scale = 0, worst = 0, squares_got = 0, squares_eager = 0;
  int64_t count = 0;
  for (int64_t i = 0; i < got.numel(); ++i) {
    double a = g.data[i], b = e.data[i];
    bool same_kind = std::isnan(a) == std::isnan(b) && std::isinf(a) == std::isinf(b) && (!std::isinf(b) || a == b);
    bool same_zero = !(a == 0 && b == 0) || std::signbit(a) == std::signbit(b);
    if (!same_kind || !same_zero) return at_element(i, a, b, t.data[i]);
    if (!std::isfinite(b) || !std::isfinite(t.data[i])) continue;
    ++count;
    scale = std::max(scale, std::fabs(t.data[i]));
    worst = std::max(worst, std::fabs(b - t.data[i]));
    squares_got += (a - t.data[i]) * (a - t.data[i]);
    squares_eager += (b - t.data[i]) * (b - t.data[i]);
  }
  for (int64_t i = 0; i < got.numel(); ++i) {
    if (!std::isfinite(e.data[i]) || !std::isfinite(t.data[i])) continue;
    double allowed = std::max(kWorst * worst, kUnits * spacing(t.data[i], unit));
    if (std::fabs(g.data[i] - t.data[i]) > allowed) return at_element(i, g.data[i], e.data[i], t.data[i]);
  }
  if (count == 0) return "";
  double rms = std::sqrt(squares_got / static_cast<double>(count)), rms_eager = std::sqrt(squares_eager / static_cast<double>(count));
  if (rms <= kRms * rms_eager + spacing(scale, unit)) return "";
  std::ostringstream out;
  out << "the error is " << rms << ", eager's is " << rms_eager << " (" << count << " elements up to " << scale << ")";
  return out.str();
}

}  // namespace

std::string violation(const at::Tensor& got, const at::Tensor& eager, const at::Tensor& truth) {
  if (got.defined() != eager.defined()) return "one of them is undefined";
  if (!got.defined() || got.numel() == 0) return "";
  if (got.sizes() != eager.sizes() || got.scalar_type() != eager.scalar_type()) return "another shape or element type";
  if (c10::isFloatingType(got.scalar_type())) return compare(got, eager, truth);
  if (got.equal(eager)) return "";
  return c10::isComplexType(got.scalar_type()) ? "complex numbers differ" : "integers differ";
}

}  // namespace tenon::driver
