#include "adapters/combine.h"

#include <ATen/ops/bernoulli.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/linalg_svd.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/quantile.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <ATen/TensorOperators.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "adapters/directory.h"
#include "adapters/lora/lora.h"
#include "adapters/refuse.h"
#include "base/error.h"

namespace tenon::adapters {

namespace {

// Combines corresponding tensors of several adapters into one.
class Mix {
 public:
  explicit Mix(const Combination& how) : how_(how) {
    type_ = how.type;
    is_svd_ = type_ == "svd" || type_.ends_with("_svd");
    if (is_svd_) type_ = type_ == "svd" ? "linear" : type_.substr(0, type_.size() - 4);
    const char* known[] = {"linear", "cat", "ties", "dare_linear", "dare_ties", "magnitude_prune"};
    if (std::find(std::begin(known), std::end(known), type_) == std::end(known) || (is_svd_ && type_ == "cat"))
      refuse("the combination type \"" + how.type +
             "\" is not supported. Choose svd, cat, linear, ties, dare_linear, dare_ties or magnitude_prune; all but cat may end in _svd.");
    if (how.density < 0) refuse("density is negative. Give 0 or more.");
    if (how.majority_sign != "total" && how.majority_sign != "frequency") refuse("majority_sign must be \"total\" or \"frequency\".");
  }

  bool is_svd() const { return is_svd_; }
  bool is_cat() const { return type_ == "cat"; }

  at::Tensor operator()(const std::vector<at::Tensor>& tensors, const std::vector<double>& weights) const {
    std::vector<at::Tensor> pruned;
    for (const at::Tensor& tensor : tensors) pruned.push_back(prune(tensor));
    at::Tensor all = at::stack(pruned), by = at::zeros({static_cast<int64_t>(weights.size())}, at::kFloat);
    for (size_t i = 0; i < weights.size(); ++i) by[static_cast<int64_t>(i)].fill_(weights[i]);
    std::vector<int64_t> sizes(static_cast<size_t>(all.dim()), 1);
    sizes[0] = -1;
    at::Tensor weighted = all * by.view(sizes).to(all.scalar_type());
    if (type_ != "ties" && type_ != "dare_ties") return weighted.sum(0);
    // Each element is the mean of the values that have the majority's sign.
    at::Tensor sign = all.sign(), most = how_.majority_sign == "total" ? all.sum(0) : sign.sum(0);
    at::Tensor agrees = sign.eq(at::where(most.ge(0), at::ones_like(most), -at::ones_like(most)));
    return (weighted * agrees).sum(0) / at::clamp(agrees.sum(0), 1);
  }

 private:
  at::Tensor prune(const at::Tensor& tensor) const {
    if (type_ == "linear" || how_.density >= 1) return tensor;
    if (type_.starts_with("dare")) return tensor * at::bernoulli(at::full_like(tensor, how_.density)) / how_.density;
    auto count = static_cast<int64_t>(how_.density * static_cast<double>(tensor.numel()));
    at::Tensor kept = std::get<1>(at::topk(tensor.abs().reshape({-1}), count));
    return tensor * at::zeros_like(tensor).reshape({-1}).index_fill(0, kept, 1).view(tensor.sizes());
  }

