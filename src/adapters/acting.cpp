#include "adapters/acting.h"

#include <ATen/core/grad_mode.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros_like.h>
#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <exception>
#include <mutex>

#include "base/error.h"
#include "bridge/parallel.h"

namespace tenon::adapters {

Acting::Acting(const at::Tensor& pin, int64_t bank, int64_t number, int64_t batch)
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
      add_set(table_->entries[static_cast<size_t>(rows[i])]);
    }
    if (!runs_.empty() && runs_.back().set == found->second) ++runs_.back().count;
    else runs_.push_back({i, 1, found->second});
  }
  if (is_one_) runs_[0].count = batch;
}

void Acting::add_set(const Entry& entry) {
  Set set;
  for (const AdapterPointer& adapter : entry.adapters)
    for (const PartPointer& part : adapter->parts[number_]) {
      acts_ = true, turns_ |= adapter->turns && part->turns_input(layer_);
      set.push_back({part.get(), adapter->factor});
    }
  sets_.push_back(std::move(set));
  entries_.push_back(&entry);
}

const Part* Acting::find_base_user() const {
  for (const Set& set : sets_)
    for (const Acts& acts : set)
      if (acts.part->uses_base(layer_)) return acts.part;
  return nullptr;
}

bool Acting::adds() const {
  for (const Set& set : sets_)
    for (const Acts& acts : set)
      if (!acts.part->adds() || acts.part->turns_weight(layer_)) return false;
  return true;
}

bool Acting::turns(const Set& set) const {
  return std::any_of(set.begin(), set.end(), [&](const Acts& acts) { return acts.part->turns_input(layer_); });
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

Acting::Leaves Acting::leaves_of(size_t set, const at::Tensor& trained) const {
  Leaves out;
  for (const AdapterPointer& adapter : entries_[set]->adapters)
    for (size_t i = 0; i < adapter->parts[number_].size(); ++i) {
      PartPointer part = adapter->parts[number_][i];
      if (!adapter->trained.empty()) {
        int64_t first = adapter->trained[number_][i];
        std::vector<at::Tensor> leaves;
        for (const auto& [name, tensor] : part->tensors()) {
          leaves.push_back(trained.narrow(0, first, tensor.numel()).view(tensor.sizes()).detach().requires_grad_());
          out.parameters.emplace_back(leaves.back(), first);
          first += tensor.numel();
        }
        part = part->with(leaves);
      }
      out.set.push_back({part.get(), adapter->factor});
      out.parts.push_back(std::move(part));
    }
  return out;
}

std::vector<Acting::Run> Acting::runs_of(size_t set) const {
  std::vector<Run> out;
  std::copy_if(runs_.begin(), runs_.end(), std::back_inserter(out), [&](const Run& run) { return run.set == set; });
  return out;
}

// By libtorch's autograd, as `differentiate` asks for them.
std::vector<at::Tensor> Acting::gradients_of(const at::Tensor& out, const Leaves& leaves, const std::vector<at::Tensor>& rows,
                                             const at::Tensor& grad) {
  std::vector<at::Tensor> asked;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(asked), [](const at::Tensor& one) { return one.requires_grad(); });
  for (const auto& [parameter, first] : leaves.parameters) asked.push_back(parameter);
  if (!out.requires_grad()) return std::vector<at::Tensor>(asked.size());
  return torch::autograd::grad({out}, asked, {grad}, /*retain_graph=*/false, /*create_graph=*/false, /*allow_unused=*/true);
}

bool Acting::are_products(const Set& set) const {
  return layer_.is_linear() && std::all_of(set.begin(), set.end(), [](const Acts& acts) {
           if (!acts.part->has_low_rank()) return false;
           LowRank what = acts.part->low_rank(acts.factor);
           return !what.middle.defined() && !what.outer.defined();
         });
}

