// models_tool loads a model directory and runs it, for tests that compare with Transformers:
//   logits DIR IN OUT eager|native [TYPE]   reads the tensors input, mask and types from IN; writes logits to OUT. If IN has input_2, the
//                                           same compiled model is then called with input_2, mask_2 and types_2; their result is logits_2
//   generate DIR IN OUT                     reads JSON {"calls": [{"prompts": …, options …}, …]}; writes tokens and counts
//   copy DIR OUT SHARD_BYTES                saves the model again
//   sizes DIR COUNT infer|train             compares calls of COUNT random sizes with eager; prints counts and the largest difference
//   run IN DIR...                           prints a line for each directory: a hash of its logits in eager mode, or the error
#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <tenon/generate.h>
#include <tenon/inspect.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

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

at::Tensor tensor_of(const formats::Safetensors& file, const std::string& name) {
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
  auto compiled = compile(model, {.fullgraph = true});
  std::vector<std::pair<std::string, at::Tensor>> results;
  for (const char* suffix : {"", "_2"}) {
    auto given = [&](const char* tensor) { return tensor_of(file, std::string(tensor) + suffix); };
    at::Tensor input = given("input"), mask = given("mask"), types = given("types"), result;
    if (!input.defined()) continue;
    if (!native) result = model->forward(input, mask, types);
    for (int i = 0; native && i < 4; ++i) result = compiled(input, mask, types);
    results.emplace_back(std::string("logits") + suffix, result.to(at::kFloat).contiguous());
  }
  if (native) std::printf("%s\n", counts_of(explain(compiled)).dump().c_str());
  auto [to, to_name] = split(out);
  std::vector<formats::TensorView> views;
  for (const auto& [key, tensor] : results) views.push_back(models::view_of(key, tensor));
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

// Token ids [batch, length] for a language model, images for a vision model, whose image size is fixed.
at::Tensor random_input(const json& config, std::mt19937_64& random) {
  auto between = [&](int64_t low, int64_t high) { return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1)); };
  int64_t batch = between(1, 8);
  if (config.contains("image_size"))
    return at::randn(
        {batch, config.value("num_channels", int64_t{3}), config["image_size"].get<int64_t>(), config["image_size"].get<int64_t>()});
  return at::randint(0, config.at("vocab_size").get<int64_t>(), {batch, between(1, 48)}, at::kLong);
}

void sizes(const std::string& directory, int64_t count, bool trains) {
  auto model = load_model(directory);
  json config = json::parse(model->config());
  at::AutoGradMode mode(trains);
  std::vector<at::Tensor> parameters = model->parameters();
  if (trains)
    for (at::Tensor& parameter : parameters) parameter.requires_grad_();
  auto compiled = compile(model);
  std::mt19937_64 random(3);
  at::manual_seed(3);
  double worst = 0;
  auto compare = [&](const at::Tensor& got, const at::Tensor& expected) {
    double scale = std::max(1e-6, expected.abs().max().item<double>());
    worst = std::max(worst, (got - expected).abs().max().item<double>() / scale);
  };
  for (int64_t i = 0; i < count; ++i) {
    at::Tensor input = random_input(config, random), expected = model->forward(input, at::Tensor(), at::Tensor()),
               got = compiled(input, at::Tensor(), at::Tensor());
    compare(got, expected);
    if (!trains) continue;
    at::Tensor tangent = at::randn_like(expected);
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& result : {expected, got}) {
      for (at::Tensor& parameter : parameters) parameter.mutable_grad().reset();
      result.backward(tangent);
      gradients.push_back(parameters.back().grad().clone());
    }
    compare(gradients[1], gradients[0]);
  }
  Explanation why = explain(compiled);
  json out = counts_of(why);
  out["worst"] = worst;
  std::printf("%s\n", out.dump().c_str());
  if (std::getenv("TENON_TOOL_EXPLAIN")) std::fprintf(stderr, "%s\n", why.text().c_str());
}

// Prints FNV-1a of the bytes of the logits, or the error, of each directory.
void run(const std::string& in, const std::vector<std::string>& directories) {
  auto [folder, name] = split(in);
  formats::Safetensors file(std::make_shared<const formats::MappedFile>(formats::Directory(folder).map(name)));
  at::NoGradGuard no_grad;
  for (const std::string& directory : directories) {
    try {
      at::Tensor result = load_model(directory)->forward(tensor_of(file, "input"), tensor_of(file, "mask")).contiguous();
      auto* bytes = static_cast<const unsigned char*>(result.const_data_ptr());
      uint64_t hash = 0xcbf29ce484222325;
      for (size_t i = 0; i < result.nbytes(); ++i) hash = (hash ^ bytes[i]) * 0x100000001b3;
      std::printf("logits %016llx\n", static_cast<unsigned long long>(hash));
    } catch (const std::exception& error) {
      std::string text = error.what();
      std::replace(text.begin(), text.end(), '\n', ' ');
      std::printf("%s\n", text.c_str());
    }
  }
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
    else if (a.size() == 4 && a[0] == "sizes") sizes(a[1], std::stoll(a[2]), a[3] == "train");
    else if (a.size() > 2 && a[0] == "run") run(a[1], {a.begin() + 2, a.end()});
    else return std::fprintf(stderr, "models_tool logits | generate | copy | sizes | run\n"), 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
