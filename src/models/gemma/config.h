// Gemma 1, 2 and 3: their configurations. The decoder is that of Llama with other options (models/llama/model.h).
#pragma once

#include "models/llama/model.h"

namespace tenon::models {

LlamaConfig read_gemma(const Fields& fields);
LlamaConfig read_gemma2(const Fields& fields);
// The text model of Gemma 3: its fields are in text_config if there is such a field, and at the top otherwise.
LlamaConfig read_gemma3(const Fields& fields);

}  // namespace tenon::models
