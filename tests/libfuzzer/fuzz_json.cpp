// Parses any text as a configuration: it is rejected with an error code, or its value survives a round trip. nlohmann's own parser
// accepts every text that this parser accepts, with the same value.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "formats/config.h"
#include "formats/json.h"

using namespace tenon;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(bytes), size);
  try {
    nlohmann::json value = formats::parse_json(text, "fuzzed");
    if (nlohmann::json::parse(text) != value || formats::parse_json(value.dump(), "again") != value) std::abort();
    formats::Config config(value, "fuzzed");
    config.integer_or("size", 1, 1, 100);
    config.number_or("rate", 0, 0, 1);
    config.boolean_or("on", false);
    config.text_or("kind", "");
    if (config.has("names")) config.texts("names");
    if (config.has("part")) config.object("part").integers("ids", 0, 9);
    config.unread();
  } catch (const UserError& error) {
    if (error.code() != ErrorCode::format && error.code() != ErrorCode::config) std::abort();
  }
  return 0;
}
