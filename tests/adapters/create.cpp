// Creates adapters for tests/adapters/test_create.py and test_creation_goldens.py, which compare them with PEFT.
//   adapters_create structs: prints the configurations that the structs make, as one JSON object.
//   adapters_create jobs FILE: reads a JSON list of jobs and prints a line of JSON for each.
#include <ATen/Context.h>
#include <ATen/ops/rand.h>
#include <tenon/adapters.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "adapters/net.h"
#include "adapters/tensors.h"
#include "base/error.h"

using namespace tenon;
using Json = nlohmann::ordered_json;

namespace {

at::ScalarType dtype_of(const std::string& name) {
  return name == "bf16" ? at::kBFloat16 : name == "f16" ? at::kHalf : name == "f64" ? at::kDouble : at::kFloat;
}

std::shared_ptr<Model> model_of(const std::string& base, const std::string& dtype) {
  static std::map<std::pair<std::string, std::string>, std::shared_ptr<Model>> known;
  auto& model = known[{base, dtype}];
  if (!model) model = load_model(base, dtype_of(dtype));
  return model;
}

std::unique_ptr<Bank> make_bank(const Json& job) {
  if (!job.contains("weights")) return std::make_unique<Bank>(model_of(job.at("base"), job.at("dtype")));
  std::shared_ptr<TreeImpl> tree = make_tree(read_tensors(job.at("weights").get<std::string>()));
  tree->to(dtype_of(job.at("dtype")));
  return std::make_unique<Bank>(tree);
}

// A job is {"base" or "weights", "dtype", "seed", "adapters": [{"name", "config", "out"}], "warn"}. The adapters are created one after the
// other. The result has four numbers that are drawn afterwards, and the text of trainable_summary() while the first adapter is trained.
Json run(const Json& job) {
  auto bank = make_bank(job);
  at::manual_seed(job.at("seed").get<uint64_t>());
  LoadOptions options;
  if (job.value("warn", false)) options.unmatched_patterns = Unmatched::warn;
  for (const Json& adapter : job.at("adapters")) bank->create(adapter.at("name"), adapter.at("config").dump(), options);
  at::Tensor next = at::rand({4}, at::kDouble);
  for (const Json& adapter : job.at("adapters")) bank->save(adapter.at("name"), adapter.at("out"));
  Json out = {{"next", std::vector<double>(next.data_ptr<double>(), next.data_ptr<double>() + next.numel())}};
  if (job.at("dtype") == "f64") return out;  // Only f32 adapters can be trained.
  bank->train({job.at("adapters")[0].at("name")});
  out["summary"] = bank->trainable_summary();
  return out;
}

int jobs(const char* path) {
  std::ifstream file(path);
  for (const Json& job : Json::parse(file)) {
    Json line;
    try {
      line = run(job);
    } catch (const UserError& error) {
      line = {{"error", error.what()}};
    }
    std::printf("%s\n", line.dump().c_str());
  }
  return 0;
}

int structs() {
  std::map<std::string, std::string> all = {
      {"LoraConfig", to_json(LoraConfig{})},
      {"AdaLoraConfig", to_json(AdaLoraConfig{.total_step = 10})},
      {"LoHaConfig", to_json(LoHaConfig{})},
      {"LoKrConfig", to_json(LoKrConfig{})},
      {"IA3Config", to_json(IA3Config{})},
      {"OFTConfig", to_json(OFTConfig{})},
      {"BOFTConfig", to_json(BOFTConfig{})},
      {"VeraConfig", to_json(VeraConfig{})},
      {"HRAConfig", to_json(HRAConfig{})},
      {"LNTuningConfig", to_json(LNTuningConfig{})},
      {"TrainableTokensConfig", to_json(TrainableTokensConfig{})},
      // All types of fields. tests/adapters/test_create.py has the same values.
      {"values", to_json(LoraConfig{.r = 16,
                                    .lora_alpha = 32.5,
                                    .lora_dropout = 0.05,
                                    .use_rslora = true,
                                    .init_lora_weights = "gaussian",
                                    .rank_pattern = {{"v_proj", 4}, {"q_proj", 2}},
                                    .alpha_pattern = {{"v_proj", 4}, {"q_proj", 0.5}},
                                    .target_modules = {"v_proj", "q_proj"},
                                    .exclude_modules = ".*layers\\.1.*",
                                    .layers_to_transform = {0, 2},
                                    .layers_pattern = {"layers"},
                                    .modules_to_save = {"lm_head"},
                                    .trainable_token_indices = {{"embed_tokens", {5, 9}}},
                                    .bias = "lora_only",
                                    .task_type = "CAUSAL_LM",
                                    .base_model_name_or_path = "llamä",
                                    .revision = "main"})},
      {"tokens", to_json(LoraConfig{.target_modules = std::vector<std::string>{"q_proj"}, .trainable_token_indices = {7, 3}})},
      {"ranks", to_json(LoKrConfig{.alpha = 8, .init_weights = "lycoris", .target_modules = "all-linear"})},
  };
  std::printf("%s\n", Json(all).dump().c_str());
  return 0;
}

}  // namespace

int main(int count, char** arguments) try {
  std::string command = count > 1 ? arguments[1] : "";
  if (command == "structs" && count == 2) return structs();
  if (command == "jobs" && count == 3) return jobs(arguments[2]);
  return std::fprintf(stderr, "usage: adapters_create structs | jobs FILE\n"), 2;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
