// Time of a sum over all processes by its size: `torchrun --no-python --nproc-per-node N bench_collectives`. Rank 0 prints one line of JSON
// for each size. bench/scale.py fits the cost model of docs/scale.md to it.
#include <ATen/Parallel.h>
#include <tenon/accelerate.h>

#include <cstdio>

#include "bench/timing.h"

int main() {
  at::set_num_threads(1);
  tenon::Accelerator accelerator(tenon::AcceleratorOptions{});
  for (int64_t bytes = 256; bytes <= int64_t{16} << 20; bytes *= 4) {
    torch::Tensor numbers = torch::ones({bytes / 4});
    std::vector<double> times;
    for (int i = -3; i < 15; ++i) {
      accelerator.wait_for_everyone();
      double start = tenon::bench::cpu_seconds(CLOCK_MONOTONIC);
      accelerator.reduce(numbers);
      if (i >= 0) times.push_back((tenon::bench::cpu_seconds(CLOCK_MONOTONIC) - start) * 1e3);
    }
    char line[120];
    std::snprintf(line, sizeof line, "{\"ranks\": %ld, \"bytes\": %ld, \"ms\": %.4f}", static_cast<long>(accelerator.num_processes()),
                  static_cast<long>(bytes), tenon::bench::median(times));
    accelerator.print(line);
  }
}
