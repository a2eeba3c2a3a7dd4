#include "driver/internal_errors.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <utility>

#include "base/counters.h"
#include "base/flags.h"
#include "base/warn.h"
#include "build/build_error.h"

namespace tenon::driver {
namespace {

// TENON_INTERNAL_ERRORS sets the policy of programs that set none.
OnInternalError policy_of(const Options& options) {
  static const char* wanted = flag_text(Flag::internal_errors);
  if (!wanted || options.on_internal_error != OnInternalError::warn) return options.on_internal_error;
  if (wanted == std::string("raise")) return OnInternalError::raise;
  if (wanted == std::string("ignore")) return OnInternalError::ignore;
  return OnInternalError::warn;
}

// Writes the graph to a file and returns the command that runs it.
std::string reproduction(const build::BuildError& error) {
  static std::atomic<int> files{0};
  const char* folder = flag_text(Flag::reproduction_folder);
  try {
    std::filesystem::path path = folder ? folder : std::filesystem::temp_directory_path();
    path /= "tenon-" + error.name() + "-" + std::to_string(getpid()) + "-" + std::to_string(files++) + ".ir";
    std::ofstream file(path);
    file << error.graph();
    if (!file.flush()) return "; the graph could not be written to " + path.string() + " (set TENON_REPRO_DIR to another folder)";
    return "; `" + error.command() + " " + path.string() + "` runs the same passes and builds the same kernels";
  } catch (const std::exception& failure) {
    return std::string("; the graph could not be written: ") + failure.what() + " (set TENON_REPRO_DIR to another folder)";
  }
}

}  // namespace

std::string InternalErrors::note(const std::exception& error) {
  ++counters().internal_errors;
  std::string text = "building a graph failed: " + std::string(error.what());
  OnInternalError policy = policy_of(options_);
  std::lock_guard lock(mutex_);
  bool is_first = !std::exchange(has_warned_, true);
  if (policy == OnInternalError::ignore || (policy == OnInternalError::warn && !is_first)) return text;
  const auto* failed = dynamic_cast<const build::BuildError*>(&error);
  bool is_ours = !dynamic_cast<const UserError*>(&error);
  std::string report = text + (failed ? reproduction(*failed) : "");
  if (is_ours) report += "; this is a bug in Tenon: please report it with that file";
  if (policy == OnInternalError::raise) {
    pending_ = report;
    is_pending_ = true;
  } else {
    warn("'" + options_.name + "' runs eagerly where this graph would have run, with the same results: " + report +
         ". Options::on_internal_error = OnInternalError::raise makes it an exception, ignore silences it.");
  }
  return report;
}

void InternalErrors::raise() {
  if (!is_pending_) return;
  std::string report;
  {
    std::lock_guard lock(mutex_);
    if (!is_pending_.exchange(false)) return;
    report = std::exchange(pending_, "");
  }
  throw InternalError("'" + options_.name + "': " + report);
}

}  // namespace tenon::driver
