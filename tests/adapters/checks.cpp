// Checks of errors and edge cases of banks: adapters_checks NAME BASE ADAPTER_1 ADAPTER_2 runs the check of that name and prints its
// failures. tests/adapters/test_checks.py runs all of them on a tiny Llama with two LoRA adapters.
#include <tenon/adapters.h>
#include <tenon/generate.h>
#include <torch/torch.h>

#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>

#include "base/error.h"

using namespace tenon;

namespace {

struct Paths {
  std::string base, first, second;
};

int failures = 0;

void fail(const std::string& text) {
  ++failures;
  std::printf("%s\n", text.c_str());
}

void expect_equal(const at::Tensor& got, const at::Tensor& expected, const std::string& what) {
  if (!at::allclose(got, expected, 1e-4, 1e-5)) fail(what + " differs by " + std::to_string((got - expected).abs().max().item<double>()));
}

// The call must throw a UserError whose text contains all fragments.
template <class F>
void expect_refusal(const std::string& what, std::initializer_list<const char*> fragments, F&& call) {
  try {
    call();
  } catch (const UserError& error) {
    for (const char* fragment : fragments)
      if (std::string(error.what()).find(fragment) == std::string::npos) fail(what + ": \"" + fragment + "\" is not in: " + error.what());
    return;
  } catch (const std::exception& error) {
    return fail(what + ": not a UserError: " + error.what());
  }
  fail(what + ": was not refused");
}

at::Tensor some_ids() { return torch::arange(3, 17, at::kLong).view({2, 7}); }

void rows_of_a_dead_bank(const Paths& paths) {
  torch::NoGradGuard no_grad;
  auto model = load_model(paths.base);
  auto compiled = compile(model, {.backend = "eager"});
  at::Tensor ids = some_ids();
  std::optional<Rows> rows;
  {
    Bank bank(model);
    bank.load("a", paths.first);
    rows = bank.rows({"a", kBase});
    for (int i = 0; i < 3; ++i) compiled(ids, *rows);
  }
  expect_refusal("eager, no bank", {"no bank", "rows()"}, [&] { model->forward(ids, *rows); });
  expect_refusal("compiled, no bank", {"no bank", "rows()"}, [&] { compiled(ids, *rows); });
  Bank next(model);
  next.load("a", paths.first);
  for (int i = 0; i < 3; ++i) compiled(ids, next.rows({"a", kBase}));
  expect_refusal("eager, a new bank", {"no longer exists", "rows()"}, [&] { model->forward(ids, *rows); });
  expect_refusal("compiled, a new bank", {"no longer exists", "rows()"}, [&] { compiled(ids, *rows); });
}

void rows_of_another_model(const Paths& paths) {
  torch::NoGradGuard no_grad;
  auto model = load_model(paths.base), other = load_model(paths.base), bare = load_model(paths.base);
  Bank bank(model), other_bank(other);
  bank.load("a", paths.first);
  other_bank.load("a", paths.second);
  Rows rows = other_bank.rows({"a", kBase});
  expect_refusal("a model with a bank", {"another model", "rows()"}, [&] { model->forward(some_ids(), rows); });
  expect_refusal("base rows only", {"another model"}, [&] { model->forward(some_ids(), other_bank.rows({kBase, kBase})); });
  expect_refusal("a model without a bank", {"no bank"}, [&] { bare->forward(some_ids(), rows); });
}

// A new adapter is loaded 65,536 changes after another one was removed; rows of the removed one must still be refused.
void rows_after_many_changes(const Paths& paths) {
  torch::NoGradGuard no_grad;
  auto model = load_model(paths.base);
  Bank bank(model);
  bank.load("gone", paths.first);
  bank.load("b", paths.first);
  bank.load("c", paths.second);
  Rows rows = bank.rows({"gone", kBase});
  bank.remove("gone");
  for (int i = 1; i < 65536; ++i) {
    bank.use(std::vector<std::string>{"b", "c"});
    bank.use(std::vector<std::string>());
  }
  bank.load("new", paths.second);
  expect_refusal("rows of a removed adapter", {"removed", "rows()"}, [&] { model->forward(some_ids(), rows); });
}

void rows_made_by_hand(const Paths& paths) {
  auto model = load_model(paths.base);
  Bank bank(model);
  at::Tensor ids = some_ids();
  expect_refusal("undefined", {"rows must be"}, [&] { model->forward(ids, Rows(at::Tensor())); });
  expect_refusal("int32", {"rows must be"}, [&] { model->forward(ids, Rows(at::zeros({2}, at::kInt))); });
  expect_refusal("two dimensions", {"rows must be"}, [&] { model->forward(ids, Rows(at::zeros({2, 1}, at::kLong))); });
  expect_refusal("any numbers", {"row 0", "rows()"}, [&] { model->forward(ids, Rows(at::full({2}, 77, at::kLong))); });
  expect_refusal("too few", {"1 rows for a batch of 2"}, [&] { model->forward(ids, bank.rows({kBase})); });
}

void generated_rows_of_a_dead_bank(const Paths& paths) {
  auto model = load_causal_model(paths.base);
  Generator generate(model, {.backend = "eager"});
  GenerateOptions options{.max_new_tokens = 3, .stop = std::vector<int64_t>{}};
  {
    Bank bank(model);
    bank.load("a", paths.first);
    options.rows = bank.rows({"a"});
    generate({{3, 4, 5}}, options);
  }
  expect_refusal("a generator", {"no bank", "rows()"}, [&] { generate({{3, 4, 5}}, options); });
}

void null_models(const Paths&) {
  expect_refusal("a bank on a null model", {"null"}, [] { Bank bank(std::shared_ptr<Model>{}); });
  expect_refusal("a bank on a null tree", {"null"}, [] { Bank bank(std::shared_ptr<torch::nn::Module>{}); });
  expect_refusal("a bank on an empty holder", {"null"}, [] { Bank bank(torch::nn::Linear{nullptr}); });
  expect_refusal("a generator of a null model", {"null"}, [] { Generator generate(nullptr); });
  expect_refusal("a null model, compiled", {"null"}, [] { compile(std::shared_ptr<Model>{}); });
}

void wrong_inputs(const Paths& paths) {
  torch::NoGradGuard no_grad;
  auto model = load_model(paths.base);
  Bank bank(model);
  bank.load("a", paths.first);
  bank.use("a");
  auto compiled = compile(model, {.backend = "eager"});
  at::Tensor ids = some_ids();
  for (int i = 0; i < 3; ++i) compiled(ids);
  auto refuse = [&](const std::string& what, std::initializer_list<const char*> fragments, const at::Tensor& input,
                    const at::Tensor& mask = {}) {
    expect_refusal(what, fragments, [&] { model->forward(input, mask); });
    expect_refusal(what + ", compiled", fragments, [&] { compiled(input, mask); });
  };
  refuse("floats", {"input must be token ids", "Float"}, ids.to(at::kFloat));
  refuse("one dimension", {"input must be token ids", "[7]"}, ids[0]);
  refuse("three dimensions", {"input must be token ids"}, ids.unsqueeze(0));
  refuse("undefined", {"input must be token ids", "undefined"}, at::Tensor());
  refuse("no rows", {"input is empty"}, ids.slice(0, 0, 0));
  refuse("no tokens", {"input is empty"}, ids.slice(1, 0, 0));
  refuse("a short mask", {"mask", "[2, 7]", "[2, 3]"}, ids, at::ones({2, 3}));
  refuse("a mask of four dimensions", {"mask"}, ids, at::ones({2, 1, 7, 7}));
  expect_refusal("undefined with rows", {"input must be token ids"}, [&] { model->forward(at::Tensor(), bank.rows({"a", "a"})); });
  expect_refusal("no rows with rows", {"rows for a batch of 0"}, [&] { model->forward(ids.slice(0, 0, 0), bank.rows({"a", "a"})); });
  expect_equal(compiled(ids), model->forward(ids), "a good call after all that");
}

void scale_while_merged(const Paths& paths) {
  torch::NoGradGuard no_grad;
  auto model = load_model(paths.base);
  Bank bank(model);
  bank.load("a", paths.first);
  bank.load("b", paths.second);
  bank.merge({"a"});
  expect_refusal("the merged adapter", {"unmerge()"}, [&] { bank.set_scale("a", 3); });
  bank.set_scale("b", 3);
  bank.unmerge();
  bank.set_scale("a", 3);
}

// torch::nn::utils gives new data to the parameters of an adapter.
void vector_to_parameters(const Paths& paths) {
  auto model = load_model(paths.base);
  Bank bank(model);
  bank.load("a", paths.first);
  bank.use("a");
  bank.train({"a"});
  auto compiled = compile(model, {.backend = "eager"});
  at::Tensor ids = some_ids();
  for (int i = 0; i < 3; ++i) compiled(ids);
  std::vector<at::Tensor> parameters;
  for (const NamedTensor& parameter : bank.parameters("a")) parameters.push_back(parameter.value());
  for (double factor : {2.0, -0.5}) {
    torch::nn::utils::vector_to_parameters(torch::nn::utils::parameters_to_vector(parameters).detach() * factor, parameters);
    std::string copy = (std::filesystem::temp_directory_path() / ("tenon_checks_" + std::to_string(::getpid()))).string();
    bank.save("a", copy);
    auto fresh = load_model(paths.base);
    Bank fresh_bank(fresh);
    fresh_bank.load("a", copy);
    fresh_bank.use("a");
    std::filesystem::remove_all(copy);
    at::Tensor expected = fresh->forward(ids);
    expect_equal(compiled(ids), expected, "compiled");
    expect_equal(model->forward(ids), expected, "eager");
    torch::NoGradGuard no_grad;
    expect_equal(model->forward(ids), expected, "without gradients");
  }
  torch::optim::SGD optimizer(parameters, 0.1);
  at::Tensor before = compiled(ids).detach();
  compiled(ids).pow(2).mean().backward();
  optimizer.step();
  if (at::allclose(compiled(ids).detach(), before)) fail("a step of the optimizer changed nothing");
  parameters[0].set_data(at::zeros({3}));
  expect_refusal("data of another shape", {"another type or shape"}, [&] { compiled(ids); });
}

void autograd_grad(const Paths& paths) {
  auto model = load_model(paths.base);
  Bank bank(model);
  bank.load("a", paths.first);
  bank.load("b", paths.second);
  bank.train({"a", "b"});
  auto compiled = compile(model, {.backend = "eager"});
  at::Tensor ids = some_ids();
  Rows rows = bank.rows({"a", "b"});
  std::vector<at::Tensor> parameters;
  for (const char* name : {"a", "b"})
    for (const NamedTensor& parameter : bank.parameters(name)) parameters.push_back(parameter.value());
  auto check = [&](const std::string& what, const std::function<at::Tensor()>& call) {
    for (const at::Tensor& parameter : parameters) parameter.mutable_grad() = at::Tensor();
    call().pow(2).mean().backward();
    auto found = torch::autograd::grad({call().pow(2).mean()}, parameters);
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (found[i].abs().max().item<double>() == 0) fail(what + ": a gradient of zeros");
      expect_equal(found[i], parameters[i].grad(), what + ": a gradient");
    }
  };
  check("eager", [&] { return model->forward(ids, rows); });
  for (int i = 0; i < 4; ++i) check("compiled", [&] { return compiled(ids, rows); });
  int hook_calls = 0;
  parameters[0].register_hook([&](const at::Tensor&) { ++hook_calls; });
  model->forward(ids, rows).sum().backward();
  if (hook_calls != 1) fail("a hook on a parameter was not called");
}

