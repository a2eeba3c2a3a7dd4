// Reads text files, encodes them, and collates examples to padded batches.
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <fcntl.h>
#include <tenon/text_data.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "formats/directory.h"
#include "formats/json.h"
#include "formats/json_scanner.h"
#include "train/error_text.h"
#include "train/labels.h"

namespace tenon {
namespace {

using train::kIgnoredLabel;

struct TextExample {
  std::vector<int64_t> ids;
  size_t masked = 0;  // Number of tokens at the start whose labels are ignored.
};

[[noreturn]] void refuse_line(const std::string& where, const std::string& what) {
  throw UserError(ErrorCode::format, where + ": " + what);
}

class TextDataset : public Dataset {
 public:
  TextDataset(std::vector<TextExample> examples, int64_t padding_token) : examples_(std::move(examples)), padding_token_(padding_token) {}

  size_t size() const override { return examples_.size(); }

  std::vector<at::Tensor> batch(const std::vector<size_t>& indices) const override {
    size_t length = 0;
    for (size_t index : indices) length = std::max(length, examples_.at(index).ids.size());
    std::vector<int64_t> sizes = {static_cast<int64_t>(indices.size()), static_cast<int64_t>(length)};
    at::Tensor ids = at::full(sizes, padding_token_, at::kLong), labels = at::full(sizes, kIgnoredLabel, at::kLong),
               mask = at::zeros(sizes, at::kLong);
    for (size_t i = 0; i < indices.size(); ++i) {
      const TextExample& example = examples_[indices[i]];
      auto at_row = [&](at::Tensor& tensor) { return tensor.mutable_data_ptr<int64_t>() + i * length; };
      std::copy(example.ids.begin(), example.ids.end(), at_row(ids));
      std::copy(example.ids.begin() + static_cast<int64_t>(example.masked), example.ids.end(), at_row(labels) + example.masked);
      std::fill_n(at_row(mask), example.ids.size(), 1);
    }
    return {ids, labels, mask};
  }

 private:
  std::vector<TextExample> examples_;
  int64_t padding_token_;
};

// Reads a file that the user names, which may be a link or outside the model's directory.
std::string read_file(const std::string& path) {
  auto fail = [&](const std::string& what) {
    throw UserError(ErrorCode::file, path + ": cannot be " + what + ": " + std::strerror(errno) + ". Check the path of the data file.");
  };
  formats::FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.fd() < 0) fail("opened");
  std::string text;
  for (;;) {
    constexpr size_t kChunk = size_t{1} << 20;
    size_t have = text.size();
    text.resize(have + kChunk);
    ssize_t got = ::read(file.fd(), text.data() + have, kChunk);
    text.resize(have + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("read");
    if (got == 0) return text;
  }
}

void check_tokens(const std::vector<int64_t>& ids, const TextOptions& options, const std::string& where) {
  if (options.vocabulary == 0) return;
  for (int64_t id : ids)
    if (id < 0 || id >= options.vocabulary)
      refuse_line(where, "the tokenizer gives token " + std::to_string(id) + ", and the model's vocabulary has " +
                             std::to_string(options.vocabulary) + " tokens. Use the model's own tokenizer.json.");
}

const std::string& text_field(const nlohmann::json& line, const char* name, const std::string& where) {
  const nlohmann::json& value = line.at(name);
  if (!value.is_string()) refuse_line(where, "the field " + shown(name) + " must be a string. Correct or remove the line.");
  return value.get_ref<const std::string&>();
}

// Encodes a prompt and its completion together, because the last token of the prompt may reach into the completion; that token is then
// predicted.
TextExample encode_completion(const std::string& prompt, const std::string& completion, const Tokenizer& tokenizer) {
  std::vector<int64_t> alone = tokenizer.encode(prompt);
  TextExample example{tokenizer.encode(prompt + completion)};
  auto [differs, end] = std::mismatch(alone.begin(), alone.end(), example.ids.begin(), example.ids.end());
  example.masked = static_cast<size_t>(differs - alone.begin());
  return example;
}

nlohmann::json parse_line(std::string_view text, const std::string& where) {
  try {
    return formats::parse_json(text, where);
  } catch (const UserError& error) {
    throw UserError(error.code(), train::cause_of(error) + ". Correct or remove the line.");
  }
}

TextExample read_line(std::string_view text, const std::string& where, const Tokenizer& tokenizer, const TextOptions& options) {
  nlohmann::json line = parse_line(text, where);
  TextExample example;
  if (line.is_object() && line.contains("text")) {
    example.ids = tokenizer.encode(text_field(line, "text", where));
  } else if (line.is_object() && line.contains("prompt") && line.contains("completion")) {
    example = encode_completion(text_field(line, "prompt", where), text_field(line, "completion", where), tokenizer);
  } else {
    refuse_line(where, R"(the line must be {"text": ...} or {"prompt": ..., "completion": ...}. Correct or remove it.)");
  }
  if (options.end_token && (example.ids.empty() || example.ids.back() != *options.end_token)) example.ids.push_back(*options.end_token);
  check_tokens(example.ids, options, where);
  size_t tokens = example.ids.size();
  example.ids.resize(std::min(tokens, static_cast<size_t>(options.block_size)));
  if (example.ids.size() < 2 || example.masked >= example.ids.size())
    refuse_line(where, tokens > example.ids.size() ? "the prompt has " + std::to_string(example.masked) +
                                                         " tokens, so none of the completion is left in a block of " +
                                                         std::to_string(options.block_size) + ". Shorten the prompt or raise block_size."
                                                   : "the text is too short: there is no token to predict. Remove the line.");
  return example;
}

std::vector<TextExample> read_lines(const std::string& text, const std::string& file, const Tokenizer& tokenizer,
                                    const TextOptions& options) {
  std::vector<TextExample> out;
  size_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = std::string_view(text).substr(begin, end - begin);
    std::string where = file + ":" + std::to_string(++number);
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) out.push_back(read_line(line, where, tokenizer, options));
    begin = end + 1;
  }
  return out;
}

