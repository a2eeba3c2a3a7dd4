// From logits to the next token of each row, in the order of Transformers: penalty for repetition, temperature, top k, top p.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/Generator.h>
#include <tenon/generate.h>

namespace tenon::generate {

// `rows` holds all tokens of each row so far. Returns one token a row.
std::vector<int64_t> choose(const at::Tensor& logits, const std::vector<std::vector<int64_t>>& rows, const GenerateOptions& options,
                            at::Generator& generator);

// Throws UserError(generate) for what has no meaning.
void check(const GenerateOptions& options);

}  // namespace tenon::generate
