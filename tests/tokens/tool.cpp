// tokens_tool FILE encode|plain|decode|all|stream: reads one JSON value per line and prints one per line. Encodes texts to ids (plain:
// without special tokens), or decodes ids to text (all: with special tokens; stream: one id at a time, printed as a list of strings).
// tokens_tool FILE time: reads all of its input as one text and prints the throughput of encoding.
#include <tenon/tokenizer.h>

#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/clock.h"

namespace {

using Json = nlohmann::json;

Json convert(const tenon::Tokenizer& tokenizer, const std::string& what, const Json& input) {
  if (what == "encode" || what == "plain") return tokenizer.encode(input.get<std::string>(), what == "encode");
  auto ids = input.get<std::vector<int64_t>>();
  if (what == "decode" || what == "all") return tokenizer.decode(ids, what == "decode");
  Json texts = Json::array();
  tenon::TextStream stream(tokenizer);
  for (int64_t id : ids) texts.push_back(stream.put(id));
  texts.push_back(stream.finish());
  return texts;
}

void time_encoding(const tenon::Tokenizer& tokenizer) {
  std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  for (int i = 0; i < 3; ++i) {
    size_t ids = 0;
    double seconds = tenon::seconds_of([&] { ids = tokenizer.encode(text, false).size(); });
    std::cout << text.size() / seconds / 1e6 << " MB/s, " << ids << " ids\n";
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return std::cerr << "tokens_tool FILE encode|plain|decode|all|stream|time\n", 2;
  try {
    tenon::Tokenizer tokenizer = tenon::Tokenizer::load(argv[1]);
    std::string what = argv[2];
    if (what == "time") return time_encoding(tokenizer), 0;
    for (std::string line; std::getline(std::cin, line);) std::cout << convert(tokenizer, what, Json::parse(line)).dump() << "\n";
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
