#include "capture/stream.h"

#include <algorithm>

#include "base/process.h"

namespace tenon::capture {
namespace {

// Limits on the derived streams that are kept: their number, and the number of their ops, of which each takes 4 KB with its part of the
// plan (`bench_sizes memory`). The least recently used stream is evicted first; its size is derived again when it comes back, which costs
// a program of this many ops less than a call takes (`bench_sizes new`).
constexpr size_t kMinDerivedStreams = 4, kMaxDerivedStreams = 32;
constexpr size_t kMaxDerivedOps = 2048;

// Drops the references to the recorded run, because the stream outlives it.
void forget_run(Tape& tape) {
  c10::weak_intrusive_ptr<c10::StorageImpl> no_storage{c10::intrusive_ptr<c10::StorageImpl>()};
  c10::weak_intrusive_ptr<c10::TensorImpl> no_tensor{c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>()};
  for (TapeStorage& storage : tape.storages) {
    storage.weak = no_storage;
    storage.shift = 0;
  }
  for (External& external : tape.externals) {
    external.weak = no_tensor;
    external.weak_storage = no_storage;
    external.constant.reset();  // Replays read the current contents.
  }
  tape.nodes_run.clear();
}

}  // namespace

std::shared_ptr<const Stream> Streams::add(Tape tape, const Stream* parent, size_t shared, size_t alike, bool derived) {
  auto stream = std::make_shared<Stream>();
  stream->tape = std::move(tape);
  stream->derived = derived;
  forget_run(stream->tape);
  ForkSafeLock lock(mutex_);
  stream->id = next_++;
  stream->root = derived ? parent->root : stream->id;
  for (const auto& other : *list_) {
    if (!parent) continue;
    stream->common[other->id] = other.get() == parent ? shared : std::min(shared, shared_ops(*parent, *other));
    stream->alike[other->id] = other.get() == parent ? alike : std::min(alike, alike_ops(*parent, *other));
  }
  auto list = std::make_shared<StreamList>(*list_);
  list->insert(list->begin(), stream);
  size_t count = 0, ops = 0;
  std::erase_if(*list, [&](const auto& other) {
    if (!other->derived) return false;
    ++count, ops += other->tape.ops.size();
    return count > kMaxDerivedStreams || (count > kMinDerivedStreams && ops > kMaxDerivedOps);
  });
  list_ = std::move(list);
  return stream;
}

std::shared_ptr<const StreamList> Streams::list() const {
  ForkSafeLock lock(mutex_);
  return list_;
}

void Streams::prefer(const Stream& stream) {
  ForkSafeLock lock(mutex_);
  if (list_->empty() || list_->front().get() == &stream) return;
  auto list = std::make_shared<StreamList>(*list_);
  auto at = std::find_if(list->begin(), list->end(), [&](const auto& s) { return s.get() == &stream; });
  if (at != list->end()) std::rotate(list->begin(), at, at + 1);
  list_ = std::move(list);
}

void Streams::clear() {
  ForkSafeLock lock(mutex_);
  list_ = std::make_shared<StreamList>();
}

size_t Streams::recorded() const {
  auto all = list();
  return static_cast<size_t>(std::count_if(all->begin(), all->end(), [](const auto& s) { return !s->derived; }));
}

namespace {

using CommonOps = std::unordered_map<size_t, size_t> Stream::*;

size_t common_ops(const Stream& a, const Stream& b, CommonOps which) {
  if (&a == &b) return a.tape.ops.size();
  const auto& [later, earlier] = a.id > b.id ? std::pair{&a, &b} : std::pair{&b, &a};
  auto known = (later->*which).find(earlier->id);
  return known == (later->*which).end() ? 0 : known->second;
}

}  // namespace

size_t shared_ops(const Stream& a, const Stream& b) { return common_ops(a, b, &Stream::common); }
size_t alike_ops(const Stream& a, const Stream& b) { return common_ops(a, b, &Stream::alike); }

TapePosition position_at(const Tape& tape, size_t op) {
  if (op < tape.ops.size()) return tape.ops[op].before;
  return {tape.storages.size(), tape.externals.size(), tape.scalars.size()};
}

Tape prefix(const Tape& tape, size_t ops, const TapePosition& end) {
  Tape out;
  out.ops.assign(tape.ops.begin(), tape.ops.begin() + static_cast<ptrdiff_t>(ops));
  out.storages.assign(tape.storages.begin(), tape.storages.begin() + static_cast<ptrdiff_t>(end.storages));
  out.externals.assign(tape.externals.begin(), tape.externals.begin() + static_cast<ptrdiff_t>(end.externals));
  out.scalars.assign(tape.scalars.begin(), tape.scalars.begin() + static_cast<ptrdiff_t>(end.scalars));
  auto lies_before = [&](const auto& recorded) { return recorded.range.end <= ops; };
  std::copy_if(tape.user_calls.begin(), tape.user_calls.end(), std::back_inserter(out.user_calls), lies_before);
  std::copy_if(tape.backwards.begin(), tape.backwards.end(), std::back_inserter(out.backwards), lies_before);
  out.handles = tape.handles;
  return out;
}

}  // namespace tenon::capture
