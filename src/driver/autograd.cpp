#include "driver/autograd.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <unordered_set>

namespace tenon::driver {
namespace {

using torch::autograd::Node;
using Hooks = std::vector<std::unique_ptr<torch::autograd::FunctionPreHook>>;

// Makes the engine stop at the given tensors for the lifetime of the object: their hooks do not run and the nodes behind them are not
// reached. libtorch has no call for that, so the hook and edge lists that the engine walks are emptied.
class Boundary {
 public:
  explicit Boundary(const Tensors& tensors) {
    std::unordered_set<Node*> seen;
    for (const at::Tensor& tensor : tensors) {
      auto edge = torch::autograd::impl::gradient_edge(tensor);
      if (!edge.function || !seen.insert(edge.function.get()).second) continue;
      auto& hooks = const_cast<Hooks&>(edge.function->tensor_pre_hooks());
      auto& edges = const_cast<torch::autograd::edge_list&>(edge.function->next_edges());
      cut_.push_back({edge.function, &hooks, std::move(hooks), &edges, std::move(edges)});
      hooks.clear();
      edges.clear();
    }
  }
  ~Boundary() {
    for (Cut& cut : cut_) {
      *cut.hooks_address = std::move(cut.hooks);
      *cut.edges_address = std::move(cut.edges);
    }
  }

 private:
  struct Cut {
    c10::intrusive_ptr<Node> node;
    Hooks* hooks_address;
    Hooks hooks;
    torch::autograd::edge_list* edges_address;
    torch::autograd::edge_list edges;
  };
  std::vector<Cut> cut_;
};

bool has_hooks(Node& node) {
  return !node.pre_hooks().empty() || !node.post_hooks().empty() || !node.tensor_pre_hooks().empty() || !node.retains_grad_hooks().empty();
}

// Whether running the ops again under autograd makes this node again: generated nodes (their names have no namespace), copies and
// AccumulateGrad.
bool is_rebuilt_by_rerun(const std::string& name) {
  return name.find("::") == std::string::npos || name == "torch::autograd::CopyBackwards" || name == "torch::autograd::AccumulateGrad";
}

}  // namespace

Tensors differentiate(const Tensors& outputs, const Tensors& inputs, const Tensors& tangents, bool create_graph) {
  Boundary boundary(inputs);
  return torch::autograd::grad(outputs, inputs, tangents, /*retain_graph=*/true, create_graph, /*allow_unused=*/true);
}

AutogradFindings inspect(const Tensors& outputs, const Tensors& boundary, const std::unordered_map<const void*, bool>& nodes_run) {
  AutogradFindings out;
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
    if (!is_rebuilt_by_rerun(name)) out.obstacles.push_back("autograd node " + name);
    else if (has_hooks(*node)) out.obstacles.push_back("a hook on " + name);
    bool has_next = false;
    for (const auto& edge : node->next_edges()) {
      visit(edge.function.get());
      has_next |= edge.is_valid();
    }
    if (!has_next) out.dead_end = true;
  }
  return out;
}

}  // namespace tenon::driver
