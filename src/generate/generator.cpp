// Two compiled functions share one key-value cache: `prefill` processes prompts in chunks of a few fixed lengths, `decode` generates one
// token per sample at a time. Prompts are padded on the left to one length that is a sum of chunks, so all samples write their next keys to
// the same cache position. The position of a chunk is data, and batch size and cache capacity are symbols of the graphs: nothing is
// recompiled while texts grow, prompts differ in length or number, and texts that have ended leave the batch.
#include <ATen/core/grad_mode.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/TensorOperators.h>
#include <tenon/family.h>
#include <tenon/generate.h>

#include <algorithm>

#include "base/error.h"
#include "formats/json.h"
#include "generate/sampling.h"

namespace tenon {

namespace {

// Chunk lengths in tokens, longest first. Prompts are padded to a multiple of the shortest. `bench_decode prefill` measures the cost of a
// prompt. The lengths are an estimate.
constexpr int64_t kPrefillLengths[] = {512, 256, 128, 64, 32, 16};
constexpr int64_t kMinPrefillLength = 16;
constexpr int64_t kInitialCapacity = 2048;  // The initial capacity of the cache, in tokens; it grows on demand. Not measured.
// Texts that have ended leave the batch once at most this part of it goes on: leaving copies the cache of those that move up.
constexpr double kMaxActivePart = 0.75;

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
    int64_t known_batch = cache.keys.empty() ? 0 : cache.keys[0].size(0), known = cache.keys.empty() ? 0 : cache.keys[0].size(1);
    if (known_batch >= batch && known >= slots) return;
    int64_t capacity = known > 0 ? known : std::min(kInitialCapacity, model->sizes().positions + kMinPrefillLength);
    while (capacity < slots) capacity *= 2;
    cache = {};  // Freed before the larger one is allocated.
    cache = model->make_cache(std::max(batch, known_batch), capacity);
  }

  // The first rows of the cache.
  KeyValueCache rows(int64_t batch) const {
    KeyValueCache out;
    for (const at::Tensor& t : cache.keys) out.keys.push_back(t.narrow(0, 0, batch));
    for (const at::Tensor& t : cache.values) out.values.push_back(t.narrow(0, 0, batch));
    return out;
  }

  // Moves these rows, in ascending order, to the beginning of the cache. `filled` is the number of tokens in it.
  void move_up(const std::vector<int64_t>& kept, int64_t filled) const {
    for (const auto* list : {&cache.keys, &cache.values})
      for (const at::Tensor& t : *list)
        for (size_t i = 0; i < kept.size(); ++i)
          if (kept[i] != static_cast<int64_t>(i))
            t.select(0, static_cast<int64_t>(i)).narrow(0, 0, filled).copy_(t.select(0, kept[i]).narrow(0, 0, filled));
  }

  std::shared_ptr<CausalModel> model;
  std::vector<int64_t> ends;
  Compiled<StepFunction> prefill, decode;
  KeyValueCache cache;  // Reused by later calls; has rows for the largest batch so far.
};

namespace {

// The prompts of one call whose texts go on, padded on the left to one length.
class Batch {
 public:
  explicit Batch(const TokenSequences& prompts) : prompts_(prompts) {
    for (const auto& prompt : prompts) length_ = std::max(length_, static_cast<int64_t>(prompt.size()));
    if (length_ > 1) length_ = (length_ + kMinPrefillLength - 1) / kMinPrefillLength * kMinPrefillLength;
    for (size_t i = 0; i < prompts.size(); ++i) rows_.push_back(i);
  }

  int64_t length() const { return length_; }
  // The index of the prompt of each row.
  const std::vector<size_t>& rows() const { return rows_; }
  // Keeps the rows with these indices.
  void keep(const std::vector<int64_t>& kept) {
    for (size_t i = 0; i < kept.size(); ++i) rows_[i] = rows_[static_cast<size_t>(kept[i])];
    rows_.resize(kept.size());
  }

