// Single steps of a tokenizer, in corner cases that the comparison with the reference does not cover by name.
#include <tenon/tokenizer.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "tokens/file.h"
#include "tokens/utf8.h"

namespace tenon::test {

TEST(Merging, LowestRankFirstThenLeftmost) {
  tokens::Pipeline small = pipeline(small_file());
  EXPECT_EQ(small.encode("abc", true), Ids{5});
  EXPECT_EQ(small.encode("bcab", true), (Ids{4, 3}));
  Json file = small_file();
  std::swap(file["model"]["merges"][0], file["model"]["merges"][1]);
  EXPECT_EQ(pipeline(file).encode("abc", true), (Ids{0, 4}));  // bc is merged first, and "a bc" has no merge.
}

TEST(Merging, BothFormsOfMerges) {
  Json file = small_file();
  file["model"]["merges"] = {"#version: 0.2", "a b", "b c", "ab c"};
  EXPECT_EQ(pipeline(file).encode("abcbc", true), (Ids{5, 4}));
}

TEST(Merging, WithoutUnknownTokenCharactersAreDropped) { EXPECT_EQ(pipeline(small_file()).encode("xaybz", true), (Ids{3})); }

TEST(Merging, UnknownTokensAreFusedWithFuseUnk) {
  Json file = small_file();
  file["model"]["unk_token"] = "c";
  EXPECT_EQ(pipeline(file).encode("xya", true), (Ids{2, 2, 0}));
  file["model"]["fuse_unk"] = true;
  EXPECT_EQ(pipeline(file).encode("xya", true), (Ids{2, 0}));
}

TEST(Merging, BytesInsteadOfUnknown) {
  Json file = small_file();
  file["model"]["byte_fallback"] = true;
  file["model"]["unk_token"] = "c";
  file["model"]["vocab"]["<0xC3>"] = 6;
  file["model"]["vocab"]["<0xA9>"] = 7;
  EXPECT_EQ(pipeline(file).encode("a\xC3\xA9", true), (Ids{0, 6, 7}));
  EXPECT_EQ(pipeline(file).encode("\xC3\xAA", true), Ids{2});  // Not all bytes of the character are tokens.
}

TEST(Merging, WholeWordsWithoutMerges) {
  Json file = small_file();
  file["model"]["vocab"]["cab"] = 6;
  EXPECT_EQ(pipeline(file).encode("cab", true), (Ids{2, 3}));
  file["model"]["ignore_merges"] = true;
  EXPECT_EQ(pipeline(file).encode("cab", true), Ids{6});
}

TEST(Merging, AMegabyteWithoutSpaces) {
  std::string text;
  for (int i = 0; i < 1 << 18; ++i) text += "abcb";
  EXPECT_EQ(pipeline(small_file()).encode(text, true).size(), size_t{2} << 18);
}

TEST(AddedTokens, LongestAtOnePosition) {
  Json file = small_file();
  file["added_tokens"] = {added_token("<a", 6), added_token("<a>", 7)};
  EXPECT_EQ(pipeline(file).encode("<a><ab", true), (Ids{7, 6, 1}));
}

TEST(AddedTokens, Strip) {
  Json file = small_file();
  file["model"]["vocab"][" "] = 6;
  file["added_tokens"] = {added_token("<m>", 7)};
  EXPECT_EQ(pipeline(file).encode("a <m> b", true), (Ids{0, 6, 7, 6, 1}));
  file["added_tokens"][0]["lstrip"] = true;
  EXPECT_EQ(pipeline(file).encode("a  <m> b", true), (Ids{0, 7, 6, 1}));
  file["added_tokens"][0]["rstrip"] = true;
  EXPECT_EQ(pipeline(file).encode("a <m>\t\n<m> b", true), (Ids{0, 7, 7, 1}));
}

TEST(AddedTokens, SingleWord) {
  Json file = small_file();
  file["added_tokens"] = {added_token("ab", 3)};
  file["added_tokens"][0]["single_word"] = true;
  EXPECT_EQ(pipeline(file).encode("c-ab", true), (Ids{2, 3}));
  EXPECT_EQ(pipeline(file).encode("abc", true), Ids{5});
}

TEST(AddedTokens, NormalizedOnesAreFoundInNormalizedText) {
  Json file = small_file();
  file["normalizer"] = {{"type", "Lowercase"}};
  file["added_tokens"] = {added_token("AB", 6)};
  EXPECT_EQ(pipeline(file).encode("AB", true), Ids{6});
  EXPECT_EQ(pipeline(file).encode("ab", true), Ids{3});
  file["added_tokens"][0]["normalized"] = true;
  EXPECT_EQ(pipeline(file).encode("aB", true), Ids{6});
}

TEST(Templates, AroundTheText) {
  Json file = small_file();
  file["post_processor"] = Json::parse(R"({"type": "TemplateProcessing", "pair": [], "single": [{"SpecialToken": {"id": "x", "type_id": 0}},
    {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "y", "type_id": 0}}],
    "special_tokens": {"x": {"id": "x", "ids": [1, 2], "tokens": ["b", "c"]}, "y": {"id": "y", "ids": [4], "tokens": ["bc"]}}})");
  EXPECT_EQ(pipeline(file).encode("a", true), (Ids{1, 2, 0, 4}));
  EXPECT_EQ(pipeline(file).encode("a", false), Ids{0});
}

