// VeRA: all layers share two random matrices; each layer trains one factor per rank and one per output.
#pragma once

#include "adapters/method.h"

namespace tenon::adapters {

struct VeraFields {
  explicit VeraFields(const formats::Config& config);
  int64_t r, key;
  bool saves_projections;
  double dropout;
};

// The largest numbers of inputs and outputs of the chosen layers. Throws UserError for layers that VeRA does not support.
std::pair<int64_t, int64_t> vera_sizes(const ChosenLayers& chosen);
// Generates the random matrices [r, inputs] and [outputs, r] from the configuration's key. As in PEFT, they are rounded to the type of the
// base and then widened.
std::pair<at::Tensor, at::Tensor> make_projections(const VeraFields& config, const ChosenLayers& chosen);

struct VeraTensors {
  at::Tensor a, b, lambda_b, lambda_d;
};
LayerAdapterPointer make_vera(VeraTensors tensors, double dropout);
LoadedAdapter load_vera(const formats::Config& config, Files& files, const ChosenLayers& chosen);
void create_vera(const formats::Config& config, const ChosenLayers& chosen, NewTensors& tensors);

}  // namespace tenon::adapters
