// Random operations on the bank of a compiled model: adapters_walk stays|dies BASE OPERATIONS SEED ADAPTER... Each call is compared with a
// freshly loaded model that has only the adapters of that call. Prints failures and the number of recordings after the first calls. With
// `dies` the bank is sometimes destroyed and made again. Rows are kept for later calls: they must work as long as their bank and adapters
// exist, and be refused afterwards.
#include <ATen/core/grad_mode.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/zeros_like.h>
#include <ATen/TensorOperators.h>
#include <tenon/adapters.h>
#include <tenon/control.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <random>
#include <set>

#include "base/error.h"

using namespace tenon;

namespace {

constexpr int64_t kRows = 4, kLength = 6;

// Computes the result for the input with a model that has only the given adapters.
class Oracle {
 public:
  Oracle(const std::string& base, at::Tensor input) : model_(load_model(base)), input_(std::move(input)) {}

  at::Tensor operator()(const std::vector<std::pair<std::string, double>>& adapters) {
    std::string key;
    for (const auto& [directory, scale] : adapters) key += directory + "*" + std::to_string(scale) + " ";
    auto found = known_.find(key);
    if (found != known_.end()) return found->second;
    at::NoGradGuard no_grad;
    Bank bank(model_);
    std::vector<std::string> names;
    for (const auto& [directory, scale] : adapters) {
      names.push_back("a" + std::to_string(names.size()));
      bank.load(names.back(), directory);
      if (scale != 1) bank.set_scale(names.back(), scale);
    }
    bank.use(names);
    return known_[key] = model_->forward(input_);
  }
  void forget(const std::string& directory) {
    std::erase_if(known_, [&](const auto& item) { return item.first.find(directory) != std::string::npos; });
  }

 private:
  std::shared_ptr<Model> model_;
  at::Tensor input_;
  std::map<std::string, at::Tensor> known_;
};

class Walk {
 public:
  Walk(const std::string& base, std::vector<std::string> directories, uint64_t seed, bool dies)
      : random_(seed),
        dies_(dies),
        directories_(std::move(directories)),
        model_(load_model(base)),
        bank_(std::make_unique<Bank>(model_)),
        other_model_(load_model(base)),
        other_bank_(other_model_),
        run_(compile(model_, {.backend = dies ? "eager" : "native", .fullgraph = true})),
        input_(at::randint(3, 60, {kRows, kLength}, at::detail::createCPUGenerator(seed), at::kLong)),
        oracle_(base, input_),
        trained_(std::filesystem::temp_directory_path() / ("tenon_walk_" + std::to_string(seed) + (dies ? "_dies" : ""))) {
    other_bank_.load("n0", directories_[0]);
  }
  ~Walk() { std::filesystem::remove_all(trained_); }

  // Makes every kind of call, with the largest adapters, so that later calls need no recording.
  void warm_up() {
    for (int i = 0; i < 4; ++i) call(), call_rows();
    std::vector<std::string> all;
    for (int copy = 0; copy < 2; ++copy)  // The walk may train two copies of one adapter.
      for (const std::string& directory : directories_) {
        all.push_back("w" + std::to_string(all.size()));
        bank_->load(all.back(), directory);
      }
    bank_->train(all);
    for (int i = 0; i < 4; ++i) {
      at::AutoGradMode grad(true);
      run_(input_, bank_->rows({all[0], all[1], all[2], kBase})).pow(2).mean().backward();
    }
    bank_->train({});
    for (const std::string& name : all) bank_->remove(name);
  }

  void step() {
    switch (random_() % 16) {
      case 0:
      case 1:
        return load();
      case 2:
        return remove();
      case 3:
        return use(1);
      case 4:
        return use(2);
      case 5:
        return scale();
      case 6:
        return merge();
      case 7:
        return train();
      case 8:
        disabled_ ? disabled_.reset() : void(disabled_.emplace(*bank_));
        return;
      case 9:
        return call_rows();
      case 10:
        return refuse();
      case 11:
        return keep_rows();
      case 12:
      case 13:
        return call_kept_rows();
      case 14:
        return make_bank_again();
      default:
        return call();
    }
  }

  size_t calls() const { return calls_; }
  size_t refused() const { return refused_; }
  size_t wrong() const { return wrong_; }

 private:
  struct LoadedName {
    std::string directory;
    double scale = 1;
    size_t birth = 0;  // Identifies the load that introduced the name; loading it again keeps rows valid.
  };
  struct KeptRows {
    Rows rows;
    std::vector<std::string> names;
    std::vector<size_t> births;
    size_t bank;
  };

