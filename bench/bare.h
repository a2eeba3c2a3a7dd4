// The bare time of a model: its products, convolutions and attention alone, each in the fastest of the
// forms that libtorch's libraries have for it.
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
    }
  }
  void run() const {
    for (const auto& call : calls_) call();
  }
  size_t size() const { return calls_.size(); }

 private:
  using Call = std::function<void()>;
  using Key = std::tuple<std::string, std::vector<int64_t>, std::vector<int64_t>>;

  static Tensor dispatch(const char* op, torch::jit::Stack stack) {
    c10::Dispatcher::singleton().findSchemaOrThrow(op, "").callBoxed(&stack);
    return stack[0].toTensor();
  }
  static double time_of(const Call& call) {
    call();
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i < 7; ++i) {
      auto start = std::chrono::steady_clock::now();
      call();
      best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    return best;
  }

  const std::vector<int64_t>& sizes(const ir::Node& node, size_t argument) const {
    return graph_.values[ir::operand(node, argument)].type.sizes;
  }
  // Activations of one size are one tensor, as in a model they lie in the cache.
  Tensor activation(const std::vector<int64_t>& sizes) {
    Tensor& known = activations_[sizes];
    if (!known.defined()) known = torch::randn(sizes).to(dtype_);
    return known;
  }
  // Each form is made for the first node of its shapes and timed; the rest get the winner.
  void add_best(const Key& key, const std::vector<std::function<Call()>>& forms) {
    auto known = best_.find(key);
    if (known == best_.end()) {
      size_t best = 0;
      double least = std::numeric_limits<double>::infinity();
      for (size_t i = 0; i < forms.size(); ++i)
        if (double time = time_of(forms[i]()); time < least) least = time, best = i;
      known = best_.emplace(key, best).first;
    }
    calls_.push_back(forms[known->second]());
  }

  void add_product(const ir::Node& node, size_t first) {
    std::vector<int64_t> left = sizes(node, first), right = sizes(node, first + 1);
    int64_t rows = left[0];
    Tensor x = activation(left), w = (torch::randn({right[1], right[0]}) * 0.02).to(dtype_), out = torch::empty({rows, right[1]}, dtype_);
    auto plain = [=]() -> Call { return [=]() mutable { at::mm_out(out, x, w.t()); }; };
    auto turned = [=]() -> Call {
      Tensor copy = w.t().contiguous();
      return [=]() mutable { at::mm_out(out, x, copy); };
    };
    auto onednn = [=]() -> Call {
      Tensor packed = dispatch("mkldnn::_reorder_linear_weight", {w, rows});
      return [=] { dispatch("mkldnn::_linear_pointwise", {x, packed, {}, "none", c10::List<std::optional<at::Scalar>>(), ""}); };
    };
    auto mkl = [=]() -> Call {
      Tensor packed = dispatch("mkl::_mkl_reorder_linear_weight", {w, rows});
      return [=] { dispatch("mkl::_mkl_linear", {x, packed, w, {}, rows}); };
    };
    std::vector<std::function<Call()>> forms = {plain, turned, onednn};
    if (dtype_ == torch::kFloat) forms.push_back(mkl);
    add_best({"mm", left, right}, forms);
  }

  void add_convolution(const ir::Node& node) {
    std::vector<int64_t> in = sizes(node, 0), weight = sizes(node, 1);
    auto ints = [&](size_t i) { return *ir::constant<std::vector<int64_t>>(node, i); };
    std::vector<int64_t> stride = ints(3), padding = ints(4), dilation = ints(5);
    int64_t groups = *ir::constant<int64_t>(node, 8);
    Tensor x = activation(in), w = (torch::randn(weight) * 0.02).to(dtype_), last = x.contiguous(at::MemoryFormat::ChannelsLast);
    auto plain = [=]() -> Call { return [=] { at::convolution(x, w, {}, stride, padding, dilation, false, {0, 0}, groups); }; };
    auto packed = [=](const Tensor& from) {
      return [=]() -> Call {
        Tensor packed = dispatch("mkldnn::_reorder_convolution_weight", {w, padding, stride, dilation, groups, in});
        return [=] {
          dispatch("mkldnn::_convolution_pointwise",
                   {from, packed, {}, padding, stride, dilation, groups, "none", c10::List<std::optional<at::Scalar>>(), {}});
        };
      };
    };
    Key key{"convolution", in, weight};
    std::get<0>(key) += std::to_string(stride[0]);
    add_best(key, {plain, packed(x), packed(last)});
  }

  void add_attention(const ir::Node& node) {
    Tensor q = activation(sizes(node, 0)), k = activation(sizes(node, 1)), v = torch::randn(sizes(node, 2)).to(dtype_);
    bool causal = false;
    for (size_t i = 3; i < node.args.size(); ++i)
      if (const bool* flag = ir::constant<bool>(node, i)) causal |= *flag;
    calls_.push_back([=] { at::scaled_dot_product_attention(q, k, v, {}, 0.0, causal); });
  }

  const ir::Graph& graph_;
  torch::ScalarType dtype_;
  std::map<std::vector<int64_t>, Tensor> activations_;
  std::map<Key, size_t> best_;
  std::vector<Call> calls_;
};

}  // namespace tenon::bench
