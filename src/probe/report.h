// What the probe counts, and how it tells it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tenon::probe {

enum class Kind : uint8_t { library, fusable, view, other };

// A run of ops, each reading what the one before made, that one kernel could do.
struct Chains {
  size_t count = 0, ops = 0;
  double seconds = 0, longest_op_seconds = 0;  // all of it; the slowest op of each
};

struct HostRead {
  std::string op;
  size_t count = 0;
};

struct Block {
  size_t ops = 0, times = 0;
};

struct Report {
  size_t calls = 0, ops = 0;
  double wall_seconds = 0, call_seconds = 0;
  std::map<Kind, double> seconds;
  std::map<std::string, std::pair<size_t, double>> by_op;  // count, seconds
  Chains chains;
  std::map<std::string, HostRead> host_reads;  // by source line
  Block block;

  std::string text() const;
};

// The block that a sequence ends with repetitions of; {0, 0} if it does not.
Block repeated_block(const std::vector<uint32_t>& sequence);

}  // namespace tenon::probe
