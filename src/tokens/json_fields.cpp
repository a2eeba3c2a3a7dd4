#include "tokens/json_fields.h"

#include <unordered_set>
#include <vector>

#include "base/error.h"

namespace tenon::tokens {

namespace {

// Safety limits, far above published tokenizers; not measured.
constexpr size_t kMaxFileBytes = 64 << 20;
constexpr int kMaxTokenizerDepth = 32;
constexpr uint64_t kMaxTokenIds = 1 << 22;

}  // namespace

void refuse(const std::string& what) { throw UserError(ErrorCode::tokenizer, "tokenizer.json: " + what); }

Json parse_json(std::string_view text) {
  if (text.size() > kMaxFileBytes) refuse("the file has more than 64 MiB");
  std::vector<std::unordered_set<std::string>> keys;
  auto check = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kMaxTokenizerDepth) refuse("nested deeper than " + std::to_string(kMaxTokenizerDepth));
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(parsed.get_ref<const std::string&>()).second)
      refuse("the key '" + parsed.get<std::string>() + "' appears twice in one object");
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), check);
  } catch (const Json::exception& error) {
    refuse(error.what());
  }
}

int32_t token_id_of(const Json& value, const std::string& where) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() >= kMaxTokenIds)
    refuse(where + ": an id must be a non-negative integer below " + std::to_string(kMaxTokenIds) + ", not " + value.dump().substr(0, 40));
  return static_cast<int32_t>(value.get<uint64_t>());
}

JsonFields::JsonFields(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
  if (!object_.is_object()) refuse(where_ + " must be an object");
}

const Json* JsonFields::find(const std::string& name) {
  taken_.insert(name);
  auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

const Json& JsonFields::need(const std::string& name) {
  const Json* value = find(name);
  if (!value) refuse(where_ + ": the field '" + name + "' is missing");
  return *value;
}

std::string JsonFields::text(const std::string& name) {
  const Json& value = need(name);
  if (!value.is_string()) refuse(where_ + ": '" + name + "' must be a string");
  return value.get<std::string>();
}

std::string JsonFields::text_or(const std::string& name, const std::string& otherwise) { return find(name) ? text(name) : otherwise; }

bool JsonFields::flag(const std::string& name) {
  const Json& value = need(name);
  if (!value.is_boolean()) refuse(where_ + ": '" + name + "' must be true or false");
  return value.get<bool>();
}

bool JsonFields::flag_or(const std::string& name, bool otherwise) { return find(name) ? flag(name) : otherwise; }

uint64_t JsonFields::count(const std::string& name, uint64_t limit) {
  const Json& value = need(name);
  if (!value.is_number_unsigned() || value.get<uint64_t>() > limit)
    refuse(where_ + ": '" + name + "' must be a non-negative integer of at most " + std::to_string(limit));
  return value.get<uint64_t>();
}

const Json& JsonFields::list(const std::string& name) {
  const Json& value = need(name);
  if (!value.is_array()) refuse(where_ + ": '" + name + "' must be a list");
  return value;
}

const Json& JsonFields::object(const std::string& name) {
  const Json& value = need(name);
  if (!value.is_object()) refuse(where_ + ": '" + name + "' must be an object");
  return value;
}

void JsonFields::done() const {
  for (const auto& [name, value] : object_.items())
    if (!taken_.count(name)) refuse(where_ + ": the field '" + name + "' is not supported");
}

std::string TypedFields::type_of(const Json& object, const std::string& role) {
  auto found = object.is_object() ? object.find("type") : object.end();
  if (!object.is_object() || found == object.end() || !found->is_string()) refuse(role + " must be an object with a 'type'");
  return found->get<std::string>();
}

}  // namespace tenon::tokens
