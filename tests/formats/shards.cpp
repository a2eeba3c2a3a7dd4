// Weights in one file and in several: read as one table, written with the names of Transformers, and earlier saves removed.
#include "formats/shards.h"

#include "formats/support.h"

namespace tenon::formats {
namespace {

std::vector<TensorView> letters(std::initializer_list<size_t> sizes) {
  static const std::string kData(100, 'd');
  static constexpr std::string_view kNames[] = {"a", "b", "c", "d", "e", "f"};
  std::vector<TensorView> out;
  for (size_t size : sizes)
    out.push_back({kNames[out.size()], Dtype::U8, {static_cast<int64_t>(size)}, std::as_bytes(std::span(kData.data(), size))});
  return out;
}

TEST(Shards, OneFileIfAllFits) {
  TemporaryDirectory home;
  Directory directory(home.path());
  write_weights(directory, letters({6, 4}), std::nullopt, 10);
  EXPECT_EQ(directory.names(), std::vector<std::string>{"model.safetensors"});
  WeightFiles weights(directory);
  EXPECT_EQ(weights.size(), 2u);
  EXPECT_EQ(weights.find("b")->tensor.data.size(), 4u);
  EXPECT_FALSE(weights.find("c"));
}

// Expected sizes and names are those of huggingface_hub; tests/formats compares with it.
TEST(Shards, SeveralFilesAndAnIndex) {
  TemporaryDirectory home;
  Directory directory(home.path());
  write_weights(directory, letters({6, 20, 4, 6, 4, 0}), Metadata{{"format", "pt"}}, 10);
  EXPECT_EQ(home.get("model.safetensors.index.json"), R"({
  "metadata": {
    "total_parameters": 40,
    "total_size": 40
  },
  "weight_map": {
    "a": "model-00002-of-00003.safetensors",
    "b": "model-00001-of-00003.safetensors",
    "c": "model-00002-of-00003.safetensors",
    "d": "model-00003-of-00003.safetensors",
    "e": "model-00003-of-00003.safetensors",
    "f": "model-00003-of-00003.safetensors"
  }
}
)");
  std::optional<WeightFiles::MappedTensor> found;
  {
    WeightFiles weights(directory);
    ASSERT_EQ(weights.size(), 6u);
    for (size_t i = 0; i < weights.size(); ++i) EXPECT_EQ(weights.at(i).tensor.name, std::string(1, static_cast<char>('a' + i)));
    found = weights.find("b");
  }
  ASSERT_TRUE(found);
  EXPECT_EQ(found->tensor.data.size(), 20u);
  EXPECT_EQ(found->tensor.data[19], std::byte{'d'});  // The file stays mapped while a tensor of it exists.
  EXPECT_TRUE(found->file->path().ends_with("model-00001-of-00003.safetensors"));
}

TEST(Shards, EarlierSavesAreRemoved) {
  TemporaryDirectory home;
  Directory directory(home.path());
  home.put("model-notes.txt", "");
  home.put("model-00001-of-00009.safetensors.bak", "");
  write_weights(directory, letters({6, 6, 6}), std::nullopt, 10);
  write_weights(directory, letters({6, 6}), std::nullopt, 10);
  EXPECT_EQ(directory.names().size(), 5u);
  EXPECT_EQ(WeightFiles(directory).size(), 2u);
  write_weights(directory, letters({6}), std::nullopt, 10);
  EXPECT_EQ(directory.names().size(), 3u);
  EXPECT_EQ(WeightFiles(directory).size(), 1u);
  write_weights(directory, letters({6, 6, 6, 6}), std::nullopt, 10);
  EXPECT_EQ(WeightFiles(directory).size(), 4u);
  EXPECT_TRUE(directory.has("model-notes.txt"));
}

TEST(Shards, RepeatedTensorsAreRejectedBeforeAnythingIsWritten) {
  TemporaryDirectory home;
  Directory directory(home.path());
  std::vector<TensorView> tensors = letters({6, 6});
  tensors.push_back(tensors[0]);
  EXPECT_TRUE(refuses(ErrorCode::format, "given twice", [&] { write_weights(directory, tensors, std::nullopt, 10); }));
  EXPECT_TRUE(directory.names().empty());
}

TEST(Shards, ReadsAnIndexOfOlderVersions) {
  TemporaryDirectory home;
  home.put("a.safetensors", with_length("{" + entry("\"x\"", 0, 4) + "}", "abcd"));
  for (const char* metadata :
       {R"("metadata":{"total_size":4.0},)", R"("metadata":{},)", R"("metadata":{"by":["me",{"n":1}],"total_size":4},)", ""}) {
    home.put("model.safetensors.index.json", std::string("{") + metadata + R"("weight_map":{"x":"\u0061.safetensors"}})");
    EXPECT_EQ(WeightFiles(Directory(home.path())).size(), 1u) << metadata;
  }
}

TEST(Shards, OneFileUnderTwoSpellings) {
  TemporaryDirectory home;
  home.put("a.safetensors", with_length("{" + entry("\"x\"", 0, 2) + "," + entry("\"y\"", 2, 2) + "}", "abcd"));
  home.put("model.safetensors.index.json", R"({"weight_map":{"x":"a.safetensors","y":"\u0061.safetensors"}})");
  EXPECT_EQ(WeightFiles(Directory(home.path())).size(), 2u);
}

TEST(Shards, TellsHowToConvertAPickle) {
  TemporaryDirectory home;
  Directory directory(home.path());
  EXPECT_TRUE(refuses(ErrorCode::file, "neither model.safetensors", [&] { WeightFiles{directory}; }));
  home.put("pytorch_model.bin", "");
  EXPECT_TRUE(refuses(ErrorCode::file, "save_pretrained", [&] { WeightFiles{directory}; }));
  home.put("pytorch_model.bin.index.json", "");
  std::filesystem::remove(home / "pytorch_model.bin");
  EXPECT_TRUE(refuses(ErrorCode::file, "a pickle", [&] { WeightFiles{directory}; }));
}

TEST(Shards, RejectsTwoModels) {
  TemporaryDirectory home;
  home.put("model.safetensors", with_length("{}"));
  home.put("model.safetensors.index.json", "{}");
  EXPECT_TRUE(refuses(ErrorCode::format, "there are both", [&] { WeightFiles{Directory(home.path())}; }));
}

}  // namespace
}  // namespace tenon::formats
