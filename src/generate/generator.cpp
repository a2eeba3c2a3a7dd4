// Two compiled functions share one key-value cache: `prefill` processes prompts in chunks of a few fixed lengths, `decode` generates one
// token per sample at a time. Prompts are padded on the left to one length that is a sum of chunks, so all samples write their next keys to
// the same cache position. The position of a chunk is data: nothing is recompiled while texts grow or prompts differ in length.
#include <ATen/core/grad_mode.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <ATen/TensorOperators.h>
#include <tenon/family.h>
#include <tenon/generate.h>

#include <algorithm>

#include "base/error.h"
#include "formats/json.h"
#include "generate/sampling.h"

namespace tenon {

namespace {

// Chunk lengths in tokens, longest first. Prompts are padded to a multiple of the shortest. Each length is one more graph; `bench_decode
// prefill` measures the cost of a prompt. The lengths are an estimate.
constexpr int64_t kPrefillLengths[] = {512, 256, 128, 64, 32, 16};
constexpr int64_t kMinPrefillLength = 16;
constexpr int64_t kInitialCapacity = 2048;  // The initial capacity of the cache, in tokens; it grows on demand. Not measured.

using TokenSequences = std::vector<std::vector<int64_t>>;

// Returns the tokens that end a text according to the model's files.
std::vector<int64_t> ends_of(const CausalModel& model) {
  for (const std::string* text : {&model.generation_config(), &model.config()}) {
    if (text->empty()) continue;
    auto fields = formats::parse_json(*text, text == &model.config() ? "config.json" : "generation_config.json");
    auto found = fields.find("eos_token_id");
    if (found == fields.end() || found->is_null()) continue;
    if (found->is_number_integer()) return {found->get<int64_t>()};
    if (found->is_array() && std::all_of(found->begin(), found->end(), [](const auto& id) { return id.is_number_integer(); }))
      return found->get<std::vector<int64_t>>();
    throw UserError(ErrorCode::config,
                    "eos_token_id must be an integer or a list of integers. Correct it in generation_config.json or config.json.");
  }
  return {};
}

using StepFunction = std::function<at::Tensor(const at::Tensor& ids, const at::Tensor& positions, const at::Tensor& cache_positions,
                                              const at::Tensor& padding, KeyValueCache cache, const std::optional<Rows>& rows)>;

auto compile_step(const std::shared_ptr<CausalModel>& model, Options options, const char* name) {
  options.trust = Trust::pure;
  options.name = name;
  options.watch.insert(options.watch.begin(), {Watched(model), Watched(model->bank())});
  StepFunction step = [model](const at::Tensor& ids, const at::Tensor& positions, const at::Tensor& cache_positions,
                              const at::Tensor& padding, KeyValueCache cache, const std::optional<Rows>& rows) {
    AttentionContext context{
        .positions = positions, .cache = &cache, .cache_positions = cache_positions, .padding = padding, .window = model->sizes().window};
    return model->next(ids, context, rows ? &*rows : nullptr);
  };
  return Compiled<StepFunction>(std::move(step), std::move(options));
}

}  // namespace

struct Generator::Impl {
  Impl(std::shared_ptr<CausalModel> m, const Options& options)
      : model(std::move(m)),
        ends(ends_of(*model)),
        prefill(compile_step(model, options, "prefill")),
        decode(compile_step(model, options, "decode")) {}

  void ensure_capacity(int64_t batch, int64_t slots) {
    bool same = !cache.keys.empty() && cache.keys[0].size(0) == batch;
    if (same && cache.keys[0].size(1) >= slots) return;
    int64_t capacity = same ? cache.keys[0].size(1) : std::min(kInitialCapacity, model->sizes().positions + kMinPrefillLength);
    while (capacity < slots) capacity *= 2;  // Rare, since a new capacity causes a recompilation.
    cache = model->make_cache(batch, capacity);
  }

  std::shared_ptr<CausalModel> model;
  std::vector<int64_t> ends;
  Compiled<StepFunction> prefill, decode;
  KeyValueCache cache;  // Reused by calls with the same batch size.
};

namespace {

// The prompts of one call, padded on the left to one length.
class Batch {
 public:
  explicit Batch(const TokenSequences& prompts) : prompts_(prompts) {
    for (const auto& prompt : prompts) length_ = std::max(length_, static_cast<int64_t>(prompt.size()));
    if (length_ > 1) length_ = (length_ + kMinPrefillLength - 1) / kMinPrefillLength * kMinPrefillLength;
    for (const auto& prompt : prompts) padding_.push_back(length_ - static_cast<int64_t>(prompt.size()));
  }

  int64_t length() const { return length_; }
  at::Tensor padding() const { return at::tensor(padding_); }

  at::Tensor ids(int64_t first, int64_t count) const {
    return make_tensor(
        [&](size_t sample, int64_t i) { return prompts_[sample][static_cast<size_t>(std::max<int64_t>(0, i - padding_[sample]))]; }, first,
        count);
  }
  at::Tensor positions(int64_t first, int64_t count) const {
    return make_tensor([&](size_t sample, int64_t i) { return std::max<int64_t>(0, i - padding_[sample]); }, first, count);
  }

