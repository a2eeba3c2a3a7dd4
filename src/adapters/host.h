// The model or module tree that a bank acts on: its layers, and how they are connected to the bank.
#pragma once

#include <tenon/models.h>

#include <memory>
#include <string>
#include <vector>

#include "adapters/layer_adapter.h"

namespace torch::nn {
class Module;
}

namespace tenon::adapters {

// What PEFT reads from the class and the configuration of a base. A tree of torch::nn modules has only parameters.
struct ModelFacts {
  std::string model_type, architecture;  // Examples are "llama" and "LlamaForCausalLM".
  std::string output_embedding;          // The path of the layer whose outputs are tokens; empty if there is none.
  std::vector<NamedTensor> parameters;   // A parameter that two modules share may be listed twice.
};

class Host {
 public:
  virtual ~Host() = default;
  // In the order in which the modules are registered, which is the order of PEFT's draws.
  virtual std::vector<Layer> layers() const = 0;
  virtual ModelFacts facts() const = 0;
  // Connects the layers to the bank with this id. `trained` has one tensor per layer; `default_rows` are the rows of calls that are given
  // none.
  virtual void attach(int64_t bank, const at::Tensor& default_rows, const std::vector<at::Tensor>& trained) = 0;
  virtual void detach() = 0;
  // Sets requires_grad to false for all parameters of the model or tree.
  virtual void freeze() = 0;
  // Throws UserError if layers are no longer connected to the bank.
  virtual void need_attached() const {}
};

inline void freeze_leaf(const at::Tensor& parameter) {
  if (parameter.defined() && parameter.is_leaf()) parameter.set_requires_grad(false);
}

std::unique_ptr<Host> make_host(std::shared_ptr<Model> model);
std::unique_ptr<Host> make_host(std::shared_ptr<torch::nn::Module> tree);

}  // namespace tenon::adapters
