#include "adapters/boft/boft.h"

namespace tenon::adapters {

BoftConfig::BoftConfig(const formats::Config& config)
    : block_size(config.integer_or("boft_block_size", 4, 0, 1 << 20)), block_count(config.integer_or("boft_block_num", 0, 0, 1 << 20)) {
  if ((block_size == 0) == (block_count == 0)) config.fail("boft_block_size", "and boft_block_num: exactly one of them must be 0");
  if (config.integer_or("boft_n_butterfly_factor", 1, 1, 64) != 1)
    config.fail("boft_n_butterfly_factor", "is not 1; PEFT writes such files only with its CUDA extension, and they are not supported");
  config.number_or("boft_dropout", 0, 0, 1);
  config.boolean_or("fan_in_fan_out", false), config.boolean_or("init_weights", true);
}

}  // namespace tenon::adapters
