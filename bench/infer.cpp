// Inference of one model with each C++ runtime: `bench_infer MODEL f32|bf16 BATCH THREADS [RUNTIME=FILE]...`
//
// The files are made by Python from the same model: script=x.pt (TorchScript), package=x.pt2 (AOTInductor).
// Prints the available runtimes. Then, for each input line "RUNTIME CALLS", prints the seconds per call, so
// that another program can alternate between several processes.
#include <tenon/compile.h>
#include <tenon/inspect.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/script.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <string>

#include "bench/bare.h"
#include "bench/by_hand.h"
#include "bench/models/bert.h"
#include "bench/models/gpt2.h"
#include "bench/models/llama.h"
#include "bench/models/resnet.h"
#include "bench/models/small.h"
#include "ir/graph/parse.h"

using namespace tenon;
using namespace tenon::bench;

namespace {

using Ways = std::map<std::string, std::function<Tensor()>>;

// The graph that the compiler receives for a call of the model.
template <class F>
ir::Graph graph_of(F forward, const std::vector<Tensor>& inputs) {
  std::string text;
  static int count = 0;
  std::string name = "listing" + std::to_string(count++);
  register_backend(name, [&](const std::string& graph, Runner op_by_op) {
    text = graph;
    return op_by_op;
  });
  Options options;
  options.backend = name;
  auto compiled = compile(forward, options);
  for (int i = 0; i < 4 && text.empty(); ++i) compiled(inputs);
  return ir::parse(text);
}

std::vector<int64_t> widths_of(Mlp model) {
  std::vector<int64_t> out = {model->layers[0]->as<torch::nn::Linear>()->options.in_features()};
  for (auto& layer : *model->layers) out.push_back(layer->as<torch::nn::Linear>()->options.out_features());
  return out;
}

// Runtimes of the files that Python made from the same model.
void add_files(Ways& ways, const std::vector<Tensor>& inputs, int argc, char** argv) {
  for (int i = 5; i < argc; ++i) {
    std::string argument = argv[i];
    std::string way = argument.substr(0, argument.find('=')), file = argument.substr(argument.find('=') + 1);
    if (way == "script") {
      auto module = std::make_shared<torch::jit::Module>(torch::jit::load(file));
      module->eval();
      *module = torch::jit::freeze(*module);
      *module = torch::jit::optimize_for_inference(*module);
      std::vector<c10::IValue> values(inputs.begin(), inputs.end());
      ways[way] = [=] { return module->forward(values).toTensor(); };
    } else {
      auto loader = std::make_shared<torch::inductor::AOTIModelPackageLoader>(file);
      ways[way] = [=] { return loader->run(inputs)[0]; };
    }
  }
}

template <class Model>
Ways ways_of(Model model, std::vector<Tensor> inputs, torch::ScalarType dtype, bool is_small, int argc, char** argv) {
  model->eval();
  model->to(dtype);
  for (Tensor& input : inputs)
    if (input.is_floating_point()) input = input.to(dtype);
  auto forward = [model](const std::vector<Tensor>& in) mutable {
    if constexpr (requires { model->forward(in[0], in[1], in[2]); }) return model->forward(in[0], in[1], in[2]);
    else return model->forward(in[0]);
  };
  Ways ways;
  ways["eager"] = [=]() mutable { return forward(inputs); };
  Options options;
  options.watch = {Watched(model.ptr())};
  auto checked = std::make_shared<Compiled<decltype(forward)>>(compile(forward, options));
  ways["tenon"] = [=] { return (*checked)(inputs); };
  options.trust = Trust::pure;
  auto pure = std::make_shared<Compiled<decltype(forward)>>(compile(forward, options));
  ways["tenon_pure"] = [=] { return (*pure)(inputs); };
  options.mode = Mode::reduce_overhead;
  auto lean = std::make_shared<Compiled<decltype(forward)>>(compile(forward, options));
  ways["tenon_lean"] = [=] { return (*lean)(inputs); };
  options.mode = Mode::max_autotune;
  auto tuned = std::make_shared<Compiled<decltype(forward)>>(compile(forward, options));
  ways["tenon_tuned"] = [=] { return (*tuned)(inputs); };
  if (const char* wanted = std::getenv("TENON_BENCH_EXPLAIN")) {
    for (int i = 0; i < 4; ++i) ways["tenon"]();
    std::fprintf(stderr, "%s\n", std::string(wanted) == "json" ? explain(*checked).json().c_str() : explain(*checked).text().c_str());
  }
  add_files(ways, inputs, argc, argv);
  if (is_small && dtype == torch::kFloat && inputs[0].size(0) == 1) {
    std::function<Tensor()> hand;
    if constexpr (std::is_same_v<Model, Mlp>) hand = by_hand(model, inputs[0], widths_of(model));
    if constexpr (std::is_same_v<Model, LstmStep>) hand = by_hand(model, inputs);
    if constexpr (std::is_same_v<Model, SmallCnn>) hand = by_hand(model, inputs[0]);
    if (hand) ways["by_hand"] = hand;
  }
  if (!is_small) {
    auto bare = std::make_shared<Bare>(graph_of(forward, inputs), dtype);
    ways["bare"] = [=] { return bare->run(), Tensor(); };
  }
  return ways;
}

Ways make(const std::string& name, torch::ScalarType dtype, int64_t batch, int argc, char** argv) {
  torch::manual_seed(0);
  auto ids = [&](int64_t vocabulary) { return torch::randint(3, vocabulary, {batch, 128}); };
  auto image = [&](int64_t size) { return torch::randn({batch, 3, size, size}); };
  if (name == "gpt2") return ways_of(Gpt2(Gpt2Sizes{}), {ids(50257)}, dtype, false, argc, argv);
  if (name == "bert") return ways_of(Bert(BertSizes{}), {ids(30522)}, dtype, false, argc, argv);
  if (name == "llama") return ways_of(Llama(LlamaSizes{}), {ids(32000)}, dtype, false, argc, argv);
  if (name == "vit") return ways_of(Vit(BertSizes{}), {image(224)}, dtype, false, argc, argv);
  if (name == "resnet50") return ways_of(ResNet50(), {image(224)}, dtype, false, argc, argv);
  auto row = [&](int64_t width) { return torch::randn({batch, width}); };
  if (name == "mlp3") return ways_of(Mlp(std::vector<int64_t>{128, 128, 128, 128}), {row(128)}, dtype, true, argc, argv);
  if (name == "mlp6") return ways_of(Mlp(std::vector<int64_t>{64, 256, 256, 256, 256, 256, 64}), {row(64)}, dtype, true, argc, argv);
  if (name == "lstm") return ways_of(LstmStep(128), {row(128), row(128), row(128)}, dtype, true, argc, argv);
  if (name == "cnn") return ways_of(SmallCnn(), {image(32)}, dtype, true, argc, argv);
  std::fprintf(stderr, "no model is named %s\n", name.c_str());
  std::exit(2);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fprintf(stderr, "usage: bench_infer MODEL f32|bf16 BATCH THREADS\n");
    return 2;
  }
  torch::NoGradGuard no_grad;
  torch::set_num_threads(std::atoi(argv[4]));
  Ways ways = make(argv[1], argv[2] == std::string("f32") ? torch::kFloat : torch::kBFloat16, std::atoll(argv[3]), argc, argv);
  Tensor expected = ways["eager"]().to(torch::kFloat);
  for (auto& [name, way] : ways) {
    for (int i = 0; i < 4; ++i) way();  // These calls record, build and pack.
    Tensor out = way();
    bool has_other_weights = name == "script" || name == "package";
    double error =
        out.defined() && !has_other_weights ? ((out.to(torch::kFloat) - expected).abs().max() / expected.abs().max()).item<double>() : 0;
    std::printf("%s %.1e ", name.c_str(), error);
  }
  std::printf("\n");
  std::fflush(stdout);
  std::string name;
  for (int calls = 0; std::cin >> name >> calls;) {
    auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) ways.at(name)();
    std::printf("%.9f\n", std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / calls);
    std::fflush(stdout);
  }
}
