#include "driver/autograd.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <unordered_set>

namespace tenon::driver {
namespace {

using torch::autograd::Node;
using Hooks = std::vector<std::unique_ptr<torch::autograd::FunctionPreHook>>;

// Takes the tensor hooks of some tensors away while it lives. libtorch has no call for that; the
// list that Node::tensor_pre_hooks() shows is the one that the engine runs.
class HiddenHooks {
 public:
  explicit HiddenHooks(const Tensors& tensors) {
    std::unordered_set<Node*> seen;
    for (const at::Tensor& tensor : tensors) {
      auto edge = torch::autograd::impl::gradient_edge(tensor);
      if (!edge.function || !seen.insert(edge.function.get()).second) continue;
      auto& hooks = const_cast<Hooks&>(edge.function->tensor_pre_hooks());
      if (hooks.empty()) continue;
      hidden_.push_back({edge.function, &hooks, std::move(hooks)});
      hooks.clear();
    }
  }
  ~HiddenHooks() {
    for (Entry& entry : hidden_) *entry.place = std::move(entry.hooks);
  }

 private:
  struct Entry {
    c10::intrusive_ptr<Node> node;
    Hooks* place;
    Hooks hooks;
  };
  std::vector<Entry> hidden_;
};

bool has_hooks(Node& node) {
  return !node.pre_hooks().empty() || !node.post_hooks().empty() || !node.tensor_pre_hooks().empty() || !node.retains_grad_hooks().empty();
}

// Generated nodes carry a bare name; of the others only these come back when the ops run again.
bool comes_back(const std::string& name) {
  return name.find("::") == std::string::npos || name == "torch::autograd::CopyBackwards" || name == "torch::autograd::AccumulateGrad";
}

}  // namespace

Tensors differentiate(const Tensors& outputs, const Tensors& inputs, const Tensors& tangents, bool create_graph) {
  HiddenHooks hidden(inputs);
  return torch::autograd::grad(outputs, inputs, tangents, /*retain_graph=*/true, create_graph, /*allow_unused=*/true);
}

AutogradGraph inspect(const Tensors& outputs, const Tensors& boundary, const std::unordered_map<const void*, bool>& nodes_run) {
  AutogradGraph out;
  std::unordered_set<Node*> stop, seen;
  for (const at::Tensor& tensor : boundary)
    if (tensor.defined() && tensor.grad_fn()) stop.insert(tensor.grad_fn().get());
  std::vector<Node*> work;
  auto visit = [&](Node* node) {
    if (node && !stop.count(node) && seen.insert(node).second) work.push_back(node);
  };
  for (const at::Tensor& tensor : outputs)
    if (tensor.defined() && tensor.grad_fn()) visit(tensor.grad_fn().get());
  while (!work.empty()) {
    Node* node = work.back();
    work.pop_back();
    auto run = nodes_run.find(node);
    if (run != nodes_run.end() && !run->second) out.spent = true;
    std::string name = node->name();
    if (name == "torch::autograd::AccumulateGrad") continue;
    if (!comes_back(name)) out.obstacles.push_back("autograd node " + name);
    else if (has_hooks(*node)) out.obstacles.push_back("a hook on " + name);
    for (const auto& edge : node->next_edges()) visit(edge.function.get());
  }
  return out;
}

}  // namespace tenon::driver
