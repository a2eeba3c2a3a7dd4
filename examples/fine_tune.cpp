// A fine-tune from a new LoRA to a PEFT directory: fine_tune MODEL DATA OUTPUT. The model is a directory of Hugging Face's with
// tokenizer.json, the data is JSON lines or plain text.
#include <tenon/generate.h>
#include <tenon/text_data.h>
#include <torch/torch.h>

#include <iostream>

int main(int count, char** arguments) try {
  if (count != 4) return std::cerr << "fine_tune MODEL DATA OUTPUT\n", 2;
  auto model = tenon::load_causal_model(arguments[1]);
  tenon::Bank bank(model);
  torch::manual_seed(42);
  bank.create("default", tenon::LoraConfig{.r = 16, .lora_alpha = 32, .lora_dropout = 0.05, .target_modules = "all-linear"});
  std::cout << bank.trainable_summary() << "\n";

  auto data = tenon::load_text(arguments[2], tenon::Tokenizer::load(arguments[1]), tenon::text_options(*model));
  tenon::TrainingArguments options{.output_dir = arguments[3], .learning_rate = 2e-3, .logging_steps = 25, .torch_compile = true};
  tenon::Trainer trainer(options, tenon::causal_task(model, bank, "default"), data);
  tenon::TrainOutput output = trainer.train();  // Ctrl-C saves a checkpoint.
  if (output.signal) return 128 + output.signal;
  bank.save("default", arguments[3]);  // PEFT loads it, and so does bank.load.
  std::cout << output.global_step << " steps, mean loss " << output.training_loss << "\n";
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
