#include "capture/backward.h"

#include <ATen/record_function.h>
#include <ATen/SequenceNumber.h>
#include <dlfcn.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <mutex>

#include "base/per_thread.h"
#include "base/pointer_map.h"
#include "capture/autograd_graph.h"
#include "capture/listener.h"
#include "capture/observed_tensor.h"

namespace tenon::capture {
namespace {

using torch::autograd::edge_list;
using torch::autograd::Node;
using torch::autograd::variable_list;

// Sequence number of this thread's first node whose saved tensors are certainly intact: a backward may have released those of
// older nodes.
thread_local uint64_t t_first_intact_node = 0;

class EngineCall : public BackwardCall {
 public:
  EngineCall(const edge_list& roots, const variable_list& gradients, bool keep_graph)
      : roots_(roots), gradients_(gradients), keep_graph_(keep_graph) {}

  std::optional<BackwardGraph> graph(uint64_t first_node) const override {
    return read_graph(roots_, std::max(first_node, t_first_intact_node), first_node, nodes_);
  }
  std::optional<BackwardGraph> graph_with_state() const override { return read_graph_with_state(roots_, nodes_); }
  bool lock_leaves(std::vector<std::unique_lock<std::mutex>>& locks) const override { return lock_all(nodes_.leaves, locks); }
  const std::vector<at::Tensor>& gradients() const override { return gradients_; }
  bool keeps_graph() const override { return keep_graph_; }

  void release() const override {
    if (keep_graph_) return;
    for (Node* node : nodes_.all) node->release_variables();
  }

 private:
  const edge_list& roots_;
  const variable_list& gradients_;
  bool keep_graph_;
  mutable GraphNodes nodes_;
};

// The autograd nodes of a call that has returned.
struct CallNodes {
  std::weak_ptr<BackwardRunner> runner;
  uint64_t first = 0, end = 0;
};
// Newest first. More than one is needed where a backward follows several forwards; not measured further.
constexpr size_t kMaxCalls = 8;
using RecentCalls = std::vector<CallNodes>;

// The runner of the newest call that created one of the nodes, or null.
std::shared_ptr<BackwardRunner> runner_of(const edge_list& roots) {
  const RecentCalls& calls = per_thread<RecentCalls>();
  if (calls.empty()) return nullptr;
  uint64_t oldest = UINT64_MAX, thread = at::RecordFunction::currentThreadId();
  for (const CallNodes& call : calls) oldest = std::min(oldest, call.first);
  std::vector<Node*> nodes;
  PointerMap known;
  size_t best = calls.size();
  auto visit = [&](const torch::autograd::Edge& edge) {
    Node* node = edge.function.get();
    // Edges lead to older nodes, except those to leaves.
    if (!node || node->sequence_nr() < oldest || node->sequence_nr() == UINT64_MAX || known.find(node) >= 0) return;
    known.insert(node, 0);
    nodes.push_back(node);
    if (node->thread_id() != thread) return;
    for (size_t i = 0; i < best; ++i)
      if (calls[i].first <= node->sequence_nr() && node->sequence_nr() < calls[i].end) best = i;
  };
  for (const auto& edge : roots) visit(edge);
  for (size_t i = 0; i < nodes.size() && best > 0; ++i)
    for (const auto& edge : nodes[i]->next_edges()) visit(edge);
  return best < calls.size() ? calls[best].runner.lock() : nullptr;
}

class InterceptingEngine : public torch::autograd::Engine {
 public:
  variable_list execute(const edge_list& roots, const variable_list& inputs, bool keep_graph, bool create_graph, bool accumulate_grad,
                        const edge_list& outputs) override {
    uint64_t nodes = at::sequence_number::peek();
    auto run = [&] {
      if (!keep_graph) t_first_intact_node = nodes;
      return Engine::execute(roots, inputs, keep_graph, create_graph, accumulate_grad, outputs);
    };
    // libtorch's own nodes read no contents outside ops; hooks and custom functions may.
    auto run_unannounced = [&] {
      LibraryCode library(EngineCall(roots, inputs, keep_graph).graph(0).has_value());
      return run();
    };
    bool is_plain = !torch::autograd::get_current_node() && !torch::autograd::AnomalyMode::is_enabled();
    auto run_observed = [&](Listener* listener) {
      bool whole = accumulate_grad && !create_graph && outputs.empty() && is_plain;
      if (!whole || listening_is_paused()) return run_unannounced();
      EngineCall call(roots, inputs, keep_graph);
      if (listener->on_backward(call)) {
        if (!keep_graph) t_first_intact_node = nodes;
        return variable_list();
      }
      variable_list out = run_unannounced();
      listener->after_backward();
      return out;
    };
    if (Listener* listener = current_listener()) return run_observed(listener);
    std::shared_ptr<BackwardRunner> runner = is_plain ? runner_of(roots) : nullptr;
    if (!runner) return run();
    variable_list out;
    runner->run_backward([&] {
      Listener* listener = current_listener();
      out = listener ? run_observed(listener) : run();
    });
    return out;
  }
};

}  // namespace

void remember_nodes(const std::shared_ptr<BackwardRunner>& runner, uint64_t first, uint64_t end) {
  if (first == end) return;
  RecentCalls& calls = per_thread<RecentCalls>();
  if (calls.size() == kMaxCalls) calls.pop_back();
  calls.insert(calls.begin(), {runner, first, end});
}

void listen_to_backwards() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (dlsym(RTLD_DEFAULT, "Py_IsInitialized")) return;
    torch::autograd::set_default_engine_stub(+[]() -> torch::autograd::Engine& {
      static auto* engine = new InterceptingEngine;  // Never destroyed, because libtorch's threads use it until the process ends.
      return *engine;
    });
  });
}

}  // namespace tenon::capture
