// Options of backend `native`.
#pragma once

namespace tenon::build {

struct NativeOptions {
  double verify = 0;            // Fraction of the runs that are compared with ATen.
  bool keeps_weights = false;   // Weights are constant for many calls, so they may be prepacked.
  bool for_autotuning = false;  // Each kernel is compiled in all versions that the tuner may choose from.
  bool keeps_memory = false;    // Scratch memory and results are reused in the next run.
};

}  // namespace tenon::build
