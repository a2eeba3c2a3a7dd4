#include "ir/graph/graph.h"

namespace tenon::ir {

const char* input_role_name(InputRole role) {
  switch (role) {
    case InputRole::argument:
      return "argument";
    case InputRole::state:
      return "state";
    case InputRole::gradient:
      return "gradient";
    case InputRole::tangent:
      return "tangent";
    case InputRole::saved:
      return "saved";
  }
  return "?";
}

bool same(const Attribute& a, const Attribute& b) {
  if (a.index() != b.index()) return false;
  if (const auto* size = std::get_if<Size>(&a)) return same(*size, std::get<Size>(b));
  if (const auto* sizes = std::get_if<SizeList>(&a)) return same(*sizes, std::get<SizeList>(b));
  const auto *x = std::get_if<ScalarTensor>(&a), *y = std::get_if<ScalarTensor>(&b);
  if (x && std::holds_alternative<Size>(x->number) && std::holds_alternative<Size>(y->number))
    return x->dtype == y->dtype && x->plain == y->plain && same(std::get<Size>(x->number), std::get<Size>(y->number));
  return static_cast<const AttributeVariant&>(a) == static_cast<const AttributeVariant&>(b);
}

}  // namespace tenon::ir
