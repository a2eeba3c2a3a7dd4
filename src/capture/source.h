// Source lines of the user's program. Return addresses are stored when an op is called; debug information is read only
// when a line is printed.
#pragma once

#include <string>
#include <vector>

namespace tenon::capture {

std::vector<void*> return_addresses();

// The location of the innermost frame that belongs neither to libtorch nor to Tenon, such as "policy.cpp:42", or
// "an unknown line (build with -g)". Starts a process (addr2line) for frames that are not cached.
std::string user_line(const std::vector<void*>& frames);
// Returns one line per stack. Starts one process per binary.
std::vector<std::string> user_lines(const std::vector<std::vector<void*>>& stacks);

}  // namespace tenon::capture
