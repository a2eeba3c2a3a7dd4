// tenon train: creates an adapter, trains it on a text file, and saves it.
#include <ATen/Context.h>
#include <tenon/generate.h>
#include <tenon/text_data.h>

#include <algorithm>
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "cli/commands.h"
#include "dist/launch.h"
#include "train/learning_rate.h"

namespace tenon::cli {
namespace {

using nlohmann::json;

constexpr const char* kAdapter = "default";  // PEFT's name of the first adapter.

struct TrainCommand {
  std::string model, data, evaluation, output, method = "lora", adapter_config, arguments;
  std::vector<std::string> targets, settings;
  std::vector<int64_t> tokens;
  std::optional<int64_t> r, block_size, oft_block_size;
  std::optional<double> alpha, dropout, rank_dropout, module_dropout;
  bool resume = false;
};

// The fields of a method's configuration that options set; null if the method has no such field. `flag` is a field that is true. The
// module_dropout of OFT is missing, because PEFT never applies it.
struct MethodFields {
  const char *name, *peft_type;
  const char *rank = nullptr, *alpha = nullptr, *dropout = nullptr, *rank_dropout = nullptr, *module_dropout = nullptr;
  const char *oft_block_size = nullptr, *tokens = nullptr, *flag = nullptr;
  bool has_schedule = false;  // The method needs the number of training steps.
};
constexpr MethodFields kMethods[] = {
    {.name = "lora", .peft_type = "LORA", .rank = "r", .alpha = "lora_alpha", .dropout = "lora_dropout"},
    {.name = "rslora", .peft_type = "LORA", .rank = "r", .alpha = "lora_alpha", .dropout = "lora_dropout", .flag = "use_rslora"},
    {.name = "dora", .peft_type = "LORA", .rank = "r", .alpha = "lora_alpha", .dropout = "lora_dropout", .flag = "use_dora"},
    {.name = "adalora", .peft_type = "ADALORA", .rank = "init_r", .alpha = "lora_alpha", .dropout = "lora_dropout", .has_schedule = true},
    {.name = "loha",
     .peft_type = "LOHA",
     .rank = "r",
     .alpha = "alpha",
     .rank_dropout = "rank_dropout",
     .module_dropout = "module_dropout"},
    {.name = "lokr",
     .peft_type = "LOKR",
     .rank = "r",
     .alpha = "alpha",
     .rank_dropout = "rank_dropout",
     .module_dropout = "module_dropout"},
    {.name = "ia3", .peft_type = "IA3"},
    {.name = "ln_tuning", .peft_type = "LN_TUNING"},
    {.name = "oft", .peft_type = "OFT", .oft_block_size = "oft_block_size"},
    {.name = "boft", .peft_type = "BOFT", .dropout = "boft_dropout"},
    {.name = "vera", .peft_type = "VERA", .rank = "r", .dropout = "vera_dropout"},
    {.name = "hra", .peft_type = "HRA", .rank = "r"},
    {.name = "trainable_tokens", .peft_type = "TRAINABLE_TOKENS", .tokens = "token_indices"},
};
constexpr int64_t kTargetRank = 8;  // PEFT's default of AdaLoRA's target_r.

[[noreturn]] void refuse(const std::string& text) { throw UserError(ErrorCode::config, text); }

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw UserError(ErrorCode::file, path + ": cannot be opened. Check the path.");
  return {std::istreambuf_iterator<char>(file), {}};
}

const MethodFields& find_method(const std::string& name) {
  std::string known;
  for (const MethodFields& method : kMethods) {
    if (name == method.name) return method;
    known += (known.empty() ? "" : ", ") + std::string(method.name);
  }
  refuse("--method " + name + " does not exist. Choose one of " + known + ", or give --adapter-config for any other configuration.");
}

// An integer stays an integer in the file, as in PEFT.
json number_json(double value) { return value == std::floor(value) ? json(static_cast<int64_t>(value)) : json(value); }

std::string adapter_json(const TrainCommand& command) {
  if (!command.adapter_config.empty()) return read_file(command.adapter_config);
  const MethodFields& method = find_method(command.method);
  json out = {{"peft_type", method.peft_type}, {"task_type", "CAUSAL_LM"}, {"base_model_name_or_path", command.model}};
  auto set = [&](const char* option, const char* field, const json& value) {
    if (!field) refuse(std::string(option) + " has no meaning for " + method.name + ". Remove it, or give --adapter-config instead.");
    out[field] = value;
  };
  if (command.r) set("--r", method.rank, *command.r);
  if (command.alpha) set("--alpha", method.alpha, number_json(*command.alpha));
  if (command.dropout) set("--dropout", method.dropout, *command.dropout);
  if (command.rank_dropout) set("--rank-dropout", method.rank_dropout, *command.rank_dropout);
  if (command.module_dropout) set("--module-dropout", method.module_dropout, *command.module_dropout);
  if (command.oft_block_size) set("--oft-block-size", method.oft_block_size, *command.oft_block_size);
  if (!command.tokens.empty()) set("--tokens", method.tokens, command.tokens);
  else if (method.tokens)
    refuse(std::string("--method ") + method.name + " trains the embeddings of some tokens. Give their ids: --tokens 5,9.");
  // AdaLoRA cannot prune to more ranks than it starts with.
  if (method.has_schedule && command.r) out["target_r"] = std::min(*command.r, kTargetRank);
  if (method.flag) out[method.flag] = true;
  if (command.targets.size() == 1 && command.targets[0] == "all-linear") out["target_modules"] = "all-linear";
  else if (!command.targets.empty()) out["target_modules"] = command.targets;
  return out.dump();
}

// Adds the number of optimizer steps, if --method needs it. A file must have it, as in PEFT.
std::string with_total_step(const TrainCommand& command, const std::string& adapter, int64_t steps) {
  if (!command.adapter_config.empty() || !find_method(command.method).has_schedule) return adapter;
  json out = json::parse(adapter);
  out["total_step"] = std::max<int64_t>(1, steps);
  return out.dump();
}

// Throws UserError that lists the names of the model's layers if a target is not among them.
void check_targets(const Model& model, const std::vector<std::string>& targets) {
  std::set<std::string> paths, names;
  for (const NamedTensor& parameter : model.named_parameters()) {
    std::string path = parameter.key().substr(0, parameter.key().rfind('.'));
    paths.insert(path);
    names.insert(path.substr(path.rfind('.') + 1));
  }
  std::string known;
  for (const std::string& name : names) known += (known.empty() ? "" : ", ") + name;
  for (const std::string& target : targets) {
    bool is_found = target == "all-linear" || std::any_of(paths.begin(), paths.end(), [&](const std::string& path) {
                      return path == target || path.ends_with("." + target);
                    });
    if (!is_found) refuse("--target " + target + " matches no layer of the model. Its layers are " + known + ".");
  }
}

// Reads --args, then each --set field=value, whose value is JSON or plain text.
TrainingArguments training_arguments(const TrainCommand& command) {
  TrainingArguments arguments;
  if (!command.arguments.empty()) arguments = read_training_arguments(read_file(command.arguments), command.arguments);
  for (const std::string& setting : command.settings) {
    size_t equals = setting.find('=');
    if (equals == std::string::npos) refuse("--set " + setting + " has no \"=\". Write --set field=value.");
    std::string field = setting.substr(0, equals), text = setting.substr(equals + 1);
    json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (value.is_discarded()) value = text;
    arguments = read_training_arguments(json{{field, value}}.dump(), "--set " + setting, arguments);
  }
  arguments.output_dir = command.output;
  if (command.resume) arguments.resume_from_checkpoint = "last";
  return arguments;
}

int run_train(const TrainCommand& command) {
  TrainingArguments arguments = training_arguments(command);
  std::string adapter = adapter_json(command);
  Tokenizer tokenizer = load_tokenizer(command.model);
  auto model = load_causal_model(command.model);
  check_targets(*model, command.targets);

  TextOptions options = text_options(*model);
  if (command.block_size) options.block_size = *command.block_size;
  if (options.block_size > model->sizes().positions)
    refuse("--block-size " + std::to_string(options.block_size) + " is more than the model's " + std::to_string(model->sizes().positions) +
           " positions. Choose a smaller one.");
  auto data = load_text(command.data, tokenizer, options);
  auto evaluation = command.evaluation.empty() ? nullptr : load_text(command.evaluation, tokenizer, options);

  Bank bank(model);
  at::manual_seed(static_cast<uint64_t>(arguments.seed));
  int64_t steps = train::plan_steps(arguments, data->size(), dist::read_launch().size).max_steps;
  bank.create(kAdapter, with_total_step(command, adapter, steps));
  Trainer trainer(arguments, causal_task(model, bank, kAdapter), data, evaluation);
  bool is_main = trainer.is_world_process_zero();
  if (is_main)
    std::fprintf(stderr, "%zu examples, %lld steps; %s\n", data->size(), static_cast<long long>(trainer.state().max_steps),
                 bank.trainable_summary().c_str());
  TrainOutput output = trainer.train();
  if (output.signal) return 128 + output.signal;
  if (!is_main) return 0;
  bank.save(kAdapter, arguments.output_dir);
  std::printf("%lld steps in %.1f s, mean loss %.4g. The adapter is in %s; the loss curve is loss.svg there.\n",
              static_cast<long long>(output.global_step), output.train_runtime, output.training_loss, arguments.output_dir.c_str());
  return 0;
}

}  // namespace

