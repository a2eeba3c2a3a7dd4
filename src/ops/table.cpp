#include "ops/table.h"

#include <unordered_map>

namespace tenon::ops {
namespace {

std::unordered_map<std::string, Facts> build() {
  std::unordered_map<std::string, Facts> table;
#define TENON_BREAK(op, what, instead) table[op].breaks = Break{what, instead};
#define TENON_MAY_THROW(op) table[op].may_throw = true;
#define TENON_BIRTH(op) table[op].birth = true;
#define TENON_HIDDEN_WRITE(op, operand, flag) table[op].hidden_writes.push_back({operand, flag});
#define TENON_OVERWRITE(op, operand) table[op].overwrites = operand;
#include "ops/ops.def"
#undef TENON_BREAK
#undef TENON_MAY_THROW
#undef TENON_BIRTH
#undef TENON_HIDDEN_WRITE
#undef TENON_OVERWRITE
  return table;
}

}  // namespace

const Facts* find(const std::string& op) {
  static const std::unordered_map<std::string, Facts> table = build();
  auto it = table.find(op);
  return it == table.end() ? nullptr : &it->second;
}

}  // namespace tenon::ops
