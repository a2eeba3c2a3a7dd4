// Text to token ids and back, as Hugging Face's `tokenizer.json` says: the ids are those of the Python package `tokenizers`.
// What a file asks for and Tenon cannot do is refused at load by an error of code `tokenizer` that names it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

namespace tokens {
class Pipeline;
}

// A handle: copies share what was loaded. All calls may be made from any thread.
class Tokenizer {
 public:
  // A tokenizer.json, or the directory that holds one.
  static Tokenizer load(const std::string& path);

  // The text must be UTF-8. Special tokens are those that the file puts around a text (not those that stand in it).
  std::vector<int64_t> encode(std::string_view text, bool add_special_tokens = true) const;
  // Ids that no token has are passed over.
  std::string decode(const std::vector<int64_t>& ids, bool skip_special_tokens = true) const;

  std::optional<int64_t> token_id(std::string_view token) const;
  std::string token(int64_t id) const;  // as it is written in the file, not as text
  size_t size() const;                  // tokens, with the added ones

 private:
  friend class TextStream;
  explicit Tokenizer(std::shared_ptr<const tokens::Pipeline> pipeline) : pipeline_(std::move(pipeline)) {}
  std::shared_ptr<const tokens::Pipeline> pipeline_;
};

// The text of ids that come one at a time. Never gives half a character: what put() and finish() return, one after the other, is
// what decode() gives for all ids at once.
class TextStream {
 public:
  explicit TextStream(const Tokenizer& tokenizer, bool skip_special_tokens = true);
  ~TextStream();
  TextStream(TextStream&&) noexcept;

  std::string put(int64_t id);  // the text that is complete by now; may be empty
  std::string finish();         // what was held back; the stream is as new afterwards

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tenon
