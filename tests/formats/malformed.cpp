// Classes of malformed safetensors, index and config files. Each is rejected with its error code and a message that
// names the fault, and rejecting it takes less memory than twice the header plus 1 MiB.
#include <functional>

#include "formats/config.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "formats/shards.h"
#include "formats/support.h"

namespace tenon::formats {
namespace {

enum class Kind { safetensors, index, config };

struct Case {
  const char* name;
  Kind kind;
  std::function<std::string()> bytes;
  ErrorCode code;
  const char* message;
};

std::string repeated(std::string_view unit, size_t times) {
  std::string out;
  for (size_t i = 0; i < times; ++i) out += unit;
  return out;
}

// A file with one tensor "x" that has these fields, and four bytes of data.
Case tensor(const char* name, std::string fields, const char* message) {
  return {name, Kind::safetensors, [fields] { return with_length("{\"x\":{" + fields + "}}", "abcd"); }, ErrorCode::format, message};
}

Case header(const char* name, std::string text, std::string data, const char* message) {
  return {name, Kind::safetensors, [text, data] { return with_length(text, data); }, ErrorCode::format, message};
}

Case file(const char* name, std::string bytes, const char* message) {
  return {name, Kind::safetensors, [bytes] { return bytes; }, ErrorCode::format, message};
}

Case index(const char* name, std::string text, const char* message, ErrorCode code = ErrorCode::format) {
  return {name, Kind::index, [text] { return text; }, code, message};
}

Case config(const char* name, std::string text, const char* message, ErrorCode code = ErrorCode::format) {
  return {name, Kind::config, [text] { return text; }, code, message};
}

// A configuration that read_config() rejects because of the type or value of a field.
Case field(const char* name, std::string text, const char* message) { return config(name, text, message, ErrorCode::config); }

const std::string kX = R"("x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
const std::string kMap = R"({"x":"a.safetensors","y":"b.safetensors"})";
const std::string kMax64 = "18446744073709551615";

std::vector<Case> safetensors_files() {
  return {
      file("empty_file", "", "too few"),
      file("seven_bytes", std::string(7, '\0'), "too few"),
      file("length_only", with_length(""), "does not start with '{'"),
      file("length_of_zero_with_data", with_length("", "abcd"), "does not start with '{'"),
      file("length_beyond_file", with_length("{}").replace(0, 1, "\x7f"), "downloaded completely"),
      file("length_one_too_long", with_length("{}").replace(0, 1, "\x03"), "ends 1 bytes before"),
      file("length_above_limit", std::string("\x01\xe1\xf5\x05\0\0\0\0", 8) + "{}", "at most 100000000"),
      file("length_of_64_ones", std::string(8, '\xff') + "{}", "at most 100000000"),
      file("length_with_sign_bit", std::string("\0\0\0\0\0\0\0\x80", 8) + "{}", "at most 100000000"),
      file("zip_archive", "PK\x03\x04 with the rest of an archive", "Is this a safetensors file?"),
      file("length_cuts_header", with_length("{" + kX + "}", "abcd").replace(0, 1, "\x20"), "the text ends"),
      header("leading_space", " {" + kX + "}", "abcd", "does not start with '{'"),
      header("byte_order_mark", "\xef\xbb\xbf{" + kX + "}", "abcd", "does not start with '{'"),
      header("list_as_header", "[]", "", "does not start with '{'"),
      header("bad_utf8_in_name", "{\"\xff\":{}}", "", "not UTF-8"),
      header("overlong_utf8", "{\"\xc0\xaf\":{}}", "", "not UTF-8"),
      header("utf8_surrogate", "{\"\xed\xa0\x80\":{}}", "", "not UTF-8"),
      header("utf8_beyond_unicode", "{\"\xf4\x90\x80\x80\":{}}", "", "not UTF-8"),
      header("utf8_cut_short", "{\"\xe2\x82", "", "not UTF-8"),
      header("only_a_brace", "{", "", "the text ends"),
      header("no_closing_brace", "{" + kX, "abcd", "expected ',' or '}'"),
      header("text_after_the_end", "{" + kX + "}x", "abcd", "more text"),
      header("two_objects", "{" + kX + "}{}", "abcd", "more text"),
      header("zero_bytes_as_padding", "{" + kX + "}" + std::string(4, '\0'), "abcd", "more text"),
      header("comma_at_the_end", "{" + kX + ",}", "abcd", "a name in quotes"),
      header("no_comma", "{" + kX + " " + kX + "}", "abcd", "expected ',' or '}'"),
      header("no_colon", R"({"x" {}})", "", "expected ':'"),
      header("name_without_quotes", "{x:{}}", "", "a name in quotes"),
      header("comment", "{/**/" + kX + "}", "abcd", "a name in quotes"),
      header("string_without_end", "{\"x", "", "is not terminated"),
      header("escape_at_the_end", "{\"x\\", "", "this escape does not exist"),
      header("unknown_escape", R"({"\x41":{}})", "", "this escape does not exist"),
      header("escape_of_three_digits", R"({"\u123":{}})", "", "four hexadecimal digits"),
      header("escape_cut_short", R"({"\u12)", "", "four hexadecimal digits"),
      header("lone_high_surrogate", R"({"\ud800":{}})", "", "surrogate"),
      header("lone_low_surrogate", R"({"\udc00":{}})", "", "surrogate"),
      header("two_high_surrogates", R"({"\ud800\ud800":{}})", "", "surrogate"),
      header("control_character_in_name", "{\"a\nb\":{}}", "", "control character"),
      header("repeated_tensor", "{" + entry("\"x\"", 0, 2) + "," + entry("\"x\"", 2, 2) + "}", "abcd", "appears twice"),
      header("repeated_tensor_of_no_bytes", "{" + entry("\"x\"", 0, 0) + "," + entry("\"x\"", 0, 0) + "}", "", "appears twice"),
      header("repeated_tensor_in_escapes", "{" + entry("\"x\"", 0, 2) + "," + entry(R"("\u0078")", 2, 2) + "}", "abcd", "appears twice"),
      header("repeated_metadata", R"({"__metadata__":{},"__metadata__":{}})", "", "__metadata__ appears twice"),
      header("repeated_metadata_in_escapes", R"({"__metadata__":{},"\u005f_metadata__":{}})", "", "__metadata__ appears twice"),
      header("metadata_is_a_list", R"({"__metadata__":["a"]})", "", "an object of strings"),
      header("metadata_is_a_tensor", R"({"__metadata__":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", "abcd", "expected a string"),
      header("metadata_of_numbers", R"({"__metadata__":{"a":1}})", "", "expected a string"),
      header("metadata_of_null", R"({"__metadata__":{"a":null}})", "", "expected a string"),
      header("metadata_name_twice", R"({"__metadata__":{"a":"1","a":"2"}})", "", "appears twice in __metadata__"),
      header("tensor_is_null", R"({"x":null})", "", "describes a tensor"),
      header("tensor_is_a_list", R"({"x":["U8",[4],[0,4]]})", "abcd", "describes a tensor"),
      header("overlap", "{" + entry("\"a\"", 0, 3) + "," + entry("\"b\"", 2, 2) + "}", "abcd", "overlaps"),
      header("same_bytes_twice", "{" + entry("\"a\"", 0, 4) + "," + entry("\"b\"", 0, 4) + "}", "abcd", "overlaps"),
      header("one_inside_another", "{" + entry("\"a\"", 0, 4) + "," + entry("\"b\"", 1, 2) + "}", "abcd", "overlaps"),
      header("empty_tensor_inside_another", "{" + entry("\"a\"", 0, 4) + "," + entry("\"b\"", 2, 0) + "}", "abcd", "overlaps"),
      header("gap_at_the_start", "{" + entry("\"a\"", 1, 3) + "}", "abcd", "the bytes before"),
      header("gap_between", "{" + entry("\"a\"", 0, 1) + "," + entry("\"b\"", 2, 2) + "}", "abcd", "the bytes before"),
      header("bytes_after_the_last", "{" + entry("\"a\"", 0, 3) + "}", "abcd", "1 bytes at the end"),
      header("data_without_tensors", "{}", "abcd", "4 bytes at the end"),
      header("data_cut_short", "{" + entry("\"a\"", 0, 5) + "}", "abcd", "downloaded completely"),
      header("offsets_beyond_64_bits_wrap", R"({"x":{"dtype":"U8","shape":[4],"data_offsets":[18446744073709551614,2]}})", "abcd",
             "offsets are"),
  };
}

std::vector<Case> tensors() {
  return {
      tensor("no_fields", "", "has no dtype"),
      tensor("no_dtype", R"("shape":[4],"data_offsets":[0,4])", "has no dtype"),
      tensor("no_shape", R"("dtype":"U8","data_offsets":[0,4])", "has no shape"),
      tensor("no_offsets", R"("dtype":"U8","shape":[4])", "has no data_offsets"),
      tensor("unknown_field", R"("dtype":"U8","shape":[4],"data_offsets":[0,4],"strides":[1])", "unknown field"),
      tensor("dtype_twice", R"("dtype":"U8","dtype":"U8","shape":[4],"data_offsets":[0,4])", "has dtype twice"),
      tensor("shape_twice", R"("dtype":"U8","shape":[4],"shape":[4],"data_offsets":[0,4])", "has shape twice"),
      tensor("offsets_twice", R"("dtype":"U8","shape":[4],"data_offsets":[0,4],"data_offsets":[0,4])", "has data_offsets twice"),
      tensor("unknown_dtype", R"("dtype":"F128","shape":[4],"data_offsets":[0,4])", "unknown dtype"),
      tensor("dtype_in_small_letters", R"("dtype":"u8","shape":[4],"data_offsets":[0,4])", "unknown dtype"),
      tensor("dtype_is_a_number", R"("dtype":8,"shape":[4],"data_offsets":[0,4])", "the name of a dtype"),
      tensor("dtype_is_empty", R"("dtype":"","shape":[4],"data_offsets":[0,4])", "unknown dtype"),
      tensor("shape_is_a_number", R"("dtype":"U8","shape":4,"data_offsets":[0,4])", "a list of sizes"),
      tensor("shape_is_null", R"("dtype":"U8","shape":null,"data_offsets":[0,4])", "a list of sizes"),
      tensor("negative_size", R"("dtype":"U8","shape":[-4],"data_offsets":[0,4])", "a non-negative integer"),
      tensor("minus_zero", R"("dtype":"U8","shape":[-0],"data_offsets":[0,0])", "a non-negative integer"),
      tensor("size_with_fraction", R"("dtype":"U8","shape":[4.0],"data_offsets":[0,4])", "a non-negative integer"),
      tensor("size_with_exponent", R"("dtype":"U8","shape":[4e0],"data_offsets":[0,4])", "a non-negative integer"),
      tensor("size_as_text", R"("dtype":"U8","shape":["4"],"data_offsets":[0,4])", "a non-negative integer"),
      tensor("size_with_zeros_before", R"("dtype":"U8","shape":[04],"data_offsets":[0,4])", "may not start with 0"),
      tensor("size_with_plus", R"("dtype":"U8","shape":[+4],"data_offsets":[0,4])", "a non-negative integer"),
      tensor("size_in_hexadecimal", R"("dtype":"U8","shape":[0x4],"data_offsets":[0,4])", "expected ',' or ']'"),
      tensor("nested_shape", R"("dtype":"U8","shape":[[4]],"data_offsets":[0,4])", "a non-negative integer"),
      tensor("comma_after_the_last_size", R"("dtype":"U8","shape":[4,],"data_offsets":[0,4])", "a non-negative integer"),
      tensor("size_above_64_bits", R"("dtype":"U8","shape":[18446744073709551616],"data_offsets":[0,4])", "too large"),
      tensor("size_above_63_bits", R"("dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,4])", "too large"),
      tensor("size_of_a_million_digits", "\"dtype\":\"U8\",\"shape\":[" + std::string(1'000'000, '9') + "],\"data_offsets\":[0,4]",
             "too large"),
      tensor("product_overflows_to_four", R"("dtype":"U8","shape":[4294967297,4294967297,4294967292],"data_offsets":[0,4])", "64 bits"),
      tensor("product_overflows_to_zero", R"("dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0])", "64 bits"),
      tensor("product_overflows_before_zero", R"("dtype":"U8","shape":[9223372036854775807,4,0],"data_offsets":[0,0])", "64 bits"),
      tensor("bits_overflow", R"("dtype":"F64","shape":[4611686018427387904],"data_offsets":[0,0])", "64 bits"),
      tensor("half_a_byte", R"("dtype":"F4","shape":[7],"data_offsets":[0,4])", "whole bytes"),
      tensor("six_bits", R"("dtype":"F6_E2M3","shape":[5],"data_offsets":[0,4])", "whole bytes"),
      tensor("rank_65", "\"dtype\":\"U8\",\"shape\":[4" + repeated(",1", 64) + "],\"data_offsets\":[0,4]", "more than 64 dimensions"),
      tensor("rank_of_a_million", "\"dtype\":\"U8\",\"shape\":[4" + repeated(",1", 1'000'000) + "],\"data_offsets\":[0,4]",
             "more than 64 dimensions"),
      tensor("too_few_bytes", R"("dtype":"F32","shape":[2],"data_offsets":[0,4])", "takes 8 bytes"),
      tensor("too_many_bytes", R"("dtype":"U8","shape":[3],"data_offsets":[0,4])", "takes 3 bytes"),
      tensor("end_before_begin", R"("dtype":"U8","shape":[4],"data_offsets":[4,0])", "offsets are 4 and 0"),
      tensor("negative_offset", R"("dtype":"U8","shape":[4],"data_offsets":[-4,0])", "a non-negative integer"),
      tensor("offset_with_fraction", R"("dtype":"U8","shape":[4],"data_offsets":[0,4.0])", "a non-negative integer"),
      tensor("offset_above_64_bits", R"("dtype":"U8","shape":[4],"data_offsets":[0,18446744073709551620])", "too large"),
      tensor("no_offset", R"("dtype":"U8","shape":[0],"data_offsets":[])", "a non-negative integer"),
      tensor("one_offset", R"("dtype":"U8","shape":[4],"data_offsets":[4])", "two offsets"),
      tensor("three_offsets", R"("dtype":"U8","shape":[4],"data_offsets":[0,4,8])", "two offsets"),
      tensor("offsets_as_object", R"("dtype":"U8","shape":[4],"data_offsets":{"0":4})", "two offsets"),
  };
}

