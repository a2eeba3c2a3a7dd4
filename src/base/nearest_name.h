// Finds what a user probably meant by a name that does not exist.
#pragma once

#include <string>
#include <vector>

namespace tenon {

// The name that was probably meant: the shortest one that contains the text, or else the one that differs from it by the fewest
// insertions, removals and replacements, at most three. Empty if there is none.
std::string nearest_name(const std::string& wanted, const std::vector<std::string>& names);

}  // namespace tenon