std::vector<TextExample> cut_blocks(const std::string& text, const std::string& file, const Tokenizer& tokenizer,
                                    const TextOptions& options) {
  if (auto bad = formats::first_bad_utf8(text))
    refuse_line(file, "byte " + std::to_string(*bad) + " is not UTF-8. Convert the file to UTF-8.");
  std::vector<int64_t> ids = tokenizer.encode(text);
  check_tokens(ids, options, file);
  auto size = static_cast<size_t>(options.block_size);
  std::vector<TextExample> out;
  for (size_t first = 0; first + size <= ids.size(); first += size) {
    auto begin = ids.begin() + static_cast<int64_t>(first);
    out.push_back({{begin, begin + options.block_size}});
  }
  if (out.empty() && ids.size() >= 2) out.push_back({ids});
  return out;
}

}  // namespace

TextOptions text_options(const CausalModel& model) {
  TextOptions options;
  options.block_size = std::min(options.block_size, model.sizes().positions);
  options.vocabulary = model.sizes().vocabulary;
  for (const std::string* text : {&model.generation_config(), &model.config()}) {
    if (text->empty() || options.end_token) continue;
    nlohmann::json fields = formats::parse_json(*text, text == &model.config() ? "config.json" : "generation_config.json");
    nlohmann::json end = fields.value("eos_token_id", nlohmann::json());
    if (end.is_array() && !end.empty()) end = nlohmann::json(end[0]);
    if (end.is_number_integer()) options.end_token = end.get<int64_t>();
  }
  return options;
}

std::shared_ptr<const Dataset> load_text(const std::string& file, const Tokenizer& tokenizer, const TextOptions& options) {
  if (options.block_size < 2)
    throw UserError(ErrorCode::config, "block_size is " + std::to_string(options.block_size) + ", must be at least 2.");
  std::string text = read_file(file), extension = std::filesystem::path(file).extension().string();
  bool is_lines = extension == ".jsonl" || extension == ".json";
  std::vector<TextExample> examples = is_lines ? read_lines(text, file, tokenizer, options) : cut_blocks(text, file, tokenizer, options);
  if (examples.empty()) refuse_line(file, "there is no text to train on. Add lines of text, or choose another file.");
  return std::make_shared<TextDataset>(std::move(examples), options.padding_token);
}

}  // namespace tenon
