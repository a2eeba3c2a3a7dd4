// Trains adapters for tests/adapters/test_dropout.py, test_creation_goldens.py and tests/train/test_methods.py, which compare them with
// PEFT: adapters_fit fit|masks|derivative JOB, where JOB is a JSON file. Each command describes its job.
#include <ATen/Context.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn_like.h>
#include <ATen/record_function.h>
#include <tenon/adapters.h>
#include <tenon/control.h>
#include <torch/torch.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "adapters/net.h"
#include "adapters/tensors.h"
#include "base/error.h"

using namespace tenon;
using Json = nlohmann::ordered_json;

namespace {

using Outputs = std::map<std::string, at::Tensor>;
using Forward = std::function<at::Tensor(const at::Tensor&)>;

// A model or a tree with its bank, and a compiled call of it.
struct Setup {
  std::shared_ptr<Model> model;
  std::shared_ptr<TreeImpl> tree;
  std::unique_ptr<Bank> bank;
  Forward forward;

  void train(bool on) {
    if (model) model->train(on);
    else tree->train(on);
  }
};

// Reads "base" or "weights", "dtype", "backend", and "rows", which may be missing.
Setup make_setup(const Json& job) {
  Setup out;
  Options options{.backend = job.value("backend", "none"), .fullgraph = true};
  bool is_bf16 = job.value("dtype", "f32") == "bf16", has_rows = job.contains("rows");
  std::vector<std::string> names = job.value("rows", std::vector<std::string>());
  if (job.contains("base")) {
    out.model = load_model(job.at("base"), is_bf16 ? at::kBFloat16 : at::kFloat);
    out.bank = std::make_unique<Bank>(out.model);
    out.forward = [bank = out.bank.get(), run = compile(out.model, options), has_rows, names](const at::Tensor& x) mutable {
      return has_rows ? run(x, bank->rows(names)) : run(x);
    };
    return out;
  }
  out.tree = make_tree(read_tensors(job.at("weights").get<std::string>()));
  out.bank = std::make_unique<Bank>(out.tree);
  auto plain = compile(out.tree, options);
  auto rowed = compile(
      [tree = out.tree, bank = out.bank.get()](const at::Tensor& x, const Rows& rows) mutable {
        auto scope = bank->scope(rows);
        return tree->forward(x);
      },
      options);
  out.forward = [bank = out.bank.get(), plain, rowed, has_rows, names](const at::Tensor& x) mutable {
    return has_rows ? rowed(x, bank->rows(names)) : plain(x);
  };
  return out;
}

at::Tensor loss_of(const at::Tensor& logits, const Outputs& inputs) {
  namespace F = torch::nn::functional;
  if (logits.dim() == 2) return F::cross_entropy(logits.to(at::kFloat), inputs.at("labels"));
  at::Tensor ids = inputs.at("input"), kept = logits.narrow(1, 0, logits.size(1) - 1).to(at::kFloat);
  return F::cross_entropy(kept.reshape({-1, logits.size(2)}), ids.narrow(1, 1, ids.size(1) - 1).reshape({-1}));
}

std::vector<std::string> names_of(const Json& job) {
  std::vector<std::string> out;
  for (const Json& adapter : job.at("adapters")) out.push_back(adapter.at("name"));
  return out;
}

// Keeps the results of all random operators while it exists: masks of bernoulli_ as bytes, numbers of rand, randint and randperm.
class RecordDraws {
 public:
  RecordDraws() {
    drawn().clear();
    auto end = [](const at::RecordFunction& call, at::ObserverContext*) {
      std::string name = call.name();
      bool is_draw = name == "aten::bernoulli_" || name == "aten::rand" || name == "aten::randint" || name == "aten::randperm";
      // An operator may call the variant of itself that writes to a given tensor.
      if (!is_draw || std::string(call.overload_name()).ends_with("out")) return;
      at::Tensor result = call.outputs().at(0).toTensor().detach().contiguous().clone();
      name = name.substr(name.rfind(':') + 1);
      if (name == "bernoulli_") drawn().emplace_back("bernoulli", result.to(at::kByte));
      else drawn().emplace_back(name, result);
    };
    auto begin = [](const at::RecordFunction&) -> std::unique_ptr<at::ObserverContext> { return nullptr; };
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(begin, end).needsOutputs(true).scopes({at::RecordScope::FUNCTION}));
  }
  ~RecordDraws() { at::removeCallback(handle_); }
  RecordDraws(const RecordDraws&) = delete;
  RecordDraws& operator=(const RecordDraws&) = delete;

