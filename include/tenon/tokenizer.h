// Tokenizers from Hugging Face's `tokenizer.json`: text to token ids and back, with the same ids as the Python package `tokenizers`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tenon/error.h>

namespace tenon {

namespace tokens {
class Pipeline;
}

// A handle: copies share what was loaded. All functions may be called from any thread.
class TENON_API Tokenizer {
 public:
  // Loads a tokenizer.json, or the one in a directory. Throws UserError(tokenizer) that names the feature if the file uses one that is
  // not supported, and UserError(file) if it cannot be read.
  static Tokenizer load(const std::string& path);

  // Returns the token ids of a text. `add_special_tokens` adds the tokens that the file puts around a text; special tokens inside the
  // text are always recognised. Throws UserError(tokenizer) if the text is not UTF-8.
  std::vector<int64_t> encode(std::string_view text, bool add_special_tokens = true) const;
  // Returns the text of token ids. Unknown ids are ignored.
  std::string decode(const std::vector<int64_t>& ids, bool skip_special_tokens = true) const;

  std::optional<int64_t> token_id(std::string_view token) const;
  // The token as it is spelt in the file, which is not always its text.
  std::string token(int64_t id) const;
  // Number of tokens, including added ones.
  size_t size() const;

 private:
  friend class TextStream;
  explicit Tokenizer(std::shared_ptr<const tokens::Pipeline> pipeline) : pipeline_(std::move(pipeline)) {}
  std::shared_ptr<const tokens::Pipeline> pipeline_;
};

// Decodes ids one at a time, without ever returning half a character. The concatenated results of put() and finish() equal decode() of
// all ids. One stream is used by one thread at a time.
class TENON_API TextStream {
 public:
  explicit TextStream(const Tokenizer& tokenizer, bool skip_special_tokens = true);
  ~TextStream();
  TextStream(TextStream&&) noexcept;

  // Adds an id and returns the text that is complete now, which may be empty.
  std::string put(int64_t id);
  // Returns the rest of the text and resets the stream.
  std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tenon
