// AdaLoRA: LoRA with a factor a rank, of which training takes some away.
#pragma once

#include <map>

#include "adapters/method.h"
#include "adapters/table.h"

namespace tenon::adapters {

struct AdaloraConfig {
  explicit AdaloraConfig(const formats::Config& config);
  int64_t rank(const std::string& path) const;

  int64_t first_rank;
  double scale;
  std::map<std::string, int64_t> left;  // of the ranks, by path; empty: all

  // Of training (schedule.h). Ranks begin to go behind step `tinit`, every `delta_t` steps, and all that go are gone `tfinal` steps before
  // the last. 0 steps in all: the configuration does not say.
  int64_t target_rank, tinit, tfinal, delta_t, total_step;
  double beta1, beta2, orthogonal_weight;
};

AdaloraConfig adalora_config(const Adapter& adapter);  // refuses other methods
PartPointer make_adalora(at::Tensor a, at::Tensor e, at::Tensor b, double scale);
Loaded load_adalora(const formats::Config& config, Files& files, const Chosen& chosen);

// Tensors and configuration as they are saved: without the ranks that training took away.
void leave_ranks(const Adapter& adapter, std::map<std::string, at::Tensor>& tensors, std::string& config);

}  // namespace tenon::adapters