// A layer that module_dropout skips gets no gradient, also in a compiled step, and keeps the gradient of an earlier call.
void skipped_layers(const Paths& paths) {
  auto model = load_model(paths.base);
  Bank bank(model);
  auto create = [&](const std::string& name, double probability) {
    bank.create(name, LoHaConfig{.r = 2, .module_dropout = probability, .init_weights = false, .target_modules = {"q_proj", "v_proj"}});
  };
  create("never", 0);
  create("some", 0.5);
  create("all", 1);
  bank.train({"never", "some", "all"});
  std::vector<at::Tensor> parameters;
  for (const char* name : {"never", "some", "all"})
    for (const NamedTensor& parameter : bank.parameters(name)) parameters.push_back(parameter.value());
  size_t third = parameters.size() / 3;
  at::Tensor ids = torch::arange(3, 24, at::kLong).view({3, 7});
  Rows rows = bank.rows({"never", "some", "all"});
  auto step = [&](const at::Tensor& given) {
    at::Tensor loss = model->forward(given, rows).pow(2).mean();
    loss.backward();
    return loss.detach();
  };
  auto gradients = [&](int seed, auto& run) {
    for (const at::Tensor& parameter : parameters) parameter.mutable_grad() = at::Tensor();
    torch::manual_seed(static_cast<uint64_t>(seed));
    run(ids);
    std::vector<at::Tensor> out;
    for (const at::Tensor& parameter : parameters) out.push_back(parameter.grad().defined() ? parameter.grad().clone() : at::Tensor());
    return out;
  };
  model->train();
  auto compiled = compile(step, {.backend = "eager"});
  size_t skipped = 0;
  for (int seed = 0; seed < 12; ++seed) {
    auto expected = gradients(seed, step), got = gradients(seed, compiled);
    for (size_t i = 0; i < parameters.size(); ++i) {
      std::string what = "seed " + std::to_string(seed) + ", parameter " + std::to_string(i);
      if (i < third && !expected[i].defined()) fail(what + " has no gradient");
      if (i >= 2 * third && expected[i].defined()) fail(what + " has a gradient");
      if (i >= third && i < 2 * third) skipped += !expected[i].defined();
      if (got[i].defined() != expected[i].defined()) fail(what + ": compiled and eager disagree whether there is a gradient");
      else if (got[i].defined()) expect_equal(got[i], expected[i], what);
    }
  }
  if (skipped == 0 || skipped == 12 * third) fail("some layers must be skipped in some of the steps");
  model->eval();
  auto before = gradients(0, step);
  model->train();
  step(ids);
  for (size_t i = 2 * third; i < parameters.size(); ++i) {
    if (!before[i].defined()) fail("a layer was skipped in evaluation mode");
    else expect_equal(parameters[i].grad(), before[i], "the gradient of an earlier call");
  }
}

