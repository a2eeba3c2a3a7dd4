// Configurations of new adapters for Bank::create, one struct per PEFT method, with PEFT's field names and defaults.
//   bank.create("french", tenon::LoraConfig{.r = 16, .lora_alpha = 32, .lora_dropout = 0.05, .target_modules = {"q_proj", "v_proj"}});
//
// C++ wants designated initializers in the order of the declaration: the method's own fields, the choice of layers, then what methods
// share. An empty string or list is null. Without target_modules PEFT's table of model types chooses the layers. Fields that Tenon does not
// support are missing, and so is fan_in_fan_out, which the layers determine.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <tenon/export.h>

namespace tenon {

using IntegerOrReal = std::variant<int64_t, double>;  // The file keeps the difference between 8 and 8.0.
using BoolOrText = std::variant<bool, std::string>;
// Values by Python regular expressions; the first one that matches a layer's path, or its end after a dot, counts.
using RankPattern = std::vector<std::pair<std::string, int64_t>>;
using AlphaPattern = std::vector<std::pair<std::string, IntegerOrReal>>;

// A choice of layers: null, a list of names that a path equals or ends with after a dot, or a Python regular expression for whole paths.
// The expression "all-linear" chooses all linear layers but the output layer.
class ModuleSelector {
 public:
  ModuleSelector() = default;
  ModuleSelector(std::initializer_list<const char*> names) : names_(names.begin(), names.end()) {}
  ModuleSelector(std::vector<std::string> names) : names_(std::move(names)) {}
  ModuleSelector(std::string pattern) : pattern_(std::move(pattern)) {}
  ModuleSelector(const char* pattern) : pattern_(pattern) {}

  const std::vector<std::string>& names() const { return names_; }
  const std::string& pattern() const { return pattern_; }

 private:
  std::vector<std::string> names_;
  std::string pattern_;
};

// Tokens whose embeddings are trained: null, ids of the input embedding, or ids by the name of a layer.
class TokenIndices {
 public:
  using ByLayer = std::vector<std::pair<std::string, std::vector<int64_t>>>;
  TokenIndices() = default;
  TokenIndices(std::initializer_list<int64_t> ids) : ids_(ids) {}
  TokenIndices(std::vector<int64_t> ids) : ids_(std::move(ids)) {}
  TokenIndices(std::initializer_list<ByLayer::value_type> by_layer) : by_layer_(by_layer) {}
  TokenIndices(ByLayer by_layer) : by_layer_(std::move(by_layer)) {}

  const std::vector<int64_t>& ids() const { return ids_; }
  const ByLayer& by_layer() const { return by_layer_; }

