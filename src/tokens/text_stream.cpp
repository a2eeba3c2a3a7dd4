// Byte-level tokens are bytes, so text is emitted as soon as a character is complete. Other decoders depend on neighbouring tokens: the
// stream decodes the tokens of the last emitted text together with the new ones, and emits the difference.
#include <tenon/tokenizer.h>

#include "tokens/byte_level.h"
#include "tokens/pipeline.h"
#include "tokens/utf8.h"

namespace tenon {

struct TextStream::State {
  std::shared_ptr<const tokens::Pipeline> pipeline;
  bool skip_special_tokens;
  std::string bytes;         // Byte-level decoders: bytes of an incomplete character.
  std::vector<int64_t> ids;  // Other decoders: ids of the last emitted text, then ids not emitted yet.
  size_t emitted = 0;        // Count of ids that were emitted.
  std::string emitted_text;  // Text of the emitted ids alone.

  std::string fresh(bool at_end);
};

std::string TextStream::State::fresh(bool at_end) {
  std::string text = pipeline->decode(ids, skip_special_tokens);
  if (!at_end && text.ends_with("\xEF\xBF\xBD")) return "";
  std::string result = text.size() > emitted_text.size() ? text.substr(emitted_text.size()) : "";
  if (result.empty() && !at_end) return "";
  ids.erase(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(emitted));
  emitted = ids.size();
  emitted_text = pipeline->decode(ids, skip_special_tokens);
  return result;
}

TextStream::TextStream(const Tokenizer& tokenizer, bool skip_special_tokens)
    : state_(new State{tokenizer.pipeline_, skip_special_tokens, {}, {}, 0, {}}) {}
TextStream::~TextStream() = default;
TextStream::TextStream(TextStream&&) noexcept = default;

std::string TextStream::put(int64_t id) {
  State& state = *state_;
  const std::string* token = state.pipeline->shown_token(id, state.skip_special_tokens);
  if (!token) return "";
  if (state.pipeline->is_byte_level()) {
    tokens::append_bytes_of(state.bytes, *token);
    return tokens::take_text(state.bytes, true);
  }
  state.ids.push_back(id);
  return state.fresh(false);
}

std::string TextStream::finish() {
  State& state = *state_;
  std::string rest = state.pipeline->is_byte_level() ? tokens::take_text(state.bytes, false) : state.fresh(true);
  state.ids.clear();
  state.emitted = 0;
  state.emitted_text.clear();
  return rest;
}

}  // namespace tenon
