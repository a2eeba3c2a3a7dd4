// Environment variables. base/flags.def lists all of them; docs/reference/environment.md is generated from it.
#pragma once

namespace tenon {

enum class Flag {
#define TENON_FLAG(name, variable, values, effect) name,
#include "base/flags.def"
#undef TENON_FLAG
};

const char* flag_name(Flag flag);
// The variable's text, or null if it is not set.
const char* flag_text(Flag flag);
bool is_set(Flag flag);

}  // namespace tenon
