// A graph that computed a wrong result is not used any more. The graph and its inputs are written to a
// folder: TENON_REPRO_DIR, or the working directory.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "ir/graph/graph.h"

namespace tenon::build {

class Quarantine {
 public:
  bool is_on() const { return on_; }
  std::string report() const;

  // Calls after the first have no effect.
  void impose(const std::string& difference, const ir::Graph& graph, const std::vector<at::Tensor>& inputs);

 private:
  std::atomic<bool> on_{false};
  mutable std::mutex mutex_;
  std::string report_;
};

}  // namespace tenon::build
