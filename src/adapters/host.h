// What a bank sits on: the layers that adapters can have, and how these meet the bank.
#pragma once

#include <tenon/models.h>

#include <memory>
#include <vector>

#include "adapters/part.h"

namespace torch::nn {
class Module;
}

namespace tenon::adapters {

class Host {
 public:
  virtual ~Host() = default;
  virtual std::vector<Layer> layers() const = 0;
  // From now on layers go through the bank of that number. `trained` has a tensor a layer; `standard` are the rows of calls without any.
  virtual void attach(int64_t bank, const at::Tensor& standard, const std::vector<at::Tensor>& trained) = 0;
  virtual void detach() = 0;
  // All parameters of the model or tree stop requiring gradients.
  virtual void freeze() = 0;
  // Throws if layers no longer go through the bank.
  virtual void need_attached() const {}
};

inline void freeze_leaf(const at::Tensor& parameter) {
  if (parameter.defined() && parameter.is_leaf()) parameter.set_requires_grad(false);
}

std::unique_ptr<Host> make_host(std::shared_ptr<Model> model);
std::unique_ptr<Host> make_host(std::shared_ptr<torch::nn::Module> tree);

}  // namespace tenon::adapters
