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
      if (!table_->entries[static_cast<size_t>(rows[i])].acts_on(number_)) continue;
      else throw UserError(ErrorCode::adapter, layer_.path + " is computed once for all rows; an adapter on it cannot differ by row");
  } else if (count != 1 && count != batch && batch != 1) {
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
      acts_ = true, turns_ |= part->turns() && !part->turns_weight(layer_);
      set.push_back({std::move(part), adapter->factor});
    }
  sets_.push_back(std::move(set));
}

// One row as parts are given it; all rows if they have one set.
at::Tensor Acting::rows_of(const at::Tensor& batch, int64_t first, int64_t count) const {
  if (is_one_) return batch;
  return layer_.kind == Kind::conv2d ? batch.narrow(0, first, count) : batch.select(0, first);
}

std::vector<at::Tensor> Acting::ready_of(const Set& set, bool of_turns) const {
  std::vector<at::Tensor> out;
  for (const Acts& acts : set)
    out.push_back(acts.part->turns() == of_turns && !acts.part->turns_weight(layer_) ? acts.part->ready(layer_, acts.factor)
                                                                                     : at::Tensor());
  return out;
}

at::Tensor Acting::turn_row(const Set& set, const std::vector<at::Tensor>& ready, at::Tensor x) const {
  for (size_t i = 0; i < set.size(); ++i)
    if (const Part& part = *set[i].part; part.turns() && !part.turns_weight(layer_) && !part.turns_in_reverse())
      x = part.turn(x, ready[i], layer_);
  for (size_t i = set.size(); i-- > 0;)
    if (const Part& part = *set[i].part; part.turns() && !part.turns_weight(layer_) && part.turns_in_reverse())
      x = part.turn(x, ready[i], layer_);
  return x;
}

at::Tensor Acting::finish_row(const Set& set, const std::vector<at::Tensor>& ready, at::Tensor y, const at::Tensor& x) const {
  Layer seen = layer_;
  bool is_new = false;
  for (const Acts& acts : set) {
    auto replaced = acts.part->replaced();
    if (!replaced) continue;
    if (replaced->weight.defined()) seen.base = *replaced, is_new = true;
    else if (is_new) seen.base.bias = replaced->bias;
    else y = (y + layer_.along_outputs(replaced->bias - seen.base.bias)).to(y.scalar_type()), seen.base.bias = replaced->bias;
  }
  auto fold = [&](const Part& part, double factor, bool in_reverse) {
    if (part.turns_weight(layer_) && part.turns_in_reverse() == in_reverse) seen.base = part.merged(seen, factor), is_new = true;
  };
  for (const Acts& acts : set) fold(*acts.part, acts.factor, true);
  for (auto acts = set.rbegin(); acts != set.rend(); ++acts) fold(*acts->part, acts->factor, false);
  if (is_new) y = seen.run(x).to(y.scalar_type());
  for (size_t i = 0; i < set.size(); ++i) y = set[i].part->finish(y, x, ready[i], seen, set[i].factor);
  return y;
}

template <class F>
at::Tensor Acting::row_by_row(const at::Tensor& like, F&& each) const {
  std::vector<at::Tensor> rows;
  for (const Run& run : runs_)
    for (int64_t i = run.first; i < (is_one_ ? 1 : run.first + run.count); ++i) rows.push_back(each(run.set, i));
  if (is_one_) return rows[0];
  return layer_.kind == Kind::conv2d ? at::cat(rows) : at::stack(rows);
}

at::Tensor Acting::turned(const at::Tensor& x) const {
  std::vector<std::vector<at::Tensor>> ready;
  for (const Set& set : sets_) ready.push_back(ready_of(set, /*of_turns=*/true));
  return row_by_row(x, [&](size_t set, int64_t i) { return turn_row(sets_[set], ready[set], rows_of(x, i, 1)); });
}

at::Tensor Acting::finished(const at::Tensor& y, const at::Tensor& x) const {
  std::vector<std::vector<at::Tensor>> ready;
  for (const Set& set : sets_) ready.push_back(ready_of(set, /*of_turns=*/false));
  return row_by_row(y, [&](size_t set, int64_t i) { return finish_row(sets_[set], ready[set], rows_of(y, i, 1), rows_of(x, i, 1)); });
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
    at::Tensor place = rows_of(to, i, 1), out = row(set, i, place);
    if (!out.is_same(place)) place.copy_(out);
  };
  if (is_one_) return write(rows[0].first, rows[0].second);
  std::exception_ptr failed;
  std::mutex mutex;
  // Always so, since a product on one thread may round otherwise than the same one on two.
  bridge::parallel_for(0, static_cast<int64_t>(rows.size()), 1, [&](int64_t begin, int64_t end) {
    at::AutoDispatchBelowAutograd below;
    at::NoGradGuard no_grad;
    try {
      for (int64_t k = begin; k < end; ++k) write(rows[static_cast<size_t>(k)].first, rows[static_cast<size_t>(k)].second);
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
    turns.push_back(
        std::any_of(set.begin(), set.end(), [&](const Acts& acts) { return acts.part->turns() && !acts.part->turns_weight(layer_); }));
    ready.push_back(turns.back() ? ready_of(set, /*of_turns=*/true) : std::vector<at::Tensor>());
  }
  at::Tensor out = x.clone(at::MemoryFormat::Contiguous);
  write_rows(
      out, [&](const Run& run) { return turns[run.set]; },
      [&](size_t set, int64_t i, const at::Tensor&) { return turn_row(sets_[set], ready[set], rows_of(x, i, 1)); });
  return out;
}

void Acting::finish(at::Tensor& y, const at::Tensor& x) const {
  std::vector<std::vector<LowRankJob>> jobs;
  std::vector<std::optional<std::vector<at::Tensor>>> ready(sets_.size());
  auto is_wanted = [&](const Run& run) {
    const Set& set = sets_[run.set];
    if (set.empty() || finish_low_rank(run, y, x, jobs)) return false;
    if (!ready[run.set]) ready[run.set] = ready_of(set, /*of_turns=*/false);
    return true;
  };
  write_rows(y, is_wanted,
             [&](size_t set, int64_t i, const at::Tensor& row) { return finish_row(sets_[set], *ready[set], row, rows_of(x, i, 1)); });
  for (const auto& some : jobs) add_low_rank(some, y.scalar_type(), layer_.inputs(), layer_.outputs());
}

}  // namespace tenon::adapters
