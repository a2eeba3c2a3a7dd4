// Checkpoint directories. A directory called checkpoint-N is always complete: it is written under a temporary name, synced to disk and
// renamed, and it is renamed before it is deleted. A process may be killed at any moment.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tenon::train {

// Makes renamed entries of a directory durable. Throws UserError(file) if it cannot.
void sync_directory(const std::string& path);

std::string checkpoint_path(const std::string& output_dir, int64_t step);
// Returns the steps of the checkpoints in a directory in ascending order.
std::vector<int64_t> checkpoint_steps(const std::string& output_dir);

// Creates the directory, and removes the temporary directories that a killed process left in it. Throws UserError(file) if it cannot.
void prepare_output(const std::string& output_dir);

// Calls `write` with the path of a new directory, which then becomes the checkpoint of this step, in place of an older one of the same
// step. If writing fails, throws UserError(file) that names the file and the newest complete checkpoint; nothing else has changed then.
void write_checkpoint(const std::string& output_dir, int64_t step, const std::function<void(const std::string& directory)>& write);

// Throws UserError(file) for a file of the directory that cannot be written. The text says why, what to do, and which checkpoint is the
// newest.
[[noreturn]] void report_unwritable(const std::string& output_dir, const std::string& cause);

// Deletes the oldest checkpoints until `limit` are left. The newest one and that of step `best` are never deleted. A limit of 0 deletes
// nothing. Throws UserError(file) if a directory cannot be deleted.
void remove_old_checkpoints(const std::string& output_dir, int64_t limit, std::optional<int64_t> best);

}  // namespace tenon::train
