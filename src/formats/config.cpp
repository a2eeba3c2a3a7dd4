#include "formats/config.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "formats/json.h"

namespace tenon::formats {
namespace {

constexpr size_t kMaxShownCharacters = 60;  // Keeps an error message on one line.

std::string brief(const nlohmann::json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  std::string text = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return text.size() > kMaxShownCharacters ? "a string of " + std::to_string(text.size()) + " characters" : text;
}

}  // namespace

struct Config::Shared {
  nlohmann::json root;
  std::string source;
  std::string text;              // Empty if the configuration was not parsed from text.
  std::set<std::string> read;    // Paths of fields that were read.
  std::set<std::string> opened;  // Paths of objects whose fields are tracked separately.
};

Config::Config(nlohmann::json object, std::string source) : shared_(std::make_shared<Shared>()) {
  shared_->root = std::move(object);
  shared_->source = std::move(source);
  object_ = &shared_->root;
  if (!object_->is_object()) throw UserError(ErrorCode::config, shared_->source + ": expected an object, not " + brief(*object_));
}

Config::Config(std::shared_ptr<Shared> shared, const nlohmann::json* object, std::string path)
    : shared_(std::move(shared)), object_(object), path_(std::move(path)) {}

Config Config::parse(const std::string& text, const std::string& source) {
  Config out(parse_json(text, source), source);
  out.shared_->text = text;
  return out;
}

Config Config::read(const Directory& directory, const std::string& name) {
  return Config(read_json(directory, name), directory.path() + "/" + name);
}

void Config::fail(const std::string& name, const std::string& what) const {
  throw UserError(ErrorCode::config, shared_->source + ": the field " + shown(path_ + name) + " " + what);
}

bool Config::has(const std::string& name) const {
  auto field = object_->find(name);
  return field != object_->end() && !field->is_null();
}

bool Config::is_null(const std::string& name) const {
  auto field = object_->find(name);
  return field != object_->end() && field->is_null();
}

const nlohmann::json* Config::find(const std::string& name) const {
  auto field = object_->find(name);
  if (field == object_->end()) return nullptr;
  shared_->read.insert(path_ + name);
  return field->is_null() ? nullptr : &*field;
}

const nlohmann::json& Config::need(const std::string& name) const {
  const nlohmann::json* field = find(name);
  if (!field) fail(name, object_->contains(name) ? "is null, but a value is needed" : "is missing");
  return *field;
}

int64_t Config::integer_in(const std::string& name, const nlohmann::json& value, int64_t min, int64_t max) const {
  bool fits = value.is_number_integer() && !(value.is_number_unsigned() && value.get<uint64_t>() > std::numeric_limits<int64_t>::max());
  if (!fits) fail(name, "must be an integer, not " + brief(value));
  int64_t number = value.get<int64_t>();
  if (number < min || number > max)
    fail(name, "is " + brief(value) + ", must be from " + std::to_string(min) + " to " + std::to_string(max));
  return number;
}

int64_t Config::integer(const std::string& name, int64_t min, int64_t max) const { return integer_in(name, need(name), min, max); }

double Config::number(const std::string& name, double min, double max) const {
  const nlohmann::json& value = need(name);
  if (!value.is_number()) fail(name, "must be a number, not " + brief(value));
  double number = value.get<double>();
  if (!(number >= min && number <= max)) fail(name, "is " + brief(value) + ", must be from " + real_text(min) + " to " + real_text(max));
  return number;
}

bool Config::boolean(const std::string& name) const {
  const nlohmann::json& value = need(name);
  if (!value.is_boolean()) fail(name, "must be true or false, not " + brief(value));
  return value.get<bool>();
}

std::string Config::text(const std::string& name) const {
  const nlohmann::json& value = need(name);
  if (!value.is_string()) fail(name, "must be a string, not " + brief(value));
  return value.get<std::string>();
}

std::vector<std::string> Config::texts(const std::string& name) const {
  const nlohmann::json& list = need(name);
  if (!list.is_array()) fail(name, "must be a list of strings, not " + brief(list));
  std::vector<std::string> out;
  for (const nlohmann::json& value : list) {
    if (!value.is_string()) fail(name, "must be a list of strings, but holds " + brief(value));
    out.push_back(value.get<std::string>());
  }
  return out;
}

std::vector<int64_t> Config::integers(const std::string& name, int64_t min, int64_t max) const {
  const nlohmann::json& list = need(name);
  if (!list.is_array()) fail(name, "must be a list of integers, not " + brief(list));
  std::vector<int64_t> out;
  for (size_t i = 0; i < list.size(); ++i) out.push_back(integer_in(name + "[" + std::to_string(i) + "]", list[i], min, max));
  return out;
}

Config Config::object(const std::string& name) const {
  const nlohmann::json& value = need(name);
  if (!value.is_object()) fail(name, "must be an object, not " + brief(value));
  shared_->opened.insert(path_ + name);
  return Config(shared_, &value, path_ + name + ".");
}

std::vector<std::string> Config::keys(const std::string& name) const {
  const nlohmann::json& value = need(name);
  if (!value.is_object()) fail(name, "must be an object, not " + brief(value));
  if (!shared_->text.empty() && path_.empty()) return object_keys(shared_->text, shared_->source, name);
  std::vector<std::string> out;
  for (const auto& [key, field] : value.items()) out.push_back(key);
  return out;
}

const nlohmann::json& Config::any(const std::string& name) const { return need(name); }

int64_t Config::integer_or(const std::string& name, int64_t otherwise, int64_t min, int64_t max) const {
  return find(name) ? integer(name, min, max) : otherwise;
}

double Config::number_or(const std::string& name, double otherwise, double min, double max) const {
  return find(name) ? number(name, min, max) : otherwise;
}

bool Config::boolean_or(const std::string& name, bool otherwise) const { return find(name) ? boolean(name) : otherwise; }

std::string Config::text_or(const std::string& name, const std::string& otherwise) const { return find(name) ? text(name) : otherwise; }

std::vector<Config::Field> Config::unread() const {
  std::vector<Field> out;
  for (const auto& [name, value] : object_->items()) {
    std::string path = path_ + name;
    if (shared_->opened.contains(path)) {
      for (Field& field : Config(shared_, &value, path + ".").unread()) out.push_back(std::move(field));
    } else if (!shared_->read.contains(path)) {
      out.push_back({path, &value});
    }
  }
  return out;
}

}  // namespace tenon::formats
