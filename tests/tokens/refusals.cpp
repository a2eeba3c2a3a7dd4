// Every error about a file or a text: its code and its message.
#include <fstream>

#include <tenon/tokenizer.h>

#include "tokens/file.h"

namespace tenon::test {

struct Refusal {
  const char* pointer;  // JSON pointer to the changed field.
  const char* value;    // New value; null removes the field.
  const char* says;
};

class Refusals : public testing::TestWithParam<Refusal> {};

TEST_P(Refusals, NamesTheUnsupportedField) {
  Json file = small_file();
  Json::json_pointer field(GetParam().pointer);
  if (GetParam().value) file[field] = Json::parse(GetParam().value);
  else file[field.parent_pointer()].erase(field.back());
  expect_refusal(GetParam().says, [&] { pipeline(file); });
}

INSTANTIATE_TEST_SUITE_P(
    File, Refusals,
    testing::Values(Refusal{"/version", R"("2.0")", "the version '2.0' is not supported"},
                    Refusal{"/truncation", R"({"max_length": 8})", "'truncation' is not supported"},
                    Refusal{"/padding", R"({"strategy": {"Fixed": 8}})", "'padding' is not supported"},
                    Refusal{"/padding", R"({"strategy": "BatchLongest", "pad_to_multiple_of": 8})", "'padding' is not supported"},
                    Refusal{"/more", "1", "the file: the field 'more' is not supported"},
                    Refusal{"/model", nullptr, "the field 'model' is missing"}, Refusal{"/model", "[]", "'model' must be an object"}));

INSTANTIATE_TEST_SUITE_P(
    Model, Refusals,
    testing::Values(
        Refusal{"/model/type", R"("Unigram")", "the model 'Unigram' is not supported"},
        Refusal{"/model", R"({"vocab": {}})", "the model 'without a type' is not supported"},
        Refusal{"/model/dropout", "0.1", "'dropout' is only used in training"}, Refusal{"/model/vocab", "[]", "'vocab' must be an object"},
        Refusal{"/model/vocab/a", "-1", "the token 'a': an id must be a non-negative integer below 4194304"},
        Refusal{"/model/vocab/a", "4194304", "an id must be a non-negative integer"},
        Refusal{"/model/vocab/a", "0.5", "an id must be a non-negative integer"},
        Refusal{"/model/vocab/a", "5", "the id 5 belongs to two tokens"},
        Refusal{"/model/merges", nullptr, "the field 'merges' is missing"},
        Refusal{"/model/merges/0", R"(["a", "x"])", "needs the token 'x'"},
        Refusal{"/model/merges/0", R"(["c", "a"])", "needs the token 'ca'"},
        Refusal{"/model/merges/0", R"("a b c")", "is not two tokens separated by a space"},
        Refusal{"/model/merges/0", R"("ab")", "is not two tokens"},
        Refusal{"/model/merges/0", "7", "a merge must be a string of two tokens or a list of two, not 7"},
        Refusal{"/model/continuing_subword_prefix", R"("##")", "has no continuing_subword_prefix"},
        Refusal{"/model/fuse_unk", "1", "'fuse_unk' must be true or false"},
        Refusal{"/model/unk_token", "1", "'unk_token' must be a string"},
        Refusal{"/model/extra", "1", "model BPE: the field 'extra' is not supported"},
        Refusal{
            "/model",
            R"({"type": "WordPiece", "vocab": {}, "unk_token": "u", "continuing_subword_prefix": "##", "max_input_chars_per_word": 5000})",
            "must be a non-negative integer of at most 1000"}));

INSTANTIATE_TEST_SUITE_P(
    Steps, Refusals,
    testing::Values(
        Refusal{"/normalizer", R"({"type": "Precompiled"})", "the normalizer 'Precompiled' is not supported"},
        Refusal{"/normalizer", R"({"type": "NFC", "x": 1})", "normalizer NFC: the field 'x' is not supported"},
        Refusal{"/normalizer", R"({"type": 3})", "normalizer must be an object with a 'type'"},
        Refusal{"/normalizer", R"("NFC")", "normalizer must be an object with a 'type'"},
        Refusal{"/normalizer", R"({"type": "Replace", "pattern": {"Glob": "*"}, "content": ""})", "the field 'Regex' is missing"},
        Refusal{"/normalizer", R"({"type": "Replace", "pattern": {}, "content": ""})", "must be one of"},
        Refusal{"/pre_tokenizer", R"({"type": "UnicodeScripts"})", "the pre_tokenizer 'UnicodeScripts' is not supported"},
        Refusal{"/pre_tokenizer", R"({"type": "Split", "pattern": {"String": "x"}, "behavior": "Odd", "invert": false})",
                "the behavior 'Odd'"},
        Refusal{"/pre_tokenizer", R"({"type": "Metaspace", "replacement": "ab"})", "'replacement' must be one character"},
        Refusal{"/pre_tokenizer", R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "x"})", "the prepend_scheme 'x'"},
        Refusal{"/pre_tokenizer", R"({"type": "Metaspace", "replacement": "_", "add_prefix_space": false})",
                "prepend_scheme is not 'never'"},
        Refusal{"/post_processor", R"({"type": "Other"})", "the post_processor 'Other' is not supported"},
        Refusal{"/post_processor", R"({"type": "BertProcessing", "sep": ["x", 99], "cls": ["a", 0]})", "no token has the id 99"},
        Refusal{"/post_processor", R"({"type": "BertProcessing", "sep": [1], "cls": ["a", 0]})", "'sep' must be a token and its id"},
        Refusal{"/post_processor",
                R"({"type": "TemplateProcessing", "single": [{"Sequence": {"id": "B", "type_id": 0}}], "pair": [], "special_tokens": {}})",
                "there is only 'A'"},
        Refusal{
            "/post_processor",
            R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "x", "type_id": 0}}], "pair": [], "special_tokens": {}})",
            "not among 'special_tokens'"},
        Refusal{"/decoder", R"({"type": "CTC"})", "the decoder 'CTC' is not supported"},
        Refusal{"/decoder", R"({"type": "Strip", "content": "ab", "start": 0, "stop": 0})", "'content' must be one character"},
        Refusal{"/decoder", R"({"type": "BPEDecoder", "suffix": ""})", "'suffix' must not be empty"}));

