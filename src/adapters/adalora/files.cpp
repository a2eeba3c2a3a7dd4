#include <ATen/ops/tensor.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "adapters/adalora/adalora.h"
#include "base/error.h"
#include "formats/json.h"

namespace tenon::adapters {

AdaloraFields adalora_config(const Adapter& adapter) {
  formats::Config config(formats::parse_json(adapter.config, "adapter_config.json"), "adapter_config.json");
  if (config.text("peft_type") != "ADALORA")
    throw UserError(ErrorCode::adapter,
                    "the adapter \"" + adapter.name + "\" is not an AdaLoRA adapter. Only AdaLoRA has penalty() and allocate_ranks().");
  return AdaloraFields(config);
}

LoadedAdapter load_adalora(const formats::Config& config, Files& files, const ChosenLayers& chosen) {
  AdaloraFields adalora(config);
  auto paths = chosen.paths();
  for (const auto& [path, rank] : adalora.remaining)
    if (std::find(paths.begin(), paths.end(), path) == paths.end())
      config.fail("rank_pattern", "names \"" + path + "\", which is not an adapted layer");
  return chosen.load([&](const Layer& layer) {
    if (layer.kind == LayerKind::embedding || layer.is_norm()) refuse_layer(layer, "AdaLoRA");
    std::string at = kPrefix + layer.path + ".";
    int64_t r = adalora.rank(layer.path), in = layer.base.weight.numel() / layer.outputs();
    at::Tensor a = files.take_column_major(at + "lora_A", r, in), e = files.take(at + "lora_E", {r, 1});
    return make_adalora(a, e, files.take_column_major(at + "lora_B", layer.outputs(), r), adalora.scale, adalora.dropout);
  });
}

void drop_pruned_ranks(const Adapter& adapter, std::map<std::string, at::Tensor>& tensors, std::string& config) {
  if (adapter.kept_ranks.empty()) return;
  auto json = nlohmann::ordered_json::parse(config);
  for (const auto& [path, remaining] : adapter.kept_ranks) {
    json["rank_pattern"][path + ".lora_E"] = remaining;
    std::vector<int64_t> indices;
    for (size_t i = 0; i < remaining.size(); ++i)
      if (remaining[i]) indices.push_back(static_cast<int64_t>(i));
    at::Tensor chosen = at::tensor(indices, at::kLong);
    for (const char* name : {".lora_A", ".lora_E", ".lora_B"}) {
      at::Tensor& tensor = tensors.at(kPrefix + path + name);
      tensor = tensor.index_select(name == std::string(".lora_B") ? 1 : 0, chosen);
    }
  }
  config = json.dump(2);
}

}  // namespace tenon::adapters