// The directory also contains a.safetensors with the tensor x and b.safetensors with y.
std::vector<Case> indexes() {
  return {
      index("empty_index", "", "an object with a weight_map"),
      index("index_is_a_list", "[]", "an object with a weight_map"),
      index("index_without_map", R"({"metadata":{"total_size":8}})", "has no weight_map"),
      index("index_of_nothing", R"({"weight_map":{}})", "is empty"),
      index("index_map_is_a_list", R"({"weight_map":["a.safetensors"]})", "from tensors to files"),
      index("index_map_is_null", R"({"weight_map":null})", "from tensors to files"),
      index("index_file_is_a_number", R"({"weight_map":{"x":1}})", "the name of a file"),
      index("index_file_is_a_list", R"({"weight_map":{"x":["a.safetensors"]}})", "the name of a file"),
      index("index_names_a_pickle", R"({"weight_map":{"x":"pytorch_model.bin"}})", "must be safetensors files"),
      index("index_names_an_ending", R"({"weight_map":{"x":".safetensors"}})", "must be safetensors files"),
      index("index_names_another_case", R"({"weight_map":{"x":"a.SAFETENSORS"}})", "must be safetensors files"),
      index("index_names_nothing", R"({"weight_map":{"x":""}})", "must be safetensors files"),
      index("index_tensor_twice", R"({"weight_map":{"x":"a.safetensors","x":"a.safetensors"}})", "appears twice"),
      index("index_tensor_twice_in_escapes", R"({"weight_map":{"x":"a.safetensors","\u0078":"b.safetensors"}})", "appears twice"),
      index("index_map_twice", R"({"weight_map":)" + kMap + R"(,"weight_map":)" + kMap + "}", "appears twice"),
      index("index_metadata_twice", R"({"metadata":{},"metadata":{},"weight_map":)" + kMap + "}", "appears twice"),
      index("index_unknown_field", R"({"weight_maps":{},"weight_map":)" + kMap + "}", "unknown field"),
      index("index_metadata_is_a_list", R"({"metadata":[],"weight_map":)" + kMap + "}", "expected an object"),
      index("index_size_negative", R"({"metadata":{"total_size":-8},"weight_map":)" + kMap + "}", "total_size must be"),
      index("index_size_with_fraction", R"({"metadata":{"total_size":8.5},"weight_map":)" + kMap + "}", "total_size must be"),
      index("index_size_is_text", R"({"metadata":{"total_size":"8"},"weight_map":)" + kMap + "}", "a count of bytes"),
      index("index_size_is_huge", R"({"metadata":{"total_size":1e400},"weight_map":)" + kMap + "}", "total_size must be"),
      index("index_size_twice", R"({"metadata":{"total_size":8,"total_size":8},"weight_map":)" + kMap + "}", "total_size appears twice"),
      index("index_nested_deeply", R"({"metadata":{"a":)" + std::string(100'000, '[') + "}}", "nested too deeply"),
      index("index_cut_short", R"({"weight_map":{"x":"a.safe)", "is not terminated"),
      index("index_bad_utf8", "{\"weight_map\":{\"\xfe\":\"a.safetensors\"}}", "not UTF-8"),
      index("index_text_after", R"({"weight_map":)" + kMap + "} {}", "more text"),
      index("index_shard_missing", R"({"weight_map":{"x":"a.safetensors","y":"c.safetensors"}})", "which is not there", ErrorCode::file),
      index("index_tensor_in_another_shard", R"({"weight_map":{"x":"b.safetensors","y":"a.safetensors"}})", "which does not contain it"),
      index("index_tensor_nowhere", R"({"weight_map":{"x":"a.safetensors","y":"b.safetensors","z":"b.safetensors"}})",
            "which does not contain it"),
      index("index_leaves_out_a_tensor", R"({"weight_map":{"x":"a.safetensors","w":"d.safetensors"}})", "does not list it there"),
      index("index_tensor_in_two_shards", R"({"weight_map":{"x":"a.safetensors","y":"b.safetensors","v":"e.safetensors"}})",
            "does not list it there"),
  };
}

std::vector<Case> configs() {
  return {
      config("config_empty", "", "a value"),
      config("config_of_space", " \n", "a value"),
      config("config_nan", R"({"rate":NaN})", "a value"),
      config("config_infinity", R"({"rate":Infinity})", "a value"),
      config("config_minus_infinity", R"({"rate":-Infinity})", "expected a digit"),
      config("config_number_too_large", R"({"rate":1e400})", "outside the range of a double"),
      config("config_number_of_a_million_digits", "{\"rate\":" + std::string(1'000'000, '9') + "}", "outside the range of a double"),
      config("config_exponent_of_a_million_digits", "{\"rate\":1e" + std::string(1'000'000, '9') + "}", "outside the range of a double"),
      config("config_point_without_digits", R"({"rate":1.})", "expected a digit"),
      config("config_point_first", R"({"rate":.5})", "a value"),
      config("config_exponent_without_digits", R"({"rate":1e})", "expected a digit"),
      config("config_field_twice", R"({"size":1,"size":2})", "appears twice"),
      config("config_nested_field_twice", R"({"part":{"a":1,"\u0061":2}})", "appears twice"),
      config("config_text_after", R"({"size":1}x)", "more text"),
      config("config_comma_at_the_end", R"({"size":1,})", "a name in quotes"),
      config("config_comment", "{\"size\":1} // one", "more text"),
      config("config_single_quotes", "{'size':1}", "a name in quotes"),
      config("config_python_word", R"({"on":True})", "a value"),
      config("config_word_cut_short", R"({"on":tru)", "a value"),
      config("config_byte_order_mark", "\xef\xbb\xbf{}", "a value"),
      config("config_utf16", std::string("\xff\xfe{\0}\0", 6), "not UTF-8"),
      config("config_bad_utf8_outside_strings", "{\"size\":1\xa0}", "not UTF-8"),
      config("config_control_character", "{\"kind\":\"a\tb\"}", "control character"),
      config("config_depth_65", std::string(65, '[') + std::string(65, ']'), "nested too deeply"),
      config("config_depth_of_a_million_lists", std::string(1'000'000, '['), "nested too deeply"),
      config("config_depth_of_many_objects", repeated(R"({"a":)", 200'000), "nested too deeply"),
      config("config_too_many_values", "[" + repeated("[],", 1'000'000) + "0]", "at most 131072"),
      config("config_broken_after_many_values", "[" + repeated("[],", 1'000'000), "a value"),
      {"config_above_16_mib", Kind::config, [] { return "\"" + std::string(16u << 20, 'a') + "\""; }, ErrorCode::format,
       "at most 16777216"},
      field("config_is_a_list", "[1]", "expected an object"),
      field("field_missing", "{}", "\"size\" is missing"),
      field("field_null", R"({"size":null})", "\"size\" is null"),
      field("integer_is_text", R"({"size":"1"})", "must be an integer, not \"1\""),
      field("integer_has_fraction", R"({"size":1.0})", "must be an integer, not 1.0"),
      field("integer_is_boolean", R"({"size":true})", "must be an integer, not true"),
      field("integer_is_a_list", R"({"size":[1]})", "must be an integer, not a list"),
      field("integer_too_small", R"({"size":0})", "from 1 to 100"),
      field("integer_too_large", R"({"size":101})", "from 1 to 100"),
      field("integer_above_63_bits", "{\"size\":" + kMax64 + "}", "must be an integer"),
      field("integer_above_64_bits", R"({"size":18446744073709551616})", "must be an integer"),
      field("number_is_text", R"({"size":1,"rate":"0.5"})", "\"rate\" must be a number"),
      field("number_too_large", R"({"size":1,"rate":1.5})", "from 0.0 to 1.0"),
      field("boolean_is_a_number", R"({"size":1,"on":1})", "\"on\" must be true or false"),
      field("boolean_is_text", R"({"size":1,"on":"true"})", "\"on\" must be true or false"),
      field("text_is_a_number", R"({"size":1,"kind":1})", "\"kind\" must be a string"),
      field("texts_is_a_text", R"({"size":1,"names":"a"})", "must be a list of strings"),
      field("texts_hold_a_number", R"({"size":1,"names":["a",1]})", "but holds 1"),
      field("object_is_a_list", R"({"size":1,"part":[]})", "\"part\" must be an object"),
      field("field_of_object_missing", R"({"size":1,"part":{}})", "\"part.factor\" is missing"),
  };
}

std::vector<Case> all_cases() {
  std::vector<Case> out;
  for (auto* table : {safetensors_files, tensors, indexes, configs})
    for (const Case& c : table()) out.push_back(c);
  return out;
}

void read_config(const std::string& text) {
  Config config(parse_json(text, "config.json"), "config.json");
  config.integer("size", 1, 100);
  config.number_or("rate", 0, 0, 1);
  config.boolean_or("on", false);
  config.text_or("kind", "");
  if (config.has("names")) config.texts("names");
  if (config.has("part")) config.object("part").number("factor", 0, 1);
}

class Malformed : public testing::TestWithParam<Case> {};

TEST_P(Malformed, IsRejected) {
  const Case& c = GetParam();
  TemporaryDirectory home;
  std::string bytes = c.bytes();
  if (c.kind == Kind::index) {
    home.put("a.safetensors", with_length("{" + entry("\"x\"", 0, 4) + "}", "abcd"));
    home.put("b.safetensors", with_length("{" + entry("\"y\"", 0, 4) + "}", "abcd"));
    home.put("d.safetensors", with_length("{" + entry("\"w\"", 0, 2) + "," + entry("\"u\"", 2, 2) + "}", "abcd"));
    home.put("e.safetensors", with_length("{" + entry("\"v\"", 0, 2) + "," + entry("\"x\"", 2, 2) + "}", "abcd"));
    home.put("model.safetensors.index.json", bytes);
  } else {
    home.put("model.safetensors", bytes);
  }
  Directory directory(home.path());
  auto read = [&] {
    if (c.kind == Kind::config) read_config(bytes);
    else WeightFiles{directory};
  };
  reset_peak();
  EXPECT_TRUE(refuses(c.code, c.message, read));
  EXPECT_LE(peak_bytes(), 2 * bytes.size() + (1u << 20));
}

INSTANTIATE_TEST_SUITE_P(Classes, Malformed, testing::ValuesIn(all_cases()), [](const auto& info) { return info.param.name; });

TEST(MalformedTable, HasAtLeast91Classes) { EXPECT_GE(all_cases().size(), 91u); }

}  // namespace
}  // namespace tenon::formats
