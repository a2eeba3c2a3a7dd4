// Which layers an adapter sits on, by PEFT's rules for names. Paths are those of the base model, without a prefix.
#pragma once

#include <map>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "formats/config.h"

namespace tenon::adapters {

// A field that holds one regular expression for the whole path, or names that end a path at a dot.
class Names {
 public:
  Names() = default;
  static Names read(const formats::Config& config, const std::string& field);

  bool empty() const { return !pattern_ && names_.empty(); }
  bool is_pattern() const { return pattern_.has_value(); }
  bool is_all_linear() const { return all_linear_; }
  const std::vector<std::string>& names() const { return names_; }
  bool match(const std::string& path) const;
  // Whether the path is one of the names, all of it.
  bool has(const std::string& path) const;
  // Names that match none of the paths.
  std::vector<std::string> without_match(const std::vector<std::string>& paths) const;

 private:
  std::optional<std::regex> pattern_;
  std::string pattern_text_;
  bool all_linear_ = false;
  std::vector<std::string> names_;
};

class Targets {
 public:
  // target_modules, exclude_modules, layers_to_transform, layers_pattern and modules_to_save of a configuration.
  explicit Targets(const formats::Config& config);

  // The chosen ones, in the order given. Refuses names that match nothing, and a choice of nothing.
  struct Path {
    std::string name;
    bool is_linear = false, is_head = false;  // for "all-linear"
  };
  std::vector<std::string> choose(const std::vector<Path>& paths) const;

 private:
  bool is_target(const std::string& path) const;
  bool is_in_saved(const std::string& path) const;
  bool is_layer_chosen(const std::string& path) const;

  Names targets_, excluded_;
  std::vector<std::string> saved_, layer_names_;
  std::vector<int64_t> layers_;
  bool has_layers_ = false;
};

// rank_pattern and alpha_pattern: the first key, in the order of names in which PEFT writes them, that matches the end of a path at a dot,
// or all of it.
class Patterns {
 public:
  Patterns() = default;
  Patterns(const formats::Config& config, const std::string& field);
  double of(const std::string& path, double otherwise) const;
  // Refuses keys that match none of the paths.
  void need_matches(const std::vector<std::string>& paths) const;

 private:
  struct Row {
    std::string text;
    std::regex pattern;
    double value;
  };
  std::vector<Row> rows_;
  std::string field_;
};

}  // namespace tenon::adapters
