#include "passes/fusion/attention.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

#include "ir/graph/node.h"
#include "passes/fusion/call_builder.h"
#include "passes/layout.h"

namespace tenon::passes {
namespace {

using ir::kNoValue;
using ir::Node;
using ir::ValueId;

// Number of keys from which flash attention is faster. Measured with two threads: the same time for 128 keys, a quarter for
// 512. No benchmark of bench/ repeats this.
constexpr int64_t kMinFlashKeys = 256;

class AttentionMatcher {
 public:
  explicit AttentionMatcher(const ir::Graph& graph) : graph_(graph), producers_(graph) {}

  std::vector<ir::Group> run() {
    std::vector<ir::Group> out;
    for (size_t i = 0; i < graph_.nodes.size(); ++i)
      if (auto group = match(i)) out.push_back(std::move(*group));
    return out;
  }

 private:
  const ir::TensorType& type(ValueId id) const { return graph_.values[id].type; }

  static bool is_reshape(const Node& node) { return node.op == "aten::view" || node.op == "aten::_unsafe_view"; }
  static bool is_constant(const Node& node, size_t index) {
    return index < node.args.size() && std::holds_alternative<ir::Attribute>(node.args[index]);
  }

  // State of a match, which proceeds from the second product back to the first.
  struct Match {
    std::set<size_t> nodes;
    const Node* scale = nullptr;
    ValueId mask = kNoValue;
    bool is_fill = false;  // A boolean mask that marks ignored keys; otherwise the mask is added to the scores.
    Shape scores;          // Batch, heads, queries, keys.
    ValueId q, k, v;       // The keys are transposed.
  };

  std::optional<ir::Group> match(size_t last) {
    const Node& second = graph_.nodes[last];
    if (second.op != "aten::bmm" || !second.writes.empty()) return std::nullopt;
    Match m;
    m.nodes.insert(last);
    m.v = operand(second, 1);
    ValueId at = operand(second, 0);
    if (const Node* view = producers_.only(at); view && is_reshape(*view)) {
      m.nodes.insert(producers_.node_index(at));
      at = operand(*view, 0);
    }
    const Node* softmax = producers_.only(at);
    if (!softmax || softmax->op != "aten::_softmax" || ir::plain_text(softmax->args[2]) != "false") return std::nullopt;
    m.nodes.insert(producers_.node_index(at));
    at = operand(*softmax, 0);
    auto rank = static_cast<int64_t>(type(at).sizes.size());
    std::string dim = ir::plain_text(softmax->args[1]);
    if ((rank != 3 && rank != 4) || (dim != "-1" && dim != std::to_string(rank - 1))) return std::nullopt;
    m.scores = type(at).sizes;
    if (rank == 3) m.scores.insert(m.scores.begin(), 1);
    if (!match_scores(at, m) || !fits(m, graph_.nodes[last])) return std::nullopt;
    return make_group(m, last);
  }

  // Matches the nodes between the first product and the softmax.
  bool match_scores(ValueId at, Match& m) {
    while (const Node* node = producers_.only(at)) {
      m.nodes.insert(producers_.node_index(at));
      ValueId first = operand(*node, 0), second = operand(*node, 1);
      if (node->op == "aten::bmm") {
        m.q = first;
        m.k = second;
        return true;
      }
      bool is_before_scale = m.scale != nullptr;  // A mask that is added before the scale would be scaled too.
      bool keeps_sizes = first != kNoValue && ir::same(type(first).sizes, type(at).sizes) && type(first).dtype == type(at).dtype;
      if (is_reshape(*node)) {
        if (first == kNoValue || type(first).sizes.size() != 3 ||
            !ir::same(Shape(type(at).sizes.end() - 2, type(at).sizes.end()), Shape(type(first).sizes.end() - 2, type(first).sizes.end())))
          return false;
      } else if (!keeps_sizes) {
        return false;
      } else if (node->op == "aten::add.Tensor" && second != kNoValue && m.mask == kNoValue && !is_before_scale) {
        if (ir::plain_text(node->args[2]) != "1" || type(second).dtype != type(at).dtype) return false;
        m.mask = second;
      } else if (node->op == "aten::masked_fill.Scalar" && m.mask == kNoValue && !is_before_scale) {
        const auto* constant = std::get_if<ir::Attribute>(&node->args[2]);
        const double* fill = constant ? std::get_if<double>(constant) : nullptr;
        if (!fill || *fill != -std::numeric_limits<double>::infinity() || type(at).dtype != ir::DType::f32) return false;
        m.mask = second;
        m.is_fill = true;
      } else if ((node->op == "aten::mul.Tensor" || node->op == "aten::div.Tensor") && is_constant(*node, 1) && !m.scale) {
        m.scale = node;
      } else {
        return false;
      }
      at = first;
    }
    return false;
  }