// Those of y + scale B A x, which is what most adapters are: nothing that libtorch would record is computed again but A x.
std::vector<at::Tensor> Acting::product_gradients(const Leaves& leaves, const at::Tensor& y, const at::Tensor& x,
                                                  const at::Tensor& grad) const {
  at::NoGradGuard no_grad;
  at::Tensor from = grad.reshape({-1, layer_.outputs()}).to(at::kFloat), given = x.reshape({-1, layer_.inputs()}).to(at::kFloat), of_x;
  std::vector<at::Tensor> found(leaves.parameters.size());
  auto put = [&](const at::Tensor& parameter, auto&& gradient) {
    for (size_t i = 0; i < found.size(); ++i)
      if (leaves.parameters[i].first.is_same(parameter)) found[i] = gradient();
  };
  for (const Acts& acts : leaves.set) {
    LowRank what = acts.part->low_rank(acts.factor);
    at::Tensor inner = from.mm(what.b).mul_(what.scale);  // of A x
    put(what.a, [&] { return inner.t().mm(given); });
    put(what.b, [&] { return from.t().mm(given.mm(what.a.t()).mul_(what.scale)); });
    if (x.requires_grad()) of_x = of_x.defined() ? of_x.addmm_(inner, what.a) : inner.mm(what.a);
  }
  if (x.requires_grad()) found.insert(found.begin(), of_x.view(x.sizes()).to(x.scalar_type()));
  if (y.requires_grad()) found.insert(found.begin(), grad);
  return found;
}

template <class W, class F>
void Acting::differentiate(const at::Tensor& grad, const std::vector<std::pair<at::Tensor, at::Tensor*>>& by, const at::Tensor& trained,
                           at::Tensor& trained_grad, W&& acts, F&& gradients) const {
  // We are called below autograd.
  auto local = c10::impl::tls_local_dispatch_key_set();
  c10::impl::ForceDispatchKeyGuard keys(
      local.included_, local.excluded_ - c10::autograd_dispatch_keyset - c10::DispatchKeySet(c10::DispatchKey::ADInplaceOrView));
  for (size_t set = 0; set < sets_.size(); ++set) {
    if (!acts(sets_[set])) continue;
    at::AutoGradMode on(true);
    std::vector<Run> runs = runs_of(set);
    auto rows_of = [&](const at::Tensor& batch) {
      if (runs.size() == 1) return batch.narrow(0, runs[0].first, runs[0].count);
      std::vector<at::Tensor> all;
      for (const Run& run : runs) all.push_back(batch.narrow(0, run.first, run.count));
      return at::cat(all);
    };
    Leaves leaves = leaves_of(set, trained);
    std::vector<at::Tensor> rows;
    for (const auto& [value, to] : by) rows.push_back(rows_of(value).detach().requires_grad_(to != nullptr));
    std::vector<at::Tensor> found = gradients(leaves, rows, rows_of(grad));
    at::NoGradGuard no_grad;
    size_t next = 0;
    for (const auto& [value, to] : by) {
      if (!to) continue;
      const at::Tensor& one = found[next++];
      if (one.defined() && runs.size() == 1 && runs[0].count == value.size(0)) {
        *to = one;
        continue;
      }
      if (!to->defined()) *to = at::zeros_like(value, at::MemoryFormat::Contiguous);
      int64_t first = 0;
      for (const Run& run : runs) {
        at::Tensor place = to->narrow(0, run.first, run.count);
        one.defined() ? place.copy_(one.narrow(0, first, run.count)) : place.zero_();
        first += run.count;
      }
    }
    for (const auto& [parameter, first] : leaves.parameters) {
      const at::Tensor& one = found[next++];
      if (one.defined()) trained_grad.narrow(0, first, parameter.numel()).view(parameter.sizes()).add_(one);
    }
  }
}

Acting::Gradients Acting::turn_backward(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& trained) const {
  Gradients out{{}, grad.clone(at::MemoryFormat::Contiguous), at::zeros_like(trained)};  // rows that nothing turns have the gradient itself
  auto turns = [&](const Set& set) { return this->turns(set); };
  differentiate(grad, {{x, &out.x}}, trained, out.trained, turns, [&](const Leaves& leaves, const auto& rows, const at::Tensor& from) {
    return gradients_of(turn_row(leaves.set, ready_of(leaves.set, /*of_turns=*/true), rows[0]), leaves, rows, from);
  });
  return out;
}

