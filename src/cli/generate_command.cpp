// tenon generate: continues a text, shown as it is generated.
#include <tenon/adapters.h>
#include <tenon/generate.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <optional>

#include "cli/commands.h"

namespace tenon::cli {
namespace {

struct GenerateCommand {
  std::string model, adapter, text;
  int64_t max_new_tokens = 128;
  std::optional<uint64_t> seed;
  std::optional<double> temperature;
};

int run_generate(const GenerateCommand& command) {
  Tokenizer tokenizer = load_tokenizer(command.model);
  auto model = load_causal_model(command.model);
  std::optional<Bank> bank;
  if (!command.adapter.empty()) {
    bank.emplace(model);
    bank->load("adapter", command.adapter);
    bank->use("adapter");
  }
  GenerateOptions options{.max_new_tokens = command.max_new_tokens, .seed = command.seed.value_or(0)};
  options.sample = command.temperature ? *command.temperature > 0 : command.seed.has_value();
  if (options.sample) options.temperature = command.temperature.value_or(1);
  Generator generate(model);
  TextStream text(tokenizer);
  generate({tokenizer.encode(command.text)}, options, [&](size_t, int64_t token) {
    std::cout << text.put(token) << std::flush;
    return true;
  });
  std::cout << text.finish() << std::endl;
  return 0;
}

}  // namespace

void add_generate(CLI::App& app, int& exit_code) {
  auto command = std::make_shared<GenerateCommand>();
  CLI::App* generate = app.add_subcommand("generate", "Continues a text");
  generate->add_option("--model", command->model, "Model directory with tokenizer.json")->type_name("DIR")->required();
  generate->add_option("--adapter", command->adapter, "Directory of a PEFT adapter")->type_name("DIR");
  generate->add_option("--max-new-tokens", command->max_new_tokens, "Number of tokens at most (128)")->type_name("N");
  generate->add_option("--temperature", command->temperature, "Draws tokens at random; 0 does not")->type_name("T");
  generate->add_option("--seed", command->seed, "Seed of random tokens")->type_name("S");
  generate->add_option("text", command->text, "Text to continue")->type_name("TEXT")->required();
  generate->callback([command, &exit_code] { exit_code = run_generate(*command); });
}

}  // namespace tenon::cli
