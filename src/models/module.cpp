// The module tree: parameters and buffers by path.
#include <tenon/models.h>

namespace tenon {

at::Tensor& Module::put_parameter(const std::string& name, at::Tensor value) {
  return *own_.emplace_back(Own{name, std::make_shared<at::Tensor>(std::move(value)), true}).tensor;
}

at::Tensor& Module::put_buffer(const std::string& name, at::Tensor value) {
  return *own_.emplace_back(Own{name, std::make_shared<at::Tensor>(std::move(value)), false}).tensor;
}

std::vector<NamedTensor> Module::named(bool parameters) const {
  std::vector<NamedTensor> out;
  for (const Own& own : own_)
    if (own.is_parameter == parameters && own.tensor->defined()) out.emplace_back(own.name, *own.tensor);
  for (const auto& [name, child] : children_)
    for (const NamedTensor& item : child->named(parameters)) out.emplace_back(name + "." + item.key(), item.value());
  return out;
}

std::vector<NamedTensor> Module::named_parameters() const { return named(true); }

std::vector<NamedTensor> Module::named_buffers() const { return named(false); }

std::vector<at::Tensor> Module::parameters() const {
  std::vector<at::Tensor> out;
  for (const NamedTensor& item : named_parameters()) out.push_back(item.value());
  return out;
}

std::vector<const Module*> Module::modules(bool include_self) const {
  std::vector<const Module*> out;
  if (include_self) out.push_back(this);
  for (const auto& [name, child] : children_) {
    auto below = child->modules();
    out.insert(out.end(), below.begin(), below.end());
  }
  return out;
}

void Module::train(bool on) {
  training_ = on;
  for (auto& [name, child] : children_) child->train(on);
}

}  // namespace tenon