TEST(Files, PaddingWithoutEffectAndModelsWithoutType) {
  Json file = small_file();
  file["padding"] = {{"strategy", "BatchLongest"}, {"direction", "Right"}, {"pad_to_multiple_of", nullptr}, {"pad_id", 0}};
  file["model"].erase("type");
  EXPECT_EQ(pipeline(file).encode("abc", true), Ids{5});
}

TEST(Normalizers, OneCharacterWithTwoInLowerCase) {
  Json file = small_file();
  file["normalizer"] = {{"type", "Lowercase"}};
  file["model"]["vocab"] = {{"i", 0}, {"\u0307", 1}};
  file["model"]["merges"] = Json::array();
  EXPECT_EQ(pipeline(file).encode("\u0130I", true), (Ids{0, 1, 0}));
}

TEST(Utf8, ReplacesInvalidBytes) {
  auto text = [](std::string bytes) { return tokens::take_text(bytes, false); };
  EXPECT_EQ(text("a\xFF"
                 "b"),
            "a\uFFFDb");
  EXPECT_EQ(text("\xE2\x82"), "\uFFFD");
  EXPECT_EQ(text("\xE2\x82"
                 "a"),
            "\uFFFDa");
  EXPECT_EQ(text("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(text("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");
  std::string open = "a\xE2\x82";
  EXPECT_EQ(tokens::take_text(open, true), "a");
  EXPECT_EQ(open, "\xE2\x82");
}

// A folder with a byte-level tokenizer whose tokens are the bytes of "é" and "!".
class OnDisk : public testing::Test {
 protected:
  OnDisk() : folder_(std::filesystem::temp_directory_path() / ("tenon_tokens_" + std::to_string(::getpid()))) {
    std::filesystem::create_directory(folder_);
    Json file = small_file();
    file["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
    file["decoder"] = file["pre_tokenizer"];
    file["model"]["vocab"] = {{"\u00C3", 0}, {"\u00A9", 1}, {"!", 2}};
    file["model"]["merges"] = Json::array();
    file["added_tokens"] = {added_token("<s>", 3)};
    std::ofstream(folder_ / "tokenizer.json") << file.dump();
  }
  ~OnDisk() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path folder_;
};

TEST_F(OnDisk, LoadsAFolder) {
  Tokenizer tokenizer = Tokenizer::load(folder_.string());
  EXPECT_EQ(tokenizer.encode("\u00E9!<s>"), (Ids{0, 1, 2, 3}));
  EXPECT_EQ(tokenizer.decode({0, 1, 2, 3}), "\u00E9!");
  EXPECT_EQ(tokenizer.decode({0, 1, 2, 3}, false), "\u00E9!<s>");
  EXPECT_EQ(tokenizer.size(), 4u);
  EXPECT_EQ(tokenizer.token_id("<s>"), 3);
  EXPECT_EQ(tokenizer.token_id("<t>"), std::nullopt);
  EXPECT_EQ(tokenizer.token(2), "!");
  expect_refusal("no token has the id 4", [&] { tokenizer.token(4); });
}

TEST_F(OnDisk, StreamsWholeCharacters) {
  TextStream stream(Tokenizer::load(folder_.string()));
  EXPECT_EQ(stream.put(0), "");
  EXPECT_EQ(stream.put(3), "");  // Special tokens are skipped.
  EXPECT_EQ(stream.put(1), "\u00E9");
  EXPECT_EQ(stream.put(1), "\uFFFD");
  EXPECT_EQ(stream.put(0), "");
  EXPECT_EQ(stream.finish(), "\uFFFD");
  EXPECT_EQ(stream.put(2), "!");
}

TEST_F(OnDisk, ManyThreads) {
  Tokenizer tokenizer = Tokenizer::load((folder_ / "tokenizer.json").string());
  std::vector<std::thread> threads;
  std::array<bool, 4> right = {};
  for (size_t i = 0; i < right.size(); ++i)
    threads.emplace_back([&, i] {
      right[i] = true;
      for (size_t n = 1; n < 300; ++n) right[i] &= tokenizer.encode(std::string(n, '!') + " \u00E9").size() == n + 2;
    });
  for (std::thread& thread : threads) thread.join();
  for (bool one : right) EXPECT_TRUE(one);
}

}  // namespace tenon::test
