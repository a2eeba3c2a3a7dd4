#include "adapters/targets.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace tenon::adapters {

namespace {

std::regex regex_of(const std::string& text, const std::string& field) {
  try {
    return std::regex(text);
  } catch (const std::regex_error& error) {
    throw UserError(ErrorCode::adapter, "adapter_config.json: " + field + " holds \"" + text +
                                            "\", which is no regular expression that is known: " + error.what());
  }
}

bool ends_at_dot(const std::string& path, const std::string& name) { return path == name || path.ends_with("." + name); }

std::vector<std::string> texts_or_none(const formats::Config& config, const std::string& field) {
  return config.has(field) ? config.texts(field) : std::vector<std::string>();
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

}  // namespace

Names Names::read(const formats::Config& config, const std::string& field) {
  Names out;
  if (!config.has(field)) return out;
  const nlohmann::json& value = config.any(field);
  if (value.is_string()) {
    out.pattern_text_ = value.get<std::string>();
    out.all_linear_ = lower(out.pattern_text_) == "all-linear";
    out.pattern_ = regex_of(out.pattern_text_, field);
  } else {
    out.names_ = config.texts(field);
  }
  return out;
}

bool Names::match(const std::string& path) const {
  if (pattern_) return std::regex_match(path, *pattern_);
  return std::any_of(names_.begin(), names_.end(), [&](const std::string& name) { return ends_at_dot(path, name); });
}

bool Names::has(const std::string& path) const { return std::find(names_.begin(), names_.end(), path) != names_.end(); }

std::vector<std::string> Names::without_match(const std::vector<std::string>& paths) const {
  std::vector<std::string> out;
  for (const std::string& name : names_)
    if (std::none_of(paths.begin(), paths.end(), [&](const std::string& path) { return ends_at_dot(path, name); })) out.push_back(name);
  return out;
}

Targets::Targets(const formats::Config& config)
    : targets_(Names::read(config, "target_modules")),
      excluded_(Names::read(config, "exclude_modules")),
      saved_(texts_or_none(config, "modules_to_save")) {
  has_layers_ =
      config.has("layers_to_transform") && !(config.any("layers_to_transform").is_array() && config.any("layers_to_transform").empty());
  if (has_layers_) {
    const nlohmann::json& value = config.any("layers_to_transform");
    constexpr int64_t kMost = 1 << 20;
    if (value.is_array()) layers_ = config.integers("layers_to_transform", 0, kMost);
    else layers_ = {config.integer("layers_to_transform", 0, kMost)};
  }
  if (config.has("layers_pattern")) {
    const nlohmann::json& value = config.any("layers_pattern");
    layer_names_ = value.is_string() ? std::vector<std::string>{value.get<std::string>()} : config.texts("layers_pattern");
    if (!layer_names_.empty() && !has_layers_) config.fail("layers_pattern", "says nothing without layers_to_transform");
  }
}

// Inside one of modules_to_save, or such a module itself.
bool Targets::is_in_saved(const std::string& path) const {
  return std::any_of(saved_.begin(), saved_.end(), [&](const std::string& name) {
    return ends_at_dot(path, name) || path.starts_with(name + ".") || path.find("." + name + ".") != std::string::npos;
  });
}

// The layer's number is the first number behind a name, or the one behind one of layers_pattern.
bool Targets::is_layer_chosen(const std::string& path) const {
  auto is_chosen = [&](const std::string& pattern) {
    std::smatch found;
    if (!std::regex_search(path, found, std::regex(pattern), std::regex_constants::match_continuous)) return false;
    return std::find(layers_.begin(), layers_.end(), std::stoll(found[1])) != layers_.end();
  };
  if (layer_names_.empty()) return is_chosen(R"(.*?\.[^.]*\.(\d{1,9})\.)");
  return std::any_of(layer_names_.begin(), layer_names_.end(),
                     [&](const std::string& name) { return is_chosen("(?:.*?\\.)?" + name + "\\.(\\d{1,9})\\."); });
}

bool Targets::is_target(const std::string& path) const {
  if (excluded_.match(path) || is_in_saved(path) || !targets_.match(path)) return false;
  bool by_suffix = !targets_.is_pattern() && !targets_.has(path);
  return !has_layers_ || !by_suffix || is_layer_chosen(path);
}

std::vector<std::string> Targets::choose(const std::vector<Path>& paths) const {
  std::vector<std::string> out, all;
  for (const Path& path : paths) {
    all.push_back(path.name);
    bool chosen = targets_.is_all_linear() ? path.is_linear && !path.is_head && !excluded_.match(path.name) && !is_in_saved(path.name)
                                           : is_target(path.name);
    if (chosen) out.push_back(path.name);
  }
  for (const std::string& name : targets_.without_match(all))
    throw UserError(ErrorCode::adapter,
                    "adapter_config.json: target_modules names \"" + name + "\", which no layer of the model is called");
  if (out.empty() && saved_.empty())
    throw UserError(ErrorCode::adapter, "adapter_config.json: target_modules chooses no layer of the model");
  return out;
}

Patterns::Patterns(const formats::Config& config, const std::string& field) : field_(field) {
  if (!config.has(field)) return;
  const nlohmann::json& value = config.any(field);
  if (!value.is_object()) config.fail(field, "is not an object of numbers");
  for (const auto& [key, number] : value.items()) {
    if (!number.is_number()) config.fail(field, "holds something else than numbers");
    std::string text = key.starts_with('^') ? key.substr(1) : "(.*\\.)?(" + key + ")";
    rows_.push_back({key, regex_of(text, field), number.get<double>()});
  }
}

double Patterns::of(const std::string& path, double otherwise) const {
  for (const Row& row : rows_)
    if (std::regex_match(path, row.pattern)) return row.value;
  return otherwise;
}

void Patterns::need_matches(const std::vector<std::string>& paths) const {
  for (const Row& row : rows_)
    if (std::none_of(paths.begin(), paths.end(), [&](const std::string& path) { return std::regex_match(path, row.pattern); }))
      throw UserError(ErrorCode::adapter, "adapter_config.json: " + field_ + " names \"" + row.text + "\", which matches no target");
}

}  // namespace tenon::adapters
