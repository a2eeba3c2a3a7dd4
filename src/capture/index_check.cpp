#include "capture/index_check.h"

#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/per_thread.h"

namespace tenon::capture {
namespace {

// Describes the indices that an op accepts. All members but the last are argument positions.
struct IndexRule {
  int index;
  int size_of;        // The tensor whose size bounds the index.
  int dim;            // The dimension, or -1 - d for the fixed dimension d.
  int ignored;        // An index value that is always accepted, or -1.
  bool from_the_end;  // Negative indices count from the end.
};

constexpr std::pair<std::string_view, IndexRule> kRules[] = {
    {"aten::embedding", {1, 0, -1, -1, false}},       {"aten::index_select", {2, 0, 1, -1, false}}, {"aten::gather", {2, 0, 1, -1, false}},
    {"aten::nll_loss_forward", {1, 0, -2, 4, false}}, {"aten::index.Tensor", {1, 0, -1, -1, true}},
};

const IndexRule* rule_of(const c10::OperatorHandle& op) {
  auto& known = per_thread<std::unordered_map<const void*, const IndexRule*>>();
  auto [it, fresh] = known.emplace(&op.schema(), nullptr);
  if (fresh) {
    std::string name = op_name(op);
    for (const auto& [op_of_rule, rule] : kRules)
      if (op_of_rule == name) it->second = &rule;
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
  if (!index.is_contiguous()) return true;  // The kernel checks it when it runs.
  if (index.scalar_type() == at::kLong) return all_within<int64_t>(index, low, high, ignored, has_ignored);
  if (index.scalar_type() == at::kInt) return all_within<int32_t>(index, low, high, ignored, has_ignored);
  return true;
}

}  // namespace

c10::ArrayRef<int> index_arguments(const c10::OperatorHandle& op) {
  const IndexRule* rule = rule_of(op);
  return rule ? c10::ArrayRef<int>(&rule->index, 1) : c10::ArrayRef<int>();
}

namespace {

int64_t size_along(const at::Tensor& sized, int64_t dim) {
  if (sized.dim() == 0) return 1;
  if (dim < 0) dim += sized.dim();
  return sized.size(std::min<int64_t>(dim, sized.dim() - 1));
}

}  // namespace

std::optional<int64_t> index_limit(const c10::OperatorHandle& op, const Stack& stack) {
  const IndexRule* rule = rule_of(op);
  size_t first = stack.size() - op.schema().arguments().size();
  if (!rule || !stack[first + rule->index].isTensor()) return std::nullopt;
  int64_t dim = rule->dim < 0 ? -1 - rule->dim : stack[first + rule->dim].toInt();
  return size_along(stack[first + rule->size_of].toTensor(), dim);
}

bool indices_are_valid(const c10::OperatorHandle& op, const Stack& stack) {
  const IndexRule* rule = rule_of(op);
  if (!rule) return true;
  size_t first = stack.size() - op.schema().arguments().size();
  const at::Tensor& sized = stack[first + rule->size_of].toTensor();
  const c10::IValue& index = stack[first + rule->index];
  if (std::optional<int64_t> limit = index_limit(op, stack)) {
    int64_t ignored = rule->ignored < 0 ? 0 : stack[first + rule->ignored].toInt();
    return within(index.toTensor(), 0, *limit, ignored, rule->ignored >= 0);
  }
  int64_t dim = 0;
  for (const c10::IValue& item : index.toListRef()) {
    if (item.isTensor() && item.toTensor().defined() && !within(item.toTensor(), -size_along(sized, dim), size_along(sized, dim), 0, false))
      return false;
    ++dim;
  }
  return true;
}

}  // namespace tenon::capture