  bool fits(const Match& m, const Node& second) const {
    if (m.q == kNoValue || m.k == kNoValue || m.v == kNoValue) return false;
    const ir::TensorType &q = type(m.q), &k = type(m.k), &v = type(m.v), &out = type(second.results[0].ids[0]);
    if (!ir::is_floating(q.dtype) || k.dtype != q.dtype || v.dtype != q.dtype || !same(q.sizes[2], v.sizes[2])) return false;
    if (q.strides[2] != 1 || k.strides[1] != 1 || v.strides[2] != 1) return false;
    if (!same(out.strides, ir::contiguous_strides(out.sizes)) || !same(m.scores[0] * m.scores[1], q.sizes[0])) return false;
    if (m.scores[2] < 2 || m.scores[3] < kMinFlashKeys) return false;
    if (m.mask == kNoValue) return true;
    const Shape& mask = type(m.mask).sizes;
    if (mask.size() > 4 || mask.size() < 2 || mask.size() == 3) return false;
    for (size_t d = 0; d < mask.size(); ++d) {
      const ir::Size& wanted = m.scores[4 - mask.size() + d];
      if (!same(mask[d], wanted) && mask[d] != 1 && mask[d] != wanted) return false;
    }
    return type(m.mask).strides.back() == 1;
  }

  // Splits the batch dimension of a bmm operand into batch and heads.
  static ValueId split(CallBuilder& call, ValueId id, const Shape& scores) {
    Shape sizes = call.type(id).sizes;
    sizes.erase(sizes.begin());
    sizes.insert(sizes.begin(), {scores[0], scores[1]});
    return call.add("aten::view", {id, ir::Attribute(sizes)}, sizes, call.type(id).dtype);
  }

  ir::Group make_group(const Match& m, size_t last) {
    ir::Group group;
    group.nodes.assign(m.nodes.begin(), m.nodes.end());
    group.inputs = {m.q, m.k, m.v};
    if (m.mask != kNoValue) group.inputs.push_back(m.mask);
    std::sort(group.inputs.begin(), group.inputs.end());
    group.inputs.erase(std::unique(group.inputs.begin(), group.inputs.end()), group.inputs.end());
    ValueId result = graph_.nodes[last].results[0].ids[0];
    group.outputs = {result};
    group.sizes = m.scores;
    CallBuilder call(graph_, group);
    ir::DType dtype = type(m.q).dtype;
    Shape keys = {type(m.k).sizes[0], type(m.k).sizes[2], type(m.k).sizes[1]};
    ir::Attribute none = ir::None{};
    // Flash attention returns the layout of the queries, which must be contiguous.
    constexpr int64_t kContiguous = 0;  // Value of at::MemoryFormat::Contiguous.
    ValueId q = m.q;
    if (!ir::same(type(q).strides, ir::contiguous_strides(type(q).sizes)))
      q = call.add("aten::clone", {q, ir::Attribute(kContiguous)}, type(m.q).sizes, dtype);
    if (m.scale) q = call.add(m.scale->op, {q, m.scale->args[1]}, type(m.q).sizes, dtype);
    q = split(call, q, m.scores);
    ValueId v = split(call, m.v, m.scores);
    ValueId transposed = call.add("aten::transpose.int", {m.k, ir::Attribute(int64_t{1}), ir::Attribute(int64_t{2})}, keys, dtype);
    ValueId k = split(call, transposed, m.scores);
    Shape sizes = {m.scores[0], m.scores[1], type(m.q).sizes[1], type(m.q).sizes[2]};
    ir::Argument mask = none;
    if (m.is_fill) {
      constexpr double kMaskedOut = -std::numeric_limits<double>::infinity();
      mask = call.add("aten::where.Scalar", {m.mask, ir::Attribute(kMaskedOut), ir::Attribute(0.0)}, type(m.mask).sizes, dtype);
    } else if (m.mask != kNoValue) {
      mask = m.mask;
    }
    ValueId made = call.add("aten::_scaled_dot_product_flash_attention_for_cpu",
                            {q, k, v, ir::Attribute(0.0), ir::Attribute(false), mask, ir::Attribute(1.0)}, sizes, dtype);
    Shape rows(sizes.begin(), sizes.end() - 1);
    ValueId sums = call.add_result(rows, ir::DType::f32);
    ValueId out = call.add("aten::view", {made, ir::Attribute(type(result).sizes)}, type(result).sizes, dtype);
    group.computation = ir::Rewrite{call.finish({out, sums})};
    return group;
  }

  const ir::Graph& graph_;
  Producers producers_;
};

}  // namespace

std::vector<ir::Group> find_attention(const ir::Graph& graph) { return AttentionMatcher(graph).run(); }

}  // namespace tenon::passes
