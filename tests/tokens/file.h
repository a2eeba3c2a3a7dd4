// A small tokenizer.json that tests modify.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "tokens/pipeline.h"

namespace tenon::test {

using Json = nlohmann::json;
using Ids = std::vector<int64_t>;

// BPE over a, b and c that merges "ab" (3) before "bc" (4) before "abc" (5), without other steps.
inline Json small_file() {
  return Json::parse(R"({
    "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null, "pre_tokenizer": null,
    "post_processor": null, "decoder": null,
    "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null, "end_of_word_suffix": null,
              "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
              "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "bc": 4, "abc": 5}, "merges": [["a", "b"], ["b", "c"], ["ab", "c"]]}})");
}

inline Json added_token(const std::string& content, int id) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

inline tokens::Pipeline pipeline(const Json& file) { return tokens::Pipeline(file.dump()); }

template <class F>
void expect_refusal(const std::string& message, F&& f) {
  try {
    f();
    ADD_FAILURE() << "expected an error with: " << message;
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ErrorCode::tokenizer);
    EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
  }
}

}  // namespace tenon::test
