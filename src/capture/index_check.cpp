#include "capture/index_check.h"

#include <unordered_map>

#include "base/per_thread.h"

namespace tenon::capture {
namespace {

// How an op says which indices it takes.
struct Row {
  int index;          // argument
  int size_of;        // argument whose extent bounds it
  int dim;            // argument with the dimension, or -1 - fixed dimension
  int ignored;        // argument with a value that is always good, or -1
  bool from_the_end;  // negative indices count from the end
};

const Row* row_of(const c10::OperatorHandle& op) {
  static const auto* rows = new std::unordered_map<std::string, Row>{
      {"aten::embedding", {1, 0, -1, -1, false}},   {"aten::index_select", {2, 0, 1, -1, false}},
      {"aten::gather", {2, 0, 1, -1, false}},       {"aten::nll_loss_forward", {1, 0, -2, 4, false}},
      {"aten::index.Tensor", {1, 0, -1, -1, true}},
  };
  auto& known = per_thread<std::unordered_map<const void*, const Row*>>();
  auto [it, fresh] = known.emplace(&op.schema(), nullptr);
  if (fresh) {
    auto row = rows->find(op_name(op));
    if (row != rows->end()) it->second = &row->second;
  }
  return it->second;
}

template <class T>
bool all_within(const at::Tensor& index, int64_t low, int64_t high, int64_t ignored, bool has_ignored) {
  const T* data = index.const_data_ptr<T>();
  for (int64_t i = 0; i < index.numel(); ++i)
    if ((data[i] < low || data[i] >= high) && !(has_ignored && data[i] == ignored)) return false;
  return true;
}

bool within(const at::Tensor& index, int64_t low, int64_t high, int64_t ignored, bool has_ignored) {
  if (!index.is_contiguous()) return true;  // the kernel will say
  if (index.scalar_type() == at::kLong) return all_within<int64_t>(index, low, high, ignored, has_ignored);
  if (index.scalar_type() == at::kInt) return all_within<int32_t>(index, low, high, ignored, has_ignored);
  return true;
}

}  // namespace

c10::ArrayRef<int> index_arguments(const c10::OperatorHandle& op) {
  const Row* row = row_of(op);
  return row ? c10::ArrayRef<int>(&row->index, 1) : c10::ArrayRef<int>();
}

bool indices_are_good(const c10::OperatorHandle& op, const Stack& stack) {
  const Row* row = row_of(op);
  if (!row) return true;
  size_t first = stack.size() - op.schema().arguments().size();
  const at::Tensor& sized = stack[first + row->size_of].toTensor();
  auto extent = [&](int64_t dim) {
    if (sized.dim() == 0) return int64_t{1};
    if (dim < 0) dim += sized.dim();
    return sized.size(std::min<int64_t>(dim, sized.dim() - 1));
  };
  const c10::IValue& index = stack[first + row->index];
  if (index.isTensor()) {
    int64_t dim = row->dim < 0 ? -1 - row->dim : stack[first + row->dim].toInt();
    int64_t ignored = row->ignored < 0 ? 0 : stack[first + row->ignored].toInt();
    return within(index.toTensor(), 0, extent(dim), ignored, row->ignored >= 0);
  }
  int64_t dim = 0;
  for (const c10::IValue& item : index.toListRef()) {
    if (item.isTensor() && item.toTensor().defined() && !within(item.toTensor(), -extent(dim), extent(dim), 0, false)) return false;
    ++dim;
  }
  return true;
}

}  // namespace tenon::capture
