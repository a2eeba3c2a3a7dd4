// The order of the data, the random numbers of a loader, and text files. The expected orders and numbers come from PyTorch 2.13.
#include "train/data_order.h"

#include <gtest/gtest.h>
#include <tenon/text_data.h>
#include <torch/torch.h>

#include <fstream>

#include "base/error.h"
#include "support/expect_error.h"
#include "support/folder.h"

namespace tenon::test {
namespace {

using Order = std::vector<size_t>;
using Rows = std::vector<std::vector<int64_t>>;

TEST(DataOrder, IsThatOfTransformers) {
  EXPECT_EQ(train::data_order(11, 42, 0), (Order{6, 8, 9, 2, 1, 10, 0, 7, 3, 5, 4}));
  EXPECT_EQ(train::data_order(11, 42, 1), (Order{3, 9, 4, 2, 8, 7, 6, 10, 1, 5, 0}));
  EXPECT_EQ(train::data_order(11, 42, 2), (Order{2, 4, 9, 8, 5, 3, 7, 6, 0, 10, 1}));
}

TEST(DataOrder, ALoaderDrawsOneNumber) {
  torch::manual_seed(42);
  train::draw_loader_seed();
  torch::Tensor next = torch::rand({2});
  EXPECT_EQ(next[0].item<float>(), 0.38286375999450684f);
  EXPECT_EQ(next[1].item<float>(), 0.9593056440353394f);
}

// A tokenizer whose tokens are the letters a to h and the space, with the ids 0 to 8.
Tokenizer letters(const std::filesystem::path& folder) {
  std::ofstream(folder / "tokenizer.json") << R"({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
    "normalizer": null, "pre_tokenizer": null, "post_processor": null, "decoder": null,
    "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null, "end_of_word_suffix": null,
              "fuse_unk": false, "byte_fallback": false,
              "vocab": {"a": 0, "b": 1, "c": 2, "d": 3, "e": 4, "f": 5, "g": 6, "h": 7, " ": 8}, "merges": []}})";
  return Tokenizer::load(folder.string());
}

Rows rows_of(const torch::Tensor& tensor) {
  Rows out;
  for (int64_t i = 0; i < tensor.size(0); ++i) {
    const int64_t* first = tensor[i].const_data_ptr<int64_t>();
    out.emplace_back(first, first + tensor.size(1));
  }
  return out;
}

class TextData : public testing::Test {
 protected:
  std::string put(const std::string& name, const std::string& text) {
    std::ofstream(folder_.path() / name) << text;
    return (folder_.path() / name).string();
  }
  std::shared_ptr<const Dataset> load(const std::string& name, const std::string& text, const TextOptions& options = {}) {
    return load_text(put(name, text), tokenizer_, options);
  }
  void expect_error(ErrorCode code, const std::vector<std::string>& parts, const std::string& name, const std::string& text,
                    const TextOptions& options = {}) {
    test::expect_error(code, parts, [&] { load(name, text, options); });
  }

  TemporaryFolder folder_;
  Tokenizer tokenizer_ = letters(folder_.path());
};

TEST_F(TextData, LinesArePaddedAndMasked) {
  auto data = load("data.jsonl", "{\"text\": \"abc\"}\n\n{\"prompt\": \"ab\", \"completion\": \"cde\"}\r\n{\"text\": \"h\"}",
                   {.end_token = 5, .padding_token = 7});
  ASSERT_EQ(data->size(), 3u);
  std::vector<torch::Tensor> batch = data->batch({1, 2});
  ASSERT_EQ(batch.size(), 3u);
  EXPECT_EQ(rows_of(batch[0]), (Rows{{0, 1, 2, 3, 4, 5}, {7, 5, 7, 7, 7, 7}}));
  EXPECT_EQ(rows_of(batch[1]), (Rows{{-100, -100, 2, 3, 4, 5}, {7, 5, -100, -100, -100, -100}}));
  EXPECT_EQ(rows_of(batch[2]), (Rows{{1, 1, 1, 1, 1, 1}, {1, 1, 0, 0, 0, 0}}));
  EXPECT_EQ(rows_of(data->batch({0})[0]), (Rows{{0, 1, 2, 5}}));
}

TEST_F(TextData, LongLinesAreCut) {
  auto data = load("data.jsonl", "{\"text\": \"abcdefgh\"}", {.block_size = 3, .end_token = 5});
  EXPECT_EQ(rows_of(data->batch({0})[0]), (Rows{{0, 1, 2}}));
}

TEST_F(TextData, PlainTextIsCutIntoBlocks) {
  auto data = load("data.txt", "abcdefgh", {.block_size = 3});
  ASSERT_EQ(data->size(), 2u);
  EXPECT_EQ(rows_of(data->batch({0, 1})[0]), (Rows{{0, 1, 2}, {3, 4, 5}}));
  EXPECT_EQ(rows_of(data->batch({0, 1})[1]), (Rows{{0, 1, 2}, {3, 4, 5}}));
  EXPECT_EQ(load("short.txt", "ab", {.block_size = 3})->size(), 1u);
}

TEST_F(TextData, ABrokenLineIsNamed) {
  std::string good = "{\"text\": \"abc\"}\n";
  expect_error(ErrorCode::format, {"data.jsonl:2: byte ", "Correct or remove the line"}, "data.jsonl",
               good + "{\"text\" \"abc\"}\n" + good);
  expect_error(ErrorCode::format, {"data.jsonl:3", "{\"text\": ...} or {\"prompt\": ..., \"completion\": ...}"}, "data.jsonl",
               good + good + "{\"texts\": \"abc\"}\n");
  expect_error(ErrorCode::format, {"data.jsonl:1", "\"text\" must be a string"}, "data.jsonl", "{\"text\": 3}\n");
  expect_error(ErrorCode::format, {"data.jsonl:1", "too short"}, "data.jsonl", "{\"text\": \"a\"}\n");
  expect_error(ErrorCode::format, {"data.jsonl:1", "the prompt has 4 tokens", "block of 4", "raise block_size"}, "data.jsonl",
               "{\"prompt\": \"abcd\", \"completion\": \"e\"}\n", {.block_size = 4});
  expect_error(ErrorCode::format, {"data.jsonl:1", "token 7", "4 tokens", "own tokenizer"}, "data.jsonl", "{\"text\": \"abh\"}\n",
               {.vocabulary = 4});
  expect_error(ErrorCode::format, {"data.jsonl", "no text"}, "data.jsonl", "\n\n");
  expect_error(ErrorCode::format, {"data.txt", "byte 2 is not UTF-8"}, "data.txt", "ab\xff");
  try {
    load_text((folder_.path() / "missing.txt").string(), tokenizer_);
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ErrorCode::file);
    EXPECT_NE(std::string(error.what()).find("missing.txt: cannot be opened"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace tenon::test
