// Loads a library with a compiled function, unloads it, and continues to use the tensors that it created and modified.
#include <dlfcn.h>
#include <torch/torch.h>

#include <iostream>
#include <memory>
#include <vector>

int main(int, char** argv) {
  torch::NoGradGuard off;
  torch::Tensor state = torch::zeros({64}), plain = torch::zeros({64});
  std::vector<torch::Tensor> results, expected;
  for (int round = 0; round < 3; ++round) {
    void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!library) return std::cerr << dlerror() << "\n", 1;
    auto* call = reinterpret_cast<at::Tensor* (*)(at::Tensor*, const at::Tensor*)>(dlsym(library, "call_compiled"));
    for (int i = 0; i < 5; ++i) {
      auto x = torch::randn({64});
      results.push_back(*std::unique_ptr<at::Tensor>(call(&state, &x)));
      plain.add_(x);
      expected.push_back(torch::relu(plain * 2 + x));
    }
    dlclose(library);
    state.add_(1);
    plain.add_(1);
    double sum = 0;
    for (int i = 0; i < 64; ++i) sum += state.const_data_ptr<float>()[i] - plain.const_data_ptr<float>()[i];
    if (std::abs(sum) > 1e-3) return std::cerr << "the state differs\n", 1;
  }
  for (size_t i = 0; i < results.size(); ++i)
    if (!torch::allclose(results[i] + 1, expected[i] + 1, 1e-5, 1e-5)) return std::cerr << "result " << i << " differs\n", 1;
  std::cout << "unloads: all equal\n";
}
