// Saves a model as a directory that Transformers can load.
#include <tenon/models.h>

#include <filesystem>

#include "base/error.h"
#include "formats/json.h"
#include "formats/shards.h"
#include "models/weights.h"

namespace tenon {

namespace {

// Returns the original config.json with the element type that is written now.
std::string with_type(const std::string& config, at::ScalarType type) {
  auto fields = nlohmann::ordered_json::parse(config);
  const char* names[] = {"dtype", "torch_dtype"};
  for (const char* name : names)
    if (fields.contains(name))
      fields[name] = type == at::kBFloat16 ? "bfloat16" : type == at::kHalf ? "float16" : type == at::kDouble ? "float64" : "float32";
  return fields.dump(2) + "\n";
}

}  // namespace

void save_model(const Model& model, const std::string& path, int64_t shard_bytes) {
  std::filesystem::create_directories(path);
  formats::Directory directory(path);
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (const auto& list : {model.named_parameters(), model.named_buffers()})
    for (const NamedTensor& item : list)
      if (std::string name = model.file_name(item.key()); !name.empty()) tensors.emplace_back(name, item.value().detach().contiguous());
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<formats::TensorView> views;
  for (const auto& [name, tensor] : tensors) views.push_back(models::view_of(name, tensor));
  directory.write("config.json", with_type(model.config(), tensors.front().second.scalar_type()));
  if (!model.generation_config().empty()) directory.write("generation_config.json", model.generation_config());
  formats::write_weights(directory, views, formats::Metadata{{"format", "pt"}}, static_cast<uint64_t>(shard_bytes));
}

}  // namespace tenon
