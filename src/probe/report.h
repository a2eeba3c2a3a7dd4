// The probe's counters and their printed report.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tenon::probe {

enum class OpCategory : uint8_t { library, fusable, view, other };

// Statistics of chains: sequences of ops, each of which reads the previous op's result, that one kernel could compute.
struct Chains {
  size_t count = 0, ops = 0;
  double seconds = 0, longest_op_seconds = 0;  // Sum over all ops, and sum over the slowest op of each chain.
};

struct HostRead {
  std::string op;
  size_t count = 0;
};

struct RepeatedBlock {
  size_t ops = 0, times = 0;
};

struct Report {
  size_t calls = 0, ops = 0;
  double wall_seconds = 0, call_seconds = 0;
  std::map<OpCategory, double> seconds;
  std::map<std::string, std::pair<size_t, double>> by_op;  // Count and seconds by op.
  Chains chains;
  std::map<std::string, HostRead> host_reads;  // Keyed by source line.
  RepeatedBlock block;

  std::string text() const;
};

// Finds the block of ops whose repetition ends the sequence, or {0, 0}.
RepeatedBlock repeated_block(const std::vector<uint32_t>& sequence);

}  // namespace tenon::probe
