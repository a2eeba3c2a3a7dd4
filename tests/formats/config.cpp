// Valid configurations: values, defaults, and the list of unread fields.
#include "formats/config.h"

#include "formats/json.h"
#include "formats/support.h"

namespace tenon::formats {
namespace {

Config config_of(const std::string& text) { return Config(parse_json(text, "config.json"), "config.json"); }

TEST(Json, ReadsEveryKindOfValue) {
  nlohmann::json value =
      parse_json(R"( {"a":[1,-2,3.5e-1,1E2,true,false,null,"","\"\\\/\b\f\n\r\t\u0041\u00e9\u20ac\ud83d\ude00é"],"":{}} )", "x");
  EXPECT_EQ(value, nlohmann::json::parse(R"({"a":[1,-2,0.35,100.0,true,false,null,"","\"\\/\b\f\n\r\tAé€😀é"],"":{}})"));
}

TEST(Json, NumbersKeepTheirKind) {
  nlohmann::json value = parse_json("[9223372036854775807,-9223372036854775808,18446744073709551615,18446744073709551616,1.0,-0]", "x");
  EXPECT_EQ(value[0].get<int64_t>(), INT64_MAX);
  EXPECT_EQ(value[1].get<int64_t>(), INT64_MIN);
  EXPECT_TRUE(value[2].is_number_unsigned());
  EXPECT_TRUE(value[3].is_number_float());  // Tokenizers write "no limit" like this.
  EXPECT_TRUE(value[4].is_number_float());
  EXPECT_EQ(value[5], 0);
}

TEST(Json, DepthOf64IsRead) { EXPECT_NO_THROW(parse_json(std::string(64, '[') + std::string(64, ']'), "x")); }

TEST(Json, MessagesNameFileAndByte) {
  TemporaryDirectory home;
  home.put("config.json", "{\n \"a\": tru }");
  EXPECT_TRUE(refuses(ErrorCode::format, home.path() + "/config.json: byte 8: expected a value",
                      [&] { read_json(Directory(home.path()), "config.json"); }));
}

TEST(Config, ReadsFields) {
  Config config = config_of(
      R"({"size":7,"rate":0.5,"whole":2,"on":true,"kind":"llama","names":["a","b"],"ids":[1,2],"none":null,"part":{"factor":8}})");
  EXPECT_EQ(config.integer("size", 7, 7), 7);
  EXPECT_EQ(config.number("rate", 0.5, 0.5), 0.5);
  EXPECT_EQ(config.number("whole", 0, 2), 2.0);
  EXPECT_TRUE(config.boolean("on"));
  EXPECT_EQ(config.text("kind"), "llama");
  EXPECT_EQ(config.texts("names"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(config.integers("ids", 0, 2), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(config.object("part").integer("factor", 1, 8), 8);
  EXPECT_EQ(config.any("ids").size(), 2u);
  EXPECT_FALSE(config.has("none"));
  EXPECT_FALSE(config.has("missing"));
  EXPECT_TRUE(config.has("size"));
  EXPECT_TRUE(refuses(ErrorCode::config, "\"ids[1]\" is 2, must be from 0 to 1", [&] { config.integers("ids", 0, 1); }));
}

TEST(Config, DefaultsReplaceMissingAndNull) {
  Config config = config_of(R"({"none":null,"size":3})");
  for (const char* name : {"none", "missing"}) {
    EXPECT_EQ(config.integer_or(name, -5, 0, 10), -5);
    EXPECT_EQ(config.number_or(name, 2.5, 0, 1), 2.5);
    EXPECT_TRUE(config.boolean_or(name, true));
    EXPECT_EQ(config.text_or(name, "x"), "x");
  }
  EXPECT_EQ(config.integer_or("size", 0, 0, 10), 3);
}

TEST(Config, ListsUnreadFields) {
  Config config = config_of(R"({"a":1,"b":{"c":1,"d":{"e":2,"f":3}},"g":null,"h":{"i":1},"j":{"k":1}})");
  config.integer("a", 0, 1);
  config.object("b").object("d").integer("e", 0, 9);
  config.integer_or("g", 0, 0, 1);
  config.has("h");
  config.any("j");
  std::vector<std::string> names;
  for (const Config::Field& field : config.unread()) names.push_back(field.name + "=" + field.value->dump());
  EXPECT_EQ(names, (std::vector<std::string>{"b.c=1", "b.d.f=3", R"(h={"i":1})"}));
}

TEST(Config, CopiesShareTheListOfReadFields) {
  Config config = config_of(R"({"a":1})");
  Config copy = config;
  copy.integer("a", 0, 1);
  EXPECT_TRUE(config.unread().empty());
}

}  // namespace
}  // namespace tenon::formats
