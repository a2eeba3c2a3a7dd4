// Warnings to the user: whole lines on stderr that begin with "tenon: ".
//
// A warning says what happened, what it costs, and what to do about it. Both functions may be called from any thread; a
// signal handler must not call them, since they allocate and take a lock.
#pragma once

#include <string>

namespace tenon {

// Prints "tenon: <text>" and a newline to stderr, as one write.
void warn(const std::string& text);

// Warns once per key and process; returns whether it printed. Keys are stored until the process ends, so a key names a kind
// of event ("no address space for placeholders"), not an object. A warning per object needs a flag in that object and warn().
bool warn_once(const std::string& key, const std::string& text);

}  // namespace tenon
