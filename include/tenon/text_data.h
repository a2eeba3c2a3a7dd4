// Text files as training data for causal models.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <tenon/tokenizer.h>
#include <tenon/trainer.h>

namespace tenon {

struct TextOptions {
  // Number of tokens of each block of plain text, and the most tokens of an example of JSON lines, which is cut after them.
  int64_t block_size = 512;
  // Added to the end of each example of JSON lines, so that the model learns to end a text.
  std::optional<int64_t> end_token;
  // Fills up shorter examples of a batch on the right.
  int64_t padding_token = 0;
  // Size of the model's vocabulary; 0 does not check tokens.
  int64_t vocabulary = 0;
};

// Options that fit a model: the end token of generation_config.json or config.json, the size of the vocabulary, and a block size of at
// most the number of positions.
TENON_API TextOptions text_options(const CausalModel& model);

// Loads a text file and encodes it. Files that end in .json or .jsonl are JSON lines: each is {"text": ...}, or {"prompt": ...,
// "completion": ...}, whose prompt has the label -100. All other files are plain text, encoded as a whole and cut into blocks; what is
// left at the end is dropped unless it is the only block. A batch has three int64 tensors [examples, tokens]: ids, labels and attention
// mask; labels of padding are -100. Throws UserError(format) that names file, line and cause for a line that cannot be used, and
// UserError(file) for a file that cannot be read.
TENON_API std::shared_ptr<const Dataset> load_text(const std::string& file, const Tokenizer& tokenizer, const TextOptions& options = {});

}  // namespace tenon
