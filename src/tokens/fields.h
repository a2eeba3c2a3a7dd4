// Reading of tokenizer.json, which may be broken or hostile. A reader takes the fields of an object that it knows; a field that
// nobody took is refused by name, as is all that has another type or size than expected.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>

namespace tenon::tokens {

using Json = nlohmann::json;

[[noreturn]] void refuse(const std::string& what);  // UserError(tokenizer)

// Refuses duplicate keys, deep nesting and texts of more than 64 MiB.
Json parse_json(std::string_view text);

int32_t token_id_of(const Json& value, const std::string& where);

class Fields {
 public:
  // `where` names the object in messages. The object must outlive the reader.
  Fields(const Json& object, std::string where);

  bool has(const std::string& name) const { return object_.contains(name); }
  const Json* find(const std::string& name);  // null if it is not there or null
  const Json& need(const std::string& name);

  std::string text(const std::string& name);
  std::string text_or(const std::string& name, const std::string& otherwise);
  bool flag(const std::string& name);
  bool flag_or(const std::string& name, bool otherwise);
  uint64_t count(const std::string& name, uint64_t limit);
  const Json& list(const std::string& name);
  const Json& object(const std::string& name);

  void done() const;  // all fields were taken
  const std::string& where() const { return where_; }

 private:
  const Json& object_;
  std::string where_;
  std::set<std::string> taken_;
};

// A part of the file with a "type", named in messages as "pre_tokenizer Split".
class Part : public Fields {
 public:
  Part(const Json& object, const std::string& role) : Part(object, role, type_of(object, role)) {}
  const std::string& type() const { return type_; }

 private:
  Part(const Json& object, const std::string& role, std::string type) : Fields(object, role + " " + type), type_(std::move(type)) {
    find("type");
  }
  static std::string type_of(const Json& object, const std::string& role);
  std::string type_;
};

}  // namespace tenon::tokens
