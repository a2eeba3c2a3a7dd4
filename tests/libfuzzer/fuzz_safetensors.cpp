// Parses any bytes as a safetensors file: they are rejected with an error code, or every tensor is inside the file.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "formats/safetensors.h"

using namespace tenon;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(bytes), size);
  try {
    formats::Safetensors file(text, "fuzzed");
    size_t total = 0;
    for (size_t i = 0; i < file.size(); ++i) {
      formats::TensorView tensor = file.tensor(i);
      auto* begin = reinterpret_cast<const uint8_t*>(tensor.data.data());
      if (!tensor.data.empty() && (begin < bytes || begin + tensor.data.size() > bytes + size)) std::abort();
      if (formats::byte_size(tensor.dtype, tensor.shape) != tensor.data.size() || file.find(tensor.name) != i) std::abort();
      total += tensor.data.size();
    }
    if (total > size) std::abort();
  } catch (const UserError& error) {
    if (error.code() != ErrorCode::format) std::abort();
  }
  return 0;
}
