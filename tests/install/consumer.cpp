// A user's program, built against the installed package alone.
#include <tenon/compile.h>
#include <tenon/inspect.h>
#include <torch/torch.h>

#include <fstream>
#include <iostream>
#include <set>
#include <string>

// Returns the OpenMP runtimes loaded in this process. Two of them would oversubscribe the cores.
std::set<std::string> openmp_runtimes() {
  std::set<std::string> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::string file = line.substr(line.rfind('/') + 1);
    if (line.find('/') != std::string::npos && (file.starts_with("libgomp") || file.starts_with("libiomp") || file.starts_with("libomp")))
      found.insert(file);
  }
  return found;
}

int main() {
  torch::nn::Linear model(4, 2);
  auto fast = tenon::compile(model);
  for (int i = 0; i < 4; ++i) {
    auto x = torch::randn({3, 4});
    if (!torch::equal(fast(x), model->forward(x))) return 1;
  }
  auto chain = tenon::compile([](const torch::Tensor& x) { return torch::relu(x * 2 + 1); });
  for (int i = 0; i < 4; ++i) {  // Large enough for several threads.
    auto x = torch::randn({1 << 20});
    if (!torch::allclose(chain(x), torch::relu(x * 2 + 1))) return 1;
  }
  std::cout << tenon::explain(fast) << tenon::explain(chain);
  std::cout << openmp_runtimes().size() << " OpenMP runtime\n";
  return tenon::explain(fast).answered >= 2 && tenon::explain(chain).answered >= 2 && openmp_runtimes().size() == 1 ? 0 : 1;
}
