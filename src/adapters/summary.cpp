#include "adapters/summary.h"

#include <array>
#include <cstdio>
#include <set>

namespace tenon::adapters {

namespace {

// Returns the number with a comma before each group of three digits.
std::string grouped(int64_t number) {
  std::string out = std::to_string(number);
  for (size_t at = out.size(); at > 3;) out.insert(at -= 3, 1, ',');
  return out;
}

// A trained bias is a parameter of the base in PEFT.
bool is_bias(const LayerAdapter& layer_adapter) {
  auto replacement = layer_adapter.replacement();
  return replacement && !replacement->weight.defined();
}

int64_t elements_of(const Adapter& adapter) {
  int64_t out = 0;
  for (const auto& layer_adapters : adapter.layer_adapters)
    for (const LayerAdapterPointer& layer_adapter : layer_adapters)
      for (const auto& [name, tensor] : layer_adapter->tensors()) {
        if (name.empty() || is_bias(*layer_adapter)) continue;
        out += tensor.numel() + (name == "lora_E");  // AdaLoRA has a counter of ranks per layer.
      }
  return out;
}

}  // namespace

std::string trainable_summary(const std::vector<NamedTensor>& base, const std::vector<AdapterPointer>& adapters, int64_t trained) {
  int64_t all = 0, trainable = trained;
  std::set<const c10::TensorImpl*> known;  // A tensor that two modules share counts once.
  for (const NamedTensor& parameter : base) {
    if (!known.insert(parameter.value().unsafeGetTensorImpl()).second) continue;
    all += parameter.value().numel();
    if (parameter.value().requires_grad()) trainable += parameter.value().numel();
  }
  for (const AdapterPointer& adapter : adapters) all += elements_of(*adapter);
  std::array<char, 32> percent{};
  double share = all == 0 ? 0 : static_cast<double>(100 * trainable) / static_cast<double>(all);
  std::snprintf(percent.data(), percent.size(), "%.4f", share);
  return "trainable params: " + grouped(trainable) + " || all params: " + grouped(all) + " || trainable%: " + percent.data();
}

}  // namespace tenon::adapters
