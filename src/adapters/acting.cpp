#include "adapters/acting.h"

#include <ATen/core/grad_mode.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <exception>
#include <mutex>

#include "base/error.h"
#include "bridge/parallel.h"

namespace tenon::adapters {

Acting::Acting(const at::Tensor& pin, int64_t bank, int64_t number, int64_t batch, const at::Tensor& trained)
    : core_(Core::find(bank)), table_(Core::pinned(pin)), number_(static_cast<size_t>(number)), layer_(core_->layer(number_)) {
  const int64_t* rows = pin.const_data_ptr<int64_t>() + 1;
  int64_t count = pin.numel() - 1;
  is_one_ = count == 1 || batch == 1;
  bool differs = std::any_of(rows, rows + count, [&](int64_t row) { return row != rows[0]; });
  if (batch == 1 && differs) {
    // Positions, say, which are the same for all rows.
    for (int64_t i = 0; i < count; ++i)
      if (table_->entries[static_cast<size_t>(rows[i])].acts_on(number_))
        throw UserError(ErrorCode::adapter, layer_.path + " is computed once for all rows; an adapter on it cannot differ by row");
  } else if (!is_one_ && count != batch) {
    throw UserError(ErrorCode::adapter, "there are " + std::to_string(count) + " rows for a batch of " + std::to_string(batch));
  }
  std::vector<std::pair<int64_t, size_t>> known;  // entries and their sets
  for (int64_t i = 0; i < (is_one_ ? 1 : batch); ++i) {
    auto found = std::find_if(known.begin(), known.end(), [&](const auto& pair) { return pair.first == rows[i]; });
    if (found == known.end()) {
      found = known.insert(known.end(), {rows[i], sets_.size()});
      add_set(table_->entries[static_cast<size_t>(rows[i])], trained);
    }
    if (!runs_.empty() && runs_.back().set == found->second) ++runs_.back().count;
    else runs_.push_back({i, 1, found->second});
  }
  if (is_one_) runs_[0].count = batch;
}

void Acting::add_set(const Entry& entry, const at::Tensor& trained) {
  Set set;
  for (const AdapterPointer& adapter : entry.adapters)
    for (size_t i = 0; i < adapter->parts[number_].size(); ++i) {
      PartPointer part = adapter->parts[number_][i];
      if (trained.defined() && !adapter->trained.empty()) part = over_flat(*part, trained, adapter->trained[number_][i]);
      acts_ = true, turns_ |= part->turns_input(layer_);
      set.push_back({std::move(part), adapter->factor});
    }
  sets_.push_back(std::move(set));
}

bool Acting::uses_base() const {
  for (const Set& set : sets_)
    for (const Acts& acts : set)
      if (acts.part->uses_base(layer_)) return true;
  return false;
}

// One row as parts are given it; all rows if they have one set.
at::Tensor Acting::row_of(const at::Tensor& batch, int64_t i) const {
  if (is_one_) return batch;
  return layer_.kind == Kind::conv2d ? batch.narrow(0, i, 1) : batch.select(0, i);
}

// The layer with what stands in the place of its own tensors.
Layer Acting::seen_by(const Set& set, bool* has_weight) const {
  Layer seen = layer_;
  for (const Acts& acts : set) {
    auto replaced = acts.part->replaced();
    if (!replaced) continue;
    if (replaced->weight.defined()) seen.base.weight = replaced->weight, *has_weight = true;
    if (replaced->bias.defined()) seen.base.bias = replaced->bias;
  }
  return seen;
}

std::vector<at::Tensor> Acting::ready_of(const Set& set, bool of_turns) const {
  bool has_weight = false;
  Layer seen = seen_by(set, &has_weight);
  std::vector<at::Tensor> out;
  for (const Acts& acts : set) {
    bool is_wanted = acts.part->turns_input(layer_) ? of_turns || has_weight : !of_turns && !acts.part->turns_weight(layer_);
    out.push_back(is_wanted ? acts.part->ready(seen, acts.factor) : at::Tensor());
  }
  return out;
}

at::Tensor Acting::turn_row(const Set& set, const std::vector<at::Tensor>& ready, at::Tensor x) const {
  auto turn = [&](size_t i, bool in_reverse) {
    const Part& part = *set[i].part;
    if (part.turns_input(layer_) && part.turns_in_reverse() == in_reverse) x = part.turn(x, ready[i], layer_);
  };
  for (size_t i = 0; i < set.size(); ++i) turn(i, false);
  for (size_t i = set.size(); i-- > 0;) turn(i, true);
  return x;
}

at::Tensor Acting::finish_row(const Set& set, const std::vector<at::Tensor>& ready, at::Tensor y, const at::Tensor& x) const {
  bool is_new = false;
  Layer seen = seen_by(set, &is_new);
  if (!is_new && seen.base.bias.defined() && !seen.base.bias.is_same(layer_.base.bias))
    y = (y + layer_.along_outputs(seen.base.bias - layer_.base.bias)).to(y.scalar_type());
  auto fold = [&](const Acts& acts, bool in_reverse) {
    if (acts.part->turns_weight(layer_) && acts.part->turns_in_reverse() == in_reverse)
      seen.base = acts.part->merged(seen, acts.factor), is_new = true;
  };
  for (const Acts& acts : set) fold(acts, true);
  for (auto acts = set.rbegin(); acts != set.rend(); ++acts) fold(*acts, false);
  if (is_new) y = seen.run(turn_row(set, ready, x)).to(y.scalar_type());
  for (size_t i = 0; i < set.size(); ++i) y = set[i].part->finish(y, x, ready[i], seen, set[i].factor);
  return y;
}

template <class F>
at::Tensor Acting::row_by_row(F&& each) const {
  std::vector<at::Tensor> rows;
  for (const Run& run : runs_)
    for (int64_t i = run.first; i < (is_one_ ? 1 : run.first + run.count); ++i) rows.push_back(each(run.set, i));
  if (is_one_) return rows[0];
  return layer_.kind == Kind::conv2d ? at::cat(rows) : at::stack(rows);
}

at::Tensor Acting::turned(const at::Tensor& x) const {
  std::vector<std::vector<at::Tensor>> ready;
  for (const Set& set : sets_) ready.push_back(ready_of(set, /*of_turns=*/true));
  return row_by_row([&](size_t set, int64_t i) { return turn_row(sets_[set], ready[set], row_of(x, i)); });
}

at::Tensor Acting::finished(const at::Tensor& y, const at::Tensor& x) const {
  std::vector<std::vector<at::Tensor>> ready;
  for (const Set& set : sets_) ready.push_back(ready_of(set, /*of_turns=*/false));
  return row_by_row([&](size_t set, int64_t i) { return finish_row(sets_[set], ready[set], row_of(y, i), row_of(x, i)); });
}

// Whether the run's parts are all sums of low rank; `jobs` are those of first parts, second parts, ...
bool Acting::finish_low_rank(const Run& run, at::Tensor& y, const at::Tensor& x, std::vector<std::vector<LowRankJob>>& jobs) const {
  const Set& set = sets_[run.set];
  if (!layer_.is_linear() || !has_low_rank(y.scalar_type()) || x.scalar_type() != y.scalar_type() || !x.is_contiguous() ||
      !y.is_contiguous())
    return false;
  std::vector<LowRank> all;
  for (const Acts& acts : set) {
    auto one = acts.part->low_rank(layer_, acts.factor);
    if (!one) return false;
    all.push_back(std::move(*one));
  }
  int64_t tokens = y.numel() / layer_.outputs() / y.size(0), first = run.first * tokens;
  for (size_t i = 0; i < all.size(); ++i) {
    if (jobs.size() <= i) jobs.emplace_back();
    const auto* from = static_cast<const char*>(x.const_data_ptr()) + first * layer_.inputs() * static_cast<int64_t>(x.itemsize());
    auto* to = static_cast<char*>(y.data_ptr()) + first * layer_.outputs() * static_cast<int64_t>(y.itemsize());
    jobs[i].push_back({std::move(all[i]), from, to, run.count * tokens});
  }
  return true;
}

template <class W, class F>
void Acting::write_rows(at::Tensor& to, W&& is_wanted, F&& row) const {
  std::vector<std::pair<size_t, int64_t>> rows;  // sets and places
  for (const Run& run : runs_) {
    if (!is_wanted(run)) continue;
    for (int64_t i = run.first; i < (is_one_ ? 1 : run.first + run.count); ++i) rows.emplace_back(run.set, i);
  }
  if (rows.empty()) return;
  auto write = [&](size_t set, int64_t i) {
    at::Tensor place = row_of(to, i), out = row(set, i, place);
    if (!out.is_same(place)) place.copy_(out);
  };
  if (is_one_) return write(rows[0].first, rows[0].second);
  std::exception_ptr failed;
  std::mutex mutex;
  // Always in a parallel loop, even for one row: a product on one thread may round otherwise than the same one on two.
  auto count = static_cast<int64_t>(rows.size());
  bridge::parallel_for(0, std::max<int64_t>(count, 2), 1, [&](int64_t begin, int64_t end) {
    at::AutoDispatchBelowAutograd below;
    at::NoGradGuard no_grad;
    try {
      for (int64_t k = begin; k < std::min(end, count); ++k) write(rows[static_cast<size_t>(k)].first, rows[static_cast<size_t>(k)].second);
    } catch (...) {
      std::lock_guard lock(mutex);
      failed = std::current_exception();
    }
  });
  if (failed) std::rethrow_exception(failed);
}

at::Tensor Acting::turn(const at::Tensor& x) const {
  std::vector<std::vector<at::Tensor>> ready;
  std::vector<bool> turns;
  for (const Set& set : sets_) {
    turns.push_back(std::any_of(set.begin(), set.end(), [&](const Acts& acts) { return acts.part->turns_input(layer_); }));
    ready.push_back(turns.back() ? ready_of(set, /*of_turns=*/true) : std::vector<at::Tensor>());
  }
  at::Tensor out = x.clone(at::MemoryFormat::Contiguous);
  write_rows(
      out, [&](const Run& run) { return turns[run.set]; },
      [&](size_t set, int64_t i, const at::Tensor&) { return turn_row(sets_[set], ready[set], row_of(x, i)); });
  return out;
}

void Acting::finish(at::Tensor& y, const at::Tensor& x) const {
  if (y.numel() == 0) return;
  std::vector<std::vector<LowRankJob>> jobs;
  std::vector<std::optional<std::vector<at::Tensor>>> ready(sets_.size());
  auto is_wanted = [&](const Run& run) {
    const Set& set = sets_[run.set];
    if (set.empty() || finish_low_rank(run, y, x, jobs)) return false;
    if (!ready[run.set]) ready[run.set] = ready_of(set, /*of_turns=*/false);
    return true;
  };
  write_rows(y, is_wanted,
             [&](size_t set, int64_t i, const at::Tensor& row) { return finish_row(sets_[set], *ready[set], row, row_of(x, i)); });
  for (const auto& some : jobs) add_low_rank(some, y.scalar_type(), layer_.inputs(), layer_.outputs());
}

}  // namespace tenon::adapters