  // The operators and their results, in order.
  static std::vector<std::pair<std::string, at::Tensor>>& drawn() {
    static std::vector<std::pair<std::string, at::Tensor>> all;
    return all;
  }

 private:
  at::CallbackHandle handle_;
};

at::Tensor recorded_forward(Setup& setup, const at::Tensor& x, const std::string& prefix, Outputs& outputs) {
  RecordDraws draws;
  at::Tensor out = setup.forward(x);
  for (size_t i = 0; i < draws.drawn().size(); ++i)
    outputs[prefix + std::to_string(i) + "." + draws.drawn()[i].first] = draws.drawn()[i].second;
  return out;
}

// Trains by plain gradient descent and returns losses, gradients and final values.
void fit(Setup& setup, const Json& job, const std::string& prefix, Outputs& outputs) {
  Outputs inputs = read_tensors(job.at("inputs").get<std::string>());
  std::vector<std::string> names = names_of(job);
  setup.bank->use(job.value("use", names));
  setup.bank->train(names);
  setup.train(job.value("training", true));
  at::manual_seed(job.at("seed").get<uint64_t>());
  std::vector<at::Tensor> losses;
  for (int step = 0; step < job.at("steps").get<int>(); ++step) {
    std::string number = std::to_string(step) + ".";
    at::Tensor logits = job.value("draws", false) ? recorded_forward(setup, inputs.at("input"), prefix + "draw." + number, outputs)
                                                  : setup.forward(inputs.at("input"));
    at::Tensor loss = loss_of(logits, inputs);
    if (job.value("penalty", false)) loss = loss + setup.bank->penalty(names[0]);
    loss.backward();
    losses.push_back(loss.detach().to(at::kFloat));
    at::NoGradGuard no_grad;
    for (const std::string& name : names)
      for (const NamedTensor& parameter : setup.bank->parameters(name)) {
        at::Tensor leaf = parameter.value();
        if (!leaf.grad().defined()) continue;  // The step skipped the layer.
        outputs[prefix + "grad." + number + name + "." + parameter.key()] = leaf.grad().contiguous().clone();
        leaf.add_(leaf.grad(), -job.at("lr").get<double>());
      }
    if (job.value("allocate", false)) setup.bank->allocate_ranks(names[0], step);
    for (const std::string& name : names)
      for (const NamedTensor& parameter : setup.bank->parameters(name)) parameter.value().mutable_grad() = at::Tensor();
  }
  outputs[prefix + "next"] = at::rand({4}, at::kDouble);
  outputs[prefix + "loss"] = at::stack(losses);
  for (const std::string& name : names)
    for (const NamedTensor& parameter : setup.bank->parameters(name))
      outputs[prefix + "final." + name + "." + parameter.key()] = parameter.value().detach().contiguous().clone();
  setup.train(false);
  at::NoGradGuard no_grad;
  outputs[prefix + "eval"] = setup.forward(inputs.at("input")).to(at::kFloat).contiguous().clone();
}

// fit: "adapters" [{"name", "config"}], "create_seed", "inputs", "seed", "steps", "lr", "out". These may be missing: "use", "training",
// "draws" (keeps all random numbers), "penalty" and "allocate" (AdaLoRA's, for the first adapter), "save" (a directory for the first
// adapter), and "again", a list of adapters that then replace the first one and are trained in the same way; prints what was recorded
// meanwhile.
int run_fit(const Json& job) {
  Setup setup = make_setup(job);
  Outputs outputs;
  at::manual_seed(job.at("create_seed").get<uint64_t>());
  for (const Json& adapter : job.at("adapters")) setup.bank->create(adapter.at("name"), adapter.at("config").dump());
  fit(setup, job, "", outputs);
  if (job.contains("save")) setup.bank->save(names_of(job)[0], job.at("save"));
  for (int i = 0; i < 4 && job.contains("again"); ++i) fit(setup, job, "warm.", outputs);  // Graphs are built after some calls.
  size_t recorded = stats().recorded, graphs = stats().graphs;
  int number = 0;
  for (const Json& config : job.value("again", Json::array())) {
    std::string name = job.at("adapters")[0].at("name");
    setup.bank->train({});
    setup.bank->remove(name);
    setup.bank->create(name, config.dump());
    fit(setup, job, "again" + std::to_string(number++) + ".", outputs);
  }
  std::printf("recorded %zu graphs %zu\n", stats().recorded - recorded, stats().graphs - graphs);
  write_tensors(outputs, job.at("out"), "outputs.safetensors");
  return 0;
}

