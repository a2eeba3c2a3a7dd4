// Typed access to the fields of a configuration. Faults are UserError(config) that name file and field. It
// remembers what was asked for: what nobody reads may change the meaning of the weights, so that whoever knows
// the model refuses it by name (`unread`).
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "formats/directory.h"

namespace tenon::formats {

class Config {
 public:
  struct Field {
    std::string name;             // of nested objects too: "rope_scaling.factor"
    const nlohmann::json* value;  // of the configuration
  };

  Config(nlohmann::json object, std::string source);
  // Keeps the text, so that `keys` has the order of the file.
  static Config parse(const std::string& text, const std::string& source);
  static Config read(const Directory& directory, const std::string& name);

  // False if it is null, which says the same in these files. Does not count as reading.
  bool has(const std::string& name) const;

  // Limits are inclusive.
  int64_t integer(const std::string& name, int64_t least, int64_t most) const;
  double number(const std::string& name, double least, double most) const;
  bool boolean(const std::string& name) const;
  std::string text(const std::string& name) const;
  std::vector<std::string> texts(const std::string& name) const;
  std::vector<int64_t> integers(const std::string& name, int64_t least, int64_t most) const;
  // Fields of the object are read one by one; those that are not are among unread() of the whole.
  Config object(const std::string& name) const;
  // Names of the fields of an object that is a field of the whole file: in the order of the file if the text is known, else sorted.
  std::vector<std::string> keys(const std::string& name) const;
  // For fields of several forms: counts as reading all of it.
  const nlohmann::json& any(const std::string& name) const;

  // The default stands for a field that is missing or null.
  int64_t integer_or(const std::string& name, int64_t otherwise, int64_t least, int64_t most) const;
  double number_or(const std::string& name, double otherwise, double least, double most) const;
  bool boolean_or(const std::string& name, bool otherwise) const;
  std::string text_or(const std::string& name, const std::string& otherwise) const;

  std::vector<Field> unread() const;
  [[noreturn]] void fail(const std::string& name, const std::string& what) const;

 private:
  struct Shared;
  Config(std::shared_ptr<Shared> shared, const nlohmann::json* object, std::string path);

  const nlohmann::json* find(const std::string& name) const;
  const nlohmann::json& need(const std::string& name) const;
  int64_t integer_in(const std::string& name, const nlohmann::json& value, int64_t least, int64_t most) const;

  std::shared_ptr<Shared> shared_;
  const nlohmann::json* object_;
  std::string path_;  // ends in a dot unless it is empty
};

}  // namespace tenon::formats
