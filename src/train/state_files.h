// The JSON files of a checkpoint: trainer_state.json with the fields of Transformers, scheduler.json, and position.json with what the
// loop needs beside them to continue exactly.
#pragma once

#include <tenon/trainer.h>

#include <cstdint>
#include <string>

#include "train/learning_rate.h"

namespace tenon::train {

// The position of the loop. The data order follows from the seed, the epoch and the sizes.
struct LoopPosition {
  int64_t examples = 0, batch_size = 0, processes = 1, accumulation_steps = 0, seed = 0;
  // The sum of the losses since the last log entry, and the step of that entry.
  float unlogged_loss = 0;
  int64_t logged_step = 0;
};

// Returns one log entry, or the whole state, as JSON.
std::string log_line(const std::map<std::string, double>& entry);
std::string state_text(const TrainerState& state, const TrainingArguments& arguments, const StepPlan& plan);

// Each function reads or writes one file in a directory. Throws UserError that names file and field if a file is missing or malformed.
void write_state(const std::string& directory, const TrainerState& state, const TrainingArguments& arguments, const StepPlan& plan);
TrainerState read_state(const std::string& directory);
void write_scheduler(const std::string& directory, const TrainingArguments& arguments, const StepPlan& plan, int64_t step);
void write_position(const std::string& directory, const LoopPosition& position);
// Throws UserError(config) if the training that `expected` describes has other data, batch sizes or another seed, because it could not
// continue where the checkpoint ends. Returns the position with the log's part of the checkpoint.
LoopPosition read_position(const std::string& directory, const LoopPosition& expected);

}  // namespace tenon::train
