// A strict JSON parser for configurations: valid UTF-8, no duplicate names in an object, finite numbers only, and bounded
// depth, size and count of values. Errors are UserError(format) with the file and the byte offset.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "formats/directory.h"

namespace tenon::formats {

// Safety limits against malformed and malicious files, far above the sizes of published files; not measured. The count of values is
// bounded too, because parsing expands "[]," from 3 to 40 bytes.
struct JsonLimits {
  size_t bytes;
  size_t values;
};
constexpr JsonLimits kConfigLimits{16u << 20, 1u << 17};
constexpr JsonLimits kTokenizerLimits{64u << 20, 1u << 23};
constexpr int kMaxJsonDepth = 64;  // Nested objects and lists; the parser is recursive.

nlohmann::json parse_json(std::string_view text, const std::string& source, JsonLimits limits = kConfigLimits);
// Returns the names in the object that is the field `name` of the outermost object, in the order of the text; none if there is no such
// object. The text must be valid JSON.
std::vector<std::string> object_keys(std::string_view text, const std::string& source, std::string_view name);
nlohmann::json read_json(const Directory& directory, const std::string& name, JsonLimits limits = kConfigLimits);

}  // namespace tenon::formats
