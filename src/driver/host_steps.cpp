#include "driver/host_steps.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tenon::driver {
namespace {

using detail::HostStep;

bool same_bits(double a, double b) { return std::memcmp(&a, &b, sizeof a) == 0; }

// A constant, with the storage id of its parameter on the tape.
struct TapeConstant {
  const char* op;
  int32_t storage;
  double value;
};

std::vector<TapeConstant> constants_on(const capture::Recorder& recorder, const std::vector<HostStep>& steps) {
  std::vector<TapeConstant> out;
  for (const HostStep& step : steps)
    for (const HostStep::OpConstant& c : step.constants) out.push_back({c.op, recorder.storage_id(step.parameters[c.parameter]), c.value});
  return out;
}

// Whether an op is this in-place op ("aten::mul_", whatever the overload) on this storage.
bool is_on_parameter(const capture::TapeOp& op, const TapeConstant& constant) {
  return constant.op && op.op.operator_name().name == constant.op && op.writes.size() == 1 && constant.storage >= 0 &&
         op.writes[0].ref.storage == constant.storage;
}

}  // namespace

HostSteps::HostSteps(std::vector<std::function<HostStep()>> optimizers) : optimizers_(std::move(optimizers)), before_(now()) {
  for (const HostStep& step : before_) {
    std::vector<int64_t>& counts = counts_.emplace_back();
    for (const int64_t* count : step.counts) counts.push_back(count ? *count : 0);
  }
}

std::vector<HostStep> HostSteps::now() const {
  std::vector<HostStep> out;
  for (const auto& optimizer : optimizers_) out.push_back(optimizer());
  return out;
}

void HostSteps::finish() {
  std::vector<HostStep> after = now();
  for (size_t o = 0; o < before_.size(); ++o) {
    std::vector<bool>& counted = counted_.emplace_back();
    for (size_t p = 0; p < before_[o].counts.size(); ++p) {
      const int64_t* count = p < after[o].counts.size() ? after[o].counts[p] : nullptr;
      counted.push_back(count && *count != counts_[o][p]);
    }
  }
}

bool HostSteps::bind(HostSteps& a, const capture::Recorder& of_a, HostSteps& b, const capture::Recorder& of_b, size_t ops) {
  std::vector<TapeConstant> x = constants_on(of_a, a.before_), y = constants_on(of_b, b.before_);
  if (x.size() != y.size() || a.counted_ != b.counted_) return false;
  const capture::Tape &tape = of_a.tape(), &other = of_b.tape();
  std::vector<int32_t> found(tape.scalars.size(), -1);
  std::vector<bool> is_bound(tape.scalars.size(), false);
  size_t next_by_value = 0;  // Parameters come in the same order as their ops.
  for (size_t i = 0; i < std::min({ops, tape.ops.size(), other.ops.size()}); ++i) {
    size_t scalar = tape.ops[i].before.scalars;
    for (const capture::TapeArgument& arg : tape.ops[i].args) {
      if (!capture::free_scalar(tape.ops[i], arg)) continue;
      size_t s = scalar++;
      if (s >= other.scalars.size()) return false;
      double in_a = tape.scalars[s], in_b = other.scalars[s];
      auto fits = [&](size_t k) { return same_bits(x[k].value, in_a) && same_bits(y[k].value, in_b); };
      for (size_t k = 0; k < x.size() && found[s] < 0; ++k)
        if (is_on_parameter(tape.ops[i], x[k]) && fits(k)) found[s] = static_cast<int32_t>(k);
      // A correction that has become 1 stays 1.
      for (size_t k = next_by_value; k < x.size() && found[s] < 0 && in_a != 1; ++k)
        if (!x[k].op && fits(k)) {
          found[s] = static_cast<int32_t>(k);
          next_by_value = k + 1;
        }
      is_bound[s] = found[s] >= 0;
    }
  }
  bool makes_steps = std::find(is_bound.begin(), is_bound.end(), true) != is_bound.end();
  for (const std::vector<bool>& counted : a.counted_) makes_steps |= std::find(counted.begin(), counted.end(), true) != counted.end();
  for (HostSteps* steps : {&a, &b}) {
    if (std::exchange(steps->was_tried_, true) || !makes_steps) continue;
    steps->constant_of_ = found;
    steps->is_bound_ = is_bound;
  }
  return true;
}

std::optional<std::vector<double>> HostSteps::constants(const std::vector<int32_t>& scalars, const std::vector<double>& recorded) const {
  std::vector<double> all, out = recorded;
  std::vector<HostStep> steps = now();
  for (size_t o = 0; o < steps.size(); ++o) {
    if (steps[o].constants.size() != before_[o].constants.size()) return std::nullopt;
    for (const HostStep::OpConstant& constant : steps[o].constants) all.push_back(constant.value);
  }
  for (size_t i = 0; i < scalars.size(); ++i)
    if (int32_t constant = constant_of_[static_cast<size_t>(scalars[i])]; constant >= 0) out[i] = all[static_cast<size_t>(constant)];
  return out;
}

void HostSteps::count() const {
  std::vector<HostStep> steps = now();
  for (size_t o = 0; o < steps.size(); ++o)
    for (size_t p = 0; p < steps[o].counts.size(); ++p)
      if (steps[o].counts[p] && counted_[o][p]) ++*steps[o].counts[p];
}

}  // namespace tenon::driver
