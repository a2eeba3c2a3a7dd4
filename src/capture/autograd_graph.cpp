#include "capture/autograd_graph.h"

#include <ATen/record_function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/functions/tensor.h>
#include <torch/csrc/dynamo/compiled_autograd.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <typeinfo>

#include "base/per_thread.h"
#include "base/pointer_map.h"
#include "capture/tensors.h"

namespace tenon::capture {
namespace {

using torch::autograd::edge_list;
using torch::autograd::Node;

enum class NodeKind : uint8_t { foreign, plain, leaf, slices };

// Identifies a node's type: the address of its virtual table.
const void* type_of(const Node& node) { return *reinterpret_cast<const void* const*>(&node); }

NodeKind look_up(const Node& node) {
  std::string_view name = typeid(node).name();
  if (name.find("CtcLoss") != std::string_view::npos) return NodeKind::foreign;  // The key of CTC's loss grows with the batch.
  if (name.starts_with("N5torch8autograd9generated")) return NodeKind::plain;
  if (typeid(node) == typeid(torch::autograd::AccumulateGrad)) return NodeKind::leaf;
  if (typeid(node) == typeid(torch::autograd::CopySlices)) return NodeKind::slices;
  if (typeid(node) == typeid(torch::autograd::CopyBackwards)) return NodeKind::plain;
  return NodeKind::foreign;
}

// Kinds by type.
using KnownKinds = PointerMap;

NodeKind kind_of(const Node& node, KnownKinds& known) {
  int32_t kind = known.find(type_of(node));
  if (kind < 0) {
    kind = static_cast<int32_t>(look_up(node));
    known.insert(type_of(node), kind);
  }
  return static_cast<NodeKind>(kind);
}

bool has_hooks(Node& node) {
  return !node.pre_hooks().empty() || !node.post_hooks().empty() || !node.tensor_pre_hooks().empty() ||
         !node.retains_grad_hooks().empty() || node.tensor_post_acc_grad_hooks();
}

// Collects what autograd nodes have saved, through the interface that PyTorch's compiled autograd uses.
class SavedState {
 public:
  // Returns false if the node cannot tell. Throws if a saved tensor was released or changed since.
  bool add(Node* node, std::vector<uint64_t>& signature) {
    if (node->num_inputs() + node->num_outputs() > kMaxEdges || !add_metadata(*node, signature)) return false;
    torch::dynamo::autograd::NodeCall call(0, c10::intrusive_ptr<Node>::reclaim_copy(node));
    torch::dynamo::autograd::CompiledNodeArgs arguments(all_, call);
    node->compiled_args(arguments);
    torch::dynamo::autograd::CacheKey key = arguments.key();
    signature.push_back(key.key_size);
    for (size_t i = 0; i < key.key_size; i += sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, key.key + i, std::min(sizeof word, key.key_size - i));
      signature.push_back(word);
    }
    return true;
  }

  static bool add_leaf(const torch::autograd::AccumulateGrad& node, std::vector<uint64_t>& signature) {
    const at::Tensor& leaf = node.variable;
    if (!is_plain(leaf.unsafeGetTensorImpl())) return false;
    signature.push_back(static_cast<uint64_t>(leaf.scalar_type()));
    add_sizes(leaf.sizes(), signature);
    add_sizes(leaf.strides(), signature);
    return add_metadata(node, signature);
  }

  // Adds the sizes of all nodes and takes the tensors. Numbers that ATen wrapped into tensors are constants of the backward.
  void finish(BackwardGraph& graph) {
    for (const auto& size : all_.all_size_inputs) graph.signature.push_back(static_cast<uint64_t>(size.value));
    graph.saved = std::move(all_.tensor_args.inputs);
    for (size_t i = 0; i < graph.saved.size(); ++i) {
      const at::Tensor& tensor = graph.saved[i];
      if (!tensor.unsafeGetTensorImpl()->is_wrapped_number()) continue;
      graph.signature.push_back(i);
      uint64_t words[2] = {};
      std::memcpy(words, tensor.const_data_ptr(), tensor.itemsize());
      graph.signature.insert(graph.signature.end(), std::begin(words), std::end(words));
    }
  }

 private:
  // libtorch counts the bytes of a node's key in 16 bits; each edge or tensor takes at most 10 bytes. Only CTC's loss saves longer lists
  // of numbers.
  static constexpr size_t kMaxEdges = 4096;

  // What the engine checks gradients against, casts them to and reduces them to.
  static bool add_metadata(const Node& node, std::vector<uint64_t>& signature) {
    constexpr uint64_t kAnyType = UINT64_MAX;
    for (uint32_t i = 0; i < node.num_inputs(); ++i) {
      const torch::autograd::InputMetadata& metadata = node.input_metadata(i);
      if (metadata.is_nested_tensor() || metadata.is_tensor_subclass()) return false;
      signature.push_back(static_cast<uint64_t>(c10::typeMetaToScalarType(metadata.dtype())));
      auto type = metadata.was_default_constructed() ? std::nullopt : metadata.grad_dtype();
      signature.push_back(type ? static_cast<uint64_t>(*type) : kAnyType);
      add_sizes(metadata.shape_as_dim_vector(), signature);
    }
    return true;
  }

