// The program reads an intermediate result through an accessor and prints it.
#include <sstream>

#include "traps/trap.h"

namespace tenon::test {

struct AccessorAndPrint : Trap {
  torch::Tensor body(torch::Tensor x) override {
    auto h = fc(x).detach();
    auto rows = h.accessor<float, 2>();
    seen.push_back(rows[1][2]);
    std::ostringstream text;
    text << h.sum(1);
    seen.push_back(static_cast<double>(std::hash<std::string>()(text.str()) % 1000));
    return fc2(h);
  }
};
TENON_PROGRAM(AccessorAndPrint);

}  // namespace tenon::test
