// The order of examples in each epoch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tenon::train {

// Returns the order of the examples of an epoch, which is that of Transformers: the seedable sampler of Accelerate seeds a generator with
// the sum of seed and epoch and draws a random permutation.
std::vector<size_t> data_order(size_t examples, int64_t seed, int64_t epoch);

// Draws the number that PyTorch's DataLoader takes from the default generator whenever an iteration begins. Without it, later random
// numbers would differ from those of Transformers.
void draw_loader_seed();

}  // namespace tenon::train