const std::map<std::string, void (*)(const Paths&)> kChecks = {
    {"rows_of_a_dead_bank", rows_of_a_dead_bank},
    {"rows_of_another_model", rows_of_another_model},
    {"rows_after_many_changes", rows_after_many_changes},
    {"rows_made_by_hand", rows_made_by_hand},
    {"generated_rows_of_a_dead_bank", generated_rows_of_a_dead_bank},
    {"null_models", null_models},
    {"wrong_inputs", wrong_inputs},
    {"scale_while_merged", scale_while_merged},
    {"vector_to_parameters", vector_to_parameters},
    {"autograd_grad", autograd_grad},
    {"skipped_layers", skipped_layers},
};

}  // namespace

int main(int count, char** arguments) try {
  if (count == 2 && std::string(arguments[1]) == "--list") {
    for (const auto& [name, check] : kChecks) std::printf("%s\n", name.c_str());
    return 0;
  }
  if (count != 5) return std::fprintf(stderr, "adapters_checks NAME BASE ADAPTER_1 ADAPTER_2, or --list\n"), 2;
  kChecks.at(arguments[1])({arguments[2], arguments[3], arguments[4]});
  return failures > 0;
} catch (const std::exception& error) {
  std::printf("%s\n", error.what());
  return 1;
}
