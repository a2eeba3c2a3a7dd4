// Cost of capture: recording, guards, and op-by-op graphs on small networks. Measures CPU time on one
// thread, with alternating variants; prints one JSON object per line.
#include <tenon/compile.h>
#include <tenon/inspect.h>
#include <torch/torch.h>

#include <cstdio>

#include "bench/timing.h"
#include "capture/guards.h"
#include "capture/listener.h"
#include "driver/recording.h"

using namespace tenon;
using bench::report;
using bench::side_by_side;
using torch::Tensor;

namespace {

torch::nn::Sequential mlp(int layers, int width) {
  torch::nn::Sequential net;
  for (int i = 0; i < layers; ++i) {
    net->push_back(torch::nn::Linear(width, width));
    net->push_back(torch::nn::ReLU());
  }
  return net;
}

// Time of a function compiled with aot_eager / time of the function itself.
template <class F, class... Args>
void small_net(const char* name, F function, std::vector<Watched> watch, Args... args) {
  auto fast = tenon::compile(function, {.backend = "aot_eager", .trust = Trust::pure, .name = name, .watch = std::move(watch)});
  for (int i = 0; i < 4; ++i) fast(args...);
  auto times = side_by_side({[&] { function(args...); }, [&] { fast(args...); }}, 61, 200);
  if (tenon::explain(fast).answered == 0)
    std::fprintf(stderr, "%s: no call was served by a graph\n%s", name, tenon::explain(fast).text().c_str());
  report(name, times[1] / times[0], "x eager", times[0], times[1]);
}

void recording_cost() {
  torch::nn::TransformerEncoderLayer block(torch::nn::TransformerEncoderLayerOptions(64, 4).dropout(0.0));
  Tensor x = torch::randn({8, 2, 64});
  size_t ops = 0;
  auto times = side_by_side({[&] { block->forward(x); },
                             [&] {
                               tenon::detail::Leaves in;
                               tenon::detail::collect(in, x);
                               driver::KnownLeaves known;
                               Options options;
                               auto recording = driver::record_run(in, options, known, [&]() -> tenon::detail::RecordedResult {
                                 Tensor y = block->forward(x);
                                 return {{}, std::make_shared<const std::any>(0)};
                               });
                               ops = recording->tape().ops.size();
                             }},
                            41, 5);
  report("recording_us_an_op", (times[1] - times[0]) * 1e6 / static_cast<double>(ops), "us over eager", times[0] / ops, times[1] / ops);
}

void guard_cost() {
  torch::nn::Sequential net = mlp(75, 16);  // A network with 150 parameters.
  auto function = [net](Tensor x) mutable { return net->forward(x); };
  Tensor x = torch::randn({1, 16});
  tenon::detail::Leaves in;
  tenon::detail::collect(in, x);
  driver::KnownLeaves known;
  Options options{.watch = {net}};
  auto recording = driver::record_run(in, options, known, [&]() -> tenon::detail::RecordedResult {
    Tensor y = function(x);
    return {{}, std::make_shared<const std::any>(0)};
  });
  volatile bool sink = false;
  auto times = side_by_side({[&] { sink = recording->guards.check(in, nullptr); }}, 61, 2000);
  report("guards_us_150_parameters", times[0] * 1e6, "us", 0, times[0]);
}

}  // namespace

int main() {
  at::set_num_threads(1);
  torch::manual_seed(0);
  {
    torch::nn::Sequential net = mlp(3, 128);
    auto function = [net](Tensor x) mutable { return net->forward(x); };
    Tensor x = torch::randn({1, 128});
    small_net("mlp_3x128_grad", function, {net}, x);
    torch::NoGradGuard no_grad;
    small_net("mlp_3x128_no_grad", function, {net}, x);
  }
  {
    torch::nn::LSTMCell cell(128, 128);
    auto function = [cell](Tensor x, Tensor h, Tensor c) mutable { return cell->forward(x, std::make_tuple(h, c)); };
    Tensor x = torch::randn({1, 128}), h = torch::randn({1, 128}), c = torch::randn({1, 128});
    small_net("lstm_step_grad", function, {cell}, x, h, c);
    torch::NoGradGuard no_grad;
    small_net("lstm_step_no_grad", function, {cell}, x, h, c);
  }
  recording_cost();
  guard_cost();
}
