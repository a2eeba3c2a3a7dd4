#include <ATen/ops/zeros.h>

#include <nlohmann/json.hpp>

#include "adapters/lokr/lokr.h"

namespace tenon::adapters {

namespace {

// The tensor that is zero, so that the adapter has no effect: the first factor, the second one, or none.
enum class LokrZero { first, second, none };

LokrZero zero_of(const formats::Config& config) {
  if (!config.has("init_weights")) return LokrZero::first;
  const nlohmann::json& value = config.any("init_weights");
  if (value == "lycoris") return LokrZero::second;
  if (!value.is_boolean()) config.fail("init_weights", "is " + value.dump() + ". Use true, false or \"lycoris\"");
  return value.get<bool>() ? LokrZero::first : LokrZero::none;
}

}  // namespace

void create_lokr(const formats::Config& config, const ChosenLayers& chosen, NewTensors& tensors) {
  LokrFields lokr(config);
  LokrZero zero = zero_of(config);
  chosen.for_each([&](const Layer& layer) {
    need_linear_or_conv(layer, "LoKr");
    LokrShape shape = lokr.shape(layer);
    auto put = [&](const std::string& name, const std::vector<int64_t>& sizes, bool is_zero) {
      tensors.put(layer, "lokr_" + name, is_zero ? at::zeros(sizes) : draw_kaiming_uniform(sizes));
    };
    if (!shape.first.empty()) put("w1", shape.first, zero == LokrZero::first);
    else put("w1_a", shape.first_a, zero == LokrZero::first), put("w1_b", shape.first_b, false);
    if (!shape.second.empty()) put("w2", shape.second, zero == LokrZero::second);
    else put("w2_a", shape.second_a, false), put("w2_b", shape.second_b, zero == LokrZero::second);
    if (!shape.second_t.empty()) put("t2", shape.second_t, false);
  });
}

}  // namespace tenon::adapters
