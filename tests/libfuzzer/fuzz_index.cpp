// Parses any text as the index of a sharded model: it is rejected with an error code, or every tensor has a file.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "formats/shard_index.h"

using namespace tenon;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(bytes), size);
  try {
    formats::ShardIndex index(text, "fuzzed");
    if (index.size() == 0) std::abort();
    for (size_t i = 0; i < index.size(); ++i)
      if (index.find(index.name(i)) != index.file_index(i) || !index.file(i).ends_with(".safetensors")) std::abort();
  } catch (const UserError& error) {
    if (error.code() != ErrorCode::format) std::abort();
  }
  return 0;
}
