// Valid safetensors files: results of the reader and bytes of the writer.
#include "formats/safetensors.h"

#include <cstring>
#include <random>

#include "formats/safetensors_writer.h"
#include "formats/support.h"

namespace tenon::formats {
namespace {

std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string text_of(const TensorView& tensor) { return {reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size()}; }

TEST(Safetensors, ReturnsViews) {
  std::string header =
      R"({"b":{"data_offsets":[0,4],"shape":[2,1],"dtype":"F16"}, "__metadata__":{"format":"pt","n":"\u00e9"},)"
      R"("a":{"dtype":"U8","shape":[],"data_offsets":[4,5]},"\"\ud83d\ude00":{"dtype":"I64","shape":[3, 0],"data_offsets":[5,5]}} )";
  std::string file = with_length(header, "abcde");
  Safetensors tensors(file, "file");
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_EQ(tensors.name(0), "\"\U0001F600");
  EXPECT_EQ(tensors.tensor(0).shape, (std::vector<int64_t>{3, 0}));
  EXPECT_EQ(tensors.name(1), "a");
  EXPECT_TRUE(tensors.tensor(1).shape.empty());
  TensorView b = tensors.tensor(tensors.find("b").value());
  EXPECT_EQ(b.dtype, Dtype::F16);
  EXPECT_EQ(b.shape, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(text_of(b), "abcd");
  EXPECT_EQ(static_cast<const void*>(b.data.data()), file.data() + 8 + header.size());
  EXPECT_FALSE(tensors.find("c"));
  EXPECT_FALSE(tensors.find(""));
  EXPECT_EQ(tensors.metadata(), (Metadata{{"format", "pt"}, {"n", "é"}}));
}

// The Python package reads all of these.
TEST(Safetensors, AcceptsUnusualFiles) {
  for (std::string header :
       {std::string("{}"), std::string("{ \n\t\r}"), std::string(R"({"__metadata__":null})"), std::string(R"({"__metadata__":{}})")})
    EXPECT_EQ(Safetensors(with_length(header), "file").size(), 0u) << header;
  EXPECT_EQ(Safetensors(with_length(R"({"x":{"\u0064type":"\u00558","shape":[1],"data_offsets":[0,1]}})", "a"), "file").size(), 1u);
  EXPECT_EQ(Safetensors(with_length(R"({"\u0000":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}})", "a"), "file").size(), 1u);
  EXPECT_EQ(
      Safetensors(with_length("{" + entry("\"a\"", 0, 1) + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})", "abcde"), "file")
          .size(),
      2u);
  EXPECT_EQ(Safetensors(with_length(R"({"x":{"dtype":"U8","shape":[0,9223372036854775807],"data_offsets":[0,0]}})"), "file").size(), 1u);
}

TEST(Safetensors, ReadsEveryDtype) {
  struct {
    const char* name;
    unsigned bits;
  } dtypes[] = {{"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6},     {"U8", 8},          {"I8", 8},
                {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
                {"U16", 16},    {"F16", 16},    {"BF16", 16},   {"I32", 32},        {"U32", 32},        {"F32", 32},
                {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64}};
  for (const auto& dtype : dtypes) {
    size_t size = dtype.bits;  // Size of eight elements in bytes.
    std::string header =
        std::string(R"({"x":{"dtype":")") + dtype.name + R"(","shape":[8],"data_offsets":[0,)" + std::to_string(size) + "]}}";
    std::string file = with_length(header, std::string(size, 'a'));
    Safetensors tensors(file, "file");
    EXPECT_STREQ(dtype_name(tensors.tensor(0).dtype), dtype.name);
    EXPECT_EQ(tensors.tensor(0).data.size(), size);
  }
}

TEST(Safetensors, FindsAmongMany) {
  std::string header = "{", data;
  for (size_t i = 0; i < 1000; ++i) {
    std::string name = i % 2 ? "\"t" + std::to_string(i * 7919 % 1000) + "\"" : "\"\\u0074" + std::to_string(i * 7919 % 1000) + "\"";
    header += (i == 0 ? "" : ",") + entry(name, data.size(), i % 3);
    data += std::string(i % 3, static_cast<char>('a' + i % 26));
  }
  std::string file = with_length(header + "}", data);
  Safetensors tensors(file, "file");
  for (size_t i = 0; i < 1000; ++i) {
    auto found = tensors.find("t" + std::to_string(i * 7919 % 1000));
    ASSERT_TRUE(found);
    EXPECT_EQ(text_of(tensors.tensor(*found)), std::string(i % 3, static_cast<char>('a' + i % 26)));
  }
}

// Expected bytes come from the Python package, version 0.8.0.
TEST(SafetensorsWriter, WritesTheBytesOfThePackage) {
  TemporaryDirectory home;
  Directory directory(home.path());
  std::vector<TensorView> tensors = {
      {"x", Dtype::U8, {1}, bytes("a")}, {"y\n\"", Dtype::F32, {}, bytes("wxyz")}, {"\x01\x7f é", Dtype::U8, {0, 2}, {}}};
  write_safetensors(directory, "f", tensors, Metadata{{"format", "pt"}});
  EXPECT_EQ(home.get("f"),
            with_length(std::string(R"({"__metadata__":{"format":"pt"},"y\n\"":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
                                    "\"\\u0001\x7f é\":{\"dtype\":\"U8\",\"shape\":[0,2],\"data_offsets\":[4,4]},"
                                    R"("x":{"dtype":"U8","shape":[1],"data_offsets":[4,5]}})") +
                            std::string(5, ' '),
                        "wxyza"));
  write_safetensors(directory, "f", {}, std::nullopt);
  EXPECT_EQ(home.get("f"), with_length("{}      "));
}

Metadata numbered(size_t count) {
  Metadata out;
  for (size_t i = 0; i < count; ++i) out.emplace_back(std::to_string(i), "");
  return out;
}

TEST(SafetensorsWriter, RejectsWhatTheReaderWouldReject) {
  TemporaryDirectory home;
  Directory directory(home.path());
  auto write = [&](std::vector<TensorView> tensors, Metadata metadata = {}) {
    return [&directory, tensors, metadata] { write_safetensors(directory, "f", tensors, metadata); };
  };
  TensorView good{"x", Dtype::U8, {4}, bytes("abcd")};
  EXPECT_TRUE(refuses(ErrorCode::format, "given twice", write({good, good})));
  EXPECT_TRUE(refuses(ErrorCode::format, "reserves for metadata", write({{"__metadata__", Dtype::U8, {4}, bytes("abcd")}})));
  EXPECT_TRUE(refuses(ErrorCode::format, "has 4 bytes", write({{"x", Dtype::U8, {5}, bytes("abcd")}})));
  EXPECT_TRUE(refuses(ErrorCode::format, "has 4 bytes", write({{"x", Dtype::U8, {-4}, bytes("abcd")}})));
  EXPECT_TRUE(refuses(ErrorCode::format, "has 4 bytes", write({{"x", Dtype::F4, {9}, bytes("abcd")}})));
  EXPECT_TRUE(refuses(ErrorCode::format, "has 0 bytes", write({{"x", Dtype::U8, {int64_t{1} << 32, int64_t{1} << 32}, {}}})));
  EXPECT_TRUE(refuses(ErrorCode::format, "more than 64", write({{"x", Dtype::U8, std::vector<int64_t>(65, 1), bytes("a")}})));
  EXPECT_TRUE(refuses(ErrorCode::format, "not UTF-8", write({{"\xff", Dtype::U8, {4}, bytes("abcd")}})));
  EXPECT_TRUE(refuses(ErrorCode::format, "not UTF-8", write({good}, {{"a", "\xc3"}})));
  EXPECT_TRUE(refuses(ErrorCode::format, "given twice", write({good}, {{"a", "1"}, {"a", "2"}})));
  EXPECT_TRUE(refuses(ErrorCode::format, "entries of metadata", write({good}, numbered(1025))));
  EXPECT_EQ(directory.names().size(), 0u);
}

TEST(SafetensorsWriter, RandomTensorsRoundTrip) {
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    TemporaryDirectory home;
    Directory directory(home.path());
    std::vector<std::string> names, data;
    std::vector<TensorView> tensors;
    size_t count = random() % 20;
    for (size_t i = 0; i < count; ++i) {
      std::string name;
      for (size_t k = random() % 8; k-- > 0;) name += static_cast<char>(random() % 128);
      names.push_back(name + std::to_string(i));
      TensorView tensor{"", static_cast<Dtype>(random() % 22), {}, {}};
      for (size_t d = random() % 4; d-- > 0;) tensor.shape.push_back(static_cast<int64_t>(random() % 3) * 4);
      if (tensor.shape.empty() && dtype_bits(tensor.dtype) < 8) tensor.shape.push_back(4);
      data.push_back(std::string(byte_size(tensor.dtype, tensor.shape).value(), static_cast<char>('a' + i)));
      tensors.push_back(tensor);
    }
    for (size_t i = 0; i < count; ++i) {
      tensors[i].name = names[i];
      tensors[i].data = bytes(data[i]);
    }
    write_safetensors(directory, "f", tensors, std::nullopt);
    Safetensors again(std::make_shared<const MappedFile>(directory.map("f")));
    ASSERT_EQ(again.size(), count);
    for (const TensorView& tensor : tensors) {
      TensorView read = again.tensor(again.find(tensor.name).value());
      EXPECT_EQ(read.dtype, tensor.dtype);
      EXPECT_EQ(read.shape, tensor.shape);
      EXPECT_EQ(text_of(read), text_of(tensor));
      if (dtype_bits(read.dtype) >= 8) {
        EXPECT_EQ(reinterpret_cast<uintptr_t>(read.data.data()) % (dtype_bits(read.dtype) / 8),
                  0u);  // The mapping starts at a page boundary.
      }
    }
  }
}

}  // namespace
}  // namespace tenon::formats
