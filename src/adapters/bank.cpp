#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>
#include <tenon/adapters.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "adapters/adalora/schedule.h"
#include "adapters/combine.h"
#include "adapters/create.h"
#include "adapters/directory.h"
#include "adapters/host.h"
#include "adapters/refuse.h"
#include "adapters/summary.h"
#include "adapters/table.h"
#include "adapters/training.h"
#include "base/error.h"
#include "models/adapter_site.h"

namespace tenon {

using namespace adapters;

namespace {

void check_name(const std::string& name) {
  if (name.empty() || name == kBase || name.find('.') != std::string::npos)
    refuse("an adapter cannot be called \"" + name + "\": a name is not empty, has no dot and is not " + kBase + ". Choose another name.");
}

constexpr size_t kNoEntry = SIZE_MAX;

// Returns the index of the entry with exactly these adapters, in this order, or kNoEntry.
size_t find_entry(const BankTable& table, const std::vector<std::string>& names) {
  for (size_t i = 0; i < table.entries.size(); ++i) {
    const BankEntry& entry = table.entries[i];
    if (std::equal(names.begin(), names.end(), entry.adapters.begin(), entry.adapters.end(),
                   [](const std::string& name, const AdapterPointer& adapter) { return name == adapter->name; }))
      return i;
  }
  return kNoEntry;
}

AdapterPointer find_adapter(const BankTable& table, const std::string& name) {
  size_t entry = name == kBase ? kNoEntry : find_entry(table, {name});
  if (entry == kNoEntry) refuse("no adapter is called \"" + name + "\". Load it first; names() lists those that are loaded.");
  return table.entries[entry].adapters[0];
}

std::vector<AdapterPointer> find_all(const BankTable& table, const std::vector<std::string>& names) {
  std::vector<AdapterPointer> out;
  for (const std::string& name : names) {
    if (std::count(names.begin(), names.end(), name) > 1) refuse("the adapter \"" + name + "\" is named twice. Name each adapter once.");
    out.push_back(find_adapter(table, name));
  }
  return out;
}

bool uses(const BankEntry& entry, const std::string& name) {
  return std::any_of(entry.adapters.begin(), entry.adapters.end(), [&](const AdapterPointer& adapter) { return adapter->name == name; });
}

// Throws UserError if the adapters cannot act together on one sample.
void check_together(const std::vector<AdapterPointer>& adapters, const std::vector<Layer>& layers) {
  for (size_t i = 0; i < layers.size(); ++i) {
    const Adapter* alone = nullptr;
    size_t count = 0, replacing = 0;
    for (const AdapterPointer& adapter : adapters) {
      if (adapter->layer_adapters[i].empty()) continue;
      ++count;
      for (const LayerAdapterPointer& layer_adapter : adapter->layer_adapters[i]) {
        replacing += layer_adapter->replacement().has_value();
        if (layer_adapter->acts_alone() || replacing > 1) alone = adapter.get();
      }
    }
    if (alone && count > 1)
      refuse("the adapter \"" + alone->name + "\" cannot act together with another one on " + layers[i].path +
             ": their combination is not defined. Use one of them at a time.");
  }
}

// Throws UserError if merging changes the result: input transforms and additive adapters on the same layer do not commute.
void check_merge(const std::vector<AdapterPointer>& adapters, const std::vector<Layer>& layers) {
  for (size_t i = 0; i < layers.size(); ++i) {
    size_t count = 0, sums = 0;
    for (const AdapterPointer& adapter : adapters)
      for (const LayerAdapterPointer& layer_adapter : adapter->layer_adapters[i]) ++count, sums += layer_adapter->has_scale();
    bool has_several =
        std::count_if(adapters.begin(), adapters.end(), [&](const AdapterPointer& a) { return !a->layer_adapters[i].empty(); }) > 1;
    if (has_several && sums != count)
      refuse(layers[i].path + ": merging these adapters would change their result. Merge only one of them, or use() them without merging.");
  }
}

// Replaces the adapter of the same name in all entries.
void replace(BankTable& table, const AdapterPointer& adapter) {
  for (BankEntry& entry : table.entries)
    for (AdapterPointer& a : entry.adapters)
      if (a->name == adapter->name) a = adapter;
}

}  // namespace

struct Bank::Impl {
  // Derives the entry of calls without rows from the adapters that are used, disabled and merged.
  void update_default_entry() {
    core->change([&](BankTable& table) { update_default_entry(table); });
  }
  void update_default_entry(BankTable& table) const {
    std::erase_if(table.entries, [](const BankEntry& entry) { return entry.adapters.size() > 1; });  // Rows never refer to these.
    size_t entry = 0;
    if (disabled == 0 && merged.empty() && !used.empty()) {
      entry = find_entry(table, used);
      if (entry == kNoEntry) entry = add_entry(table, find_all(table, used));
    }
    table.default_entry = entry;
    table.is_merged = !merged.empty();
  }

