// Files that are valid, or invalid only at their end, and designed to take as much memory as possible. Reading takes
// less memory than twice the header plus 1 MiB.
#include "formats/json.h"
#include "formats/safetensors.h"
#include "formats/shard_index.h"
#include "formats/support.h"

namespace tenon::formats {
namespace {

constexpr size_t kEntries = 200'000;
constexpr size_t kMiB = 1u << 20;

// Distinct names that are as short as possible.
std::string short_name(size_t i) {
  std::string out;
  do out += static_cast<char>('#' + i % 57);  // The range excludes quotes and backslashes.
  while (i /= 57);
  return out;
}

std::string escaped_name(size_t i) {
  std::string out;
  do out += std::string("\\") + "bfnrt/"[i % 6];
  while (i /= 6);
  return out;
}

std::string many(std::string (*name)(size_t), std::string_view description) {
  std::string out = "{";
  for (size_t i = 0; i < kEntries; ++i) ((((out += i == 0 ? "\"" : ",\"") += name(i)) += "\":") += description);
  return out + "}";
}

void expect_bounded(const std::string& header, bool valid) {
  std::string file = with_length(header);
  reset_peak();
  try {
    Safetensors tensors(file, "file");
    EXPECT_TRUE(valid);
    EXPECT_EQ(tensors.size(), kEntries);
  } catch (const UserError& error) {
    EXPECT_FALSE(valid) << error.what();
  }
  EXPECT_LE(peak_bytes(), 2 * header.size() + kMiB);
}

constexpr std::string_view kTiny = R"({"dtype":"U8","shape":[0],"data_offsets":[0,0]})";

TEST(Memory, ManyTinyTensors) { expect_bounded(many(short_name, kTiny), true); }

TEST(Memory, ManyTinyTensorsWithEscapes) { expect_bounded(many(escaped_name, kTiny), true); }

TEST(Memory, ManyTensorsOfRank64) {
  std::string shape = "0";
  for (int i = 1; i < 64; ++i) shape += ",1";
  expect_bounded(many(short_name, R"({"dtype":"U8","shape":[)" + shape + R"(],"data_offsets":[0,0]})"), true);
}

TEST(Memory, LastOfManyIsWrong) {
  std::string header = many(escaped_name, kTiny);
  header.back() = ',';
  expect_bounded(header + "\"z\":{}}", false);
}

TEST(Memory, OneNameOfManyBytes) { expect_bounded("{" + entry("\"\\n" + std::string(20 * kMiB, 'n') + "\"", 0, 0) + ",1}", false); }

TEST(Memory, MetadataOfManyEntries) {
  std::string header = R"({"__metadata__":{)";
  for (size_t i = 0; i < kEntries; ++i) header += (i == 0 ? "\"" : ",\"") + short_name(i) + "\":\"\"";
  expect_bounded(header + "}}", false);
}

TEST(Memory, MetadataOfManyBytes) {
  std::string header = R"({"__metadata__":{)";
  for (size_t i = 0; i < 1000; ++i) header += (i == 0 ? "\"" : ",\"") + short_name(i) + "\":\"\\t" + std::string(20'000, 'm') + "\"";
  expect_bounded(header + "},1}", false);
}

TEST(Memory, IndexOfManyTensors) {
  for (auto* name : {short_name, escaped_name}) {
    std::string text = "{\"weight_map\":" + many(name, "\"a.safetensors\"") + "}";
    reset_peak();
    EXPECT_EQ(ShardIndex(text, "index").size(), kEntries);
    EXPECT_LE(peak_bytes(), 2 * text.size() + kMiB);
  }
}

TEST(Memory, IndexOfManyFiles) {
  std::string text = R"({"weight_map":{)";
  for (size_t i = 0; i < kEntries; ++i) text += (i == 0 ? "\"" : ",\"") + short_name(i) + "\":\"" + short_name(i) + ".safetensors\"";
  text += "}}";
  reset_peak();
  EXPECT_TRUE(refuses(ErrorCode::format, "more than 4096 files", [&] { ShardIndex(text, "index"); }));
  EXPECT_LE(peak_bytes(), 2 * text.size() + kMiB);
}

// Parsed values are larger than their text, so the bound is absolute: twice the size limit of a text.
TEST(Memory, ConfigsOfManyValues) {
  for (std::string_view value : {"[],", "{},", R"({"":{}},)", R"({"":""},)", "\"\\n2345678901234567\",", "0,"}) {
    std::string text = "[";
    for (size_t i = 0; i < kConfigLimits.values / (value.find(":") == value.npos ? 1 : 2) - 2; ++i) text += value;
    text += "0]";
    reset_peak();
    EXPECT_NO_THROW(parse_json(text, "config.json")) << value;
    EXPECT_LE(peak_bytes(), 2 * kConfigLimits.bytes + kMiB) << value;
  }
}

}  // namespace
}  // namespace tenon::formats
