// What a user's program looks like: built against the installed package alone.
#include <tenon/compile.h>
#include <tenon/inspect.h>
#include <torch/torch.h>

#include <iostream>

int main() {
  torch::nn::Linear model(4, 2);
  auto fast = tenon::compile(model);
  for (int i = 0; i < 4; ++i) {
    auto x = torch::randn({3, 4});
    if (!torch::equal(fast(x), model->forward(x))) return 1;
  }
  std::cout << tenon::explain(fast);
  return tenon::explain(fast).answered >= 2 ? 0 : 1;
}
