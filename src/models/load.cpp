// A directory becomes a model: config.json names the family, the family takes its weights by name, and nothing may be left over.
#include <tenon/family.h>

#include <map>
#include <mutex>

#include "base/error.h"
#include "formats/json.h"
#include "models/bert/model.h"
#include "models/fields.h"
#include "models/gpt2/model.h"
#include "models/llama/model.h"
#include "models/resnet/model.h"
#include "models/vit/model.h"
#include "models/weights.h"

namespace tenon {

namespace {

struct Family {
  ModelMaker make;
  std::string nothing;  // tensors that older files hold and that carry nothing
};

struct Families {
  std::mutex mutex;
  std::map<std::pair<std::string, std::string>, Family> rows = {
#define TENON_FAMILY(type, architecture, maker, nothing) {{type, architecture}, {models::maker, nothing}},
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
  for (const auto& [key, family] : all.rows) {
    if (key.first != type) continue;
    for (const std::string& architecture : architectures)
      if (key.second == architecture) return family;
    known += (known.empty() ? "" : ", ") + key.second;
  }
  if (!known.empty())
    throw UserError(ErrorCode::config, "config.json: architectures names " + (architectures.empty() ? "nothing" : architectures.front()) +
                                           "; known for model_type \"" + type + "\": " + known);
  for (const auto& [key, family] : all.rows) known += (known.empty() ? "" : ", ") + key.first + " (" + key.second + ")";
  throw UserError(ErrorCode::config,
                  "config.json: model_type \"" + type + "\" is not known; known are " + known + "; tenon::register_family adds one");
}

}  // namespace

void register_family(const std::string& model_type, const std::string& architecture, ModelMaker make) {
  Families& all = families();
  std::lock_guard lock(all.mutex);
  all.rows[{model_type, architecture}] = {std::move(make), ""};
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

  std::set<std::string> elsewhere;  // copies of what another name holds
  for (const NamedTensor& item : model->named_parameters())
    if (model->file_name(item.key()).empty()) elsewhere.insert(item.key());
  files->refuse_rest(std::regex(family.nothing), elsewhere);
  model->config_ = directory.read_text("config.json", formats::kConfigLimits.bytes);
  if (directory.has("generation_config.json"))
    model->generation_config_ = directory.read_text("generation_config.json", formats::kConfigLimits.bytes);
  return model;
}

}  // namespace tenon
