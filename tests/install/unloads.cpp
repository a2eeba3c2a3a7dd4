// Loads two libraries with a compiled function each, unloads them, and continues with the tensors that they made and changed.
#include <dlfcn.h>
#include <torch/torch.h>

#include <cmath>
#include <iostream>
#include <memory>
#include <vector>

using Call = at::Tensor* (*)(at::Tensor*, const at::Tensor*);

int main(int argc, char** argv) {
  torch::NoGradGuard off;
  torch::Tensor state = torch::zeros({64}), plain = torch::zeros({64});
  std::vector<torch::Tensor> results, expected;
  for (int round = 0; round < 3; ++round) {
    std::vector<void*> libraries;
    std::vector<Call> calls;
    for (int i = 1; i < argc; ++i) {
      libraries.push_back(dlopen(argv[i], RTLD_NOW | RTLD_LOCAL));
      if (!libraries.back()) return std::cerr << dlerror() << "\n", 1;
      calls.push_back(reinterpret_cast<Call>(dlsym(libraries.back(), "call_compiled")));
    }
    for (int i = 0; i < 5; ++i)
      for (Call call : calls) {
        auto x = torch::randn({64});
        results.push_back(*std::unique_ptr<at::Tensor>(call(&state, &x)));
        plain.add_(x);
        expected.push_back(torch::relu(plain * 2 + x));
      }
    for (void* library : libraries) dlclose(library);
    state.add_(1);
    plain.add_(1);
    double sum = 0;
    for (int i = 0; i < 64; ++i) sum += state.const_data_ptr<float>()[i] - plain.const_data_ptr<float>()[i];
    if (std::abs(sum) > 1e-3) return std::cerr << "the state differs\n", 1;
  }
  for (size_t i = 0; i < results.size(); ++i)
    if (!torch::allclose(results[i] + 1, expected[i] + 1, 1e-5, 1e-5)) return std::cerr << "result " << i << " differs\n", 1;
  std::cout << "two plugins in one process: " << results.size() << " results equal\n";
}
