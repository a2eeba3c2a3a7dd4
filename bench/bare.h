// The bare time of a model: its products, convolutions and attention alone, each with the fastest form of
// libtorch's libraries. The forms are timed inside a run of the whole model, because repeated runs of one op would find its
// weight in the cache.
#pragma once

#include <torch/torch.h>

#include <chrono>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/graph/node.h"

namespace tenon::bench {

using torch::Tensor;

class Bare {
 public:
  Bare(const ir::Graph& graph, torch::ScalarType dtype) : graph_(graph), dtype_(dtype) {
    for (const ir::Node& node : graph.nodes) {
      if (node.op == "aten::mm") add_product(node, 0);
      if (node.op == "aten::addmm") add_product(node, 1);
      if (node.op == "aten::convolution") add_convolution(node);
      if (node.op.find("scaled_dot_product") != std::string::npos) add_attention(node);
      if (node.op == "tenon::attend_cached") add_attention_to_cache(node);
    }
    choose();
  }
  void run() const {
    for (const Site& site : sites_) site.forms[0]();
  }

 private:
  using Call = std::function<void()>;
  using Key = std::tuple<std::string, std::vector<int64_t>, std::vector<int64_t>>;

  static Tensor dispatch(const char* op, torch::jit::Stack stack) {
    c10::Dispatcher::singleton().findSchemaOrThrow(op, "").callBoxed(&stack);
    return stack[0].toTensor();
  }
  struct Site {
    Key key;
    std::vector<Call> forms;
  };
  // All ops of equal shapes use the same form: the one with the smallest sum over the model, in five rounds each.
  void choose() {
    std::map<Key, std::vector<double>> least;
    size_t most = 0;
    for (const Site& site : sites_) {
      least[site.key].resize(site.forms.size(), std::numeric_limits<double>::infinity());
      most = std::max(most, site.forms.size());
    }
    for (size_t round = 0; round < 6 * most; ++round) {
      std::map<Key, double> sums;
      for (const Site& site : sites_) {
        auto start = std::chrono::steady_clock::now();
        site.forms[round % site.forms.size()]();
        sums[site.key] += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      }
      for (auto& [key, sum] : sums) {
        double& known = least[key][round % least[key].size()];
        if (round >= most) known = std::min(known, sum);
      }
    }
    for (Site& site : sites_) {
      const auto& times = least[site.key];
      site.forms = {site.forms[static_cast<size_t>(std::min_element(times.begin(), times.end()) - times.begin())]};
    }
  }

  std::vector<int64_t> sizes(const ir::Node& node, size_t argument) const {
    return graph_.values[ir::operand(node, argument)].type.sizes.numbers();
  }
  // Activations of equal size share one tensor, because in a model they are in the cache.
  Tensor activation(const std::vector<int64_t>& sizes) {
    Tensor& known = activations_[sizes];
    if (!known.defined()) known = torch::randn(sizes).to(dtype_);
    return known;
  }
  void add_product(const ir::Node& node, size_t first) {
    std::vector<int64_t> left = sizes(node, first), right = sizes(node, first + 1);
    int64_t rows = left[0];
    Tensor x = activation(left), w = (torch::randn({right[1], right[0]}) * 0.02).to(dtype_), out = torch::empty({rows, right[1]}, dtype_);
    Tensor turned = w.t().contiguous(), packed = dispatch("mkldnn::_reorder_linear_weight", {w, rows});
    Site site{{"mm", left, right}, {}};
    site.forms.push_back([=]() mutable { at::mm_out(out, x, w.t()); });
    site.forms.push_back([=]() mutable { at::mm_out(out, x, turned); });
    site.forms.push_back([=] {
      dispatch("mkldnn::_linear_pointwise", {x, packed, {}, "none", c10::List<std::optional<at::Scalar>>(), ""});
    });
    if (dtype_ == torch::kFloat) {
      Tensor for_mkl = dispatch("mkl::_mkl_reorder_linear_weight", {w, rows});
      site.forms.push_back([=] { dispatch("mkl::_mkl_linear", {x, for_mkl, w, {}, rows}); });
    }
    sites_.push_back(std::move(site));
  }

  void add_convolution(const ir::Node& node) {
    std::vector<int64_t> in = sizes(node, 0), weight = sizes(node, 1);
    auto ints = [&](size_t i) { return *ir::integers(node, i); };
    std::vector<int64_t> stride = ints(3), padding = ints(4), dilation = ints(5);
    int64_t groups = *ir::integer(node, 8);
    Tensor x = activation(in), w = (torch::randn(weight) * 0.02).to(dtype_), last = x.contiguous(at::MemoryFormat::ChannelsLast);
    Tensor packed = dispatch("mkldnn::_reorder_convolution_weight", {w, padding, stride, dilation, groups, in});
    auto on_packed = [=](const Tensor& from) -> Call {
      return [=] {
        dispatch("mkldnn::_convolution_pointwise",
                 {from, packed, {}, padding, stride, dilation, groups, "none", c10::List<std::optional<at::Scalar>>(), {}});
      };
    };
    Key key{"convolution", in, weight};
    std::get<0>(key) += std::to_string(stride[0]);
    sites_.push_back({key,
                      {[=] {
                         at::convolution(x, w, {}, stride, padding, dilation, false, {0, 0}, groups);
                       },
                       on_packed(x), on_packed(last)}});
  }

  void add_attention(const ir::Node& node) {
    Tensor q = activation(sizes(node, 0)), k = activation(sizes(node, 1)), v = torch::randn(sizes(node, 2)).to(dtype_);
    bool causal = false;
    for (size_t i = 3; i < node.args.size(); ++i)
      if (const bool* flag = ir::constant<bool>(node, i)) causal |= *flag;
    sites_.push_back(
        {{"attention", q.sizes().vec(), k.sizes().vec()}, {[=] { at::scaled_dot_product_attention(q, k, v, {}, 0.0, causal); }}});
  }

  // Attention to the tokens of this call only, as with an empty KV cache.
  void add_attention_to_cache(const ir::Node& node) {
    std::vector<int64_t> queries = sizes(node, 0), cache = sizes(node, 1);
    Tensor q = activation(queries), k = activation({queries[0], cache[2], queries[2], queries[3]}), v = torch::randn_like(k);
    bool grouped = queries[1] != cache[2];
    sites_.push_back({{"attention", q.sizes().vec(), k.sizes().vec()},
                      {[=] { at::scaled_dot_product_attention(q, k, v, {}, 0.0, /*is_causal=*/true, std::nullopt, grouped); }}});
  }

  const ir::Graph& graph_;
  torch::ScalarType dtype_;
  std::map<std::vector<int64_t>, Tensor> activations_;
  std::vector<Site> sites_;
};

}  // namespace tenon::bench
