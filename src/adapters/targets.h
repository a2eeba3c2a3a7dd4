// Chooses the layers that an adapter applies to, by PEFT's rules for names. Paths are those of the base model, without a prefix. Regular
// expressions have Python's syntax and are matched by the same function of `re` that PEFT calls.
#pragma once

#include <tenon/adapters.h>

#include <optional>
#include <string>
#include <vector>

#include "formats/config.h"
#include "regex/python.h"

namespace tenon::adapters {

// Throws UserError, or warns, because a name or pattern matches no layer.
void report_unmatched(Unmatched what_to_do, const std::string& text);

// A list of the names that the paths end with, for error messages.
std::string last_names(const std::vector<std::string>& paths);

// A field that holds either one regular expression for the full path, or a list of names that a path must equal or end with after a dot.
class ModuleNames {
 public:
  ModuleNames() = default;
  static ModuleNames read(const formats::Config& config, const std::string& field);

  bool empty() const { return !pattern_ && names_.empty(); }
  bool is_pattern() const { return pattern_.has_value(); }
  bool is_all_linear() const { return all_linear_; }
  const std::vector<std::string>& names() const { return names_; }
  bool match(const std::string& path) const;
  // Whether the full path is one of the names.
  bool has(const std::string& path) const;
  // Returns the names that match none of the paths.
  std::vector<std::string> without_match(const std::vector<std::string>& paths) const;

 private:
  std::optional<regex::PythonRegex> pattern_;
  bool all_linear_ = false;
  std::vector<std::string> names_;
};

class Targets {
 public:
  // Reads target_modules, exclude_modules, layers_to_transform, layers_pattern and modules_to_save.
  explicit Targets(const formats::Config& config);

  // Returns the chosen paths in the given order. Reports names that match nothing; throws UserError if no path is chosen.
  struct Path {
    std::string name;
    bool is_linear = false, is_head = false;  // Used by "all-linear".
  };
  std::vector<std::string> choose(const std::vector<Path>& paths, Unmatched unmatched) const;

 private:
  bool is_target(const std::string& path) const;
  bool is_in_saved(const std::string& path) const;
  bool is_layer_chosen(const std::string& path) const;

  ModuleNames targets_, excluded_;
  std::vector<regex::PythonRegex> saved_;   // The patterns of modules_to_save.
  std::vector<regex::PythonRegex> layers_;  // Each has a group "idx", the index of the layer; the first match counts.
  std::vector<int64_t> chosen_layers_;
  bool has_layers_ = false;
};

// The fields rank_pattern and alpha_pattern. The first key, in file order, that matches a path, or its end after a dot, determines the
// value.
class Patterns {
 public:
  Patterns() = default;
  Patterns(const formats::Config& config, const std::string& field);
  double of(const std::string& path, double otherwise) const;
  // Reports keys that match none of the paths.
  void check_matches(const std::vector<std::string>& paths, Unmatched unmatched) const;

 private:
  struct PatternValue {
    std::string text;
    regex::PythonRegex pattern;
    double value;
  };
  std::vector<PatternValue> values_;
  std::string field_;
};

}  // namespace tenon::adapters
