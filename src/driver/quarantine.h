// A graph that gave a wrong result does not serve any more. What it was and what it was given is
// written to a folder (TENON_REPRO_DIR, or where the program runs).
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "ir/graph/graph.h"

namespace tenon::driver {

class Quarantine {
 public:
  bool is_on() const { return on_; }
  std::string report() const;

  // Only the first time counts.
  void impose(const std::string& difference, const ir::Graph& graph, const std::vector<at::Tensor>& inputs);

 private:
  std::atomic<bool> on_{false};
  mutable std::mutex mutex_;
  std::string report_;
};

}  // namespace tenon::driver