INSTANTIATE_TEST_SUITE_P(
    AddedTokens, Refusals,
    testing::Values(
        Refusal{"/added_tokens", "{}", "'added_tokens' must be a list"},
        Refusal{
            "/added_tokens",
            R"([{"id": 9, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}])",
            "the added token '<s>' has the id 9, but must have the id 6"},
        Refusal{
            "/added_tokens",
            R"([{"id": 6, "content": "", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}])",
            "must have 1 to 4096 bytes"},
        Refusal{"/added_tokens", R"([{"id": 6, "content": "<s>", "lstrip": false, "rstrip": false, "normalized": false, "special": true}])",
                "the field 'single_word' is missing"}));

TEST(Refusals, ConflictingAddedTokens) {
  Json file = small_file();
  file["added_tokens"] = {added_token("<s>", 6), added_token("<s>", 7)};
  expect_refusal("'<s>' appears twice", [&] { pipeline(file); });
  file["added_tokens"] = {added_token("a", 0), added_token("a", 0)};
  expect_refusal("'a' appears twice", [&] { pipeline(file); });
  file["model"]["vocab"]["late"] = 7;
  file["added_tokens"] = {added_token("<s>", 7)};
  expect_refusal("has the id 7 of the model's token 'late'", [&] { pipeline(file); });
  file = small_file();
  file["normalizer"] = {{"type", "Lowercase"}};
  file["added_tokens"] = {added_token("<S>", 6), added_token("<s>", 7)};
  for (Json& token : file["added_tokens"]) token["normalized"] = true;
  expect_refusal("equals another added token after normalization", [&] { pipeline(file); });
  file["normalizer"] = {{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}};
  file["added_tokens"][0]["content"] = "  ";
  expect_refusal("is empty after normalization", [&] { pipeline(file); });
}

