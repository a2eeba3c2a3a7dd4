// The files of the output directory that grow with a training: the log as JSON lines, the state and the loss curve.
#pragma once

#include <tenon/trainer.h>

#include <map>
#include <string>
#include <vector>

#include "formats/directory.h"
#include "train/learning_rate.h"

namespace tenon::train {

// log_history.jsonl in a directory: an entry is appended as soon as it is logged.
class LogFile {
 public:
  // Replaces the file by the entries of the checkpoint that the training resumes from. Throws UserError(file) if it cannot be written.
  LogFile(const std::string& directory, const std::vector<std::map<std::string, double>>& entries);
  void append(const std::map<std::string, double>& entry);

 private:
  [[noreturn]] void fail() const;

  std::string directory_;
  formats::FileDescriptor file_;
};

// Writes trainer_state.json and loss.svg to the output directory. Throws UserError(file) if they cannot be written.
void write_summary(const std::string& directory, const TrainerState& state, const TrainingArguments& arguments, const StepPlan& plan);

}  // namespace tenon::train
