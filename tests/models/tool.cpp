// models_tool loads a model directory and runs it, for tests that compare with Transformers:
//   logits DIR IN OUT eager|native [TYPE]   reads the tensors input, mask and types from IN; writes logits to OUT
//   generate DIR IN OUT                     reads JSON {"calls": [{"prompts": …, options …}, …]}; writes tokens and counts
//   copy DIR OUT SHARD_BYTES                saves the model again
#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <tenon/generate.h>
#include <tenon/inspect.h>

#include <cstdio>
#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>

#include "formats/directory.h"
#include "formats/safetensors.h"
#include "formats/safetensors_writer.h"
#include "models/weights.h"

using namespace tenon;
using nlohmann::json;

namespace {

std::pair<std::string, std::string> split(const std::string& path) {
  size_t slash = path.rfind('/');
  return {path.substr(0, slash), path.substr(slash + 1)};
}

at::Tensor tensor_of(const formats::Safetensors& file, const char* name) {
  auto found = file.find(name);
  if (!found) return {};
  auto view = file.tensor(*found);
  return at::from_blob(const_cast<std::byte*>(view.data.data()), view.shape, *models::scalar_type(view.dtype)).clone();
}

json counts_of(const Explanation& e) {
  return {{"calls", e.calls},          {"answered", e.answered},    {"recorded", e.recorded},           {"plain", e.plain},
          {"graphs", e.graphs.size()}, {"breaks", e.breaks.size()}, {"recompiles", e.recompiles.size()}};
}

void logits(const std::string& directory, const std::string& in, const std::string& out, bool native, std::optional<at::ScalarType> type) {
  auto [folder, name] = split(in);
  formats::Safetensors file(std::make_shared<const formats::MappedFile>(formats::Directory(folder).map(name)));
  auto model = load_model(directory, type);
  at::NoGradGuard no_grad;
  at::Tensor input = tensor_of(file, "input"), mask = tensor_of(file, "mask"), types = tensor_of(file, "types"), result;
  if (native) {
    auto compiled = compile(model, {.fullgraph = true});
    for (int i = 0; i < 4; ++i) result = compiled(input, mask, types);
    std::printf("%s\n", counts_of(explain(compiled)).dump().c_str());
  } else {
    result = model->forward(input, mask, types);
  }
  result = result.to(at::kFloat).contiguous();
  auto [to, to_name] = split(out);
  std::vector<formats::TensorView> views = {
      {"logits", formats::Dtype::F32, result.sizes().vec(), {static_cast<const std::byte*>(result.const_data_ptr()), result.nbytes()}}};
  formats::write_safetensors(formats::Directory(to), to_name, views, {});
}

void generate(const std::string& directory, const std::string& in, const std::string& out) {
  json calls = json::parse(std::ifstream(in)).at("calls"), answers = json::array();
  Generator generate(load_causal_model(directory), {.fullgraph = true, .mode = Mode::reduce_overhead});
  for (const json& call : calls) {
    GenerateOptions options;
    options.max_new_tokens = call.value("max_new_tokens", int64_t{16});
    options.sample = call.value("sample", false);
    options.temperature = call.value("temperature", 1.0);
    options.top_k = call.value("top_k", int64_t{0});
    options.top_p = call.value("top_p", 1.0);
    options.repetition_penalty = call.value("repetition_penalty", 1.0);
    options.seed = call.value("seed", uint64_t{0});
    if (call.contains("stop")) options.stop = call["stop"].get<std::vector<int64_t>>();
    auto prompts = call.at("prompts").get<std::vector<std::vector<int64_t>>>();
    std::vector<std::vector<int64_t>> heard(prompts.size());
    auto rows = generate(prompts, options, [&](size_t row, int64_t token) {
      heard[row].push_back(token);
      return true;
    });
    answers.push_back({{"rows", rows},
                       {"heard", heard},
                       {"prefill", counts_of(explain(*generate.prefill()))},
                       {"decode", counts_of(explain(*generate.decode()))}});
  }
  if (std::getenv("TENON_TOOL_EXPLAIN"))
    std::fprintf(stderr, "%s\n%s\n", explain(*generate.prefill()).text().c_str(), explain(*generate.decode()).text().c_str());
  std::ofstream(out) << answers.dump();
}

std::optional<at::ScalarType> type_of(const std::string& name) {
  if (name == "bf16") return at::kBFloat16;
  if (name == "f16") return at::kHalf;
  if (name == "f32") return at::kFloat;
  return std::nullopt;
}

}  // namespace

int main(int count, char** arguments) {
  std::vector<std::string> a(arguments + 1, arguments + count);
  try {
    if (a.size() >= 5 && a[0] == "logits") logits(a[1], a[2], a[3], a[4] == "native", type_of(a.size() > 5 ? a[5] : ""));
    else if (a.size() == 4 && a[0] == "generate") generate(a[1], a[2], a[3]);
    else if (a.size() == 4 && a[0] == "copy") save_model(*load_model(a[1]), a[2], std::stoll(a[3]));
    else return std::fprintf(stderr, "models_tool logits | generate | copy\n"), 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