struct LineImpl : torch::nn::Module {
  explicit LineImpl(int64_t width) : line(register_module("line", torch::nn::Linear(torch::nn::LinearOptions(width, width).bias(false)))) {
    torch::NoGradGuard no_grad;
    line->weight.zero_();
  }
  at::Tensor forward(const at::Tensor& x) { return line(x); }
  torch::nn::Linear line;
};
TORCH_MODULE(Line);

// masks: a linear layer of zeros with LoRA adapters whose factors are the identity, so that the result is what dropout leaves of the input.
// "directories" by name, "inputs", "seed", "out", "use" or "rows", "transposed".
int run_masks(const Json& job) {
  at::Tensor x = read_tensors(job.at("inputs").get<std::string>()).at("input");
  if (job.value("transposed", false)) x = x.transpose(0, 1);
  Line net(x.size(-1));
  Bank bank(net);
  std::vector<std::string> names;
  for (const auto& [name, directory] : job.at("directories").items()) {
    bank.load(name, directory);
    names.push_back(name);
  }
  bank.train(names);
  if (job.contains("use")) bank.use(job.at("use").get<std::vector<std::string>>());
  auto forward = [&] {
    if (!job.contains("rows")) return net->forward(x);
    auto scope = bank.scope(bank.rows(job.at("rows").get<std::vector<std::string>>()));
    return net->forward(x);
  };
  Outputs outputs;
  at::manual_seed(job.at("seed").get<uint64_t>());
  at::Tensor y = forward();
  outputs["train"] = y.detach().contiguous().clone();
  outputs["next"] = at::rand({4}, at::kDouble);
  y.sum().backward();
  for (const std::string& name : names)
    for (const NamedTensor& parameter : bank.parameters(name)) outputs["grad." + name + "." + parameter.key()] = parameter.value().grad();
  net->eval();
  outputs["eval"] = forward().detach().contiguous().clone();
  net->train();
  {
    torch::NoGradGuard no_grad;
    outputs["no_grad"] = forward().contiguous().clone();
  }
  for (auto& [name, tensor] : outputs) tensor = tensor.contiguous();
  write_tensors(outputs, job.at("out"), "outputs.safetensors");
  return 0;
}

// derivative: compares the gradients with the change of the loss in a random direction, with the same masks. The fields are those of fit.
// Prints the two numbers.
int run_derivative(const Json& job) {
  Setup setup = make_setup(job);
  Outputs inputs = read_tensors(job.at("inputs").get<std::string>());
  at::manual_seed(job.at("create_seed").get<uint64_t>());
  for (const Json& adapter : job.at("adapters")) setup.bank->create(adapter.at("name"), adapter.at("config").dump());
  std::vector<at::Tensor> leaves, directions;
  setup.bank->train(names_of(job));
  for (const std::string& name : names_of(job))
    for (const NamedTensor& parameter : setup.bank->parameters(name)) leaves.push_back(parameter.value());
  for (const at::Tensor& leaf : leaves) directions.push_back(at::randn_like(leaf));
  setup.train(true);
  auto loss = [&] {
    at::manual_seed(job.at("seed").get<uint64_t>());
    return setup.forward(inputs.at("input")).pow(2).mean();
  };
  auto move = [&](double by) {
    at::NoGradGuard no_grad;
    for (size_t i = 0; i < leaves.size(); ++i) leaves[i].add_(directions[i], by);
  };
  for (int i = 0; i < 3; ++i) loss();  // Records the call.
  for (at::Tensor& leaf : leaves) leaf.mutable_grad() = at::Tensor();
  loss().backward();
  double expected = 0;
  for (size_t i = 0; i < leaves.size(); ++i)
    if (leaves[i].grad().defined()) expected += (leaves[i].grad().to(at::kDouble) * directions[i]).sum().item<double>();
  constexpr double kStep = 1e-3;
  move(kStep);
  double after = loss().item<double>();
  move(-2 * kStep);
  double before = loss().item<double>();
  std::printf("%.9g %.9g\n", expected, (after - before) / (2 * kStep));
  return 0;
}

}  // namespace

int main(int count, char** arguments) try {
  if (count != 3) return std::fprintf(stderr, "usage: adapters_fit fit|masks|derivative JOB\n"), 2;
  std::ifstream file(arguments[2]);
  Json job = Json::parse(file);
  if (job.contains("out")) std::filesystem::create_directories(job.at("out").get<std::string>());
  std::string command = arguments[1];
  if (command == "fit") return run_fit(job);
  if (command == "masks") return run_masks(job);
  if (command == "derivative") return run_derivative(job);
  return 2;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
