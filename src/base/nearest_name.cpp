#include "base/nearest_name.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tenon {
namespace {

size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);  // The distances of a prefix of `a` to all prefixes of `b`.
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t k = 0; k < b.size(); ++k)
      diagonal = std::exchange(row[k + 1], std::min({row[k + 1] + 1, row[k] + 1, diagonal + (a[i] != b[k])}));
  }
  return row.back();
}

}  // namespace

std::string nearest_name(const std::string& wanted, const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names)
    if (name.find(wanted) != std::string::npos && (out.empty() || name.size() < out.size())) out = name;
  if (!out.empty()) return out;
  size_t fewest = 4;
  for (const std::string& name : names)
    if (size_t edits = edit_distance(wanted, name); edits < fewest) fewest = edits, out = name;
  return out;
}

}  // namespace tenon
