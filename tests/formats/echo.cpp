// formats_echo: reads a file and writes it again, for tests that compare with the Python packages.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "formats/json.h"
#include "formats/safetensors.h"
#include "formats/safetensors_writer.h"
#include "formats/shards.h"

using namespace tenon::formats;

namespace {

void echo_safetensors(const Directory& from, const Directory& to, const std::string& name) {
  Safetensors file(std::make_shared<const MappedFile>(from.map(name)));
  std::vector<TensorView> tensors;
  for (size_t i = 0; i < file.size(); ++i) tensors.push_back(file.tensor(i));
  write_safetensors(to, name, tensors, file.metadata());
}

// Writes tensors in the order of names; the Python side of the test splits them in the same order.
void echo_weights(const Directory& from, const Directory& to, uint64_t max_shard_bytes) {
  WeightFiles weights(from);
  std::vector<TensorView> tensors;
  for (size_t i = 0; i < weights.size(); ++i) tensors.push_back(weights.at(i).tensor);
  write_weights(to, tensors, Metadata{{"format", "pt"}}, max_shard_bytes);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 5) {
    std::fprintf(stderr, "formats_echo safetensors FROM TO NAME | weights FROM TO MAX_SHARD_BYTES | json FROM TO NAME\n");
    return 2;
  }
  try {
    std::string what = arguments[1], last = arguments[4];
    Directory from(arguments[2]), to(arguments[3]);
    if (what == "safetensors") echo_safetensors(from, to, last);
    if (what == "weights") echo_weights(from, to, std::strtoull(last.c_str(), nullptr, 10));
    if (what == "json") to.write(last, read_json(from, last, kTokenizerLimits).dump());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
