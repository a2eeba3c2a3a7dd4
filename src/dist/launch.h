// What a launcher like torchrun tells each process of a job through environment variables.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/flags.h"

namespace tenon::dist {

struct Launch {
  int rank = 0, size = 1, local_rank = 0;
  // Number of restarts of the job so far.
  int attempt = 0;
  std::string address = "127.0.0.1";
  uint16_t port = 29500;
  // Whether the launcher itself serves the store. Otherwise rank 0 does.
  bool has_agent_store = false;
};

// Reads RANK, WORLD_SIZE and so on. A process that was not launched as part of a job is the only one of its job. Throws UserError(config)
// that names the variable if one is malformed or missing.
Launch read_launch();

// Reads a variable whose values are those of Accelerate: y, yes, t, true, on, 1 and n, no, f, false, off, 0. Returns nothing if it is not
// set. Throws UserError(config) for any other text.
std::optional<bool> read_switch(Flag flag);
// Returns the variable's text, or nothing if it is not set or empty.
std::optional<std::string> read_text(Flag flag);

}  // namespace tenon::dist
