#include "adapters/boft/boft.h"
#include "adapters/config_text.h"
#include "base/error.h"

namespace tenon::adapters {

BoftFields::BoftFields(const formats::Config& config)
    : block_size(config.integer_or("boft_block_size", 4, 0, 1 << 20)), block_count(config.integer_or("boft_block_num", 0, 0, 1 << 20)) {
  if ((block_size == 0) == (block_count == 0)) config.fail("boft_block_size", "and boft_block_num: exactly one of them must be 0");
  if (config.integer_or("boft_n_butterfly_factor", 1, 1, 64) != 1)
    config.fail("boft_n_butterfly_factor", "is not 1; PEFT writes such files only with its CUDA extension, and they are not supported");
  dropout = config.number_or("boft_dropout", 0, 0, 1);
  config.boolean_or("fan_in_fan_out", false), config.boolean_or("init_weights", true);
}

std::pair<int64_t, int64_t> BoftFields::blocks(const Layer& layer) const {
  need_linear_or_conv(layer, "BOFT");
  int64_t in = layer.base.weight.numel() / layer.outputs(), given = block_size ? block_size : block_count;
  if (in % given != 0)
    throw UserError(ErrorCode::adapter, layer.path + ": " + (block_size ? "boft_block_size " : "boft_block_num ") + std::to_string(given) +
                                            " does not divide the layer's " + std::to_string(in) + " inputs. Choose a divisor.");
  return block_size ? std::pair(in / given, given) : std::pair(given, in / given);
}

}  // namespace tenon::adapters

namespace tenon {

std::string to_json(const BOFTConfig& config) {
  adapters::OrderedJson out = adapters::shared_fields("BOFT", config);
  out["boft_block_size"] = config.boft_block_size;
  out["boft_block_num"] = config.boft_block_num;
  out["boft_n_butterfly_factor"] = config.boft_n_butterfly_factor;
  out["boft_dropout"] = config.boft_dropout;
  out["init_weights"] = config.init_weights;
  out["fan_in_fan_out"] = false;
  return adapters::config_text(out);
}

}  // namespace tenon
