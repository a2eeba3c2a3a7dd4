// Strict JSON for configurations: UTF-8, no name twice in an object, bounded depth, size and number of values,
// nothing but finite numbers. Faults are UserError(format) with file and byte.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "formats/directory.h"

namespace tenon::formats {

// The number of values is bounded too: "[]," makes 40 bytes of three.
struct JsonLimits {
  size_t bytes;
  size_t values;
};
constexpr JsonLimits kConfigLimits{16u << 20, 1u << 17};
constexpr JsonLimits kTokenizerLimits{64u << 20, 1u << 23};
constexpr int kJsonDepth = 64;

nlohmann::json parse_json(std::string_view text, const std::string& source, JsonLimits limits = kConfigLimits);
// Names in the object that is the field `name` of the outermost object, in the order of the text; none if there is no such object. The
// text was parsed before.
std::vector<std::string> object_keys(std::string_view text, const std::string& source, std::string_view name);
nlohmann::json read_json(const Directory& directory, const std::string& name, JsonLimits limits = kConfigLimits);

}  // namespace tenon::formats
