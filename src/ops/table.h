// The op table: what capture must know about an op beyond its schema. Rows live in ops.def.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace tenon::ops {

struct Break {
  std::string what;
  std::string instead;
};

struct HiddenWrite {
  int operand;
  int flag;
};

struct Facts {
  std::optional<Break> breaks;
  bool birth = false;
  bool may_throw = false;  // on the contents of its operands
  int overwrites = -1;     // the operand that it fills without reading it
  std::vector<HiddenWrite> hidden_writes;
};

// Facts of the op with this full name ("aten::add.Tensor"), or nullptr for an ordinary op.
const Facts* find(const std::string& op);

}  // namespace tenon::ops
