// Two compiled functions over one cache: one reads the prompts, the other makes a token a row at a time. Prompts of unequal length
// are filled up on the left, so that all rows write their next keys to the same slot. The keys that a token may see are counted in
// steps of kStep: their number is a size that the compiled code takes at run time, so that nothing is compiled while texts grow.
#include <ATen/core/grad_mode.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/TensorOperators.h>
#include <tenon/family.h>
#include <tenon/generate.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "generate/sampling.h"

namespace tenon {

namespace {

constexpr int64_t kStep = 64;

using Rows = std::vector<std::vector<int64_t>>;

// The tokens that end a text, by the model's own files.
std::vector<int64_t> ends_of(const CausalModel& model) {
  for (const std::string* text : {&model.generation_config(), &model.config()}) {
    if (text->empty()) continue;
    auto fields = nlohmann::json::parse(*text);
    auto found = fields.find("eos_token_id");
    if (found == fields.end() || found->is_null()) continue;
    if (found->is_number_integer()) return {found->get<int64_t>()};
    if (found->is_array() && std::all_of(found->begin(), found->end(), [](const auto& id) { return id.is_number_integer(); }))
      return found->get<std::vector<int64_t>>();
    throw UserError(ErrorCode::config, "eos_token_id is neither a number nor a list of numbers");
  }
  return {};
}

int64_t rounded_up(int64_t count) { return (count + kStep - 1) / kStep * kStep; }

using Step = std::function<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, KeyValueCache)>;

auto compile_step(const std::shared_ptr<CausalModel>& model, Options options, const char* name) {
  options.trust = Trust::pure;
  options.dynamic = Dynamic::yes;
  options.name = name;
  options.watch.insert(options.watch.begin(), Watched(model));
  Step step = [model](const at::Tensor& ids, const at::Tensor& positions, const at::Tensor& mask, const at::Tensor& slots,
                      KeyValueCache cache) {
    return model->next(ids, {positions, mask, slots, &cache});
  };
  return Compiled<Step>(std::move(step), std::move(options));
}

}  // namespace

struct Generator::Impl {
  Impl(std::shared_ptr<CausalModel> m, const Options& options)
      : model(std::move(m)),
        ends(ends_of(*model)),
        type(model->type()),
        prefill(compile_step(model, options, "prefill")),
        decode(compile_step(model, options, "decode")) {}

  void need_room(int64_t batch, int64_t tokens) {
    bool fits = !cache.keys.empty() && cache.keys[0].size(0) == batch && cache.keys[0].size(1) >= tokens;
    if (!fits) cache = model->make_cache(batch, std::max(tokens, int64_t{4} * kStep));
  }

  std::shared_ptr<CausalModel> model;
  std::vector<int64_t> ends;
  at::ScalarType type;
  Compiled<Step> prefill, decode;
  KeyValueCache cache;  // kept for calls of the same batch
};

namespace {

// One call's texts, filled up on the left to one length.
class Batch {
 public:
  Batch(const Rows& prompts, int64_t window, at::ScalarType type) : window_(window), type_(type) {
    for (const auto& prompt : prompts) length_ = std::max(length_, static_cast<int64_t>(prompt.size()));
    for (const auto& prompt : prompts) padding_.push_back(length_ - static_cast<int64_t>(prompt.size()));
  }

  int64_t length() const { return length_; }

  at::Tensor ids(const Rows& prompts) const {
    at::Tensor out = at::empty({rows(), length_}, at::kLong);
    int64_t* to = out.data_ptr<int64_t>();
    for (size_t i = 0; i < prompts.size(); ++i, to += length_)
      std::copy(prompts[i].begin(), prompts[i].end(), std::fill_n(to, padding_[i], prompts[i].front()));
    return out;
  }

  at::Tensor positions(int64_t first, int64_t count) const {
    at::Tensor out = at::empty({rows(), count}, at::kLong);
    int64_t* to = out.data_ptr<int64_t>();
    for (int64_t padding : padding_)
      for (int64_t i = first; i < first + count; ++i) *to++ = std::max<int64_t>(0, i - padding);
    return out;
  }

  // For the prompts; undefined if each token sees all before it.
  at::Tensor prompt_mask() const {
    bool even = std::all_of(padding_.begin(), padding_.end(), [](int64_t n) { return n == 0; });
    bool windowed = window_ > 0 && length_ > window_;
    if (even && !windowed) return {};
    at::Tensor counts = at::arange(length_, at::kLong).unsqueeze(0) >= at::tensor(padding_).unsqueeze(1);
    return causal_mask(length_, windowed ? window_ : 0, counts, type_);
  }

