#include "tokens/pipeline.h"

#include "base/error.h"
#include "tokens/utf8.h"

namespace tenon::tokens {

namespace {

constexpr size_t kMaxTextBytes = 1 << 30;  // Safety limit, not measured.

// Padding to the longest text of a batch has no effect on a single text.
void check_padding(const Json& value) {
  JsonFields padding(value, "padding");
  if (padding.need("strategy") != "BatchLongest" || padding.find("pad_to_multiple_of"))
    refuse("'padding' is not supported; set it to null");
}

}  // namespace

Pipeline::Pipeline(std::string_view json) {
  Json file = parse_json(json);
  JsonFields fields(file, "the file");
  if (fields.text_or("version", "1.0") != "1.0") refuse("the version '" + fields.text("version") + "' is not supported; '1.0' is");
  if (fields.find("truncation")) refuse("'truncation' is not supported; set it to null and truncate the ids");
  if (const Json* padding = fields.find("padding")) check_padding(*padding);
  if (const Json* value = fields.find("normalizer")) normalizer_ = normalizer_of(*value);
  if (const Json* value = fields.find("pre_tokenizer")) pre_tokenizer_ = pre_tokenizer_of(*value);
  model_ = tokenizer_model_of(fields.object("model"));
  added_ = std::make_unique<AddedTokens>(fields.find("added_tokens"), model_->vocabulary(), normalizer_);
  if (const Json* value = fields.find("post_processor"))
    post_processor_ = post_processor_of(*value, [&](int64_t id) { return token(id) != nullptr; });
  if (const Json* value = fields.find("decoder")) decoder_ = decoder_of(*value);
  fields.done();
}

std::vector<int64_t> Pipeline::encode(std::string_view text, bool add_special_tokens) const {
  if (text.size() > kMaxTextBytes) throw UserError(ErrorCode::tokenizer, "a text of more than 1 GiB: encode it in parts");
  check_utf8(text);
  TextSegments segments(text);
  segments.each([&](const TextSegment& segment) { added_->cut_given(segments, segment); });
  segments.each([&](const TextSegment& segment) {
    if (!normalizer_) return added_->cut_normalized(segments, segment);
    Normalized normalized = segment.copy();
    normalizer_(normalized);
    added_->cut_normalized(segments, segments.keep(std::move(normalized)));
  });
  if (pre_tokenizer_) pre_tokenizer_(segments);
  std::vector<int64_t> ids;
  for (const TextSegment& segment : segments)
    if (segment.id >= 0) ids.push_back(segment.id);
    else model_->append_ids(segment.text, ids);
  if (post_processor_ && add_special_tokens) post_processor_(ids);
  return ids;
}

const std::string* Pipeline::token(int64_t id) const {
  const std::string* added = added_->token(id);
  return added ? added : model_->vocabulary().token(id);
}

const std::string* Pipeline::shown_token(int64_t id, bool skip_special_tokens) const {
  if (id < 0) throw UserError(ErrorCode::tokenizer, "the id " + std::to_string(id) + " is negative: remove padding before decoding");
  const std::string* found = token(id);
  return found && skip_special_tokens && added_->is_special(*found) ? nullptr : found;
}

std::string Pipeline::decode(const std::vector<int64_t>& ids, bool skip_special_tokens) const {
  std::vector<std::string> shown;
  for (int64_t id : ids)
    if (const std::string* found = shown_token(id, skip_special_tokens)) shown.push_back(*found);
  if (decoder_) return decoder_->text_of(std::move(shown));
  std::string text;
  for (size_t i = 0; i < shown.size(); ++i) text += (i > 0 ? " " : "") + shown[i];
  return text;
}

std::optional<int64_t> Pipeline::token_id(std::string_view token) const {
  int32_t id = added_->id(token);
  if (id < 0) id = model_->vocabulary().id(token);
  return id < 0 ? std::nullopt : std::optional<int64_t>(id);
}

}  // namespace tenon::tokens
