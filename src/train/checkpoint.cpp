#include "train/checkpoint.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "formats/directory.h"
#include "train/error_text.h"

namespace tenon::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "checkpoint-", kTemporaryPrefix = ".checkpoint-", kTemporarySuffix = ".tmp";

fs::path temporary_path(const std::string& output_dir, int64_t step, const std::string& purpose) {
  return fs::path(output_dir) / (std::string(kTemporaryPrefix) + std::to_string(step) + "-" + purpose + std::string(kTemporarySuffix));
}

std::optional<int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  int64_t step = 0;
  const char *begin = name.data() + kPrefix.size(), *end = name.data() + name.size();
  auto [stop, error] = std::from_chars(begin, end, step);
  bool is_number = error == std::errc() && stop == end && begin != end && step >= 0;
  return is_number ? std::optional(step) : std::nullopt;
}

// Deletes a directory that a reader must never see in part.
void remove_whole(const fs::path& path, const fs::path& temporary) {
  fs::remove_all(temporary);
  fs::rename(path, temporary);
  fs::remove_all(temporary);
}

}  // namespace

void sync_directory(const std::string& path) {
  formats::FileDescriptor directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.fd() < 0 || ::fsync(directory.fd()) != 0)
    throw UserError(ErrorCode::file, path + ": cannot be synchronised with the disk: " + std::strerror(errno));
}

std::string checkpoint_path(const std::string& output_dir, int64_t step) {
  return output_dir + "/" + std::string(kPrefix) + std::to_string(step);
}

std::vector<int64_t> checkpoint_steps(const std::string& output_dir) {
  std::vector<int64_t> out;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(output_dir, error))
    if (auto step = step_of(entry.path().filename().string()); step && entry.is_directory(error)) out.push_back(*step);
  std::sort(out.begin(), out.end());
  return out;
}

void report_unwritable(const std::string& output_dir, const std::string& cause) {
  std::vector<int64_t> steps = checkpoint_steps(output_dir);
  throw UserError(ErrorCode::file, cause + ". Free some space or choose an output_dir on another disk, and " +
                                       (steps.empty() ? "start again: there is no checkpoint yet."
                                                      : "resume from " + checkpoint_path(output_dir, steps.back()) + "."));
}

void prepare_output(const std::string& output_dir) {
  try {
    fs::create_directories(output_dir);
    std::vector<fs::path> unfinished;
    for (const fs::directory_entry& entry : fs::directory_iterator(output_dir)) {
      std::string name = entry.path().filename().string();
      bool is_checkpoint = name.starts_with(kTemporaryPrefix) && name.ends_with(kTemporarySuffix);
      if (is_checkpoint || formats::AtomicFile::is_leftover(name)) unfinished.push_back(entry.path());
    }
    for (const fs::path& path : unfinished) fs::remove_all(path);
  } catch (const fs::filesystem_error& error) {
    throw UserError(ErrorCode::file, output_dir + ": cannot be used as output_dir: " + error.code().message() +
                                         ". Choose a directory that can be written to.");
  }
}

void write_checkpoint(const std::string& output_dir, int64_t step, const std::function<void(const std::string& directory)>& write) {
  fs::path written = temporary_path(output_dir, step, "new"), replaced = temporary_path(output_dir, step, "old"),
           path = checkpoint_path(output_dir, step);
  auto undo = [&] {
    std::error_code ignored;
    fs::remove_all(written, ignored);
    if (fs::exists(replaced, ignored) && !fs::exists(path, ignored)) fs::rename(replaced, path, ignored);
  };
  auto report = [&](const std::exception& error) {
    undo();
    report_unwritable(output_dir, path.string() + " cannot be saved: " + cause_of(error));
  };
  try {
    fs::remove_all(written);
    fs::remove_all(replaced);
    fs::create_directory(written);
    write(written.string());
    if (fs::exists(path)) fs::rename(path, replaced);
    fs::rename(written, path);
    sync_directory(output_dir);
    fs::remove_all(replaced);
  } catch (const fs::filesystem_error& error) {
    report(error);
  } catch (const UserError& error) {
    if (error.code() == ErrorCode::file) report(error);
    undo();
    throw;
  } catch (...) {
    undo();
    throw;
  }
}

void remove_old_checkpoints(const std::string& output_dir, int64_t limit, std::optional<int64_t> best) {
  std::vector<int64_t> steps = checkpoint_steps(output_dir);
  if (limit <= 0 || steps.empty()) return;
  auto is_kept = [&, newest = steps.back()](int64_t step) { return step == newest || step == best; };
  auto left = static_cast<int64_t>(steps.size());
  try {
    for (int64_t step : steps) {
      if (left <= limit) return;
      if (is_kept(step)) continue;
      remove_whole(checkpoint_path(output_dir, step), temporary_path(output_dir, step, "old"));
      --left;
    }
  } catch (const fs::filesystem_error& error) {
    throw UserError(ErrorCode::file, error.path1().string() + ": this old checkpoint cannot be deleted: " + error.code().message() +
                                         ". Delete it, or set save_total_limit to 0, and resume.");
  }
}

}  // namespace tenon::train