Tokenizer load_tokenizer(const std::string& directory) {
  if (std::filesystem::is_directory(directory) && !std::filesystem::exists(directory + "/tokenizer.json"))
    throw UserError(ErrorCode::file, directory +
                                         ": there is no tokenizer.json. Download it with the model, or write it in Python with "
                                         "AutoTokenizer.from_pretrained(MODEL).save_pretrained(DIRECTORY).");
  return Tokenizer::load(directory);
}

void add_train(CLI::App& app, int& exit_code) {
  auto command = std::make_shared<TrainCommand>();
  CLI::App* train = app.add_subcommand("train", "Trains an adapter on a text file");
  train->footer("");  // The help fits a screen without it.
  train->add_option("--model", command->model, "Model directory with tokenizer.json")->type_name("DIR")->required();
  train->add_option("--data", command->data, "JSON lines ({\"text\": ...}) or plain text")->type_name("FILE")->required();
  train->add_option("--output", command->output, "Adapter, checkpoints and logs")->type_name("DIR")->required();
  train->add_option("--eval", command->evaluation, "Text to evaluate on")->type_name("FILE");
  train->add_option("--method", command->method, "lora, dora, loha, ia3, ... (lora)")->type_name("NAME");
  train->add_option("--r", command->r, "Rank")->type_name("N");
  train->add_option("--alpha", command->alpha, "Scale of the adapter, times r")->type_name("X");
  train->add_option("--dropout", command->dropout, "Probability of dropout")->type_name("P");
  train->add_option("--rank-dropout", command->rank_dropout, "Probability of dropping an output (loha, lokr)")->type_name("P");
  train->add_option("--module-dropout", command->module_dropout, "Probability of skipping a layer (loha, lokr)")->type_name("P");
  train->add_option("--oft-block-size", command->oft_block_size, "Size of the blocks of oft (32)")->type_name("N");
  train->add_option("--tokens", command->tokens, "Token ids for trainable_tokens, e.g. 5,9")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("IDS");
  train->add_option("--target", command->targets, "Layers, e.g. q_proj,v_proj, or all-linear")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAMES");
  train->add_option("--adapter-config", command->adapter_config, "adapter_config.json instead")->type_name("FILE");
  train->add_option("--block-size", command->block_size, "Most tokens of an example (512)")->type_name("N");
  train->add_option("--args", command->arguments, "Training arguments as JSON")->type_name("FILE");
  train->add_option("--set", command->settings, "One of them, e.g. learning_rate=1e-4")->allow_extra_args(false)->type_name("FIELD=VALUE");
  train->add_flag("--resume", command->resume, "Continue from the newest checkpoint");
  train->callback([command, &exit_code] { exit_code = run_train(*command); });
}

}  // namespace tenon::cli
