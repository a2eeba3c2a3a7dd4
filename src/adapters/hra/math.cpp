#include <ATen/ops/stack.h>
#include <ATen/TensorOperators.h>

#include "adapters/hra/hra.h"

namespace tenon::adapters {

namespace {

class Hra : public PartOf<Hra, Turn> {
 public:
  Hra(at::Tensor directions, bool makes_orthogonal) : directions_(std::move(directions)), makes_orthogonal_(makes_orthogonal) {}

  const char* method() const override { return "HRA"; }
  std::vector<Slot> slots() override { return {{"hra_u", &directions_}}; }
  bool turns_in_reverse() const override { return true; }
  // The directions, each of length 1.
  at::Tensor ready(const Layer&, double) const override {
    std::vector<at::Tensor> columns;
    for (const at::Tensor& column : directions_.unbind(1)) {
      at::Tensor u = column;
      for (const at::Tensor& before : makes_orthogonal_ ? columns : std::vector<at::Tensor>()) u = u - before * before.dot(column);
      columns.push_back(u / u.norm());
    }
    return at::stack(columns, 1);
  }

 protected:
  // The weight times the mirrors from first to last is the input times them from last to first.
  at::Tensor turned(const at::Tensor& x, const at::Tensor& ready) const override {
    if (makes_orthogonal_) return x - 2 * x.matmul(ready).matmul(ready.t());
    at::Tensor out = x;
    for (int64_t i = ready.size(1); i-- > 0;) {
      at::Tensor u = ready.narrow(1, i, 1);
      out = out - 2 * out.matmul(u).matmul(u.t());
    }
    return out;
  }

 private:
  at::Tensor directions_;
  bool makes_orthogonal_;
};

}  // namespace

PartPointer make_hra(at::Tensor directions, bool makes_orthogonal) {
  return std::make_shared<Hra>(std::move(directions), makes_orthogonal);
}

}  // namespace tenon::adapters
