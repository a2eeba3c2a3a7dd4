// Chooses the next token of each sequence from its logits, in the order of Transformers: repetition penalty, temperature, top k, top p.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/Generator.h>
#include <tenon/generate.h>

namespace tenon::generate {

// `sequences` holds all tokens of each sequence so far. Returns one token per sequence.
std::vector<int64_t> choose(const at::Tensor& logits, const std::vector<std::vector<int64_t>>& sequences, const GenerateOptions& options,
                            at::Generator& generator);

// Throws UserError(generate) for invalid options.
void check(const GenerateOptions& options);

}  // namespace tenon::generate
