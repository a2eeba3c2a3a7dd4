#include "adapters/targets.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"

namespace tenon::adapters {

namespace {

regex::PythonRegex regex_of(const std::string& text, const std::string& field) {
  return {text, ErrorCode::adapter, "adapter_config.json: " + field};
}

bool ends_at_dot(const std::string& path, const std::string& name) { return path == name || path.ends_with("." + name); }

std::vector<std::string> texts_or_none(const formats::Config& config, const std::string& field) {
  return config.has(field) ? config.texts(field) : std::vector<std::string>();
}

}  // namespace

void report_unmatched(Unmatched what_to_do, const std::string& text) {
  std::string whole = "adapter_config.json: " + text;
  if (what_to_do == Unmatched::refuse)
    throw UserError(ErrorCode::adapter, whole + ". Correct it, or pass {.unmatched_patterns = tenon::Unmatched::warn}.");
  TORCH_WARN(whole);
}

std::string last_names(const std::vector<std::string>& paths) {
  constexpr size_t kMaxNames = 16;  // Keeps messages short; the layers of most models have fewer names.
  std::vector<std::string> names;
  for (const std::string& path : paths) {
    std::string name = path.substr(path.rfind('.') + 1);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  std::string out;
  for (size_t i = 0; i < std::min(names.size(), kMaxNames); ++i) out += (i ? ", " : "") + names[i];
  return names.size() > kMaxNames ? out + ", ..." : out;
}

ModuleNames ModuleNames::read(const formats::Config& config, const std::string& field) {
  ModuleNames out;
  if (!config.has(field)) return out;
  const nlohmann::json& value = config.any(field);
  if (value.is_string()) {
    out.all_linear_ = lower_case(value.get<std::string>()) == "all-linear";
    out.pattern_ = regex_of(value.get<std::string>(), field);
  } else {
    out.names_ = config.texts(field);
  }
  return out;
}

bool ModuleNames::match(const std::string& path) const {
  if (pattern_) return pattern_->fullmatch(path);
  return std::any_of(names_.begin(), names_.end(), [&](const std::string& name) { return ends_at_dot(path, name); });
}

bool ModuleNames::has(const std::string& path) const { return std::find(names_.begin(), names_.end(), path) != names_.end(); }

std::vector<std::string> ModuleNames::without_match(const std::vector<std::string>& paths) const {
  std::vector<std::string> out;
  for (const std::string& name : names_)
    if (std::none_of(paths.begin(), paths.end(), [&](const std::string& path) { return ends_at_dot(path, name); })) out.push_back(name);
  return out;
}

Targets::Targets(const formats::Config& config)
    : targets_(ModuleNames::read(config, "target_modules")), excluded_(ModuleNames::read(config, "exclude_modules")) {
  for (const std::string& name : texts_or_none(config, "modules_to_save"))
    saved_.push_back(regex_of("(^|.*\\.)" + name + "($|\\..*)", "modules_to_save"));
  has_layers_ =
      config.has("layers_to_transform") && !(config.any("layers_to_transform").is_array() && config.any("layers_to_transform").empty());
  if (has_layers_) {
    const nlohmann::json& value = config.any("layers_to_transform");
    constexpr int64_t kMaxLayerIndex = 1 << 20;  // Safety limit, not measured.
    if (value.is_array()) chosen_layers_ = config.integers("layers_to_transform", 0, kMaxLayerIndex);
    else chosen_layers_ = {config.integer("layers_to_transform", 0, kMaxLayerIndex)};
  }
  std::vector<std::string> names;
  if (config.has("layers_pattern")) {
    const nlohmann::json& value = config.any("layers_pattern");
    names = value.is_string() ? std::vector<std::string>{value.get<std::string>()} : config.texts("layers_pattern");
    if (value.is_string() && value.get<std::string>().empty()) names.clear();
    if (!names.empty() && !has_layers_) config.fail("layers_pattern", "needs layers_to_transform; add it, or remove layers_pattern");
  }
  if (names.empty()) layers_.push_back(regex_of(R"(.*?\.[^.]*\.(?P<idx>\d+)\.)", "layers_to_transform"));
  for (const std::string& name : names) layers_.push_back(regex_of("(?:^|.*?\\.)" + name + "\\.(?P<idx>\\d+)\\.", "layers_pattern"));
}

// Whether the path is one of modules_to_save or is inside of one.
bool Targets::is_in_saved(const std::string& path) const {
  return std::any_of(saved_.begin(), saved_.end(), [&](const regex::PythonRegex& name) { return name.match(path); });
}

// The index of a layer is the first number that follows a name, or that follows a name of layers_pattern.
bool Targets::is_layer_chosen(const std::string& path) const {
  for (const regex::PythonRegex& pattern : layers_) {
    auto number = pattern.match_group(path, "idx");
    if (!number) continue;
    number->erase(0, std::min(number->find_first_not_of('0'), number->size() - 1));
    return std::any_of(chosen_layers_.begin(), chosen_layers_.end(), [&](int64_t layer) { return std::to_string(layer) == *number; });
  }
  return false;
}

bool Targets::is_target(const std::string& path) const {
  if (excluded_.match(path) || is_in_saved(path) || !targets_.match(path)) return false;
  bool by_suffix = !targets_.is_pattern() && !targets_.has(path);
  return !has_layers_ || !by_suffix || is_layer_chosen(path);
}

std::vector<std::string> Targets::choose(const std::vector<Path>& paths, Unmatched unmatched) const {
  std::vector<std::string> out, all;
  for (const Path& path : paths) {
    all.push_back(path.name);
    bool chosen = targets_.is_all_linear() ? path.is_linear && !path.is_head && !excluded_.match(path.name) && !is_in_saved(path.name)
                                           : is_target(path.name);
    if (chosen) out.push_back(path.name);
  }
  for (const std::string& name : targets_.without_match(all))
    report_unmatched(unmatched,
                     "target_modules names \"" + name + "\", which matches no layer of the model. Its layers end with " + last_names(all));
  if (out.empty() && saved_.empty())
    throw UserError(ErrorCode::adapter, "adapter_config.json: target_modules chooses no layer of the model. Its layers end with " +
                                            last_names(all) + ". Name some of them, or use the model that the adapter was trained on.");
  return out;
}

Patterns::Patterns(const formats::Config& config, const std::string& field) : field_(field) {
  if (!config.has(field)) return;
  const nlohmann::json& value = config.any(field);
  if (!value.is_object()) config.fail(field, "is not an object that maps patterns to numbers");
  for (const std::string& key : config.keys(field)) {
    const nlohmann::json& number = value.at(key);
    if (!number.is_number()) config.fail(field, "holds a value that is not a number");
    values_.push_back({key, regex_of("(.*\\.)?(" + key + ")$", field), number.get<double>()});
  }
}

double Patterns::of(const std::string& path, double otherwise) const {
  for (const PatternValue& entry : values_)
    if (entry.pattern.match(path)) return entry.value;
  return otherwise;
}

void Patterns::check_matches(const std::vector<std::string>& paths, Unmatched unmatched) const {
  for (const PatternValue& entry : values_)
    if (std::none_of(paths.begin(), paths.end(), [&](const std::string& path) { return entry.pattern.match(path); }))
      report_unmatched(unmatched, field_ + " names \"" + entry.text + "\", which matches no target");
}

}  // namespace tenon::adapters
