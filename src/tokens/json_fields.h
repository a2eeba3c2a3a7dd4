// Reads tokenizer.json, which may be malformed or malicious. A reader takes the fields of an object that it supports. A field that was not
// taken is rejected by name, and so is a value of an unexpected type or size.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>

namespace tenon::tokens {

using Json = nlohmann::json;

[[noreturn]] void refuse(const std::string& what);  // Throws UserError(tokenizer).

// Rejects duplicate keys, deep nesting and texts of more than 64 MiB.
Json parse_json(std::string_view text);

int32_t token_id_of(const Json& value, const std::string& where);

class JsonFields {
 public:
  // `where` names the object in messages. The object must outlive the reader.
  JsonFields(const Json& object, std::string where);

  bool has(const std::string& name) const { return object_.contains(name); }
  const Json* find(const std::string& name);  // Returns null if the field is missing or null.
  const Json& need(const std::string& name);

  std::string text(const std::string& name);
  std::string text_or(const std::string& name, const std::string& otherwise);
  bool flag(const std::string& name);
  bool flag_or(const std::string& name, bool otherwise);
  uint64_t count(const std::string& name, uint64_t limit);
  const Json& list(const std::string& name);
  const Json& object(const std::string& name);

  void done() const;  // Throws if a field was not taken.
  const std::string& where() const { return where_; }

 private:
  const Json& object_;
  std::string where_;
  std::set<std::string> taken_;
};

// Fields of an object with a "type". Messages name it as in "pre_tokenizer Split".
class TypedFields : public JsonFields {
 public:
  TypedFields(const Json& object, const std::string& role) : TypedFields(object, role, type_of(object, role)) {}
  const std::string& type() const { return type_; }

 private:
  TypedFields(const Json& object, const std::string& role, std::string type)
      : JsonFields(object, role + " " + type), type_(std::move(type)) {
    find("type");
  }
  static std::string type_of(const Json& object, const std::string& role);
  std::string type_;
};

}  // namespace tenon::tokens