TEST(Refusals, TextOfTheFile) {
  expect_refusal("parse error", [] { tokens::Pipeline("{"); });
  expect_refusal("the file must be an object", [] { tokens::Pipeline("[]"); });
  expect_refusal("the key 'a' appears twice", [] { tokens::Pipeline(R"({"b": {"a": 1, "a": 2}})"); });
  expect_refusal("nested deeper than 32", [] { tokens::Pipeline(std::string(100000, '[')); });
  expect_refusal("more than 64 MiB", [] { tokens::Pipeline(std::string((64 << 20) + 1, ' ')); });
  expect_refusal("ill-formed UTF-8", [] { tokens::Pipeline("{\"\xFF\": 1}"); });
}

TEST(Refusals, Paths) {
  expect_refusal("cannot read", [] { Tokenizer::load("/no/such/file"); });
  expect_refusal("tokenizer.json: pass the path of a tokenizer.json or of its directory", [] { Tokenizer::load("/"); });
}

TEST(Refusals, Texts) {
  tokens::Pipeline small = pipeline(small_file());
  expect_refusal("not UTF-8 at byte 1", [&] { small.encode("a\xFF", true); });
  expect_refusal("not UTF-8 at byte 0", [&] { small.encode("\xC3", true); });
  expect_refusal("not UTF-8 at byte 0", [&] { small.encode("\xED\xA0\x80", true); });  // Half of a UTF-16 surrogate pair.
  expect_refusal("not UTF-8 at byte 0", [&] { small.encode("\xC0\x80", true); });
  expect_refusal("the id -100 is negative", [&] { small.decode({-100}, true); });
}

TEST(Refusals, UnknownTokenIsNotInTheVocabulary) {
  Json file = small_file();
  file["model"]["unk_token"] = "<unk>";
  tokens::Pipeline bpe = pipeline(file);
  EXPECT_EQ(bpe.encode("ab", true), Ids{3});
  expect_refusal("the unk_token '<unk>'", [&] { bpe.encode("x", true); });
  file["model"] = {{"type", "WordPiece"},
                   {"vocab", {{"a", 0}}},
                   {"unk_token", "?"},
                   {"continuing_subword_prefix", "##"},
                   {"max_input_chars_per_word", 10}};
  tokens::Pipeline words = pipeline(file);
  expect_refusal("the unk_token '?' is not in the vocab", [&] { words.encode("x", true); });
}

TEST(Refusals, TextsThatGrow) {
  Json file = small_file();
  file["normalizer"] = {{"type", "Sequence"}, {"normalizers", Json::array()}};
  for (int i = 0; i < 60; ++i)
    file["normalizer"]["normalizers"].push_back({{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}});
  expect_refusal("its steps expand", [&] { pipeline(file).encode("a", true); });
  file["normalizer"] = nullptr;
  file["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", Json::array()}};
  for (int i = 0; i < 60; ++i)
    file["pre_tokenizer"]["pretokenizers"].push_back(
        {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}});
  expect_refusal("its steps expand", [&] { pipeline(file).encode("\xC3\xA9", true); });
}

TEST(Refusals, RegularExpressionsExceedTheStepLimit) {
  Json file = small_file();
  file["pre_tokenizer"] = {
      {"type", "Split"}, {"pattern", {{"Regex", "(a+)+(a+)+(a+)+(a+)+$"}}}, {"behavior", "Isolated"}, {"invert", false}};
  expect_refusal("match limit exceeded", [&] { pipeline(file).encode(std::string(3000, 'a') + "b", true); });
}

}  // namespace tenon::test
