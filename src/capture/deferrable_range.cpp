#include "capture/deferrable_range.h"

#include <algorithm>

#include "capture/stream.h"

namespace tenon::capture {

std::optional<DeferrableRange> deferrable_range(const Tape& tape, size_t begin, size_t end, const std::vector<int32_t>& given) {
  TapePosition first = position_at(tape, begin), last = position_at(tape, end);
  DeferrableRange range{begin, end, first.scalars, last.scalars, {}, {}};
  auto is_given = [&](size_t s) { return std::find(given.begin(), given.end(), static_cast<int32_t>(s)) != given.end(); };
  for (size_t s = first.storages; s < last.storages; ++s)
    if (tape.storages[s].made_by < static_cast<int32_t>(begin) && !is_given(s)) return std::nullopt;
  auto add = [&](std::vector<int32_t>& list, int32_t storage) {
    bool from_before = tape.storages[storage].made_by < static_cast<int32_t>(begin);
    if (from_before && std::find(list.begin(), list.end(), storage) == list.end()) list.push_back(storage);
  };
  for (size_t i = begin; i < end; ++i) {
    const TapeOp& op = tape.ops[i];
    if (op.immediate || op.absolute_offset) return std::nullopt;
    for_each_operand(op.args, [&](const TensorRef& ref) {
      if (ref.defined()) add(range.touches, ref.storage);
    });
    for (const TapeWrite& write : op.writes) add(range.writes, write.ref.storage);
  }
  return range;
}

}  // namespace tenon::capture
