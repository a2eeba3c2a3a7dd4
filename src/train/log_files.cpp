#include "train/log_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/error.h"
#include "train/checkpoint.h"
#include "train/error_text.h"
#include "train/loss_curve.h"
#include "train/state_files.h"

namespace tenon::train {
namespace {

constexpr const char* kLogName = "log_history.jsonl";

void write_log_file(const std::string& directory, const char* name, const std::string& text) {
  try {
    formats::Directory(directory).write(name, text);
  } catch (const UserError& error) {
    report_unwritable(directory, cause_of(error));
  }
}

}  // namespace

LogFile::LogFile(const std::string& directory, const std::vector<std::map<std::string, double>>& entries) : directory_(directory) {
  std::string text;
  for (const auto& entry : entries) text += log_line(entry) + "\n";
  write_log_file(directory, kLogName, text);
  file_ = formats::FileDescriptor(::open((directory + "/" + kLogName).c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  if (file_.fd() < 0) fail();
}

void LogFile::fail() const { report_unwritable(directory_, directory_ + "/" + kLogName + ": writing failed: " + std::strerror(errno)); }

void LogFile::append(const std::map<std::string, double>& entry) {
  std::string text = log_line(entry) + "\n";
  for (std::string_view rest = text; !rest.empty();) {
    ssize_t done = ::write(file_.fd(), rest.data(), rest.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail();
    rest.remove_prefix(static_cast<size_t>(done));
  }
}

void write_summary(const std::string& directory, const TrainerState& state, const TrainingArguments& arguments, const StepPlan& plan) {
  write_log_file(directory, "trainer_state.json", state_text(state, arguments, plan));
  write_log_file(directory, "loss.svg", loss_curve(state.log_history));
}

}  // namespace tenon::train
