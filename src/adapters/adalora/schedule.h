// Which ranks an AdaLoRA adapter keeps while it trains: those that the loss feels most, fewer and fewer.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "adapters/adalora/adalora.h"

namespace tenon::adapters {

class Schedule {
 public:
  using Parameters = std::vector<std::pair<std::string, at::Tensor>>;  // by path and name of the file, with gradients

  explicit Schedule(const AdaloraConfig& config) : config_(config) {}

  // After a step of the optimizer: takes note of the gradients, and every so many steps sets the factors of ranks that are not kept to 0.
  void advance(const Parameters& parameters, int64_t step);
  // By path; empty: none was taken away yet.
  const std::map<std::string, std::vector<bool>>& kept() const { return kept_; }

 private:
  struct Felt {
    at::Tensor mean, spread;  // of |parameter x gradient|, both moving
  };
  void feel(const Parameters& parameters);
  // How many ranks may be left of `all`, in all layers.
  int64_t budget(int64_t step, int64_t all, int64_t layers) const;
  void choose(int64_t step);

  AdaloraConfig config_;
  std::map<std::string, Felt> felt_;
  std::map<std::string, std::vector<bool>> kept_;
};

// What is added to the loss: how far the rows of A and the columns of B are from being orthogonal.
at::Tensor orthogonal_penalty(const Schedule::Parameters& parameters, const AdaloraConfig& config);

}  // namespace tenon::adapters
