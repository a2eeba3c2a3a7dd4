// Text that goes on: greedy or sampled, compiled, with keys and values kept in place.
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
  bool sample = false;  // else the likeliest token, each time
  double temperature = 1;
  int64_t top_k = 0;  // of how many tokens one is drawn; 0: of all
  double top_p = 1;   // of the likeliest that together have this probability
  double repetition_penalty = 1;
  std::optional<std::vector<int64_t>> stop;  // tokens that end a row; by default those of generation_config.json or config.json
  uint64_t seed = 0;                         // equal seeds draw equal tokens
  std::optional<Rows> rows;                  // which adapter each prompt uses; without them what the bank uses
};

// Hears each token as it comes; false ends the row after it.
using OnToken = std::function<bool(size_t row, int64_t token)>;

class Generator {
 public:
  // `options` as for compile; trust is pure. Throws UserError if the model is null.
  explicit Generator(std::shared_ptr<CausalModel> model, Options options = {.mode = Mode::reduce_overhead});
  ~Generator();

  // What follows each prompt, the token that ended it included. Prompts may differ in length; none may be empty.
  std::vector<std::vector<int64_t>> operator()(const std::vector<std::vector<int64_t>>& prompts, const GenerateOptions& options = {},
                                               const OnToken& on_token = {});

  // For explain and stats: what reads the prompts, and what makes one token after another.
  const std::shared_ptr<detail::Region>& prefill() const;
  const std::shared_ptr<detail::Region>& decode() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// load_model for a model that continues text; throws UserError(config) for any other.
std::shared_ptr<CausalModel> load_causal_model(const std::string& directory, std::optional<at::ScalarType> dtype = {});

}  // namespace tenon
