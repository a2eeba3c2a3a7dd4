// The field "decoder": converts tokens back to text. Each step transforms a list of strings; the result is joined at the end.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tokens/json_fields.h"

namespace tenon::tokens {

struct Decoder {
  using DecodeStep = std::function<void(std::vector<std::string>&)>;
  std::vector<DecodeStep> steps;
  bool is_byte_level = false;  // True if ByteLevel is the only step: each token decodes to bytes independently of its neighbours.

  std::string text_of(std::vector<std::string> tokens) const;
};

Decoder decoder_of(const Json& value);

}  // namespace tenon::tokens
