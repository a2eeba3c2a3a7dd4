// Typed access to the fields of a configuration. Errors are UserError(config) and name the file and the field. Config
// records which fields were read: a field that the model does not read may change the meaning of the weights, so the
// model's loader rejects it by name (`unread`).
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
    std::string name;             // Full path, for example "rope_scaling.factor".
    const nlohmann::json* value;  // Owned by the configuration.
  };

  Config(nlohmann::json object, std::string source);
  // Keeps the text, so that `keys` can return names in the order of the file.
  static Config parse(const std::string& text, const std::string& source);
  static Config read(const Directory& directory, const std::string& name);

  // Returns false if the field is missing or null, which mean the same for most fields. Does not mark the field as read.
  bool has(const std::string& name) const;
  // Returns true if the field exists and is null, for fields whose default is not null. Does not mark the field as read.
  bool is_null(const std::string& name) const;

  // Limits are inclusive. Callers pass safety limits, far above the values of published files; these are not measured.
  int64_t integer(const std::string& name, int64_t min, int64_t max) const;
  double number(const std::string& name, double min, double max) const;
  bool boolean(const std::string& name) const;
  std::string text(const std::string& name) const;
  std::vector<std::string> texts(const std::string& name) const;
  std::vector<int64_t> integers(const std::string& name, int64_t min, int64_t max) const;
  // Returns a nested object. Its fields are tracked separately and appear in unread() of the root if they are not read.
  Config object(const std::string& name) const;
  // Returns the field names of a nested object: in the order of the file if the text is known and this is the root, else sorted.
  std::vector<std::string> keys(const std::string& name) const;
  // Returns the raw value of a field that may have several types. Marks all of it as read.
  const nlohmann::json& any(const std::string& name) const;

  // The functions *_or return `otherwise` if the field is missing or null.
  int64_t integer_or(const std::string& name, int64_t otherwise, int64_t min, int64_t max) const;
  double number_or(const std::string& name, double otherwise, double min, double max) const;
  bool boolean_or(const std::string& name, bool otherwise) const;
  std::string text_or(const std::string& name, const std::string& otherwise) const;

  std::vector<Field> unread() const;
  [[noreturn]] void fail(const std::string& name, const std::string& what) const;

 private:
  struct Shared;
  Config(std::shared_ptr<Shared> shared, const nlohmann::json* object, std::string path);

  const nlohmann::json* find(const std::string& name) const;
  const nlohmann::json& need(const std::string& name) const;
  int64_t integer_in(const std::string& name, const nlohmann::json& value, int64_t min, int64_t max) const;

  std::shared_ptr<Shared> shared_;
  const nlohmann::json* object_;
  std::string path_;  // Path prefix of this object; empty, or ends in a dot.
};

}  // namespace tenon::formats
