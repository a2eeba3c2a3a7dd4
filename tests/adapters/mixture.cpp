// Batches that mix adapters of different methods: adapters_mixture BASE BACKEND ADAPTER... Each sample is compared with its result alone,
// each adapter's gradients with those of its samples alone, and a sample's bits with those in another batch. Prints failures and the number
// of recordings after the first calls.
#include <ATen/core/grad_mode.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/randint.h>
#include <ATen/TensorOperators.h>
#include <tenon/adapters.h>
#include <tenon/control.h>

#include <cstdio>
#include <map>
#include <random>

using namespace tenon;

namespace {

constexpr int64_t kRows = 12, kLength = 6;
constexpr int kBatches = 8;

class Mixture {
 public:
  Mixture(const std::string& base, const std::string& backend, const std::vector<std::string>& directories)
      : model_(load_model(base)), bank_(model_), run_(compile(model_, {.backend = backend, .fullgraph = true})) {
    for (const std::string& directory : directories) {
      names_.push_back("a" + std::to_string(names_.size()));
      bank_.load(names_.back(), directory);
    }
    bank_.train(names_);
  }

  void infer() {
    at::NoGradGuard no_grad;
    at::Tensor ids = draw_ids();
    std::vector<std::string> rows = draw_rows();
    at::Tensor got = run_(ids, bank_.rows(rows)).clone();
    for (int64_t i = 0; i < kRows; ++i) compare(got[i], alone(ids, rows, i), "a row of " + name_of(rows, i));
    // The first half of the samples stays, all others change.
    at::Tensor other = at::cat({ids.narrow(0, 0, kRows / 2), draw_ids().narrow(0, 0, kRows / 2)});
    std::vector<std::string> other_names = draw_rows();
    std::copy(rows.begin(), rows.begin() + kRows / 2, other_names.begin());
    at::Tensor again = run_(other, bank_.rows(other_names));
    for (int64_t i = 0; i < kRows / 2; ++i)
      if (!again[i].equal(got[i])) fail("a row of " + name_of(rows, i) + " depends on the other rows of the batch");
  }

  void train() {
    at::AutoGradMode grad(true);
    at::Tensor ids = draw_ids();
    std::vector<std::string> rows = draw_rows();
    run_(ids, bank_.rows(rows)).pow(2).sum().backward();
    auto mixed = take_gradients();
    for (const std::string& name : names_) {
      std::vector<at::Tensor> mine;
      for (int64_t i = 0; i < kRows; ++i)
        if (name_of(rows, i) == name) mine.push_back(ids.narrow(0, i, 1));
      if (!mine.empty()) model_->forward(at::cat(mine), bank_.rows(std::vector<std::string>(mine.size(), name))).pow(2).sum().backward();
      auto expected = take_gradients();
      for (const NamedTensor& parameter : bank_.parameters(name)) {
        const std::string key = name + "." + parameter.key();
        if (mine.empty() && mixed.contains(key) && mixed[key].any().item<bool>()) fail("a gradient of " + key + ", which has no row");
        if (!mine.empty()) compare(mixed.at(key), expected.at(key), "the gradient of " + key);
      }
    }
  }

  int wrong() const { return wrong_; }

 private:
  at::Tensor draw_ids() { return at::randint(3, 60, {kRows, kLength}, at::detail::createCPUGenerator(random_()), at::kLong); }
  std::vector<std::string> draw_rows() {
    std::vector<std::string> out;
    for (int64_t i = 0; i < kRows; ++i) {
      size_t which = random_() % (names_.size() + 1);
      out.push_back(which == names_.size() ? kBase : names_[which]);
    }
    return out;
  }
  static const std::string& name_of(const std::vector<std::string>& rows, int64_t i) { return rows[static_cast<size_t>(i)]; }

  at::Tensor alone(const at::Tensor& ids, const std::vector<std::string>& rows, int64_t i) {
    return model_->forward(ids.narrow(0, i, 1), bank_.rows({name_of(rows, i)}))[0];
  }

  std::map<std::string, at::Tensor> take_gradients() {
    std::map<std::string, at::Tensor> out;
    for (const std::string& name : names_)
      for (const NamedTensor& parameter : bank_.parameters(name)) {
        if (parameter.value().grad().defined()) out[name + "." + parameter.key()] = parameter.value().grad();
        parameter.value().mutable_grad() = at::Tensor();
      }
    return out;
  }

  // A sample alone is computed by libtorch, a mixed batch possibly by Tenon's kernels, which round differently. Cancellation in a
  // gradient's sum can amplify the difference by a factor of several hundred.
  void compare(const at::Tensor& got, const at::Tensor& expected, const std::string& what) {
    double error = (got - expected).abs().max().item<double>(), bound = 1e-4 * std::max(1e-3, expected.abs().max().item<double>());
    if (!(error <= bound)) fail(what + " is off by " + std::to_string(error) + " where " + std::to_string(bound) + " is allowed");
  }
  void fail(const std::string& text) {
    ++wrong_;
    std::printf("wrong: %s\n", text.c_str());
  }

  std::mt19937_64 random_{1};
  std::shared_ptr<Model> model_;
  Bank bank_;
  decltype(compile(std::shared_ptr<Model>(), {})) run_;
  std::vector<std::string> names_;
  int wrong_ = 0;
};

}  // namespace

int main(int count, char** arguments) try {
  if (count < 5) return std::fprintf(stderr, "adapters_mixture BASE BACKEND ADAPTER ADAPTER ...\n"), 2;
  Mixture mixture(arguments[1], arguments[2], {arguments + 3, arguments + count});
  for (int i = 0; i < 4; ++i) mixture.infer(), mixture.train();
  size_t recorded = stats().recorded, graphs = stats().graphs;
  for (int i = 0; i < kBatches; ++i) mixture.infer(), mixture.train();
  std::printf("wrong %d recorded %zu graphs %zu\n", mixture.wrong(), stats().recorded - recorded, stats().graphs - graphs);
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
