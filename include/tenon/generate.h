// Text generation, greedy or sampled, with compiled prefill and decode steps and a key-value cache that is updated in place.
//
//   tenon::Generator generate(tenon::load_causal_model("llama/"));
//   auto rows = generate({prompt_ids}, {.max_new_tokens = 64}, [](size_t row, int64_t token) { ...; return true; });
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <tenon/causal.h>

namespace tenon {

struct GenerateOptions {
  int64_t max_new_tokens = 128;
  // Draws each token at random instead of taking the most likely one.
  bool sample = false;
  double temperature = 1;
  // Number of most likely tokens to draw from; 0 for all.
  int64_t top_k = 0;
  // Draws from the most likely tokens whose probabilities add up to this.
  double top_p = 1;
  double repetition_penalty = 1;
  // Tokens that end a text. The default is that of generation_config.json or config.json.
  std::optional<std::vector<int64_t>> stop;
  // Equal seeds draw equal tokens.
  uint64_t seed = 0;
  // Adapter of each prompt. The default is what Bank::use chose.
  std::optional<Rows> rows;
};

// Called with each new token of each prompt, on the thread that generates. Returning false ends that text.
using OnToken = std::function<bool(size_t row, int64_t token)>;

// Generates text with one model. A generator may be used by one thread at a time; several generators may share a model.
class TENON_API Generator {
 public:
  // `options` are those of compile(), except that trust is always pure. Throws UserError if the model is null.
  explicit Generator(std::shared_ptr<CausalModel> model, Options options = {.mode = Mode::reduce_overhead});
  ~Generator();

  // Returns the new tokens of each prompt, including the stop token. Prompts may differ in length. Throws UserError(generate) for an
  // empty prompt or settings that make no sense.
  std::vector<std::vector<int64_t>> operator()(const std::vector<std::vector<int64_t>>& prompts, const GenerateOptions& options = {},
                                               const OnToken& on_token = {});

  // The compiled functions that process the prompts and that generate one token per call, for explain().
  const std::shared_ptr<Region>& prefill() const;
  const std::shared_ptr<Region>& decode() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Loads a causal language model. Throws what load_model throws, and UserError(config) for a model of another kind.
TENON_API std::shared_ptr<CausalModel> load_causal_model(const std::string& directory, std::optional<at::ScalarType> dtype = {});

}  // namespace tenon