  // For a token at `place`: which keys it sees.
  const at::Tensor& mask_at(int64_t place) {
    int64_t keys = rounded_up(place + 1);
    if (!mask_.defined() || mask_.size(3) < keys) {
      mask_ = at::full({rows(), 1, 1, keys}, -std::numeric_limits<float>::infinity(), type_);
      for (int64_t i = 0; i < rows(); ++i) {
        int64_t first = padding_[static_cast<size_t>(i)];
        mask_[i].narrow(2, first, std::max<int64_t>(0, place - first)).fill_(0);
      }
      if (window_ > 0 && place >= window_) mask_.narrow(3, 0, place - window_).fill_(-std::numeric_limits<float>::infinity());
    }
    mask_.select(3, place).fill_(0);
    if (window_ > 0 && place >= window_) mask_.select(3, place - window_).fill_(-std::numeric_limits<float>::infinity());
    return mask_;
  }

 private:
  int64_t rows() const { return static_cast<int64_t>(padding_.size()); }

  int64_t window_, length_ = 0;
  at::ScalarType type_;
  std::vector<int64_t> padding_;
  at::Tensor mask_;
};

void check_prompts(const Rows& prompts, const CausalModel::Sizes& sizes, int64_t new_tokens) {
  if (prompts.empty()) throw UserError(ErrorCode::generate, "no prompt was given");
  for (const auto& prompt : prompts) {
    if (prompt.empty()) throw UserError(ErrorCode::generate, "a prompt is empty; begin it with the model's first token (bos_token_id)");
    for (int64_t id : prompt)
      if (id < 0 || id >= sizes.vocabulary)
        throw UserError(ErrorCode::generate,
                        "token " + std::to_string(id) + " is not in the model's vocabulary of " + std::to_string(sizes.vocabulary));
    if (static_cast<int64_t>(prompt.size()) + new_tokens > sizes.positions)
      throw UserError(ErrorCode::generate, "a prompt of " + std::to_string(prompt.size()) + " tokens and " + std::to_string(new_tokens) +
                                               " new ones are more than the model's " + std::to_string(sizes.positions) + " positions");
  }
}

}  // namespace

Generator::Generator(std::shared_ptr<CausalModel> model, Options options) : impl_(std::make_unique<Impl>(std::move(model), options)) {}
Generator::~Generator() = default;

Rows Generator::operator()(const Rows& prompts, const GenerateOptions& options, const OnToken& on_token) {
  generate::check(options);
  check_prompts(prompts, impl_->model->sizes(), options.max_new_tokens);
  Rows out(prompts.size());
  if (options.max_new_tokens == 0) return out;
  at::NoGradGuard no_grad;
  at::Generator random = at::detail::createCPUGenerator(options.seed);
  const std::vector<int64_t>& ends = options.stop ? *options.stop : impl_->ends;
  Batch batch(prompts, impl_->model->sizes().window, impl_->type);
  int64_t length = batch.length(), rows = static_cast<int64_t>(prompts.size());
  impl_->need_room(rows, rounded_up(length + options.max_new_tokens));

  // A single token is the first step of decoding: a prompt has two or more.
  bool reads = length > 1;
  at::Tensor slots = at::arange(length, at::kLong);
  at::Tensor logits = reads ? impl_->prefill(batch.ids(prompts), batch.positions(0, length), batch.prompt_mask(), slots, impl_->cache)
                            : impl_->decode(batch.ids(prompts), batch.positions(0, 1), batch.mask_at(0), slots, impl_->cache);
  Rows all = prompts;
  std::vector<bool> done(prompts.size());
  at::Tensor next = at::empty({rows, 1}, at::kLong);
  for (int64_t place = length;; ++place) {
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
    if (all_done || place - length + 1 == options.max_new_tokens) return out;
    logits = impl_->decode(next, batch.positions(place, 1), batch.mask_at(place), at::full({1}, place, at::kLong), impl_->cache);
  }
}

const std::shared_ptr<detail::Region>& Generator::prefill() const { return impl_->prefill.region(); }
const std::shared_ptr<detail::Region>& Generator::decode() const { return impl_->decode.region(); }

std::shared_ptr<CausalModel> load_causal_model(const std::string& directory, std::optional<at::ScalarType> dtype) {
  auto model = std::dynamic_pointer_cast<CausalModel>(load_model(directory, dtype));
  if (!model) throw UserError(ErrorCode::config, directory + ": this model does not continue text");
  return model;
}

}  // namespace tenon
