#include "base/flags.h"

#include <cstdlib>

namespace tenon {
namespace {

constexpr const char* kVariables[] = {
#define TENON_FLAG(name, variable, values, effect) variable,
#include "base/flags.def"
#undef TENON_FLAG
};

}  // namespace

const char* flag_name(Flag flag) { return kVariables[static_cast<int>(flag)]; }
const char* flag_text(Flag flag) { return std::getenv(flag_name(flag)); }
bool is_set(Flag flag) { return flag_text(flag) != nullptr; }

}  // namespace tenon