  template <class C>
  auto any(C& c) {
    auto it = c.begin();
    std::advance(it, static_cast<long>(random_() % c.size()));
    return *it;
  }

  void load() {
    std::string name = "n" + std::to_string(random_() % 6);
    if (std::count(merged_.begin(), merged_.end(), name)) return;
    std::string directory = any(directories_);
    try {
      bank_->load(name, directory);
    } catch (const UserError&) {  // The adapter cannot be used together with the active ones.
      return;
    }
    size_t birth = loaded_.contains(name) ? loaded_[name].birth : ++births_;
    loaded_[name] = {directory, 1, birth};
  }

  void remove() {
    if (loaded_.empty()) return;
    std::string name = any(loaded_).first;
    if (std::count(merged_.begin(), merged_.end(), name)) return;
    bank_->remove(name);
    loaded_.erase(name);
    std::erase(used_, name);
  }

  void use(size_t count) {
    if (loaded_.size() < count) return;
    std::vector<std::string> names;
    while (names.size() < count)
      if (std::string name = any(loaded_).first; !std::count(names.begin(), names.end(), name)) names.push_back(name);
    try {
      bank_->use(names);
      used_ = names;
    } catch (const UserError&) {
    }
    call();
  }

  void scale() {
    if (loaded_.empty()) return;
    std::string name = any(loaded_).first;
    double factor = static_cast<double>(random_() % 8) / 4;
    if (std::count(merged_.begin(), merged_.end(), name)) return;
    try {
      bank_->set_scale(name, factor);
      loaded_[name].scale = factor;
    } catch (const UserError&) {
    }
    call();
  }

  void merge() {
    if (!merged_.empty()) {
      bank_->unmerge();
      merged_.clear();
    } else if (!loaded_.empty()) {
      std::string name = any(loaded_).first;
      bank_->merge({name});
      merged_ = {name};
    }
    call();
  }

  // Makes one step of gradient descent on one or two adapters.
  void train() {
    if (loaded_.empty() || !merged_.empty()) return;
    std::set<std::string> names = {any(loaded_).first, any(loaded_).first};
    at::AutoGradMode grad(true);
    bank_->train({names.begin(), names.end()});
    std::vector<std::string> rows;
    for (int64_t i = 0; i < kRows; ++i) rows.push_back(any(names));
    at::Tensor out = run_(input_, bank_->rows(rows));
    compare(out.detach(), rows, "while training");
    out.pow(2).mean().backward();
    at::NoGradGuard no_grad;
    for (const std::string& name : names) {
      for (const NamedTensor& parameter : bank_->parameters(name))
        if (parameter.value().grad().defined()) parameter.value().sub_(parameter.value().grad(), 0.01);
      std::string directory = trained_ + "/" + name + std::to_string(++trainings_);
      bank_->save(name, directory);
      loaded_[name].directory = directory;
    }
    bank_->train({});
  }

  // Invalid operations must be refused and change nothing.
  void refuse() {
    auto must = [&](auto&& f) {
      try {
        f();
      } catch (const UserError&) {
        return;
      }
      fail("something was not refused");
    };
    must([&] { bank_->load("x.y", directories_[0]); });
    must([&] { bank_->rows({"nobody"}); });
    must([&] { bank_->load("n0", "/nowhere"); });
    must([&] { bank_->remove("nobody"); });
    call();
  }

  void call() {
    at::NoGradGuard no_grad;
    at::Tensor out = run_(input_);
    std::vector<std::pair<std::string, double>> adapters;
    if (!merged_.empty()) adapters = directories_of(merged_);
    else if (!disabled_) adapters = directories_of(used_);
    compare(out, oracle_(adapters), "call");
  }

  void call_rows() {
    std::vector<std::string> rows = some_rows();
    if (!merged_.empty()) return;
    at::NoGradGuard no_grad;
    compare(run_(input_, bank_->rows(rows)), rows, "rows");
  }

  std::vector<std::string> some_rows() {
    std::vector<std::string> rows;
    for (int64_t i = 0; i < kRows; ++i) rows.push_back(loaded_.empty() || random_() % 4 == 0 ? kBase : any(loaded_).first);
    return rows;
  }

  void keep_rows() {
    std::vector<std::string> names = some_rows();
    std::vector<size_t> births;
    for (const std::string& name : names) births.push_back(name == kBase ? 0 : loaded_[name].birth);
    if (kept_.size() < 8) kept_.push_back({bank_->rows(names), names, births, banks_});
    else kept_[random_() % kept_.size()] = {bank_->rows(names), names, births, banks_};
  }