 private:
  std::vector<int64_t> ids_;
  ByLayer by_layer_;
};

struct LoraConfig {
  int64_t r = 8;
  IntegerOrReal lora_alpha = int64_t{8};
  double lora_dropout = 0;
  bool use_rslora = false, use_dora = false, lora_bias = false;
  BoolOrText init_lora_weights = true;  // One of true, false, "gaussian" and "orthogonal".
  RankPattern rank_pattern = {};
  AlphaPattern alpha_pattern = {};
  ModuleSelector target_modules = {}, exclude_modules = {};
  std::vector<int64_t> layers_to_transform = {};
  std::vector<std::string> layers_pattern = {}, modules_to_save = {};
  TokenIndices trainable_token_indices = {};
  std::string bias = "none";  // One of "none", "all" and "lora_only".
  std::string task_type = {}, base_model_name_or_path = {}, revision = {};
};

struct AdaLoraConfig {
  int64_t target_r = 8, init_r = 12, tinit = 0, tfinal = 0, deltaT = 1;
  double beta1 = 0.85, beta2 = 0.85, orth_reg_weight = 0.5;
  int64_t total_step = 0;  // The number of training steps, which must be given.
  IntegerOrReal lora_alpha = int64_t{8};
  double lora_dropout = 0;
  bool init_lora_weights = true;
  ModuleSelector target_modules = {}, exclude_modules = {};
  std::vector<int64_t> layers_to_transform = {};
  std::vector<std::string> layers_pattern = {}, modules_to_save = {};
  TokenIndices trainable_token_indices = {};
  std::string bias = "none";  // One of "none", "all" and "lora_only".
  std::string task_type = {}, base_model_name_or_path = {}, revision = {};
};

struct LoHaConfig {
  int64_t r = 8;
  IntegerOrReal alpha = int64_t{8};
  double rank_dropout = 0, module_dropout = 0;
  bool use_effective_conv2d = false, init_weights = true;
  RankPattern rank_pattern = {};
  AlphaPattern alpha_pattern = {};
  ModuleSelector target_modules = {}, exclude_modules = {};
  std::vector<int64_t> layers_to_transform = {};
  std::vector<std::string> layers_pattern = {}, modules_to_save = {};
  std::string task_type = {}, base_model_name_or_path = {}, revision = {};
};

struct LoKrConfig {
  int64_t r = 8;
  IntegerOrReal alpha = int64_t{8};
  double rank_dropout = 0, module_dropout = 0;
  bool use_effective_conv2d = false, decompose_both = false;
  int64_t decompose_factor = -1;
  bool rank_dropout_scale = false;
  BoolOrText init_weights = true;  // One of true, false and "lycoris".
  RankPattern rank_pattern = {};
  AlphaPattern alpha_pattern = {};
  ModuleSelector target_modules = {}, exclude_modules = {};
  std::vector<int64_t> layers_to_transform = {};
  std::vector<std::string> layers_pattern = {}, modules_to_save = {};
  std::string task_type = {}, base_model_name_or_path = {}, revision = {};
};

struct IA3Config {
  bool init_ia3_weights = true;
  ModuleSelector target_modules = {}, exclude_modules = {}, feedforward_modules = {};
  std::vector<std::string> modules_to_save = {};
  std::string task_type = {}, base_model_name_or_path = {}, revision = {};
};

struct OFTConfig {
  int64_t r = 0, oft_block_size = 32;  // The number of blocks and their size; exactly one of them is 0.
  double module_dropout = 0;           // PEFT stores it and never applies it.
  bool init_weights = true, block_share = false, use_cayley_neumann = true, coft = false;
  int64_t num_cayley_neumann_terms = 5;
  double eps = 6e-5;  // The distance that rotations may have from the identity, if `coft` is true.
  ModuleSelector target_modules = {}, exclude_modules = {};
  std::vector<int64_t> layers_to_transform = {};
  std::vector<std::string> layers_pattern = {}, modules_to_save = {};
  std::string bias = "none";  // One of "none", "all" and "oft_only".
  std::string task_type = {}, base_model_name_or_path = {}, revision = {};
};

struct BOFTConfig {
  int64_t boft_block_size = 4, boft_block_num = 0, boft_n_butterfly_factor = 1;  // Exactly one of the first two is 0.
  double boft_dropout = 0;
  bool init_weights = true;
  ModuleSelector target_modules = {}, exclude_modules = {};
  std::vector<int64_t> layers_to_transform = {};
  std::vector<std::string> layers_pattern = {}, modules_to_save = {};
  std::string bias = "none";  // One of "none", "all" and "boft_only".
  std::string task_type = {}, base_model_name_or_path = {}, revision = {};
};

struct VeraConfig {
  int64_t r = 256, projection_prng_key = 0;
  bool save_projection = true, init_weights = true;
  double vera_dropout = 0, d_initial = 0.1;
  ModuleSelector target_modules = {};
  std::vector<int64_t> layers_to_transform = {};
  std::vector<std::string> layers_pattern = {}, modules_to_save = {};
  std::string bias = "none";  // One of "none", "all" and "vera_only".
  std::string task_type = {}, base_model_name_or_path = {}, revision = {};
};

struct HRAConfig {
  int64_t r = 8;
  bool apply_GS = false, init_weights = true;
  ModuleSelector target_modules = {}, exclude_modules = {};
  std::vector<int64_t> layers_to_transform = {};
  std::vector<std::string> layers_pattern = {}, modules_to_save = {};
  std::string bias = "none";  // One of "none", "all" and "hra_only".
  std::string task_type = {}, base_model_name_or_path = {}, revision = {};
};

struct LNTuningConfig {
  ModuleSelector target_modules = {}, exclude_modules = {};
  std::vector<std::string> modules_to_save = {};
  std::string task_type = {}, base_model_name_or_path = {}, revision = {};
};

struct TrainableTokensConfig {
  std::vector<int64_t> token_indices = {};
  bool init_weights = true;
  ModuleSelector target_modules = {};  // Null is the input embedding.
  std::string task_type = {}, base_model_name_or_path = {}, revision = {};
};

// Returns the text of adapter_config.json, with all fields of the method.
TENON_API std::string to_json(const LoraConfig& config);
TENON_API std::string to_json(const AdaLoraConfig& config);
TENON_API std::string to_json(const LoHaConfig& config);
TENON_API std::string to_json(const LoKrConfig& config);
TENON_API std::string to_json(const IA3Config& config);
TENON_API std::string to_json(const OFTConfig& config);
TENON_API std::string to_json(const BOFTConfig& config);
TENON_API std::string to_json(const VeraConfig& config);
TENON_API std::string to_json(const HRAConfig& config);
TENON_API std::string to_json(const LNTuningConfig& config);
TENON_API std::string to_json(const TrainableTokensConfig& config);

}  // namespace tenon
