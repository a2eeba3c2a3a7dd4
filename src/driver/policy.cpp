#include "driver/policy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <sstream>

namespace tenon::driver {
namespace {

constexpr double kRms = 1.25, kWorst = 8, kUnits = 4;
// In f64 there is no better truth than eager itself: the errors of both count, and those inside a long sum.
constexpr double kNoTruth = 4;

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

bool same_kind(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) == std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return a != 0 || b != 0 || std::signbit(a) == std::signbit(b);
}

// The errors of one result, over all samples.
class Errors {
 public:
  Errors(double unit, bool is_small, const Leeway& leeway) : unit_(unit), is_small_(is_small), leeway_(leeway) {}

  // What is wrong whatever the size of errors, or nothing.
  std::string add(const Sample& sample) {
    Doubles g(sample.got), e(sample.eager), t(sample.truth);
    std::optional<Doubles> noisy;
    if (is_small_ && sample.noisy.defined()) noisy.emplace(sample.noisy);
    for (int64_t i = 0; i < sample.got.numel(); ++i) {
      double a = g.data[i], b = e.data[i], truth = t.data[i];
      bool is_excused = leeway_.zeros && std::fabs(a) == std::fabs(b) && (a == 0 || std::isinf(a));  // and what is divided by them
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
      double units = std::fabs(a - truth) / spacing(truth, unit_);
      if (units > slack_ * kUnits && std::fabs(a - truth) > worst_) {
        worst_ = std::fabs(a - truth);
        worst_text_ = at_element(i, a, b, truth);
      }
    }
    return "";
  }

  std::string verdict() const {
    if (worst_ > kWorst * worst_eager_) return worst_text_;
    if (count_ == 0) return "";
    double rms = std::sqrt(squares_got_ / count_), rms_eager = std::sqrt(squares_eager_ / count_);
    if (count_noisy_ > 0) rms_eager = std::max(rms_eager, std::sqrt(squares_noisy_ / count_noisy_));
    if (rms <= slack_ * (kRms * rms_eager + (is_small_ ? 2 : 1) * spacing(scale_, unit_))) return "";
    std::ostringstream out;
    out << "the error is " << rms << ", eager's is " << rms_eager << " (" << count_ << " elements up to " << scale_ << ")";
    return out.str();
  }

 private:
  double unit_, slack_ = unit_ == unit_of(at::kDouble) ? kNoTruth : 1;
  bool is_small_;
  Leeway leeway_;
  double count_ = 0, count_noisy_ = 0, scale_ = 0, squares_got_ = 0, squares_eager_ = 0, squares_noisy_ = 0;
  double worst_eager_ = 0, worst_ = 0;  // of ours: among those that are off by more than a few units
  std::string worst_text_;
};

}  // namespace

std::string violation(const std::vector<Sample>& samples, const Leeway& leeway) {
  at::ScalarType type = samples[0].got.scalar_type();
  Errors errors(unit_of(type), type == at::kDouble || samples[0].got.numel() < kFewElements, leeway);
  for (const Sample& sample : samples) {
    const at::Tensor &got = sample.got, &eager = sample.eager;
    if (got.sizes() != eager.sizes() || got.scalar_type() != eager.scalar_type()) return "another shape or element type";
    if (c10::isFloatingType(got.scalar_type())) {
      if (std::string found = errors.add(sample); !found.empty()) return found;
    } else if (!got.equal(eager)) {
      if (got.scalar_type() != at::kBool || !sample.noisy.defined()) return "integers differ";
      // Rounding may decide what a comparison gives: eager's, the truth's, or that of a run with noise.
      at::Tensor is_tie = got.eq(eager).logical_or(got.eq(sample.truth)).logical_or(got.eq(sample.noisy));
      if (!is_tie.all().item().toBool()) return "integers differ";
    }
  }
  return errors.verdict();
}

}  // namespace tenon::driver
