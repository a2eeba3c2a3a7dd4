#include "train/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace tenon::train {
namespace {

// Both functions get the index of the step and the number of steps after warmup.
double linear(int64_t step, int64_t steps) {
  return std::max(0.0, static_cast<double>(steps - step) / static_cast<double>(std::max<int64_t>(1, steps)));
}

double cosine(int64_t step, int64_t steps) {
  constexpr double kCycles = 0.5;
  double progress = static_cast<double>(step) / static_cast<double>(std::max<int64_t>(1, steps));
  return std::max(0.0, 0.5 * (1.0 + std::cos(std::numbers::pi * kCycles * 2.0 * progress)));
}

double constant(int64_t, int64_t) { return 1; }

struct LearningRateSchedule {
  const char* name;
  bool has_warmup;
  double (*factor)(int64_t step, int64_t steps);
};
constexpr LearningRateSchedule kSchedules[] = {
    {"linear", true, linear}, {"cosine", true, cosine}, {"constant", false, constant}, {"constant_with_warmup", true, constant}};

}  // namespace

const std::vector<std::string>& schedule_names() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> out;
    for (const LearningRateSchedule& schedule : kSchedules) out.emplace_back(schedule.name);
    return out;
  }();
  return all;
}

int64_t whole_steps(double steps, int64_t max_steps) {
  return steps >= 1 ? static_cast<int64_t>(steps) : static_cast<int64_t>(std::ceil(static_cast<double>(max_steps) * steps));
}

StepPlan plan_steps(const TrainingArguments& arguments, size_t examples, int64_t processes) {
  auto rounded_up = [](int64_t count, int64_t unit) { return (count + unit - 1) / unit; };
  StepPlan plan;
  plan.batches_per_epoch = rounded_up(static_cast<int64_t>(examples), arguments.per_device_train_batch_size * processes);
  plan.steps_per_epoch = rounded_up(plan.batches_per_epoch, arguments.gradient_accumulation_steps);
  if (arguments.max_steps > 0) {
    plan.max_steps = arguments.max_steps;
    plan.epochs = rounded_up(plan.max_steps, plan.steps_per_epoch);
  } else {
    plan.max_steps = static_cast<int64_t>(std::ceil(arguments.num_train_epochs * static_cast<double>(plan.steps_per_epoch)));
    plan.epochs = static_cast<int64_t>(std::ceil(arguments.num_train_epochs));
  }
  plan.warmup_steps = arguments.warmup_steps > 0
                          ? whole_steps(arguments.warmup_steps, plan.max_steps)
                          : static_cast<int64_t>(std::ceil(static_cast<double>(plan.max_steps) * arguments.warmup_ratio));
  return plan;
}

double learning_rate_factor(const std::string& schedule, int64_t step, int64_t warmup_steps, int64_t max_steps) {
  for (const LearningRateSchedule& known : kSchedules) {
    if (schedule != known.name) continue;
    if (known.has_warmup && step < warmup_steps) return static_cast<double>(step) / static_cast<double>(std::max<int64_t>(1, warmup_steps));
    return known.factor(step - warmup_steps, max_steps - warmup_steps);
  }
  throw InternalError("there is no learning-rate schedule " + schedule);
}

}  // namespace tenon::train