  void refuse_in_use(const std::string& name) const {
    if (std::count(merged.begin(), merged.end(), name)) refuse("the adapter \"" + name + "\" is merged. Call unmerge() first.");
    if (training->has(name)) refuse("the adapter \"" + name + "\" is being trained. Call train({}) first.");
  }

  const std::vector<std::pair<std::string, at::Tensor>>& leaves(const std::string& name) const {
    if (!training->has(name)) refuse("the adapter \"" + name + "\" is not being trained. Call train({\"" + name + "\"}) first.");
    return training->leaves(name);
  }

  void merge(const std::vector<std::string>& names) {
    if (!merged.empty()) refuse("adapters are merged already. Call unmerge() first.");
    at::NoGradGuard no_grad;
    training->parameters()->gather();
    std::vector<AdapterPointer> adapters = find_all(*core->table(), names);
    check_together(adapters, core->layers());
    check_merge(adapters, core->layers());
    std::vector<SavedWeight> changes;  // Weights with their new values.
    auto change = [&](const Layer& layer, const at::Tensor& weight, const at::Tensor& value) {
      if (!weight.defined()) return;
      if (!value.is_same(weight) && !at::isfinite(value).all().item<bool>())
        refuse(layer.path + " would not be finite with the adapter in it. Use the adapter without merging.");
      auto other = std::find_if(changes.begin(), changes.end(), [&](const SavedWeight& known) { return known.weight.is_alias_of(weight); });
      if (other == changes.end()) changes.push_back({weight, value});
      else if (!at::equal(other->value, value))
        refuse(layer.path +
               " shares its weight with another layer that the adapter does not change in the same way. Use the adapter without merging.");
    };
    for (const Layer& layer : core->layers()) {
      auto i = static_cast<size_t>(&layer - core->layers().data());
      Layer changed = layer;
      for (const AdapterPointer& adapter : adapters)
        for (const LayerAdapterPointer& layer_adapter : adapter->layer_adapters[i])
          changed.base = layer_adapter->merged(changed, adapter->factor);
      change(layer, layer.base.weight, changed.base.weight);
      change(layer, layer.base.bias, changed.base.bias);
    }
    std::erase_if(changes, [](const SavedWeight& same) { return same.value.is_same(same.weight); });
    for (const SavedWeight& change : changes) saved.push_back({change.weight, change.weight.clone()});
    for (auto& [weight, value] : changes) weight.copy_(value);
    merged = names;
    update_default_entry();
  }

