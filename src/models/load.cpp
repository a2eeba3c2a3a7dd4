// Loads a model from a directory: config.json names the family, and the family takes its weights by name. A tensor that nothing took is an
// error.
#include <tenon/family.h>

#include <map>
#include <mutex>

#include "base/error.h"
#include "formats/json.h"
#include "models/bert/model.h"
#include "models/fields.h"
#include "models/gemma/config.h"
#include "models/gpt2/model.h"
#include "models/llama/model.h"
#include "models/opt/model.h"
#include "models/resnet/model.h"
#include "models/vit/model.h"
#include "models/weights.h"

namespace tenon {

namespace {

struct Family {
  ModelMaker make;
  std::string ignored_tensors;  // A regular expression for tensors of older files that are not needed.
};

struct Families {
  std::mutex mutex;
  std::map<std::pair<std::string, std::string>, Family> entries = {
#define TENON_FAMILY(type, architecture, maker, ignored_tensors) {{type, architecture}, {models::maker, ignored_tensors}},
#include "models/families.def"
#undef TENON_FAMILY
  };
};

Families& families() {
  static Families all;
  return all;
}

Family find_family(const std::string& type, const std::vector<std::string>& architectures) {
  Families& all = families();
  std::lock_guard lock(all.mutex);
  std::string known;
  for (const auto& [key, family] : all.entries) {
    if (key.first != type) continue;
    for (const std::string& architecture : architectures)
      if (key.second == architecture) return family;
    known += (known.empty() ? "" : ", ") + key.second;
  }
  if (!known.empty())
    throw UserError(ErrorCode::config, "config.json: architectures names " + (architectures.empty() ? "nothing" : architectures.front()) +
                                           "; supported for model_type \"" + type + "\": " + known);
  for (const auto& [key, family] : all.entries) known += (known.empty() ? "" : ", ") + key.first + " (" + key.second + ")";
  throw UserError(ErrorCode::config, "config.json: model_type \"" + type + "\" is not supported. Supported are " + known +
                                         ". Add a family with tenon::register_family.");
}

}  // namespace

void register_family(const std::string& model_type, const std::string& architecture, ModelMaker make) {
  Families& all = families();
  std::lock_guard lock(all.mutex);
  all.entries[{model_type, architecture}] = {std::move(make), ""};
}

std::shared_ptr<Model> load_model(const std::string& path, std::optional<at::ScalarType> dtype) {
  formats::Directory directory(path);
  formats::Config config = formats::Config::read(directory, "config.json");
  Family family =
      find_family(config.text("model_type"), config.has("architectures") ? config.texts("architectures") : std::vector<std::string>());
  auto fields = models::make_fields(config);
  auto files = std::make_shared<models::FileWeights>(directory, dtype);
  std::shared_ptr<Model> model = family.make(Fields(fields), Weights(files));
  models::refuse_unread(*fields);

  std::set<std::string> elsewhere;  // Tensors that are stored under another name.
  for (const NamedTensor& item : model->named_parameters())
    if (model->file_name(item.key()).empty()) elsewhere.insert(item.key());
  files->refuse_rest(std::regex(family.ignored_tensors), elsewhere);
  model->config_ = directory.read_text("config.json", formats::kConfigLimits.bytes);
  if (directory.has("generation_config.json"))
    model->generation_config_ = directory.read_text("generation_config.json", formats::kConfigLimits.bytes);
  return model;
}

}  // namespace tenon
