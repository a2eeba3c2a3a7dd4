// Which layers an adapter sits on, by PEFT's rules for names. Paths are those of the base model, without a prefix. Regular expressions have
// the meaning that Python gives them, and are matched by the function of `re` that PEFT calls.
#pragma once

#include <tenon/adapters.h>

#include <optional>
#include <string>
#include <vector>

#include "formats/config.h"
#include "regex/python.h"

namespace tenon::adapters {

// Refuses a name or a pattern that matches no layer, or warns of it.
void report_unmatched(Unmatched what_to_do, const std::string& text);

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
  std::optional<regex::PythonRegex> pattern_;
  bool all_linear_ = false;
  std::vector<std::string> names_;
};

class Targets {
 public:
  // target_modules, exclude_modules, layers_to_transform, layers_pattern and modules_to_save of a configuration.
  explicit Targets(const formats::Config& config);

  // The chosen ones, in the order given. Names that match nothing are reported; a choice of nothing is refused.
  struct Path {
    std::string name;
    bool is_linear = false, is_head = false;  // for "all-linear"
  };
  std::vector<std::string> choose(const std::vector<Path>& paths, Unmatched unmatched) const;

 private:
  bool is_target(const std::string& path) const;
  bool is_in_saved(const std::string& path) const;
  bool is_layer_chosen(const std::string& path) const;

  Names targets_, excluded_;
  std::vector<regex::PythonRegex> saved_;   // modules_to_save
  std::vector<regex::PythonRegex> layers_;  // Each has a group "idx", the number of the layer; the first that matches counts.
  std::vector<int64_t> chosen_layers_;
  bool has_layers_ = false;
};

// rank_pattern and alpha_pattern: the first key, in the order of the file, that matches the end of a path at a dot, or all of it.
class Patterns {
 public:
  Patterns() = default;
  Patterns(const formats::Config& config, const std::string& field);
  double of(const std::string& path, double otherwise) const;
  // Reports keys that match none of the paths.
  void check_matches(const std::vector<std::string>& paths, Unmatched unmatched) const;

 private:
  struct Row {
    std::string text;
    regex::PythonRegex pattern;
    double value;
  };
  std::vector<Row> rows_;
  std::string field_;
};

}  // namespace tenon::adapters