  std::unique_ptr<Host> host;
  std::shared_ptr<Core> core;
  at::Tensor default_rows;
  mutable std::mutex mutex;  // Protects the members below.
  std::unique_ptr<Training> training;
  std::vector<std::string> used, merged;
  int disabled = 0;
  struct SavedWeight {
    at::Tensor weight, value;
  };
  std::vector<SavedWeight> saved;  // The weights as they were before the merge.
  std::map<std::string, Schedule> schedules;
};

Bank::Bank(std::unique_ptr<Host> host) : impl_(std::make_unique<Impl>()) {
  std::vector<Layer> layers = host->layers();
  impl_->training = std::make_unique<Training>(layers);
  impl_->core = make_core(std::move(layers));
  impl_->core->set_before_call([parameters = impl_->training->parameters()] { parameters->gather(); });
  impl_->default_rows = at::full({1}, kDefaultRow, at::kLong);
  host->attach(impl_->core->id(), impl_->default_rows, impl_->training->flat_tensors());
  impl_->host = std::move(host);
}

Bank::Bank(std::shared_ptr<Model> model) : Bank(make_host(std::move(model))) {}
Bank::Bank(std::shared_ptr<torch::nn::Module> tree) : Bank(make_host(std::move(tree))) {}

Bank::~Bank() {
  if (!impl_->merged.empty()) unmerge();
  impl_->host->detach();
}

void Bank::load(const std::string& name, const std::string& directory, const LoadOptions& options) {
  check_name(name);
  impl_->host->need_attached();
  AdapterPointer adapter = read_adapter(name, directory, impl_->core->layers(), options);
  std::lock_guard lock(impl_->mutex);
  impl_->refuse_in_use(name);
  impl_->core->change([&](BankTable& table) {
    if (find_entry(table, {name}) == kNoEntry) add_entry(table, {adapter});
    else replace(table, adapter);
    check_together(find_all(table, impl_->used), impl_->core->layers());
  });
}

void Bank::create(const std::string& name, const std::string& config, const LoadOptions& options) {
  check_name(name);
  impl_->host->need_attached();
  std::lock_guard lock(impl_->mutex);
  auto refuse_taken = [&](const BankTable& table) {
    if (find_entry(table, {name}) != kNoEntry)
      refuse("an adapter is already called \"" + name + "\". Choose another name, or remove() that adapter first.");
  };
  refuse_taken(*impl_->core->table());
  if (!impl_->merged.empty()) refuse("an adapter cannot be created while others are merged into the base. Call unmerge() first.");
  AdapterPointer adapter = create_adapter(name, config, impl_->core->layers(), impl_->host->facts(), options);
  impl_->core->change([&](BankTable& table) {
    refuse_taken(table);
    add_entry(table, {adapter});
  });
}

void Bank::combine(const std::string& name, const std::vector<std::pair<std::string, double>>& of, const Combination& how) {
  check_name(name);
  at::NoGradGuard no_grad;
  impl_->training->parameters()->gather();
  BankTablePointer table = impl_->core->table();
  std::vector<WeightedAdapter> sources;
  for (const auto& [source, weight] : of) sources.push_back({find_adapter(*table, source), weight});
  AdapterPointer adapter = adapters::combine(name, sources, how, impl_->core->layers());
  impl_->core->change([&](BankTable& now) {
    if (find_entry(now, {name}) != kNoEntry)
      refuse("an adapter is already called \"" + name + "\". Choose another name, or remove() that adapter first.");
    add_entry(now, {adapter});
  });
}

void Bank::save(const std::string& name, const std::string& directory) const {
  impl_->training->parameters()->gather();
  write_adapter(*find_adapter(*impl_->core->table(), name), directory, impl_->core->layers());
}

void Bank::remove(const std::string& name) {
  std::lock_guard lock(impl_->mutex);
  impl_->refuse_in_use(name);
  find_adapter(*impl_->core->table(), name);
  std::erase(impl_->used, name);
  impl_->core->change([&](BankTable& table) {
    std::erase_if(table.entries, [&](const BankEntry& entry) { return uses(entry, name); });
    impl_->update_default_entry(table);
  });
}

std::vector<std::string> Bank::names() const {
  std::vector<std::string> out;
  for (const BankEntry& entry : impl_->core->table()->entries)
    if (entry.adapters.size() == 1) out.push_back(entry.adapters[0]->name);
  std::sort(out.begin(), out.end());
  return out;
}

void Bank::set_scale(const std::string& name, double factor) {
  std::lock_guard lock(impl_->mutex);
  if (std::count(impl_->merged.begin(), impl_->merged.end(), name))
    refuse("the adapter \"" + name + "\" is merged into the weights. Call unmerge(), then set_scale(), then merge() again.");
  impl_->core->change([&](BankTable& table) {
    auto changed = std::make_shared<Adapter>(*find_adapter(table, name));
    if (!std::isfinite(factor)) refuse("a scale must be finite. Give another number.");
    if (!changed->has_scale())
      refuse("the adapter \"" + name + "\" is of a method without a scale. Use combine() with weights, or train it.");
    changed->factor = factor;
    replace(table, changed);
  });
}

Rows Bank::rows(const std::vector<std::string>& names) const {
  impl_->host->need_attached();
  BankTablePointer table = impl_->core->table();
  at::Tensor out = at::empty({static_cast<int64_t>(names.size())}, at::kLong);
  for (size_t i = 0; i < names.size(); ++i) {
    size_t entry = names[i] == kBase ? 0 : find_entry(*table, {names[i]});
    if (entry == kNoEntry) refuse("no adapter is called \"" + names[i] + "\". Load it first; names() lists those that are loaded.");
    out.data_ptr<int64_t>()[i] = table->entries[entry].id;
  }
  return Rows(out);
}

Bank::Scope::Scope(std::unique_ptr<models::PinScope> pin) : pin_(std::move(pin)) {}
Bank::Scope::~Scope() = default;
Bank::Scope Bank::scope(const Rows& rows) const {
  impl_->host->need_attached();
  return Scope(std::make_unique<models::PinScope>(rows.entries, impl_->core->id(), /*is_given=*/true));
}

void Bank::use(const std::vector<std::string>& names) {
  impl_->host->need_attached();
  std::lock_guard lock(impl_->mutex);
  std::vector<std::string> wanted;
  BankTablePointer table = impl_->core->table();
  std::copy_if(names.begin(), names.end(), std::back_inserter(wanted), [](const std::string& name) { return name != kBase; });
  check_together(find_all(*table, wanted), impl_->core->layers());
  impl_->used = std::move(wanted);
  impl_->update_default_entry();
}

Bank::Disabled::Disabled(Bank& bank) : bank_(bank) {
  std::lock_guard lock(bank_.impl_->mutex);
  ++bank_.impl_->disabled;
  bank_.impl_->update_default_entry();
}

Bank::Disabled::~Disabled() {
  std::lock_guard lock(bank_.impl_->mutex);
  --bank_.impl_->disabled;
  bank_.impl_->update_default_entry();
}

void Bank::freeze_base() { impl_->host->freeze(); }

void Bank::train(const std::vector<std::string>& names, const TrainOptions& options) {
  std::lock_guard lock(impl_->mutex);
  impl_->core->change([&](BankTable& table) {
    Training& training = *impl_->training;
    auto changed = training.train(find_all(table, names), find_all(table, training.names()), impl_->core->layers());
    for (const AdapterPointer& adapter : changed) replace(table, adapter);
  });
  if (options.freeze_base && !names.empty()) impl_->host->freeze();
  std::erase_if(impl_->schedules, [&](const auto& schedule) { return !impl_->training->has(schedule.first); });
}

std::vector<NamedTensor> Bank::parameters(const std::string& name) const {
  std::lock_guard lock(impl_->mutex);
  std::vector<NamedTensor> out;
  for (const auto& [path, tensor] : impl_->leaves(name)) out.emplace_back(path, tensor);
  return out;
}

std::string Bank::trainable_summary() const {
  std::lock_guard lock(impl_->mutex);
  std::vector<AdapterPointer> all;
  for (const BankEntry& entry : impl_->core->table()->entries)
    if (entry.adapters.size() == 1) all.push_back(entry.adapters[0]);
  std::vector<NamedTensor> base = impl_->host->facts().parameters;
  // PEFT raises AdaLoRA's counters of ranks on a base in half precision to f32, and the new parameters are trainable.
  bool has_trainable_counters = !base.empty() && at::elementSize(base[0].value().scalar_type()) == 2;
  int64_t trained = 0;
  for (const std::string& name : impl_->training->names())
    for (const auto& [path, tensor] : impl_->training->leaves(name))
      trained += tensor.numel() + (has_trainable_counters && path.ends_with("lora_E"));
  return adapters::trainable_summary(base, all, trained);
}

at::Tensor Bank::penalty(const std::string& name) const {
  std::lock_guard lock(impl_->mutex);
  return orthogonal_penalty(impl_->leaves(name), adalora_config(*find_adapter(*impl_->core->table(), name)));
}

void Bank::allocate_ranks(const std::string& name, int64_t step) {
  std::lock_guard lock(impl_->mutex);
  const auto& leaves = impl_->leaves(name);
  AdaloraFields config = adalora_config(*find_adapter(*impl_->core->table(), name));
  if (config.total_step == 0)
    refuse("the configuration of \"" + name + "\" has no total_step, which rank allocation needs. Set it in adapter_config.json.");
  if (!config.remaining.empty())
    refuse("ranks of \"" + name + "\" were pruned before it was loaded, and cannot be allocated again. Train it without allocate_ranks().");
  Schedule& schedule = impl_->schedules.try_emplace(name, config).first->second;
  schedule.advance(leaves, step);
  impl_->core->change([&](BankTable& table) {
    auto changed = std::make_shared<Adapter>(*find_adapter(table, name));
    changed->kept_ranks = schedule.kept();
    replace(table, changed);
  });
}

void Bank::merge(const std::vector<std::string>& names) {
  std::lock_guard lock(impl_->mutex);
  impl_->merge(names);
}

void Bank::unmerge() {
  std::lock_guard lock(impl_->mutex);
  at::NoGradGuard no_grad;
  for (Impl::SavedWeight& saved : impl_->saved) saved.weight.copy_(saved.value);
  impl_->saved.clear();
  impl_->merged.clear();
  impl_->update_default_entry();
}

void Bank::merge_and_unload(const std::vector<std::string>& names) {
  std::lock_guard lock(impl_->mutex);
  if (!impl_->training->names().empty()) refuse("adapters are being trained. Call train({}) first.");
  impl_->merge(names);
  impl_->saved.clear();
  impl_->merged.clear();
  impl_->used.clear();
  impl_->core->change([&](BankTable& table) {
    table.entries.resize(1);
    impl_->update_default_entry(table);
  });
}

}  // namespace tenon