  template <class Sizes>
  static void add_sizes(const Sizes& sizes, std::vector<uint64_t>& signature) {
    signature.push_back(sizes.size());
    for (const auto& size : sizes) signature.push_back(static_cast<uint64_t>(c10::SymInt(size).expect_int()));
  }

  torch::dynamo::autograd::AutogradCompilerCall all_{torch::dynamo::autograd::SizeInput::STATIC};
};

// Visits all nodes and writes their types and edges to the signature. Returns false if there is user code, or a node that is older
// than `oldest` or that another thread created.
template <class Visit>
bool traverse(const edge_list& roots, uint64_t oldest, BackwardGraph& graph, GraphNodes& found, Visit&& visit) {
  std::vector<Node*>& nodes = found.all;
  nodes.clear(), found.leaves.clear();
  PointerMap indices;
  auto& kinds = per_thread<KnownKinds>();
  auto follow = [&](const torch::autograd::Edge& edge) {
    if (!edge.function) return graph.signature.push_back(UINT64_MAX);
    Node* node = edge.function.get();
    int32_t index = indices.find(node);
    if (index < 0) {
      index = static_cast<int32_t>(nodes.size());
      indices.insert(node, index);
      nodes.push_back(node);
    }
    graph.signature.push_back(static_cast<uint64_t>(index) << 32 | edge.input_nr);
  };
  for (const auto& edge : roots) follow(edge);
  uint64_t thread = at::RecordFunction::currentThreadId();
  for (size_t i = 0; i < nodes.size(); ++i) {
    Node& node = *nodes[i];
    NodeKind kind = kind_of(node, kinds);
    if (kind == NodeKind::foreign || has_hooks(node)) return false;
    graph.signature.push_back(reinterpret_cast<uintptr_t>(type_of(node)));
    if (kind == NodeKind::leaf) {
      const at::Tensor& leaf = static_cast<torch::autograd::AccumulateGrad&>(node).variable;
      if (leaf.grad_fn()) return false;                 // The backward reports the error.
      graph.signature.push_back(leaf.requires_grad());  // A leaf that was frozen meanwhile gets no gradient.
      graph.leaves.push_back(leaf);
      found.leaves.push_back(&node);
      continue;
    }
    if (node.sequence_nr() < oldest || node.thread_id() != thread) return false;
    visit(node);
    if (kind == NodeKind::slices) {
      const auto& inner = static_cast<torch::autograd::CopySlices&>(node).fn;
      if (!inner || kind_of(*inner, kinds) != NodeKind::plain || has_hooks(*inner)) return false;
      graph.signature.push_back(reinterpret_cast<uintptr_t>(type_of(*inner)));
    }
    for (const auto& edge : node.next_edges()) follow(edge);
  }
  return true;
}

}  // namespace

std::optional<BackwardGraph> read_graph(const edge_list& roots, uint64_t oldest, uint64_t first_node, GraphNodes& nodes) {
  BackwardGraph graph;
  auto visit = [&](const Node& node) { graph.signature.push_back(node.sequence_nr() - first_node); };
  return traverse(roots, oldest, graph, nodes, visit) ? std::optional(std::move(graph)) : std::nullopt;
}

std::optional<BackwardGraph> read_graph_with_state(const edge_list& roots, GraphNodes& nodes) {
  BackwardGraph graph;
  std::vector<uint64_t> ages;
  if (!traverse(roots, /*oldest=*/0, graph, nodes, [&](const Node& node) { ages.push_back(node.sequence_nr()); })) return std::nullopt;
  // The engine runs younger nodes first. Nodes that belong to other graphs do not matter.
  std::sort(ages.begin(), ages.end());
  SavedState state;
  auto& kinds = per_thread<KnownKinds>();
  try {
    for (Node* node : nodes.all) {
      if (kind_of(*node, kinds) == NodeKind::leaf) {
        if (!SavedState::add_leaf(static_cast<torch::autograd::AccumulateGrad&>(*node), graph.signature)) return std::nullopt;
        continue;
      }
      graph.signature.push_back(static_cast<uint64_t>(std::lower_bound(ages.begin(), ages.end(), node->sequence_nr()) - ages.begin()));
      if (!state.add(node, graph.signature)) return std::nullopt;
    }
  } catch (const std::exception&) {
    return std::nullopt;  // The backward itself reports the error.
  }
  state.finish(graph);
  return graph;
}

namespace {

// Gives access to the lock that AccumulateGrad takes.
struct NodeLock : Node {
  static std::mutex& of(Node& node) { return node.*(&NodeLock::mutex_); }
};

}  // namespace

bool lock_all(const std::vector<Node*>& nodes, std::vector<std::unique_lock<std::mutex>>& locks) {
  locks.reserve(nodes.size());
  for (Node* node : nodes) {
    locks.emplace_back(NodeLock::of(*node), std::try_to_lock);
    if (locks.back()) continue;
    locks.clear();
    return false;
  }
  return true;
}

}  // namespace tenon::capture
