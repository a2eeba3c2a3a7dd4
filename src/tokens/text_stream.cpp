// Byte-level tokens are bytes, so text is complete where characters end. Other decoders look at neighbours: there a stream decodes
// what it gave last together with what is new, and gives the difference.
#include <tenon/tokenizer.h>

#include "tokens/byte_level.h"
#include "tokens/pipeline.h"
#include "tokens/utf8.h"

namespace tenon {

struct TextStream::State {
  std::shared_ptr<const tokens::Pipeline> pipeline;
  bool skip_special_tokens;
  std::string bytes;         // byte-level: of a character that is not whole
  std::vector<int64_t> ids;  // other: those given last, then those held back
  size_t given = 0;          // of ids
  std::string given_text;    // of these alone

  std::string fresh(bool at_end);
};

std::string TextStream::State::fresh(bool at_end) {
  std::string text = pipeline->decode(ids, skip_special_tokens);
  if (!at_end && text.ends_with("\xEF\xBF\xBD")) return "";
  std::string result = text.size() > given_text.size() ? text.substr(given_text.size()) : "";
  if (result.empty() && !at_end) return "";
  ids.erase(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(given));
  given = ids.size();
  given_text = pipeline->decode(ids, skip_special_tokens);
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
  state.given = 0;
  state.given_text.clear();
  return rest;
}

}  // namespace tenon