  const Combination& how_;
  std::string type_;
  bool is_svd_;
};

// The factors of one source adapter on one layer.
struct LoraFactors {
  at::Tensor a, b;
  double weight, scale;
};

at::Tensor as_matrix(const at::Tensor& t) { return t.dim() > 2 ? t.flatten(1) : t; }

std::pair<at::Tensor, at::Tensor> combine_factors(const std::vector<LoraFactors>& of, const Mix& mix, int64_t rank, bool is_transposed,
                                                  const Combination& how) {
  const at::Tensor &a0 = of[0].a, &b0 = of[0].b;
  auto shaped = [&](at::Tensor a, at::Tensor b) {
    std::vector<int64_t> a_sizes = a0.sizes().vec(), b_sizes = b0.sizes().vec();
    a_sizes[0] = rank, b_sizes[1] = rank;
    at::Tensor wide_a = at::zeros({rank, a.size(1)}, a.options()), wide_b = at::zeros({b.size(0), rank}, b.options());
    wide_a.narrow(0, 0, a.size(0)).copy_(a), wide_b.narrow(1, 0, b.size(1)).copy_(b);
    return std::pair(wide_a.view(a_sizes), wide_b.view(b_sizes));
  };
  std::vector<at::Tensor> as, bs;
  std::vector<double> a_weights, b_weights;
  if (mix.is_cat()) {
    for (const LoraFactors& f : of) as.push_back(as_matrix(f.a) * (f.weight * f.scale)), bs.push_back(as_matrix(f.b));
    return shaped(at::cat(as), at::cat(bs, 1));
  }
  if (!mix.is_svd()) {
    for (const LoraFactors& f : of) {
      double both = f.weight * f.scale, root = std::sqrt(std::abs(both));
      as.push_back(as_matrix(f.a)), bs.push_back(as_matrix(f.b));
      a_weights.push_back(both < 0 ? -root : root), b_weights.push_back(root);
    }
    at::Tensor a = mix(as, a_weights);  // Computed before b, since both may draw random numbers.
    return shaped(a, mix(bs, b_weights));
  }
  for (const LoraFactors& f : of) {
    at::Tensor delta = as_matrix(f.b).matmul(as_matrix(f.a)) * f.scale;
    as.push_back(is_transposed ? delta.t() : delta);
    a_weights.push_back(f.weight);
  }
  at::Tensor delta = mix(as, a_weights);
  auto [u, s, v] = at::linalg_svd(is_transposed ? delta.t() : delta, /*full_matrices=*/false);
  int64_t kept = std::min(rank, s.size(0));
  at::Tensor b = u.narrow(1, 0, kept) * s.narrow(0, 0, kept), a = v.narrow(0, 0, kept);
  if (how.svd_clamp) {
    at::Tensor most = at::quantile(at::cat({b.flatten(), a.flatten()}), *how.svd_clamp);
    b = at::clamp(b, -most, most), a = at::clamp(a, -most, most);
  }
  return shaped(a, b);
}

nlohmann::json config_of(const Adapter& adapter) { return nlohmann::json::parse(adapter.config); }

// Returns the union of lists, or the alternation of regular expressions.
nlohmann::json union_of(const std::vector<nlohmann::json>& configs, const char* field) {
  bool any_text = false, any_list = false;
  std::set<std::string> names;
  std::string pattern;
  for (const nlohmann::json& config : configs) {
    const nlohmann::json& value = config.contains(field) ? config[field] : nlohmann::json();
    if (value.is_null()) continue;
    if (value.is_string()) any_text = true, pattern += (pattern.empty() ? "(" : "|(") + value.get<std::string>() + ")";
    else any_list = true, names.merge(value.get<std::set<std::string>>());
  }
  if (any_text && any_list)
    refuse(std::string("the adapters cannot be combined: ") + field +
           " is a list for some and a regular expression for others. Write all of them in the same form.");
  if (any_text &&
      std::all_of(configs.begin(), configs.end(), [&](const nlohmann::json& config) { return config[field] == configs[0][field]; }))
    return configs[0][field];  // Equal expressions stay as they are, since "all-linear" cannot be part of an alternation.
  if (any_text) return pattern;
  return any_list ? nlohmann::json(names) : nlohmann::json();
}

using TensorMap = std::map<std::string, at::Tensor>;

AdapterPointer combine_ia3(const std::string& name, const std::vector<WeightedAdapter>& of, const std::vector<nlohmann::json>& configs,
                           const std::vector<Layer>& layers) {
  TensorMap sums;
  for (const WeightedAdapter& one : of)
    for (const auto& [key, tensor] : tensors_of(*one.adapter, layers)) {
      at::Tensor& sum = sums[key];
      sum = sum.defined() ? sum + tensor * one.weight : tensor * one.weight;
    }
  nlohmann::json config = configs[0];
  for (const char* field : {"target_modules", "feedforward_modules"}) config[field] = union_of(configs, field);
  return make_adapter(name, config.dump(2), Files(sums), layers, {.unmatched_patterns = Unmatched::warn});
}

// The factors of all adapters on one layer, and their names in the file.
struct LayerFactors {
  std::string a_name, b_name;
  bool is_transposed;
  std::vector<LoraFactors> factors;
};

// Zero factors for a layer that none of the adapters applies to.
std::pair<at::Tensor, at::Tensor> no_factors(const Layer& layer, int64_t rank) {
  std::vector<int64_t> a = layer.base.weight.sizes().vec();
  if (layer.kind == LayerKind::conv2d) {
    int64_t outputs = std::exchange(a[0], rank);
    return {at::zeros(a), at::zeros({outputs, rank, 1, 1})};
  }
  if (layer.kind == LayerKind::embedding) return {at::zeros({rank, a[0]}), at::zeros({a[1], rank})};
  return {at::zeros({rank, layer.inputs()}), at::zeros({layer.outputs(), rank})};
}

// As in PEFT, the sum has the layers_to_transform and exclude_modules of the first adapter.
void warn_of_dropped(const std::vector<LayerFactors>& all, const std::vector<size_t>& chosen, const std::vector<Layer>& layers) {
  for (size_t i = 0; i < all.size(); ++i)
    if (!all[i].factors.empty() && std::find(chosen.begin(), chosen.end(), i) == chosen.end())
      TORCH_WARN("combine: the first adapter's layers_to_transform or exclude_modules exclude ", layers[i].path,
                 ", so the sum has no effect there. Name the adapter with more layers first.");
}

AdapterPointer combine_lora(const std::string& name, const std::vector<WeightedAdapter>& of, const std::vector<nlohmann::json>& configs,
                            Combination how, const std::vector<Layer>& layers) {
  if (of.size() == 1) how.type = "linear";
  Mix mix(how);
  int64_t rank = 0;
  std::vector<LayerFactors> all;
  for (const Layer& layer : layers) {
    bool is_embedding = layer.kind == LayerKind::embedding;
    std::string at = kPrefix + layer.path + (is_embedding ? ".lora_embedding_" : ".lora_"), end = is_embedding ? "" : ".weight";
    all.push_back({at + "A" + end, at + "B" + end, is_embedding || layer.kind == LayerKind::conv1d, {}});
  }
  TensorMap tensors;  // The tensors of the new adapter.
  for (size_t k = 0; k < of.size(); ++k) {
    const Adapter& adapter = *of[k].adapter;
    LoraFields lora(formats::Config::parse(adapter.config, "adapter_config.json of \"" + adapter.name + "\""));
    if (lora.dora)
      refuse("\"" + adapter.name + "\" is a DoRA adapter, whose magnitudes have no weighted sum. Use the adapters together with use().");
    if (lora.bias_on_b)
      refuse("\"" + adapter.name + "\" has biases on B (lora_bias), which have no weighted sum. Use the adapters together with use().");
    TensorMap found = tensors_of(adapter, layers);
    int64_t most = lora.r;
    for (size_t i = 0; i < layers.size(); ++i) {
      if (!found.contains(all[i].a_name)) continue;
      most = std::max(most, lora.rank(layers[i].path));
      all[i].factors.push_back({found[all[i].a_name], found[all[i].b_name], of[k].weight, lora.scale(layers[i].path) * adapter.factor});
    }
    if (!mix.is_cat() && !mix.is_svd() && k > 0 && most != rank)
      refuse("adapters of ranks " + std::to_string(rank) + " and " + std::to_string(most) + " cannot be combined by " + how.type +
             ". Use cat or svd.");
    rank = mix.is_cat() ? rank + most : std::max(rank, most);
    for (const auto& [key, tensor] : found) {
      if (key.find(".lora_") != std::string::npos) continue;
      auto [known, is_new] = tensors.emplace(key, tensor);
      if (!is_new && !at::equal(known->second, tensor))
        refuse("two of the adapters have a copy of \"" + key + "\"; copies have no weighted sum. Use one of the adapters at a time.");
    }
  }
  if (mix.is_svd() && how.svd_rank > 0) rank = how.svd_rank;
  nlohmann::json config = configs[0];
  config["r"] = rank, config["lora_alpha"] = rank;
  config["rank_pattern"] = config["alpha_pattern"] = nlohmann::json::object();
  config["use_rslora"] = false;  // The tensors already contain the scales of the sources.
  for (const char* field : {"target_modules", "modules_to_save"}) config[field] = union_of(configs, field);
  std::vector<size_t> chosen = choose_layers(formats::Config(config, "adapter_config.json"), layers, Unmatched::warn);
  for (size_t i : chosen) {
    const LayerFactors& layer = all[i];
    std::tie(tensors[layer.a_name], tensors[layer.b_name]) =
        layer.factors.empty() ? no_factors(layers[i], rank) : combine_factors(layer.factors, mix, rank, layer.is_transposed, how);
  }
  warn_of_dropped(all, chosen, layers);
  return make_adapter(name, config.dump(2), Files(tensors), layers, {.unmatched_patterns = Unmatched::warn});
}

}  // namespace

AdapterPointer combine(const std::string& name, const std::vector<WeightedAdapter>& of, const Combination& how,
                       const std::vector<Layer>& layers) {
  if (of.empty()) refuse("there is nothing to combine. Name at least one adapter.");
  std::vector<nlohmann::json> configs;
  std::string type;
  for (const WeightedAdapter& one : of) {
    configs.push_back(config_of(*one.adapter));
    std::string its = configs.back().at("peft_type");
    if (!type.empty() && its != type)
      refuse("adapters of the methods " + type + " and " + its + " have no weighted sum. Combine adapters of one method.");
    type = its;
  }
  if (type == "IA3") return combine_ia3(name, of, configs, layers);
  if (type == "LORA") return combine_lora(name, of, configs, how, layers);
  refuse("adapters of the method " + type + " have no weighted sum. Only LORA and IA3 can be combined.");
}

}  // namespace tenon::adapters