  bool are_valid(const KeptRows& kept) const {
    bool is_valid = kept.bank == banks_;
    for (size_t i = 0; is_valid && i < kept.names.size(); ++i) {
      if (kept.names[i] == kBase) continue;
      auto found = loaded_.find(kept.names[i]);
      is_valid = found != loaded_.end() && found->second.birth == kept.births[i] && merged_.empty();
    }
    return is_valid;
  }

  void call_kept_rows() {
    at::NoGradGuard no_grad;
    auto must_refuse = [&](const Rows& rows, const char* what) {
      try {
        run_(input_, rows);
      } catch (const UserError&) {
        ++refused_;
        return;
      }
      fail(std::string(what) + " were not refused");
    };
    must_refuse(other_bank_.rows({"n0", kBase, kBase, kBase}), "rows of another model");
    if (kept_.empty()) return;
    const KeptRows& kept = kept_[random_() % kept_.size()];
    if (!are_valid(kept)) return must_refuse(kept.rows, "rows of a bank or an adapter that is gone");
    if (merged_.empty()) compare(run_(input_, kept.rows), kept.names, "kept rows");
  }

  // Destroys the bank, after which the model must compute the base, and makes a new one without the old adapters.
  void make_bank_again() {
    if (!dies_) return;
    disabled_.reset();
    bank_.reset();
    ++banks_;
    loaded_.clear(), used_.clear(), merged_.clear();
    call();
    call_kept_rows();
    bank_ = std::make_unique<Bank>(model_);
    call();
  }

  std::vector<std::pair<std::string, double>> directories_of(const std::vector<std::string>& names) {
    std::vector<std::pair<std::string, double>> out;
    for (const std::string& name : names) out.emplace_back(loaded_.at(name).directory, loaded_.at(name).scale);
    return out;
  }

  void compare(const at::Tensor& got, const std::vector<std::string>& rows, const char* what) {
    at::NoGradGuard no_grad;
    at::Tensor expected = at::zeros_like(got);
    for (int64_t i = 0; i < kRows; ++i) {
      const std::string& name = rows[static_cast<size_t>(i)];
      expected[i].copy_(oracle_(name == kBase ? std::vector<std::pair<std::string, double>>() : directories_of({name}))[i]);
    }
    compare(got, expected, what);
  }

  void compare(const at::Tensor& got, const at::Tensor& expected, const char* what) {
    ++calls_;
    double error = (got - expected).abs().max().item<double>(), bound = 2e-5 * std::max(1.0, expected.abs().max().item<double>());
    if (!(error <= bound)) fail(std::string(what) + ": off by " + std::to_string(error));
  }
  void fail(const std::string& text) {
    ++wrong_;
    std::printf("wrong: %s\n", text.c_str());
  }

  std::mt19937_64 random_;
  bool dies_;
  std::vector<std::string> directories_;
  std::shared_ptr<Model> model_;
  std::unique_ptr<Bank> bank_;
  std::shared_ptr<Model> other_model_;
  Bank other_bank_;
  decltype(compile(std::shared_ptr<Model>())) run_;
  at::Tensor input_;
  Oracle oracle_;
  std::string trained_;
  std::map<std::string, LoadedName> loaded_;
  std::vector<std::string> used_, merged_;
  std::optional<Bank::Disabled> disabled_;
  std::vector<KeptRows> kept_;
  size_t banks_ = 0, births_ = 0;
  size_t calls_ = 0, refused_ = 0, wrong_ = 0, trainings_ = 0;
};

}  // namespace

int main(int count, char** arguments) try {
  if (count < 8) return std::fprintf(stderr, "adapters_walk stays|dies BASE OPERATIONS SEED ADAPTER ADAPTER ADAPTER ...\n"), 2;
  int operations = std::atoi(arguments[3]);
  Walk walk(arguments[2], {arguments + 5, arguments + count}, std::strtoull(arguments[4], nullptr, 10),
            arguments[1] == std::string("dies"));
  walk.warm_up();
  size_t recorded = stats().recorded, graphs = stats().graphs;
  for (int i = 0; i < operations; ++i) walk.step();
  std::printf("operations %d calls %zu refused %zu wrong %zu recorded %zu graphs %zu\n", operations, walk.calls(), walk.refused(),
              walk.wrong(), stats().recorded - recorded, stats().graphs - graphs);
  return walk.wrong() > 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
