// AdaLoRA: LoRA with one factor per rank, whose training prunes ranks.
#pragma once

#include <map>

#include "adapters/method.h"
#include "adapters/table.h"

namespace tenon::adapters {

struct AdaloraFields {
  explicit AdaloraFields(const formats::Config& config);
  int64_t rank(const std::string& path) const;

  int64_t first_rank;
  double scale, dropout;
  std::map<std::string, int64_t> remaining;  // The number of remaining ranks by path; a path that is missing has all of them.

  // Parameters of training (schedule.h). Ranks are pruned every `delta_t` steps after step `tinit`; pruning ends `tfinal` steps before the
  // last one. `total_step` is 0 if the configuration does not set it.
  int64_t target_rank, tinit, tfinal, delta_t, total_step;
  double beta1, beta2, orthogonal_weight;
};

AdaloraFields adalora_config(const Adapter& adapter);  // Throws UserError for other methods.
LayerAdapterPointer make_adalora(at::Tensor a, at::Tensor e, at::Tensor b, double scale, double dropout);
LoadedAdapter load_adalora(const formats::Config& config, Files& files, const ChosenLayers& chosen);
void create_adalora(const formats::Config& config, const ChosenLayers& chosen, NewTensors& tensors);

// Removes pruned ranks from the tensors and the configuration before they are saved.
void drop_pruned_ranks(const Adapter& adapter, std::map<std::string, at::Tensor>& tensors, std::string& config);

}  // namespace tenon::adapters
