// Chooses the ranks that an AdaLoRA adapter keeps during training: those that the loss is most sensitive to, within a shrinking budget.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "adapters/adalora/adalora.h"

namespace tenon::adapters {

class Schedule {
 public:
  using Parameters = std::vector<std::pair<std::string, at::Tensor>>;  // Parameters with gradients, by path and name in the file.

  explicit Schedule(const AdaloraFields& config) : config_(config) {}

  // Must be called after each step of the optimizer. Updates the sensitivities from the gradients and, every `delta_t` steps, sets the
  // factors of pruned ranks to 0.
  void advance(const Parameters& parameters, int64_t step);
  // The kept ranks by path; empty if none was pruned yet.
  const std::map<std::string, std::vector<bool>>& kept() const { return kept_; }

 private:
  struct Sensitivity {
    at::Tensor mean, uncertainty;  // Moving averages of |parameter x gradient| and of its deviation.
  };
  void update_sensitivity(const Parameters& parameters);
  // Returns how many of the `all` ranks of all layers may remain.
  int64_t budget(int64_t step, int64_t all, int64_t layers) const;
  void choose(int64_t step);

  AdaloraFields config_;
  std::map<std::string, Sensitivity> sensitivity_;
  std::map<std::string, std::vector<bool>> kept_;
};

// The regularization term of the loss: how far the rows of A and the columns of B are from being orthogonal.
at::Tensor orthogonal_penalty(const Schedule::Parameters& parameters, const AdaloraFields& config);

}  // namespace tenon::adapters
