#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randperm.h>
#include <tenon/data_loader.h>

#include <numeric>

#include "base/error.h"
#include "train/batch_shares.h"
#include "train/data_order.h"

namespace tenon {
namespace {

at::Generator draw_generator() {
  auto seed = static_cast<uint64_t>(at::empty({}, at::kLong).random_().item<int64_t>());
  return at::detail::createCPUGenerator(seed);
}

}  // namespace

DataLoader::DataLoader(std::shared_ptr<const Dataset> dataset, DataLoaderOptions options)
    : dataset_(std::move(dataset)), options_(options) {
  if (!dataset_) throw UserError(ErrorCode::config, "the data loader has no dataset.");
  if (options_.batch_size <= 0)
    throw UserError(ErrorCode::config, "batch_size is " + std::to_string(options_.batch_size) + ", must be at least 1.");
}

DataLoader DataLoader::shared(detail::LoaderShare share) const {
  if (share.split_batches && options_.batch_size % share.ranks != 0)
    throw UserError(ErrorCode::config, "split_batches needs a batch_size that the number of processes divides, but " +
                                           std::to_string(options_.batch_size) + " / " + std::to_string(share.ranks) + " is no integer.");
  DataLoader out(dataset_, options_);
  out.share_ = std::move(share);
  if (options_.shuffle && out.share_.ranks > 1) {
    out.generator_ = draw_generator();
    out.progress_->own_generator = out.generator_->get_state();
  }
  return out;
}

std::vector<size_t> DataLoader::draw_order() {
  size_t count = dataset_->size();
  train::draw_loader_seed();
  if (!options_.shuffle) {
    std::vector<size_t> order(count);
    std::iota(order.begin(), order.end(), size_t{0});
    return order;
  }
  at::Generator generator = generator_ ? *generator_ : draw_generator();
  at::Tensor order = at::randperm(static_cast<int64_t>(count), generator, at::TensorOptions(at::kLong));
  const int64_t* first = order.const_data_ptr<int64_t>();
  return {first, first + order.numel()};
}

DataLoader::Iterator DataLoader::begin() {
  detail::LoaderProgress& progress = *progress_;
  at::Generator standard = at::detail::getDefaultCPUGenerator();
  at::Tensor state_now = standard.get_state();
  bool is_resumed = std::exchange(progress.is_resumed, false), continues = is_resumed && progress.default_generator.defined();
  if (continues) standard.set_state(progress.default_generator);
  else progress.default_generator = state_now, progress.batches = 0;
  if (generator_) {
    if (is_resumed) generator_->set_state(continues ? progress.own_generator_before : progress.own_generator);
    generator_->set_state(share_.broadcast(generator_->get_state()));
    progress.own_generator_before = generator_->get_state();
  }
  std::vector<size_t> order = draw_order();
  if (generator_) progress.own_generator = generator_->get_state();
  if (continues) standard.set_state(state_now);

  auto batch_size = static_cast<size_t>(options_.batch_size);
  Iterator out;
  out.batches_ = train::share_of(train::make_batches(order, batch_size, options_.drop_last), {.rank = static_cast<size_t>(share_.rank),
                                                                                              .ranks = static_cast<size_t>(share_.ranks),
                                                                                              .batch_size = batch_size,
                                                                                              .drop_last = options_.drop_last,
                                                                                              .split_batches = share_.split_batches,
                                                                                              .even_batches = share_.even_batches});
  if (share_.begin) {
    int64_t per_round = options_.batch_size * (share_.split_batches ? 1 : share_.ranks);
    share_.begin(progress_.get(), static_cast<int64_t>(order.size()), per_round);
  }
  out.loader_ = this;
  out.alive_ = std::make_shared<int>(0);
  progress.iteration = out.alive_;
  out.index_ = progress.batches + std::exchange(skipped_, 0);
  out.read();
  return out;
}

DataLoader::Iterator& DataLoader::Iterator::operator++() {
  ++index_;
  read();
  return *this;
}

void DataLoader::Iterator::read() {
  detail::LoaderProgress& progress = *loader_->progress_;
  if (index_ >= batches_.size()) {
    index_ = kEnd;
    batch_.clear();
    alive_.reset();
    loader_->end_iteration();
    return;
  }
  progress.batches = index_ + 1;
  if (loader_->share_.next) loader_->share_.next(&progress, index_ + 1 == batches_.size());
  batch_ = loader_->dataset_->batch(batches_[index_]);
}

void DataLoader::end_iteration() {
  ++progress_->epoch;
  progress_->default_generator = at::Tensor();
  if (generator_) {
    // PyTorch's RandomSampler draws another permutation when it is exhausted.
    at::randperm(static_cast<int64_t>(dataset_->size()), *generator_, at::TensorOptions(at::kLong));
    progress_->own_generator = generator_->get_state();
  }
  if (share_.end) share_.end(progress_.get());
}

size_t DataLoader::size() const {
  int64_t samples = static_cast<int64_t>(dataset_->size()), batch = options_.batch_size, ranks = share_.ranks;
  int64_t full = samples / batch, rest = options_.drop_last ? 0 : samples % batch;
  if (ranks == 1 || share_.split_batches) {
    bool has_last = rest > 0 && (ranks == 1 || share_.even_batches || rest > batch / ranks * share_.rank);
    return static_cast<size_t>(full + has_last);
  }
  int64_t batches = full + (rest > 0), extra = batches % ranks;
  bool has_last = extra > 0 && !options_.drop_last && (share_.even_batches || share_.rank < extra);
  return static_cast<size_t>(batches / ranks + has_last);
}

}  // namespace tenon
