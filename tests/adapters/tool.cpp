// Runs the operations of a bank on a base and two adapters, and writes the results; tests/adapters compares them with PEFT.
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/TensorOperators.h>
#include <tenon/adapters.h>
#include <tenon/control.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "adapters/tensors.h"
#include "base/error.h"
#include "regex/python.h"

using namespace tenon;

namespace {

using Outputs = std::map<std::string, at::Tensor>;

const std::vector<std::string> kBoth = {"adapter_1", "adapter_2"};
const std::vector<std::string> kMixed = {kBase, "adapter_1", "adapter_2", "adapter_1"};

// Runs everything that needs no gradients.
template <class F>
void infer(F& compiled, Bank& bank, const at::Tensor& input, const std::vector<std::string>& directories, const std::string& out,
           Outputs& outputs) {
  at::NoGradGuard no_grad;
  auto take = [&](const std::string& name) { outputs["out." + name] = compiled(input).clone(); };
  for (int i = 0; i < 4; ++i) take("base");
  Rows base = bank.rows({kBase, kBase, kBase, kBase});
  for (int i = 0; i < 4; ++i) compiled(input, base);  // Records the call with rows as well.
  size_t graphs = stats().graphs, recorded = stats().recorded;
  for (size_t i = 0; i < kBoth.size(); ++i) bank.load(kBoth[i], directories[i]);
  take("loaded");
  for (const std::string& name : kBoth) {
    bank.use(name);
    take(name);
  }
  {
    auto off = bank.disable();
    take("disabled");
  }
  take("enabled");
  try {
    bank.use(kBoth);
    take("both");
  } catch (const UserError& error) {
    std::printf("%s\n", error.what());
  }
  outputs["out.mixed"] = compiled(input, bank.rows(kMixed)).clone();
  // A sample's result does not depend on the other samples of the batch.
  outputs["out.beside"] = compiled(input, bank.rows({"adapter_2", "adapter_1", kBase, "adapter_1"})).clone();
  outputs["out.joined"] = compiled(input, bank.rows({"adapter_1", "adapter_1", "adapter_1", "adapter_1"})).clone();
  auto must_fail = [&](const char* what, auto&& f) {
    try {
      f();
    } catch (const UserError&) {
      return;
    }
    std::printf("not refused: %s\n", what);
  };
  must_fail("a scale of NaN", [&] { bank.set_scale("adapter_1", std::nan("")); });
  must_fail("merging twice", [&] { bank.merge({"adapter_1", "adapter_1"}); });
  bank.use("adapter_1");
  try {
    bank.merge({"adapter_1"});
    take("merged_1");
    must_fail("rows while merged", [&] { compiled(input, bank.rows(kMixed)); });
    bank.unmerge();
  } catch (const UserError& error) {
    std::printf("%s\n", error.what());
  }
  take("unmerged_1");
  try {
    bank.set_scale("adapter_1", 0);
    take("scaled_0");
    bank.set_scale("adapter_1", 1);
  } catch (const UserError& error) {
    std::printf("%s\n", error.what());
  }
  for (const std::string& name : kBoth) bank.save(name, out + "/" + name);
  Rows old = bank.rows(kMixed);
  bank.remove("adapter_1");
  take("removed");
  bank.load("adapter_1", directories[1]);
  bank.use("adapter_1");
  take("swapped");
  bank.load("adapter_1", directories[0]);
  size_t recorded_then = stats().recorded - recorded, graphs_then = stats().graphs - graphs;
  must_fail("rows of a removed adapter whose name was loaded again", [&] { compiled(input, old); });
  must_fail("three rows", [&] { compiled(input, bank.rows({kBase, kBase, kBase})); });
  must_fail("no rows", [&] { compiled(input, bank.rows({})); });
  must_fail("one row for four", [&] { compiled(input, bank.rows({kBase})); });
  std::printf("inference: recorded %zu graphs %zu\n", recorded_then, graphs_then);
}

template <class F>
void train(F& compiled, Bank& bank, const at::Tensor& input, Outputs& outputs) {
  at::AutoGradMode grad(true);
  auto take = [&](const std::string& kind, const std::vector<std::string>& names, auto&&... rows) {
    bank.train(names);
    auto go_back = [&](auto&& each) {
      (compiled(input, rows...).pow(2).sum() / 1000).backward();
      for (const std::string& name : names)
        for (const NamedTensor& parameter : bank.parameters(name))
          each(kind + "." + name + "." + parameter.key(), parameter.value().grad());
    };
    go_back([&](const std::string& key, const at::Tensor& grad) { outputs[key] = grad.contiguous().clone(); });
    go_back([&](const std::string& key, const at::Tensor& grad) {
      if (!at::allclose(grad, 2 * outputs[key], 1e-3, 1e-6)) throw InternalError("a second " + key + " is not added to the first");
    });
  };
  for (int i = 0; i < 4; ++i) {
    take("grad", kBoth);
    take("grad", kBoth, bank.rows(kMixed));
  }
  size_t graphs = stats().graphs, recorded = stats().recorded;
  for (const std::string& name : kBoth) {
    bank.use(name);
    take("grad", {name});
  }
  take("mixed_grad", kBoth, bank.rows(kMixed));
  bank.train({});
  std::printf("training: recorded %zu graphs %zu\n", stats().recorded - recorded, stats().graphs - graphs);
  at::NoGradGuard no_grad;
  outputs["out.trained"] = compiled(input, bank.rows(kMixed)).clone();
}

// load BASE ADAPTER: prints "loaded", or fails with the error.
int load(char** arguments) {
  auto model = load_model(arguments[0]);
  Bank bank(model);
  bank.load("good", arguments[1]);
  std::printf("loaded\n");
  return 0;
}

// use BASE INPUT ADAPTER OUT refuse|warn: writes the model's result with the adapter, and saves the adapter.
int use(char** arguments) {
  at::NoGradGuard no_grad;
  auto model = load_model(arguments[0]);
  Bank bank(model);
  bank.load("good", arguments[2], {.unmatched_patterns = std::string(arguments[4]) == "warn" ? Unmatched::warn : Unmatched::refuse});
  bank.use("good");
  std::string out = arguments[3];
  std::filesystem::create_directories(out);
  write_tensors({{"out", model->forward(read_tensors(arguments[1]).at("input"))}}, out, "outputs.safetensors");
  bank.save("good", out + "/saved");
  return 0;
}

// patterns FILE: reads a JSON list of [pattern, text]. Prints a line for each: the results of Python's re.match and re.fullmatch, or the
// error.
int patterns(char** arguments) {
  std::ifstream file(arguments[0]);
  for (const auto& pair : nlohmann::json::parse(file)) {
    try {
      regex::PythonRegex pattern(pair[0].get<std::string>(), ErrorCode::adapter, "pattern");
      auto text = pair[1].get<std::string>();
      std::printf("%d %d\n", pattern.match(text), pattern.fullmatch(text));
    } catch (const UserError& error) {
      std::printf("refused: %s\n", nlohmann::json(error.what()).dump().c_str());
    }
  }
  return 0;
}

// combine BASE INPUT ADAPTER_1 ADAPTER_2 OUT TYPE WEIGHT_1 WEIGHT_2 DENSITY SIGN: writes a weighted sum and the model's result with it.
int combine(char** arguments) {
  at::NoGradGuard no_grad;
  auto model = load_model(arguments[0]);
  at::Tensor input = read_tensors(arguments[1]).at("input");
  Bank bank(model);
  for (size_t i = 0; i < kBoth.size(); ++i) bank.load(kBoth[i], arguments[2 + i]);
  at::manual_seed(7);
  bank.combine("sum", {{kBoth[0], std::atof(arguments[6])}, {kBoth[1], std::atof(arguments[7])}},
               {.type = arguments[5], .density = std::atof(arguments[8]), .majority_sign = arguments[9]});
  bank.use("sum");
  std::string out = arguments[4];
  std::filesystem::create_directories(out);
  write_tensors({{"out", model->forward(input)}}, out, "outputs.safetensors");
  bank.save("sum", out + "/sum");
  return 0;
}

// train BASE ADAPTER: prints "trains", or fails with the error.
int train(char** arguments) {
  auto model = load_model(arguments[0]);
  Bank bank(model);
  bank.load("good", arguments[1]);
  bank.train({"good"});
  std::printf("trains\n");
  return 0;
}

// ranks BASE INPUT ADAPTER OUT BACKEND STEPS: trains an AdaLoRA adapter by plain gradient descent and saves it.
int ranks(char** arguments) {
  auto model = load_model(arguments[0]);
  at::Tensor input = read_tensors(arguments[1]).at("input");
  Bank bank(model);
  bank.load("good", arguments[2]);
  bank.use("good");
  bank.train({"good"});
  auto compiled = compile(model, {.backend = arguments[4], .fullgraph = true});
  size_t recorded = 0, graphs = 0;
  for (int step = 1; step <= std::atoi(arguments[5]); ++step) {
    if (step == 5) recorded = stats().recorded, graphs = stats().graphs;
    at::Tensor loss = compiled(input).pow(2).mean() + bank.penalty("good");
    loss.backward();
    at::NoGradGuard no_grad;
    auto parameters = bank.parameters("good");
    for (const NamedTensor& parameter : parameters) at::Tensor(parameter.value()).sub_(parameter.value().grad(), 0.05);
    bank.allocate_ranks("good", step);
    for (const NamedTensor& parameter : parameters) parameter.value().mutable_grad() = at::Tensor();
  }
  std::printf("recorded %zu graphs %zu\n", stats().recorded - recorded, stats().graphs - graphs);
  bank.save("good", arguments[3]);
  return 0;
}

}  // namespace

