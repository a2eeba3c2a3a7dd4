// The usual training tasks: an adapter of a causal model, and a torch::nn module.
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <tenon/trainer.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/normalization.h>

#include <set>

#include "adapters/files.h"
#include "base/error.h"
#include "train/labels.h"
#include "train/tensor_file.h"

namespace tenon {
namespace {

using train::kIgnoredLabel;

[[noreturn]] void refuse(const std::string& text) { throw UserError(ErrorCode::config, text); }

void check_batch(const std::vector<at::Tensor>& batch) {
  bool is_text = batch.size() >= 2 && batch[0].dim() == 2 && batch[1].sizes() == batch[0].sizes();
  if (!is_text) refuse("a batch of a causal task must have token ids and labels [examples, tokens]. Use load_text, or a Dataset like it.");
}

// Returns the sum of the losses of all predicted tokens, as Transformers computes it. Padding is on the right and attention is causal, so
// no token attends to padding, and the attention mask is not needed.
at::Tensor causal_loss(CausalModel& model, const std::vector<at::Tensor>& batch) {
  check_batch(batch);
  at::Tensor logits = model.forward(batch[0]).to(at::kFloat);
  at::Tensor next = at::constant_pad_nd(batch[1], {0, 1}, kIgnoredLabel).narrow(1, 1, batch[1].size(1)).reshape({-1});
  return at::cross_entropy_loss(logits.reshape({-1, logits.size(-1)}), next, /*weight=*/{}, at::Reduction::Sum, kIgnoredLabel);
}

int64_t count_predicted(const std::vector<at::Tensor>& batch) {
  check_batch(batch);
  const at::Tensor& labels = batch[1];
  return labels.narrow(1, 1, labels.size(1) - 1).ne(kIgnoredLabel).sum().item<int64_t>();
}

// AdaLoRA is the only method with a penalty; penalty() throws for others.
bool has_penalty(const Bank& bank, const std::string& adapter) {
  try {
    bank.penalty(adapter);
    return true;
  } catch (const UserError&) {
    return false;
  }
}

}  // namespace

TrainingTask causal_task(std::shared_ptr<CausalModel> model, Bank& bank, const std::string& adapter) {
  detail::check_not_null(model == nullptr, "the model");
  bank.use(adapter);
  bank.train({adapter});
  TrainingTask task;
  task.loss = [model](const std::vector<at::Tensor>& batch) { return causal_loss(*model, batch); };
  task.count_items = count_predicted;
  if (has_penalty(bank, adapter)) task.penalty = [&bank, adapter] { return bank.penalty(adapter); };
  task.parameters = bank.parameters(adapter);
  for (const NamedTensor& parameter : task.parameters)
    if (parameter.key().find("ln_tuning_layers") != std::string::npos) task.without_decay.push_back(parameter.key());
  task.set_training = [model](bool training) { model->train(training); };
  task.save = [&bank, adapter](const std::string& directory) { bank.save(adapter, directory); };
  task.load = [parameters = task.parameters](const std::string& directory) {
    const char* file = "adapter_model.safetensors";
    train::TensorsByName tensors = train::read_tensors(directory, file);
    for (const NamedTensor& parameter : parameters)
      train::copy_tensor(tensors, adapters::kPrefix + parameter.key(), directory + "/" + file, parameter.value());
  };
  // The loss depends on the arguments, the weights and the bank alone, as compile() assumes for models.
  task.compile_options.trust = Trust::pure;
  task.compile_options.watch = {Watched(model), Watched(model->bank()), Watched::with_gradients([model] { return model->trained(); })};
  return task;
}

TrainingTask module_task(std::shared_ptr<torch::nn::Module> module, std::function<at::Tensor(const std::vector<at::Tensor>& batch)> loss) {
  detail::check_not_null(module == nullptr, "the module");
  TrainingTask task;
  task.loss = std::move(loss);
  std::set<const void*> known;  // A parameter that two modules share is trained once.
  for (const auto& item : module->named_parameters())
    if (known.insert(item.value().unsafeGetTensorImpl()).second) task.parameters.emplace_back(item.key(), item.value());
  for (const auto& item : module->named_buffers())
    if (item.value().defined() && known.insert(item.value().unsafeGetTensorImpl()).second)
      task.buffers.emplace_back(item.key(), item.value());
  for (const auto& item : module->named_modules("", /*include_self=*/true)) {
    if (!std::dynamic_pointer_cast<torch::nn::LayerNormImpl>(item.value())) continue;
    std::string path = item.key().empty() ? "" : item.key() + ".";
    task.without_decay.push_back(path + "weight");
  }
  task.set_training = [module](bool training) { module->train(training); };
  return task;
}

}  // namespace tenon
