#include "build/policy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <sstream>

namespace tenon::build {
namespace {

constexpr double kMaxRmsRatio = 1.25, kMaxErrorRatio = 8, kMaxUlps = 4;
// The reference for f64 is itself a run in f64, so its own error adds to the measured one.
constexpr double kF64Slack = 4;

double epsilon_of(at::ScalarType type) {
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

// The distance from a value to the next one of the type with this epsilon.
double ulp_of(double value, double epsilon) {
  return std::max(std::ldexp(epsilon, std::ilogb(value)), std::numeric_limits<float>::min() * epsilon);
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

bool same_kind(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) == std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return a != 0 || b != 0 || std::signbit(a) == std::signbit(b);
}

// The errors of one result over all runs.
class Errors {
 public:
  Errors(double epsilon, bool is_small, const Leeway& leeway) : epsilon_(epsilon), is_small_(is_small), leeway_(leeway) {}

  // Adds the errors of one run. Returns a description of a violation that no error bound can excuse; empty if there is none.
  std::string add(const Comparison& comparison) {
    Doubles g(comparison.got), e(comparison.eager), t(comparison.truth);
    std::optional<Doubles> noisy;
    if (is_small_ && comparison.noisy.defined()) noisy.emplace(comparison.noisy);
    for (int64_t i = 0; i < comparison.got.numel(); ++i) {
      double a = g.data[i], b = e.data[i], truth = t.data[i];
      bool is_excused = leeway_.zeros && std::fabs(a) == std::fabs(b) &&
                        (a == 0 || std::isinf(a));  // Dividing by such zeros gives infinities of either sign.
      is_excused |= leeway_.infinities && !std::isfinite(a) && !std::isfinite(b);
      if (!is_excused && !same_kind(a, b) && !same_kind(a, truth)) return at_element(i, a, b, truth);
      if (!std::isfinite(a) || !std::isfinite(b) || !std::isfinite(truth)) continue;
      ++count_;
      scale_ = std::max(scale_, std::fabs(truth));
      worst_eager_ = std::max(worst_eager_, std::fabs(b - truth));
      squares_got_ += (a - truth) * (a - truth);
      squares_eager_ += (b - truth) * (b - truth);
      if (noisy && std::isfinite(noisy->data[i])) {
        double error = noisy->data[i] - truth;
        worst_eager_ = std::max(worst_eager_, std::fabs(error));
        squares_noisy_ += error * error;
        ++count_noisy_;
      }
      double ulps = std::fabs(a - truth) / ulp_of(truth, epsilon_);
      if (ulps > slack_ * kMaxUlps && std::fabs(a - truth) > worst_) {
        worst_ = std::fabs(a - truth);
        worst_text_ = at_element(i, a, b, truth);
      }
    }
    return "";
  }

  std::string verdict() const {
    if (worst_ > kMaxErrorRatio * worst_eager_) return worst_text_;
    if (count_ == 0) return "";
    double rms = std::sqrt(squares_got_ / count_), rms_eager = std::sqrt(squares_eager_ / count_);
    if (count_noisy_ > 0) rms_eager = std::max(rms_eager, std::sqrt(squares_noisy_ / count_noisy_));
    if (rms <= slack_ * (kMaxRmsRatio * rms_eager + (is_small_ ? 2 : 1) * ulp_of(scale_, epsilon_))) return "";
    std::ostringstream out;
    out << "the error is " << rms << ", eager's is " << rms_eager << " (" << count_ << " elements up to " << scale_ << ")";
    return out.str();
  }

 private:
  double epsilon_, slack_ = epsilon_ == epsilon_of(at::kDouble) ? kF64Slack : 1;
  bool is_small_;
  Leeway leeway_;
  double count_ = 0, count_noisy_ = 0, scale_ = 0, squares_got_ = 0, squares_eager_ = 0, squares_noisy_ = 0;
  double worst_eager_ = 0, worst_ = 0;  // `worst_` is the largest error of the kernel among elements that are off by more than kMaxUlps.
  std::string worst_text_;
};

}  // namespace

std::string violation(const std::vector<Comparison>& comparisons, const Leeway& leeway) {
  at::ScalarType type = comparisons[0].got.scalar_type();
  Errors errors(epsilon_of(type), type == at::kDouble || comparisons[0].got.numel() < kMinElementsForOneRun, leeway);
  for (const Comparison& comparison : comparisons) {
    const at::Tensor &got = comparison.got, &eager = comparison.eager;
    if (got.sizes() != eager.sizes() || got.scalar_type() != eager.scalar_type()) return "another shape or element type";
    if (c10::isFloatingType(got.scalar_type())) {
      if (std::string found = errors.add(comparison); !found.empty()) return found;
    } else if (!got.equal(eager)) {
      if (got.scalar_type() != at::kBool || !comparison.noisy.defined()) return "integers differ";
      // Rounding can decide the result of a comparison, so those of eager, of the reference and of a run with noise are accepted.
      at::Tensor is_tie = got.eq(eager).logical_or(got.eq(comparison.truth)).logical_or(got.eq(comparison.noisy));
      if (!is_tie.all().item().toBool()) return "integers differ";
    }
  }
  return errors.verdict();
}

}  // namespace tenon::build