int main(int count, char** arguments) try {
  if (count == 4 && std::string(arguments[1]) == "load") return load(arguments + 2);
  if (count == 7 && std::string(arguments[1]) == "use") return use(arguments + 2);
  if (count == 3 && std::string(arguments[1]) == "patterns") return patterns(arguments + 2);
  if (count == 4 && std::string(arguments[1]) == "train") return train(arguments + 2);
  if (count == 8 && std::string(arguments[1]) == "ranks") return ranks(arguments + 2);
  if (count == 12 && std::string(arguments[1]) == "combine") return combine(arguments + 2);
  if (count < 6) return std::fprintf(stderr, "usage: adapters_tool BASE INPUTS ADAPTER_1 ADAPTER_2 OUT [BACKEND]\n"), 2;
  std::string out = arguments[5];
  std::filesystem::create_directories(out);
  auto model = load_model(arguments[1]);
  at::Tensor input = read_tensors(arguments[2]).at("input");
  Bank bank(model);
  auto compiled = compile(model, {.backend = count > 6 ? arguments[6] : "eager", .fullgraph = true});
  Outputs outputs;
  infer(compiled, bank, input, {arguments[3], arguments[4]}, out, outputs);
  train(compiled, bank, input, outputs);
  write_tensors(outputs, out, "outputs.safetensors");
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