  at::Tensor padding() const {
    return make_tensor([&](size_t prompt, int64_t) { return padding(prompt); }, 0, 1).squeeze(1);
  }
  at::Tensor ids(int64_t first, int64_t count) const {
    auto id = [&](size_t prompt, int64_t i) { return prompts_[prompt][static_cast<size_t>(std::max<int64_t>(0, i - padding(prompt)))]; };
    return make_tensor(id, first, count);
  }
  at::Tensor positions(int64_t first, int64_t count) const {
    return make_tensor([&](size_t prompt, int64_t i) { return std::max<int64_t>(0, i - padding(prompt)); }, first, count);
  }

 private:
  int64_t padding(size_t prompt) const { return length_ - static_cast<int64_t>(prompts_[prompt].size()); }

  template <class F>
  at::Tensor make_tensor(F&& value, int64_t first, int64_t count) const {
    at::Tensor out = at::empty({static_cast<int64_t>(rows_.size()), count}, at::kLong);
    int64_t* to = out.data_ptr<int64_t>();
    for (size_t prompt : rows_)
      for (int64_t i = first; i < first + count; ++i) *to++ = value(prompt, i);
    return out;
  }

  const TokenSequences& prompts_;
  int64_t length_ = 0;
  std::vector<size_t> rows_;
};

// Chooses the next token of each row of the batch. Random numbers are drawn for all prompts, as if no text had ended.
std::vector<int64_t> choose_tokens(const Batch& batch, const at::Tensor& logits, const TokenSequences& texts,
                                   const GenerateOptions& options, at::Generator& random) {
  if (batch.rows().size() == texts.size()) return generate::choose(logits, texts, options, random);
  std::vector<int64_t> rows(batch.rows().begin(), batch.rows().end());
  if (!options.sample) {
    TokenSequences some;
    for (size_t prompt : batch.rows()) some.push_back(texts[prompt]);
    return generate::choose(logits, some, options, random);
  }
  at::Tensor all = at::zeros({static_cast<int64_t>(texts.size()), logits.size(1)}, logits.options());
  all.index_copy_(0, at::tensor(rows), logits);
  std::vector<int64_t> chosen = generate::choose(all, texts, options, random), out;
  for (size_t prompt : batch.rows()) out.push_back(chosen[prompt]);
  return out;
}

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
  KeyValueCache cache = impl_->rows(samples);
  std::optional<Rows> rows = options.rows;
  at::Tensor padding = batch.padding(), logits;
  auto step = [&](Compiled<StepFunction>& compiled, const at::Tensor& ids, int64_t first) {
    int64_t count = ids.size(1);
    logits = compiled(ids, batch.positions(first, count), at::arange(first, first + count, at::kLong), padding, cache, rows);
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
  for (int64_t position = length;; ++position) {
    std::vector<int64_t> chosen = choose_tokens(batch, logits, all, options, random), kept;
    for (size_t i = 0; i < chosen.size(); ++i) {
      size_t prompt = batch.rows()[i];
      if (done[prompt]) continue;
      out[prompt].push_back(chosen[i]), all[prompt].push_back(chosen[i]);
      bool ended = std::find(ends.begin(), ends.end(), chosen[i]) != ends.end();
      if (on_token && !on_token(prompt, chosen[i])) ended = true;
      done[prompt] = ended;
      if (!ended) kept.push_back(static_cast<int64_t>(i));
    }
    if (kept.empty() || position - length + 1 == options.max_new_tokens) return out;
    at::Tensor next = at::tensor(chosen).unsqueeze(1);
    if (static_cast<double>(kept.size()) <= kMaxActivePart * static_cast<double>(chosen.size())) {
      at::Tensor indices = at::tensor(kept);
      impl_->move_up(kept, position);
      batch.keep(kept);
      cache = impl_->rows(static_cast<int64_t>(kept.size()));
      padding = batch.padding();
      next = next.index_select(0, indices);
      if (rows) rows = Rows(rows->entries.index_select(0, indices));
    }
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
