#include "tokens/decoder.h"

#include <algorithm>
#include <optional>

#include "tokens/byte_level.h"
#include "tokens/pattern.h"
#include "tokens/pre_tokenizer.h"
#include "tokens/utf8.h"

namespace tenon::tokens {

namespace {

using Strings = std::vector<std::string>;

void replace_all(std::string& text, std::string_view what, std::string_view replacement) {
  std::string result;
  size_t end_of_last = 0;
  for (size_t at; (at = text.find(what, end_of_last)) != std::string::npos; end_of_last = at + what.size()) {
    result.append(text, end_of_last, at - end_of_last);
    result += replacement;
  }
  if (end_of_last == 0) return;
  result.append(text, end_of_last);
  text = std::move(result);
}

void byte_level(Strings& texts) {
  std::string bytes;
  for (const std::string& token : texts) append_bytes_of(bytes, token);
  texts = {take_text(bytes, false)};
}

// Removes spaces that English does not have, with the rules of the reference in its order.
void clean_up(std::string& text) {
  static constexpr std::pair<const char*, const char*> kRules[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},    {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
  };
  for (const auto& [what, replacement] : kRules) replace_all(text, what, replacement);
}

Decoder::DecodeStep word_piece(JsonFields& fields) {
  std::string prefix = fields.text("prefix");
  bool cleans = fields.flag("cleanup");
  return [=](Strings& texts) {
    for (size_t i = 0; i < texts.size(); ++i) {
      if (i > 0 && texts[i].starts_with(prefix)) texts[i].erase(0, prefix.size());
      else if (i > 0) texts[i].insert(0, 1, ' ');
      if (cleans) clean_up(texts[i]);
    }
  };
}

Decoder::DecodeStep metaspace(JsonFields& fields) {
  Metaspace metaspace = metaspace_of(fields);
  return [=](Strings& texts) {
    for (size_t i = 0; i < texts.size(); ++i)
      replace_all(texts[i], metaspace.character, i == 0 && metaspace.prepend != Metaspace::Prepend::never ? "" : " ");
  };
}

// Parses a byte token such as "<0x0A>".
std::optional<char> byte_of(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return std::nullopt;
  int value = 0;
  for (size_t i = token[3] == '+' ? 4 : 3; i < 5; ++i) {
    char c = token[i];
    if (!std::isxdigit(static_cast<unsigned char>(c))) return std::nullopt;
    value = value * 16 + (c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
  }
  return static_cast<char>(value);
}

// Converts each run of byte tokens to text, or to one replacement character per byte if it is not valid UTF-8.
void byte_fallback(Strings& texts) {
  Strings result;
  std::string bytes;
  auto flush = [&] {
    if (bytes.empty()) return;
    size_t at = 0;
    for (int length; at < bytes.size() && (length = character_length(bytes, at)) > 0;) at += length;
    if (at == bytes.size()) result.push_back(bytes);
    else result.insert(result.end(), bytes.size(), "\xEF\xBF\xBD");
    bytes.clear();
  };
  for (std::string& text : texts) {
    if (std::optional<char> byte = byte_of(text)) {
      bytes += *byte;
    } else {
      flush();
      result.push_back(std::move(text));
    }
  }
  flush();
  texts = std::move(result);
}

void fuse(Strings& texts) {
  std::string all;
  for (const std::string& text : texts) all += text;
  texts = {all};
}

Decoder::DecodeStep strip(JsonFields& fields) {
  std::string content = fields.text("content");
  uint64_t start = fields.count("start", UINT32_MAX), stop = fields.count("stop", UINT32_MAX);
  size_t end = 0;
  if (!content.empty()) next_character(content, end);
  if (end == 0 || end != content.size()) refuse(fields.where() + ": 'content' must be one character");
  return [=](Strings& texts) {
    for (std::string& text : texts) {
      size_t begin = 0, end = text.size();
      for (uint64_t i = 0; i < start && std::string_view(text).substr(begin).starts_with(content); ++i) begin += content.size();
      for (uint64_t i = 0; i < stop && std::string_view(text).substr(begin, end - begin).ends_with(content); ++i) end -= content.size();
      text = text.substr(begin, end - begin);
    }
  };
}

Decoder::DecodeStep replace_token(JsonFields& fields) {
  TokenizerRegex regex = pattern_of(fields.need("pattern"), fields.where());
  std::string content = fields.text("content");
  return [=](Strings& texts) {
    for (std::string& text : texts) text = replace_matches({text, 0}, regex, content).text;
  };
}

Decoder::DecodeStep bpe(JsonFields& fields) {
  std::string suffix = fields.text("suffix");
  if (suffix.empty()) refuse(fields.where() + ": 'suffix' must not be empty");
  return [=](Strings& texts) {
    for (size_t i = 0; i < texts.size(); ++i) replace_all(texts[i], suffix, i + 1 == texts.size() ? "" : " ");
  };
}

void add_steps(const Json& value, Decoder& decoder) {
  TypedFields fields(value, "decoder");
  const std::string& type = fields.type();
  if (type == "Sequence") {
    for (const Json& step : fields.list("decoders")) add_steps(step, decoder);
  } else if (type == "ByteLevel") {
    for (const char* name : {"add_prefix_space", "trim_offsets", "use_regex"})
      fields.flag_or(name, true);  // The options have no effect on decoding.
    decoder.steps.push_back(byte_level);
  } else if (type == "WordPiece") {
    decoder.steps.push_back(word_piece(fields));
  } else if (type == "Metaspace") {
    decoder.steps.push_back(metaspace(fields));
  } else if (type == "ByteFallback") {
    decoder.steps.push_back(byte_fallback);
  } else if (type == "Fuse") {
    decoder.steps.push_back(fuse);
  } else if (type == "Strip") {
    decoder.steps.push_back(strip(fields));
  } else if (type == "Replace") {
    decoder.steps.push_back(replace_token(fields));
  } else if (type == "BPEDecoder") {
    decoder.steps.push_back(bpe(fields));
  } else {
    refuse("the decoder '" + type + "' is not supported");
  }
  fields.done();
  decoder.is_byte_level = type == "ByteLevel" && decoder.steps.size() == 1;
}

size_t bytes_of(const Strings& texts) {
  size_t bytes = 0;
  for (const std::string& text : texts) bytes += text.size();
  return bytes;
}

}  // namespace

std::string Decoder::text_of(std::vector<std::string> tokens) const {
  size_t before = bytes_of(tokens);
  for (const DecodeStep& step : steps) {
    step(tokens);
    check_growth(bytes_of(tokens), before);
  }
  fuse(tokens);
  return tokens[0];
}

Decoder decoder_of(const Json& value) {
  Decoder decoder;
  add_steps(value, decoder);
  return decoder;
}

}  // namespace tenon::tokens
