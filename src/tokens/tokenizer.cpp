#include <tenon/tokenizer.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "tokens/pipeline.h"

namespace tenon {

Tokenizer Tokenizer::load(const std::string& path) {
  std::filesystem::path file = path;
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored)) file /= "tokenizer.json";
  std::ifstream in(file, std::ios::binary);
  if (!in)
    throw UserError(ErrorCode::tokenizer, "cannot read " + file.string() + ": pass the path of a tokenizer.json or of its directory");
  auto size = std::filesystem::file_size(file, ignored);
  if (ignored || size > (64 << 20)) throw UserError(ErrorCode::tokenizer, file.string() + " is not a regular file of at most 64 MiB");
  std::string text(size, 0);
  in.read(text.data(), static_cast<std::streamsize>(size));
  if (static_cast<size_t>(in.gcount()) != size) throw UserError(ErrorCode::tokenizer, "cannot read all of " + file.string());
  return Tokenizer(std::make_shared<const tokens::Pipeline>(text));
}

std::vector<int64_t> Tokenizer::encode(std::string_view text, bool add_special_tokens) const {
  return pipeline_->encode(text, add_special_tokens);
}

std::string Tokenizer::decode(const std::vector<int64_t>& ids, bool skip_special_tokens) const {
  return pipeline_->decode(ids, skip_special_tokens);
}

std::optional<int64_t> Tokenizer::token_id(std::string_view token) const { return pipeline_->token_id(token); }

std::string Tokenizer::token(int64_t id) const {
  const std::string* token = pipeline_->token(id);
  if (!token) throw UserError(ErrorCode::tokenizer, "no token has the id " + std::to_string(id));
  return *token;
}

size_t Tokenizer::size() const { return pipeline_->size(); }

}  // namespace tenon
