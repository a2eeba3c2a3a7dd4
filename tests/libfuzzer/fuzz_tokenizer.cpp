// Parses any bytes as a tokenizer.json; if it loads, encodes and decodes short texts. Only UserError may be thrown.
//   clang++ -std=c++20 -g -O1 -fsanitize=fuzzer,address,undefined -Isrc -Iinclude tests/libfuzzer/fuzz_tokenizer.cpp src/tokens/*.cpp
//   src/regex/*.cpp src/base/error.cpp -lpcre2-8 -lutf8proc -o fuzz_tokenizer
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "tokens/pipeline.h"

namespace {

constexpr std::string_view kTexts[] = {"", "ab <s> Hello, W\xC3\xB6rld's 1234\n\t x\xCC\x81 \xE6\xBC\xA2\xF0\x9F\x91\x8D",
                                       "    aaaaaaaaaaaaaaaaaaaaaaaa "};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    tenon::tokens::Pipeline pipeline(std::string_view(reinterpret_cast<const char*>(data), size));
    for (std::string_view text : kTexts) {
      try {
        pipeline.decode(pipeline.encode(text, true), false);
      } catch (const tenon::UserError&) {
      }
    }
  } catch (const tenon::UserError&) {
  }
  return 0;
}
