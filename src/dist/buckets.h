// Averages gradients over all processes in a few large collectives.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "dist/process_group.h"

namespace tenon::dist {

// The layout of the buckets depends on the parameters alone and never changes, because from four processes on the bits of a sum depend on
// its position in a bucket. Eager and compiled training therefore give the same bits.
class GradientBuckets {
 public:
  // Parameters are those that require gradients now. Each bucket holds at most `bucket_bytes`, unless one parameter is larger.
  GradientBuckets(const std::vector<at::Tensor>& parameters, std::shared_ptr<ProcessGroup> group, size_t bucket_bytes);
  ~GradientBuckets();
  GradientBuckets(const GradientBuckets&) = delete;
  GradientBuckets& operator=(const GradientBuckets&) = delete;

  // From now until average(), the collective of a bucket begins as soon as a backward has computed all of its gradients. Uses a hook on
  // each parameter, so a compiled backward would run node by node.
  void begin_early();
  // Replaces the gradients by their average over all processes. A process without a gradient for a parameter counts as zeros; a parameter
  // without one in all processes keeps none. Throws UserError(config) if other parameters require gradients than at first.
  void average();

 private:
  struct GradientBucket {
    std::vector<at::Tensor> parameters;
    // The gradients one after the other, and one number per parameter: how many processes have a gradient for it.
    at::Tensor flat;
    std::vector<at::Tensor> parts;  // The parts of `flat` that belong to the parameters.
    at::Tensor counts;
    size_t missing = 0;  // Number of gradients that the backward has not computed yet.
    Pending sum;
  };
  struct Hook;

  static void allocate(GradientBucket& bucket);
  void fill(GradientBucket& bucket);
  void take(GradientBucket& bucket);
  void begin(GradientBucket& bucket);
  void note_gradient(size_t bucket);

  std::shared_ptr<ProcessGroup> group_;
  std::vector<GradientBucket> buckets_;
  std::vector<at::Tensor> frozen_;
  bool has_hooks_ = false, is_early_ = false;
  size_t begun_ = 0;  // Number of buckets whose collectives have begun. All processes begin them in the same order.
};

}  // namespace tenon::dist
