#include "adapters/config_text.h"
#include "adapters/oft/oft.h"

namespace tenon::adapters {

OftFields::OftFields(const formats::Config& config)
    : shares_block(config.boolean_or("block_share", false)),
      uses_series(config.boolean_or("use_cayley_neumann", true)),
      terms(config.integer_or("num_cayley_neumann_terms", 5, 1, 64)),
      is_constrained(config.boolean_or("coft", false)),
      eps(config.number_or("eps", 6e-5, 0, 1e9)) {
  if (!config.has("oft_block_size"))
    config.fail("oft_block_size", "is missing: the file has an older format of OFT, which is not supported. Save it with a newer PEFT.");
  block_size = config.integer_or("oft_block_size", 32, 0, 1 << 20), block_count = config.integer_or("r", 0, 0, 1 << 20);
  config.number_or("module_dropout", 0, 0, 1);
  config.boolean_or("fan_in_fan_out", false), config.boolean_or("init_weights", true);
}

}  // namespace tenon::adapters

namespace tenon {

std::string to_json(const OFTConfig& config) {
  adapters::OrderedJson out = adapters::shared_fields("OFT", config);
  out["r"] = config.r;
  out["oft_block_size"] = config.oft_block_size;
  out["module_dropout"] = config.module_dropout;
  out["init_weights"] = config.init_weights;
  out["block_share"] = config.block_share;
  out["use_cayley_neumann"] = config.use_cayley_neumann;
  out["num_cayley_neumann_terms"] = config.num_cayley_neumann_terms;
  out["fan_in_fan_out"] = false;
  out["coft"] = config.coft;
  out["eps"] = config.eps;
  return adapters::config_text(out);
}

}  // namespace tenon
