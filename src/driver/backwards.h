// Backward passes that start after a checked call has returned, such as `loss.backward()` in a training loop. Each runs as a checked
// call of its own: libtorch's engine runs the nodes, and their ops are compared with recordings and computed by graphs.
#pragma once

#include "capture/backward.h"
#include "driver/checked.h"

namespace tenon::driver {

class Backwards : public capture::BackwardRunner {
 public:
  explicit Backwards(const Options& options);

  void run_backward(const std::function<void()>& body) override;
  // Adds to what is there; `out` has an entry for each phase.
  void explain(Explanation& out);
  void reset() { calls_.reset(); }

 private:
  Options options_;          // The options of the compiled function, as far as they apply.
  ProcessCounters process_;  // Backward passes are not calls of compiled functions, so they are counted here.
  CheckedCalls calls_;
};

}  // namespace tenon::driver
