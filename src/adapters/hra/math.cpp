#include <ATen/ops/stack.h>
#include <ATen/TensorOperators.h>

#include "adapters/hra/hra.h"

namespace tenon::adapters {

namespace {

class Hra : public Cloneable<Hra, InputTransform> {
 public:
  Hra(at::Tensor directions, bool makes_orthogonal) : directions_(std::move(directions)), makes_orthogonal_(makes_orthogonal) {}

  const char* method() const override { return "HRA"; }
  std::vector<TensorField> tensor_fields() override { return {{"hra_u", &directions_}}; }
  bool transforms_in_reverse() const override { return true; }
  // Returns the normalized directions.
  at::Tensor prepare(const Layer&, double) const override {
    std::vector<at::Tensor> columns;
    for (const at::Tensor& column : directions_.unbind(1)) {
      at::Tensor u = column;
      for (const at::Tensor& before : makes_orthogonal_ ? columns : std::vector<at::Tensor>()) u = u - before * before.dot(column);
      columns.push_back(u / u.norm());
    }
    return at::stack(columns, 1);
  }

 protected:
  // Multiplying the weight by the reflections from first to last equals reflecting the input from last to first.
  at::Tensor transformed(const at::Tensor& x, const at::Tensor& prepared) const override {
    if (makes_orthogonal_) return x - 2 * x.matmul(prepared).matmul(prepared.t());
    at::Tensor out = x;
    for (int64_t i = prepared.size(1); i-- > 0;) {
      at::Tensor u = prepared.narrow(1, i, 1);
      out = out - 2 * out.matmul(u).matmul(u.t());
    }
    return out;
  }

 private:
  at::Tensor directions_;
  bool makes_orthogonal_;
};

}  // namespace

LayerAdapterPointer make_hra(at::Tensor directions, bool makes_orthogonal) {
  return std::make_shared<Hra>(std::move(directions), makes_orthogonal);
}

}  // namespace tenon::adapters
