// Learning-rate schedules and the number of steps of a training, with the formulas of Transformers (optimization.py, trainer.py).
#pragma once

#include <tenon/trainer.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tenon::train {

// The values of TrainingArguments::lr_scheduler_type.
const std::vector<std::string>& schedule_names();

// Number of batches and optimizer steps.
struct StepPlan {
  int64_t batches_per_epoch = 0, steps_per_epoch = 0;
  int64_t max_steps = 0, epochs = 0;  // Totals of the training; the last epoch may end early.
  int64_t warmup_steps = 0;
};
StepPlan plan_steps(const TrainingArguments& arguments, size_t examples, int64_t processes = 1);

// Returns the factor of the learning rate in the optimizer step with this index, counted from 0.
double learning_rate_factor(const std::string& schedule, int64_t step, int64_t warmup_steps, int64_t max_steps);

// Converts a number of steps that may be a fraction of all steps.
int64_t whole_steps(double steps, int64_t max_steps);

}  // namespace tenon::train