Acting::Gradients Acting::finish_backward(const at::Tensor& grad, const at::Tensor& y, const at::Tensor& x, const at::Tensor& trained,
                                          bool asks_x) const {
  bool adds = this->adds();
  Gradients out{adds ? grad : grad.clone(at::MemoryFormat::Contiguous), {}, at::zeros_like(trained)};
  auto acts = [](const Set& set) { return !set.empty(); };
  // What is added to does not matter; `grad` has its size.
  differentiate(grad, {{adds ? grad : y, adds ? nullptr : &out.y}, {x, asks_x ? &out.x : nullptr}}, trained, out.trained, acts,
                [&](const Leaves& leaves, const auto& rows, const at::Tensor& from) {
                  if (are_products(leaves.set)) return product_gradients(leaves, rows[0], rows[1], from);
                  return gradients_of(finish_row(leaves.set, ready_of(leaves.set, /*of_turns=*/false), rows[0], rows[1]), leaves, rows,
                                      from);
                });
  return out;
}

// Whether the parts are all sums of low rank.
bool Acting::has_low_rank(const Set& set, const at::Tensor& y, const at::Tensor& x) const {
  return layer_.is_linear() && adapters::has_low_rank(y.scalar_type()) && x.scalar_type() == y.scalar_type() && x.is_contiguous() &&
         y.is_contiguous() && std::all_of(set.begin(), set.end(), [](const Acts& acts) { return acts.part->has_low_rank(); });
}

void Acting::finish_low_rank(const std::vector<Run>& runs, at::Tensor& y, const at::Tensor& x) const {
  struct Piece {
    const Set* set;
    int64_t first, count;  // tokens
  };
  std::vector<Piece> pieces;
  int64_t tokens = y.numel() / layer_.outputs() / y.size(0);
  for (const Run& run : runs)
    for (int64_t t = 0; t < run.count * tokens; t += kLowRankTokens)
      pieces.push_back({&sets_[run.set], run.first * tokens + t, std::min(kLowRankTokens, run.count * tokens - t)});
  const auto* from = static_cast<const char*>(x.const_data_ptr());
  auto* to = static_cast<char*>(y.data_ptr());
  int64_t inputs = layer_.inputs(), outputs = layer_.outputs(), size = static_cast<int64_t>(y.itemsize());
  bridge::parallel_for(0, static_cast<int64_t>(pieces.size()), 1, [&](int64_t begin, int64_t end) {
    LowRankRoom room;
    auto sums_of = [](const Piece& piece) {
      std::vector<LowRank> out;
      for (const Acts& acts : *piece.set) out.push_back(acts.part->low_rank(acts.factor).laid_out());
      return out;
    };
    std::vector<LowRank> sums = sums_of(pieces[static_cast<size_t>(begin)]), next;
    for (int64_t i = begin; i < end; ++i) {
      const auto& [set, first, count] = pieces[static_cast<size_t>(i)];
      bool changes = i + 1 < end && set != pieces[static_cast<size_t>(i + 1)].set;
      if (changes) next = sums_of(pieces[static_cast<size_t>(i + 1)]);
      LowRankRows rows{y.scalar_type(), inputs, outputs, count, from + first * inputs * size, to + first * outputs * size};
      for (size_t k = 0; k < sums.size(); ++k)
        add_low_rank(sums[k], rows, room, k + 1 < sums.size() ? sums[k + 1] : (changes ? next : sums).front());
      if (changes) sums.swap(next);
    }
  });
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
    turns.push_back(this->turns(set));
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
  std::vector<Run> low;
  std::vector<std::optional<std::vector<at::Tensor>>> ready(sets_.size());
  auto is_wanted = [&](const Run& run) {
    const Set& set = sets_[run.set];
    bool is_low = has_low_rank(set, y, x);
    if (is_low && !set.empty()) low.push_back(run);
    if (is_low || set.empty()) return false;
    if (!ready[run.set]) ready[run.set] = ready_of(set, /*of_turns=*/false);
    return true;
  };
  write_rows(y, is_wanted,
             [&](size_t set, int64_t i, const at::Tensor& row) { return finish_row(sets_[set], *ready[set], row, row_of(x, i)); });
  if (!low.empty()) finish_low_rank(low, y, x);
}

}  // namespace tenon::adapters
