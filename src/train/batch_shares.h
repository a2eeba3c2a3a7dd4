// Division of batches over the processes of a job, with the rules of Accelerate's BatchSamplerShard.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tenon::train {

using Batches = std::vector<std::vector<size_t>>;

// Cuts an order of examples into batches.
Batches make_batches(const std::vector<size_t>& order, size_t batch_size, bool drop_last);

struct ShareRules {
  size_t rank = 0, ranks = 1, batch_size = 1;
  bool drop_last = false;
  // Each batch is cut into one part per process; otherwise each process gets whole batches in turn.
  bool split_batches = false;
  // All processes get equally many batches of equal size; what is missing at the end is taken from the beginning.
  bool even_batches = true;
};

// Returns the batches of one process.
Batches share_of(const Batches& batches, const ShareRules& rules);

}  // namespace tenon::train
