// What an Accelerator has prepared, and where its loop is.
#pragma once

#include <tenon/accelerate.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dist/buckets.h"
#include "dist/process_group.h"
#include "dist/shards.h"

namespace tenon::detail {

class AcceleratorState : public std::enable_shared_from_this<AcceleratorState> {
 public:
  explicit AcceleratorState(AcceleratorOptions settings);

  struct PreparedTensors {
    NamedTensors parameters, buffers;
    std::unique_ptr<dist::GradientBuckets> buckets;
  };
  struct OptimizerEntry {
    torch::optim::Optimizer* optimizer;
    std::unique_ptr<dist::OptimizerShards> shards;  // Null if each process has the whole state.
  };
  struct SchedulerEntry {
    std::function<void()> step;
    int64_t steps = 0;
  };
  // A loader that is being iterated.
  struct Iteration {
    const LoaderProgress* loader;
    bool is_at_end = false;
    int64_t remainder = 0;  // Number of examples in the last round if that is smaller than the others, otherwise 0.
  };

  // The iteration whose batch the program got last; null outside of loops.
  const Iteration* current() const { return iterations.empty() ? nullptr : &iterations.back(); }
  void begin_iteration(const LoaderProgress* loader, int64_t remainder);
  void set_current(const LoaderProgress* loader, bool is_at_end);
  OptimizerEntry& entry_of(const torch::optim::Optimizer& optimizer);
  void average_gradients();

  AcceleratorOptions options;  // Completed by the environment.
  std::optional<Options> compile_options;
  bool is_bf16 = false;
  std::shared_ptr<dist::ProcessGroup> group;

  int64_t step = 0;
  bool is_sync = true;
  std::vector<Iteration> iterations;
  std::vector<PreparedTensors> models;
  std::vector<OptimizerEntry> optimizers;
  std::vector<SchedulerEntry> schedulers;
  std::vector<std::shared_ptr<LoaderProgress>> loaders;
};

// Throws a UserError that names the rank if the text is not the same in all processes.
void check_equal(dist::ProcessGroup& group, const std::string& what, const std::string& text, ErrorCode code = ErrorCode::distributed);
// The names, types and shapes of tensors, one per line.
std::string describe(const NamedTensors& tensors);

}  // namespace tenon::detail
