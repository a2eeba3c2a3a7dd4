// A transparent hash, so that maps with std::string keys can be searched by std::string_view without a copy.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

namespace tenon::tokens {

struct StringHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

}  // namespace tenon::tokens
