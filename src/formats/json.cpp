#include "formats/json.h"

#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "formats/json_scanner.h"

namespace tenon::formats {
namespace {

nlohmann::json number_of(const JsonScanner& scanner, const JsonScanner::NumberText& number) {
  const char *begin = number.text.data(), *end = begin + number.text.size();
  int64_t integer = 0;
  uint64_t natural = 0;
  if (number.integer && std::from_chars(begin, end, integer).ec == std::errc()) return integer;
  if (number.integer && std::from_chars(begin, end, natural).ec == std::errc()) return natural;
  // Real files contain integers beyond 64 bits: 1e30 as the maximum input length of a tokenizer.
  double real = 0;
  if (std::from_chars(begin, end, real).ec != std::errc() || !std::isfinite(real))
    scanner.fail_at(number.at, "this number is outside the range of a double");
  return real;
}

nlohmann::json value(JsonScanner& scanner) {
  using nlohmann::json;
  switch (scanner.peek()) {
    case '{': {
      json object = json::object();
      if (scanner.open('{', '}', "")) do {
          JsonScanner::StringText key = scanner.key();
          auto [field, inserted] = object.get_ref<json::object_t&>().try_emplace(JsonScanner::decode(key));
          if (!inserted) scanner.fail_at(key.at, "the name " + shown(field->first) + " appears twice in this object");
          field->second = value(scanner);
        } while (scanner.more('}'));
      return object;
    }
    case '[': {
      json array = json::array();
      if (scanner.open('[', ']', "")) do
          array.push_back(value(scanner));
        while (scanner.more(']'));
      return array;
    }
    case '"':
      return JsonScanner::decode(scanner.string(""));
    case 't':
      scanner.word("true");
      return true;
    case 'f':
      scanner.word("false");
      return false;
    case 'n':
      scanner.word("null");
      return nullptr;
    default:
      return number_of(scanner, scanner.number("a value"));
  }
}

}  // namespace

nlohmann::json parse_json(std::string_view text, const std::string& source, JsonLimits limits) {
  if (text.size() > limits.bytes)
    throw UserError(ErrorCode::format, source + ": " + std::to_string(text.size()) + " bytes of JSON, at most " +
                                           std::to_string(limits.bytes) + " are supported");
  JsonScanner scanner(text, source);
  // The first pass allocates nothing, so that malformed and oversized text is rejected before memory is spent on it.
  size_t values = scanner.skip(kMaxJsonDepth);
  scanner.end();
  if (values > limits.values)
    scanner.fail_at(0, std::to_string(values) + " values, at most " + std::to_string(limits.values) + " are supported");
  scanner.go_to(0);
  return value(scanner);
}

std::vector<std::string> object_keys(std::string_view text, const std::string& source, std::string_view name) {
  JsonScanner scanner(text, source);
  std::vector<std::string> out;
  if (scanner.peek() != '{' || !scanner.open('{', '}', "")) return out;
  do {
    bool is_wanted = JsonScanner::equal(scanner.key(), name);
    if (!is_wanted || scanner.peek() != '{') {
      scanner.skip(kMaxJsonDepth);
    } else if (scanner.open('{', '}', "")) {
      do {
        out.push_back(JsonScanner::decode(scanner.key()));
        scanner.skip(kMaxJsonDepth);
      } while (scanner.more('}'));
    }
  } while (scanner.more('}'));
  return out;
}

nlohmann::json read_json(const Directory& directory, const std::string& name, JsonLimits limits) {
  return parse_json(directory.read_text(name, limits.bytes), directory.path() + "/" + name, limits);
}

}  // namespace tenon::formats
