#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <ATen/TensorOperators.h>

#include <nlohmann/json.hpp>

#include "adapters/lora/lora.h"
#include "base/error.h"
#include "base/text.h"

namespace tenon::adapters {

namespace {

// The initial values: A uniform and B zero, both random, A normal and B zero, or products of an orthogonal matrix.
enum class LoraStart { uniform, random, gaussian, orthogonal };

constexpr const char* kBuilt = "Use true, false, \"gaussian\" or \"orthogonal\"";

LoraStart start_of(const formats::Config& config) {
  if (!config.has("init_lora_weights")) return LoraStart::uniform;
  const nlohmann::json& value = config.any("init_lora_weights");
  if (value.is_boolean()) return value.get<bool>() ? LoraStart::uniform : LoraStart::random;
  std::string name = value.is_string() ? value.get<std::string>() : "";
  if (is_gaussian(name)) return LoraStart::gaussian;
  if (name == "orthogonal") return LoraStart::orthogonal;
  auto refuse = [&](const std::string& why) { config.fail("init_lora_weights", "is " + shown(name) + ", which " + why); };
  if (name.starts_with("pissa") || name == "olora" || name == "loftq")
    refuse(std::string("changes the weights of the base, and a bank shares them among its adapters. ") + kBuilt +
           ", or create the adapter in PEFT, save it with path_initial_model_for_weight_conversion and load it");
  if (name == "corda" || name == "lora_ga")
    refuse(std::string("needs training data and changes the weights of the base. ") + kBuilt +
           ", or create the adapter in PEFT, save it with path_initial_model_for_weight_conversion and load it");
  if (name == "eva")
    refuse(std::string("needs training data. ") + kBuilt + ", or create the adapter with PEFT's initialize_lora_eva_weights and load it");
  if (name == "mica") refuse(std::string("trains only one of the two factors, which is not supported. ") + kBuilt);
  config.fail("init_lora_weights", "is " + value.dump() + ", which is not an initialization of LoRA. " + kBuilt);
}

struct LoraTensors {
  at::Tensor a, b, bias;  // The bias may be undefined.
};

LoraTensors orthogonal(int64_t r, const Layer& layer) {
  if (r % 2 != 0)
    throw UserError(ErrorCode::adapter, layer.path + ": init_lora_weights \"orthogonal\" needs an even rank, not " + std::to_string(r) +
                                            ". Change r or rank_pattern.");
  at::Tensor q = std::get<0>(at::linalg_qr(draw_randn({r, r})));
  at::Tensor a = draw_randn({layer.inputs(), r / 2}).mm(q.slice(0, 0, r, 2)).t() / 10.0;
  return {a.contiguous(), (draw_randn({r / 2, layer.outputs()}).t().mm(q.slice(0, 1, r, 2)) / 10.0).contiguous(), {}};
}

// Linear layers and convolutions. libtorch's modules initialize themselves first.
LoraTensors draw(LoraStart start, bool has_bias, int64_t r, const Layer& layer) {
  bool is_conv = layer.kind == LayerKind::conv2d;
  auto kernel = layer.base.weight.sizes();
  std::vector<int64_t> a_sizes = {r, layer.inputs()}, b_sizes = {layer.outputs(), r};
  if (is_conv) a_sizes = {r, kernel[1], kernel[2], kernel[3]}, b_sizes = {kernel[0], r, 1, 1};
  LoraTensors out{draw_kaiming_uniform(a_sizes), {}, {}};
  out.b = draw_kaiming_uniform(b_sizes);
  if (has_bias) out.bias = draw_linear_bias(layer.outputs(), r);
  if (start == LoraStart::random) return out;
  if (start == LoraStart::orthogonal && is_conv)
    throw UserError(ErrorCode::adapter, layer.path + " is a convolution, for which init_lora_weights \"orthogonal\" does not exist. " +
                                            "Use true or \"gaussian\".");
  if (start == LoraStart::orthogonal) return orthogonal(r, layer);
  out.a = start == LoraStart::gaussian ? draw_normal(a_sizes, 0, 1.0 / static_cast<double>(r)) : draw_kaiming_uniform(a_sizes);
  out.b = at::zeros(b_sizes);
  if (has_bias) out.bias = at::zeros_like(out.bias);
  return out;
}

LoraTensors draw_embedding(LoraStart start, int64_t r, const Layer& layer) {
  int64_t count = layer.base.weight.size(0), width = layer.base.weight.size(1);
  LoraTensors out{draw_randn({r, count}), {}, {}};
  out.b = draw_randn({width, r});
  if (start == LoraStart::random) return out;
  return {at::zeros({r, count}), draw_normal({width, r}, 0, 1), {}};
}

// The norms of the weight with LoRA in it, computed in the type of the base. f16 products are computed in f32.
at::Tensor magnitude(at::Tensor a, at::Tensor b, double scale, const Layer& layer) {
  bool is_half = a.scalar_type() == at::kHalf, is_conv = layer.kind == LayerKind::conv2d;
  if (is_half) a = a.to(at::kFloat), b = b.to(at::kFloat);
  const at::Tensor& weight = layer.base.weight;
  at::Tensor delta = is_conv ? b.view({-1, a.size(0)}).mm(a.view({a.size(0), -1})).reshape(weight.sizes()) : b.matmul(a);
  if (is_half) delta = delta.to(at::kHalf);
  at::Tensor whole = (layer.outputs_dim() == 1 ? weight.t() : weight) + delta * scale;
  if (is_conv) return at::linalg_vector_norm(whole, 2, at::IntArrayRef({1, 2, 3}), /*keepdim=*/true).transpose(1, 0);
  return at::linalg_vector_norm(whole, 2, at::IntArrayRef({1})).to(whole.scalar_type());
}

}  // namespace

void create_lora(const formats::Config& config, const ChosenLayers& chosen, NewTensors& tensors) {
  LoraStart start = start_of(config);
  LoraFields lora(config);
  if (lora.bias_on_b && start != LoraStart::uniform && start != LoraStart::random)
    config.fail("lora_bias", "can only be combined with an init_lora_weights of true or false");
  chosen.for_each([&](const Layer& layer) {
    if (layer.is_norm()) refuse_layer(layer, "LoRA");
    bool is_embedding = layer.kind == LayerKind::embedding;
    int64_t r = lora.rank(layer.path);
    LoraTensors drawn = is_embedding ? draw_embedding(start, r, layer) : draw(start, lora.bias_on_b, r, layer);
    at::Tensor a = tensors.put(layer, is_embedding ? "lora_embedding_A" : "lora_A.weight", drawn.a);
    at::Tensor b = tensors.put(layer, is_embedding ? "lora_embedding_B" : "lora_B.weight", drawn.b);
    if (drawn.bias.defined()) tensors.put(layer, "lora_B.bias", drawn.bias);
    if (lora.dora) tensors.put(layer, "lora_magnitude_vector", magnitude(a, b, lora.scale(layer.path), layer));
  });
}

}  // namespace tenon::adapters
