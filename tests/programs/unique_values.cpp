// unique(): the length of its result depends on the values.
#include "support/program.h"

namespace tenon::test {

struct UniqueValues : Program {
  torch::nn::Embedding table{10, 4};

  Tensors inputs(int shape) override { return {torch::randint(0, 10, {shape ? 9 : 6})}; }
  Tensors run(const Tensors& in) override {
    auto [values, inverse, counts] = torch::_unique2(in[0], true, true, true);
    return {table->forward(values).index_select(0, inverse), counts};
  }
  Tensors state() override { return table->parameters(); }
  std::string never_served() override { return "the shape depends on data"; }
};
TENON_PROGRAM(UniqueValues);

}  // namespace tenon::test