 private:
  template <class F>
  at::Tensor make_tensor(F&& value, int64_t first, int64_t count) const {
    at::Tensor out = at::empty({static_cast<int64_t>(padding_.size()), count}, at::kLong);
    int64_t* to = out.data_ptr<int64_t>();
    for (size_t sample = 0; sample < padding_.size(); ++sample)
      for (int64_t i = first; i < first + count; ++i) *to++ = value(sample, i);
    return out;
  }

  const TokenSequences& prompts_;
  int64_t length_ = 0;
  std::vector<int64_t> padding_;
};

void check_prompts(const TokenSequences& prompts, const CausalModel::Sizes& sizes, int64_t new_tokens) {
  if (prompts.empty()) throw UserError(ErrorCode::generate, "no prompt was given. Pass at least one list of token ids.");
  for (const auto& prompt : prompts) {
    if (prompt.empty()) throw UserError(ErrorCode::generate, "a prompt is empty. Begin it with the model's first token (bos_token_id).");
    for (int64_t id : prompt)
      if (id < 0 || id >= sizes.vocabulary)
        throw UserError(ErrorCode::generate, "token " + std::to_string(id) + " is not in the model's vocabulary of " +
                                                 std::to_string(sizes.vocabulary) +
                                                 " tokens. Encode the prompt with the model's own tokenizer.");
    if (static_cast<int64_t>(prompt.size()) + new_tokens > sizes.positions)
      throw UserError(ErrorCode::generate, "a prompt of " + std::to_string(prompt.size()) + " tokens and " + std::to_string(new_tokens) +
                                               " new ones exceed the model's " + std::to_string(sizes.positions) +
                                               " positions. Shorten the prompt or lower max_new_tokens.");
  }
}

}  // namespace

Generator::Generator(std::shared_ptr<CausalModel> model, Options options) {
  detail::check_not_null(model == nullptr, "the model");
  impl_ = std::make_unique<Impl>(std::move(model), options);
}
Generator::~Generator() = default;

TokenSequences Generator::operator()(const TokenSequences& prompts, const GenerateOptions& options, const OnToken& on_token) {
  generate::check(options);
  check_prompts(prompts, impl_->model->sizes(), options.max_new_tokens);
  if (options.rows && options.rows->entries.numel() != static_cast<int64_t>(prompts.size()))
    throw UserError(ErrorCode::generate, "there are " + std::to_string(options.rows->entries.numel()) + " rows for " +
                                             std::to_string(prompts.size()) + " prompts. Give rows() one name for each prompt.");
  TokenSequences out(prompts.size());
  if (options.max_new_tokens == 0) return out;
  at::NoGradGuard no_grad;
  at::Generator random = at::detail::createCPUGenerator(options.seed);
  const std::vector<int64_t>& ends = options.stop ? *options.stop : impl_->ends;
  Batch batch(prompts);
  int64_t length = batch.length(), samples = static_cast<int64_t>(prompts.size());
  impl_->ensure_capacity(samples, length + options.max_new_tokens);
  at::Tensor padding = batch.padding(), logits;
  auto step = [&](Compiled<StepFunction>& compiled, const at::Tensor& ids, int64_t first) {
    int64_t count = ids.size(1);
    logits = compiled(ids, batch.positions(first, count), at::arange(first, first + count, at::kLong), padding, impl_->cache, options.rows);
  };
  if (length == 1) step(impl_->decode, batch.ids(0, 1), 0);
  for (int64_t first = 0; length > 1 && first < length;) {
    int64_t count = *std::find_if(std::begin(kPrefillLengths), std::end(kPrefillLengths),
                                  [&](int64_t candidate) { return candidate <= length - first; });
    step(impl_->prefill, batch.ids(first, count), first);
    first += count;
  }
  TokenSequences all = prompts;
  std::vector<bool> done(prompts.size());
  at::Tensor next = at::empty({samples, 1}, at::kLong);
  for (int64_t position = length;; ++position) {
    std::vector<int64_t> chosen = generate::choose(logits, all, options, random);
    for (size_t i = 0; i < chosen.size(); ++i) {
      next.data_ptr<int64_t>()[i] = chosen[i];
      if (done[i]) continue;
      out[i].push_back(chosen[i]), all[i].push_back(chosen[i]);
      bool ended = std::find(ends.begin(), ends.end(), chosen[i]) != ends.end();
      if (on_token && !on_token(i, chosen[i])) ended = true;
      done[i] = ended;
    }
    bool all_done = std::all_of(done.begin(), done.end(), [](bool d) { return d; });
    if (all_done || position - length + 1 == options.max_new_tokens) return out;
    step(impl_->decode, next, position);
  }
}

const std::shared_ptr<Region>& Generator::prefill() const { return impl_->prefill.region(); }
const std::shared_ptr<Region>& Generator::decode() const { return impl_->decode.region(); }

std::shared_ptr<CausalModel> load_causal_model(const std::string& directory, std::optional<at::ScalarType> dtype) {
  auto model = std::dynamic_pointer_cast<CausalModel>(load_model(directory, dtype));
  if (!model) throw UserError(ErrorCode::config, directory + ": the model is not a causal language model. Load it with load_model.");
  return model;
}

}  // namespace tenon
