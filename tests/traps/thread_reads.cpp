// Another thread reads an intermediate result through a pointer.
#include <thread>

#include "traps/trap.h"

namespace tenon::test {

struct ThreadReads : Trap {
  torch::Tensor body(torch::Tensor x) override {
    auto h = fc(x);
    double value = 0;
    std::thread other([&] { value = h.data_ptr<float>()[3]; });
    other.join();
    seen.push_back(value);
    return fc2(h);
  }
};
TENON_PROGRAM(ThreadReads);

}  // namespace tenon::test
